"""Reductions over windows of any start and length, known before tracing.

Along one axis, with windows ``start[o] <= i < start[o] + length[o]``,

    reduce(x)[o] = x[start[o]] combined with ... x[start[o] + length[o] - 1],
    argreduce(x) = the largest of these, and the offset ``i - start[o]`` of the first that is it.

Element ``k`` of all windows is one slice, or one gather at positions known to the compiler; XLA
fuses the slices of all ``k`` into one loop. A shorter window repeats its last element, or the
identity. A long window is taken in levels: windows are cut into pieces of equal length, and the
pieces of a window are a window of pieces. So the program grows with the root of the window.

TPU copies an array for each gather, so there a few windows are reduced one by one.

Several axes are taken one after the other; :mod:`.ragged_offsets` says how offsets along them make
one number.
"""

import functools
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.ragged import RaggedAxis
from ..._xla.by_platform import by_platform
from ..._xla.materialize import materialize
from ...reductions import MAX, Reduction, identity_array
from .. import tuning
from ..parts.argreduce import ValueOffset, reduce_unordered_pairs
from ..parts.axis_slicing import broadcast_along
from ..parts.float_order import (
    argreduce_in_integers,
    is_narrow_extreme,
    reduce_in_integers,
    reduce_slices,
    widened,
)
from .ragged_offsets import bits_below, check_countable, offset_dtype, sentinel

Axes = Sequence[RaggedAxis]


def length_of_pieces(axis: RaggedAxis) -> int:
    """Elements of the pieces of windows too long to be unrolled: a power of two near the root."""
    return min(1 << (axis.longest.bit_length() + 1) // 2, tuning.LONGEST_RAGGED)


def slice_of_windows(
    x: Array, position: int, axis: RaggedAxis, offset: int, longest_step: int = 1
) -> Array:
    """Return element ``offset`` of every window; a shorter window repeats its last element.

    A slice may take every element up to every ``longest_step``-th. Where an argmax and its
    derivative read slices of every second element, XLA:TPU (jax 0.12) ends the process.
    """
    last = np.array(axis.lengths) - 1
    where = np.array(axis.starts) + np.minimum(offset, last)
    steps = np.unique(np.diff(where))
    if len(where) == 1 or (len(steps) == 1 and 0 < steps[0] <= longest_step):
        step = int(steps[0]) if len(steps) else 1
        return lax.slice_in_dim(x, int(where[0]), int(where[-1]) + 1, step, position)
    where = where.astype(np.int32)
    return jnp.take(x, where, axis=position, mode="clip", indices_are_sorted=True)


# --- values --------------------------------------------------------------------------------------


def extreme(x: Array, positions: Sequence[int], axes: Axes, reduction: Reduction = MAX) -> Array:
    """Return the largest element of every window."""
    if is_narrow_extreme(reduction, x):
        return reduce_in_integers(
            lambda keys, order: extreme(keys, positions, axes, order), x, reduction
        )
    wide, order = widened(x, reduction)
    reduce = functools.partial(reduce_axis, reduction=order)
    return one_after_the_other(reduce, wide, positions, axes).astype(x.dtype)


def one_after_the_other(
    step: Callable[[Array, int, RaggedAxis], Array], x: Array, positions: Sequence[int], axes: Axes
) -> Array:
    """Take ``step`` along one axis after the other, long windows in loops of their own."""
    slices = 1
    for position, axis in zip(positions, axes, strict=True):
        slices *= axis.longest
        if slices > tuning.MOST_RAGGED_JOINT and slices > axis.longest:
            (x,), slices = materialize(x), axis.longest
        x = step(x, position, axis)
    return x


def reduce_axis(x: Array, position: int, axis: RaggedAxis, reduction: Reduction) -> Array:
    """Return the reduction of every window along one axis."""
    words = {"position": position, "axis": axis, "reduction": reduction}
    by_slices = functools.partial(_reduce_slices, **words)
    if not _is_irregular(axis):
        return by_slices(x)
    one_by_one = functools.partial(_reduce_each, **words)
    return by_platform({"cpu": by_slices, "gpu": by_slices, "tpu": one_by_one}, x)


def _is_irregular(axis: RaggedAxis) -> bool:
    """Whether the windows are few, and none of them like its neighbours."""
    few, most = len(axis.starts) <= tuning.MOST_RAGGED_ONE_BY_ONE, tuning.MOST_GROUPS_ON_TPU
    return few and axis.longest > 2 and len(axis.groups(len(axis.starts))) > most


def _reduce_each(x: Array, position: int, axis: RaggedAxis, reduction: Reduction) -> Array:
    def reduced(start: int, length: int) -> Array:
        window = lax.slice_in_dim(x, start, start + length, axis=position)
        identity = identity_array(reduction, x.dtype)
        return lax.reduce(window, identity, reduction.combine, (x.ndim + position,))

    windows = zip(axis.starts, axis.lengths, strict=True)
    return jnp.stack([reduced(*window) for window in windows], position)


def _reduce_slices(x: Array, position: int, axis: RaggedAxis, reduction: Reduction) -> Array:
    again = functools.partial(_reduce_slices, position=position, reduction=reduction)
    if axis.longest > tuning.LONGEST_RAGGED:
        pieces, groups = axis.pieces(length_of_pieces(axis))
        return again(again(x, axis=pieces), axis=groups)
    groups = axis.groups(tuning.MOST_RAGGED_GROUPS)
    if len(groups) > 1:
        return lax.concatenate([again(x, axis=group) for group in groups], x.ndim + position)
    slices, identity = [], identity_array(reduction, x.dtype)
    for offset in range(axis.longest):
        held = broadcast_along(np.array(axis.lengths) > offset, position, x.ndim)
        elements = slice_of_windows(x, position, axis, offset, longest_step=axis.size)
        slices.append(elements if held.all() else jnp.where(held, elements, identity))
    return reduce_slices(reduction, slices)


# --- values and offsets --------------------------------------------------------------------------


def argreduce(
    x: Array,
    valid: Array | None,
    positions: Sequence[int],
    axes: Axes,
    reduction: Reduction = MAX,
) -> ValueOffset:
    """Return the largest value of every window, and the offset of the first element that has it.

    Along an axis the largest value is preferred, of equals the smallest offset that leads to it;
    that is the first in row-major order, whatever the order of the axes. The first axis is taken
    first, so that the last, along which loops are contiguous, is shorter by then.

    Args:
      x: the array, with the identity of max where it is not ``valid``.
      valid: mask of the elements, or None.
      positions: the array axes, negative.
      axes: windows along each of them.
      reduction: a maximum, which says which of several NaN is preferred.
    """
    check_countable(axes)
    if is_narrow_extreme(reduction, x):
        found = lambda keys, order: argreduce(keys, valid, positions, axes, order)  # noqa: E731
        return argreduce_in_integers(found, x, None, reduction)
    offsets = jnp.zeros(x.shape, offset_dtype(axes))
    if valid is not None:
        offsets = jnp.where(valid, offsets, sentinel(offsets))
    values, reduction = widened(x, reduction)
    along = zip(positions, axes, bits_below(axes), strict=True)
    for n, (position, axis, shift) in enumerate(along):
        values, offsets = materialize(values, offsets) if n else (values, offsets)
        values, offsets = _argreduce_axis(values, offsets, position, axis, shift, reduction)
    return values.astype(x.dtype), offsets


def _argreduce_axis(
    x: Array, offsets: Array, position: int, axis: RaggedAxis, shift: int, reduction: Reduction
) -> ValueOffset:
    if axis.longest > tuning.LONGEST_RAGGED:
        bits = length_of_pieces(axis).bit_length() - 1
        pieces, groups = axis.pieces(1 << bits)
        x, offsets = materialize(*_argreduce_axis(x, offsets, position, pieces, shift, reduction))
        return _argreduce_axis(x, offsets, position, groups, shift + bits, reduction)
    slices = [slice_of_windows(x, position, axis, offset) for offset in range(axis.longest)]
    added = [_with_offset(offsets, position, axis, n, shift) for n in range(axis.longest)]
    return reduce_unordered_pairs(list(zip(slices, added, strict=True)), reduction)


def _with_offset(offsets: Array, position: int, axis: RaggedAxis, offset: int, shift: int) -> Array:
    """The offsets of element ``offset`` of every window, or of its last one, with its own added."""
    own = np.minimum(offset, np.array(axis.lengths) - 1) << shift
    bits = broadcast_along(own.astype(offsets.dtype), position, offsets.ndim)
    return slice_of_windows(offsets, position, axis, offset) | bits
