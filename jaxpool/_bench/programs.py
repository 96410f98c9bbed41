"""The same pool twice: the op of jaxpool, and ``lax.reduce_window`` over the same windows."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._explain.explain import WITH_INDICES, Explanation
from .._lowerings.implementations.reduce_window import configuration
from .._lowerings.parts.axis_slicing import broadcast_along
from ..ops import average, max
from ..reductions import MAX, MIN, accumulator, identity_array, sum_accumulator, sum_dtype

Pool = Callable[[Array], Any]
Pair = tuple[Array, Array]

OPS: dict[str, Callable[..., Any]] = {
    "max_pool": max.max_pool,
    "max_pool_with_argmax": max.max_pool_with_argmax,
    "min_pool": max.min_pool,
    "min_pool_with_argmin": max.min_pool_with_argmin,
    "sum_pool": average.sum_pool,
    "avg_pool": average.avg_pool,
}


def ours(found: Explanation, data_format: str, implementation: str = "auto") -> Pool:
    """The op of jaxpool."""
    window = found.window
    settings: dict[str, Any] = {"dilations": window.dilations, "rounding": window.rounding}
    settings["implementation"] = implementation
    if found.op == "avg_pool":
        settings["count_include_pad"] = found.count_include_pad
    asked = (window.kernel, window.strides, window.padding)
    return lambda x: OPS[found.op](x, *asked, data_format=data_format, **settings)


def theirs(found: Explanation) -> Pool:
    """The same by ``lax.reduce_window``; sums of narrow floats run in float32, as here."""
    return functools.partial(_THEIRS[found.op], found)


def with_gradient(pool: Pool, found: Explanation) -> Callable[[Array, Array], Any]:
    """The values, and the cotangent of the array for one of the values."""
    has_index = found.op in WITH_INDICES

    def step(x: Array, cotangent: Array) -> Any:
        y, transpose, *_ = jax.vjp(pool, x, has_aux=has_index)
        return y, transpose(cotangent)[0]

    return step


# --- lax.reduce_window ----------------------------------------------------------------------------


def _extreme(found: Explanation, x: Array) -> Array:
    reduction = MIN if found.op == "min_pool" else MAX
    start = identity_array(reduction, found.dtype)
    settings = configuration(found.geometry, x.ndim)
    return lax.reduce_window(x, start, reduction.combine, **settings)


def _sum(found: Explanation, x: Array) -> Array:
    return _wide_sum(found, x, sum_accumulator(found.dtype)).astype(sum_dtype(found.dtype))


def _average(found: Explanation, x: Array) -> Array:
    total = _wide_sum(found, x, accumulator(found.dtype))
    for (_, position), counts in zip(found.geometry.placed, found.divisors, strict=True):
        divisors = np.maximum(counts, 1).astype(total.dtype)  # an empty window holds zero
        total = total / broadcast_along(divisors, position, x.ndim)
    return total.astype(x.dtype)


def _wide_sum(found: Explanation, x: Array, dtype: np.dtype) -> Array:
    settings = configuration(found.geometry, x.ndim)
    return lax.reduce_window(x.astype(dtype), np.zeros((), dtype), lax.add, **settings)


def _extreme_with_index(found: Explanation, x: Array) -> tuple[Array, Array]:
    """A reduction of two operands; an index is flat over the pooled axes, -1 of an empty window."""
    geometry, last = found.geometry, np.int32(np.iinfo(np.int32).max)
    indices = np.zeros((), np.int32)
    for axis, position in geometry.placed:
        indices = indices * axis.size + broadcast_along(np.arange(axis.size), position, x.ndim)
    reduction, better = (MIN, lax.lt) if found.op == "min_pool_with_argmin" else (MAX, lax.gt)
    starts = identity_array(reduction, found.dtype), last
    settings = configuration(geometry, x.ndim)
    operands = x, jnp.broadcast_to(jnp.asarray(indices, np.int32), x.shape)
    y, index = lax.reduce_window(operands, starts, _chosen_by(better), **settings)
    return y, jnp.where(index == last, np.int32(-1), index)


def _chosen_by(better: Callable[[Array, Array], Array]) -> Callable[[Pair, Pair], Pair]:
    """What takes the better of two values with its index, of equal ones the first."""

    def chosen(a: Pair, b: Pair) -> Pair:
        is_a = better(a[0], b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return jnp.where(is_a, a[0], b[0]), jnp.where(is_a, a[1], b[1])

    return chosen


_THEIRS: dict[str, Callable[[Explanation, Array], Any]] = {
    "max_pool": _extreme,
    "max_pool_with_argmax": _extreme_with_index,
    "min_pool": _extreme,
    "min_pool_with_argmin": _extreme_with_index,
    "sum_pool": _sum,
    "avg_pool": _average,
}
