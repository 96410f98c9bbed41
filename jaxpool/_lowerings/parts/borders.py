"""What stands past the ends of an axis that goes on.

    border      before       the axis    after
    reflect     d c b a  |   a b c d  |  d c b a
    mirror        d c b  |   a b c d  |  c b a
    nearest     a a a a  |   a b c d  |  d d d d
    wrap        a b c d  |   a b c d  |  a b c d

Under reflect, mirror and wrap the axis is one period of a sequence without end. Every border is
made of slices, so that its transpose has no scatter.

Source: the manual of scipy.ndimage, "Filter functions".
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import check_at_least
from .axis_slicing import concatenate, pad


def extended(x: Array, position: int, low: int, high: int, border: str) -> Array:
    """Return ``x`` with ``low`` entries before and ``high`` after those of an axis."""
    length = x.shape[position]
    if not isinstance(length, int) and border != "nearest":
        _check_symbolic(length, position % x.ndim, max(low, high), border)
    if border == "nearest" or length == 1:
        first, last = _part(x, position, 0, 1), _part(x, position, length - 1, length)
        ends = _repeated(first, position, low), _repeated(last, position, high)
        return concatenate([ends[0], x, ends[1]], position)
    before, after, period = _beyond(x, border, position)
    size = before.shape[position]
    if max(low, high) > size:
        return _unrolled(period, position, low, low + length + high)
    parts = _part(before, position, size - low, size), x, _part(after, position, 0, high)
    return concatenate(parts, position)


def _check_symbolic(length: Any, axis: int, most: int, border: str) -> None:
    """Raise unless a border is known to be no longer than what an axis has to give."""
    least = most + (border == "mirror")
    check_at_least(
        f"axis {axis}", length, least,
        f"By {border!r} up to {most} elements past an end come from the axis itself: it must hold "
        f"at least {least}.",
    )  # fmt: skip


def nearest(x: Array, position: int, low: int, high: int) -> Array:
    """Return ``x`` with its first and last entry repeated, or cut where a number is negative.

    An axis without entries gets zeros.
    """
    zero = np.zeros((), x.dtype)
    x = pad(x, position, min(low, 0), min(high, 0), zero)
    low, high = max(low, 0), max(high, 0)
    if not x.shape[position]:
        return pad(x, position, low, high, zero)
    return extended(x, position, low, high, "nearest")


def _beyond(x: Array, border: str, position: int) -> tuple[Array, Array, Array]:
    """What stands before the axis, what after it, and the period that begins with it."""
    if border == "wrap":
        return x, x, x
    length, back = x.shape[position], lax.rev(x, (position % x.ndim,))
    if border == "reflect":
        return back, back, concatenate([x, back], position)
    inner = _part(back, position, 1, length - 1)
    before, after = _part(back, position, 0, length - 1), _part(back, position, 1, length)
    return before, after, concatenate([x, inner], position)


def _unrolled(period: Array, position: int, low: int, count: int) -> Array:
    """``count`` entries of a repeated period; the one after ``low`` of them begins a period."""
    size = period.shape[position]
    first = -low % size
    copies = -(-(first + count) // size)
    return _part(repeated(period, position, copies), position, first, first + count)


def repeated(x: Array, position: int, copies: int) -> Array:
    """Return ``x`` so many times, one after the other."""
    at, shape = position % x.ndim, list(x.shape)
    kept = [axis if axis < at else axis + 1 for axis in range(x.ndim)]
    every = lax.broadcast_in_dim(x, (*shape[:at], copies, *shape[at:]), kept)
    shape[at] *= copies
    return every.reshape(shape)


def _part(x: Array, position: int, start: int, end: int) -> Array:
    return lax.slice_in_dim(x, start, end, axis=position)


def _repeated(x: Array, position: int, count: int) -> Array:
    shape = list(x.shape)
    shape[position] = count
    return jnp.broadcast_to(x, shape)
