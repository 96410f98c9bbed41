"""The linear map that reads, for every window, the cell of the tap that won.

``read(t, taps)[o] = t[o * stride - pad_low + taps[o] * dilation]``, and 0 where ``taps`` marks an
empty window. It is linear in ``t``; its transpose, in ``_send``, takes cotangents to the winners.

Small windows: a sum over taps of ``where(taps == tap, cell, 0)``.

Large windows: the winner of a window is the winner of one of its halves, so a read is a chain of
binary moves, the halvings of window doubling run backwards. Along an axis let ``2^j < K <=
2^(j+1)``. The window at ``p`` is covered by the windows of ``2^j`` taps at ``p`` and at ``p + (K -
2^j)``; its winner ``r`` lies in the second if ``r >= 2^j`` and else is the winner of the first.
So the way from ``p`` to ``r`` moves on by ``K - 2^j`` if ``r >= 2^j``, and what is left of ``r`` is
the winner of the window of ``2^j`` taps where it arrived; then come the halvings ``2^(j-1)`` to 1.
Ways that meet go on together, to the winner of one window, so a move is one mask for all of them.
Cost and program grow with the log of the window.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ._cut import cells_at, pad, pad_all
from ._fence import computed_once
from ._linear import with_transpose
from ._pick import empty
from ._reductions import accumulator
from ._send import MOST_TAPS_AT_ONCE, to_winners, to_winners_apart, to_winners_at_once
from ._window import Geometry

MOST_DIRECT_TAPS = 32


def read(t: Array, taps: Array, geometry: Geometry) -> Array:
    """Return the entry of ``t`` at the winning tap of every window."""
    wide = t.astype(accumulator(t.dtype))
    by = _by_taps if geometry.taps <= MOST_DIRECT_TAPS else _by_moves
    forward = lambda t: by(t, taps, geometry)  # noqa: E731
    narrow = t.dtype != wide.dtype

    def backward(g: Array) -> Array:
        if geometry.is_apart:
            return to_winners_apart(g, taps, geometry)
        if _fits_at_once(geometry):
            return to_winners_at_once(g, taps, geometry)
        (stored,) = computed_once(taps)
        received = to_winners(g, stored, geometry)
        # or XLA:CPU would round one number after the other where parts are joined
        return computed_once(received)[0] if narrow else received

    return with_transpose(forward, backward, wide, taps.shape).astype(t.dtype)


def _fits_at_once(geometry: Geometry) -> bool:
    """A cell hears several of windows that overlap: few taps, or the loops become long.

    Along the contiguous axis they would leave loops too short for vectors.
    """
    return geometry.taps <= MOST_TAPS_AT_ONCE and -1 not in geometry.positions


def _by_taps(t: Array, taps: Array, geometry: Geometry) -> Array:
    t = pad_all(t, geometry, np.zeros((), t.dtype))
    total = jnp.zeros(taps.shape, t.dtype)
    for number, tap in enumerate(itertools.product(*map(range, geometry.kernel))):
        hit = taps == np.asarray(number, taps.dtype)
        total = total + jnp.where(hit, cells_at(t, tap, geometry), jnp.zeros((), t.dtype))
    return total


class Move(NamedTuple):
    """One binary move: codes above ``limit`` go on by ``cells`` and lose ``paid``."""

    position: int
    cells: int
    limit: int
    paid: int


def _by_moves(t: Array, taps: Array, geometry: Geometry) -> Array:
    moves = list(_moves(geometry))
    masks = _masks(taps, geometry, moves)
    for axis, position in geometry.placed:
        t = pad(t, position, axis.pad_low, axis.reach, np.zeros((), t.dtype))
    for move, goes in zip(moves[::-1], masks[::-1], strict=True):
        t = jnp.where(goes, _ahead(t, move), t)
    t = cells_at(t, (0,) * len(geometry.axes), geometry)
    return jnp.where(taps == empty(taps.dtype), jnp.zeros((), t.dtype), t)


def _moves(geometry: Geometry) -> Iterator[Move]:
    """The moves that take a tap number, row-major, to zero: first axis first, largest first."""
    inner = geometry.taps
    for axis, position in geometry.placed:
        inner //= axis.kernel
        length = 1 << ((axis.kernel - 1).bit_length() - 1) if axis.kernel > 1 else 0
        step = axis.kernel - length
        while length:
            yield Move(position, step * axis.dilation, length * inner, step * inner)
            length //= 2
            step = length


def _masks(taps: Array, geometry: Geometry, moves: list[Move]) -> list[Array]:
    """For each move, where on the grid of all window starts a code takes it.

    A code is a tap number plus one; 0, also the mark of an empty window plus one, is no code.
    """
    code = _on_grid(taps + np.asarray(1, taps.dtype), geometry)
    masks = []
    for move in moves:
        goes = code > np.asarray(move.limit, code.dtype)
        none = np.zeros((), code.dtype)
        stays = jnp.where(goes, none, code)
        gone = jnp.where(goes, code - np.asarray(move.paid, code.dtype), none)
        code = jnp.maximum(stays, _behind(gone, move))
        masks.append(goes)
    return masks


def _on_grid(code: Array, geometry: Geometry) -> Array:
    config = [(0, 0, 0)] * code.ndim
    for axis, position in geometry.placed:
        config[position] = (0, axis.span - 1, axis.stride - 1)
    return lax.pad(code, np.zeros((), code.dtype), config)


def _ahead(x: Array, move: Move) -> Array:
    """``x`` at ``p + cells``, 0 past the end."""
    return pad(x, move.position, -move.cells, move.cells, np.zeros((), x.dtype))


def _behind(x: Array, move: Move) -> Array:
    """``x`` at ``p - cells``, 0 before the start."""
    return pad(x, move.position, move.cells, -move.cells, np.zeros((), x.dtype))
