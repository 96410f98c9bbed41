"""Cutting cells out of an array, one axis at a time, and combining them."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax import Array, lax

from ._window import Axis, Geometry, cdiv

T = TypeVar("T")


def cut(x: Array, position: int, start: int, count: int, stride: int) -> Array:
    """Return ``count`` entries of an axis from ``start`` on, ``stride`` apart."""
    return lax.slice_in_dim(x, start, start + (count - 1) * stride + 1, stride, position)


def pad(x: Array, position: int, low: int, high: int, value: np.ndarray) -> Array:
    """Return ``x`` with ``low`` and ``high`` entries of ``value`` added to an axis."""
    config = [(0, 0, 0)] * x.ndim
    config[position] = (low, high, 0)
    return lax.pad(x, value, config)


def pad_all(x: Array, geometry: Geometry, value: np.ndarray) -> Array:
    """Return ``x`` with entries of ``value`` added so that every window lies inside."""
    for axis, position in geometry.placed:
        x = pad(x, position, *padding_of(axis), value)
    return x


def cells_at(padded: Array, taps: Sequence[int], geometry: Geometry) -> Array:
    """Return the cell of every window at ``taps``, one tap per pooled axis, of a padded array."""
    for (axis, position), tap in zip(geometry.placed, taps, strict=True):
        padded = cut(padded, position, tap * axis.dilation, axis.out, axis.stride)
    return padded


def join(parts: Sequence[Array], position: int) -> Array:
    """Return the parts end to end along an axis."""
    return parts[0] if len(parts) == 1 else lax.concatenate(parts, position % parts[0].ndim)


def padding_of(axis: Axis) -> tuple[int, int]:
    """Cells to add before and after an axis so that every window lies inside."""
    return axis.pad_low, max(0, axis.reach)


def column(values: Any, position: int, rank: int) -> np.ndarray:
    """One value per entry of an axis, in the shape of an array of ``rank`` axes."""
    shape = [1] * rank
    shape[position] = -1
    return np.reshape(values, shape)


def numbers(length: int, position: int, rank: int, dtype: Any) -> Array:
    """The number of each entry of an axis, in the shape of an array of ``rank`` axes.

    Made where it is used: a constant of the program would be kept as a residual of its derivative.
    """
    shape = [1] * rank
    shape[position] = length
    return lax.broadcasted_iota(dtype, shape, position % rank)


def tree(combine: Callable[[T, T], T], parts: Sequence[T]) -> T:
    """Combine neighbours in a balanced tree, in order: a short dependency chain."""
    while len(parts) > 1:
        pairs = [combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + list(parts[len(pairs) * 2 :])
    return parts[0]


def copies(x: T, axis: Axis, position: int, shifts: Sequence[int], last: bool) -> list[T]:
    """Return ``x`` from some taps on: at every place, or in a last step where windows start.

    An array, or a tuple of arrays that are cut alike.
    """

    def copied(a: Array, shift: int) -> Array:
        rest = a.shape[position] - shifts[-1] * axis.dilation
        count, stride = (axis.out, axis.stride) if last else (rest, 1)
        return cut(a, position, shift * axis.dilation, count, stride)

    return [jax.tree.map(functools.partial(copied, shift=shift), x) for shift in shifts]


def by_digits(x: T, axis: Axis, position: int, combine: Callable[[T, T], T]) -> list[T]:
    """Return windows of powers of two that make up those of an axis: each cell counts once."""
    parts, length, done = [], 1, 0
    while True:
        if axis.kernel & length:
            parts += copies(x, axis, position, [done], last=True)
            done += length
        if 2 * length > axis.kernel:
            return parts
        x = combine(*copies(x, axis, position, [0, length], last=False))
        length *= 2


def levels(kernel: int, radix: int) -> list[tuple[int, list[int]]]:
    """How to build a window from overlapping smaller ones, largest first.

    Returns:
      (window, shifts) of each level: copies of the next smaller window at these taps cover the
      window, and the last may overlap its neighbour; the smallest window is one tap, which has one
      level if it is the whole. A tap belongs to the first copy that holds it.
    """
    found = []
    while kernel > 1:
        inner = 1
        while inner * radix < kernel:
            inner *= radix
        inner = min(inner, cdiv(kernel, radix)) if radix > 2 else inner
        found.append((kernel, [*range(0, kernel - inner, inner), kernel - inner]))
        kernel = inner
    return found or [(1, [0])]
