"""Reading and writing windows at any offsets, one element of the window after the other.

With ``offset[o]`` of window ``o``, ``t`` an offset and ``p(o, t)`` where it lies,

    gather(x)[o] = sum over t of x[p(o, t)] where offset[o] = t,
    scatter(g)[i] = sum over t of g[o] where offset[o] = t, of the window with p(o, t) = i.

The program does not grow with the window, cost does (:mod:`..parts.every_tap`). It is for long
windows that overlap and whose offsets are no argmax: two windows that share an element may then
disagree about it, and no two can be taken together as in :mod:`..parts.offset_levels`.
"""

import numpy as np
from jax import Array

from ..._geometry.resolve import Geometry
from ..._xla.materialize import materialize
from ..parts.axis_slicing import pad_all
from ..parts.every_tap import Reads, padded_windows, reads_of, reduce_taps, sum_of_named
from ..parts.phases import room_of_windows
from ..request import Request


def unsupported_reason(request: Request) -> str | None:
    """Return None: any offsets of any windows can be read and written."""
    return None


def gather(x: Array, offsets: Array, geometry: Geometry) -> Array:
    """Return the element of ``x`` at the offset of every window, 0 for the sentinel."""
    padded = pad_all(x, geometry, np.zeros((), x.dtype))
    fold, reads = sum_of_named(x.dtype), reads_of(geometry, offsets.shape)
    return reduce_taps(reads, fold, (padded,), (offsets,))


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return the sum, for each element, of the values of the windows whose offset names it."""
    shape, room = list(g.shape), [(0, 0, 0)] * g.ndim
    for axis, position in geometry.placed:
        shape[position], room[position] = axis.size, room_of_windows(axis)
    g, offsets = materialize(g, offsets)  # or XLA:CPU pads g while offsets are still being found
    given = padded_windows(g, offsets, room)
    forward = reads_of(geometry, tuple(shape))

    def shifts(numbers: Array) -> list[Array]:
        ends = [axis.span - 1 for axis in geometry.axes]
        return [end - shift for end, shift in zip(ends, forward.shifts(numbers), strict=True)]

    one = (1,) * len(geometry.axes)
    back = Reads(geometry.positions, forward.shape, one, geometry.taps, shifts)
    return reduce_taps(back, sum_of_named(g.dtype), given)
