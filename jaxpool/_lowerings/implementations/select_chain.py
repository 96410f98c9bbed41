"""Values and offsets by a chain of selects, one for each offset: for XLA:GPU.

    value, offset = (x at t, t) if x at t is preferred else (value, offset)    for t = 0, 1, ...

XLA:GPU makes one kernel with two results of a chain over slices, and several of a tree. Windows of
many elements take one axis after the other, the last one first: the argmax of each row, and then
the first of the rows with the largest value, which is the order of offsets. That is a chain for
each axis, and for a long axis one for each level of windows of smaller windows.

Padding is the identity and is preferred to nothing. So a chain finds an element, or all elements of
the window are the identity too, and the first of them is the argmax. Which one that is, is computed
at the end from the window's number, and only there. A mask of the padding would be compared at each
offset, and XLA:GPU makes a table of each comparison in a kernel of its own. A selection in which
elements may tie with the identity and differ from it takes the mask nevertheless.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry
from ...reductions import Reduction, identity_array
from .. import tuning
from ..parts.argreduce import (
    ValueOffset,
    add_offset,
    initial_pair,
    offset_dtype,
    prefers_later,
    sentinel,
    set_sentinels,
)
from ..parts.axis_slicing import each_place, elements_at, is_padded, levels, pad_all, shifted_slices
from ..parts.window_counts import first_inside
from ..request import Request


def unsupported_reason(request: Request) -> str | None:
    """Return why a chain does not compute what is asked, or None."""
    geometry = request.geometry
    longest, most = max(geometry.kernel), tuning.LONGEST_CHAINED_ON_GPU
    if longest > most and geometry.is_non_overlapping:
        return f"{longest} elements on one axis and no overlap; chains pay up to {most}"
    return None


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the offset of its argmax, row-major."""
    dtype = offset_dtype(geometry)
    masked = valid is not None or reduction.extremum is None
    values, offsets = initial_pair(x, valid, dtype) if masked else (x, None)
    end = len(geometry.axes)
    for first in [0] if geometry.taps <= tuning.MOST_CHAINED_ON_GPU else reversed(range(end)):
        group, unit = _axes(geometry, first, end), _axes(geometry, end, None).taps
        narrow = dtype if masked else offset_dtype(_axes(geometry, first, None))
        values, offsets = _along(values, offsets, group, unit, narrow, reduction, masked)
        end = first
    assert offsets is not None
    if masked:
        return set_sentinels((values, offsets), geometry)
    return values, _or_first(offsets, values == identity_array(reduction, x.dtype), geometry)


def _axes(geometry: Geometry, first: int, end: int | None) -> Geometry:
    return Geometry(geometry.axes[first:end], geometry.positions[first:end])


def _along(
    values: Array,
    offsets: Array | None,
    group: Geometry,
    unit: int,
    dtype: np.dtype,
    reduction: Reduction,
    masked: bool,
) -> ValueOffset:
    """The value and offset of each window along some axes.

    Args:
      values: elements, or values of windows along the axes behind.
      offsets: of the values; None of elements.
      group: the axes.
      unit: what an offset of them counts.
      dtype: of the resulting offsets.
      reduction: a maximum or minimum.
      masked: whether offsets may be sentinels; otherwise those of padding do not matter.
    """
    values = pad_all(values, group, identity_array(reduction, values.dtype))
    if offsets is not None:
        offsets = pad_all(offsets.astype(dtype), group, sentinel(dtype))
    pair: Any = (values, offsets)

    def chained(steps: Sequence[int], parts: Sequence[Any]) -> ValueOffset:
        moved = [
            _moved(p, step * unit, dtype, masked) for p, step in zip(parts, steps, strict=True)
        ]
        return functools.reduce(prefers_later(reduction, masked), moved)

    if max(group.kernel) <= tuning.LONGEST_CHAINED_ON_GPU:
        parts = [
            jax.tree.map(lambda a, place=place: elements_at(a, place, group), pair)
            for place in each_place(group)
        ]
        return chained(range(group.taps), parts)
    ((axis, position),) = group.placed
    for window, shifts in levels(axis.kernel, tuning.CHAIN_RADIX_ON_GPU)[::-1]:
        last = window == axis.kernel
        pair = chained(shifts, shifted_slices(pair, axis, position, shifts, last))
    return pair


def _moved(
    pair: tuple[Array, Array | None], step: int, dtype: np.dtype, masked: bool
) -> ValueOffset:
    """A pair with ``step`` added to its offsets; those of elements are none yet."""
    values, offsets = pair
    if offsets is None:
        return values, jnp.full(values.shape, step, dtype)
    return add_offset((values, offsets), step, masked)


def _or_first(offsets: Array, every: Array, geometry: Geometry) -> Array:
    """The offset of the first element where ``every`` element ties, the sentinel without one.

    The select comes before the arithmetic, which would otherwise be a table of each axis.
    """
    if not is_padded(geometry):
        return offsets
    first, empty = jnp.zeros(offsets.shape, jnp.int32), None
    for axis, position in geometry.placed:
        window = lax.broadcasted_iota(jnp.int32, offsets.shape, offsets.ndim + position)
        start = jnp.where(every, window * axis.stride - axis.pad_low, 0)
        low = first_inside(axis, start)
        first = first * axis.kernel + low
        if axis.has_empty_window:
            outside = (low >= axis.kernel) | (start + low * axis.dilation >= axis.size)
            empty = outside if empty is None else empty | outside
    dtype = offset_dtype(geometry)
    found = jnp.where(every, first.astype(dtype), offsets)
    return found if empty is None else jnp.where(empty, sentinel(dtype), found)
