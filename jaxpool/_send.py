"""The way back from windows to cells: sums of cotangents, without any scatter.

Window ``o`` sends its cotangent ``g[o]`` to the place ``p = o * stride + tap * dilation`` of the
padded axis, where ``tap`` won. With ``p = q * stride + phase`` a tap always falls into the phase
``tap * dilation mod stride``, and ``q = o + shift`` with ``shift = tap * dilation // stride``, so

    G[q, phase] = sum over shift of where(tap[q - shift] == wanted[shift, phase], g[q - shift], 0)

with ``wanted`` the tap of that shift and phase. ``G`` lies in memory as the padded axis does.

:func:`to_winners_at_once` takes all taps of all axes in one vectorised loop, for small windows;
:func:`to_winners_apart` those of windows that do not overlap.
:func:`to_winners` takes one axis after the other: whatever arrives at a place of the first axis
comes from windows that chose the same cell of one row, so it may be added there and shares the
rest of its tap number. A long axis is taken in levels in the same way, since the winner of a window
is the winner of each smaller window it lies in. So its taps must be those of a selection.
:func:`to_all` sends every cotangent to every cell of its window: the transpose of a sum.
:func:`over_cells` does what those that go axis by axis share, for any way to combine.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ._cut import cut, join, levels, numbers, pad, tree
from ._fence import computed_once
from ._pick import empty
from ._reductions import SUM
from ._window import Axis, Geometry, cdiv
from .lowerings import doubling

MOST_TAPS_UNROLLED = 7

MOST_TAPS_AT_ONCE = 9
"""Taps of overlapping windows, and of windows apart in rows, up to which one loop takes all."""

MOST_TAPS_UNFINISHED = 4
"""Taps up to which cells in channels last read cotangents as they are made."""

RADIX = 6
"""Smaller windows that a long window is made of, at each level."""


class Phases(NamedTuple):
    """How the places of an axis fall into phases.

    Attributes:
      first, last: the range of ``q`` that covers the cells of the axis.
      taps: for each phase that a tap falls into, the tap of each shift.
    """

    first: int
    last: int
    taps: dict[int, dict[int, int]]


def _phases(axis: Axis) -> Phases:
    taps: dict[int, dict[int, int]] = {}
    for tap in range(axis.kernel):
        shift, phase = divmod(tap * axis.dilation, axis.stride)
        taps.setdefault(phase, {})[shift] = tap
    last = cdiv(axis.pad_low + _heard(axis), axis.stride)
    return Phases(axis.pad_low // axis.stride, last, taps)


def _runs(
    axis: Axis, phases: Phases, shifts: Sequence[int]
) -> Iterator[tuple[int, int, list[int]]]:
    """Neighbouring places ``first <= q < last`` and the shifts at which they hear a window."""
    ends = {phases.first, phases.last}
    for q in itertools.chain(shifts, (shift + axis.out for shift in shifts)):
        if phases.first < q < phases.last:
            ends.add(q)
    for first, last in itertools.pairwise(sorted(ends)):
        yield first, last, [shift for shift in shifts if 0 <= first - shift < axis.out]


def _heard(axis: Axis) -> int:
    """Cells up to the last one that a window reads, and at least one."""
    return max(1, min((axis.out - 1) * axis.stride + axis.span - axis.pad_low, axis.size))


def _crop(x: Array, axis: Axis, position: int, silence: float = 0) -> Array:
    """The cells of an axis out of whole groups of phases; ``silence`` where no window reads."""
    heard = _heard(axis)
    x = cut(x, position, axis.pad_low % axis.stride, heard, 1)
    return pad(x, position, 0, axis.size - heard, np.asarray(silence, x.dtype))


def _windows_over(x: Array, axis: Axis, position: int) -> Array:
    """The windows apart that begin groups of phases with cells; zeros where there is none."""
    phases = _phases(axis)
    high = phases.last - axis.out
    return pad(x, position, -phases.first, high, np.zeros((), x.dtype))


def _finished(g: Array, taps: Array, geometry: Geometry) -> tuple[Array, Array]:
    """Return both as they are, but finished: XLA:CPU would do anew for every cell what makes them.

    Cotangents of a few taps in channels last are not, where storing them costs more than it saves.
    """
    if geometry.taps <= MOST_TAPS_UNFINISHED and -1 not in geometry.positions:
        return g, computed_once(taps)[0]
    g, taps = computed_once(g, taps)
    return g, taps


# --- all axes at once -----------------------------------------------------------------------------


def to_winners_at_once(g: Array, taps: Array, geometry: Geometry) -> Array:
    """Return what each cell receives from the windows it won; every phase is a broadcast axis."""
    return _at_once(*_finished(g, taps, geometry), geometry)


class Piece(NamedTuple):
    """What windows send to a part of the grid of places and phases.

    Attributes:
      sent: cotangents of the windows, with an axis of length 1 behind each pooled one.
      taps: their winners, likewise.
      shifts: for each pooled axis that is cut already, windows from a window to its place.
    """

    sent: Array
    taps: Array
    shifts: tuple[int, ...]


def _at_once(g: Array, taps: Array, geometry: Geometry) -> Array:
    phase_axes = [position + g.ndim + n + 1 for n, position in enumerate(geometry.positions)]
    whole = Piece(jnp.expand_dims(g, phase_axes), jnp.expand_dims(taps, phase_axes), ())
    grid, merged = list(whole.sent.shape), list(g.shape)
    for (axis, position), dimension in zip(geometry.placed, phase_axes, strict=True):
        phases = _phases(axis)
        places = phases.last - phases.first
        grid[dimension - 1 : dimension + 1] = places, axis.stride
        merged[position] = places * axis.stride
    received = _over_grid([whole], geometry, phase_axes, grid, g.dtype).reshape(merged)
    for axis, position in geometry.placed:
        received = _crop(received, axis, position)
    return received


def to_winners_apart(g: Array, taps: Array, geometry: Geometry) -> Array:
    """:func:`to_winners_at_once` for windows that do not overlap, of any length.

    Where the contiguous axis is pooled with others, it goes first: a window's cotangent is spread
    over its columns, with what is left of the tap where that lies in the column. Then follow whole
    rows, where all axes at once would make loops as short as a window.
    """
    g, taps = _finished(g, taps, geometry)
    (*axes, last), (*positions, contiguous) = geometry.axes, geometry.positions
    if geometry.taps <= MOST_TAPS_AT_ONCE or not axes or contiguous != -1:
        return _at_once(g, taps, geometry)
    g, taps = computed_once(*_columns(g, taps, last))
    return _at_once(g, taps, Geometry(tuple(axes), tuple(positions)))


def _columns(g: Array, taps: Array, axis: Axis) -> tuple[Array, Array]:
    """Cotangents, and taps over the other axes, for each column of the last axis.

    A tap that lies in another column becomes the mark of none, which itself divides to no row.
    """

    def spread(a: Array) -> Array:
        return jnp.repeat(_windows_over(a, axis, -1), axis.stride, -1)

    wide, sent = taps.astype(jnp.int32), spread(g)
    place = numbers(sent.shape[-1], -1, g.ndim, jnp.int32) % axis.stride
    here = spread(wide % axis.kernel) * axis.dilation == place
    left = spread((wide // axis.kernel).astype(taps.dtype))
    left = jnp.where(here, left, empty(taps.dtype))
    return _crop(sent, axis, -1), _crop(left, axis, -1)


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
        return tree(lax.add, [_hits(piece, geometry, phase_axes, grid) for piece in pieces])
    axis, dimension, parts = geometry.axes[done], phase_axes[done] - 1, []
    phases = _phases(axis)
    every = sorted({shift for taps in phases.taps.values() for shift in taps})
    for first, last, shifts in _runs(axis, phases, every):
        cuts = [
            Piece(
                cut(piece.sent, dimension, first - shift, last - first, 1),
                cut(piece.taps, dimension, first - shift, last - first, 1),
                (*piece.shifts, shift),
            )
            for piece in pieces
            for shift in shifts
        ]
        part = [*grid[:dimension], last - first, *grid[dimension + 1 :]]
        parts.append(_over_grid(cuts, geometry, phase_axes, part, dtype))
    return join(parts, dimension)


def _hits(piece: Piece, geometry: Geometry, phase_axes: list[int], grid: list[int]) -> Array:
    """What is sent where the tap of each phase won, else 0."""
    line = (1,) * piece.sent.ndim
    wanted, exists = jnp.zeros(line, jnp.int32), jnp.ones(line, bool)
    for axis, dimension, shift in zip(geometry.axes, phase_axes, piece.shifts, strict=True):
        phases = [*line[:dimension], axis.stride, *line[dimension + 1 :]]
        place = shift * axis.stride + lax.broadcasted_iota(jnp.int32, phases, dimension)
        exists = exists & (place % axis.dilation == 0) & (place < axis.kernel * axis.dilation)
        wanted = wanted * axis.kernel + place // axis.dilation
    hit = exists & (piece.taps.astype(jnp.int32) == wanted)
    return jnp.broadcast_to(jnp.where(hit, piece.sent, jnp.zeros((), piece.sent.dtype)), grid)


# --- one axis -------------------------------------------------------------------------------------


Message = tuple[Array, ...]
"""What windows send to their cells."""

Heard = list[tuple[int, Message]]
"""The messages that some cells hear, one or more, each with the tap that the cells are to it."""


def over_cells(
    sent: Message,
    silence: tuple[float, ...],
    axis: Axis,
    position: int,
    combine: Callable[[Heard], Message],
) -> Message:
    """Return for the cells of an axis what they hear from its windows, combined.

    Args:
      sent: what each window sends.
      silence: what a cell that hears no window has instead.
      axis, position: the axis.
      combine: makes what some cells hear one message.
    """
    phases = _phases(axis)
    reached, groups = sorted(phases.taps), []
    for phase in reached:
        taps, parts = phases.taps[phase], []
        for first, last, shifts in _runs(axis, phases, list(taps)):
            heard = [
                (taps[shift], tuple(cut(a, position, first - shift, last - first, 1) for a in sent))
                for shift in shifts
            ]
            parts.append(
                combine(heard) if heard else _silent(sent, silence, position, last - first)
            )
        groups.append([join(arrays, position) for arrays in zip(*parts, strict=True)])
    received = []
    for arrays, value in zip(zip(*groups, strict=True), silence, strict=True):
        whole = _interleave(arrays, reached, axis.stride, position, value)
        received.append(_crop(whole, axis, position, value))
    return tuple(received)


def _silent(sent: Message, silence: tuple[float, ...], position: int, length: int) -> Message:
    shape = list(sent[0].shape)
    shape[position] = length
    return tuple(jnp.full(shape, v, a.dtype) for a, v in zip(sent, silence, strict=True))


def _interleave(
    arrays: Sequence[Array], phases: Sequence[int], stride: int, position: int, silence: float
) -> Array:
    """Arrays of one phase each, the first of which is 0, with ``silence`` in the phases between."""
    if stride == 1:
        return arrays[0]
    along = arrays[0].ndim + position + 1
    pieces = []
    for array, phase, following in zip(arrays, phases, [*phases[1:], stride], strict=True):
        column = jnp.expand_dims(array, along)
        pieces.append(column)
        if following > phase + 1:
            gap = [*column.shape[:along], following - phase - 1, *column.shape[along + 1 :]]
            pieces.append(jnp.full(gap, silence, array.dtype))
    shape = list(arrays[0].shape)
    shape[position] *= stride
    return lax.concatenate(pieces, along).reshape(shape)


# --- one axis after the other ---------------------------------------------------------------------


def to_winners(g: Array, taps: Array, geometry: Geometry) -> Array:
    """Return what each cell receives from the windows it won; cost grows with the log of windows.

    Codes are tap numbers plus one, so that 0 is no tap; an empty window's mark becomes 0.
    """
    codes = taps + np.asarray(1, taps.dtype)
    unit = geometry.taps
    for axis, position in geometry.placed:
        unit //= axis.kernel
        send = _along_axis if axis.kernel <= MOST_TAPS_UNROLLED else _by_levels
        g, codes = send(g, codes, axis, position, unit)
    return g


def _take(g: Array, codes: Array, low: int, high: int, paid: int) -> tuple[Array, Array]:
    """The cotangents whose tap number lies in ``low <= tap < high``, and what is left of codes."""
    number = lambda value: np.asarray(value, codes.dtype)  # noqa: E731
    goes = codes > number(low)
    if high <= np.iinfo(codes.dtype).max:
        goes = goes & (codes <= number(high))
    left = jnp.where(goes, codes - number(paid), number(0))
    return jnp.where(goes, g, jnp.zeros((), g.dtype)), left


def _add(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    return a[0] + b[0], jnp.maximum(a[1], b[1])


def _along_axis(
    g: Array, codes: Array, axis: Axis, position: int, unit: int
) -> tuple[Array, Array]:
    def added(heard: Heard) -> Message:
        numbered = [(tap * unit, g, codes) for tap, (g, codes) in heard]
        return tree(_add, [_take(g, codes, n, n + unit, n) for n, g, codes in numbered])

    g, codes = over_cells((g, codes), (0, 0), axis, position, added)
    return g, codes


def _by_levels(g: Array, codes: Array, axis: Axis, position: int, unit: int) -> tuple[Array, Array]:
    """Along a long axis, on the grid of all window starts, through ever smaller windows."""
    none = np.zeros((), codes.dtype)
    g, codes = (stretch(array, axis, position) for array in (g, codes))
    for window, shifts in levels(axis.kernel, RADIX):
        inner = window - shifts[-1]
        room = shifts[-1] * axis.dilation
        length = g.shape[position] + room
        g = pad(g, position, room, room, np.zeros((), g.dtype))
        codes = pad(codes, position, room, room, none)
        terms, low = [], 0
        for shift in shifts:
            start = room - shift * axis.dilation
            sent_g = cut(g, position, start, length, 1)
            sent_codes = cut(codes, position, start, length, 1)
            high = shift + inner
            terms.append(_take(sent_g, sent_codes, low * unit, high * unit, shift * unit))
            low = high
        g, codes = tree(_add, terms)
    high = axis.pad_low + axis.size - g.shape[position]
    g = pad(g, position, -axis.pad_low, high, np.zeros((), g.dtype))
    return g, pad(codes, position, -axis.pad_low, high, none)


def stretch(x: Array, axis: Axis, position: int, silence: float = 0) -> Array:
    """Return ``x`` on the grid of all window starts, with ``silence`` where no window starts."""
    config = [(0, 0, 0)] * x.ndim
    config[position] = (0, 0, axis.stride - 1)
    return lax.pad(x, np.asarray(silence, x.dtype), config)


# --- sums -----------------------------------------------------------------------------------------


def to_all(g: Array, geometry: Geometry, costly: bool = False) -> Array:
    """Return what each cell receives when every window sends to all its cells.

    The contiguous axis goes first, while there is little of it: what follows are whole rows.
    Cotangents that are ``costly`` to make are stored before they are sent.
    """
    in_rows, placed = -1 in geometry.positions, geometry.placed
    if costly or in_rows:  # in rows each tap would do anew what it comes from
        (g,) = computed_once(g)
    for axis, position in sorted(placed, key=lambda at: at[1] != -1):
        long = axis.kernel > MOST_TAPS_UNROLLED
        if _is_tiled(axis) and (long or in_rows):
            send = _repeat
        else:
            send = _sum_by_doubling if long else _sum_along_axis
        g = send(g, axis, position)
    return g


def _is_tiled(axis: Axis) -> bool:
    """Whether every cell from the first window to the last lies in one window."""
    return axis.stride == axis.span == axis.kernel > 1


def _sum_along_axis(g: Array, axis: Axis, position: int) -> Array:
    def total(heard: Heard) -> Message:
        return (tree(lax.add, [sent for _, (sent,) in heard]),)

    return over_cells((g,), (0,), axis, position, total)[0]


def _repeat(g: Array, axis: Axis, position: int) -> Array:
    """A cell hears the one window that it lies in, of windows side by side."""
    (g,) = computed_once(g)  # it may come from a sum, which each cell would take again
    g = _windows_over(g, axis, position)
    return _crop(jnp.repeat(g, axis.stride, position), axis, position)


def _sum_by_doubling(g: Array, axis: Axis, position: int) -> Array:
    geometry = Geometry((mirrored(axis),), (position,))
    return doubling.run(stretch(g, axis, position), geometry, SUM)


def mirrored(axis: Axis) -> Axis:
    """The windows of window starts that cells hear: those at most a window before them."""
    size = (axis.out - 1) * axis.stride + 1
    low = axis.span - 1 - axis.pad_low
    return Axis(size, axis.kernel, 1, axis.dilation, low, 0, 0, axis.size)
