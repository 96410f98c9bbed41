"""The extreme of each window, then the offset of the first element that matches: for XLA:TPU.

    value = extreme over t of x[t]
    offset = t if x[t] == value or x[t] is NaN else offset    for t = last, ..., 1, 0

An extreme is one instruction of a TPU, NaN included, and the selects are one chain. A chain of
pairs asks for NaN before each select, which takes two to three times the cycles. All arithmetic is
in 32 bits, since a TPU v5e compares no numbers that are shorter. Offsets are floats, -1 in a window
without an element: XLA:TPU makes one kernel of two results that are floats.

Strided windows of few elements read them all at once and in place, see :mod:`..parts.grid`.
Other windows take one axis after the other, the last one first: an axis has windows of smaller
windows, and the first of these that matches gives the offset.

Padding has the identity as its value. So the offset of a window that begins in padding is 0 only
if every element of the window is the identity, and then the argmax is its first element. If
elements are masked, offsets say which are none.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry
from ...reductions import Reduction, identity_array
from .. import tuning
from ..parts import grid
from ..parts.argreduce import ValueOffset, offset_dtype, set_sentinels
from ..parts.axis_slicing import lax_padding, levels, pad, pooled_first, shifted_slices
from ..parts.float_order import takes_last_nan
from ..parts.window_counts import first_offsets
from ..request import Request

_NONE = np.float32(-1)
_MOST_NUMBERED = 2**24


def unsupported_reason(request: Request) -> str | None:
    """Return why a chain of matches does not compute what is asked, or None."""
    taps, reduction = request.geometry.taps, request.reduction
    if reduction is None or reduction.extremum is None:
        return "an element may match the extreme and differ from it"
    if taps > _MOST_NUMBERED:
        return f"{taps} elements; float32 has each offset up to {_MOST_NUMBERED}"
    return None


def slower_reason(request: Request) -> str | None:
    """Return why the plan prefers another implementation, or None."""
    taps, most = request.geometry.taps, tuning.MOST_MATCHED_ON_TPU
    if request.geometry.is_non_overlapping and taps > most:
        return f"{taps} elements and no overlap; a chain pays up to {most}"
    return None


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the offset of its argmax, row-major."""
    along = _all_at_once if _is_read_at_once(geometry) else _axis_by_axis
    values, offsets = along(x, valid, geometry, reduction)
    offsets = offsets.astype(jnp.int32).astype(offset_dtype(geometry))
    # Without a barrier the kernel of a gradient would find the argmax once more.
    pair = lax.optimization_barrier((values, offsets))
    return pair if valid is not None else set_sentinels(pair, geometry)


def _is_read_at_once(geometry: Geometry) -> bool:
    sizes_known = all(isinstance(axis.size, int) for axis in geometry.axes)
    few = geometry.taps <= tuning.MOST_MATCHED_ON_TPU
    return geometry.is_strided and few and sizes_known


def _all_at_once(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    order, back, major = pooled_first(geometry, x.ndim)

    def elements_of(a: Array, outside: np.ndarray) -> list[Array]:
        return grid.each_offset(jnp.transpose(a, order), major, outside)

    values = elements_of(x, identity_array(reduction, x.dtype))
    present = None if valid is None else elements_of(valid, np.zeros((), bool))
    numbers: list[Any] = [*np.arange(geometry.taps, dtype=np.float32)]
    if valid is None and _begins_in_padding(geometry):
        numbers[0] = _first_inside(major, x.ndim)
    found = _match(values, numbers, present, reduction)
    return jnp.transpose(found[0], back), jnp.transpose(found[1], back)


def _axis_by_axis(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    dtype = np.dtype(jnp.bfloat16 if offset_dtype(geometry) == np.uint8 else np.float32)
    zero, none = np.zeros((), dtype), _NONE.astype(dtype)
    values, offsets = x, None if valid is None else jnp.where(valid, zero, none)
    outside, unit = zero if valid is None else none, 1
    for axis, position in geometry.placed[::-1]:
        values = pad(values, position, *lax_padding(axis), identity_array(reduction, x.dtype))
        if offsets is not None:
            offsets = pad(offsets, position, *lax_padding(axis), outside)
        for window, shifts in levels(axis.kernel, tuning.MATCH_RADIX_ON_TPU)[::-1]:
            pair, last = (values, offsets), window == axis.kernel
            parts = shifted_slices(pair, axis, position, shifts, last)
            values, offsets = _join(parts, [n * unit for n in shifts], reduction, valid is not None)
            offsets = offsets.astype(dtype)
        unit *= axis.kernel
    assert offsets is not None
    offsets = offsets.astype(jnp.float32)
    if valid is None and _begins_in_padding(geometry):
        offsets = jnp.where(offsets == 0, _first_inside(geometry, x.ndim), offsets)
    return values, offsets


def _join(
    parts: Sequence[tuple[Array, Array | None]],
    steps: Sequence[int],
    reduction: Reduction,
    masked: bool,
) -> ValueOffset:
    """The pair of each window that is made of smaller ones, ``steps`` after its start.

    Elements have no offsets yet, unless they are masked.
    """
    numbers: list[Any] = [np.float32(step) for step in steps]
    stored = [offset.astype(jnp.float32) for _, offset in parts if offset is not None]
    if stored:
        numbers = [offset + step for offset, step in zip(stored, numbers, strict=True)]
    present = [offset >= 0 for offset in stored] if masked else None
    return _match([value for value, _ in parts], numbers, present, reduction)


def _begins_in_padding(geometry: Geometry) -> bool:
    return any(axis.pad_low for axis in geometry.axes)


def _first_inside(geometry: Geometry, rank: int) -> Array:
    return first_offsets(geometry, rank).astype(jnp.float32)


def _match(
    values: Sequence[Array],
    offsets: Sequence[Any],
    present: Sequence[Array] | None,
    reduction: Reduction,
) -> ValueOffset:
    """Return the extreme of some elements of each window, and the offset of the first that is it.

    Args:
      values: of the elements, in the order of their offsets; the identity where there is none.
      offsets: of the elements: numbers, or an array for each.
      present: where there are elements; None is everywhere.
      reduction: a maximum or minimum.
    """
    wide = [_widened(value) for value in values]
    extreme = functools.reduce(reduction.combine, wide)
    is_nan = [value != value for value in wide]
    match = [(value == extreme) | nan for value, nan in zip(wide, is_nan, strict=True)]
    if present is None:
        match[-1] = jnp.ones(extreme.shape, bool)
    else:
        match = [here & found for here, found in zip(present, match, strict=True)]
    chain = [*zip(match, offsets, strict=True)][::-1]
    if takes_last_nan(reduction):
        chain += zip(is_nan, offsets, strict=True)
    offset = jnp.full(extreme.shape, _NONE)
    for take, number in chain:
        offset = jnp.where(take, number, offset)
    return extreme.astype(values[0].dtype), offset


def _widened(x: Array) -> Array:
    """``x`` in a dtype of 32 bits that has all its numbers, or as it is if it has as many bits."""
    if x.dtype.itemsize >= 4:
        return x
    return x.astype(jnp.float32 if jnp.issubdtype(x.dtype, jnp.floating) else jnp.int32)
