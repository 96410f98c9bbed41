"""The pages that are made from the package, so that they cannot grow stale.

* ``functions.md``: every public name, one line each, from ``jaxpool.__all__`` and the docstrings.
* ``reference/*.md``: the same names by group, with their whole docstrings; layers and front ends.
* ``notebooks/*.ipynb``: copies of the notebooks, whose output is stored in them.

They are not in the repository. A link that has to lead there names the source of the module, which
is; the site has the page of the reference in its place, or the list of functions for the package.

A public name that no group of ``GROUPS`` has, or a group with a name that is gone, stops the build.
"""

import importlib
import inspect
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jaxpool

_ROLE = re.compile(r":\w+:`([^`]+)`")


class Group(NamedTuple):
    """Public names that belong together, and the page of the reference that has them."""

    page: str
    title: str
    names: tuple[str, ...]


GROUPS = (
    Group(
        "maxima",
        "Maxima, minima and their indices",
        (
            "max_pool",
            "min_pool",
            "max_pool_with_argmax",
            "min_pool_with_argmin",
            "max_unpool",
        ),
    ),
    Group("averages", "Averages and sums", ("avg_pool", "sum_pool", "blur_pool", "max_blur_pool")),
    Group(
        "smooth",
        "Norms and smooth maxima",
        ("lp_pool", "gem_pool", "logsumexp_pool", "soft_pool"),
    ),
    Group("ranks", "Medians and ranks", ("median_pool", "rank_pool", "quantile_pool")),
    Group("statistics", "Variances and deviations", ("var_pool", "std_pool")),
    Group(
        "adaptive",
        "Adaptive pools",
        ("adaptive_avg_pool", "adaptive_max_pool", "adaptive_max_pool_with_argmax"),
    ),
    Group(
        "global",
        "Global pools",
        (
            "global_avg_pool",
            "global_max_pool",
            "global_max_pool_with_argmax",
            "global_min_pool",
            "global_lp_pool",
            "global_logsumexp_pool",
            "global_std_pool",
        ),
    ),
    Group(
        "random",
        "Random pools",
        ("fractional_max_pool", "fractional_max_pool_with_argmax", "stochastic_pool"),
    ),
    Group(
        "regions",
        "Pools of regions (RoIAlign, RoIPool)",
        ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool"),
    ),
    Group("custom", "Reductions of your own", ("pool", "Reduction", "windows")),
    Group(
        "geometry",
        "Geometry without arrays",
        ("output_shape", "geometry", "Window", "Geometry", "Axis"),
    ),
    Group(
        "explain",
        "What a call will do",
        ("explain", "Explanation", "receptive_field", "ReceptiveField"),
    ),
    Group(
        "patch",
        "Pools of installed libraries",
        ("patch", "unpatch", "Patch"),
    ),
)


class Module(NamedTuple):
    """A public module with a page of its own."""

    name: str
    title: str


MODULES = (
    Module("reductions", "Ready-made reductions"),
    Module("filters", "Filters, in the words of scipy.ndimage"),
    Module("sharding", "Pooled axes over several devices"),
    Module("testing", "An oracle by brute force, and poolings of published networks"),
    Module("layers.linen", "Layers for Flax Linen"),
    Module("layers.nnx", "Layers for Flax NNX"),
    Module("layers.haiku", "Layers and functions for Haiku"),
    Module("layers.equinox", "Layers for Equinox"),
    Module("compat.torch", "PyTorch's functions"),
    Module("compat.onnx", "ONNX operators"),
    Module("compat.openvino", "OpenVINO operations"),
    Module("compat.onednn", "oneDNN's primitive"),
    Module("compat.mli", "embARC MLI kernels"),
    Module("compat.tensorflow", "TensorFlow's functions"),
    Module("compat.keras", "Keras's functions"),
    Module("compat.flax", "Flax's functions"),
    Module("compat.haiku", "Haiku's functions"),
    Module("compat.equinox", "Equinox's layers"),
)


def check_groups() -> None:
    """Raise unless every public name is in exactly one group."""
    grouped = sorted(name for group in GROUPS for name in group.names)
    public = sorted(set(jaxpool.__all__) - {module.name for module in MODULES})
    if grouped != public:
        missing, gone = sorted(set(public) - set(grouped)), sorted(set(grouped) - set(public))
        raise ValueError(f"docs/_ext/made_pages.py: not in GROUPS {missing}; not public {gone}")


def summary(item: Any) -> str:
    """The first sentence of a docstring, as Markdown; values have none."""
    if isinstance(item, jaxpool.Reduction):
        return "A ready-made reduction."
    if isinstance(item, tuple) and not isinstance(item[0], str):
        return f"All that the library has: a tuple of {type(item[0]).__name__}."
    if not callable(item):
        return f"The words that are allowed: {', '.join(map(str, item))}."
    first = (inspect.getdoc(item) or "").split("\n\n")[0].replace("\n", " ")
    head, stop, _ = first.partition(". ")
    return _ROLE.sub(r"`\1`", head + stop.strip()).replace("``", "`")


def public_names(module: Any) -> list[str]:
    """What a module defines or exports for its users, in the order of its source."""
    if hasattr(module, "__all__"):
        shared = [n for n in module.__all__ if getattr(module, n) is getattr(jaxpool, n, None)]
        tables = [n for n in module.__all__ if isinstance(getattr(module, n), Mapping)]
        return [n for n in module.__all__ if n not in (*shared, *tables)]
    return [name for name, item in vars(module).items() if _is_public(module, name, item)]


def _is_public(module: Any, name: str, item: Any) -> bool:
    own = getattr(item, "__module__", None) == module.__name__
    return own and not name.startswith("_") and (inspect.isclass(item) or inspect.isfunction(item))


def entry(prefix: str, name: str) -> str:
    """A link and one line."""
    item = getattr(importlib.import_module(prefix), name)
    kind = "class" if inspect.isclass(item) else "func" if callable(item) else "data"
    return f"{{py:{kind}}}`{name} <{prefix}.{name}>`\n: {summary(item)}\n"


def functions_page() -> str:
    lines = ["# All functions", "", INTRODUCTION]
    for group in GROUPS:
        lines += ["", f"## {group.title}", "", ":::{div} functions", ""]
        lines += [*(entry("jaxpool", name) for name in group.names), ":::"]
    for module in MODULES:
        path = f"jaxpool.{module.name}"
        names = public_names(importlib.import_module(path))
        lines += ["", f"## [`{path}`](reference/{module.name}.md): {module.title}", ""]
        lines += [":::{div} functions", "", *(entry(path, name) for name in names), ":::"]
    return "\n".join([*lines, ""])


INTRODUCTION = """\
Every public name of jaxpool, one line each; a click leads to its arguments, edge cases and an
example. Ops over sliding windows share one signature:
`op(x, window_shape, strides, padding="VALID", *, dilations, rounding, data_format, where, ...)`."""


def group_page(group: Group) -> str:
    items = "\n".join(directive("jaxpool", name) for name in group.names)
    return f"# {group.title}\n\n```{{eval-rst}}\n{items}```\n"


def directive(prefix: str, name: str) -> str:
    """The directive that documents one name."""
    item = getattr(importlib.import_module(prefix), name)
    if inspect.isclass(item):
        own = "   :members:\n   :exclude-members: op, function\n"  # of layers: they have a page
        return f".. autoclass:: {prefix}.{name}\n{own}\n"
    if isinstance(item, tuple):  # of which Sphinx would say what a tuple is
        return f".. py:data:: {name}\n   :module: {prefix}\n\n   {summary(item)}\n\n"
    kind = "autofunction" if callable(item) else "autodata"
    options = "   :no-value:\n" if kind == "autodata" else ""
    return f".. {kind}:: {prefix}.{name}\n{options}\n"


def module_page(module: Module) -> str:
    path = f"jaxpool.{module.name}"
    found = importlib.import_module(path)
    items = "\n".join(directive(path, name) for name in public_names(found))
    text = f".. automodule:: {path}\n   :no-members:\n\n{items}"
    return f"# {module.title}\n\n```{{eval-rst}}\n{text}```\n"


def reference_index() -> str:
    lines = ["# API reference", "", "```{toctree}", ":caption: jaxpool", ":maxdepth: 1", ""]
    lines += [*(group.page for group in GROUPS), "```", ""]
    lines += ["```{toctree}", ":caption: Modules", ":maxdepth: 1", ""]
    lines += [*(f"jaxpool.{module.name} <{module.name}>" for module in MODULES), "```"]
    return "\n".join(lines) + "\n"


def made_pages() -> dict[str, str]:
    """The path of every page that is made, and its text."""
    check_groups()
    pages = {"functions.md": functions_page(), "reference/index.md": reference_index()}
    pages |= {f"reference/{group.page}.md": group_page(group) for group in GROUPS}
    return pages | {f"reference/{module.name}.md": module_page(module) for module in MODULES}


def write(folder: Path) -> None:
    """Write the pages below the folder of the sources, leaving alone what has not changed."""
    for name, text in made_pages().items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    (folder / "notebooks").mkdir(exist_ok=True)
    for notebook in (folder.parent / "notebooks").glob("*.ipynb"):
        shutil.copy2(notebook, folder / "notebooks")


_SOURCE = re.compile(r"\]\(\.\./((?:\.\./)*)jaxpool/([\w/]+)\.py\)")


def on_the_site(text: str) -> str:
    """The text of a page, with links to the pages of modules in place of those to their sources."""

    def page(match: re.Match[str]) -> str:
        up, path = match.groups()
        module = path.removesuffix("__init__").strip("/").replace("/", ".")
        return f"]({up}{f'reference/{module}' if module else 'functions'}.md)"

    return _SOURCE.sub(page, text)


def _read(app: Any, name: str, source: list[str]) -> None:
    source[0] = on_the_site(source[0])


def setup(app: Any) -> dict[str, Any]:
    """Sphinx calls this."""
    write(Path(app.srcdir))
    app.connect("source-read", _read)
    return {"version": "1", "parallel_read_safe": True}
