"""Reduce tiled windows: split each axis into windows and their elements, and reduce the elements.

This is for axes without dilation that have ``stride == kernel`` or a single window:
``y[o] = combine over t of x.reshape(windows, kernel)[o, t]``. A window that covers an axis is the
ordinary reduction of that axis.

``scatter`` is for non-overlapping windows of any length. An element lies in at most one window
``o`` and receives ``g[o]`` if ``offsets[o]`` is the offset of the element, otherwise 0. In an array
of ``(q, phase)``, see :mod:`..parts.phases`, the phases are broadcast axes of one vectorised loop.
If the contiguous axis is pooled with other axes, it is scattered first: the value of a window is
repeated over its columns, and the column that the offset selects gets the offset along the other
axes. These are then scattered in full rows; all axes jointly would make loops as short as a window.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry
from ..._xla.materialize import materialize
from ...reductions import Reduction, identity_array, identity_like, mask_with_identity
from .. import tuning
from ..parts.argreduce import ValueOffset, offset_dtype, sentinel
from ..parts.axis_slicing import iota, is_padded, pad
from ..parts.entire_axes import argmax_offsets, reduce_axes
from ..parts.grid import phase_axis_indices
from ..parts.phases import crop, windows_of_groups
from ..request import MATCH_MAY_DIFFER, Request
from . import reduce_window


def unsupported_reason(request: Request) -> str | None:
    """Return why the windows cannot be computed as tiles, or None."""
    if request.operation == "scatter":
        return None if request.geometry.is_non_overlapping else "windows overlap"
    reduction = request.reduction
    if request.operation == "argreduce" and reduction is not None and reduction.extremum is None:
        return MATCH_MAY_DIFFER
    for axis in request.geometry.axes:
        if axis.dilation > 1 and axis.kernel > 1:
            return "a dilated window is not a tile"
        if axis.out > 1 and axis.stride != axis.kernel:
            return f"windows of {axis.kernel} elements at stride {axis.stride} are not tiled"
    return None


def slower_reason(request: Request) -> str | None:
    """Return why the plan prefers ``lax.reduce_window``, or None."""
    if request.operation != "reduce":
        return None
    if request.platform == "cpu":
        return _slower_on_cpu(request)
    if is_long_sum(request) or request.row_kernel >= tuning.MIN_ROW_TILED_ON_GPU:
        return None
    return "each element is read once without tiles, too"


def is_long_sum(request: Request) -> bool:
    """Return whether adding one element after another would lose digits of a sum."""
    is_sum = request.reduction is not None and not request.reduction.idempotent
    return is_sum and max(request.geometry.kernel) > tuning.LONGEST_SUMMED


def _slower_on_cpu(request: Request) -> str | None:
    reduction = request.reduction
    assert reduction is not None, "a request for values has a reduction"
    is_sum, is_extreme = reduction.combine is lax.add, reduction.extremum is not None
    if not is_sum and not is_extreme:
        return None
    is_wide, on_one_axis = request.dtype.itemsize >= 4, request.window_rank == 1
    loses_by_copy = is_sum and (is_wide or on_one_axis) or is_wide and on_one_axis
    if request.tiles_need_copy and loses_by_copy:
        return "a copy of the array without the elements left over, or with padding, would be tiled"
    return reduce_window.faster_in_rows_reason(request)


def reduce(x: Any, geometry: Geometry, reduction: Reduction) -> Any:
    """Return the reduction of every window."""
    elements, axes = _split_windows(x, geometry, identity_like(reduction, x))
    return reduce_axes(elements, axes, reduction)


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the offset of its argmax, row-major."""
    x = mask_with_identity(x, valid, reduction)
    elements, axes = _split_windows(x, geometry, identity_array(reduction, x.dtype))
    if valid is not None or is_padded(geometry):
        valid = jnp.ones(x.shape, bool) if valid is None else valid
        valid, _ = _split_windows(valid, geometry, np.zeros((), bool))
    values = materialize(reduce_axes(elements, axes, reduction))
    dtype = offset_dtype(geometry)
    return values, argmax_offsets(elements, valid, values, axes, reduction, dtype)


def _split_windows(x: Any, geometry: Geometry, padding: Any) -> tuple[Any, tuple[int, ...]]:
    """Split each pooled axis into windows and elements; return also the axes of the elements."""
    shape = jax.tree.leaves(x)[0].shape
    split: list[tuple[int, ...]] = [(size,) for size in shape]
    for axis, position in geometry.placed:
        x = pad(x, position, axis.pad_low, axis.overshoot, padding)
        split[position] = (axis.out, axis.kernel)
    tiles = [size for sizes in split for size in sizes]
    elements = jax.tree.map(lambda a: a.reshape(tiles), x)
    return elements, phase_axis_indices(geometry.positions, len(shape))


# --- scatter at offsets ---------------------------------------------------------------------------


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return, for each element, the value of its window if the offset selects it, otherwise 0."""
    g, offsets = _materialize_operands(g, offsets, geometry)
    (*axes, last), (*positions, contiguous) = geometry.axes, geometry.positions
    if geometry.taps <= tuning.MAX_SCATTERED or not axes or contiguous != -1:
        return _scatter_over_phases(g, offsets, geometry)
    g, offsets = materialize(_repeat_over_columns(g, offsets, last))
    return _scatter_over_phases(g, offsets, Geometry(tuple(axes), tuple(positions)))


def _materialize_operands(g: Array, offsets: Array, geometry: Geometry) -> tuple[Array, Array]:
    """Return both arrays stored; otherwise XLA:CPU recomputes their producers for each element.

    ``g`` is not stored for small windows in channels last, where the copy costs more than it saves.
    """
    if geometry.taps <= tuning.MAX_FUSED_COTANGENTS and -1 not in geometry.positions:
        return g, materialize(offsets)
    return materialize((g, offsets))


def _scatter_over_phases(g: Array, offsets: Array, geometry: Geometry) -> Array:
    """Return :func:`scatter` over all phases of all axes jointly."""
    for axis, position in geometry.placed:
        g = windows_of_groups(g, axis, position)
        offsets = windows_of_groups(offsets, axis, position, sentinel(offsets.dtype))
    axes = phase_axis_indices(geometry.positions, g.ndim)
    g, offsets, shape = jnp.expand_dims(g, axes), jnp.expand_dims(offsets, axes), list(g.shape)
    element_offset, is_tap = jnp.zeros((1,) * g.ndim, jnp.int32), jnp.ones((1,) * g.ndim, bool)
    for (axis, position), step_axis in zip(geometry.placed, axes, strict=True):
        step = iota(axis.stride, step_axis - g.ndim, g.ndim, jnp.int32)
        is_tap = is_tap & (step % axis.dilation == 0) & (step < axis.kernel * axis.dilation)
        element_offset = element_offset * axis.kernel + step // axis.dilation
        shape[position] = g.shape[step_axis - 1] * axis.stride
    is_match = is_tap & (offsets.astype(jnp.int32) == element_offset)
    elements = jnp.where(is_match, g, jnp.zeros((), g.dtype)).reshape(shape)
    for axis, position in geometry.placed:
        elements = crop(elements, axis, position)
    return elements


def _repeat_over_columns(g: Array, offsets: Array, axis: Axis) -> tuple[Array, Array]:
    """Return ``g`` for each column of the last axis, and its offsets along the other axes.

    In columns that an offset does not select, it becomes the sentinel, which matches no row.
    """

    def repeat(a: Array) -> Array:
        return jnp.repeat(windows_of_groups(a, axis, -1), axis.stride, -1)

    offsets_int32, values = offsets.astype(jnp.int32), repeat(g)
    column = iota(values.shape[-1], -1, g.ndim, jnp.int32) % axis.stride
    in_column = repeat(offsets_int32 % axis.kernel) * axis.dilation == column
    rows = repeat((offsets_int32 // axis.kernel).astype(offsets.dtype))
    rows = jnp.where(in_column, rows, sentinel(offsets.dtype))
    return crop(values, axis, -1), crop(rows, axis, -1)
