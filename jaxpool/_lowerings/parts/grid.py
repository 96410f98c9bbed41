"""Pooled axes split into groups and phases, with a phase axis after each pooled axis.

A pooled axis of stride ``S`` is reshaped from ``n * S`` elements to ``[n, S]``: element
``q * S + r`` becomes phase ``r`` of group ``q``. The pooled axis then counts groups, and the new
phase axis has length ``S``. For ``S = 2``,

    a b c d e f    has the groups  [a b] [c d] [e f];    phase 0 is  a c e,    phase 1 is  b d f.

Non-overlapping windows. Split the padded axis. Window ``q`` begins with group ``q`` and is no
longer than the group, so only window ``q`` can contain the elements of group ``q``. It reads phase
``r`` at offset ``r / dilation``, if that is an integer below the kernel. A scatter is therefore a
broadcast of the windows over the phases and a comparison,

    elements[q, r] = where(phase of offsets[q] == r, g[q], 0),

which needs no sums, and whose cost does not grow with the window.

Any windows. Split the axis without its padding. Offset ``t`` of window ``o`` reads element
``o * S + t * dilation - pad_low``. With ``t * dilation - pad_low = shift * S + r``, that is phase
``r`` of group ``o + shift``. Neither ``shift`` nor ``r`` depends on ``o``: the elements that all
windows read at offset ``t`` are one phase of the grid, shifted by ``shift`` groups. Transposed,
the windows are shifted along the groups and put into phase ``r`` of ``S``.

Every shift, and every choice of a phase, is one ``lax.pad`` whose negative entries crop. XLA:TPU
fuses a pad into the kernel that reads the array, which it does not do with a strided slice. It
does so only if the pad reads an operand of the kernel. A function of the elements is therefore
recomputed from every shifted slice, and its result is never sliced. XLA:TPU and XLA:GPU then read
and write the elements in place. The pooled axes are made major, as in the layout that XLA:TPU
chooses for a network. An axis that is not a whole number of groups is padded to one, which stores
the array once more.
"""

import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry, is_static
from .axis_slicing import each_tap, pad_axes


def phase_axis_indices(positions: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return the indices of the phase axes, one after each pooled axis.

    ``positions`` are ascending and negative; ``rank`` is that of the array without phase axes.
    """
    return tuple(rank + position + n + 1 for n, position in enumerate(positions))


def merge_phases(grid: Array, geometry: Geometry, rank: int, padded: bool = True) -> Array:
    """Merge each phase axis into its pooled axis, and crop or zero-pad the axis to its elements.

    Args:
      grid: an array with a phase axis after each pooled axis.
      geometry: the windows.
      rank: the rank of the result.
      padded: whether the groups begin at the low padding rather than at the first element.
    """
    shape, margins = list(grid.shape), {}
    for phase_axis in reversed(phase_axis_indices(geometry.positions, rank)):
        shape[phase_axis - 1 : phase_axis + 1] = [shape[phase_axis - 1] * shape[phase_axis]]
    for axis, position in geometry.placed:
        low = axis.pad_low if padded else 0
        margins[position] = (-low, low + axis.size - shape[position], 0)
    return pad_axes(grid.reshape(shape), margins)


# --- non-overlapping windows ----------------------------------------------------------------------


def broadcast_over_phases(windows: Array, geometry: Geometry) -> Array:
    """Broadcast an array of windows over a new phase axis after each pooled axis."""
    axes = phase_axis_indices(geometry.positions, windows.ndim)
    shape = list(windows.shape)
    for phase_axis, axis in zip(axes, geometry.axes, strict=True):
        shape.insert(phase_axis, axis.stride)
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    return lax.broadcast_in_dim(windows, shape, kept)


def place_at_offsets(g: Array, offsets: Array, geometry: Geometry) -> Array:
    """Place the value of each window at the phase that its offset names, 0 at other phases."""
    offset_grid = broadcast_over_phases(offsets.astype(jnp.int32), geometry)
    g_grid = broadcast_over_phases(g, geometry)
    is_named = _phases_read(offset_grid, geometry) == _phase_iota(
        g_grid.shape, phase_axis_indices(geometry.positions, g.ndim)
    )
    return jnp.where(is_named, g_grid, jnp.zeros((), g.dtype))


def _phase_iota(shape: Sequence[int], axes: Sequence[int]) -> Array:
    """Return the row-major number of each phase of a group, in int32.

    The result has the full shape: XLA:GPU would materialise a smaller array by a separate kernel.
    """
    number = jnp.zeros(shape, jnp.int32)
    for axis in axes:
        number = number * shape[axis] + lax.broadcasted_iota(jnp.int32, shape, axis)
    return number


def _phases_read(offsets: Array, geometry: Geometry) -> Array:
    """Return the number of the phase that each offset reads; no phase's number for a sentinel."""
    if all(axis.stride == axis.kernel for axis in geometry.axes):
        return offsets
    phase, remainder, weight = jnp.zeros_like(offsets), offsets, 1
    for axis in geometry.axes[::-1]:
        phase = phase + lax.rem(remainder, np.int32(axis.kernel)) * (axis.dilation * weight)
        remainder, weight = lax.div(remainder, np.int32(axis.kernel)), weight * axis.stride
    return jnp.where((offsets >= 0) & (offsets < geometry.taps), phase, -1)


# --- any windows ----------------------------------------------------------------------------------


ShiftWindows = Callable[[Array, np.ndarray], Array]
"""A function ``(x, value)`` that shifts an array of windows to the elements of a term, see
:func:`shift_into_phase`. An element that no window is shifted to has ``value``."""


def split_into_phases(x: Array, geometry: Geometry, value: np.ndarray | int = 0) -> Array:
    """Split each pooled axis into groups and phases; ``value`` fills up the last group."""
    phase_axes, shape, margins = phase_axis_indices(geometry.positions, x.ndim), list(x.shape), {}
    for phase_axis, (axis, position) in zip(phase_axes, geometry.placed, strict=True):
        shape[phase_axis - 1 : phase_axis] = axis.groups, axis.stride
        margins[position] = (0, axis.groups * axis.stride - axis.size, 0)
    return pad_axes(x, margins, value).reshape(shape)


def each_offset(x: Array, geometry: Geometry, value: np.ndarray) -> list[Array]:
    """Return an array of the elements of all windows for each offset; ``value`` in padding.

    The offsets are in row-major order.
    """
    grid = split_into_phases(x, geometry, value)
    return [_elements_at(grid, tap, geometry, value) for tap in each_tap(geometry)]


def _elements_at(grid: Array, tap: Sequence[int], geometry: Geometry, value: np.ndarray) -> Array:
    """Return the element of every window at one offset per pooled axis."""
    phase_axes = phase_axis_indices(geometry.positions, grid.ndim - len(geometry.axes))
    margins = {}
    for phase_axis, axis, t in zip(phase_axes, geometry.axes, tap, strict=True):
        group, phase = divmod(t * axis.dilation - axis.pad_low, axis.stride)
        margins[phase_axis - 1] = (-group, axis.out + group - axis.groups, 0)
        margins[phase_axis] = (-phase, phase + 1 - axis.stride, 0)
    return lax.squeeze(pad_axes(grid, margins, value), phase_axes)


def shift_into_phase(
    geometry: Geometry, phase: Sequence[int], shift: Sequence[int]
) -> ShiftWindows:
    """Return a function that puts window ``q - shift`` into one phase of group ``q``.

    ``phase`` and ``shift`` have an entry for each pooled axis. The other phases get ``value``.
    """

    def shift_windows(x: Array, value: np.ndarray) -> Array:
        phase_axes, margins = phase_axis_indices(geometry.positions, x.ndim), {}
        for phase_axis, axis, r, distance in zip(
            phase_axes, geometry.axes, phase, shift, strict=True
        ):
            margins[phase_axis - 1] = (distance, axis.groups - distance - axis.out, 0)
            margins[phase_axis] = (r, axis.stride - 1 - r, 0)
        return pad_axes(jnp.expand_dims(x, phase_axes), margins, value)

    return shift_windows


def materialize_row_major(x: Array, pooled: int) -> Array:
    """Materialise ``x``, stored in the order of its axes; the first ``pooled`` ones are major.

    An export with symbolic lengths leaves the layout to XLA: JAX (0.10.2) would ask for the sign
    of the product of the lengths, which may not be known.
    """
    if not is_static(x.shape[:pooled]):
        return lax.optimization_barrier(x)
    merged_axes = x.reshape(math.prod(x.shape[:pooled]), *x.shape[pooled:])
    return lax.optimization_barrier(merged_axes).reshape(x.shape)


def in_bounds_mask(tap: Sequence[int], geometry: Geometry, shape: Sequence[int]) -> Array | None:
    """Return a mask of the windows that read an element at an offset, or None if all do.

    Args:
      tap: the offset along each pooled axis.
      geometry: the windows.
      shape: the shape of an array of windows.
    """
    mask = None
    for (axis, position), t in zip(geometry.placed, tap, strict=True):
        start = t * axis.dilation - axis.pad_low
        if start >= 0 and start + (axis.out - 1) * axis.stride < axis.size:
            continue
        window = lax.broadcasted_iota(jnp.int32, shape, len(shape) + position)
        element = window * axis.stride + start
        is_inside = (element >= 0) & (element < axis.size)
        mask = is_inside if mask is None else mask & is_inside
    return mask
