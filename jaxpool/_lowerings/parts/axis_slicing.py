"""Slices of an array along one axis at a time, and trees that combine them."""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis, cdiv
from ..._geometry.resolve import Geometry
from ..._xla.variadic_reduce import variadic_combine

T = TypeVar("T")


def slice_axis(x: Array, position: int, start: int, count: int, stride: int) -> Array:
    """Return ``count`` entries of an axis from ``start`` on, every ``stride``-th."""
    return lax.slice_in_dim(x, start, start + (count - 1) * stride + 1, stride, position)


def pad(x: T, position: int, low: int, high: int, values: Any) -> T:
    """Return ``x`` with ``low`` and ``high`` entries of ``values`` added to an axis.

    An array and a scalar, or a pytree of arrays and one of scalars.
    """
    return _padded(x, {position: (low, high)}, values)


def pad_all(x: T, geometry: Geometry, values: Any) -> T:
    """Return ``x`` with entries of ``values`` added so that every window lies inside."""
    return _padded(x, {at: lax_padding(axis) for axis, at in geometry.placed}, values)


def crop_behind(x: T, geometry: Geometry, values: Any) -> T:
    """Return ``x`` without what lies behind the last window; ``values`` are of its dtypes."""
    behind = {at: axis.reach - lax_padding(axis)[1] for axis, at in geometry.placed}
    return _padded(x, {at: (0, less) for at, less in behind.items()}, values)


def _padded(x: T, edges: Mapping[int, tuple[int, int]], values: Any) -> T:
    """Return ``x`` padded along some axes in one step: XLA:CPU makes a loop of each pad."""

    def padded(a: Array, value: np.ndarray) -> Array:
        config = [(0, 0, 0)] * a.ndim
        for position, edge in edges.items():
            config[position] = (*edge, 0)
        return lax.pad(a, value, config)

    return jax.tree.map(padded, x, values)


def each_place(geometry: Geometry) -> Iterator[tuple[int, ...]]:
    """Every offset of a window, row-major, as offsets along the pooled axes."""
    return itertools.product(*map(range, geometry.kernel))


def elements_at(padded: Array, offsets: Sequence[int], geometry: Geometry) -> Array:
    """Return the element of every window at one offset per pooled axis, of a padded array."""
    starts, ends, strides = [0] * padded.ndim, list(padded.shape), [1] * padded.ndim
    for (axis, position), offset in zip(geometry.placed, offsets, strict=True):
        starts[position] = offset * axis.dilation
        ends[position] = starts[position] + (axis.out - 1) * axis.stride + 1
        strides[position] = axis.stride
    return lax.slice(padded, starts, ends, strides)


def each_offset(x: Array, geometry: Geometry, padding: np.ndarray) -> Iterator[Array]:
    """Yield the elements at each offset of all windows, row-major; ``padding`` outside."""
    x = pad_all(x, geometry, padding)
    for place in each_place(geometry):
        yield elements_at(x, place, geometry)


def concatenate(parts: Sequence[Array], position: int) -> Array:
    """Return the parts as one array along an axis."""
    return parts[0] if len(parts) == 1 else lax.concatenate(parts, position % parts[0].ndim)


def lax_padding(axis: Axis) -> tuple[int, int]:
    """Return the elements to add before and after an axis so that every window lies inside."""
    return axis.pad_low, max(0, axis.reach)


def is_padded(geometry: Geometry) -> bool:
    """Whether some window reaches past an end of its axis."""
    return any(any(lax_padding(axis)) for axis in geometry.axes)


def broadcast_along(values: Any, position: int, rank: int) -> np.ndarray:
    """Return one value per entry of an axis, to broadcast to ``rank`` axes."""
    shape = [1] * rank
    shape[position] = -1
    return np.reshape(values, shape)


def iota(length: int, position: int, rank: int, dtype: Any) -> Array:
    """Return the index of each entry of an axis, to broadcast to ``rank`` axes.

    Made where it is used: a constant of the program would be kept as a residual of its derivative.
    """
    shape = [1] * rank
    shape[position] = length
    return lax.broadcasted_iota(dtype, shape, position % rank)


def pooled_first(
    geometry: Geometry, rank: int
) -> tuple[tuple[int, ...], tuple[int, ...], Geometry]:
    """The permutation of axes that puts the pooled ones first, its inverse, and the geometry."""
    pooled = tuple(rank + position for position in geometry.positions)
    order = (*pooled, *(axis for axis in range(rank) if axis not in pooled))
    major = Geometry(geometry.axes, tuple(range(-rank, len(pooled) - rank)))
    return order, tuple(np.argsort(order).tolist()), major


def tree_reduce(combine: Callable[[T, T], T], parts: Sequence[T]) -> T:
    """Combine neighbours in a balanced tree, in order: a short dependency chain."""
    while len(parts) > 1:
        pairs = [combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + list(parts[len(pairs) * 2 :])
    return parts[0]


def variadic_tree_reduce(
    combine: Callable[[Any, Any], Any],
    parts: Sequence[tuple[Array, ...]],
    identity: tuple[Any, ...],
    unordered: Callable[[Any, Any], Any] | None = None,
) -> Any:
    """:func:`tree_reduce` of tuples of arrays, whose last step is one loop on CPU."""
    half = len(parts) // 2
    if not half:
        return parts[0]
    first, second = (tree_reduce(combine, part) for part in (parts[:half], parts[half:]))
    return variadic_combine(combine, first, second, identity, unordered)


def shifted_slices(x: T, axis: Axis, position: int, shifts: Sequence[int], last: bool) -> list[T]:
    """Return ``x`` from some offsets on: at every element, or at last where windows start.

    An array, or a pytree of arrays that are sliced alike.
    """

    def sliced(a: Array, shift: int) -> Array:
        rest = a.shape[position] - shifts[-1] * axis.dilation
        count, stride = (axis.out, axis.stride) if last else (rest, 1)
        return slice_axis(a, position, shift * axis.dilation, count, stride)

    return [jax.tree.map(functools.partial(sliced, shift=shift), x) for shift in shifts]


def digit_parts(
    x: T, axis: Axis, position: int, joined: Callable[[list[T]], T], radix: int
) -> list[T]:
    """Return windows of powers of ``radix`` that make up those of an axis; no element is in two.

    Their number is the sum of the digits of the window's length.
    """
    parts, length, done = [], 1, 0
    while True:
        for _ in range(axis.kernel // length % radix):
            parts += shifted_slices(x, axis, position, [done], last=True)
            done += length
        if radix * length > axis.kernel:
            return parts
        shifts = range(0, radix * length, length)
        x = joined(shifted_slices(x, axis, position, shifts, last=False))
        length *= radix


def levels(kernel: int, radix: int) -> list[tuple[int, list[int]]]:
    """How to build a window from overlapping smaller ones, largest first.

    Returns:
      (window, shifts) of each level: copies of the next smaller window at these offsets cover the
      window, and the last may overlap its neighbour; the smallest window is one element, which has
      one level if it is the whole. An offset belongs to the first copy that holds it.
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
