"""Extend an axis past its ends by a border rule.

    border      before       the axis    after
    reflect     d c b a  |   a b c d  |  d c b a
    mirror        d c b  |   a b c d  |  c b a
    nearest     a a a a  |   a b c d  |  d d d d
    wrap        a b c d  |   a b c d  |  a b c d

Under reflect, mirror and wrap, the extended axis is part of an infinite periodic sequence. Every
border is built from slices, so that its transpose has no scatter.

Source: the manual of scipy.ndimage, "Filter functions".
"""

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from ..._geometry.axis import cdiv
from ..._geometry.layout import with_lengths
from ..._geometry.resolve import check_at_least
from .axis_slicing import concatenate, pad


def extend_axis(x: Array, position: int, low: int, high: int, border: str) -> Array:
    """Extend an axis of ``x`` by ``low`` entries before and ``high`` after it."""
    length = x.shape[position]
    if not isinstance(length, int) and border != "nearest":
        _check_symbolic(length, position % x.ndim, max(low, high), border)
    if border == "nearest" or length == 1:
        first, last = _slice(x, position, 0, 1), _slice(x, position, length - 1, length)
        ends = _broadcast_entry(first, position, low), _broadcast_entry(last, position, high)
        return concatenate([ends[0], x, ends[1]], position)
    before, after, period = _border_parts(x, border, position)
    size = before.shape[position]
    if max(low, high) > size:
        return _unroll_period(period, position, low, low + length + high)
    parts = _slice(before, position, size - low, size), x, _slice(after, position, 0, high)
    return concatenate(parts, position)


def _check_symbolic(length: Any, axis: int, size: int, border: str) -> None:
    """Raise unless a symbolic length is known to supply a border of ``size`` entries."""
    min_length = size + (border == "mirror")
    check_at_least(
        f"axis {axis}", length, min_length,
        f"Up to {size} elements past an end come from the axis itself: it must have at least "
        f"{min_length}.",
    )  # fmt: skip


def extend_nearest(x: Array, position: int, low: int, high: int) -> Array:
    """Extend an axis by repeating its first and last entry; negative numbers crop.

    An axis without entries is extended with zeros.
    """
    x = pad(x, position, min(low, 0), min(high, 0))
    low, high = max(low, 0), max(high, 0)
    if not x.shape[position]:
        return pad(x, position, low, high)
    return extend_axis(x, position, low, high, "nearest")


def _border_parts(x: Array, border: str, position: int) -> tuple[Array, Array, Array]:
    """Return the entries before the axis, those after it, and the period that begins with it."""
    if border == "wrap":
        return x, x, x
    length, flipped = x.shape[position], lax.rev(x, (position % x.ndim,))
    if border == "reflect":
        return flipped, flipped, concatenate([x, flipped], position)
    inner = _slice(flipped, position, 1, length - 1)
    before, after = _slice(flipped, position, 0, length - 1), _slice(flipped, position, 1, length)
    return before, after, concatenate([x, inner], position)


def _unroll_period(period: Array, position: int, low: int, count: int) -> Array:
    """Return ``count`` entries of a repeated period, with a period beginning at entry ``low``."""
    size = period.shape[position]
    first = -low % size
    copies = cdiv(first + count, size)
    return _slice(repeated(period, position, copies), position, first, first + count)


def repeated(x: Array, position: int, copies: int) -> Array:
    """Concatenate ``copies`` copies of ``x`` along an axis."""
    dimension, shape = position % x.ndim, list(x.shape)
    kept = [axis if axis < dimension else axis + 1 for axis in range(x.ndim)]
    copied = lax.broadcast_in_dim(x, (*shape[:dimension], copies, *shape[dimension:]), kept)
    shape[dimension] *= copies
    return copied.reshape(shape)


def _slice(x: Array, position: int, start: int, end: int) -> Array:
    return lax.slice_in_dim(x, start, end, axis=position)


def _broadcast_entry(x: Array, position: int, count: int) -> Array:
    return jnp.broadcast_to(x, with_lengths(x.shape, [position], [count]))
