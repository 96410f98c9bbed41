"""Reading and writing windows at their offsets, one slice for each offset: small windows.

``gather(x, offsets)[o] = x[o * stride - pad_low + offsets[o] * dilation]``, 0 for the sentinel, is

    sum over t of where(offsets == t, x at offset t of every window, 0).

Its transpose gives the value ``g[o]`` to the element that ``offsets[o]`` names. With the phases and
shifts of :mod:`.phases`, the elements of phase ``p`` receive

    elements[q, p] = sum over shift of where(offsets[q - shift] == t(shift, p), g[q - shift], 0)

with ``t(shift, p)`` the offset of that shift and phase: a sum of slices of both, which are padded
once. No element is written twice and no scatter is needed. Offsets may be any.
"""

import itertools
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry
from ..._xla.materialize import materialize
from ..._xla.select import select
from .. import tuning
from . import offset_grid
from .argreduce import sentinel
from .axis_slicing import slice_axis, tree_reduce
from .phases import Phases, crop, interleave, phases_of, surround
from .stack import each_offset


def gather(x: Array, offsets: Array, geometry: Geometry) -> Array:
    """Return the element of ``x`` at the offset of every window."""
    total, zero = jnp.zeros(offsets.shape, x.dtype), np.zeros((), x.dtype)
    for number, elements in enumerate(each_offset(x, geometry, zero)):
        hit = lax.eq(offsets, np.asarray(number, offsets.dtype))
        total = lax.add(total, select(hit, elements, zero))
    return total


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return the sum, for each element, of the values of the windows whose offset names it."""
    strided = geometry.is_strided
    if strided and geometry.taps <= tuning.MOST_SCATTERED and -1 not in geometry.positions:
        return offset_grid.scatter(g, offsets, geometry)
    geometry, arrays = surround((g, offsets), (0, sentinel(offsets.dtype)), geometry)
    phases = [phases_of(axis) for axis in geometry.axes]
    g, offsets = materialize(*arrays)  # XLA:CPU would compute anew for each slice what makes them

    def received(phase: tuple[int, ...]) -> Array:
        choices = (p.offsets[n].items() for p, n in zip(phases, phase, strict=True))
        return tree_reduce(lax.add, [given(choice) for choice in itertools.product(*choices)])

    def given(choice: Sequence[tuple[int, int]]) -> Array:
        number, values, named = 0, g, offsets
        for (axis, position), found, (shift, offset) in zip(
            geometry.placed, phases, choice, strict=True
        ):
            start, count = found.first - shift, found.last - found.first
            values, named = (slice_axis(a, position, start, count, 1) for a in (values, named))
            number = number * axis.kernel + offset
        hit = lax.eq(named, np.asarray(number, named.dtype))
        return select(hit, values, np.zeros((), values.dtype))

    return _joined(received, geometry, phases)


def _joined(
    received: Callable[[tuple[int, ...]], Array], geometry: Geometry, phases: Sequence[Phases]
) -> Array:
    """The elements of all phases, interleaved along one axis after the other."""

    def along(number: int, before: tuple[int, ...]) -> Array:
        if number == len(phases):
            return received(before)
        axis, position = geometry.placed[number]
        parts = {phase: along(number + 1, (*before, phase)) for phase in phases[number].offsets}
        return crop(interleave(parts, axis.stride, position), axis, position)

    return along(0, ())
