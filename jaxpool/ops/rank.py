"""Order statistics of windows: medians and ranks.

Let ``p(o)`` be the first cell of window ``o`` that has the value of the wanted rank. Where it is
locally constant, ``y[o] = x[p(o)]`` and ``dy[o] = dx[p(o)]``, as for a maximum. But windows that
share a cell need not agree on it, so each is sent back apart.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .._arguments import integer
from .._counts import cells_per_window
from .._cut import column
from .._errors import message
from .._fence import computed_once
from .._linear import rule_for
from .._pick import empty, tap_dtype
from .._reductions import MAX, MIN, accumulator, identity_array
from .._window import Geometry
from . import _taps
from ._common import Op, Settings, call, check_real, check_where
from ._stacks import each_tap, stacked
from ._sums import window_sum

MOST_IN_NETWORK = 128
"""Taps up to which windows are sorted by comparators side by side, far faster than by a sort."""

Which = int | str
"""A rank, or "low" or "high", the middle cell and the one above it if two are in the middle."""


def median_pool(
    x: ArrayLike,
    window_shape: Any,
    strides: Any,
    padding: Any = "VALID",
    *,
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Median over sliding windows.

    ``y[.., o, ..] = median over t of x[.., o * stride - pad_low + t * dilation, ..]`` of the cells
    inside ``x``: the middle one in order, of an even number the mean of the middle two.

    Args:
      x: array of any real dtype, or anything ``jnp.asarray`` takes; not bool.
      window_shape, strides, padding, dilations, rounding, data_format: as in :func:`max_pool`.
      where: boolean mask that broadcasts to ``x``; False takes the cell away.
    Returns:
      Array of the dtype of ``x``; pooled axes have :func:`output_shape`, the others are unchanged.
      The mean of two integers is exact and rounded half to even.
    Derivatives: forward and reverse, any order. The tangent follows the middle cell, or half each
      of the middle two; of equal cells the first in row-major order. Second derivatives are zero.
    Edge cases: padding, overhang and masked cells are no cells. NaN in a window gives NaN. A window
      without a cell gives 0 and no gradient.
    Raises:
      TypeError, ValueError: as :func:`max_pool`; TypeError also for bool.
    References: Tukey 1977, "Exploratory data analysis", chapter 7.
    Example:
      >>> x = jnp.array([[1.0], [9.0], [2.0], [3.0]])
      >>> jaxpool.median_pool(x, (3,), 1, 1)[:, 0]
      Array([5. , 2. , 3. , 2.5], dtype=float32)
    """
    return call(
        _MEDIAN_POOL, x, where, window_shape, strides, padding, dilations, rounding,
        data_format, "auto",
    )  # fmt: skip


def rank_pool(
    x: ArrayLike,
    rank: int,
    window_shape: Any,
    strides: Any,
    padding: Any = "VALID",
    *,
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """The cell of a given rank over sliding windows.

    ``y[.., o, ..]`` is the entry number ``rank`` of the cells of a window inside ``x``,
    ``x[.., o * stride - pad_low + t * dilation, ..]``, in ascending order: 0 is the minimum, -1 the
    maximum.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      rank: from 0 for the smallest, or from -1 for the largest downwards; less than the taps of a
        window.
      window_shape, strides, padding, dilations, rounding, data_format, where: as in
        :func:`median_pool`.
    Returns:
      Array of the dtype of ``x``; pooled axes have :func:`output_shape`, the others are unchanged.
    Derivatives: forward and reverse, any order. The tangent follows the cell, of equal cells the
      first in row-major order; second derivatives are zero.
    Edge cases: padding, overhang and masked cells are no cells. In a window of fewer cells than the
      rank needs it is the last of them in its direction: the largest for a rank from 0 on, the
      smallest for a negative one. NaN in a window gives NaN, at every rank. A window without a
      cell gives the highest value of the dtype for a rank from 0 on (as :func:`min_pool`), the
      lowest for a negative one (as :func:`max_pool`), and no gradient.
    Raises:
      TypeError, ValueError: as :func:`max_pool`; ValueError also if ``rank`` is out of range.
    References: scipy.ndimage ``rank_filter``.
    Example:
      >>> x = jnp.array([[5], [1], [4], [2]])
      >>> jaxpool.rank_pool(x, 1, (3,), 1)[:, 0], jaxpool.rank_pool(x, -1, (3,), 1)[:, 0]
      (Array([4, 2], dtype=int32), Array([5, 4], dtype=int32))
    """
    return call(
        _RANK_POOL, x, where, window_shape, strides, padding, dilations, rounding,
        data_format, "auto", rank,
    )  # fmt: skip


def _median(settings: Settings, x: Array, where: Any) -> Array:
    check_real(settings.op, x)
    if x.dtype == jnp.bool_:
        raise TypeError(
            message(
                settings.op,
                "the array is boolean.",
                "The median of an even number of booleans can be a half.",
                "Convert it first, for example x.astype(jnp.float32), or use rank_pool.",
            )
        )
    valid = check_where(settings.op, where, x.shape)
    counts = _counts(settings, x, valid)
    y = _ranked(settings, x, valid, "low")
    if not (isinstance(counts, np.ndarray) and np.all(counts % 2 == 1)):
        y = _middle(y, _ranked(settings, x, valid, "high"))
    return _unless_empty(y, counts, np.zeros((), x.dtype))


def _middle(a: Array, b: Array) -> Array:
    """The mean of ``a`` and ``b``, without overflow.

    Not ``a / 2 + b / 2``, which XLA turns into ``(a + b) / 2``.
    """
    if jnp.issubdtype(a.dtype, jnp.integer):
        below, odd = (a & b) + ((a ^ b) >> 1), (a ^ b) & 1
        return below + (below & odd)
    wide = accumulator(a.dtype)
    low, high, half = a.astype(wide), b.astype(wide), np.asarray(0.5, wide)
    mean, gap = (low + high) * half, high - low
    overflows = (lax.abs(mean) == np.inf) & lax.is_finite(gap)
    return jnp.where(overflows, low + gap * half, mean).astype(a.dtype)


def _settle_rank(op: str, rank: Any) -> tuple[int]:
    return (integer(op, "rank", rank, -(2**31)),)


def _rank(settings: Settings, x: Array, where: Any) -> Array:
    check_real(settings.op, x)
    (rank,), taps = settings.own, settings.geometry(x.shape).taps
    if not -taps <= rank < taps:
        raise ValueError(
            message(
                settings.op,
                f"`rank` = {rank} is out of range.",
                f"A window has {taps} taps, so ranks are {-taps} to {taps - 1}.",
                "Give 0 for the smallest cell, -1 for the largest.",
            )
        )
    valid = check_where(settings.op, where, x.shape)
    y = _ranked(settings, x, valid, rank)
    blank = identity_array(MIN if rank >= 0 else MAX, np.dtype(x.dtype))
    return _unless_empty(y, _counts(settings, x, valid), blank)


def _unless_empty(y: Array, counts: Any, blank: np.ndarray) -> Array:
    if isinstance(counts, np.ndarray) and counts.all():
        return y
    return jnp.where(counts == 0, blank, y)


def _counts(settings: Settings, x: Array, valid: Array | None) -> Any:
    """Cells of each window; a NumPy array if known before tracing. Of the rank of ``x``."""
    geometry = settings.geometry(x.shape)
    if valid is not None:
        return window_sum(settings, valid.astype(jnp.int32))
    if not all(isinstance(length, int) for length in geometry.out_shape):
        counts = cells_per_window(geometry, include_pad=False)
        return np.full((1,) * x.ndim, counts) if isinstance(counts, int) else counts
    counts = np.ones((1,) * x.ndim, np.int32)
    for axis, position in geometry.placed:
        counts = counts * column(axis.counts(include_pad=False), position, x.ndim)
    return counts.astype(np.int32)


def _ranked(settings: Settings, x: Array, valid: Array | None, which: Which) -> Array:
    """The cell of a rank in every window; anything in windows without a cell."""
    rule = rule_for(x, _at_rank)
    # XLA:CPU would widen and round narrow floats at every comparison.
    return rule(x.astype(accumulator(x.dtype)), valid, settings, which).astype(x.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _at_rank(x: Array, valid: Array | None, settings: Settings, which: Which) -> Array:
    geometry = settings.geometry(x.shape)
    absent = identity_array(MIN, np.dtype(x.dtype))
    positions = _position(which, _counts(settings, x, valid), geometry.taps)
    if valid is not None:
        x = jnp.where(valid, x, absent)
    if geometry.taps <= MOST_IN_NETWORK:
        return _pick(_sorted(list(each_tap(x, geometry, absent))), positions)
    return _pick_sorted(jnp.sort(stacked(x, geometry, absent), -1), positions)


@_at_rank.defjvp
def _at_rank_jvp(settings: Settings, which: Which, primals, tangents):
    (x, valid), (t, _) = primals, tangents
    (y,) = computed_once(_at_rank(x, valid, settings, which))  # every tap is compared with it
    geometry = settings.geometry(x.shape)
    return y, _taps.read(t, _first_equal(x, valid, y, geometry), geometry)


def _position(which: Which, counts: Any, taps: int) -> Any:
    """Where the wanted cell lies among the sorted taps; cells that are absent come last."""
    if isinstance(which, int):
        position = (counts - 1).clip(None, which) if which >= 0 else counts + which
    else:
        position = (counts - 1) // 2 if which == "low" else counts // 2
    return position.clip(0, taps - 1)


def _sorted(lanes: list[Array]) -> list[Array]:
    """Sort lanes by comparators; those that no one reads are dropped by the compiler.

    Source: Batcher's merge exchange, in Knuth, The Art of Computer Programming, 5.2.2, algorithm M.
    """
    for a, b in _comparators(len(lanes)):
        lanes[a], lanes[b] = lax.min(lanes[a], lanes[b]), lax.max(lanes[a], lanes[b])
    return lanes


def _comparators(count: int) -> Iterator[tuple[int, int]]:
    first = p = 1 << max((count - 1).bit_length() - 1, 0)
    while p and count > 1:
        q, r, d = first, 0, p
        while d:
            yield from ((i, i + d) for i in range(count - d) if i & p == r)
            d, q, r = (q - p, q // 2, p) if q != p else (0, q, r)
        p //= 2


def _pick(lanes: Sequence[Array], positions: Any) -> Array:
    known = isinstance(positions, np.ndarray)
    choices = [int(n) for n in np.unique(positions)] if known else range(len(lanes))
    y = lanes[choices[0]]
    for n in choices[1:]:
        y = jnp.where(positions == n, lanes[n], y)
    return y


def _pick_sorted(cells: Array, positions: Any) -> Array:
    """The entry at a position of the sorted last axis; NaN comes last of all."""
    shape = (*cells.shape[:-1], 1)
    index = jnp.broadcast_to(jnp.expand_dims(jnp.asarray(positions, jnp.int32), -1), shape)
    y, last = jnp.take_along_axis(cells, index, -1)[..., 0], cells[..., -1]
    return jnp.where(last != last, last, y)


def _first_equal(x: Array, valid: Array | None, y: Array, geometry: Geometry) -> Array:
    """The first tap of every window that holds the value ``y``, or the mark of none."""
    dtype, no = tap_dtype(geometry), np.asarray(False)
    valid = jnp.ones(x.shape, bool) if valid is None else valid
    blank = np.zeros((), x.dtype)
    if geometry.taps > MOST_IN_NETWORK:
        cells, there = stacked(x, geometry, blank), stacked(valid, geometry, no)
        y = jnp.expand_dims(y, -1)
        hit = there & ((cells == y) | ((cells != cells) & (y != y)))
        return jnp.where(hit.any(-1), hit.argmax(-1).astype(dtype), empty(dtype))
    taps = jnp.full(y.shape, empty(dtype))
    pairs = zip(each_tap(x, geometry, blank), each_tap(valid, geometry, no), strict=True)
    for number, (cell, there) in list(enumerate(pairs))[::-1]:
        hit = there & ((cell == y) | ((cell != cell) & (y != y)))
        taps = jnp.where(hit, np.asarray(number, dtype), taps)
    return taps


_MEDIAN_POOL = Op("median_pool", _median)
_RANK_POOL = Op("rank_pool", _rank, _settle_rank)
