"""Pairs of a value and its offset, and how two of them combine to an argmax."""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry
from ...reductions import Reduction, identity_array
from .axis_slicing import tree_reduce, variadic_tree_reduce
from .window_counts import per_window

ValueOffset = tuple[Array, Array]
"""Values and, for each, the offset it came from; the sentinel for a window without an element."""


def offset_dtype(geometry: Geometry) -> np.dtype:
    """uint8 while every offset and the sentinel fit, else int32."""
    return np.dtype(np.uint8 if geometry.taps <= 255 else np.int32)


def sentinel(dtype: np.dtype) -> np.ndarray:
    """The offset of a window without an element: 255 in uint8, -1 in int32."""
    return np.asarray(-1).astype(dtype)


def same(a: Array, b: Array) -> Array:
    """Whether elements are equal; two NaN are."""
    return (a == b) | ((a != a) & (b != b))


def initial_pair(x: Array, valid: Array | None, dtype: np.dtype) -> ValueOffset:
    """Every element as a window of its own; those that are not ``valid`` are empty windows."""
    offsets = jnp.zeros(x.shape, dtype)
    return (x, offsets) if valid is None else (x, jnp.where(valid, offsets, sentinel(dtype)))


def add_offset(pair: ValueOffset, offset: int, may_be_empty: bool) -> ValueOffset:
    """Return ``pair`` with ``offset`` added to its offsets; sentinels stay."""
    values, offsets = pair
    moved = offsets + np.asarray(offset, offsets.dtype)
    empty = offsets == sentinel(offsets.dtype)
    return values, jnp.where(empty, offsets, moved) if may_be_empty else moved


def reduce_pairs(
    pairs: Sequence[ValueOffset], reduction: Reduction, may_be_empty: bool
) -> ValueOffset:
    """Return the preferred pair of every window, the first of equals.

    Args:
      pairs: in the order of their offsets.
      reduction: a maximum or minimum.
      may_be_empty: whether offsets may be sentinels; such a pair loses even to the identity.
    """
    return tree_reduce(prefers_later(reduction, may_be_empty), pairs)


def reduce_pairs_variadic(
    pairs: Sequence[ValueOffset], reduction: Reduction, may_be_empty: bool
) -> ValueOffset:
    """:func:`reduce_pairs`, whose last step is one loop on CPU."""
    identity = _identity_pair(pairs[0], reduction)
    combine = prefers_later(reduction, may_be_empty)
    return variadic_tree_reduce(combine, pairs, identity, prefers_first(reduction))


def reduce_unordered_pairs(pairs: Sequence[ValueOffset], reduction: Reduction) -> ValueOffset:
    """The preferred of pairs in any order, of equals the one of the smallest offset; likewise."""
    identity = _identity_pair(pairs[0], reduction)
    return variadic_tree_reduce(prefers_first(reduction), pairs, identity)


def _identity_pair(like: ValueOffset, reduction: Reduction) -> tuple[np.ndarray, np.ndarray]:
    values, offsets = like
    return identity_array(reduction, values.dtype), sentinel(offsets.dtype)


def prefers_first(reduction: Reduction) -> Callable[[ValueOffset, ValueOffset], ValueOffset]:
    """Return the function that prefers, of two pairs with equal values, the smaller offset.

    Offsets are read as unsigned, so that the sentinel is the largest: the identity with
    the sentinel is preferred to no pair.
    """
    comparator = reduction.comparator
    assert comparator is not None

    def combine(a: ValueOffset, b: ValueOffset) -> ValueOffset:
        first, second = (t.astype(f"uint{8 * t.dtype.itemsize}") for t in (a[1], b[1]))
        take = jnp.where(first < second, comparator(b[0], a[0]), ~comparator(a[0], b[0]))
        return jnp.where(take, b[0], a[0]), jnp.where(take, b[1], a[1])

    return combine


def prefers_later(
    reduction: Reduction, may_be_empty: bool
) -> Callable[[ValueOffset, ValueOffset], ValueOffset]:
    """Return the function that prefers the later of two pairs only if it is strictly preferred."""
    comparator = reduction.comparator
    assert comparator is not None

    def combine(a: ValueOffset, b: ValueOffset) -> ValueOffset:
        take = comparator(b[0], a[0])
        if may_be_empty:
            empty = sentinel(a[1].dtype)
            take = (b[1] != empty) & (take | (a[1] == empty))
        return lax.select(take, b[0], a[0]), lax.select(take, b[1], a[1])

    return combine


def set_sentinels(pair: ValueOffset, geometry: Geometry) -> ValueOffset:
    """Return ``pair`` with the sentinel for the windows that lie on padding alone."""
    values, offsets = pair
    for axis, position in geometry.placed:
        if axis.has_empty_window:
            count = per_window(axis.count_runs(include_pad=False), position, offsets.ndim)
            offsets = jnp.where(count == 0, sentinel(offsets.dtype), offsets)
    return values, offsets
