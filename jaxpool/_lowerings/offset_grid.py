"""Writing windows at their offsets where strides are longer than one: phases as broadcast axes.

With the phases and shifts of :mod:`.phases`, the elements of phase ``p`` receive

    elements[q, p] = sum over shift of where(offsets[q - shift] == t(shift, p), g[q - shift], 0)

with ``t(shift, p)`` the offset of that shift and phase. All phases of all axes are broadcast axes
of one vectorised loop. The groups ``q`` at the ends of an axis have fewer shifts and a loop of
their own, so that nothing is padded: padding is a pass of its own that costs up to half the time.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._geometry.resolve import Geometry
from .._xla.materialize import materialize
from .axis_slicing import concatenate, slice_axis, tree_reduce
from .phases import crop, phases_of, runs


class Piece(NamedTuple):
    """What windows give to a part of the grid of groups and phases.

    Attributes:
      given: values of the windows, with an axis of length 1 behind each pooled one.
      offsets: their offsets, likewise.
      shifts: for each pooled axis that is cut already, the shift from a window to its group.
    """

    given: Array
    offsets: Array
    shifts: tuple[int, ...]


def scatter(g: Array, offsets: Array, geometry: Geometry) -> Array:
    """Return the sum, for each element, of the values of the windows whose offset names it."""
    # XLA:CPU would compute anew for each element what makes them.
    g, offsets = materialize(g, offsets)
    phase_axes = [position + g.ndim + n + 1 for n, position in enumerate(geometry.positions)]
    whole = Piece(jnp.expand_dims(g, phase_axes), jnp.expand_dims(offsets, phase_axes), ())
    grid, merged = list(whole.given.shape), list(g.shape)
    for (axis, position), dimension in zip(geometry.placed, phase_axes, strict=True):
        phases = phases_of(axis)
        groups = phases.last - phases.first
        grid[dimension - 1 : dimension + 1] = groups, axis.stride
        merged[position] = groups * axis.stride
    received = _over_grid([whole], geometry, phase_axes, grid, g.dtype).reshape(merged)
    for axis, position in geometry.placed:
        received = crop(received, axis, position)
    return received


def _over_grid(
    pieces: list[Piece],
    geometry: Geometry,
    phase_axes: list[int],
    grid: list[int],
    dtype: np.dtype,
) -> Array:
    """Sum of the pieces over a grid, cut at one pooled axis after the other."""
    if not pieces:
        return jnp.zeros(grid, dtype)
    done = len(pieces[0].shifts)
    if done == len(phase_axes):
        return tree_reduce(lax.add, [_hits(piece, geometry, phase_axes, grid) for piece in pieces])
    axis, dimension, parts = geometry.axes[done], phase_axes[done] - 1, []
    phases = phases_of(axis)
    every = sorted({shift for offsets in phases.offsets.values() for shift in offsets})
    for first, last, shifts in runs(axis, phases, every):
        cuts = [
            Piece(
                slice_axis(piece.given, dimension, first - shift, last - first, 1),
                slice_axis(piece.offsets, dimension, first - shift, last - first, 1),
                (*piece.shifts, shift),
            )
            for piece in pieces
            for shift in shifts
        ]
        part = [*grid[:dimension], last - first, *grid[dimension + 1 :]]
        parts.append(_over_grid(cuts, geometry, phase_axes, part, dtype))
    return concatenate(parts, dimension)


def _hits(piece: Piece, geometry: Geometry, phase_axes: list[int], grid: list[int]) -> Array:
    """What is given where the offset is that of the phase, else 0."""
    line = (1,) * piece.given.ndim
    wanted, exists = jnp.zeros(line, jnp.int32), jnp.ones(line, bool)
    for axis, dimension, shift in zip(geometry.axes, phase_axes, piece.shifts, strict=True):
        phases = [*line[:dimension], axis.stride, *line[dimension + 1 :]]
        steps = shift * axis.stride + lax.broadcasted_iota(jnp.int32, phases, dimension)
        exists = exists & (steps % axis.dilation == 0) & (steps < axis.kernel * axis.dilation)
        wanted = wanted * axis.kernel + steps // axis.dilation
    hit = exists & (piece.offsets.astype(jnp.int32) == wanted)
    return jnp.broadcast_to(jnp.where(hit, piece.given, jnp.zeros((), piece.given.dtype)), grid)
