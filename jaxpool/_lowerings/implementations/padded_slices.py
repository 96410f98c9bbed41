"""Windows at stride 1 as slices of a padded copy: sums, their transposes, and the argmax of floats.

With zeros around the array every window has all of its elements, so one loop adds one slice for
each offset. :mod:`.slices` has a loop for each segment of the windows: it stores no copy, but
XLA:CPU compiles up to nine loops instead of two.

The transpose of such a sum is again such a sum, of the cotangent, over the windows of window starts
that :func:`..parts.phases.transposed_axis` returns.

For an argmax, the copy has the keys of :mod:`..parts.float_order`, and around them a key that loses
to all floats, so padding is no argmax even beside -inf. Integers are compared without the NaN rule,
and keys that are stored are computed once for all windows. One loop compares them and returns both
the floats and the offsets.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry
from ..._xla.materialize import materialize
from ...reductions import Reduction, identity_array
from .. import tuning
from ..parts.argreduce import ValueOffset, add_offset, in_one_loop, offset_dtype, prefers_later
from ..parts.axis_slicing import (
    each_tap,
    elements_at,
    pad_to_windows,
    tree_reduce,
    with_padding,
)
from ..parts.float_order import argmax_keys, from_argmax_keys, is_16_bit_extreme
from ..parts.phases import transposed_axis
from ..request import Request


def unsupported_reason(request: Request) -> str | None:
    """Return why another implementation computes the transpose, or None."""
    return _geometry_reason(request.geometry)


def _geometry_reason(geometry: Geometry) -> str | None:
    """Return why slices of a padded copy do not suit ``geometry``, or None."""
    if geometry.is_strided:
        return "windows do not start at every element"
    if -1 in geometry.positions:
        return "the contiguous axis is pooled: slices of a copy are not aligned"
    if geometry.taps > tuning.MAX_JOINT:
        return f"windows of {geometry.taps} elements; one loop reads up to {tuning.MAX_JOINT}"
    return None


def saves_loops(x: Any, geometry: Geometry) -> bool:
    """Return whether a sum saves more compilation time than its padded copy costs."""
    if geometry.taps <= tuning.FEW_ELEMENTS or _geometry_reason(geometry):
        return False
    is_small = isinstance(x.size, int) and x.size <= tuning.MAX_COPIED
    return is_small and any(len(axis.segments()) > 1 for axis in geometry.axes)


def window_sum(x: Array, geometry: Geometry) -> Array:
    """Return the sum of every window."""
    padded = materialize(pad_to_windows(x, geometry))
    return tree_reduce(lax.add, [elements_at(padded, tap, geometry) for tap in each_tap(geometry)])


def sum_transpose(g: Array, geometry: Geometry) -> Array:
    """Return for each element the sum of the values of all windows that contain it."""
    return window_sum(g, Geometry(tuple(map(transposed_axis, geometry.axes)), geometry.positions))


def argmax_saves_loops(x: Any, geometry: Geometry) -> bool:
    """Return whether an argmax of floats by a padded copy saves loops and takes no longer."""
    padded_axes = sum(len(axis.segments()) > 1 for axis in geometry.axes)
    if geometry.is_strided or padded_axes < 2 or not isinstance(x.size, int):
        return False
    is_small = x.size * x.dtype.itemsize <= tuning.MAX_BYTES_COPIED
    return is_small and tuning.FEW_ELEMENTS < geometry.taps <= tuning.MAX_JOINT


def window_argmax(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window of floats and the offset of its argmax, row-major."""
    keys, extreme = argmax_keys(x, valid, reduction)
    windows, padded = with_padding(keys, geometry, identity_array(extreme, keys.dtype))
    *inner, last = _loops(windows)
    pair, unit, dtype = (materialize(padded),), 1, offset_dtype(geometry)
    for axes in inner:
        pair = in_one_loop(_argmax(pair, axes, unit, dtype, extreme), extreme)
        unit *= axes.taps
    pair = _argmax(pair, last, unit, dtype, extreme)
    if is_16_bit_extreme(reduction, x):  # floats in the loop would have 32 bits
        return from_argmax_keys(in_one_loop(pair, extreme), x.dtype, reduction, may_be_empty=True)
    return in_one_loop(from_argmax_keys(pair, x.dtype, reduction, may_be_empty=True), reduction)


def _loops(geometry: Geometry) -> list[Geometry]:
    """Return the windows of each loop: one, or one per axis if the contiguous axis is pooled."""
    if -1 not in geometry.positions:
        return [geometry]
    return [Geometry((axis,), (position,)) for axis, position in geometry.placed[::-1]]


def _argmax(
    arrays: Sequence[Array], geometry: Geometry, unit: int, dtype: np.dtype, extreme: Reduction
) -> ValueOffset:
    """Return the argmax of keys, or of pairs of a key and an offset along the axes after these."""
    pairs = []
    for number, tap in enumerate(each_tap(geometry)):
        keys, *offsets = elements_at(arrays, tap, geometry)
        pair = keys, offsets[0] if offsets else lax.full_like(keys, 0, dtype)
        pairs.append(add_offset(pair, number * unit, may_be_empty=False))
    return tree_reduce(prefers_later(extreme, may_be_empty=False), pairs)
