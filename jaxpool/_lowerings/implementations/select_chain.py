"""Compute values and offsets by a chain of selects, one for each window offset: for XLA:GPU.

    value, offset = (x at t, t) if x at t is preferred else (value, offset)    for t = 0, 1, ...

XLA:GPU makes one kernel with two results from a chain over slices, and several kernels from a tree.
Windows with many elements are reduced along one axis after another, the last axis first. This finds
the argmax of each row, and then the first of the rows with the largest value, which is the first
argmax in row-major order. There is one chain for each axis, and for a long axis one chain for each
level of windows that are built from smaller windows.

Padding is the identity, which is never preferred to an element. So a chain selects an element,
unless all elements of the window are the identity; then the first of them is the argmax. Its offset
is computed at the end from the index of the window, only for such windows. A mask of the padding
would be compared at each offset, and XLA:GPU makes a table of each comparison in a separate kernel.
The mask is used nevertheless for a selection in which elements may tie with the identity and differ
from it.

A chain carries a mask beside its offsets, and the sentinel replaces offsets only at the end. LLVM
would make a saturating addition from ``offset == 255 ? 255 : offset + 1``; ptxas of CUDA 12.8 to
13.0 then inverts a comparison of the result with 255 on GPUs from Hopper on.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry
from ..._xla.select import select
from ...reductions import Reduction, identity_array, mask_with_identity
from .. import tuning
from ..parts.argreduce import ValueOffset, offset_dtype, sentinel, set_sentinels
from ..parts.axis_slicing import (
    each_tap,
    elements_at,
    is_padded,
    pad_to_windows,
    shifted_slices,
    window_levels,
)
from ..parts.window_counts import first_valid_offset
from ..request import Request
from . import blocks


class Chained(NamedTuple):
    """Values, their window offsets, and whether each has an element.

    Elements have no offsets, and without a mask every value has an element.
    """

    values: Array
    offsets: Array | None
    valid: Array | None


def unsupported_reason(request: Request) -> str | None:
    """Return why a chain does not support ``request``, or None."""
    geometry = request.geometry
    longest, limit = max(geometry.kernel), tuning.LONGEST_CHAINED_ON_GPU
    if longest > limit and geometry.is_non_overlapping:
        return f"{longest} elements on one axis and no overlap; chains are faster up to {limit}"
    return None


def slower_reason(request: Request) -> str | None:
    """Return why the plan prefers blocks, or None."""
    if blocks.unsupported_reason(request) is None and blocks.slower_reason(request) is None:
        return "rows are shorter once they are reduced in blocks"
    return None


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the offset of its argmax, row-major."""
    x = mask_with_identity(x, valid, reduction)
    dtype = offset_dtype(geometry)
    if valid is None and reduction.extremum is None:
        valid = jnp.ones(x.shape, bool)
    chained, end = Chained(x, None, valid), len(geometry.axes)
    for first in [0] if geometry.taps <= tuning.MAX_CHAINED_ON_GPU else reversed(range(end)):
        group, unit = _sub_geometry(geometry, first, end), _sub_geometry(geometry, end, None).taps
        group_dtype = offset_dtype(_sub_geometry(geometry, first, None))
        chained, end = _chain_axes(chained, group, unit, group_dtype, reduction), first
    values, offsets, valid = chained
    assert offsets is not None
    if valid is not None:
        return set_sentinels((values, jnp.where(valid, offsets, sentinel(dtype))), geometry)
    return values, _correct_offsets(offsets, values == identity_array(reduction, x.dtype), geometry)


def _sub_geometry(geometry: Geometry, first: int, end: int | None) -> Geometry:
    """Return the geometry of the pooled axes from ``first`` up to ``end``."""
    return Geometry(geometry.axes[first:end], geometry.positions[first:end])


def _chain_axes(
    chained: Chained, group: Geometry, unit: int, dtype: np.dtype, reduction: Reduction
) -> Chained:
    """Return the result of each window along the axes of ``group``.

    Args:
      chained: elements, or results of the axes after ``group``.
      group: the axes to reduce.
      unit: the number of window offsets per step along the last axis of ``group``.
      dtype: the dtype of the resulting offsets.
      reduction: a maximum or minimum.
    """
    values, offsets, valid = chained
    values = pad_to_windows(values, group, identity_array(reduction, values.dtype))
    if offsets is not None:
        offsets = pad_to_windows(offsets.astype(dtype), group)
    if valid is not None:
        valid = pad_to_windows(valid, group)
    chained = Chained(values, offsets, valid)

    def chain(steps: Sequence[int], parts: Sequence[Chained]) -> Chained:
        moved = [_add_step(p, step * unit, dtype) for p, step in zip(parts, steps, strict=True)]
        return functools.reduce(functools.partial(_prefer_later, reduction), moved)

    if max(group.kernel) <= tuning.LONGEST_CHAINED_ON_GPU:
        parts = [elements_at(chained, tap, group) for tap in each_tap(group)]
        return chain(range(group.taps), parts)
    ((axis, position),) = group.placed
    for window, shifts in window_levels(axis.kernel, tuning.CHAIN_RADIX_ON_GPU)[::-1]:
        last = window == axis.kernel
        chained = chain(shifts, shifted_slices(chained, axis, position, shifts, last))
    return chained


def _add_step(chained: Chained, step: int, dtype: np.dtype) -> Chained:
    """Return ``chained`` with ``step`` added to its offsets; offsets of elements are ``step``."""
    values, offsets, valid = chained
    if offsets is None:
        return Chained(values, jnp.full(values.shape, step, dtype), valid)
    return Chained(values, lax.add(offsets, np.asarray(step, dtype)), valid)


def _prefer_later(reduction: Reduction, a: Chained, b: Chained) -> Chained:
    """Return ``b`` where it is strictly preferred to the earlier ``a``, otherwise ``a``."""
    comparator = reduction.comparator
    assert comparator is not None and a.offsets is not None and b.offsets is not None
    prefers_b, valid = comparator(b.values, a.values), None
    if a.valid is not None and b.valid is not None:
        prefers_b, valid = b.valid & (prefers_b | ~a.valid), a.valid | b.valid
    values = lax.select(prefers_b, b.values, a.values)
    return Chained(values, lax.select(prefers_b, b.offsets, a.offsets), valid)


def _correct_offsets(offsets: Array, is_identity: Array, geometry: Geometry) -> Array:
    """Return offsets with the first element, or the sentinel, for windows that are all identity.

    The select comes before the arithmetic; otherwise XLA:GPU would store a table for each axis.
    """
    if not is_padded(geometry):
        return offsets
    first, empty = jnp.zeros(offsets.shape, jnp.int32), None
    for axis, position in geometry.placed:
        window = lax.broadcasted_iota(jnp.int32, offsets.shape, offsets.ndim + position)
        start = select(is_identity, window * axis.stride - axis.pad_low, np.int32(0))
        first_tap = first_valid_offset(axis, start)
        first = first * axis.kernel + first_tap
        if axis.has_empty_window:
            outside = (first_tap >= axis.kernel) | (start + first_tap * axis.dilation >= axis.size)
            empty = outside if empty is None else empty | outside
    dtype = offset_dtype(geometry)
    corrected = lax.select(is_identity, first.astype(dtype), offsets)
    return corrected if empty is None else select(empty, sentinel(dtype), corrected)
