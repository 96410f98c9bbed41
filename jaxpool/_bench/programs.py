"""The two programs of a benchmark: the op of jaxpool, and the same by ``lax.reduce_window``."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._explain.explain import WITH_INDICES, Explanation
from .._lowerings.implementations.reduce_window import lax_settings
from .._lowerings.parts.axis_slicing import reshape_along
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


def ours(explanation: Explanation, data_format: str, implementation: str = "auto") -> Pool:
    """Return the function that calls the op of jaxpool."""
    window = explanation.window
    settings: dict[str, Any] = {"dilations": window.dilations, "rounding": window.rounding}
    settings["implementation"] = implementation
    if explanation.op == "avg_pool":
        settings["count_include_pad"] = explanation.count_include_pad
    window_arguments = (window.kernel, window.strides, window.padding)
    return lambda x: OPS[explanation.op](x, *window_arguments, data_format=data_format, **settings)


def theirs(explanation: Explanation) -> Pool:
    """Return the function that calls ``lax.reduce_window``.

    Sums of low-precision floats are accumulated in float32, as in jaxpool.
    """
    return functools.partial(_THEIRS[explanation.op], explanation)


def with_gradient(pool: Pool, explanation: Explanation) -> Callable[[Array, Array], Any]:
    """Return a function of an array and a cotangent: the values, and the cotangent of the array."""
    has_index = explanation.op in WITH_INDICES

    def step(x: Array, cotangent: Array) -> Any:
        y, transpose, *_ = jax.vjp(pool, x, has_aux=has_index)
        return y, transpose(cotangent)[0]

    return step


# --- lax.reduce_window ----------------------------------------------------------------------------


def _extreme(explanation: Explanation, x: Array) -> Array:
    reduction = MIN if explanation.op == "min_pool" else MAX
    start = identity_array(reduction, explanation.dtype)
    return _reduce_window(explanation, x, start, reduction.combine)


def _sum(explanation: Explanation, x: Array) -> Array:
    total = _accumulated_sum(explanation, x, sum_accumulator(explanation.dtype))
    return total.astype(sum_dtype(explanation.dtype))


def _average(explanation: Explanation, x: Array) -> Array:
    total = _accumulated_sum(explanation, x, accumulator(explanation.dtype))
    positions = explanation.geometry.positions
    for position, counts in zip(positions, explanation.divisors, strict=True):
        divisors = np.maximum(counts, 1).astype(total.dtype)  # the sum of an empty window is zero
        total = total / reshape_along(divisors, position, x.ndim)
    return total.astype(x.dtype)


def _accumulated_sum(explanation: Explanation, x: Array, dtype: np.dtype) -> Array:
    return _reduce_window(explanation, x.astype(dtype), np.zeros((), dtype), lax.add)


def _reduce_window(explanation: Explanation, operands: Any, starts: Any, combine: Any) -> Any:
    settings = lax_settings(explanation.geometry, len(explanation.input_shape))
    return lax.reduce_window(operands, starts, combine, **settings)


def _extreme_with_index(explanation: Explanation, x: Array) -> tuple[Array, Array]:
    """Return the extreme and its flat index over the pooled axes, -1 for an empty window."""
    geometry, sentinel = explanation.geometry, np.int32(np.iinfo(np.int32).max)
    indices = np.zeros((), np.int32)
    for axis, position in geometry.placed:
        indices = indices * axis.size + reshape_along(np.arange(axis.size), position, x.ndim)
    reduction, better = (MIN, lax.lt) if explanation.op == "min_pool_with_argmin" else (MAX, lax.gt)
    starts = identity_array(reduction, explanation.dtype), sentinel
    operands = x, jnp.broadcast_to(jnp.asarray(indices, np.int32), x.shape)
    y, index = _reduce_window(explanation, operands, starts, _better_pair(better))
    return y, jnp.where(index == sentinel, np.int32(-1), index)


def _better_pair(better: Callable[[Array, Array], Array]) -> Callable[[Pair, Pair], Pair]:
    """Return a reduction to the better of two (value, index) pairs; ties go to the lower index."""

    def choose(a: Pair, b: Pair) -> Pair:
        is_a = better(a[0], b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return jnp.where(is_a, a[0], b[0]), jnp.where(is_a, a[1], b[1])

    return choose


_THEIRS: dict[str, Callable[[Explanation, Array], Any]] = {
    "max_pool": _extreme,
    "max_pool_with_argmax": _extreme_with_index,
    "min_pool": _extreme,
    "min_pool_with_argmin": _extreme_with_index,
    "sum_pool": _sum,
    "avg_pool": _average,
}
