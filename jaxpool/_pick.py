"""Selections: the best value of a window and the number of the tap that holds it."""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array

from ._counts import per_window
from ._cut import tree
from ._one_loop import tree_in_one_loop
from ._reductions import Reduction, identity_array
from ._window import Geometry

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


def best(picks: Sequence[Pick], reduction: Reduction, sparse: bool) -> Pick:
    """Return the best of the picks of every window, the first of equals.

    Args:
      sparse: whether picks may be empty; an empty pick never wins, not even over the identity.
    """
    return tree(_better(reduction, sparse), picks)


def best_in_one_loop(picks: Sequence[Pick], reduction: Reduction, sparse: bool) -> Pick:
    """:func:`best`, on CPU finished by one loop."""
    none = _empty_pick(picks[0], reduction)
    return tree_in_one_loop(_better(reduction, sparse), picks, none, _by_number(reduction))


def first_best_in_one_loop(picks: Sequence[Pick], reduction: Reduction) -> Pick:
    """The best of picks in any order, of equals the one of the smallest number; likewise."""
    return tree_in_one_loop(_by_number(reduction), picks, _empty_pick(picks[0], reduction))


def _empty_pick(like: Pick, reduction: Reduction) -> tuple[np.ndarray, np.ndarray]:
    values, taps = like
    return identity_array(reduction, values.dtype), empty(taps.dtype)


def _by_number(reduction: Reduction) -> Callable[[Pick, Pick], Pick]:
    """Return the function that prefers, of two equal picks, the one with the smaller number.

    Numbers are read as unsigned, so that the mark of an empty window is the largest: an empty pick,
    whose value is the identity, beats none.
    """
    beats = reduction.beats
    assert beats is not None

    def combine(a: Pick, b: Pick) -> Pick:
        number, other = (tap.astype(f"uint{8 * tap.dtype.itemsize}") for tap in (a[1], b[1]))
        take = jnp.where(number < other, beats(b[0], a[0]), ~beats(a[0], b[0]))
        return jnp.where(take, b[0], a[0]), jnp.where(take, b[1], a[1])

    return combine


def _better(reduction: Reduction, sparse: bool) -> Callable[[Pick, Pick], Pick]:
    """Return the function that prefers the later of two picks only if it is strictly better."""
    beats = reduction.beats
    assert beats is not None

    def combine(a: Pick, b: Pick) -> Pick:
        take = beats(b[0], a[0])
        if sparse:
            mark = empty(a[1].dtype)
            take = (b[1] != mark) & (take | (a[1] == mark))
        return jnp.where(take, b[0], a[0]), jnp.where(take, b[1], a[1])

    return combine


def mark_empty(pick: Pick, geometry: Geometry) -> Pick:
    """Put the mark of an empty window where geometry leaves a window without a real cell."""
    values, taps = pick
    for axis, position in geometry.placed:
        if axis.has_empty_window:
            cells = per_window(axis.count_runs(include_pad=False), position, taps.ndim)
            taps = jnp.where(cells == 0, empty(taps.dtype), taps)
    return values, taps
