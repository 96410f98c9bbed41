"""Values and offsets by a chain of selects, one for each offset: for XLA:GPU.

    value, offset = (x at t, t) if x at t is preferred else (value, offset)    for t = 0, 1, ...

XLA:GPU makes one kernel with two results of a chain over slices, and several of a tree. Windows of
many elements take one axis after the other, the last one first: the argmax of each row, and then
the first of the best rows, which is the order of offsets. That is a chain for each axis.
"""

import functools
import itertools

from jax import Array

from .._geometry.resolve import Geometry
from ..reductions import Reduction, identity_array
from . import tuning
from .argreduce import (
    ValueOffset,
    add_offset,
    initial_pair,
    offset_dtype,
    prefers_later,
    sentinel,
    set_sentinels,
)
from .axis_slicing import elements_at, lax_padding, pad_all
from .request import Request


def unsupported_reason(request: Request) -> str | None:
    """Return why a chain does not compute what is asked, or None."""
    longest, most = max(request.geometry.kernel), tuning.LONGEST_CHAINED_ON_GPU
    if longest > most:
        return f"{longest} elements on one axis; a chain pays up to {most}"
    return None


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the offset of its argmax, row-major."""
    dtype = offset_dtype(geometry)
    sparse = valid is not None or any(any(lax_padding(axis)) for axis in geometry.axes)
    groups = [geometry] if geometry.taps <= tuning.MOST_CHAINED_ON_GPU else _axes(geometry)
    pair, unit = initial_pair(x, valid, dtype), 1
    for group in groups[::-1]:
        pair = _along(pair, group, unit, reduction, sparse)
        unit *= group.taps
    return set_sentinels(pair, geometry)


def _axes(geometry: Geometry) -> list[Geometry]:
    return [Geometry((axis,), (position,)) for axis, position in geometry.placed]


def _along(
    pair: ValueOffset, geometry: Geometry, unit: int, reduction: Reduction, sparse: bool
) -> ValueOffset:
    """The best of each window along some axes; ``unit`` is what an offset of them counts."""
    values, offsets = pair
    values = pad_all(values, geometry, identity_array(reduction, values.dtype))
    offsets = pad_all(offsets, geometry, sentinel(offsets.dtype))
    pairs = []
    for number, place in enumerate(itertools.product(*map(range, geometry.kernel))):
        at = elements_at(values, place, geometry), elements_at(offsets, place, geometry)
        pairs.append(add_offset(at, number * unit, sparse))
    return functools.reduce(prefers_later(reduction, sparse), pairs)
