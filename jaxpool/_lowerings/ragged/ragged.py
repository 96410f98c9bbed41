"""Reductions over windows of arbitrary starts and lengths, which are known before tracing.

Along one axis, window ``o`` contains the elements ``start[o] <= i < start[o] + length[o]``, and

    reduce(x)[o] = x[start[o]] combined with ... x[start[o] + length[o] - 1],
    argreduce(x)[o] = their maximum, and the offset i - start[o] of the first element equal to it.

Element ``k`` of all windows is a single slice if the windows have one length and stride, else one
gather at indices that are constants of the program. XLA fuses these reads for all ``k`` into one
loop. At a ``k`` beyond its length, a window repeats its last element, or has the identity.

A long window is reduced in two levels. It is cut into pieces of about the square root of the
longest length, and all pieces are reduced. They are then the elements of a shorter window, a window
of pieces. The program therefore grows with the root of the window's length.

TPU copies an array for each gather, so it reduces a few irregular windows one by one.

Several axes are reduced sequentially. :mod:`.ragged_offsets` defines how the offsets along the axes
are packed into one number.
"""

import functools
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.ragged import RaggedAxis
from ..._xla.by_platform import by_platform
from ..._xla.materialize import materialize_axis
from ...reductions import MAX, Reduction, identity_array
from .. import tuning
from ..parts.argreduce import ValueOffset, reduce_unordered_pairs
from ..parts.axis_slicing import concatenate, reshape_along
from ..parts.float_order import (
    argreduce_in_integers,
    is_16_bit_extreme,
    reduce_in_integers,
    reduce_slices,
    to_native_dtype,
)
from .ragged_offsets import bits_below, check_countable, offset_dtype, sentinel

Axes = Sequence[RaggedAxis]


def piece_length(axis: RaggedAxis) -> int:
    """Return the length of the pieces of long windows: a power of two near the square root."""
    return min(1 << (axis.longest.bit_length() + 1) // 2, tuning.LONGEST_RAGGED)


def slice_of_windows(
    x: Array, position: int, axis: RaggedAxis, offset: int, longest_step: int = 1
) -> Array:
    """Return element ``offset`` of every window; a shorter window repeats its last element.

    The result is a slice if its stride is at most ``longest_step``, else a gather. The limit avoids
    a crash: if an argmax and its derivative read slices of stride 2, XLA:TPU (jax 0.12) ends the
    process.
    """
    last = np.array(axis.lengths) - 1
    indices = np.array(axis.starts) + np.minimum(offset, last)
    steps = np.unique(np.diff(indices))
    if len(indices) == 1 or (len(steps) == 1 and 0 < steps[0] <= longest_step):
        step = int(steps[0]) if len(steps) else 1
        return lax.slice_in_dim(x, int(indices[0]), int(indices[-1]) + 1, step, position)
    indices = indices.astype(np.int32)
    return jnp.take(x, indices, axis=position, mode="clip", indices_are_sorted=True)


# --- values --------------------------------------------------------------------------------------


def extreme(x: Array, positions: Sequence[int], axes: Axes, reduction: Reduction = MAX) -> Array:
    """Return the element of every window that ``reduction``, by default a maximum, prefers."""
    if is_16_bit_extreme(reduction, x):
        return reduce_in_integers(lambda keys, r: extreme(keys, positions, axes, r), x, reduction)
    native, native_reduction = to_native_dtype(x, reduction)
    reduce_one_axis = functools.partial(reduce_axis, reduction=native_reduction)
    return apply_per_axis(reduce_one_axis, native, positions, axes).astype(x.dtype)


def apply_per_axis(
    step: Callable[[Array, int, RaggedAxis], Array], x: Array, positions: Sequence[int], axes: Axes
) -> Array:
    """Apply ``step`` along the axes sequentially, with long windows in separate loops."""
    fused_elements = 1
    for position, axis in zip(positions, axes, strict=True):
        fused_elements *= axis.longest
        if fused_elements > tuning.MAX_RAGGED_JOINT and fused_elements > axis.longest:
            x, fused_elements = materialize_axis(x), axis.longest
        x = step(x, position, axis)
    return x


def reduce_axis(x: Array, position: int, axis: RaggedAxis, reduction: Reduction) -> Array:
    """Return the reduction of every window along one axis."""
    arguments = {"position": position, "axis": axis, "reduction": reduction}
    by_slices = functools.partial(_reduce_slices, **arguments)
    if position == -1 and axis.size <= min(tuning.MAX_RAGGED_COMPARED, len(axis.starts) - 1):
        by_elements = functools.partial(_reduce_selected, **arguments)
        return by_platform(x, cpu=by_slices, tpu=by_slices, default=by_elements)
    if not _is_irregular(axis):
        return by_slices(x)
    one_by_one = functools.partial(_reduce_each, **arguments)
    return by_platform(x, tpu=one_by_one, default=by_slices)


def _is_irregular(axis: RaggedAxis) -> bool:
    """Return whether the windows are few and form many groups of one length and stride."""
    few, max_groups = len(axis.starts) <= tuning.MAX_RAGGED_ONE_BY_ONE, tuning.MAX_GROUPS_ON_TPU
    return few and axis.longest > 2 and len(axis.groups(len(axis.starts))) > max_groups


def _reduce_each(x: Array, position: int, axis: RaggedAxis, reduction: Reduction) -> Array:
    """Reduce the windows one by one."""

    def reduce_window(start: int, length: int) -> Array:
        window = lax.slice_in_dim(x, start, start + length, axis=position)
        identity = identity_array(reduction, x.dtype)
        return lax.reduce(window, identity, reduction.combine, (x.ndim + position,))

    windows = zip(axis.starts, axis.lengths, strict=True)
    return jnp.stack([reduce_window(*window) for window in windows], position)


def _reduce_selected(x: Array, position: int, axis: RaggedAxis, reduction: Reduction) -> Array:
    """Reduce, for every window, all elements of the axis, as the identity outside the window.

    XLA:GPU would store a gather along the contiguous axis transposed, so that the next kernel reads
    neighbours far apart.
    """
    starts, identity = np.array(axis.starts), identity_array(reduction, x.dtype)
    ends, parts = starts + np.array(axis.lengths), []
    for index in range(axis.size):
        contained = reshape_along((starts <= index) & (index < ends), position, x.ndim)
        element = lax.slice_in_dim(x, index, index + 1, axis=position)
        parts.append(jnp.where(contained, element, identity))
    return reduce_slices(reduction, parts)


def _reduce_slices(x: Array, position: int, axis: RaggedAxis, reduction: Reduction) -> Array:
    """Reduce all windows jointly, by one slice or gather for each offset of the longest window.

    Windows that form a few groups of one length and stride are reduced group by group.
    """
    recurse = functools.partial(_reduce_slices, position=position, reduction=reduction)
    if axis.longest > tuning.LONGEST_RAGGED:
        pieces, groups = axis.pieces(piece_length(axis))
        return recurse(recurse(x, axis=pieces), axis=groups)
    groups = axis.groups(tuning.MAX_RAGGED_GROUPS)
    if len(groups) > 1:
        return concatenate([recurse(x, axis=group) for group in groups], position)
    slices, identity = [], identity_array(reduction, x.dtype)
    for offset in range(axis.longest):
        contained = reshape_along(np.array(axis.lengths) > offset, position, x.ndim)
        elements = slice_of_windows(x, position, axis, offset, longest_step=axis.size)
        slices.append(elements if contained.all() else jnp.where(contained, elements, identity))
    return reduce_slices(reduction, slices)


# --- values and offsets --------------------------------------------------------------------------


def argreduce(
    x: Array,
    valid: Array | None,
    positions: Sequence[int],
    axes: Axes,
    reduction: Reduction,
) -> ValueOffset:
    """Return the maximum of every window, and the offset of the first element equal to it.

    Along each axis, the larger value is preferred, and of equal values the one with the smaller
    packed offset. That is the first in row-major order, in whichever order the axes are reduced.
    The first axis is reduced first: the array is then smaller when the last axis is reduced, along
    which loops are contiguous.

    Args:
      x: the array, with the identity of a maximum where it is not ``valid``.
      valid: mask of the elements, or None.
      positions: the axes of the array, negative.
      axes: the windows along each of them.
      reduction: a maximum, which decides which of several NaN is preferred.
    """
    check_countable(axes)
    if is_16_bit_extreme(reduction, x):
        on_keys = lambda keys, r: argreduce(keys, valid, positions, axes, r)  # noqa: E731
        return argreduce_in_integers(on_keys, x, None, reduction)
    offsets = jnp.zeros(x.shape, offset_dtype(axes))
    if valid is not None:
        offsets = jnp.where(valid, offsets, sentinel(offsets))
    values, reduction = to_native_dtype(x, reduction)
    placed_axes = zip(positions, axes, bits_below(axes), strict=True)
    for n, (position, axis, shift) in enumerate(placed_axes):
        values, offsets = materialize_axis((values, offsets)) if n else (values, offsets)
        values, offsets = _argreduce_axis(values, offsets, position, axis, shift, reduction)
    return values.astype(x.dtype), offsets


def _argreduce_axis(
    x: Array, offsets: Array, position: int, axis: RaggedAxis, shift: int, reduction: Reduction
) -> ValueOffset:
    """Return the maxima along one axis, and their offsets, that along the axis at bit ``shift``."""
    if axis.longest > tuning.LONGEST_RAGGED:
        bits = piece_length(axis).bit_length() - 1
        pieces, groups = axis.pieces(1 << bits)
        pairs = _argreduce_axis(x, offsets, position, pieces, shift, reduction)
        x, offsets = materialize_axis(pairs)
        return _argreduce_axis(x, offsets, position, groups, shift + bits, reduction)
    slices = [slice_of_windows(x, position, axis, offset) for offset in range(axis.longest)]
    added = [_add_offset(offsets, position, axis, n, shift) for n in range(axis.longest)]
    return reduce_unordered_pairs(list(zip(slices, added, strict=True)), reduction)


def _add_offset(offsets: Array, position: int, axis: RaggedAxis, offset: int, shift: int) -> Array:
    """Return the packed offsets of element ``offset`` of every window, with that offset added.

    In a shorter window, both are those of the last element.
    """
    axis_offsets = np.minimum(offset, np.array(axis.lengths) - 1) << shift
    bits = reshape_along(axis_offsets.astype(offsets.dtype), position, offsets.ndim)
    return slice_of_windows(offsets, position, axis, offset) | bits
