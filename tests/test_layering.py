"""The layers of the package: a file imports only from the layers below it.

``LAYERS`` is the picture of the architecture, the lowest layer first. Files of one layer know
nothing of each other. A new lowering or op has its place already, by the row with a star; any other
new file needs a row here, which is the moment to think about its place.
"""

import ast
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import jaxpool

ROOT = Path(jaxpool.__file__).parent

LAYERS: tuple[tuple[str, ...], ...] = (
    ("_errors", "_batching", "_fence", "_mesh"),
    ("_arguments",),
    ("_window", "_data_format"),
    ("_cut", "_reductions"),
    ("_counts", "reductions", "_exact", "_linear", "_one_loop"),
    ("_pick",),
    ("lowerings._order", "_indices"),
    ("lowerings.*",),
    ("lowerings",),
    ("_plan",),
    ("_send",),
    ("_gather",),
    ("_derivatives",),
    ("ops",),
    ("ops._common",),
    ("ops._static", "ops._stacks", "ops._taps", "ops._runs", "ops._planes", "ops._sums"),
    ("ops._binary", "ops._parameters"),
    ("ops._terms", "ops._flat"),
    ("ops._norms",),
    ("ops.*",),
    ("compat",),
    ("compat._checks", "compat._floats", "compat._words"),
    ("compat.*",),
    ("_picture",),
    ("_explain",),
    ("_port",),
    ("sharding",),
    ("",),  # jaxpool/__init__.py: the public names
    ("layers",),
    ("layers._common",),
    ("layers.*",),
    ("testing",),
    ("_demo",),
    ("_demo.model",),
    ("_demo.show",),
    ("__main__",),
)
LEVELS = {module: level for level, row in enumerate(LAYERS) for module in row}


def level(module: str) -> int | None:
    """The layer of a module; a star stands for the public files of a folder that have no row."""
    folder, _, name = module.rpartition(".")
    if module in LEVELS or not folder or name.startswith("_"):
        return LEVELS.get(module)
    return LEVELS.get(f"{folder}.*")


PURE = ("_errors", "_arguments", "_window", "_data_format")
"""Geometry, layouts and messages: nothing outside the standard library."""

APART = ("testing",)
"""Shares no code with the library, so that a fault cannot be on both sides of a test."""

ALLOWED = {"jax", "numpy"} | sys.stdlib_module_names
"""Top-level modules that the package may import. No framework, no runtime, no plotting."""

EXTRAS = {
    "_picture": {"matplotlib"},
    "layers.linen": {"flax"},
    "layers.nnx": {"flax"},
    "layers.haiku": {"haiku"},
    "layers.equinox": {"equinox"},
}
"""What single files may import besides, each an extra in pyproject.toml."""

PRIVATE = {"_src", "interpreters", "extend"}
"""Parts of JAX that are not its public face."""


def module_name(path: Path, root: Path) -> str:
    """The module of a file, relative to the package: "ops.max", or "" for its __init__."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules(root: Path) -> dict[str, Path]:
    """Every module of the package at ``root``."""
    return {module_name(path, root): path for path in sorted(root.rglob("*.py"))}


def imports(module: str, known: Mapping[str, Path]) -> Iterator[str]:
    """Full names of the modules that ``module`` imports anywhere in its text, also in functions.

    A name taken from a package is the submodule of that name, if there is one, else the package.
    """
    here = module.split(".") if module else []
    if known[module].stem == "__init__":
        here.append("__init__")
    for node in ast.walk(ast.parse(known[module].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ["jaxpool", *here[: len(here) - node.level]] if node.level else []
            source = ".".join(base + ([node.module] if node.module else []))
            yield from (_taken(source, alias.name, known) for alias in node.names)


def _taken(source: str, name: str, known: Mapping[str, Path]) -> str:
    """The module that ``from source import name`` reads."""
    if source.partition(".")[0] == "jax" and name in PRIVATE:
        return f"{source}.{name}"
    inner = f"{source}.{name}".removeprefix("jaxpool.")
    return f"jaxpool.{inner}" if source.startswith("jaxpool") and inner in known else source


def attributes(path: Path) -> Iterator[str]:
    """Every dotted name in the text of a file, such as "jax.lax.add"."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node)


def faults(root: Path) -> list[str]:
    """Every breach of the layers in the package at ``root``, in words."""
    known = modules(root)
    found = [f"{module or '__init__'} is in no layer" for module in known if level(module) is None]
    for module in known:
        if level(module) is not None:
            for imported in imports(module, known):
                reason = _objection(module, imported)
                if reason:
                    found.append(f"{module or '__init__'} imports {imported}: {reason}")
        for name in attributes(known[module]):
            if _is_private(name):
                found.append(f"{module or '__init__'} uses {name}: not public JAX")
    return found


def _objection(module: str, imported: str) -> str | None:
    top = imported.partition(".")[0]
    if top != "jaxpool":
        if module in PURE and top not in sys.stdlib_module_names:
            return "only the standard library may be used here"
        if _is_private(imported):
            return "not public JAX"
        return None if top in ALLOWED | EXTRAS.get(module, set()) else "not a dependency"
    inner = imported.removeprefix("jaxpool").removeprefix(".")
    if module in APART:
        return "this file shares no code with the library"
    below, here = level(inner), level(module)
    if below is None or here is None:
        return "in no layer"
    return None if below < here else "not in a layer below"


def _is_private(name: str) -> bool:
    top, *inner = name.split(".")
    return top in ("jax", "jaxlib") and bool(PRIVATE & set(inner) or top == "jaxlib")


def test_every_file_keeps_to_its_layer() -> None:
    assert faults(ROOT) == []


def test_every_row_of_the_picture_is_a_file() -> None:
    known = modules(ROOT)
    starred = {f"{module.rpartition('.')[0]}.*" for module in known if module not in LEVELS}
    assert set(LEVELS) == {module for module in known if module in LEVELS} | starred


def test_the_private_parts_exist() -> None:
    assert all(importlib.util.find_spec(f"jax.{name}") for name in PRIVATE)


# A file, its text, and what must be found in it.
BAD = {
    "upward": ("_window.py", "from ._plan import Plan", "_window imports jaxpool._plan: not in a"),
    "sideways": (
        "lowerings/slices.py",
        "from . import doubling",
        "lowerings.slices imports jaxpool.lowerings.doubling: not in a layer below",
    ),
    "sibling op": (
        "ops/average.py",
        "from .max import max_pool",
        "ops.average imports jaxpool.ops.max: not in a layer below",
    ),
    "the public face": (
        "_plan.py",
        "import jaxpool",
        "_plan imports jaxpool: not in a layer below",
    ),
    "in a function": (
        "_errors.py",
        "def f():\n    from .ops.max import max_pool\n    return max_pool",
        "_errors imports jaxpool.ops.max: not in a layer below",
    ),
    "by its full name": (
        "_exact.py",
        "import jaxpool._derivatives",
        "_exact imports jaxpool._derivatives: not in a layer below",
    ),
    "not pure": ("_data_format.py", "import numpy as np", "only the standard library"),
    "a picture elsewhere": ("_plan.py", "import matplotlib", "matplotlib: not a dependency"),
    "a framework": ("_plan.py", "import flax.linen", "_plan imports flax.linen: not a dependency"),
    "another framework": ("layers/nnx.py", "import haiku", "layers.nnx imports haiku: not a dep"),
    "a framework for all layers": ("layers/_common.py", "import flax", "imports flax: not a dep"),
    "a layer below the ops": (
        "ops/max.py",
        "from ..layers._common import hashable",
        "ops.max imports jaxpool.layers._common: not in a layer below",
    ),
    "a framework in a function": ("ops/max.py", "def f():\n    import torch", "imports torch"),
    "private import": ("_plan.py", "from jax._src import core", "jax._src: not public JAX"),
    "private name": ("_plan.py", "from jax import _src", "jax._src: not public JAX"),
    "private attribute": ("_plan.py", "import jax\njax._src.core", "uses jax._src.core"),
    "jaxlib": ("_plan.py", "import jaxlib.xla_client", "jaxlib.xla_client: not public JAX"),
    "oracle": ("testing.py", "from ._window import cdiv", "shares no code with the library"),
    "a new op beside another": (
        "ops/new.py",
        "from .max import max_pool",
        "ops.new imports jaxpool.ops.max: not in a layer below",
    ),
    "a helper without a row": ("ops/_new.py", "import jax", "ops._new is in no layer"),
    "a file without a row": ("new.py", "import jax", "new is in no layer"),
    "a folder without a row": ("new/new.py", "import jax", "new.new is in no layer"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_breach_is_found(case: str, tmp_path: Path) -> None:
    file, text, expected = BAD[case]
    for path in ("__init__.py", "_errors.py", "_window.py", "_plan.py", "_derivatives.py",
                 "lowerings/doubling.py", "ops/max.py"):  # fmt: skip
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("from . import _errors" if path == "_plan.py" else "")
    assert faults(tmp_path) == []
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    found = faults(tmp_path)
    assert any(expected in fault for fault in found), found
