"""Slices and pads along pooled axes, decompositions of long windows, and tree reductions."""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import jax
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis, cdiv
from ..._geometry.layout import with_lengths
from ..._geometry.resolve import Geometry
from ..._xla.crop import crop, crops
from ..._xla.narrow_integers import concatenate_in_bytes
from ..._xla.slice_stride import slice_stride
from ..._xla.variadic_reduce import variadic_combine

T = TypeVar("T")


def slice_axis(x: Array, position: int, start: int, count: int, stride: int) -> Array:
    """Return ``count`` entries of an axis: every ``stride``-th one, beginning at ``start``."""
    limit = start + (count - 1) * stride + 1
    return lax.slice_in_dim(x, start, limit, slice_stride(count, stride), position)


def pad(x: T, position: int, low: int, high: int, values: Any = 0) -> T:
    """Pad an axis with ``low`` entries before and ``high`` after; negative numbers crop."""
    return pad_axes(x, {position: (low, high, 0)}, values)


def pad_to_windows(x: T, geometry: Geometry, values: Any = 0) -> T:
    """Pad the pooled axes with ``values`` so that every window lies inside the array."""
    margins = {position: (*lax_padding(axis), 0) for axis, position in geometry.placed}
    return pad_axes(x, margins, values)


def with_padding(x: T, geometry: Geometry, values: Any = 0) -> tuple[Geometry, T]:
    """Return the same windows over :func:`pad_to_windows` of ``x``, and that array."""
    axes = tuple(
        replace(axis, size=axis.size + sum(lax_padding(axis)), pad_low=0, pad_high=0, overhang=0)
        for axis in geometry.axes
    )
    return Geometry(axes, geometry.positions), pad_to_windows(x, geometry, values)


def crop_padding(x: T, geometry: Geometry) -> T:
    """Crop the entries that :func:`pad_to_windows` adds."""
    margins = {position: lax_padding(axis) for axis, position in geometry.placed}
    return pad_axes(x, {position: (-low, -high, 0) for position, (low, high) in margins.items()})


def crop_after_windows(x: T, geometry: Geometry) -> T:
    """Crop the entries after the last window."""
    margins = {
        position: (0, max(axis.overshoot, -axis.size) - lax_padding(axis)[1], 0)
        for axis, position in geometry.placed
    }
    return pad_axes(x, margins)


def pad_axes(x: T, margins: Mapping[int, tuple[int, int, int]], values: Any = 0) -> T:
    """Pad several axes by a single ``lax.pad``: XLA:CPU makes a separate loop of each pad.

    Args:
      x: an array, or a pytree of arrays that are padded alike.
      margins: by axis, the entries to add before it, after it, and between its entries; negative
        numbers crop.
      values: the value of these entries, or a pytree with a value for each array.
    """
    if not any(any(margin) for margin in margins.values()):
        return x

    def pad_array(a: Array, value: Any) -> Array:
        config = [(0, 0, 0)] * a.ndim
        for position, margin in margins.items():
            config[position] = margin
        if crops(config):
            return crop(a, config)
        is_number = isinstance(value, (int, float))
        return lax.pad(a, np.asarray(value, a.dtype) if is_number else value, config)

    return jax.tree.map(pad_array, x, jax.tree.broadcast(values, x))


def input_shape(shape: Sequence[int], geometry: Geometry) -> tuple[int, ...]:
    """Return the shape of the array whose windows have ``shape``."""
    return with_lengths(shape, geometry.positions, geometry.spatial_shape)


def each_tap(geometry: Geometry) -> Iterator[tuple[int, ...]]:
    """Iterate over the taps of a window in row-major order, as one offset per pooled axis."""
    return itertools.product(*map(range, geometry.kernel))


def elements_at(padded: T, offsets: Sequence[int], geometry: Geometry) -> T:
    """Return the element of every window at one offset per pooled axis.

    ``padded`` is an array with its padding, or a pytree of arrays that are read alike.
    """

    def elements_of_array(a: Array) -> Array:
        starts, ends, strides = [0] * a.ndim, list(a.shape), [1] * a.ndim
        for (axis, position), offset in zip(geometry.placed, offsets, strict=True):
            starts[position] = offset * axis.dilation
            ends[position] = starts[position] + (axis.out - 1) * axis.stride + 1
            strides[position] = slice_stride(axis.out, axis.stride)
        return lax.slice(a, starts, ends, strides)

    return jax.tree.map(elements_of_array, padded)


def each_offset(x: Array, geometry: Geometry, padding: np.ndarray) -> Iterator[Array]:
    """Yield, for each offset in row-major order, the elements of all windows at that offset.

    Positions outside the array have the value ``padding``.
    """
    x = pad_to_windows(x, geometry, padding)
    for tap in each_tap(geometry):
        yield elements_at(x, tap, geometry)


def concatenate(parts: Sequence[Array], position: int) -> Array:
    """Concatenate arrays along an axis; a single array is returned as it is."""
    first = parts[0]
    return first if len(parts) == 1 else concatenate_in_bytes(parts, position % first.ndim)


def lax_padding(axis: Axis) -> tuple[int, int]:
    """Return the elements to add before and after an axis so that every window lies inside."""
    return axis.pad_low, max(0, axis.overshoot)


def is_padded(geometry: Geometry) -> bool:
    """Return whether some window extends past an end of its axis."""
    return any(any(lax_padding(axis)) for axis in geometry.axes)


def reshape_along(values: Any, position: int, rank: int) -> np.ndarray:
    """Reshape one value per entry of an axis so that it broadcasts to ``rank`` axes."""
    return np.reshape(values, with_lengths((1,) * rank, [position], [-1]))


def iota(length: int, position: int, rank: int, dtype: Any) -> Array:
    """Return the index of each entry of an axis, shaped to broadcast to ``rank`` axes.

    This is an operation, not a constant: JAX would keep a constant as a residual of the derivative.
    """
    shape = with_lengths((1,) * rank, [position], [length])
    return lax.broadcasted_iota(dtype, shape, position % rank)


def pooled_first(
    geometry: Geometry, rank: int
) -> tuple[tuple[int, ...], tuple[int, ...], Geometry]:
    """Return the permutation that moves pooled axes first, its inverse, and the moved geometry."""
    pooled = tuple(rank + position for position in geometry.positions)
    order = (*pooled, *(axis for axis in range(rank) if axis not in pooled))
    major = Geometry(geometry.axes, tuple(range(-rank, len(pooled) - rank)))
    return order, tuple(np.argsort(order).tolist()), major


def tree_reduce(combine: Callable[[T, T], T], parts: Sequence[T]) -> T:
    """Combine the parts in order, in a balanced tree, which has a short dependency chain."""
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
    """Reduce tuples of arrays as :func:`tree_reduce` does; on CPU, the last step is one loop."""
    half = len(parts) // 2
    if not half:
        return parts[0]
    first, second = (tree_reduce(combine, part) for part in (parts[:half], parts[half:]))
    return variadic_combine(combine, first, second, identity, unordered)


def shifted_slices(x: T, axis: Axis, position: int, shifts: Sequence[int], last: bool) -> list[T]:
    """Return one slice of ``x`` for each offset in ``shifts``.

    Args:
      x: an array, or a pytree of arrays that are sliced alike.
      axis, position: the axis, whose entries are elements or windows of stride 1.
      shifts: ascending offsets, in taps.
      last: whether to keep only the starts of the windows of ``axis``, rather than every entry at
        which all slices are defined.
    """

    def slice_array(a: Array, shift: int) -> Array:
        remaining = a.shape[position] - shifts[-1] * axis.dilation
        count, stride = (axis.out, axis.stride) if last else (remaining, 1)
        return slice_axis(a, position, shift * axis.dilation, count, stride)

    return [jax.tree.map(functools.partial(slice_array, shift=shift), x) for shift in shifts]


def digit_parts(
    x: T, axis: Axis, position: int, join: Callable[[list[T]], T], radix: int
) -> list[T]:
    """Split the windows of an axis into disjoint parts whose lengths are powers of ``radix``.

    The number of parts is the sum of the digits of the kernel in base ``radix``. For example, with
    radix 2, a kernel of 5 has the parts ``1 + 4``.

    Args:
      x: an array, or a pytree of arrays, that contains every window of ``axis``.
      axis, position: the axis.
      join: combines ``radix`` neighbouring parts of one length to one of ``radix`` times that.
      radix: the base.
    Returns:
      The reduction of each part, shortest first, for all windows.
    """
    parts, length, covered = [], 1, 0
    while True:
        for _ in range(axis.kernel // length % radix):
            parts += shifted_slices(x, axis, position, [covered], last=True)
            covered += length
        if radix * length > axis.kernel:
            return parts
        shifts = range(0, radix * length, length)
        x = join(shifted_slices(x, axis, position, shifts, last=False))
        length *= radix


def window_levels(kernel: int, radix: int) -> list[tuple[int, list[int]]]:
    """Return how to build a window from overlapping smaller windows, largest window first.

    Returns:
      A list of levels ``(window, shifts)``. Copies of the next smaller window at the offsets
      ``shifts`` cover the window; the last copy may overlap the one before. An offset belongs to
      the first copy that contains it. The smallest window is one element. For example,
      ``window_levels(5, 2)`` is ``[(5, [0, 1]), (4, [0, 2]), (2, [0, 1])]``; a kernel of 1 has the
      level ``(1, [0])``.
    """
    result = []
    while kernel > 1:
        inner = 1
        while inner * radix < kernel:
            inner *= radix
        inner = min(inner, cdiv(kernel, radix)) if radix > 2 else inner
        result.append((kernel, [*range(0, kernel - inner, inner), kernel - inner]))
        kernel = inner
    return result or [(1, [0])]
