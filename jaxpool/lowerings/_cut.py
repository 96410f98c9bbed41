"""Cutting the cells of one tap out of an array, and combining them: shared by the lowerings."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._reductions import Reduction
from .._window import Axis, Geometry, cdiv

T = TypeVar("T")

_SHORT_RUN = 64
"""Windows of one value that are written out."""


def cut(x: Array, position: int, start: int, count: int, stride: int) -> Array:
    """Return ``count`` entries of an axis from ``start`` on, ``stride`` apart."""
    return lax.slice_in_dim(x, start, start + (count - 1) * stride + 1, stride, position)


def pad(x: Array, position: int, low: int, high: int, value: np.ndarray) -> Array:
    """Return ``x`` with ``low`` and ``high`` entries of ``value`` added to an axis."""
    config = [(0, 0, 0)] * x.ndim
    config[position] = (low, high, 0)
    return lax.pad(x, value, config)


def padding_of(axis: Axis) -> tuple[int, int]:
    """Cells to add before and after an axis so that every window lies inside."""
    return axis.pad_low, max(0, axis.reach)


def column(values: Any, position: int, rank: int) -> np.ndarray:
    """One value per entry of an axis, in the shape of an array of ``rank`` axes."""
    shape = [1] * rank
    shape[position] = -1
    return np.reshape(values, shape)


def per_window(runs: Sequence[tuple[int, int]], position: int, rank: int) -> Array:
    """One int32 for each window of an axis, from runs of (windows, value).

    A long run is made where it is used, not a constant of the program; so is one of symbolic
    length, which cannot be written out.
    """
    pieces: list[Array] = []
    for short, group in itertools.groupby(runs, _is_short):
        if short:
            each = [value for windows, value in group for _ in range(windows)]
            pieces.append(jnp.asarray(column(np.array(each, np.int32), position, rank)))
            continue
        for windows, value in group:
            shape = [1] * rank
            shape[position] = windows
            pieces.append(jnp.full(shape, value, jnp.int32))
    return lax.concatenate(pieces, rank + position) if len(pieces) > 1 else pieces[0]


def cells_per_window(geometry: Geometry, include_pad: bool) -> Any:
    """How many cells each window has, with or without those of padding; an int if all have as many.

    The outer product of one vector of counts per axis, a factor that is constant an int.
    """
    product: Any = 1
    rank = -min(geometry.positions)
    for axis, position in zip(geometry.axes, geometry.positions, strict=True):
        runs = axis.count_runs(include_pad)
        if len({count for _, count in runs}) == 1:
            product = product * runs[0][1]
        else:
            product = product * per_window(runs, position, rank)
    return product


def first_taps(geometry: Geometry, rank: int) -> Array:
    """The first tap of each window that reads a real cell, row-major, in int32."""
    taps = jnp.zeros((1,) * rank, jnp.int32)
    for axis, position in zip(geometry.axes, geometry.positions, strict=True):
        lows = [(run.last - run.first, run.low) for run in axis.segments()]
        taps = taps * axis.kernel + per_window(lows, position, rank)
    return taps


def _is_short(run: tuple[int, int]) -> bool:
    return isinstance(run[0], int) and run[0] <= _SHORT_RUN


def numbers(length: int, position: int, rank: int, dtype: Any) -> Array:
    """The number of each entry of an axis, in the shape of an array of ``rank`` axes.

    Made where it is used: a constant of the program would be kept as a residual of its derivative.
    """
    shape = [1] * rank
    shape[position] = length
    return lax.broadcasted_iota(dtype, shape, position % rank)


def tree(combine: Callable[[T, T], T], parts: Sequence[T]) -> T:
    """Combine neighbours in a balanced tree, in order: a short dependency chain."""
    while len(parts) > 1:
        pairs = [combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + list(parts[len(pairs) * 2 :])
    return parts[0]


def levels(kernel: int, radix: int) -> list[tuple[int, list[int]]]:
    """How to build a window from overlapping smaller ones, largest first.

    Returns:
      (window, shifts) of each level: copies of the next smaller window at these taps cover the
      window, and the last may overlap its neighbour; the smallest window is one tap. A tap belongs
      to the first copy that holds it.
    """
    found = []
    while kernel > 1:
        inner = 1
        while inner * radix < kernel:
            inner *= radix
        inner = min(inner, cdiv(kernel, radix)) if radix > 2 else inner
        found.append((kernel, [*range(0, kernel - inner, inner), kernel - inner]))
        kernel = inner
    return found


# --- selections: the best value of a window and the number of the tap that holds it ---------------

Pick = tuple[Array, Array]
"""Values and, for each, the tap it came from; ``empty`` of the taps' dtype where there is none."""


def tap_dtype(geometry: Geometry) -> np.dtype:
    """uint8 while every tap and the mark of an empty window fit, else int32."""
    return np.dtype(np.uint8 if geometry.taps <= 255 else np.int32)


def empty(dtype: np.dtype) -> np.ndarray:
    """The mark of a window without a real cell: 255 in uint8, -1 in int32."""
    return np.asarray(-1).astype(dtype)


def first_pick(x: Array, valid: Array | None, dtype: np.dtype) -> Pick:
    """Every cell as a window of one tap; cells that are not ``valid`` are empty."""
    taps = jnp.zeros(x.shape, dtype)
    return (x, taps) if valid is None else (x, jnp.where(valid, taps, empty(dtype)))


def numbered(pick: Pick, tap: int, sparse: bool) -> Pick:
    """Return ``pick`` with ``tap`` added to its tap numbers; empty picks stay empty."""
    values, taps = pick
    moved = taps + np.asarray(tap, taps.dtype)
    return values, jnp.where(taps == empty(taps.dtype), taps, moved) if sparse else moved


def better(reduction: Reduction, sparse: bool) -> Callable[[Pick, Pick], Pick]:
    """Return the function that prefers the later of two picks only if it is strictly better.

    Args:
      sparse: whether picks may be empty; an empty pick never wins, not even over the identity.
    """
    assert reduction.beats is not None

    def combine(a: Pick, b: Pick) -> Pick:
        take = reduction.beats(b[0], a[0])  # pyright: ignore[reportOptionalCall]
        if sparse:
            mark = empty(a[1].dtype)
            take = (b[1] != mark) & (take | (a[1] == mark))
        return jnp.where(take, b[0], a[0]), jnp.where(take, b[1], a[1])

    return combine


def mark_empty(pick: Pick, geometry: Geometry) -> Pick:
    """Put the mark of an empty window where geometry leaves a window without a real cell."""
    values, taps = pick
    for axis, position in zip(geometry.axes, geometry.positions, strict=True):
        if axis.has_empty_window:
            cells = per_window(axis.count_runs(include_pad=False), position, taps.ndim)
            taps = jnp.where(cells == 0, empty(taps.dtype), taps)
    return values, taps
