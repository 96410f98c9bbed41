"""The nine floors of the package: a file imports only from the floors above it.

``FLOORS`` lists the floors from the top, as ``docs/architecture.md`` does. Imports between the
files of a folder have no cycle, and large folders have inner floors. A new op, implementation or
front end is a new file in its folder; a new folder needs an entry in both lists.
"""

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import jaxpool

ROOT = Path(jaxpool.__file__).parent
ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"

FLOORS: tuple[tuple[str, ...], ...] = (
    ("_errors",),
    ("_geometry",),
    ("reductions",),
    ("_xla",),
    ("_lowerings",),
    ("_autodiff",),
    ("_numerics",),
    ("ops",),
    ("compat", "filters", "layers", "sharding", "_explain", "_bench", "_port"),
)
LEVELS = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}

INNER: dict[str, tuple[tuple[str, ...], ...]] = {
    "_lowerings": (
        ("tuning", "request", "result_cache"),
        ("parts",),
        ("implementations",),
        ("ranks", "ragged", "boxes", ""),
        ("box_bins", "box_elements"),
        ("plan",),
    ),
}
"""The floors of a folder that has folders; "" is its own ``__init__``."""

BESIDES = {
    "_port": {"compat", "_explain"},
    "_bench": {"_explain"},
    "layers": {""},
    "": {"_patch"},
    "_demo": {""},
    "__main__": {"", "_demo"},
}
"""What a room may import besides the floors above it; "" is the package, the public names."""

OUTSIDE = ("", "_patch", "_demo", "__main__")
"""Rooms below all floors."""

PURE = ("_errors", "_geometry")
"""Messages and geometry: nothing outside the standard library."""

APART = ("testing",)
"""Shares no code with the library, so that a fault cannot be on both sides of a test."""

ALLOWED = {"jax", "numpy"} | sys.stdlib_module_names
"""Top-level modules that the package may import. No framework, no runtime, no plotting."""

EXTRAS = {
    "_explain.picture": {"matplotlib"},
    "layers.linen": {"flax"},
    "layers._nnx_bases": {"flax"},
    "layers._haiku_bases": {"haiku"},
    "layers._equinox_bases": {"equinox"},
}
"""What single files may import besides, each an extra in pyproject.toml."""

PRIVATE = {"_src", "interpreters", "extend"}
"""Parts of JAX that are not its public face."""


def room(module: str) -> str:
    """Return the folder or top-level file of a module; "" is the package itself."""
    return module.partition(".")[0]


def module_name(path: Path, root: Path) -> str:
    """Return the module of a file in the package: "ops.max", or "" for its __init__."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules(root: Path) -> dict[str, Path]:
    """Return every module of the package at ``root``."""
    return {module_name(path, root): path for path in sorted(root.rglob("*.py"))}


def imports(module: str, known: Mapping[str, Path]) -> Iterator[str]:
    """Yield full names of the modules that ``module`` imports anywhere, also in functions.

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
    """Return the module that ``from source import name`` reads."""
    if source.partition(".")[0] == "jax" and name in PRIVATE:
        return f"{source}.{name}"
    inner = f"{source}.{name}".removeprefix("jaxpool.")
    return f"jaxpool.{inner}" if source.startswith("jaxpool") and inner in known else source


def attributes(path: Path) -> Iterator[str]:
    """Yield every dotted name in the text of a file, such as "jax.lax.add"."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node)


def faults(root: Path) -> list[str]:
    """Return every violation of the floors in the package at ``root``, as messages."""
    known, found, inside = modules(root), [], dict[str, set[str]]()
    for module in known:
        name = module or "__init__"
        if room(module) not in {*LEVELS, *OUTSIDE, *APART}:
            found.append(f"{name} is on no floor")
            continue
        for imported in imports(module, known):
            reason = _objection(module, imported)
            if reason:
                found.append(f"{name} imports {imported}: {reason}")
            inner = imported.removeprefix("jaxpool").removeprefix(".")
            if imported.partition(".")[0] == "jaxpool" and module and room(inner) == room(module):
                inside.setdefault(module, set()).add(inner)
        for attribute in filter(_is_private, attributes(known[module])):
            found.append(f"{name} uses {attribute}: not public JAX")
    return found + [f"{' imports '.join(cycle)}: a cycle" for cycle in _cycles(inside)]


def _objection(module: str, imported: str) -> str | None:
    top, here = imported.partition(".")[0], room(module)
    if top != "jaxpool":
        if here in PURE and top not in sys.stdlib_module_names:
            return "only the standard library may be used here"
        if _is_private(imported):
            return "not public JAX"
        return None if top in ALLOWED | EXTRAS.get(module, set()) else "not a dependency"
    inner = imported.removeprefix("jaxpool").removeprefix(".")
    there = room(inner)
    if here in APART and there != here:
        return "this file shares no code with the library"
    if not _may_import(here, there):
        return "not on a floor above"
    return _inner_objection(module, inner) if here == there else None


def _inner_objection(here: str, there: str) -> str | None:
    """Return why a file may not import another one of its folder, or None."""
    floors = INNER.get(room(here), ())
    levels = {name: level for level, names in enumerate(floors) for name in names}
    own, other = (room(name.partition(".")[2]) for name in (here, there))
    if not floors or own == other or levels[other] < levels[own]:
        return None
    return f"{other or room(there)} is not above {own} in the folder"


def _may_import(here: str, there: str) -> bool:
    if there in BESIDES.get(here, ()) or there == here != "":
        return True
    return LEVELS.get(there, len(FLOORS)) < LEVELS.get(here, len(FLOORS))


def _cycles(graph: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Yield a cycle from each module to itself, if there is one."""
    for start in graph:
        paths, seen = [[start]], set[str]()
        while paths:
            path = paths.pop()
            for following in graph.get(path[-1], ()):
                if following == start:
                    yield [*path, start]
                elif following not in seen:
                    seen.add(following)
                    paths.append([*path, following])


def _is_private(name: str) -> bool:
    top, *inner = name.split(".")
    return top in ("jax", "jaxlib") and bool(PRIVATE & set(inner) or top == "jaxlib")


def test_every_file_keeps_to_its_floor() -> None:
    assert faults(ROOT) == []


def test_every_room_of_the_picture_is_there() -> None:
    assert set(LEVELS) <= {room(module) for module in modules(ROOT)}


def test_the_architecture_shows_the_floors() -> None:
    rows = re.findall(r"^  (\w+)(?:/|\.py) +([\d ]) ", ARCHITECTURE.read_text(), re.MULTILINE)
    shown = {name: int(level) - 1 if level.strip() else None for name, level in rows}
    expected = {room(module): LEVELS.get(room(module)) for module in modules(ROOT)}
    assert shown == {name: level for name, level in expected.items() if name}


def test_files_are_short() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in modules(ROOT).values()}
    assert [str(path) for path, length in lengths.items() if length > LONGEST] == []


LONGEST = 350
"""Lines of a file, docstrings included; more are two rooms."""


def test_the_private_parts_exist() -> None:
    assert all(importlib.util.find_spec(f"jax.{name}") for name in PRIVATE)


# A file, its text, and the violation that it contains.
BAD = {
    "upward": (
        "_geometry/axis.py",
        "from .._lowerings.plan import Plan",
        "_geometry.axis imports jaxpool._lowerings.plan: not on a floor above",
    ),
    "a cycle": (
        "_lowerings/parts/phases.py",
        "from . import axis_slicing",
        "_lowerings.parts.phases imports _lowerings.parts.axis_slicing imports",
    ),
    "upward in a folder": (
        "_lowerings/parts/axis_slicing.py",
        "from ..implementations import doubling",
        "imports jaxpool._lowerings.implementations.doubling: implementations is not above parts",
    ),
    "the table in an implementation": (
        "_lowerings/implementations/doubling.py",
        "from .. import plan",
        "imports jaxpool._lowerings.plan: plan is not above implementations",
    ),
    "the public face": ("_lowerings/plan.py", "import jaxpool", "imports jaxpool: not on a floor"),
    "in a function": (
        "_errors/new.py",
        "def f():\n    from ..ops.max import max_pool\n    return max_pool",
        "_errors.new imports jaxpool.ops.max: not on a floor above",
    ),
    "by its full name": (
        "_lowerings/plan.py",
        "import jaxpool._autodiff.rules",
        "_lowerings.plan imports jaxpool._autodiff.rules: not on a floor above",
    ),
    "sideways": ("compat/torch.py", "from ..layers import linen", "compat.torch imports"),
    "not pure": ("_geometry/layout.py", "import numpy as np", "only the standard library"),
    "a picture elsewhere": ("_lowerings/plan.py", "import matplotlib", "not a dependency"),
    "a framework": ("_lowerings/plan.py", "import flax.linen", "flax.linen: not a dependency"),
    "another framework": ("layers/nnx.py", "import haiku", "layers.nnx imports haiku: not a dep"),
    "a framework for all layers": ("layers/_common.py", "import flax", "imports flax: not a dep"),
    "a layer above the ops": (
        "ops/max.py",
        "from ..layers._common import hashable",
        "ops.max imports jaxpool.layers._common: not on a floor above",
    ),
    "a framework in a function": ("ops/max.py", "def f():\n    import torch", "imports torch"),
    "private import": ("_xla/new.py", "from jax._src import core", "jax._src: not public JAX"),
    "private name": ("_xla/new.py", "from jax import _src", "jax._src: not public JAX"),
    "private attribute": ("_xla/new.py", "import jax\njax._src.core", "uses jax._src.core"),
    "jaxlib": ("_xla/new.py", "import jaxlib.xla_client", "jaxlib.xla_client: not public JAX"),
    "oracle": ("testing.py", "from ._geometry.axis import cdiv", "shares no code with the library"),
    "a file on no floor": ("new.py", "import jax", "new is on no floor"),
    "a folder on no floor": ("new/new.py", "import jax", "new.new is on no floor"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_breach_is_found(case: str, tmp_path: Path) -> None:
    file, text, expected = BAD[case]
    good = {
        "__init__.py": "",
        "_errors.py": "",
        "_geometry/axis.py": "from .._errors import message",
        "_lowerings/parts/phases.py": "",
        "_lowerings/parts/axis_slicing.py": "from . import phases",
        "_lowerings/implementations/doubling.py": "from ..parts import axis_slicing",
        "_lowerings/__init__.py": "from .implementations import doubling",
        "_lowerings/plan.py": "from . import doubling",
        "_autodiff/rules.py": "from .._lowerings.plan import Plan",
        "layers/_common.py": "import jaxpool",
        "ops/max.py": "from .._autodiff import rules",
    }
    for path, content in good.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    assert faults(tmp_path) == []
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    found = faults(tmp_path)
    assert any(expected in fault for fault in found), found
