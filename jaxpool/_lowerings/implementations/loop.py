"""Reading and writing windows at any offsets, one element of the window after the other.

With ``offset[o]`` of window ``o``, ``t`` an offset and ``p(o, t)`` where it lies,

    gather(x)[o] = sum over t of x[p(o, t)] where offset[o] = t,
    scatter(g)[i] = sum over t of g[o] where offset[o] = t, of the window with p(o, t) = i.

The program does not grow with the window, cost does (:mod:`..parts.every_tap`). It is for long
windows that overlap and whose offsets are no argmax: two windows that share an element may then
disagree about it, and no two can be taken together as in :mod:`..parts.offset_levels`.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry
from ..._xla.materialize import materialize
from ..._xla.sharding_types import varying_alike
from .. import tuning
from ..parts.argreduce import sentinel
from ..parts.axis_slicing import lax_padding, pad_all
from ..parts.every_tap import Reads, reduce_taps
from ..request import Request

State = TypeVar("State")


def unsupported_reason(request: Request) -> str | None:
    """Return None: any offsets of any windows can be read and written."""
    return None


def gather(x: Array, offsets: Array, geometry: Geometry) -> Array:
    """Return the element of ``x`` at the offset of every window, 0 for the sentinel."""
    padded = pad_all(x, geometry, np.zeros((), x.dtype))
    return _sum_where(reads_of(geometry, offsets.shape), (padded,), (offsets,))


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
    return _sum_where(back, (given, offsets))


def _sum_where(reads: Reads, arrays: Sequence[Array], others: Sequence[Array] = ()) -> Array:
    """The sum of the elements of the first array, each where its offset is that of the tap."""
    zero = np.zeros((), arrays[0].dtype)

    def term(number: Array, element: Array, offset: Array) -> Array:
        return jnp.where(offset == number.astype(offset.dtype), element, zero)

    return reduce_taps(reads, term, zero, lax.add, arrays, others)


def walk(
    x: Array, geometry: Geometry, step: Callable[[Array, Array, State], State], state: State
) -> State:
    """Return ``step(offset, elements at that offset, state)`` over all offsets, row-major.

    Elements of padding are 0. The loop is unrolled for small windows.
    """
    padded = pad_all(x, geometry, np.zeros((), x.dtype))
    padded, state = varying_alike((padded, state))
    reads = reads_of(geometry, geometry.full_shape(x.shape))

    def body(offset: Array, state: State) -> State:
        offset = jnp.asarray(offset)  # an int under jax.disable_jit
        return step(offset, reads.elements(padded, offset), state)

    few = geometry.taps <= tuning.MOST_SLICED_OFFSETS
    return lax.fori_loop(0, geometry.taps, body, state, unroll=few or tuning.OFFSETS_AT_ONCE)


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
