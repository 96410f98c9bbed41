"""Sums over windows along one axis.

*Nested windows.* The sum over a window of ``k`` taps is the sum of ``c`` windows of ``m`` taps and
``r`` single taps, ``k = c m + r``. The inner windows are split in the same way, so the cost and the
size of the program grow with the log of ``k``.

*Blocks.* Along an axis that is not contiguous, the rows are split into blocks of ``b``. The sum of
a window that begins in row ``j`` of block ``q`` consists of

    the rows j .. b - 1 of block q, if j > 0,
    the sum of F full blocks, from block q if j = 0, else from q + 1; F = floor((k - b + 1) / b),
    and the remaining rows of the window.

The array of sums of ``F`` blocks has ``1 / b`` of the elements of the input and stays in cache;
nested windows store a full array of sums in twice the precision. The ``b`` phases ``j`` are stacked
along a new axis, each computed by a loop over full rows. Windows along the contiguous axis have no
such rows.

*Pairs* of floats hold a sum and its rounding error, where there is no wider dtype.
"""

import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._geometry.axis import cdiv
from .._geometry.resolve import is_at_least
from .._lowerings import tuning
from .._lowerings.parts.axis_slicing import pad, slice_axis, tree_reduce
from .._xla.materialize import materialize

Pair = tuple[Array, Array | None]
"""A sum and its rounding error; None if the error is zero, or too small to matter."""

Total = Callable[[Sequence[Pair]], Pair]
"""A function that adds the parts of a window."""


def pair_sums(x: Array, taps: int, position: int, max_direct_taps: int) -> Pair:
    """Return the sum of every window along an axis, and its rounding error.

    ``max_direct_taps``: size of the largest window that is added without nested windows.
    """
    return _window_sum((x, None), taps, position, _pair_total, max_direct_taps)


def map_sums(
    function: Callable[[Array], Array], x: Array, dtype: np.dtype, taps: int, position: int
) -> Array:
    """Return an elementwise ``function`` of the sum of every window, accumulated in ``dtype``."""
    row_size = math.prod(x.shape[position % x.ndim + 1 :])
    is_long = isinstance(x.shape[position], int) and is_at_least(row_size, tuning.MIN_ROW_OF_BLOCKS)
    if taps >= tuning.SHORTEST_IN_BLOCKS and is_long:
        return _map_block_sums(function, x, dtype, taps, position)
    return function(_unpaired_window_sum(x.astype(dtype), taps, position))


# --- blocks ---------------------------------------------------------------------------------------


def _map_block_sums(
    function: Callable[[Array], Array], x: Array, dtype: np.dtype, taps: int, position: int
) -> Array:
    block = tuning.ROWS_OF_BLOCK
    length = x.shape[position] - taps + 1
    count = cdiv(length, block)
    if count * block > length:
        x = pad(x, position, 0, count * block - length)
    rows = lambda first, count: slice_axis(x, position, first, count, block).astype(dtype)  # noqa: E731
    inner_blocks = (taps - block + 1) // block
    block_sums = materialize(
        tree_reduce(lax.add, [rows(n, count + inner_blocks) for n in range(block)])
    )
    inner_sums = materialize(_unpaired_window_sum(block_sums, inner_blocks, position))

    def phase(first: int) -> Array:
        leading = -first % block
        trailing = range(first + leading + inner_blocks * block, first + taps)
        edges = [rows(n, count) for n in (*range(first, first + leading), *trailing)]
        middle = slice_axis(inner_sums, position, min(first, 1), count, 1)
        return function(tree_reduce(lax.add, [middle, *edges]))

    axis = position % x.ndim
    y = jnp.stack([phase(first) for first in range(block)], axis + 1)
    y = y.reshape(*y.shape[:axis], count * block, *y.shape[axis + 2 :])
    return slice_axis(y, position, 0, length, 1)


# --- nested windows -------------------------------------------------------------------------------


def _unpaired_window_sum(x: Array, taps: int, position: int) -> Array:
    return _window_sum((x, None), taps, position, _unpaired_total, tuning.MAX_ADDED_AT_ONCE)[0]


def _window_sum(x: Pair, taps: int, position: int, total: Total, max_direct_taps: int) -> Pair:
    """Return the sum of ``taps`` neighbours starting at every position, added by ``total``."""
    length = x[0].shape[position] - taps + 1
    if taps <= max_direct_taps:
        return total([_shifted(x, position, n, length) for n in range(taps)])
    copies = copies_of(taps, max_direct_taps)
    inner = taps // copies
    inner_sums = materialize(_window_sum(x, inner, position, total, max_direct_taps))
    parts = [_shifted(inner_sums, position, n * inner, length) for n in range(copies)]
    return total(parts + [_shifted(x, position, n, length) for n in range(copies * inner, taps)])


@functools.lru_cache(maxsize=4096)
def copies_of(taps: int, max_direct_taps: int) -> int:
    """Return the number of inner windows into which ``taps`` are split at the least cost."""
    return min(
        range(2, max_direct_taps + 3), key=lambda copies: cost_with(taps, copies, max_direct_taps)
    )


@functools.lru_cache(maxsize=4096)
def cost_of(taps: int, max_direct_taps: int) -> int:
    """Return the cost of a window in additions, including ``COST_OF_LEVEL`` for each level."""
    if taps <= max_direct_taps:
        return taps
    return cost_with(taps, copies_of(taps, max_direct_taps), max_direct_taps)


def cost_with(taps: int, copies: int, max_direct_taps: int) -> int:
    """Return :func:`cost_of` a window that is split into ``copies`` inner windows."""
    inner = cost_of(taps // copies, max_direct_taps)
    return copies + taps % copies + tuning.COST_OF_LEVEL + inner


def _shifted(x: Pair, position: int, start: int, length: int) -> Pair:
    return jax.tree.map(lambda a: slice_axis(a, position, start, length, 1), x)


def _pair_total(parts: Sequence[Pair]) -> Pair:
    """Return the rounded sum of all parts, and its rounding error."""
    total, errors = parts[0][0], [low for _, low in parts if low is not None]
    for high, _ in parts[1:]:
        total, error = _two_sum(total, high)
        errors.append(error)
    return total, tree_reduce(lax.add, errors) if errors else None


def _unpaired_total(parts: Sequence[Pair]) -> Pair:
    """Return the rounded sum of all parts, without the rounding error."""
    return tree_reduce(lax.add, [high for high, _ in parts]), None


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum of two floats and its exact rounding error."""
    total = a + b
    b_rounded = total - a
    return total, (a - (total - b_rounded)) + (b - b_rounded)
