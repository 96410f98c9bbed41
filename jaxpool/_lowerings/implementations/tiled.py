"""Reduce tiled windows: split each axis into windows and their elements, and reduce the elements.

This is for axes without dilation that have ``stride == kernel`` or a single window:
``y[o] = combine over t of x.reshape(windows, kernel)[o, t]``. A window that covers an axis is the
ordinary reduction of that axis.

XLA:CPU mostly reduces several axes jointly one number at a time, and drops NaN from large
reductions of floats (jaxlib 0.10.2 and 0.12). For short windows it is up to ten times as fast to
combine slices along one axis after another, in long loops over the other axes.

``scatter`` is for non-overlapping windows of any length. An element lies in at most one window
``o`` and receives ``g[o]`` if ``offsets[o]`` is the offset of the element, otherwise 0. In an array
of ``(q, phase)``, see :mod:`..parts.phases`, the phases are broadcast axes of one vectorised loop.
If the contiguous axis is pooled with other axes, it is scattered first: the value of a window is
repeated over its columns, and the column that the offset selects gets the offset along the other
axes. These are then scattered in full rows; all axes jointly would make loops as short as a window.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry, is_static
from ..._xla.any_in_batch import any_in_batch
from ..._xla.by_platform import by_platform
from ..._xla.materialize import materialize
from ...reductions import MIN, Reduction, identity_array, identity_like, mask_with_identity
from .. import tuning
from ..parts.argreduce import ValueOffset, offset_dtype, sentinel
from ..parts.axis_slicing import iota, is_padded, pad
from ..parts.float_order import (
    is_16_bit_extreme,
    is_float_extreme,
    reduce_in_integers,
    reduce_slices,
    takes_last_nan,
    to_native_dtype,
)
from ..parts.grid import phase_axis_indices
from ..parts.phases import crop, windows_of_groups
from ..request import Request
from . import reduce_window


def unsupported_reason(request: Request) -> str | None:
    """Return why the windows cannot be computed as tiles, or None."""
    if request.operation == "scatter":
        return None if request.geometry.is_non_overlapping else "windows overlap"
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


def offset_iota(shape: Sequence[int], axes: tuple[int, ...], dtype: np.dtype) -> Array:
    """Return the offset of every element in its window, row-major in the order of ``axes``."""
    offsets = jnp.zeros((1,) * len(shape), dtype)
    for axis in axes:
        offsets = offsets * shape[axis] + iota(shape[axis], axis - len(shape), len(shape), dtype)
    return offsets


def argmax_offsets(
    elements: Array,
    valid: Array | None,
    values: Array,
    axes: tuple[int, ...],
    reduction: Reduction,
    dtype: np.dtype,
) -> Array:
    """Return the offset of the argmax, row-major over ``axes``, or the sentinel if none is valid.

    Args:
      elements: the operand that was reduced over ``axes``.
      valid: the mask of the elements, or None.
      values: the results of the reduction.
      axes: the axes of the elements, the major axis first.
      reduction: a maximum or minimum.
      dtype: the dtype of the offsets.
    """
    numbers = offset_iota(elements.shape, axes, dtype)
    count = math.prod(elements.shape[axis] for axis in axes)
    last_nan = takes_last_nan(reduction)
    if last_nan:  # number NaN backwards, so that the last NaN has the smallest number
        numbers = jnp.where(elements != elements, count - 1 - numbers, numbers)
    by_rows = not last_nan and _has_rows(elements.shape, axes)
    find_first = _first_match_by_rows if by_rows else _first_match
    first = find_first(elements, valid, jnp.expand_dims(values, axes), numbers, axes)
    empty = identity_array(MIN, dtype)
    if last_nan:
        first = jnp.where((values != values) & (first != empty), count - 1 - first, first)
    return jnp.where(first == empty, sentinel(dtype), first)


def _first_match(
    elements: Array, valid: Array | None, values: Array, numbers: Array, axes: tuple[int, ...]
) -> Array:
    """Return the smallest of the ``numbers`` of elements that equal their result or are NaN."""
    is_match = (elements == values) | (elements != elements)
    if valid is not None:
        is_match = is_match & valid
    empty = identity_array(MIN, numbers.dtype)
    return reduce_axes(jnp.where(is_match, numbers, empty), axes, MIN)


def _has_rows(shape: Sequence[int], axes: tuple[int, ...]) -> bool:
    """Return whether windows extend along the contiguous axis and are high enough for full rows."""
    height = math.prod(shape[axis] for axis in axes if axis != len(shape) - 1)
    return len(shape) - 1 in axes and shape[-2] != 1 and height >= tuning.MIN_ROWS


def _first_match_by_rows(
    elements: Array, valid: Array | None, values: Array, numbers: Array, axes: tuple[int, ...]
) -> Array:
    """Return :func:`_first_match`, in loops that are as long as a row instead of a window."""
    row = elements.shape[-2:]
    elements, values, numbers = (_merge_rows(a, row) for a in (elements, values, numbers))
    valid = None if valid is None else _merge_rows(valid, row)
    values = materialize(values)
    others = tuple(axis for axis in axes if axis < elements.ndim)
    first = materialize(_first_match(elements, valid, values, numbers, others))
    return reduce_axes(first.reshape(*first.shape[:-1], *row), (first.ndim,), MIN)


def _merge_rows(a: Array, row: Sequence[int]) -> Array:
    """Return ``a`` with its last two axes, windows and their elements, merged into full rows."""
    rows = jnp.broadcast_to(a, (*a.shape[:-2], *row))
    return rows.reshape(*a.shape[:-2], math.prod(row))


def reduce_axes(x: Any, axes: tuple[int, ...], reduction: Reduction) -> Any:
    """Return the reduction over entire axes, in any order."""
    on_cpu, jointly = (
        functools.partial(function, axes=tuple(sorted(axes)), reduction=reduction)
        for function in (_reduce_on_cpu, _reduce_jointly)
    )
    return by_platform(x, cpu=on_cpu, default=jointly)


def _reduce_on_cpu(x: Any, axes: tuple[int, ...], reduction: Reduction) -> Any:
    native_x, native_reduction = to_native_dtype(x, reduction)
    if native_x is not x:
        return _reduce_on_cpu(native_x, axes, native_reduction).astype(x.dtype)
    if is_16_bit_extreme(reduction, x):
        return reduce_in_integers(lambda k, extreme: _reduce_on_cpu(k, axes, extreme), x, reduction)
    if _uses_passes(x, axes, reduction):
        combine = _add_slices if reduction.combine is lax.add else reduce_slices
        return _reduce_in_passes(x, axes, functools.partial(combine, reduction))
    reduce_all = _reduce_with_nan if is_float_extreme(reduction, x) else _reduce_jointly
    return reduce_all(x, axes, reduction)


def _uses_passes(x: Any, axes: tuple[int, ...], reduction: Reduction) -> bool:
    """Return whether XLA:CPU is faster with one pass for each axis, which combines slices."""
    if reduction.extremum is None and reduction.combine is not lax.add:
        return False
    lengths = [x.shape[axis] for axis in axes]
    if not is_static(lengths) or max(lengths) > tuning.LONGEST_PASS:
        return False
    is_contiguous = axes[-1] == x.ndim - 1
    if is_contiguous and lengths[-1] > tuning.LONGEST_PASS_ROWS:
        return False
    if reduction.extremum is not None:
        return True
    is_whole_row = is_contiguous and x.shape[-2] == 1
    return jnp.issubdtype(x.dtype, jnp.floating) and not is_whole_row


def _reduce_in_passes(
    x: Array, axes: tuple[int, ...], combine: Callable[[Sequence[Array]], Array]
) -> Array:
    """Reduce the elements of one axis after another, the contiguous axis last.

    Until then the windows and elements of the contiguous axis are merged into full rows.
    """
    *others, last = axes
    row, is_contiguous = x.shape[-2:], last == x.ndim - 1
    x = x.reshape(*x.shape[:-2], math.prod(row)) if is_contiguous else x
    for axis in others:
        x = materialize(_reduce_axis(x, axis, combine))
    x = x.reshape(*x.shape[:-1], *row) if is_contiguous else x
    return lax.squeeze(_reduce_axis(x, last, combine), axes)


def _reduce_axis(x: Array, axis: int, combine: Callable[[Sequence[Array]], Array]) -> Array:
    """Reduce an axis to length 1 by combining its slices."""
    return combine([lax.slice_in_dim(x, n, n + 1, axis=axis) for n in range(x.shape[axis])])


def _add_slices(reduction: Reduction, slices: Sequence[Array]) -> Array:
    """Return the sum of slices, in loops that each add a few: long loops are not vectorised."""
    loops = math.ceil(len(slices) / tuning.MAX_ADDED_IN_LOOP)
    if loops > 1:
        length = math.ceil(len(slices) / loops)
        parts = [slices[n : n + length] for n in range(0, len(slices), length)]
        slices = [materialize(reduce_slices(reduction, part)) for part in parts]
    return reduce_slices(reduction, slices)


def _reduce_with_nan(x: Array, axes: tuple[int, ...], reduction: Reduction) -> Array:
    """Reduce floats directly, or in integers if there may be a NaN.

    Integers cost several times the direct reduction. They are used if the elements sum to NaN;
    without a NaN among the elements, that happens only where infinities of both signs meet.
    """

    def in_integers(x: Array) -> Array:
        return reduce_in_integers(
            lambda k, extreme: _reduce_jointly(k, axes, extreme), x, reduction
        )

    total = lax.reduce_sum(x, axes)
    in_floats = functools.partial(_reduce_jointly, axes=axes, reduction=reduction)
    return lax.cond(any_in_batch(total != total), in_integers, in_floats, x)


def _reduce_jointly(x: Any, axes: tuple[int, ...], reduction: Reduction) -> Any:
    """Return the reduction over all ``axes`` by one ``lax.reduce``."""
    return lax.reduce(x, identity_like(reduction, x), reduction.combine, axes)


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
