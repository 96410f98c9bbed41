"""Pairs of a value and its window offset, and functions that combine pairs into an argmax."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry
from ..._xla.variadic_reduce import variadic_combine
from ...reductions import Reduction, identity_array
from .axis_slicing import tree_reduce, variadic_tree_reduce
from .window_counts import per_window

ValueOffset = tuple[Array, Array]
"""Values and the window offset of each; the sentinel for a window without an element."""


def offset_dtype(geometry: Geometry) -> np.dtype:
    """Return uint8 if every offset and the sentinel fit, else int32."""
    return np.dtype(np.uint8 if geometry.taps <= 255 else np.int32)


def sentinel(dtype: np.dtype) -> np.ndarray:
    """Return the offset of a window without an element: 255 in uint8, -1 in int32."""
    return np.asarray(-1).astype(dtype)


def unravel_offsets(offsets: Array, kernel: tuple[int, ...]) -> list[Array]:
    """Split row-major offsets into the offset along each pooled axis; sizes may be symbolic."""
    result = []
    for count in reversed(kernel):
        result.append(offsets % count)
        offsets = offsets // count
    return result[::-1]


def equal_or_both_nan(a: Array, b: Array) -> Array:
    """Return elementwise whether ``a`` equals ``b``, with NaN equal to NaN."""
    return (a == b) | ((a != a) & (b != b))


def initial_pair(x: Array, valid: Array | None, dtype: np.dtype) -> ValueOffset:
    """Return each element as a window of one tap: offset 0, or the sentinel if not ``valid``."""
    offsets = jnp.zeros(x.shape, dtype)
    return (x, offsets) if valid is None else (x, jnp.where(valid, offsets, sentinel(dtype)))


def add_offset(pair: ValueOffset, offset: int, may_be_empty: bool) -> ValueOffset:
    """Return ``pair`` with ``offset`` added to its offsets, except to sentinels.

    The sentinel is the largest unsigned integer; its sum wraps to a smaller one. A ``where`` with
    an offset of 1 is an addition with saturation to LLVM, and ptxas of CUDA 12.8 to 13.0 then
    inverts a comparison of the sum with the sentinel on GPUs from Hopper on.
    """
    if offset == 0:
        return pair
    values, offsets = pair
    moved = offsets + np.asarray(offset, offsets.dtype)
    if may_be_empty:
        moved = jnp.maximum(_unsigned(offsets), _unsigned(moved)).astype(offsets.dtype)
    return values, moved


def _unsigned(offsets: Array) -> Array:
    return offsets.astype(f"uint{8 * offsets.dtype.itemsize}")


def reduce_pairs(
    pairs: Sequence[ValueOffset], reduction: Reduction, may_be_empty: bool
) -> ValueOffset:
    """Return the preferred pair of every window, the first one of equal values.

    Args:
      pairs: the pairs, in the order of their offsets.
      reduction: a maximum or minimum.
      may_be_empty: whether offsets may be sentinels. A pair with a sentinel is never preferred,
        even to a pair with the value of the identity.
    """
    return tree_reduce(prefers_later(reduction, may_be_empty), pairs)


def reduce_pairs_variadic(
    pairs: Sequence[ValueOffset], reduction: Reduction, may_be_empty: bool
) -> ValueOffset:
    """Reduce pairs as :func:`reduce_pairs` does; on CPU, the last step is one loop."""
    identity = identity_pair(pairs[0], reduction)
    combine = prefers_later(reduction, may_be_empty)
    return variadic_tree_reduce(combine, pairs, identity, prefers_first(reduction))


def reduce_unordered_pairs(pairs: Sequence[ValueOffset], reduction: Reduction) -> ValueOffset:
    """Return the preferred pair of every window, of pairs in any order.

    Of equal values, the pair with the smallest offset is preferred. On CPU, the last step is one
    loop.
    """
    identity = identity_pair(pairs[0], reduction)
    return variadic_tree_reduce(prefers_first(reduction), pairs, identity)


def in_one_loop(pair: ValueOffset, reduction: Reduction) -> ValueOffset:
    """Return ``pair``, on CPU computed by one loop, which reduces it and an empty window's pair."""

    def first(a: ValueOffset, b: ValueOffset) -> ValueOffset:
        is_first = lax.le(_unsigned(a[1]), _unsigned(b[1]))
        return lax.select(is_first, a[0], b[0]), lax.select(is_first, a[1], b[1])

    identity = identity_pair(pair, reduction)
    empty = tuple(lax.full_like(a, scalar) for a, scalar in zip(pair, identity, strict=True))
    return variadic_combine(first, pair, empty, identity)


def identity_pair(pair: ValueOffset, reduction: Reduction) -> tuple[np.ndarray, np.ndarray]:
    """Return the pair of an empty window, in the dtypes of ``pair``."""
    values, offsets = pair
    return identity_array(reduction, values.dtype), sentinel(offsets.dtype)


def prefers_first(reduction: Reduction) -> Callable[[ValueOffset, ValueOffset], ValueOffset]:
    """Return a function of two pairs that prefers the smaller offset if their values are equal.

    Offsets are compared as unsigned integers, in which the sentinel is the largest. So the pair of
    the identity and the sentinel is not preferred to any pair.
    """
    comparator = reduction.comparator
    assert comparator is not None

    def combine(a: ValueOffset, b: ValueOffset) -> ValueOffset:
        first, second = _unsigned(a[1]), _unsigned(b[1])
        is_first, is_preferred = lax.lt(first, second), comparator(b[0], a[0])
        prefers_b = lax.select(is_first, is_preferred, lax.bitwise_not(comparator(a[0], b[0])))
        return lax.select(prefers_b, b[0], a[0]), lax.select(prefers_b, b[1], a[1])

    return combine


def prefers_later(
    reduction: Reduction, may_be_empty: bool
) -> Callable[[ValueOffset, ValueOffset], ValueOffset]:
    """Return a function of an earlier and a later pair that prefers the later only if strictly."""
    comparator = reduction.comparator
    assert comparator is not None

    def combine(a: ValueOffset, b: ValueOffset) -> ValueOffset:
        prefers_b = comparator(b[0], a[0])
        if may_be_empty:
            empty = sentinel(a[1].dtype)
            prefers_b = (b[1] != empty) & (prefers_b | (a[1] == empty))
        return lax.select(prefers_b, b[0], a[0]), lax.select(prefers_b, b[1], a[1])

    return combine


def set_sentinels(pair: ValueOffset, geometry: Geometry) -> ValueOffset:
    """Return ``pair`` with the sentinel for windows that contain only padding."""
    values, offsets = pair
    return values, fill_empty_windows(offsets, geometry, sentinel(offsets.dtype))


def fill_empty_windows(y: Array, geometry: Geometry, value: Any) -> Array:
    """Return ``y`` with ``value`` for windows that contain only padding."""
    for axis, position in geometry.placed:
        if axis.has_empty_window:
            count = per_window(axis.count_runs(include_pad=False), position, y.ndim)
            y = jnp.where(count == 0, value, y)
    return y
