"""Values and offsets by a chain of selects over phases of an array: for XLA:TPU.

    value, offset = (x at t, t) if x at t is preferred else (value, offset)    for t = 0, 1, ...

The elements at one offset are read in place, see :mod:`..parts.element_grid`.

One kernel has both results only if they are stored alike. So offsets have the dtype of the values
until a barrier, and are bytes behind it. The chain runs in 32 bits, since a TPU v5e compares no
numbers that are shorter.

Padding has the identity as its value, which is preferred to nothing. So the chain ends at offset 0
of a window that begins in padding only if every element of it is the identity, and then the argmax
is its first element. Elements may also be masked; then the chain carries which are valid.
"""

import itertools

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry
from ...reductions import Reduction, identity_array
from .. import tuning
from ..parts import element_grid
from ..parts.argreduce import ValueOffset, offset_dtype, set_sentinels
from ..parts.axis_slicing import pooled_first
from ..parts.window_counts import first_inside
from ..request import Request

_NONE = 255


def unsupported_reason(request: Request) -> str | None:
    """Return why a chain over phases does not compute what is asked, or None."""
    taps, reduction = request.geometry.taps, request.reduction
    if request.dtype == np.bool_:
        return "offsets are numbers, and have the dtype of the values until they are stored"
    if reduction is None or reduction.extremum is None:
        return "an element may tie with the identity and differ from it"
    if taps > tuning.MOST_CHAINED_ON_TPU:
        return f"{taps} elements; a chain pays up to {tuning.MOST_CHAINED_ON_TPU}"
    if not all(isinstance(axis.size, int) for axis in request.geometry.axes):
        return "the length of an axis is not known, nor what would make it whole groups"
    return None


def slower_reason(request: Request) -> str | None:
    """Return why the plan prefers another implementation, or None."""
    if not request.geometry.is_strided:
        return "every stride is 1; windows of smaller windows share comparisons"
    return None


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the offset of its argmax, row-major."""
    order, back, major = pooled_first(geometry, x.ndim)
    mask = None if valid is None else jnp.transpose(valid, order)
    values, offsets = _chain(jnp.transpose(x, order), mask, major, reduction)
    values, offsets = lax.optimization_barrier((values.astype(x.dtype), offsets.astype(x.dtype)))
    pair = values, offsets.astype(offset_dtype(geometry))
    if valid is None:
        pair = set_sentinels(_inside(pair, major), major)
    values, offsets = pair
    return jnp.transpose(values, back), jnp.transpose(offsets, back)


def _chain(x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction) -> ValueOffset:
    """The value of each window, and where the chain ended; 255 where no element is valid."""
    comparator, identity = reduction.comparator, identity_array(reduction, x.dtype)
    assert comparator is not None
    wide = _wide(x.dtype)
    none = np.asarray(_NONE).astype(x.dtype).astype(wide)
    values = offsets = None
    x, absent = element_grid.split(x, geometry, identity), np.zeros((), bool)
    valid = None if valid is None else element_grid.split(valid, geometry, absent)
    for number, place in enumerate(itertools.product(*map(range, geometry.kernel))):
        element = element_grid.at(x, place, geometry, identity).astype(wide)
        here = None if valid is None else element_grid.at(valid, place, geometry, absent)
        if values is None or offsets is None:
            values, offsets = element, jnp.zeros_like(element)
            offsets = offsets if here is None else jnp.where(here, offsets, none)
            continue
        take = comparator(element, values)
        if here is not None:
            take = here & (take | (offsets == none))
        if x.dtype == wide:
            values = jnp.where(take, element, values)
        else:
            # An extreme is one instruction, where a select asks for NaN first. Of values that are
            # not widened, XLA:TPU would make two kernels of an extreme and the offsets.
            values = reduction.combine(values, element)
        offsets = jnp.where(take, np.asarray(number, wide), offsets)
    assert values is not None and offsets is not None
    return values, offsets


def _wide(dtype: np.dtype) -> np.dtype:
    """The dtype of 32 bits that holds all numbers of a shorter one."""
    if dtype.itemsize >= 4:
        return dtype
    return np.dtype(np.float32 if jnp.issubdtype(dtype, jnp.floating) else np.int32)


def _inside(pair: ValueOffset, geometry: Geometry) -> ValueOffset:
    """Return ``pair`` with the offset of the first element for windows of identities."""
    values, offsets = pair
    if not any(axis.pad_low for axis in geometry.axes):
        return pair
    first = jnp.zeros(offsets.shape, jnp.int32)
    for axis, position in geometry.placed:
        window = lax.broadcasted_iota(jnp.int32, offsets.shape, offsets.ndim + position)
        start = window * axis.stride - axis.pad_low
        first = first * axis.kernel + first_inside(axis, start)
    return values, jnp.where(offsets == 0, first.astype(offsets.dtype), offsets)
