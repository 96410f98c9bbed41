"""Reduce small windows by slices, one slice for each window offset.

``y[o] = combine over t of x[o * stride - pad_low + t * dilation]``. The elements at one offset of
all windows are a strided slice, and a balanced tree combines the slices. Windows at the ends of an
axis contain fewer elements. The windows that read the same offsets form a segment, each segment has
its own tree, and ``concatenate`` joins the results, so that an array is rarely padded, see
:mod:`.padded_slices`. XLA fuses slices, tree and concatenation into one vectorised loop.

Reducing all axes jointly reads every element of a window. Reducing one axis after another reads
fewer elements but stores the intermediate results, which pays for larger windows and if the
contiguous axis is pooled. Along padded contiguous rows, :mod:`.reduce_window` computes sums, and
extremes of arrays that are stored anyway. Values and argmax come from one variadic reduction if
there is nothing to concatenate, and for large arrays.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis, Segment
from ..._geometry.layout import with_lengths
from ..._geometry.resolve import Geometry
from ..._xla.materialize import materialize
from ...reductions import Reduction, identity_array, identity_like, mask_with_identity
from .. import tuning
from ..parts.argreduce import (
    ValueOffset,
    add_offset,
    initial_pair,
    offset_dtype,
    reduce_pairs,
    reduce_pairs_variadic,
    sentinel,
    set_sentinels,
)
from ..parts.axis_slicing import concatenate, slice_axis, with_padding
from ..parts.float_order import (
    argreduce_in_integers,
    is_16_bit_extreme,
    is_float_extreme,
    reduce_in_integers,
    reduce_slices,
)
from ..parts.offset_slices import gather as gather
from ..parts.offset_slices import scatter as scatter
from ..request import Request, has_rule
from . import padded_slices, reduce_window

PlacedAxis = tuple[Axis, int]
PairReducer = Callable[[Sequence[ValueOffset], Reduction, bool], ValueOffset]
Piece = tuple[int, Any]
"""An offset, row-major over the axes of a group, and its elements: an array or a pytree."""


def unsupported_reason(request: Request) -> str | None:
    """Return why slices do not support ``request``, or None."""
    geometry, operation = request.geometry, request.operation
    if operation == "reduce":
        pairs = zip(geometry.kernel, _max_kernels(request), strict=True)
        return next((_too_long(kernel, n) for kernel, n in pairs if kernel > n), None)
    if operation == "argreduce":
        longest, limit = max(geometry.kernel), _max_argmax_kernel(request)
        return _too_long(longest, limit) if longest > limit else None
    if operation == "scatter" and geometry.is_non_overlapping:
        return "windows do not overlap; tiles are broadcast instead"
    any_offset = operation == "gather" or request.any_offset
    limit = tuning.MAX_SLICED_OFFSETS if any_offset else tuning.MAX_SCATTERED
    if geometry.taps > limit:
        return f"windows of {geometry.taps} elements; slices are faster up to {limit}"
    is_interleaved = -1 in geometry.positions and geometry.is_strided
    if operation == "scatter" and is_interleaved and not request.any_offset:
        return "interleaving phases along the contiguous axis is slow"
    return None


def _too_long(kernel: int, limit: int) -> str:
    return f"{kernel} elements on one axis; slices are faster up to {limit}"


def _max_kernels(request: Request) -> list[int]:
    """Return, for each axis, the longest kernel that is reduced by slices."""
    geometry, reduction, limit = request.geometry, request.reduction, tuning.LONGEST_SLICED
    assert reduction is not None, "a request for values has a reduction"
    if request.platform != "cpu":
        return [limit] * len(geometry.axes)
    if request.windows_adjoin:
        adds_floats = reduction.combine is lax.add and request.dtype == np.float32
        replaces_tiles = adds_floats and request.tiles_need_copy
        longest = (tuning.LONGEST_PASS, tuning.LONGEST_PASS_ROWS) if replaces_tiles else [limit] * 2
        return [longest[position == -1] for position in geometry.positions]
    is_sum, max_kernels = not reduction.idempotent, []
    for axis, position in geometry.placed:
        max_strided = min(limit * axis.stride, tuning.LONGEST_SLICED_STRIDED)
        max_in_sum = tuning.LONGEST_SLICED_SUM if is_sum and position != -1 else 0
        max_kernels.append(max(max_strided, max_in_sum))
    return max_kernels


def _max_argmax_kernel(request: Request) -> int:
    """Return the longest kernel whose argmax is found by slices."""
    geometry = request.geometry
    if request.platform != "cpu" or not geometry.is_non_overlapping:
        return tuning.LONGEST_SLICED
    if -1 not in geometry.positions:
        return tuning.LONGEST_SLICED_APART
    has_few_rows = geometry.taps < tuning.MIN_ROWS * geometry.kernel[-1]
    return tuning.LONGEST_SLICED_ROWS if has_few_rows else tuning.LONGEST_SLICED


def reduce(x: Any, geometry: Geometry, reduction: Reduction) -> Any:
    """Return the reduction of every window."""
    if is_16_bit_extreme(reduction, x):
        return reduce_in_integers(lambda k, extreme: reduce(k, geometry, extreme), x, reduction)
    if reduction.combine is lax.add:
        if padded_slices.saves_loops(x, geometry):
            return padded_slices.window_sum(x, geometry)
        if _has_short_rows(x, geometry):
            return reduce_window.reduce(x, geometry, reduction)
    first, *others = sorted(_axis_groups(geometry), key=functools.partial(_sort_key, reduction))
    x = _reduce_group(x, first, reduction)
    is_long = geometry.is_non_overlapping and max(geometry.kernel) > tuning.LONGEST_SLICED
    for axes in others:
        overlap = any(axis.stride < axis.span for axis, _ in axes)
        if (overlap or is_long) and has_rule(reduction):  # JAX differentiates others through this
            x = materialize(x)  # otherwise every window recomputes it, or the loop is scalar
        x = _reduce_group(x, axes, reduction, is_stored=overlap)
    if reduction.extremum is not None and geometry.taps > tuning.FEW_ELEMENTS and not others:
        x = materialize(x)  # otherwise a pool of the result recomputes it for each slice
    return x


def _sort_key(reduction: Reduction, axes: list[PlacedAxis]) -> tuple[int, bool]:
    """Return the sort key of a group of axes: the group with the largest strides comes first.

    Its result is the smallest. Among equals the contiguous axis comes last, except for a sum by
    :mod:`.reduce_window`, which comes before sums that are fused with their consumers.
    """
    by_reduce_window = reduction.combine is lax.add and reduce_window.is_faster(*axes[0])
    comes_last = axes[0][1] == -1 and not by_reduce_window
    return -math.prod(axis.stride for axis, _ in axes), comes_last


def _has_short_rows(x: Any, geometry: Geometry) -> bool:
    """Return whether slices fill no vectors: strided windows along one axis, with short rows."""
    pooled = [(axis, position) for axis, position in geometry.placed if axis.kernel > 1]
    if len(pooled) != 1:
        return False
    ((axis, position),) = pooled
    size = math.prod(x.shape[position % x.ndim + 1 :])
    if not isinstance(size, int) or not tuning.MIN_SHORT_ROW <= size <= tuning.MAX_SHORT_ROW:
        return False
    return axis.dilation == 1 < axis.stride < axis.kernel


def _axis_groups(geometry: Geometry) -> list[list[PlacedAxis]]:
    """Return groups of axes to reduce jointly, the last axes first, see :func:`_argreduce`.

    Neighbouring axes with few elements form a group; the contiguous axis is a group of its own.
    """
    groups: list[list[PlacedAxis]] = []
    closed = tuning.MAX_JOINT + 1
    taps = closed
    for axis, position in geometry.placed[::-1]:
        if taps * axis.kernel > tuning.MAX_JOINT:
            groups.append([])
            taps = 1
        groups[-1].insert(0, (axis, position))
        taps = closed if position == -1 else taps * axis.kernel
    return groups


def _reduce_group(
    x: Any, axes: Sequence[PlacedAxis], reduction: Reduction, is_stored: bool = False
) -> Any:
    """Return the reduction along ``axes``; ``is_stored`` says whether ``x`` is stored anyway."""
    identity = identity_like(reduction, x)
    (axis, position), *others = axes
    eligible = reduction.combine is lax.add or (is_stored and reduction.extremum is not None)
    if eligible and reduce_window.is_faster(axis, position):
        return reduce_window.reduce(x, Geometry((axis,), (position,)), reduction)
    if position == -1 and not others and _has_single_element_window(axis):
        padded_geometry, x = with_padding(x, Geometry((axis,), (position,)), identity)
        axes = padded_geometry.placed
    combine = lambda pieces: reduce_slices(reduction, [elements for _, elements in pieces])  # noqa: E731
    return _combine_segments([(0, x)], axes, combine, identity)


def _has_single_element_window(axis: Axis) -> bool:
    """Return whether a window at an end contains one element, a copy that XLA does not fuse."""
    single = any(segment.high - segment.low == 1 for segment in axis.segments())
    return single and axis.stride == 1 and axis.kernel > 1


def _combine_segments(
    pieces: list[Piece],
    axes: Sequence[PlacedAxis],
    combine: Callable[[list[Piece]], Any],
    identity: Any,
) -> Any:
    """Slice ``pieces`` at every offset of ``axes``, combine the slices, concatenate the segments.

    Args:
      pieces: offsets along the preceding axes and the elements there.
      axes: the axes that are not yet sliced.
      combine: maps the pieces of all offsets of a window to its result.
      identity: the result of a window without an element, one scalar for each array of a result.
    """
    if not axes:
        return combine(pieces)
    (axis, position), remaining_axes = axes[0], axes[1:]
    parts = []
    for segment in axis.segments():
        if segment.low == segment.high:
            parts.append(_constant_segment(pieces[0][1], segment, axes, identity))
            continue
        slices = [
            (outer * axis.kernel + offset, _slice_at(elements, position, axis, segment, offset))
            for outer, elements in pieces
            for offset in range(segment.low, segment.high)
        ]
        parts.append(_combine_segments(slices, remaining_axes, combine, identity))
    return jax.tree.map(lambda *arrays: concatenate(arrays, position), *parts)


def _slice_at(elements: Any, position: int, axis: Axis, segment: Segment, offset: int) -> Any:
    """Return the elements at one offset of the windows of a segment."""
    start = axis.start(segment.first) + offset * axis.dilation
    count = segment.last - segment.first
    return jax.tree.map(lambda x: slice_axis(x, position, start, count, axis.stride), elements)


def _constant_segment(like: Any, segment: Segment, axes: Sequence[PlacedAxis], values: Any) -> Any:
    """Return ``values`` as the results of the windows of a segment."""
    lengths = [segment.last - segment.first, *(axis.out for axis, _ in axes[1:])]
    positions = [position for _, position in axes]
    shape = with_lengths(jax.tree.leaves(like)[0].shape, positions, lengths)
    return jax.tree.map(lambda value: jnp.full(shape, value), values)


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the offset of its argmax, row-major."""
    if is_float_extreme(reduction, x) and padded_slices.argmax_saves_loops(x, geometry):
        return padded_slices.window_argmax(x, valid, geometry, reduction)
    x = mask_with_identity(x, valid, reduction)
    is_small, groups = geometry.taps <= tuning.FEW_ELEMENTS, _argreduce_groups(geometry)
    if is_16_bit_extreme(reduction, x):
        if not is_small:
            integers = functools.partial(_argreduce_integers, geometry=geometry)
            return argreduce_in_integers(integers, x, valid, reduction)
        x_float32 = x.astype(jnp.float32)
        _, offsets = _argreduce(x_float32, valid, geometry, reduction, variadic=False)
        return reduce(x, geometry, reduction), offsets
    values, offsets = _argreduce(x, valid, geometry, reduction)
    separate_loops = is_small or len(groups) == 1  # a loop without offsets is then faster
    if separate_loops and not _is_variadic(x, groups[-1]):
        values = reduce(x, geometry, reduction)
    return values, offsets


def _argreduce_groups(geometry: Geometry) -> list[list[PlacedAxis]]:
    """Return :func:`_axis_groups`, or one group for each axis if results are stored anyway."""
    groups = _axis_groups(geometry)
    return groups if len(groups) == 1 else [[placed] for placed in geometry.placed[::-1]]


def _argreduce_integers(keys: Array, extreme: Reduction, geometry: Geometry) -> ValueOffset:
    if len(_argreduce_groups(geometry)) > 1:  # two loops read the keys
        keys = materialize(keys)
    return _argreduce(keys, None, geometry, extreme)


def _argreduce(
    x: Array,
    valid: Array | None,
    geometry: Geometry,
    reduction: Reduction,
    variadic: bool = True,
) -> ValueOffset:
    """Return values and offsets: one variadic reduction where that pays, otherwise separate loops.

    The last axis is reduced first, which finds the first argmax of each row. The earlier axes then
    choose among rows, so ties go to the first element in row-major order.
    """
    may_be_empty, dtype = valid is not None, offset_dtype(geometry)
    pair: Any = initial_pair(x, valid, dtype) if may_be_empty else (x,)
    unit = 1
    identity = identity_array(reduction, x.dtype), sentinel(dtype)
    groups = _argreduce_groups(geometry)
    are_variadic = [variadic and _is_variadic(x, axes) for axes in groups]
    # Results that later windows have in common are stored, or each window would recompute them.
    is_stored = geometry.taps > (
        tuning.MAX_FUSED if geometry.is_non_overlapping else tuning.FEW_ELEMENTS
    )
    for axes, is_variadic in zip(groups, are_variadic, strict=True):
        last = axes is groups[-1]
        reducer = reduce_pairs_variadic if is_variadic and (is_stored or last) else reduce_pairs
        combine = functools.partial(
            _argreduce_pieces,
            unit=unit,
            dtype=dtype,
            reduction=reduction,
            may_be_empty=may_be_empty,
            reducer=reducer,
        )
        pair = _combine_segments([(0, pair)], axes, combine, identity)
        if are_variadic[-1] and not (is_variadic or last):
            pair = materialize(pair)  # else the variadic loop must concatenate
        unit *= math.prod(axis.kernel for axis, _ in axes)
    return set_sentinels(pair, geometry)


def _is_variadic(x: Array, axes: list[PlacedAxis]) -> bool:
    """Return whether a variadic reduction pays, although its loop cannot concatenate segments."""
    short = all(axis.kernel <= tuning.LONGEST_SLICED and position != -1 for axis, position in axes)
    if short and x.shape[-1] == 2:
        return False  # it would not be vectorised
    if all(len(axis.segments()) == 1 for axis, _ in axes):
        return True
    few_results = all(axis.stride > 1 and position != -1 for axis, position in axes)
    large = isinstance(x.size, int) and x.size * x.dtype.itemsize >= tuning.MIN_BYTES_OF_SEGMENTS
    return few_results and large


def _argreduce_pieces(
    pieces: list[Piece],
    unit: int,
    dtype: np.dtype,
    reduction: Reduction,
    may_be_empty: bool,
    reducer: PairReducer,
) -> ValueOffset:
    """Return the argmax of pieces; those of the first group are values only, all at one offset."""
    pairs = []
    for offset, (values, *offsets) in pieces:
        if offsets:
            pairs.append(add_offset((values, *offsets), offset * unit, may_be_empty))
        else:
            pairs.append((values, jnp.full(values.shape, offset, dtype)))
    return reducer(pairs, reduction, may_be_empty)
