"""Windows of any start and length along an axis, known before tracing.

A :class:`Runs` is a row of windows over one axis, ``[start, start + length)`` each. A long one is
taken in levels: its windows are cut into pieces of equal length, and the pieces are runs again. So
the program grows with the root of the window. At a level, tap ``k`` of all windows is one read at
positions known to the compiler, which it fuses with the others into one loop.

:func:`total` sums the cells of each window, :func:`winners` finds the first of its largest cells,
:func:`read` reads the winners, linearly. No transpose has a scatter: a cell is held by a row of
neighbouring windows, which is again a :class:`Runs`; or it asks all windows, if they are few.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._cut import column, numbers
from .._fence import computed_once
from .._linear import with_transpose
from .._one_loop import tree_in_one_loop
from .._pick import Pick, first_best_in_one_loop
from .._reductions import MAX, MIN, SUM, Reduction, accumulator, identity_array
from .._window import cdiv
from ..lowerings._order import in_integers, is_narrow_extreme, pick_in_order, reduce_cells, widened

LONGEST_UNROLLED = 32

_MOST_TAPS_JOINED = 32
"""Taps of a window over several axes that one loop reads."""

_MOST_GROUPS = 8
"""Groups of regular windows up to which slices are quicker than gathers."""

_MOST_ASKED = 16
"""Windows, no more than cells, up to which each cell asks all of them along the contiguous axis,
where gathers are slow."""


class Runs(NamedTuple):
    """Windows along one axis.

    Attributes:
      size: length of the axis.
      starts: first cell of each window.
      lengths: cells of each window, >= 1.
    """

    size: int
    starts: tuple[int, ...]
    lengths: tuple[int, ...]

    @property
    def longest(self) -> int:
        """Cells of the longest window."""
        return max(self.lengths, default=1)

    def holders(self) -> "Runs":
        """For each cell, the windows that hold it; starts and ends must not decrease."""
        starts, ends = np.array(self.starts), np.add(self.starts, self.lengths)
        cells = np.arange(self.size)
        first = np.searchsorted(ends, cells, side="right")
        last = np.searchsorted(starts, cells, side="right")
        return Runs(len(starts), _ints(first), _ints(last - first))

    def groups(self) -> list["Runs"]:
        """Neighbours of one length and one stride; all together if these groups would be many."""
        firsts, steps = [0], np.diff(self.starts)
        for n in range(1, len(self.starts)):
            begun = n - firsts[-1] > 1
            same_step = steps[n - 1] == steps[n - 2] if begun else steps[n - 1] > 0
            if not same_step or self.lengths[n] != self.lengths[n - 1]:
                firsts.append(n)
            if len(firsts) > _MOST_GROUPS:
                return [self]
        ends = [*firsts[1:], len(self.starts)]
        return [
            Runs(self.size, self.starts[first:end], self.lengths[first:end])
            for first, end in zip(firsts, ends, strict=True)
        ]

    def pieces(self, length: int) -> tuple["Runs", "Runs"]:
        """The windows cut into pieces of at most ``length`` cells, and the pieces of each."""
        counts = [cdiv(n, length) for n in self.lengths]
        cuts = [
            (start + j * length, min(length, n - j * length))
            for start, n, count in zip(self.starts, self.lengths, counts, strict=True)
            for j in range(count)
        ]
        starts, lengths = zip(*cuts, strict=True)
        firsts = np.cumsum([0, *counts[:-1]])
        return Runs(self.size, starts, lengths), Runs(len(cuts), _ints(firsts), tuple(counts))


def _ints(numbers: np.ndarray) -> tuple[int, ...]:
    return tuple(int(n) for n in numbers)


def _length_of_pieces(runs: Runs) -> int:
    """Cells of the pieces of windows too long to be unrolled: a power of two near the root."""
    return min(1 << (runs.longest.bit_length() + 1) // 2, LONGEST_UNROLLED)


def _tap(x: Array, position: int, runs: Runs, tap: int) -> Array:
    """Cell ``tap`` of every window; a shorter window repeats its last cell."""
    last = np.array(runs.lengths) - 1
    where = np.array(runs.starts) + np.minimum(tap, last)
    steps = np.unique(np.diff(where))
    if len(where) == 1 or (len(steps) == 1 and steps[0] > 0):
        step = int(steps[0]) if len(steps) else 1
        return lax.slice_in_dim(x, int(where[0]), int(where[-1]) + 1, step, position)
    where = where.astype(np.int32)
    return jnp.take(x, where, axis=position, mode="clip", indices_are_sorted=True)


# --- sums ----------------------------------------------------------------------------------------


def total(x: Array, positions: Sequence[int], runs: Sequence[Runs]) -> Array:
    """Return the sum of every window; the transpose is a sum over the holders of a cell."""
    return _in_turn(_total, x, positions, runs)


def _in_turn(
    step: Callable[[Array, int, Runs], Array],
    x: Array,
    positions: Sequence[int],
    runs: Sequence[Runs],
) -> Array:
    """Take ``step`` along one axis after the other, long windows in loops of their own."""
    taps = 1
    for position, run in zip(positions, runs, strict=True):
        taps *= run.longest
        if taps > _MOST_TAPS_JOINED and taps > run.longest:
            (x,), taps = computed_once(x), run.longest
        x = step(x, position, run)
    return x


def _total(x: Array, position: int, runs: Runs) -> Array:
    there = functools.partial(_fold, position=position, runs=runs, reduction=SUM)
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return there(x)
    shape = list(x.shape)
    shape[position] = len(runs.starts)

    def back(g: Array) -> Array:
        (g,) = computed_once(g)  # it may come from the sum, which each cell would take again
        return there(g, runs=runs.holders())

    return with_transpose(there, back, x, tuple(shape))


def _fold(x: Array, position: int, runs: Runs, reduction: Reduction) -> Array:
    """Combine the cells of every window."""
    again = functools.partial(_fold, position=position, reduction=reduction)
    if runs.longest > LONGEST_UNROLLED:
        pieces, groups = runs.pieces(_length_of_pieces(runs))
        return again(again(x, runs=pieces), runs=groups)
    groups = runs.groups()
    if len(groups) > 1:
        return lax.concatenate([again(x, runs=group) for group in groups], x.ndim + position)
    cells, blank = [], identity_array(reduction, x.dtype)
    for tap in range(runs.longest):
        there = column(np.array(runs.lengths) > tap, position, x.ndim)
        cell = _tap(x, position, runs, tap)
        cells.append(cell if there.all() else jnp.where(there, cell, blank))
    return reduce_cells(reduction, cells)


# --- winners -------------------------------------------------------------------------------------


def largest(
    x: Array, positions: Sequence[int], runs: Sequence[Runs], reduction: Reduction = MAX
) -> Array:
    """Return the largest cell of every window."""
    if is_narrow_extreme(reduction, x.dtype):
        return in_integers(lambda keys, order: largest(keys, positions, runs, order), x, reduction)
    wide, order = widened(x, reduction)
    found = _in_turn(functools.partial(_fold, reduction=order), wide, positions, runs)
    return found.astype(x.dtype)


def winners(
    x: Array,
    valid: Array | None,
    positions: Sequence[int],
    runs: Sequence[Runs],
    reduction: Reduction = MAX,
) -> Pick:
    """Return the largest value of every window and the code of its first holder.

    A code holds the tap along each axis in bits of its own, the first axis highest, so that codes
    are ordered as row-major taps are; :func:`nowhere` marks a window without a cell. Along an axis,
    the largest value comes first; the code is the smallest of those that lead to a cell as large,
    which makes it the first in row-major order whatever the order of the axes. The first axis goes
    first, so that the last, whose cells lie side by side, is shorter by then.

    Args:
      x: the array, with the identity of max where it is not ``valid``.
      valid: mask of the cells, or None.
      positions: the array axes, negative.
      runs: windows along each of them.
      reduction: a maximum, which says which of several NaN is the holder.
    """
    if is_narrow_extreme(reduction, x.dtype):
        found = lambda keys, order: winners(keys, valid, positions, runs, order)  # noqa: E731
        return pick_in_order(found, x, None, reduction)
    codes = jnp.zeros(x.shape, _code_dtype(runs))
    if valid is not None:
        codes = jnp.where(valid, codes, nowhere(codes))
    best, reduction = widened(x, reduction)
    for n, (position, run, shift) in enumerate(zip(positions, runs, _shifts(runs), strict=True)):
        best, codes = computed_once(best, codes) if n else (best, codes)
        best, codes = _winners(best, codes, position, run, shift, reduction)
    return best.astype(x.dtype), codes


def _shifts(runs: Sequence[Runs]) -> list[int]:
    """Where the bits of each axis lie in a code."""
    bits = [(run.longest - 1).bit_length() for run in runs]
    return [sum(bits[n + 1 :]) for n in range(len(runs))]


def last_code(runs: Sequence[Runs]) -> int:
    """Return the code of the last tap of the longest windows; int32 must hold more."""
    return sum((run.longest - 1) << shift for run, shift in zip(runs, _shifts(runs), strict=True))


def _code_dtype(runs: Sequence[Runs]) -> np.dtype:
    """One byte if every code and the mark of none fit."""
    return np.dtype(np.uint8 if last_code(runs) < 255 else np.int32)


def nowhere(codes: Array) -> np.ndarray:
    """The code of a window without a cell: the largest number, to which no tap adds a bit."""
    return identity_array(MIN, codes.dtype)


def _winners(
    x: Array, codes: Array, position: int, runs: Runs, shift: int, reduction: Reduction
) -> Pick:
    if runs.longest > LONGEST_UNROLLED:
        bits = _length_of_pieces(runs).bit_length() - 1
        pieces, groups = runs.pieces(1 << bits)
        x, codes = computed_once(*_winners(x, codes, position, pieces, shift, reduction))
        return _winners(x, codes, position, groups, shift + bits, reduction)
    cells = [_tap(x, position, runs, tap) for tap in range(runs.longest)]
    reached = [_reached(codes, position, runs, tap, shift) for tap in range(runs.longest)]
    picks = list(zip(cells, reached, strict=True))
    return first_best_in_one_loop(picks, reduction)


def _reached(codes: Array, position: int, runs: Runs, tap: int, shift: int) -> Array:
    """The codes that lead through cell ``tap`` of every window, or through its last one."""
    taps = np.minimum(tap, np.array(runs.lengths) - 1) << shift
    own = column(taps.astype(codes.dtype), position, codes.ndim)
    return _tap(codes, position, runs, tap) | own


def places(codes: Array, positions: Sequence[int], runs: Sequence[Runs]) -> dict[int, Array]:
    """Return where each window's winner lies on each of the axes."""
    axes = zip(positions, runs, _shifts(runs), strict=True)
    return {position: _place(codes, position, run, shift) for position, run, shift in axes}


def _place(codes: Array, position: int, runs: Runs, shift: int) -> Array:
    starts = column(np.array(runs.starts, np.int32), position, codes.ndim)
    return _own(codes, runs, shift).astype(jnp.int32) + starts


def _own(codes: Array, runs: Runs, shift: int) -> Array:
    """The taps along one axis."""
    bits = (runs.longest - 1).bit_length()
    ones = np.asarray((1 << bits) - 1, codes.dtype)
    return (codes >> np.asarray(shift, codes.dtype)) & ones


def read(t: Array, codes: Array, positions: Sequence[int], runs: Sequence[Runs]) -> Array:
    """Return the entry of ``t`` at the winner of every window, 0 where there is none."""
    result = with_transpose(
        lambda t: _read(t, codes, positions, runs),
        lambda g: _send(g, codes, positions, runs),
        t.astype(accumulator(t.dtype)),
        codes.shape,
    )
    return result.astype(t.dtype)


def _read(t: Array, codes: Array, positions: Sequence[int], runs: Sequence[Runs]) -> Array:
    on_axis = places(codes, positions, runs)
    for axis in range(-t.ndim, 0):
        if axis not in on_axis:
            on_axis[axis] = numbers(t.shape[axis], axis, t.ndim, jnp.int32)
    index = tuple(jnp.broadcast_to(on_axis[axis], codes.shape) for axis in range(-t.ndim, 0))
    found = codes != nowhere(codes)
    return jnp.where(found, t.at[index].get(mode="clip"), np.zeros((), t.dtype))


def _send(g: Array, codes: Array, positions: Sequence[int], runs: Sequence[Runs]) -> Array:
    """Send each entry to the winner of its window, one axis after the other, the last one first.

    Windows whose winners meet at a place of an axis chose the same cell, since they are windows of
    the same rows and each took the first of the largest. So entries that arrive at a place may be
    added, and share the rest of their codes.
    """
    axes = list(zip(positions, runs, _shifts(runs), strict=True))
    for position, run, shift in axes[::-1]:
        g, codes = computed_once(g, codes)
        g, codes = _send_along(g, codes, position, run, shift)
    return g


def _send_along(g: Array, codes: Array, position: int, runs: Runs, shift: int) -> Pick:
    if position == -1 and len(runs.starts) <= min(_MOST_ASKED, runs.size):
        return _receive_from_all(g, codes, runs, shift)
    holders = runs.holders()
    cells = np.arange(runs.size)
    if holders.longest <= LONGEST_UNROLLED:
        return _receive(g, codes, position, runs, holders, cells, shift)
    pieces, groups = holders.pieces(_length_of_pieces(holders))
    cells = np.repeat(cells, groups.lengths)
    g, codes = _receive(g, codes, position, runs, pieces, cells, shift)
    return _fold(g, position, groups, SUM), _fold(codes, position, groups, MIN)


def _receive(
    g: Array, codes: Array, position: int, runs: Runs, holders: Runs, cells: np.ndarray, shift: int
) -> Pick:
    """For each row of windows, what they send to one cell that they all hold."""
    starts, firsts, counts = (np.array(n) for n in (runs.starts, holders.starts, holders.lengths))
    silence, heard = (np.zeros((), g.dtype), nowhere(codes)), []
    for nth in range(holders.longest):
        own_taps = cells - starts[firsts + np.minimum(nth, counts - 1)]
        wanted = np.where(nth < counts, own_taps, nowhere(codes))  # no tap is as large
        sent, code = (_tap(a, position, holders, nth) for a in (g, codes))
        hit = _leads_to(column(wanted, position, g.ndim), code, runs, shift)
        heard.append(_where(hit, (sent, code), silence))
    return tree_in_one_loop(_add, heard, silence)


def _receive_from_all(g: Array, codes: Array, runs: Runs, shift: int) -> Pick:
    """For each row of windows, what they send to the cells of the last axis."""
    place = jnp.where(codes == nowhere(codes), -1, _place(codes, -1, runs, shift))
    cells = numbers(runs.size, -1, g.ndim, jnp.int32)
    silence, heard = (np.zeros((), g.dtype), nowhere(codes)), []
    for window in range(len(runs.starts)):
        named, *sent = (lax.slice_in_dim(a, window, window + 1, axis=-1) for a in (place, g, codes))
        heard.append(_where(named == cells, sent, silence))
    return tree_in_one_loop(_add, heard, silence)


def _where(hit: Array, sent: Sequence[Array], silence: Sequence[np.ndarray]) -> tuple[Array, ...]:
    return tuple(jnp.where(hit, a, nothing) for a, nothing in zip(sent, silence, strict=True))


def _add(a: Pick, b: Pick) -> Pick:
    return a[0] + b[0], lax.min(a[1], b[1])


def _leads_to(wanted: np.ndarray, codes: Array, runs: Runs, shift: int) -> Array:
    """Whether the tap along one axis is the ``wanted`` one."""
    return (codes != nowhere(codes)) & (_own(codes, runs, shift) == wanted.astype(codes.dtype))
