"""Unrolled strided slices, one axis after the other, without any padding.

Along one axis the windows that read the same taps form a segment; a segment is a tree of strided
slices, and the segments are joined by ``concatenate``. Padding is never made, so it cannot win.
XLA fuses the slices, the tree and the join of all axes into one vectorised loop.
"""

import jax.numpy as jnp
from jax import Array, lax

from .._reductions import Reduction, identity_array
from .._window import Axis, Geometry, Segment
from ._cut import Pick, better, cut, empty, first_pick, mark_empty, numbered, tap_dtype, tree

MAX_KERNEL = 16


def why_not(geometry: Geometry, reduction: Reduction, dtype: object) -> str | None:
    """Return why this lowering declines, or None."""
    long = max(geometry.kernel)
    if long > MAX_KERNEL:
        return f"a window of {long} taps on one axis would be unrolled into too many slices"
    return None


def run(x: Array, geometry: Geometry, reduction: Reduction) -> Array:
    """Return the reduction of every window."""
    for axis, position in zip(geometry.axes, geometry.positions, strict=True):
        parts = [_reduce(x, position, axis, run, reduction) for run in axis.segments()]
        x = lax.concatenate(parts, x.ndim + position) if len(parts) > 1 else parts[0]
    return x


def _reduce(x: Array, position: int, axis: Axis, run: Segment, reduction: Reduction) -> Array:
    if run.low == run.high:
        shape = list(x.shape)
        shape[position] = run.last - run.first
        return jnp.full(shape, identity_array(reduction, x.dtype))
    return tree(reduction.combine, [_tap(x, position, axis, run, t) for t in _taps(run)])


def _taps(run: Segment) -> range:
    return range(run.low, run.high)


def _tap(x: Array, position: int, axis: Axis, run: Segment, tap: int) -> Array:
    start = axis.start(run.first) + tap * axis.dilation
    return cut(x, position, start, run.last - run.first, axis.stride)


def select(x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction) -> Pick:
    """Return the winner of every window and the number of its tap, row-major in the window.

    The last axis goes first: its winners are the first of each row, and the earlier axes then
    choose among rows, which is the row-major order of ties.
    """
    sparse = valid is not None
    pick, inner = first_pick(x, valid, tap_dtype(geometry)), 1
    for axis, position in zip(geometry.axes[::-1], geometry.positions[::-1], strict=True):
        parts = [
            _select(pick, position, axis, r, inner, reduction, sparse) for r in axis.segments()
        ]
        pick = _join(parts, x.ndim + position)
        inner *= axis.kernel
    return mark_empty(pick, geometry)


def _join(parts: list[Pick], dimension: int) -> Pick:
    if len(parts) == 1:
        return parts[0]
    values, taps = zip(*parts, strict=True)
    return lax.concatenate(values, dimension), lax.concatenate(taps, dimension)


def _select(
    pick: Pick,
    position: int,
    axis: Axis,
    run: Segment,
    inner: int,
    reduction: Reduction,
    sparse: bool,
) -> Pick:
    values, taps = pick
    if run.low == run.high:
        blank = _reduce(values, position, axis, run, reduction)
        return blank, jnp.full(blank.shape, empty(taps.dtype))
    cells = (
        (_tap(values, position, axis, run, t), _tap(taps, position, axis, run, t))
        for t in _taps(run)
    )
    picks = [numbered(p, t * inner, sparse) for t, p in zip(_taps(run), cells, strict=True)]
    return tree(better(reduction, sparse), picks)
