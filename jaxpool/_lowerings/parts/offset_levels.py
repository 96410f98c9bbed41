"""Reading and writing windows at the offsets of an argmax, long windows level by level.

The argmax of a window is the argmax of each smaller window that holds it. So a read is a chain of
binary moves, the halvings of window doubling run backwards.

Along an axis let ``2^j < K <= 2^(j+1)``. The window at ``p`` is covered by the windows of ``2^j``
elements at ``p`` and at ``p + (K - 2^j)``; an offset ``r >= 2^j`` lies in the second, another one
in the first. The read moves from ``p`` to ``p + (K - 2^j)`` if ``r >= 2^j``, and what is left of
``r`` is the argmax of the window of ``2^j`` elements that is reached; then come the halvings
``2^(j-1)`` to 1. Two windows that reach the same one have the same argmax from there on, so one
mask moves both. Cost and program grow with the logarithm of the window.

The transpose takes one axis after the other. The values that reach an element of the first axis
come from windows with the same argmax, so they may be added there and share the rest of their
offset. A long axis is taken in levels for the same reason.

Codes are offsets plus one; 0, also the sentinel plus one, is no offset.
"""

from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry
from ..._xla.materialize import materialize
from .. import tuning
from .argreduce import sentinel
from .axis_slicing import elements_at, levels, pad, slice_axis, tree_reduce
from .phases import Arrays, over_elements, stretch


def _codes(offsets: Array) -> Array:
    return offsets + np.asarray(1, offsets.dtype)


# --- gather ---------------------------------------------------------------------------------------


class Move(NamedTuple):
    """One binary move: codes above ``limit`` go on by ``elements`` and lose ``passed``."""

    position: int
    elements: int
    limit: int
    passed: int


def gather(x: Array, offsets: Array, geometry: Geometry) -> Array:
    """Return the element of ``x`` at the argmax of every window."""
    moves = list(_moves(geometry))
    masks = _masks(offsets, geometry, moves)
    for axis, position in geometry.placed:
        x = pad(x, position, axis.pad_low, axis.reach, np.zeros((), x.dtype))
    for move, moved in zip(moves[::-1], masks[::-1], strict=True):
        x = jnp.where(moved, _ahead(x, move), x)
    x = elements_at(x, (0,) * len(geometry.axes), geometry)
    return jnp.where(offsets == sentinel(offsets.dtype), jnp.zeros((), x.dtype), x)


def _moves(geometry: Geometry) -> Iterator[Move]:
    """The moves that take an offset, row-major, to zero: first axis first, largest first."""
    inner = geometry.taps
    for axis, position in geometry.placed:
        inner //= axis.kernel
        length = 1 << ((axis.kernel - 1).bit_length() - 1) if axis.kernel > 1 else 0
        step = axis.kernel - length
        while length:
            yield Move(position, step * axis.dilation, length * inner, step * inner)
            length //= 2
            step = length


def _masks(offsets: Array, geometry: Geometry, moves: list[Move]) -> list[Array]:
    """For each move, where on the grid of all window starts a code takes it."""
    code = _on_grid(_codes(offsets), geometry)
    masks = []
    for move in moves:
        moved = code > np.asarray(move.limit, code.dtype)
        zero = np.zeros((), code.dtype)
        stays = jnp.where(moved, zero, code)
        left = jnp.where(moved, code - np.asarray(move.passed, code.dtype), zero)
        code = jnp.maximum(stays, _behind(left, move))
        masks.append(moved)
    return masks


def _on_grid(code: Array, geometry: Geometry) -> Array:
    config = [(0, 0, 0)] * code.ndim
    for axis, position in geometry.placed:
        config[position] = (0, axis.span - 1, axis.stride - 1)
    return lax.pad(code, np.zeros((), code.dtype), config)


def _ahead(x: Array, move: Move) -> Array:
    """``x`` at ``p + elements``, 0 past the end."""
    return pad(x, move.position, -move.elements, move.elements, np.zeros((), x.dtype))


def _behind(x: Array, move: Move) -> Array:
    """``x`` at ``p - elements``, 0 before the start."""
    return pad(x, move.position, move.elements, -move.elements, np.zeros((), x.dtype))


# --- scatter --------------------------------------------------------------------------------------


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return the sum, for each element, of the values of the windows whose argmax it is.

    Args:
      g: values of the windows.
      offsets: their argmax, row-major.
      geometry: the windows.
      dtype: the dtype that the caller rounds the result to.
    """
    (offsets,) = materialize(offsets)
    sums, unit, narrow = (g, _codes(offsets)), geometry.taps, g.dtype != dtype
    for axis, position in geometry.placed:
        unit //= axis.kernel
        along = _along_axis if axis.kernel <= tuning.LONGEST_SCATTERED else _by_levels
        sums = along(sums, axis, position, unit, position == geometry.positions[-1])
    # or XLA:CPU would round one number after the other where parts are concatenated
    return materialize(sums[0])[0] if narrow else sums[0]


def _take(
    windows: Arrays, zeros: Arrays, low: int, high: int | None, passed: int, last: bool
) -> Arrays:
    """The values whose offset is in ``low <= offset < high``, and what is left of their codes.

    Args:
      windows: values and codes.
      zeros: zeros like both.
      low, high: bounds of the offsets; without ``high`` all from ``low`` on.
      passed: what the codes lose.
      last: whether ``low`` is the one offset that is asked for, of which no code is left.
    """
    g, codes = windows
    number = lambda value: np.asarray(value, codes.dtype)  # noqa: E731
    if last:
        return (lax.select(codes == number(low + 1), g, zeros[0]),)
    taken = codes > number(low)
    if high is not None:
        taken = taken & (codes <= number(high))
    left = codes - number(passed) if passed else codes
    return lax.select(taken, g, zeros[0]), lax.select(taken, left, zeros[1])


def _total(given: list[Arrays]) -> Arrays:
    g, *codes = zip(*given, strict=True)
    return tree_reduce(lax.add, g), *(tree_reduce(lax.max, left) for left in codes)


def _along_axis(windows: Arrays, axis: Axis, position: int, unit: int, last: bool) -> Arrays:
    """Along an axis of few elements."""
    zeros = tuple(map(jnp.zeros_like, windows))

    def at(offset: int) -> Arrays:
        low = offset * unit
        high = low + unit if offset < axis.kernel - 1 else None
        return _take(windows, zeros, low, high, low, last)

    return over_elements(at, (0,) if last else (0, 0), axis, position, _total)


def _by_levels(windows: Arrays, axis: Axis, position: int, unit: int, last: bool) -> Arrays:
    """Along a long axis, on the grid of all window starts, through ever smaller windows."""
    windows = tuple(stretch(array, axis, position) for array in windows)
    for window, shifts in levels(axis.kernel, tuning.SCATTER_RADIX):
        inner = window - shifts[-1]
        room = shifts[-1] * axis.dilation
        length = windows[0].shape[position] + room
        windows = tuple(_padded(array, position, room, room) for array in windows)
        terms, low, zeros = [], 0, ()
        for shift in shifts:
            start = room - shift * axis.dilation
            given = tuple(slice_axis(array, position, start, length, 1) for array in windows)
            zeros = zeros or tuple(map(jnp.zeros_like, given))
            high = shift + inner if shift != shifts[-1] else None
            bounds = low * unit, high and high * unit, shift * unit
            terms.append(_take(given, zeros, *bounds, last and inner == 1))
            low = shift + inner
        windows = _total(terms)
    high = axis.pad_low + axis.size - windows[0].shape[position]
    return tuple(_padded(array, position, -axis.pad_low, high) for array in windows)


def _padded(x: Array, position: int, low: int, high: int) -> Array:
    return pad(x, position, low, high, np.zeros((), x.dtype))
