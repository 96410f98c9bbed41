"""Compute the extreme of each window, then the offset of its first match: for XLA:TPU.

    value = extreme over t of x[t]
    offset = t if x[t] == value or x[t] is NaN else offset    for t = last, ..., 1, 0

A TPU computes an extreme in one instruction, NaN included, and the selects are one chain. A chain
of pairs of value and offset must test for NaN before each select, which takes two to three times
the cycles. All arithmetic is in 32 bits, since a TPU v5e cannot compare shorter numbers. Offsets
are floats, -1 in a window without an element: XLA:TPU makes one kernel of two results that are
floats.

Strided windows with few elements read all axes jointly and in place, see :mod:`..parts.grid`. If an
axis is no multiple of its stride, the grid needs a padded copy of the array. XLA:TPU also reads
strided slices in place, but only in a layout whose pooled axes are major; in others each slice is
stored. XLA:TPU chooses the layout that pads least, unless an operation next to it requires another.
So the elements are slices where such a layout pads less than all others, and windows do not extend
past an end: slices of a padded array take more cycles than the grid. The mask of a small window is
read at each offset as well, so that no masked copy is stored.

Other windows are reduced along one axis after another, the last axis first. Along an axis, windows
are built from smaller windows, and the first of these that matches gives the offset.

Padding has the identity as its value. So a window that begins in padding has offset 0 only if each
of its elements is the identity, and its argmax is then its first element. If elements are masked,
the offset -1 marks those that are not valid.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry, is_static
from ..._xla.select import select
from ...reductions import Reduction, identity_array, mask_with_identity
from .. import tuning
from ..parts import grid, tiles
from ..parts.argreduce import ValueOffset, offset_dtype, set_sentinels
from ..parts.axis_slicing import (
    each_offset,
    is_padded,
    lax_padding,
    pad,
    pooled_first,
    shifted_slices,
    window_levels,
)
from ..parts.float_order import takes_last_nan
from ..parts.window_counts import first_offsets
from ..request import MATCH_MAY_DIFFER, Request

_NO_OFFSET = np.float32(-1)
_MAX_TAPS = 2**24


def unsupported_reason(request: Request) -> str | None:
    """Return why a chain of matches does not support ``request``, or None."""
    taps, reduction = request.geometry.taps, request.reduction
    if reduction is None or reduction.extremum is None:
        return MATCH_MAY_DIFFER
    if taps > _MAX_TAPS:
        return f"{taps} elements; float32 is exact up to {_MAX_TAPS}"
    return None


def slower_reason(request: Request) -> str | None:
    """Return why the plan prefers another implementation, or None."""
    taps, limit = request.geometry.taps, tuning.MAX_MATCHED_ON_TPU
    if request.geometry.is_non_overlapping and taps > limit:
        return f"{taps} elements and no overlap; a chain is faster up to {limit}"
    return None


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the offset of its argmax, row-major."""
    find = _match_jointly if _is_read_jointly(geometry) else _match_by_axis
    pair = find(x, valid, geometry, reduction)
    return pair if valid is not None else set_sentinels(pair, geometry)


def _is_read_jointly(geometry: Geometry) -> bool:
    """Return whether one chain reads the elements of all axes."""
    is_small = geometry.taps <= tuning.MAX_MATCHED_ON_TPU
    return geometry.is_strided and is_small and is_static(geometry.spatial_shape)


def _match_jointly(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the argreduction by one chain over the offsets of all axes."""
    order, inverse, major = pooled_first(geometry, x.ndim)
    read = each_offset if is_sliced_in_place(x.shape, geometry) else grid.each_offset

    def elements_of(a: Array, padding: np.ndarray) -> list[Array]:
        return [*read(jnp.transpose(a, order), major, padding)]

    is_masked_late = geometry.taps <= tuning.MAX_MASKED_LATE_ON_TPU
    values, present = _masked_elements(x, valid, reduction, elements_of, is_masked_late)
    offsets: list[Any] = [*np.arange(geometry.taps, dtype=np.float32)]
    if valid is None and _begins_in_padding(geometry):
        offsets[0] = first_offsets(major, x.ndim).astype(jnp.float32)
    found = match(values, offsets, present, reduction, from_result=True)
    pair = _stored(*found, geometry)
    return jnp.transpose(pair[0], inverse), jnp.transpose(pair[1], inverse)


def _masked_elements(
    x: Array,
    valid: Array | None,
    reduction: Reduction,
    elements_of: Callable[[Array, np.ndarray], list[Array]],
    is_masked_late: bool,
) -> tuple[list[Array], list[Array] | None]:
    """Return the elements at each offset, with the identity where masked, and their masks."""
    identity = identity_array(reduction, x.dtype)
    if valid is None:
        return elements_of(x, identity), None
    if not is_masked_late:
        values = elements_of(mask_with_identity(x, valid, reduction), identity)
        return values, elements_of(valid, np.zeros((), bool))
    stored = lax.optimization_barrier(valid)  # a pad is fused only if it reads an operand
    present = elements_of(stored, np.zeros((), bool))
    elements = zip(present, elements_of(x, identity), strict=True)
    return [select(mask, element, identity) for mask, element in elements], present


def _stored(values: Array, offsets: Array, geometry: Geometry) -> ValueOffset:
    """Return values and offsets behind a barrier.

    Without a barrier, the kernel of a gradient would recompute the argmax. XLA:TPU makes one kernel
    of both only if the barrier comes before a transpose.
    """
    offsets = offsets.astype(jnp.int32).astype(offset_dtype(geometry))
    return lax.optimization_barrier((values, offsets))


def is_sliced_in_place(shape: Sequence[Any], geometry: Geometry) -> bool:
    """Return whether strided slices read an array in place, and the grid would need a copy."""
    if is_padded(geometry) or not any(axis.size % axis.stride for axis in geometry.axes):
        return False
    return tiles.has_pooled_axes_major(shape, geometry)


def _match_by_axis(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the argreduction by chains along one axis after another, the last axis first."""
    x = mask_with_identity(x, valid, reduction)
    dtype = np.dtype(jnp.bfloat16 if offset_dtype(geometry) == np.uint8 else np.float32)
    zero, no_offset = np.zeros((), dtype), _NO_OFFSET.astype(dtype)
    values, offsets = x, None if valid is None else jnp.where(valid, zero, no_offset)
    padding, unit = zero if valid is None else no_offset, 1
    for axis, position in geometry.placed[::-1]:
        values = pad(values, position, *lax_padding(axis), identity_array(reduction, x.dtype))
        if offsets is not None:
            offsets = pad(offsets, position, *lax_padding(axis), padding)
        for window, shifts in window_levels(axis.kernel, tuning.MATCH_RADIX_ON_TPU)[::-1]:
            pair, last = (values, offsets), window == axis.kernel
            parts = shifted_slices(pair, axis, position, shifts, last)
            values, offsets = _join(parts, [n * unit for n in shifts], reduction, valid is not None)
            offsets = offsets.astype(dtype)
        unit *= axis.kernel
    assert offsets is not None
    offsets = offsets.astype(jnp.float32)
    if valid is None and _begins_in_padding(geometry):
        is_first = offsets == 0
        first = first_offsets(geometry, x.ndim).astype(jnp.float32)
        offsets = jnp.where(is_first, first, offsets)
    return _stored(values, offsets, geometry)


def _join(
    parts: Sequence[tuple[Array, Array | None]],
    steps: Sequence[int],
    reduction: Reduction,
    masked: bool,
) -> ValueOffset:
    """Return values and offsets of windows from those of their ``parts``, which begin at ``steps``.

    Parts without offsets are single elements, all valid.
    """
    offsets: list[Any] = [np.float32(step) for step in steps]
    part_offsets = [offset.astype(jnp.float32) for _, offset in parts if offset is not None]
    if part_offsets:
        offsets = [offset + step for offset, step in zip(part_offsets, offsets, strict=True)]
    present = [offset >= 0 for offset in part_offsets] if masked else None
    return match([value for value, _ in parts], offsets, present, reduction)


def _begins_in_padding(geometry: Geometry) -> bool:
    return any(axis.pad_low for axis in geometry.axes)


def match(
    values: Sequence[Array],
    offsets: Sequence[Any],
    present: Sequence[Array] | None,
    reduction: Reduction,
    from_result: bool = False,
) -> ValueOffset:
    """Return the extreme of the elements of each window, and the offset of its first match.

    Args:
      values: the elements of each window, in the order of their offsets; the identity in padding.
      offsets: the offset of each array of ``values``: a number or an array.
      present: masks of the elements that are valid; None if all are.
      reduction: a maximum or minimum.
      from_result: whether elements are compared with the result in the dtype of the elements.
        XLA:TPU then makes one kernel of values and offsets of strided windows.
    """
    elements = [_as_32_bits(value) for value in values]
    extreme = functools.reduce(reduction.combine, elements)
    result = extreme.astype(values[0].dtype)
    if from_result:
        extreme = _as_32_bits(result)
    is_nan = [lax.ne(value, value) for value in elements]
    equals = [lax.eq(value, extreme) for value in elements]
    matches = [*map(lax.bitwise_or, equals, is_nan)]
    if present is None:
        matches[-1] = jnp.ones(extreme.shape, bool)
    else:
        matches = [*map(lax.bitwise_and, present, matches)]
    chain = [*zip(matches, offsets, strict=True)][::-1]
    if takes_last_nan(reduction):
        chain += zip(is_nan, offsets, strict=True)
    offset = jnp.full(extreme.shape, _NO_OFFSET)
    for mask, number in chain:
        offset = lax.select(mask, jnp.broadcast_to(number, offset.shape), offset)
    return result, offset


def _as_32_bits(x: Array) -> Array:
    """Return ``x`` in float32 or int32, which represent it exactly; unchanged from 32 bits on."""
    if x.dtype.itemsize >= 4:
        return x
    return x.astype(jnp.float32 if jnp.issubdtype(x.dtype, jnp.floating) else jnp.int32)
