"""Unpooling by window offsets, as in the backward pass of max pooling, without a scatter.

Values are written to the argmax in the same way as the cotangents of max pooling, and the transpose
is the gather of that rule. If several windows name the same element, the last window, in row-major
order, writes it and the earlier ones are dropped. Windows ``o`` and ``o + d`` name the same element
if the tap of ``o`` is ``t`` and that of ``o + d`` is ``t - d * stride / dilation``, so a comparison
of shifted offsets finds these cases.

If the window of a flat index is known, an index inside its own window is equivalent to a window
offset. Whether all indices are, is checked at run time; otherwise all values are written by flat
indices.
"""

import functools
import itertools
from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._autodiff import flat_index
from .._autodiff.gather import gather, scatter
from .._autodiff.linear import linear_map
from .._geometry.axis import Axis
from .._geometry.resolve import Geometry, is_static
from .._lowerings.parts.argreduce import offset_dtype, sentinel, unravel_offsets
from .._lowerings.parts.axis_slicing import pad
from .._lowerings.tuning import MAX_SLICED_OFFSETS
from .._numerics.indices import coordinates
from .._xla.any_in_batch import any_in_batch

_MAX_TAPS = min(MAX_SLICED_OFFSETS, 127)  # _overwritten compares offsets in int8


def write_by_offsets(y: Array, indices: Array, shape: tuple[int, ...], geometry: Geometry) -> Array:
    """Return an array of ``shape`` with ``y`` at the window offsets ``indices``, zeros elsewhere.

    ``geometry`` describes windows over the result. An offset outside the window is dropped.
    """
    offsets = jnp.where(flat_index.in_bounds(indices, geometry.taps), indices.astype(jnp.int32), -1)
    if not _needs_no_scatter(geometry):
        positions = geometry.positions
        target = flat_index.target(shape, positions, y.shape, positions)
        return flat_index.write(y, _flat_indices(offsets, geometry), target)
    return _write_at_offsets(y, offsets.astype(offset_dtype(geometry)), shape, geometry)


def write_by_indices(
    y: Array, indices: Array, target: flat_index.Target, geometry: Geometry
) -> Array:
    """Return :func:`flat_index.write`, computed by offsets if every index is in its own window.

    An index that does not count a pooled axis has no offset on that axis.
    """
    counts_every_axis = {*geometry.positions} <= {*target.axes}
    if not (counts_every_axis and is_static(target.lengths) and _needs_no_scatter(geometry)):
        return flat_index.write(y, indices, target)
    offsets, outside = _offsets(flat_index.checked(indices, target), target, geometry)
    return lax.cond(
        any_in_batch(outside),
        lambda y, indices, _: flat_index.write(y, indices, target),
        lambda y, _, offsets: _write_at_offsets(y, offsets, target.shape, geometry),
        *(y, indices, offsets),
    )


def _needs_no_scatter(geometry: Geometry) -> bool:
    return geometry.is_non_overlapping or geometry.taps <= _MAX_TAPS


def _write_at_offsets(
    y: Array, offsets: Array, shape: tuple[int, ...], geometry: Geometry
) -> Array:
    offsets = _last_writers(offsets, geometry)
    forward, transpose = (
        functools.partial(f, offsets=offsets, geometry=geometry) for f in (scatter, gather)
    )
    if jnp.issubdtype(y.dtype, jnp.inexact):
        return linear_map(forward, transpose, y, shape)
    return forward(y.astype(jnp.uint8) if y.dtype == jnp.bool_ else y).astype(y.dtype)


def _last_writers(offsets: Array, geometry: Geometry) -> Array:
    """Return the offsets, with the sentinel for windows whose element a later window names."""
    shifts = list(_shifts(geometry))
    if not shifts:
        return offsets
    overwritten = _overwritten(offsets, geometry, shifts)
    # The branch prevents XLA from repeating the comparisons wherever an offset is read.
    any_overwritten = any_in_batch(overwritten)
    return lax.cond(
        any_overwritten,
        lambda: jnp.where(overwritten, sentinel(offsets.dtype), offsets),
        lambda: offsets,
    )


Shift = tuple[tuple[int, int], ...]
"""Per pooled axis: the distance to a later window, in windows and in taps."""


def _shifts(geometry: Geometry) -> Iterator[Shift]:
    """Yield the shifts to all later windows, row-major, that share elements with a window."""
    for shift in itertools.product(*map(_axis_shifts, geometry.axes)):
        if tuple(windows for windows, _ in shift) > (0,) * len(shift):
            yield shift


def _axis_shifts(axis: Axis) -> Iterator[tuple[int, int]]:
    max_windows = min((axis.span - 1) // axis.stride, axis.out - 1)
    for windows in range(-max_windows, max_windows + 1):
        taps, remainder = divmod(windows * axis.stride, axis.dilation)
        if not remainder:
            yield windows, taps


def _overwritten(offsets: Array, geometry: Geometry, shifts: list[Shift]) -> Array:
    """Return whether a later window names the same element as each window."""
    offsets = offsets.astype(jnp.int8)  # -1 is the sentinel
    axis_digits = unravel_offsets(offsets, geometry.kernel)
    overwritten = jnp.zeros(offsets.shape, bool)
    for shift in shifts:
        later, expected, in_window = offsets, jnp.zeros((), jnp.int8), offsets >= 0
        for axis, position, digit, (windows, tap_shift) in zip(
            geometry.axes, geometry.positions, axis_digits, shift, strict=True
        ):
            later = pad(later, position, -windows, windows, sentinel(offsets.dtype))
            tap = digit - np.int8(tap_shift)
            in_window = in_window & (tap >= 0) & (tap < axis.kernel)
            expected = expected * np.int8(axis.kernel) + tap
        overwritten = overwritten | (in_window & (later == expected))
    return overwritten


def _offsets(indices: Array, target: flat_index.Target, geometry: Geometry) -> tuple[Array, Array]:
    """Return flat indices as window offsets, and whether each index is outside its window.

    The offset is the sentinel for the index -1 and for an index outside its window.
    """
    axes = {position % indices.ndim: axis for axis, position in geometry.placed}
    offsets, in_window, step = jnp.zeros((), jnp.int32), indices >= 0, 1
    remainder = indices
    for position in (axis % indices.ndim for axis in reversed(target.axes)):
        size, axis = target.shape[position], axes.get(position)
        coordinate, remainder = remainder % np.int32(size), remainder // np.int32(size)
        window = lax.broadcasted_iota(jnp.int32, indices.shape, position)
        if axis is None:
            in_window = in_window & (coordinate == window)
            continue
        distance = coordinate - (window * np.int32(axis.stride) - np.int32(axis.pad_low))
        in_window = (
            in_window & (distance >= 0) & (distance < axis.span) & (distance % axis.dilation == 0)
        )
        offsets, step = offsets + distance // axis.dilation * step, step * axis.kernel
    dtype = offset_dtype(geometry)
    offsets = jnp.where(in_window, offsets.astype(dtype), sentinel(dtype))
    return offsets, (indices >= 0) & ~in_window


def _flat_indices(offsets: Array, geometry: Geometry) -> Array:
    """Return offsets as flat indices over the pooled axes; -1 for the sentinel and padding."""
    index, is_element = jnp.zeros((), jnp.int32), offsets >= 0
    coordinate_of = coordinates(offsets, geometry)
    for axis, position in geometry.placed:
        coordinate = coordinate_of[position]
        is_element = is_element & (coordinate >= 0) & (coordinate < axis.size)
        index = index * axis.size + coordinate
    return jnp.where(is_element, index, -1)
