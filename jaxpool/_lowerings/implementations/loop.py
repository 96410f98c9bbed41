"""Reading and writing windows at any offsets, one element of the window after the other.

With ``offset[o]`` of window ``o``, ``t`` an offset and ``p(o, t)`` where it lies,

    gather(x)[o] = sum over t of x[p(o, t)] where offset[o] = t,
    scatter(g)[i] = sum over t of g[o] where offset[o] = t, of the window with p(o, t) = i.

The program does not grow with the window, cost does (:mod:`..parts.every_tap`). It is for long
windows that overlap and whose offsets are no argmax: two windows that share an element may then
disagree about it, and no two can be taken together as in :mod:`..parts.offset_levels`.
"""

from collections.abc import Callable

import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry
from ..._xla.materialize import materialize
from ..._xla.sharding_types import varying_alike
from .. import tuning
from ..parts import every_tap
from ..parts.argreduce import sentinel
from ..parts.axis_slicing import lax_padding, pad_all
from ..parts.every_tap import Reads, State, reduce_taps, sum_of_named
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
    """Return the sum, for each element, of the values of the windows whose offset names it.

    An element reads what each window would give it: several at once, which writes could not be.
    """
    shape, room = list(g.shape), [(0, 0, 0)] * g.ndim
    for axis, position in geometry.placed:
        low, reach = lax_padding(axis)[0], axis.span - 1
        high = axis.size - 1 + low - (axis.out - 1) * axis.stride
        shape[position], room[position] = axis.size, (reach - low, high, axis.stride - 1)
    g, offsets = materialize(g, offsets)  # or XLA:CPU pads g while offsets are still being found
    given = lax.pad(g, np.zeros((), g.dtype), room)
    offsets = lax.pad(offsets, sentinel(offsets.dtype), room)
    forward = reads_of(geometry, tuple(shape))

    def shifts(numbers: Array) -> list[Array]:
        ends = [axis.span - 1 for axis in geometry.axes]
        return [end - shift for end, shift in zip(ends, forward.shifts(numbers), strict=True)]

    one = (1,) * len(geometry.axes)
    back = Reads(geometry.positions, forward.shape, one, geometry.taps, shifts)
    return reduce_taps(back, sum_of_named(g.dtype), (given, offsets))


def walk(
    x: Array, geometry: Geometry, step: Callable[[Array, Array, State], State], state: State
) -> State:
    """Return ``step(offset, elements at that offset, state)`` over all offsets, row-major.

    Elements of padding are 0. The loop is unrolled for small windows.
    """
    padded = pad_all(x, geometry, np.zeros((), x.dtype))
    padded, state = varying_alike((padded, state))
    one = lambda offset, elements, state: step(offset, elements[0], state)  # noqa: E731
    unroll = geometry.taps <= tuning.MOST_SLICED_OFFSETS or tuning.OFFSETS_AT_ONCE
    reads = reads_of(geometry, geometry.full_shape(x.shape))
    return every_tap.walk(reads, one, state, (padded,), unroll)


def reads_of(geometry: Geometry, shape: tuple[int, ...]) -> Reads:
    """What windows with a result of ``shape`` read of a padded array."""

    def shifts(numbers: Array) -> list[Array]:
        steps = zip(geometry.axes, digits(numbers, geometry.kernel), strict=True)
        return [digit * np.asarray(axis.dilation, digit.dtype) for axis, digit in steps]

    strides = tuple(axis.stride for axis in geometry.axes)
    return Reads(geometry.positions, shape, strides, geometry.taps, shifts)


def digits(offsets: Array, kernel: tuple[int, ...]) -> list[Array]:
    """Return the offset along each pooled axis, of row-major offsets."""
    found = []
    for count in reversed(kernel):
        found.append(offsets % np.asarray(count, offsets.dtype))
        offsets = offsets // np.asarray(count, offsets.dtype)
    return found[::-1]
