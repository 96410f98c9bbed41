"""Sums over windows along one axis.

*Windows of windows.* A window of ``k`` taps is ``c`` windows of ``m`` taps and ``r`` single taps,
``k = c m + r``, and so on down: cost and program grow with the log of ``k``.

*Blocks.* Along an axis that is not contiguous, let ``B[q]`` be the sum of the ``b`` rows of block
``q``. A window that begins in row ``j`` of block ``q`` is

    the rows j .. b - 1 of block q, if j > 0,
    the sum of F whole blocks from q (j = 0) or q + 1 on, F = floor((k - b + 1) / b),
    and the rows after them.

The sums of ``F`` blocks are a ``b``-th of the array, and stay in the cache, where windows of
windows store an array of sums in twice the digits. The ``b`` phases ``j`` are joined along an axis
of their own, each a loop over whole rows. Windows along the contiguous axis have no such rows.

*Pairs* of floats carry a sum and what its rounding lost, where there is no wider dtype.
"""

import functools
import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._geometry.axis import cdiv
from .._geometry.resolve import is_at_least
from .._lowerings import tuning
from .._lowerings.parts.axis_slicing import pad, slice_axis, tree_reduce
from .._xla.materialize import materialize

Pair = tuple[Array, Array | None]
"""A sum, and what its rounding lost; None is nothing, or too little to matter."""

Total = Callable[[Sequence[Pair]], Pair]
"""How parts of a window are added."""


def in_pairs(x: Array, taps: int, position: int, at_once: int) -> Pair:
    """Return the sum of every window, and what its rounding lost.

    ``at_once``: taps up to which they are added one after the other.
    """
    return _window((x, None), taps, position, _total, at_once)


def of_sums(
    function: Callable[[Array], Array], x: Array, dtype: np.dtype, taps: int, position: int
) -> Array:
    """Return an elementwise ``function`` of the sum of every window, added in ``dtype``."""
    row = math.prod(x.shape[position % x.ndim + 1 :])
    is_long = isinstance(x.shape[position], int) and is_at_least(row, tuning.LEAST_ROW_OF_BLOCKS)
    if taps >= tuning.SHORTEST_IN_BLOCKS and is_long:
        return _of_blocks(function, x, dtype, taps, position)
    return function(_plain_window(x.astype(dtype), taps, position))


# --- blocks ---------------------------------------------------------------------------------------


def _of_blocks(
    function: Callable[[Array], Array], x: Array, dtype: np.dtype, taps: int, position: int
) -> Array:
    block = tuning.ROWS_OF_BLOCK
    length = x.shape[position] - taps + 1
    count = cdiv(length, block)
    if count * block > length:
        x = pad(x, position, 0, count * block - length, np.zeros((), x.dtype))
    row = lambda first, count: slice_axis(x, position, first, count, block).astype(dtype)  # noqa: E731
    inner = (taps - block + 1) // block
    (blocks,) = materialize(tree_reduce(lax.add, [row(n, count + inner) for n in range(block)]))
    (whole,) = materialize(_plain_window(blocks, inner, position))

    def phase(first: int) -> Array:
        before = -first % block
        after = range(first + before + inner * block, first + taps)
        rows = [row(n, count) for n in (*range(first, first + before), *after)]
        middle = slice_axis(whole, position, min(first, 1), count, 1)
        return function(tree_reduce(lax.add, [middle, *rows]))

    axis = position % x.ndim
    y = jnp.stack([phase(first) for first in range(block)], axis + 1)
    y = y.reshape(*y.shape[:axis], count * block, *y.shape[axis + 2 :])
    return slice_axis(y, position, 0, length, 1)


# --- windows of windows ---------------------------------------------------------------------------


def _plain_window(x: Array, taps: int, position: int) -> Array:
    return _window((x, None), taps, position, _plain_total, tuning.MOST_ADDED_AT_ONCE)[0]


def _window(x: Pair, taps: int, position: int, total: Total, at_once: int) -> Pair:
    """The sum of ``taps`` neighbours from every place on."""
    length = x[0].shape[position] - taps + 1
    if taps <= at_once:
        return total([_shifted(x, position, n, length) for n in range(taps)])
    copies = copies_of(taps, at_once)
    inner = taps // copies
    made = _stored(_window(x, inner, position, total, at_once))
    parts = [_shifted(made, position, n * inner, length) for n in range(copies)]
    return total(parts + [_shifted(x, position, n, length) for n in range(copies * inner, taps)])


@functools.lru_cache(maxsize=4096)
def copies_of(taps: int, at_once: int) -> int:
    """How many inner windows make up one of ``taps``, at the least cost."""
    return min(range(2, at_once + 3), key=lambda copies: cost_with(taps, copies, at_once))


@functools.lru_cache(maxsize=4096)
def cost_of(taps: int, at_once: int) -> int:
    """Additions that a window takes, those that a level costs among them."""
    return taps if taps <= at_once else cost_with(taps, copies_of(taps, at_once), at_once)


def cost_with(taps: int, copies: int, at_once: int) -> int:
    """:func:`cost_of` a window that is made of so many inner ones."""
    inner = cost_of(taps // copies, at_once)
    return copies + taps % copies + tuning.COST_OF_LEVEL + inner


def _shifted(x: Pair, position: int, start: int, length: int) -> Pair:
    high, low = x
    high = slice_axis(high, position, start, length, 1)
    return high, None if low is None else slice_axis(low, position, start, length, 1)


def _stored(x: Pair) -> Pair:
    """The pair made once, and not anew for each of its copies."""
    high, low = x
    if low is None:
        return materialize(high)[0], None
    high, low = materialize(high, low)
    return high, low


def _total(parts: Sequence[Pair]) -> Pair:
    """The sum of all parts: rounded, and what the roundings lost."""
    total, lost = parts[0][0], [low for _, low in parts if low is not None]
    for high, _ in parts[1:]:
        total, error = _two_sum(total, high)
        lost.append(error)
    return total, tree_reduce(lax.add, lost) if lost else None


def _plain_total(parts: Sequence[Pair]) -> Pair:
    """The sum of all parts, rounded."""
    return tree_reduce(lax.add, [high for high, _ in parts]), None


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)
