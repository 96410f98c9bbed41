"""Gather and scatter at the offsets of small windows, with one slice for each offset.

The gather ``gather(x, offsets)[o] = x[o * stride - pad_low + offsets[o] * dilation]``, 0 for the
sentinel, is computed for all windows as

    sum over t of where(offsets == t, x at offset t of every window, 0).

The scatter, its transpose, adds the value ``g[o]`` to the element that ``offsets[o]`` names. With
the phases and shifts of :mod:`.phases`, let ``t(shift, phase)`` be the offset that has this shift
and belongs to this phase. The elements of a phase receive

    elements[q, phase] = sum over shift of
                         where(offsets[q - shift] == t(shift, phase), g[q - shift], 0),

a sum of slices of ``g`` and ``offsets``, which are padded once. Every element is written once, and
no scatter instruction is needed. The offsets need not be those of an argmax.

Strided windows of few taps (:func:`_scatter_strided`). All phases of all axes are computed by one
vectorised loop, in which the phases are broadcast axes. The groups near the ends of an axis have
fewer shifts than those in the middle, and get loops of their own. Nothing is padded then: padding
is a separate pass that takes up to half of the time. For a small array the pad is cheaper, and
XLA:CPU compiles one loop in place of nine. It is not used if windows extend past a border: their
offsets are concatenated from segments, so padding them would take another pass.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis
from ..._geometry.layout import with_lengths
from ..._geometry.resolve import Geometry
from ..._xla.materialize import materialize
from ..._xla.select import select
from .. import tuning
from .argreduce import sentinel
from .axis_slicing import concatenate, each_offset, iota, slice_axis, tree_reduce
from .grid import broadcast_over_phases, phase_axis_indices
from .phases import Phases, crop, group_ranges, interleave, pad_windows, phases_of


def gather(x: Array, offsets: Array, geometry: Geometry) -> Array:
    """Return the element of ``x`` at the offset of every window, 0 for the sentinel."""
    total, zero = jnp.zeros(offsets.shape, x.dtype), np.zeros((), x.dtype)
    for number, elements in enumerate(each_offset(x, geometry, zero)):
        hit = lax.eq(offsets, np.asarray(number, offsets.dtype))
        total = lax.add(total, select(hit, elements, zero))
    return total


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return the sum, for each element, of the values of the windows whose offset names it."""
    strided = geometry.is_strided
    if strided and geometry.taps <= tuning.MAX_SCATTERED and -1 not in geometry.positions:
        return _scatter_strided(g, offsets, geometry)
    geometry, arrays = pad_windows((g, offsets), (0, sentinel(offsets.dtype)), geometry)
    phases = [phases_of(axis) for axis in geometry.axes]
    g, offsets = materialize(arrays)  # or XLA:CPU would recompute both for each slice

    def received(phase: tuple[int, ...]) -> Array:
        choices = (p.offsets[n].items() for p, n in zip(phases, phase, strict=True))
        return tree_reduce(lax.add, [values_at(pairs) for pairs in itertools.product(*choices)])

    def values_at(pairs: Sequence[tuple[int, int]]) -> Array:
        number, values, named = 0, g, offsets
        for (axis, position), axis_phases, (shift, offset) in zip(
            geometry.placed, phases, pairs, strict=True
        ):
            start, count = axis_phases.first - shift, axis_phases.last - axis_phases.first
            values, named = (slice_axis(a, position, start, count, 1) for a in (values, named))
            number = number * axis.kernel + offset
        hit = lax.eq(named, np.asarray(number, named.dtype))
        return select(hit, values, np.zeros((), values.dtype))

    return _interleave_all(received, geometry, phases)


def _interleave_all(
    received: Callable[[tuple[int, ...]], Array], geometry: Geometry, phases: Sequence[Phases]
) -> Array:
    """Return all elements: the phases of each axis interleaved, the last axis first.

    ``received`` returns the sums of the elements of one phase per axis.
    """

    def join(number: int, outer_phases: tuple[int, ...]) -> Array:
        if number == len(phases):
            return received(outer_phases)
        axis, position = geometry.placed[number]
        parts = {
            phase: join(number + 1, (*outer_phases, phase)) for phase in phases[number].offsets
        }
        return crop(interleave(parts, axis.stride, position), axis, position)

    return join(0, ())


# --- phases as axes -------------------------------------------------------------------------------


class Piece(NamedTuple):
    """The windows that contribute to a range of groups, one window for each group and phase.

    Attributes:
      values: values of the windows, with a phase axis after each pooled axis.
      offsets: offsets of the windows, in the same shape.
      shifts: for each pooled axis that is already cut into ranges, the shift of the windows.
    """

    values: Array
    offsets: Array
    shifts: tuple[int, ...]


class GridAxis(NamedTuple):
    """A pooled axis, its phases, and the dimension of its groups; its phase axis comes next."""

    axis: Axis
    phases: Phases
    dimension: int


PhaseOffsets = dict[tuple[int, ...], Array]
"""From a shift per axis to the row-major offset of each phase, negative where it has none."""


def _scatter_strided(g: Array, offsets: Array, geometry: Geometry) -> Array:
    """Scatter with the phases as axes; the pooled axes are not the contiguous one."""
    if _saves_loops(g, geometry):
        padding = 0, sentinel(offsets.dtype)
        geometry, (g, offsets) = pad_windows((g, offsets), padding, geometry)
    # Otherwise XLA:CPU would recompute both for each element.
    g, offsets = materialize((g, offsets))
    merged_shape, grid_axes = list(g.shape), []
    for phase_axis, (axis, position) in zip(
        phase_axis_indices(geometry.positions, g.ndim), geometry.placed, strict=True
    ):
        grid_axes.append(GridAxis(axis, phases_of(axis), phase_axis - 1))
        merged_shape[position] = _group_count(grid_axes[-1]) * axis.stride
    piece = Piece(broadcast_over_phases(g, geometry), broadcast_over_phases(offsets, geometry), ())
    shape = list(piece.values.shape)
    received = _over_grid([piece], grid_axes, shape, _phase_offsets(grid_axes, len(shape))).reshape(
        merged_shape
    )
    for axis, position in geometry.placed:
        received = crop(received, axis, position)
    return received


def _saves_loops(g: Array, geometry: Geometry) -> bool:
    """Return whether padding the windows saves more compilation time than the copies cost."""
    is_small = isinstance(g.size, int) and g.size <= tuning.MAX_PADDED_WINDOWS
    is_inside = all(len(axis.segments()) == 1 for axis in geometry.axes)
    overlapping = sum(axis.span > axis.stride for axis in geometry.axes)
    return is_small and is_inside and overlapping > 1


def _group_count(grid_axis: GridAxis) -> int:
    return grid_axis.phases.last - grid_axis.phases.first


def _over_grid(
    pieces: list[Piece], grid_axes: list[GridAxis], shape: list[int], phase_offsets: PhaseOffsets
) -> Array:
    """Return the sums of all groups and phases, by cutting one pooled axis after the other.

    Each axis is cut into ranges of groups that have the same shifts. Within a range, every piece is
    replaced by one slice of itself for each shift. When all axes are cut, the pieces are added.

    Args:
      pieces: pieces with all windows along the axes that are not cut yet.
      grid_axes: the pooled axes.
      shape: the shape of a piece.
      phase_offsets: the offset of each phase, see :data:`PhaseOffsets`.
    """
    cut_axes = len(pieces[0].shifts)
    if cut_axes == len(grid_axes):
        return tree_reduce(lax.add, [_values_at_offsets(piece, phase_offsets) for piece in pieces])
    (axis, phases, dimension), parts = grid_axes[cut_axes], []
    for first, last, shifts in group_ranges(axis, phases, phases.shifts):
        part_shape = [*shape[:dimension], last - first, *shape[dimension + 1 :]]
        cuts = [
            Piece(
                slice_axis(piece.values, dimension, first - shift, last - first, 1),
                slice_axis(piece.offsets, dimension, first - shift, last - first, 1),
                (*piece.shifts, shift),
            )
            for piece in pieces
            for shift in shifts
        ]
        parts.append(
            _over_grid(cuts, grid_axes, part_shape, phase_offsets)
            if cuts
            else _zeros(part_shape, grid_axes, pieces)
        )
    return concatenate(parts, dimension)


def _zeros(shape: list[int], grid_axes: list[GridAxis], pieces: list[Piece]) -> Array:
    """Return the zeros that elements contained in no window receive."""
    remaining = grid_axes[len(pieces[0].shifts) + 1 :]
    dimensions = [grid_axis.dimension for grid_axis in remaining]
    full_shape = with_lengths(shape, dimensions, list(map(_group_count, remaining)))
    return jnp.zeros(full_shape, pieces[0].values.dtype)


def _values_at_offsets(piece: Piece, phase_offsets: PhaseOffsets) -> Array:
    """Return the values where the window's offset is that of the phase, 0 elsewhere."""
    wanted = jnp.broadcast_to(phase_offsets[piece.shifts], piece.offsets.shape)
    hit = lax.eq(piece.offsets.astype(jnp.int32), wanted)
    return lax.select(hit, piece.values, jnp.zeros_like(piece.values))


def _phase_offsets(grid_axes: list[GridAxis], rank: int) -> PhaseOffsets:
    """Return the row-major offset of every phase, for each shift per axis.

    ``no_tap`` is so negative that a sum that includes it is negative.
    """
    by_axis, no_tap = [], -int(np.prod([grid_axis.axis.kernel for grid_axis in grid_axes]))
    for axis, phases, dimension in grid_axes:
        phase = iota(axis.stride, dimension + 1 - rank, rank, jnp.int32)
        by_axis.append(
            {shift: _axis_offsets(axis, shift, phase, no_tap) for shift in phases.shifts}
        )
    phase_offsets: PhaseOffsets = {}
    for shifts in itertools.product(*by_axis):
        total = by_axis[0][shifts[0]]
        for grid_axis, offsets, shift in zip(grid_axes[1:], by_axis[1:], shifts[1:], strict=True):
            total = total * grid_axis.axis.kernel + offsets[shift]
        phase_offsets[shifts] = total
    return phase_offsets


def _axis_offsets(axis: Axis, shift: int, phase: Array, no_tap: int) -> Array:
    """Return the offset along one axis of each phase at one shift, or ``no_tap``."""
    distance = phase + shift * axis.stride
    is_tap = distance < axis.span
    if axis.dilation > 1:
        is_tap = is_tap & (distance % axis.dilation == 0)
        distance = distance // axis.dilation
    return jnp.where(is_tap, distance, no_tap)
