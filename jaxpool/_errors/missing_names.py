"""Names that a module lacks: modules to import on first use, and advice for any other name.

Each function ``of_...`` returns the end of an error message, or "" if there is no advice.
"""

import importlib
import re
from collections.abc import Callable, Iterable
from typing import Any

from . import no_attribute

_FILTERS = r"\w+_filter(1d)?|(grey|binary)_\w+|morphological_\w+|(white|black)_tophat"
_OF_TORCH = "((adaptive|fractional)_)?max_pool|(adaptive_)?avg_pool|lp_pool|max_unpool"


def of_ops(name: str, ops: Iterable[str]) -> str:
    """Return where the op is that a user calls ``jaxpool.name``."""
    if re.fullmatch(r"\w+pool[123]d", name) and (op := _same(name, ops)):
        is_of_torch = re.fullmatch(_OF_TORCH, name[:-2])
        where = "; PyTorch's words are in jaxpool.compat.torch" if is_of_torch else ""
        return f": one {op} serves every rank{where}"
    if re.fullmatch("[A-Z][A-Za-z]+Pool.*|nn", name):
        return ": layers are in jaxpool.layers.linen, .nnx, .haiku and .equinox"
    if re.fullmatch(_FILTERS, name):
        return ": the filters of scipy.ndimage are in jaxpool.filters"
    if name == "pool_shards":
        return ": write jaxpool.sharding.pool_shards"
    if re.fullmatch(r"segment_\w+", name):
        return ": write jax.ops.segment_max or segment_sum; a mean is a quotient of two sums"
    if op := _same(name, ops):
        return f": write {op}"
    if op := _same(name.removeprefix("nan"), ops):
        return f": write {op}(..., where=~jnp.isnan(x))"
    rolling = re.fullmatch(r"(?:rolling|moving)_(\w+)", name)
    if rolling and (op := _same(f"{rolling[1]}_pool", ops)):
        return f": write {op} at stride 1"
    op = _same(name.removeprefix("global_"), ops)
    return f": give {op} a window of the full axes, such as x.shape[1:-1]" if op else ""


def of_layers(name: str, layers: Iterable[str], ops: Iterable[str]) -> str:
    """Return the layer of jaxpool, or the op without a layer, for the name of a layer."""
    if layer := _same(name, layers):
        return f": write {layer}, which serves every rank"
    if op := _same(name, ops):
        return f": it has no layer; call jaxpool.{op}"
    op = _same(name.removeprefix("Global"), ops)
    return f": it has no layer; give jaxpool.{op} a window of the full axes" if op else ""


def of_front_end(name: str, functions: Iterable[str]) -> str:
    """Return the function of a front end for the name of a layer or of a related function."""
    with_indices = name.removesuffix("_with_indices")
    if with_indices != name and with_indices in functions:
        return f": write {with_indices}(..., return_indices=True)"
    if re.fullmatch(r"(ps_)?roi_(align|pool)", name):
        return f": write jaxpool.{name}"
    if name in ("nn", "ops"):
        example = next(known for known in functions if re.match("max_?pool", known, re.IGNORECASE))
        return f": its names are in this module itself, such as {example}"
    if function := _same(name, functions):
        return f": write {function}; layers are in jaxpool.layers"
    if name == "Pool":  # of Equinox
        return ": write jaxpool.pool with a Reduction"
    if name.lower() in ("interpolate", "upsample"):
        return ": jax.image.resize resizes arrays"
    is_global = re.match("global_?(avg|average|max)", name, re.IGNORECASE)
    return ": jaxpool has global pools, such as jaxpool.global_avg_pool" if is_global else ""


def of_modules(name: str, modules: Iterable[str]) -> str:
    """Return the names of the modules of a package."""
    return f": it has {', '.join(modules)}"


def getter(
    module: str, hint: Callable[..., str], *names: Iterable[str], submodules: Iterable[str] = ()
) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module, which imports its ``submodules`` on first use.

    The error for any other name ends with ``hint(name, *names)``.
    """

    def __getattr__(name: str) -> Any:
        if name in submodules:
            return importlib.import_module(f".{name}", module)
        raise no_attribute(module, name, hint(name, *names))

    return __getattr__


def _same(name: str, names: Iterable[str]) -> str:
    """Return the entry of ``names`` for another spelling of it, with or without a rank, or ""."""
    exact = {_plain(known): known for known in sorted(names, key=len)}  # the newest version last
    without_rank = re.sub("[123]d$", "", _plain(name))
    return exact.get(_plain(name)) or exact.get(without_rank, "")


def _plain(name: str) -> str:
    lower = re.sub(r"_v\d+$", "", name.lower()).replace("_", "").replace("pooling", "pool")
    return re.sub("average|mean", "avg", lower)
