"""Unrolled strided slices: small windows.

Along one axis the windows that read the same taps form a segment; a segment is a tree of strided
slices, and the segments are joined by ``concatenate``. Padding is hardly ever made, and never in a
selection, so it cannot win. XLA fuses the slices, the tree and the join into one vectorised loop.
All axes at once read every tap; one axis after the other reads fewer, but stores what lies between,
which pays for larger windows and where the contiguous axis is pooled. Winners and their taps come
from one loop (:mod:`jaxpool._one_loop`) where there is nothing to join, and in large arrays.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._cut import cut, join, pad, padding_of
from .._fence import computed_once
from .._pick import (
    Pick,
    best,
    best_in_one_loop,
    empty,
    first_pick,
    mark_empty,
    numbered,
    tap_dtype,
)
from .._reductions import Reduction, identity_array
from .._window import Axis, Geometry, Segment
from ._order import in_integers, is_narrow_extreme, pick_in_order, reduce_cells

MAX_KERNEL = 6
MAX_JOINT_TAPS = 9

MAX_KERNEL_APART, MAX_KERNEL_APART_IN_ROWS = 32, 16
"""Taps on an axis up to which slices pay for winners of windows that share no cell: where the
contiguous axis is not pooled, and where it is."""

_LOWEST_IN_ROWS = 4
"""Taps on the other axes from which windows along the contiguous one are quicker by whole rows."""

_MOST_FUSED = 16
"""Taps of windows that share no cell up to which winners of a group are not stored for the next."""

_FEW_TAPS = 4
"""Taps up to which the winners of 16-bit floats are looked for in float32, above that in integers;
also up to which values by themselves are quicker than those that come with the taps, and up to
which a result may be taken anew by what reads it."""

_FEWEST_IN_SEGMENTS = 2**24
"""Bytes of an array from which winners and their taps come from one loop for each segment, if
strides are longer than 1 and the contiguous axis is not pooled: to read the array once then saves
more than it costs to join the few results."""

PlacedAxis = tuple[Axis, int]
Search = Callable[[Sequence[Pick], Reduction, bool], Pick]
Piece = tuple[int, Any]
"""The number of a tap, row-major over the axes of a group, and its cells: an array or a pick."""


def why_not(
    geometry: Geometry, reduction: Reduction, dtype: object, winners: bool = False
) -> str | None:
    """Return why this lowering declines, or None."""
    longest = max(geometry.kernel)
    most = _max_kernel(geometry) if winners else MAX_KERNEL
    if longest > most:
        return f"{longest} taps on one axis; slices pay up to {most}"
    return None


def _max_kernel(geometry: Geometry) -> int:
    if not geometry.is_apart:
        return MAX_KERNEL
    if -1 not in geometry.positions:
        return MAX_KERNEL_APART
    low = geometry.taps < _LOWEST_IN_ROWS * geometry.kernel[-1]
    return MAX_KERNEL_APART_IN_ROWS if low else MAX_KERNEL


def run(x: Array, geometry: Geometry, reduction: Reduction) -> Array:
    """Return the reduction of every window."""
    if is_narrow_extreme(reduction, x.dtype):
        return in_integers(lambda k, order: run(k, geometry, order), x, reduction)
    groups = _groups(geometry)
    for axes in groups:
        x = _reduce_group(x, axes, reduction)
    if reduction.wins is not None and geometry.taps > _FEW_TAPS and len(groups) == 1:
        (x,) = computed_once(x)  # or a pooling of the result takes every window anew for each tap
    return x


def _groups(geometry: Geometry) -> list[list[PlacedAxis]]:
    """Axes to take at once: neighbours of few taps together, the contiguous one alone; last first.

    A selection needs them in this order, see :func:`_select`.
    """
    groups: list[list[PlacedAxis]] = []
    full = MAX_JOINT_TAPS + 1
    taps = full
    for axis, position in geometry.placed[::-1]:
        if taps * axis.kernel > MAX_JOINT_TAPS:
            groups.append([])
            taps = 1
        groups[-1].insert(0, (axis, position))
        taps = full if position == -1 else taps * axis.kernel
    return groups


def _reduce_group(x: Array, axes: list[PlacedAxis], reduction: Reduction) -> Array:
    blank = identity_array(reduction, x.dtype)
    (axis, position), *others = axes
    if position == -1 and not others and _has_bare_edge(axis):
        x, axes = _padded(x, axis, blank)
    leaf = lambda pieces: reduce_cells(reduction, [cells for _, cells in pieces])  # noqa: E731
    return _windows([(0, x)], axes, leaf, blank)


def _has_bare_edge(axis: Axis) -> bool:
    """Whether windows at an end of the axis are copies of one cell, which XLA does not fuse."""
    bare = any(run.high - run.low == 1 for run in axis.segments())
    return bare and axis.stride == 1 and axis.kernel > 1


def _padded(x: Array, axis: Axis, blank: Any) -> tuple[Array, list[PlacedAxis]]:
    low, high = padding_of(axis)
    size = axis.size + low + high
    whole = Axis(size, axis.kernel, axis.stride, axis.dilation, 0, 0, 0, axis.out)
    return pad(x, -1, low, high, blank), [(whole, -1)]


def _windows(
    pieces: list[Piece], axes: list[PlacedAxis], leaf: Callable[[list[Piece]], Any], blank: Any
) -> Any:
    """Cut every tap of ``axes`` out of the pieces, segment by segment, and join the leaves.

    Args:
      pieces: tap numbers and cells of the axes before.
      axes: the axes still to cut.
      leaf: from the pieces of a window to its result.
      blank: the result of a window without a cell, a scalar for each array of a leaf.
    """
    if not axes:
        return leaf(pieces)
    (axis, position), rest = axes[0], axes[1:]
    parts = []
    for segment in axis.segments():
        if segment.low == segment.high:
            parts.append(_blank(pieces[0][1], segment, axes, blank))
            continue
        cuts = [
            (number * axis.kernel + tap, _tap(cells, position, axis, segment, tap))
            for number, cells in pieces
            for tap in range(segment.low, segment.high)
        ]
        parts.append(_windows(cuts, rest, leaf, blank))
    return jax.tree.map(lambda *arrays: join(arrays, position), *parts)


def _tap(cells: Any, position: int, axis: Axis, segment: Segment, tap: int) -> Any:
    start = axis.start(segment.first) + tap * axis.dilation
    count = segment.last - segment.first
    return jax.tree.map(lambda x: cut(x, position, start, count, axis.stride), cells)


def _blank(cells: Any, segment: Segment, axes: list[PlacedAxis], blank: Any) -> Any:
    shape = list(jax.tree.leaves(cells)[0].shape)
    for axis, position in axes:
        shape[position] = axis.out
    shape[axes[0][1]] = segment.last - segment.first
    return jax.tree.map(lambda value: jnp.full(shape, value), blank)


def select(x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction) -> Pick:
    """Return the winner of every window and the number of its tap, row-major in the window."""
    few, groups = geometry.taps <= _FEW_TAPS, _groups(geometry)
    if is_narrow_extreme(reduction, x.dtype):
        if not few:
            pick = functools.partial(_select_integers, geometry=geometry)
            return pick_in_order(pick, x, valid, reduction)
        wide = x.astype(jnp.float32)
        _, taps = _select(wide, valid, geometry, reduction, apart=True)
        return run(x, geometry, reduction), taps
    values, taps = _select(x, valid, geometry, reduction)
    alone = few or len(groups) == 1  # a loop that is not asked for taps is quicker then
    if alone and not _has_one_loop(x, groups[-1]):
        values = run(x, geometry, reduction)
    return values, taps


def _select_integers(keys: Array, order: Reduction, geometry: Geometry) -> Pick:
    if len(_groups(geometry)) > 1:  # they are read by two loops
        (keys,) = computed_once(keys)
    return _select(keys, None, geometry, order)


def _select(
    x: Array,
    valid: Array | None,
    geometry: Geometry,
    reduction: Reduction,
    apart: bool = False,
) -> Pick:
    """Winners and their taps, found together, or ``apart`` by a loop each.

    The last axis goes first: its winners are the first of each row, and the earlier axes then
    choose among rows, which is the row-major order of ties.
    """
    sparse, dtype = valid is not None, tap_dtype(geometry)
    pick, inner = first_pick(x, valid, dtype), 1
    blank = identity_array(reduction, x.dtype), np.asarray(empty(dtype))
    groups = _groups(geometry)
    one_loop = [not apart and _has_one_loop(x, axes) for axes in groups]
    # What later windows share is stored, or each of them would find it anew.
    stored = geometry.taps > (_MOST_FUSED if geometry.is_apart else _FEW_TAPS)
    for axes, once in zip(groups, one_loop, strict=True):
        last = axes is groups[-1]
        search = best_in_one_loop if once and (stored or last) else best
        find = functools.partial(_best, unit=inner, reduction=reduction, sparse=sparse)
        pick = _windows([(0, pick)], axes, functools.partial(find, search=search), blank)
        if one_loop[-1] and not (once or last):
            values, taps = computed_once(*pick)  # or the one loop would have to join them
            pick = values, taps
        inner *= math.prod(axis.kernel for axis, _ in axes)
    return mark_empty(pick, geometry)


def _has_one_loop(x: Array, axes: list[PlacedAxis]) -> bool:
    """Whether one loop finds winners and their taps; it cannot also join segments."""
    short = all(axis.kernel <= MAX_KERNEL and position != -1 for axis, position in axes)
    if short and x.shape[-1] == 2:
        return False  # it would not be vectorised
    if all(len(axis.segments()) == 1 for axis, _ in axes):
        return True
    few_results = all(axis.stride > 1 and position != -1 for axis, position in axes)
    large = isinstance(x.size, int) and x.size * x.dtype.itemsize >= _FEWEST_IN_SEGMENTS
    return few_results and large


def _best(
    pieces: list[Piece], unit: int, reduction: Reduction, sparse: bool, search: Search
) -> Pick:
    return search([numbered(pick, tap * unit, sparse) for tap, pick in pieces], reduction, sparse)
