"""Gather and scatter at the argmax of long windows, through levels of smaller windows.

The argmax of a window is also the argmax of every smaller window that contains it. A gather is
therefore a chain of binary moves, the steps of window doubling in reverse.

Gather. Along an axis with kernel ``K``, let ``2^j < K <= 2^(j+1)``. The window at ``p`` is covered
by two windows of ``2^j`` elements, at ``p`` and at ``p + (K - 2^j)``. An offset ``r >= 2^j`` lies
in the second one: the read moves from ``p`` to ``p + (K - 2^j)``, and ``r`` becomes
``r - (K - 2^j)``. A smaller offset lies in the first one, and nothing changes. Either way ``r`` is
now the argmax of a window of ``2^j`` elements. The halvings ``2^(j-1), ..., 2, 1`` follow in the
same way, until ``r`` is 0. For example, with ``K = 5``,

    r = 4    moves by 1 to r = 3,    by 2 to r = 1,    by 1 to r = 0.

Windows that reach the same smaller window agree on its argmax. So a move needs one mask over
positions for all windows. Cost and program size grow with ``log K``.

Scatter. The axes are processed sequentially, for example rows, then columns. Windows over the same
columns whose argmax lies in the same row have the same argmax: the first maximum of that row in
these columns. So their values are added there, and they have the same remaining offset. A long axis
is processed in levels of smaller windows for the same reason.

A *code* is an offset plus one. Code 0 means no offset; the sentinel plus one is also 0.
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
from .axis_slicing import elements_at, pad, pad_axes, slice_axis, tree_reduce, window_levels
from .phases import Arrays, combine_over_elements, dilate_windows


def _codes(offsets: Array) -> Array:
    """Return offsets plus one, in their dtype, in which the sentinel wraps to 0."""
    return offsets + np.asarray(1, offsets.dtype)


# --- gather ---------------------------------------------------------------------------------------


class Move(NamedTuple):
    """A binary move: a code above ``limit`` moves by ``elements`` and decreases by ``passed``."""

    position: int
    elements: int
    limit: int
    passed: int


def gather(x: Array, offsets: Array, geometry: Geometry) -> Array:
    """Return the element of ``x`` at the argmax of every window, 0 for the sentinel.

    The masks are computed from the first move to the last. The reads are done in reverse: after
    move ``n``, counted from the last, ``x[p]`` is the element that the last ``n`` moves reach from
    ``p``.
    """
    moves = list(_moves(geometry))
    masks = _masks(offsets, geometry, moves)
    for axis, position in geometry.placed:
        x = pad(x, position, axis.pad_low, axis.overshoot)
    for move, moved in zip(moves[::-1], masks[::-1], strict=True):
        x = jnp.where(moved, _shift(x, move.position, -move.elements), x)
    x = elements_at(x, (0,) * len(geometry.axes), geometry)
    return jnp.where(offsets == sentinel(offsets.dtype), jnp.zeros((), x.dtype), x)


def _moves(geometry: Geometry) -> Iterator[Move]:
    """Yield the moves that take a row-major offset to 0: first axis first, largest window first."""
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
    """Return, for each move, the mask of the positions whose code moves.

    Positions are those of the padded axes. Every window's code is at its start at first.
    """
    margins = {p: (0, axis.span - 1, axis.stride - 1) for axis, p in geometry.placed}
    code, masks = pad_axes(_codes(offsets), margins), []
    for move in moves:
        moved = code > np.asarray(move.limit, code.dtype)
        zero = np.zeros((), code.dtype)
        stays = jnp.where(moved, zero, code)
        remaining = jnp.where(moved, code - np.asarray(move.passed, code.dtype), zero)
        code = jnp.maximum(stays, _shift(remaining, move.position, move.elements))
        masks.append(moved)
    return masks


def _shift(x: Array, position: int, elements: int) -> Array:
    """Return ``x[p - elements]`` at every position ``p`` of an axis, 0 past its ends."""
    return pad(x, position, elements, -elements)


# --- scatter --------------------------------------------------------------------------------------


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return the sum, for each element, of the values of the windows whose argmax it is.

    Args:
      g: values of the windows.
      offsets: row-major offset of the argmax of each window.
      geometry: the windows.
      dtype: the dtype to which the caller rounds the result.
    """
    offsets = materialize(offsets)
    sums, unit, is_low_precision = (g, _codes(offsets)), geometry.taps, g.dtype != dtype
    for axis, position in geometry.placed:
        unit //= axis.kernel
        scatter_axis = _scatter_short if axis.kernel <= tuning.LONGEST_SCATTERED else _scatter_long
        sums = scatter_axis(sums, axis, position, unit, position == geometry.positions[-1])
    # Otherwise XLA:CPU would round without vectorization where parts are concatenated.
    return materialize(sums[0]) if is_low_precision else sums[0]


def _select_range(
    windows: Arrays, zeros: Arrays, low: int, high: int | None, passed: int, last: bool
) -> Arrays:
    """Return the values whose offset is in ``low <= offset < high``, and their remaining codes.

    Both are 0 elsewhere.

    Args:
      windows: values and codes.
      zeros: zeros like ``windows``.
      low, high: the bounds; ``high`` of None means no upper bound.
      passed: the number that is subtracted from the codes.
      last: whether to select offset ``low`` only and to return no codes.
    """
    g, codes = windows
    number = lambda value: np.asarray(value, codes.dtype)  # noqa: E731
    if last:
        return (lax.select(codes == number(low + 1), g, zeros[0]),)
    selected = codes > number(low)
    if high is not None:
        selected = selected & (codes <= number(high))
    remaining = codes - number(passed) if passed else codes
    return lax.select(selected, g, zeros[0]), lax.select(selected, remaining, zeros[1])


def _add_terms(terms: list[Arrays]) -> Arrays:
    """Return the sum of the values and the maximum of the codes: selected codes are equal."""
    g, *codes = zip(*terms, strict=True)
    return tree_reduce(lax.add, g), *(tree_reduce(lax.max, remaining) for remaining in codes)


def _scatter_short(windows: Arrays, axis: Axis, position: int, unit: int, last: bool) -> Arrays:
    """Scatter along an axis with a short kernel, with a slice for every offset.

    Args:
      windows: values and codes.
      axis, position: the axis.
      unit: the number of row-major offsets for one offset along this axis.
      last: whether this is the last axis, after which no code remains.
    """
    zeros = tuple(map(jnp.zeros_like, windows))

    def contributions(offset: int) -> Arrays:
        low = offset * unit
        high = low + unit if offset < axis.kernel - 1 else None
        return _select_range(windows, zeros, low, high, low, last)

    return combine_over_elements(
        contributions, (0,) if last else (0, 0), axis, position, _add_terms
    )


def _scatter_long(windows: Arrays, axis: Axis, position: int, unit: int, last: bool) -> Arrays:
    """Scatter along an axis with a long kernel, through levels of ever smaller windows.

    Windows of every level may begin at any element of the padded axis. Args as for
    :func:`_scatter_short`.
    """
    windows = dilate_windows(windows, axis, position)
    for window, shifts in window_levels(axis.kernel, tuning.SCATTER_RADIX):
        inner = window - shifts[-1]
        margin = shifts[-1] * axis.dilation
        length = windows[0].shape[position] + margin
        windows = pad(windows, position, margin, margin)
        terms, low, zeros = [], 0, ()
        for shift in shifts:
            start = margin - shift * axis.dilation
            shifted = tuple(slice_axis(array, position, start, length, 1) for array in windows)
            zeros = zeros or tuple(map(jnp.zeros_like, shifted))
            high = shift + inner if shift != shifts[-1] else None
            bounds = low * unit, high and high * unit, shift * unit
            terms.append(_select_range(shifted, zeros, *bounds, last and inner == 1))
            low = shift + inner
        windows = _add_terms(terms)
    high = axis.pad_low + axis.size - windows[0].shape[position]
    return pad(windows, position, -axis.pad_low, high)
