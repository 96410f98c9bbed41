"""Reading and writing windows at their offsets, one slice for each offset: small windows.

``gather(x, offsets)[o] = x[o * stride - pad_low + offsets[o] * dilation]``, 0 for the sentinel, is

    sum over t of where(offsets == t, x at offset t of every window, 0).

Its transpose gives the value ``g[o]`` to the element that ``offsets[o]`` names. With the phases and
shifts of :mod:`.phases`, the elements of phase ``p`` receive

    elements[q, p] = sum over shift of where(offsets[q - shift] == t(shift, p), g[q - shift], 0)

with ``t(shift, p)`` the offset of that shift and phase: a sum of slices of both, which are padded
once. No element is written twice and no scatter is needed. Offsets may be any.

Where strides are longer than one, all phases of all axes are broadcast axes of one vectorised loop.
The groups ``q`` at the ends of an axis have fewer shifts and a loop of their own, so that nothing
is padded: padding is a pass of its own that costs up to half the time. Of few windows it costs
less, and XLA:CPU then compiles one loop in place of nine. Where windows reach over a border their
offsets are joined of segments, which would take a pass more to pad.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry
from ..._xla.materialize import materialize
from ..._xla.select import select
from .. import tuning
from .argreduce import sentinel
from .axis_slicing import concatenate, each_offset, iota, slice_axis, tree_reduce
from .grid import over_steps, step_axes
from .phases import Phases, crop, interleave, phases_of, runs, surround


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
        return _scatter_strided(g, offsets, geometry)
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


# --- phases as axes -------------------------------------------------------------------------------


class Piece(NamedTuple):
    """What windows give to a part of the grid of groups and phases.

    Attributes:
      given: values of the windows, with an axis of phases behind each pooled one.
      offsets: their offsets, likewise.
      shifts: for each pooled axis that is cut already, the shift from a window to its group.
    """

    given: Array
    offsets: Array
    shifts: tuple[int, ...]


class Line(NamedTuple):
    """A pooled axis: its phases, and where its groups lie in the grid, its phases behind them."""

    axis: Axis
    phases: Phases
    dimension: int


Named = dict[tuple[int, ...], Array]
"""For a shift along every axis, the offset of each phase; negative where there is none."""


def _scatter_strided(g: Array, offsets: Array, geometry: Geometry) -> Array:
    if _saves_loops(g, geometry):
        padding = 0, sentinel(offsets.dtype)
        geometry, (g, offsets) = surround((g, offsets), padding, geometry)
    # XLA:CPU would compute anew for each element what makes them.
    g, offsets = materialize(g, offsets)
    merged, lines = list(g.shape), []
    for step, (axis, position) in zip(
        step_axes(geometry.positions, g.ndim), geometry.placed, strict=True
    ):
        lines.append(Line(axis, phases_of(axis), step - 1))
        merged[position] = _groups(lines[-1]) * axis.stride
    whole = Piece(over_steps(g, geometry), over_steps(offsets, geometry), ())
    shape = list(whole.given.shape)
    received = _over_grid([whole], lines, shape, _named(lines, len(shape))).reshape(merged)
    for axis, position in geometry.placed:
        received = crop(received, axis, position)
    return received


def _saves_loops(g: Array, geometry: Geometry) -> bool:
    """Whether windows past the ends save more time of the compiler than their copies cost."""
    small = isinstance(g.size, int) and g.size <= tuning.MOST_PADDED_WINDOWS
    whole = all(len(axis.segments()) == 1 for axis in geometry.axes)
    overlapping = sum(axis.span > axis.stride for axis in geometry.axes)
    return small and whole and overlapping > 1


def _groups(line: Line) -> int:
    return line.phases.last - line.phases.first


def _over_grid(pieces: list[Piece], lines: list[Line], shape: list[int], named: Named) -> Array:
    """Sum of the pieces over a grid, cut at one pooled axis after the other.

    Args:
      pieces: with all windows of the axes that are not cut yet.
      lines: the axes.
      shape: of a piece.
      named: see :data:`Named`.
    """
    done = len(pieces[0].shifts)
    if done == len(lines):
        return tree_reduce(lax.add, [_hits(piece, named) for piece in pieces])
    (axis, phases, dimension), parts = lines[done], []
    for first, last, shifts in runs(axis, phases, phases.shifts):
        part = [*shape[:dimension], last - first, *shape[dimension + 1 :]]
        cuts = [
            Piece(
                slice_axis(piece.given, dimension, first - shift, last - first, 1),
                slice_axis(piece.offsets, dimension, first - shift, last - first, 1),
                (*piece.shifts, shift),
            )
            for piece in pieces
            for shift in shifts
        ]
        parts.append(_over_grid(cuts, lines, part, named) if cuts else _zeros(part, lines, pieces))
    return concatenate(parts, dimension)


def _zeros(shape: list[int], lines: list[Line], like: list[Piece]) -> Array:
    """What elements receive that no window holds."""
    shape = list(shape)
    for line in lines[len(like[0].shifts) + 1 :]:
        shape[line.dimension] = _groups(line)
    return jnp.zeros(shape, like[0].given.dtype)


def _hits(piece: Piece, named: Named) -> Array:
    """What is given where the offset is that of the phase, else 0."""
    wanted = jnp.broadcast_to(named[piece.shifts], piece.offsets.shape)
    hit = lax.eq(piece.offsets.astype(jnp.int32), wanted)
    return lax.select(hit, piece.given, jnp.zeros_like(piece.given))


def _named(lines: list[Line], rank: int) -> Named:
    """The offsets of the phases, row-major."""
    along, no_tap = [], -int(np.prod([line.axis.kernel for line in lines]))
    for axis, phases, dimension in lines:
        step = iota(axis.stride, dimension + 1 - rank, rank, jnp.int32)
        along.append({shift: _along(axis, shift, step, no_tap) for shift in phases.shifts})
    named: Named = {}
    for shifts in itertools.product(*along):
        total = along[0][shifts[0]]
        for line, offsets, shift in zip(lines[1:], along[1:], shifts[1:], strict=True):
            total = total * line.axis.kernel + offsets[shift]
        named[shifts] = total
    return named


def _along(axis: Axis, shift: int, step: Array, no_tap: int) -> Array:
    """The offsets along one axis."""
    distance = step + shift * axis.stride
    read = distance < axis.span
    if axis.dilation > 1:
        read = read & (distance % axis.dilation == 0)
        distance = distance // axis.dilation
    return jnp.where(read, distance, no_tap)
