"""Windows as slices, one for every offset: small windows.

``y[o] = combine over t of x[o * stride - pad_low + t * dilation]``. The elements at one offset of
all windows are a strided slice, and a balanced tree combines the slices. Windows at the ends of an
axis hold fewer elements: the windows that read the same offsets form a segment with a tree of its
own, and ``concatenate`` makes one array of the segments. So an array is hardly ever padded, and
never for an argmax. XLA fuses slices, tree and concatenation into one vectorised loop.

All axes at once read every element of a window. One axis after the other reads fewer, but stores
what lies between, which pays for larger windows and where the contiguous axis is pooled. Padded
rows are left to :mod:`.reduce_window`: sums, and extremes of what is stored anyway. Values and
argmax come from one variadic reduction where there is nothing to concatenate, and in large arrays.
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
from ..._geometry.resolve import Geometry
from ..._xla.materialize import materialize
from ...reductions import Reduction, identity_array, identity_like
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
from ..parts.axis_slicing import concatenate, lax_padding, pad, slice_axis
from ..parts.float_order import (
    argreduce_in_integers,
    is_narrow_extreme,
    reduce_in_integers,
    reduce_slices,
)
from ..parts.offset_slices import gather as gather
from ..parts.offset_slices import scatter as scatter
from ..request import Request, has_rule
from . import padded_slices, reduce_window

PlacedAxis = tuple[Axis, int]
Search = Callable[[Sequence[ValueOffset], Reduction, bool], ValueOffset]
Piece = tuple[int, Any]
"""An offset, row-major over the axes of a group, and its elements: an array or a pytree."""


def unsupported_reason(request: Request) -> str | None:
    """Return why slices do not compute what is asked, or None."""
    geometry, verb = request.geometry, request.verb
    if verb == "reduce":
        most = _longest_kernels(request)
        long = [(axis.kernel, n) for axis, n in zip(geometry.axes, most, strict=True)]
        return next((_too_long(kernel, n) for kernel, n in long if kernel > n), None)
    if verb == "argreduce":
        longest, most = max(geometry.kernel), _longest_kernel_of_argmax(request)
        return _too_long(longest, most) if longest > most else None
    if verb == "scatter" and geometry.is_non_overlapping:
        return "windows do not overlap: tiles broadcast them"
    every = verb == "gather" or request.any_offset
    most = tuning.MOST_SLICED_OFFSETS if every else tuning.MOST_SCATTERED
    if geometry.taps > most:
        return f"windows of {geometry.taps} elements; slices pay up to {most}"
    strided = geometry.is_strided
    if verb == "scatter" and -1 in geometry.positions and strided and not request.any_offset:
        return "interleaving phases along the contiguous axis is slow"
    return None


def _too_long(kernel: int, most: int) -> str:
    return f"{kernel} elements on one axis; slices pay up to {most}"


def _longest_kernels(request: Request) -> list[int]:
    """Elements on each axis up to which windows are reduced by slices."""
    geometry, reduction, most = request.geometry, request.reduction, tuning.LONGEST_SLICED
    if request.platform != "cpu" or all(map(_lies_end_to_end, geometry.axes)):
        return [most] * len(geometry.axes)
    is_sum = reduction is not None and not reduction.idempotent
    found = []
    for axis, position in geometry.placed:
        longest = min(most * axis.stride, tuning.LONGEST_SLICED_STRIDED)
        in_sum = tuning.LONGEST_SLICED_SUM if is_sum and position != -1 else 0
        found.append(max(longest, in_sum))
    return found


def _lies_end_to_end(axis: Axis) -> bool:
    """Whether windows lie end to end, or are one: :mod:`.tiled` then reads each element once."""
    return axis.out == 1 or axis.stride == axis.span


def _longest_kernel_of_argmax(request: Request) -> int:
    geometry = request.geometry
    if request.platform != "cpu" or not geometry.is_non_overlapping:
        return tuning.LONGEST_SLICED
    if -1 not in geometry.positions:
        return tuning.LONGEST_SLICED_APART
    low = geometry.taps < tuning.LEAST_ROWS * geometry.kernel[-1]
    return tuning.LONGEST_SLICED_ROWS if low else tuning.LONGEST_SLICED


def reduce(x: Any, geometry: Geometry, reduction: Reduction) -> Any:
    """Return the reduction of every window."""
    if is_narrow_extreme(reduction, x):
        return reduce_in_integers(lambda k, order: reduce(k, geometry, order), x, reduction)
    if padded_slices.saves_loops(x, geometry, reduction):
        return padded_slices.window_sum(x, geometry)
    if _is_narrow_sum(x, geometry, reduction):
        return reduce_window.reduce(x, geometry, reduction)
    first, *others = sorted(_groups(geometry), key=functools.partial(_order, reduction))
    x = _reduce_group(x, first, reduction)
    for axes in others:
        shared = any(axis.stride < axis.span for axis, _ in axes)
        if shared and has_rule(reduction):  # a combine of one's own is differentiated as it is
            (x,) = materialize(x)  # or every window that reads an element would compute it anew
        x = _reduce_group(x, axes, reduction, is_stored=shared)
    if reduction.extremum is not None and geometry.taps > tuning.FEW_ELEMENTS and not others:
        (x,) = materialize(x)  # or a pooling of the result computes it anew for each slice
    return x


def _order(reduction: Reduction, axes: list[PlacedAxis]) -> tuple[int, bool]:
    """A key for sorting groups: what leaves least comes first, the contiguous axis last of equals.

    But sums by ``lax.reduce_window`` come before those that are fused with what reads them.
    """
    in_rows = reduction.combine is lax.add and reduce_window.is_quicker(*axes[0])
    last = axes[0][1] == -1 and not in_rows
    return -math.prod(axis.stride for axis, _ in axes), last


def _is_narrow_sum(x: Any, geometry: Geometry, reduction: Reduction) -> bool:
    """Whether slices fill no vectors: strided sums along one axis, of rows of few elements."""
    long = [(axis, position) for axis, position in geometry.placed if axis.kernel > 1]
    if reduction.combine is not lax.add or len(long) != 1:
        return False
    ((axis, position),) = long
    row = math.prod(x.shape[position % x.ndim + 1 :])
    if not isinstance(row, int) or not tuning.LEAST_NARROW_ROW <= row <= tuning.MOST_NARROW_ROW:
        return False
    return axis.dilation == 1 < axis.stride < axis.kernel


def _groups(geometry: Geometry) -> list[list[PlacedAxis]]:
    """Axes to take at once: neighbours of few elements, the contiguous one alone; last first.

    An argmax needs them in this order, see :func:`_argreduce`.
    """
    groups: list[list[PlacedAxis]] = []
    full = tuning.MOST_JOINT + 1
    elements = full
    for axis, position in geometry.placed[::-1]:
        if elements * axis.kernel > tuning.MOST_JOINT:
            groups.append([])
            elements = 1
        groups[-1].insert(0, (axis, position))
        elements = full if position == -1 else elements * axis.kernel
    return groups


def _reduce_group(
    x: Any, axes: list[PlacedAxis], reduction: Reduction, is_stored: bool = False
) -> Any:
    """The reduction of windows along some axes; ``is_stored``: whether ``x`` is stored anyway."""
    identity = identity_like(reduction, x)
    (axis, position), *others = axes
    in_rows = reduction.combine is lax.add or (is_stored and reduction.extremum is not None)
    if in_rows and reduce_window.is_quicker(axis, position):
        return reduce_window.reduce(x, Geometry((axis,), (position,)), reduction)
    if position == -1 and not others and _has_single_slice(axis):
        x, axes = _padded(x, axis, identity)
    leaf = lambda pieces: reduce_slices(reduction, [elements for _, elements in pieces])  # noqa: E731
    return _windows([(0, x)], axes, leaf, identity)


def _has_single_slice(axis: Axis) -> bool:
    """Whether windows at an end hold one element each, a copy that XLA does not fuse."""
    single = any(run.high - run.low == 1 for run in axis.segments())
    return single and axis.stride == 1 and axis.kernel > 1


def _padded(x: Any, axis: Axis, identity: Any) -> tuple[Any, list[PlacedAxis]]:
    low, high = lax_padding(axis)
    size = axis.size + low + high
    whole = Axis(size, axis.kernel, axis.stride, axis.dilation, 0, 0, 0, axis.out)
    return pad(x, -1, low, high, identity), [(whole, -1)]


def _windows(
    pieces: list[Piece], axes: list[PlacedAxis], leaf: Callable[[list[Piece]], Any], identity: Any
) -> Any:
    """Slice every offset of ``axes`` out of the pieces, and concatenate the segments.

    Args:
      pieces: offsets and elements of the axes before.
      axes: the axes still to slice.
      leaf: from the pieces of a window to its result.
      identity: the result of a window without an element, a scalar for each array of a leaf.
    """
    if not axes:
        return leaf(pieces)
    (axis, position), rest = axes[0], axes[1:]
    parts = []
    for segment in axis.segments():
        if segment.low == segment.high:
            parts.append(_constant(pieces[0][1], segment, axes, identity))
            continue
        slices = [
            (outer * axis.kernel + offset, _at(elements, position, axis, segment, offset))
            for outer, elements in pieces
            for offset in range(segment.low, segment.high)
        ]
        parts.append(_windows(slices, rest, leaf, identity))
    return jax.tree.map(lambda *arrays: concatenate(arrays, position), *parts)


def _at(elements: Any, position: int, axis: Axis, segment: Segment, offset: int) -> Any:
    start = axis.start(segment.first) + offset * axis.dilation
    count = segment.last - segment.first
    return jax.tree.map(lambda x: slice_axis(x, position, start, count, axis.stride), elements)


def _constant(like: Any, segment: Segment, axes: list[PlacedAxis], values: Any) -> Any:
    shape = list(jax.tree.leaves(like)[0].shape)
    for axis, position in axes:
        shape[position] = axis.out
    shape[axes[0][1]] = segment.last - segment.first
    return jax.tree.map(lambda value: jnp.full(shape, value), values)


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the offset of its argmax, row-major."""
    few, groups = geometry.taps <= tuning.FEW_ELEMENTS, _argreduce_groups(geometry)
    if is_narrow_extreme(reduction, x):
        if not few:
            integers = functools.partial(_argreduce_integers, geometry=geometry)
            return argreduce_in_integers(integers, x, valid, reduction)
        wide = x.astype(jnp.float32)
        _, offsets = _argreduce(wide, valid, geometry, reduction, variadic=False)
        return reduce(x, geometry, reduction), offsets
    values, offsets = _argreduce(x, valid, geometry, reduction)
    alone = few or len(groups) == 1  # a loop that is not asked for offsets is quicker then
    if alone and not _is_variadic(x, groups[-1]):
        values = reduce(x, geometry, reduction)
    return values, offsets


def _argreduce_groups(geometry: Geometry) -> list[list[PlacedAxis]]:
    """:func:`_groups`, but where some result is stored anyway, that of every axis."""
    groups = _groups(geometry)
    return groups if len(groups) == 1 else [[placed] for placed in geometry.placed[::-1]]


def _argreduce_integers(keys: Array, order: Reduction, geometry: Geometry) -> ValueOffset:
    if len(_argreduce_groups(geometry)) > 1:  # they are read by two loops
        (keys,) = materialize(keys)
    return _argreduce(keys, None, geometry, order)


def _argreduce(
    x: Array,
    valid: Array | None,
    geometry: Geometry,
    reduction: Reduction,
    variadic: bool = True,
) -> ValueOffset:
    """Values and offsets, by one ``variadic`` reduction where that pays, else by a loop each.

    The last axis goes first: its argmax is the first of each row, and the earlier axes then choose
    among rows, which is the row-major order of ties.
    """
    may_be_empty, dtype = valid is not None, offset_dtype(geometry)
    pair: Any = initial_pair(x, valid, dtype) if may_be_empty else (x,)
    inner = 1
    identity = identity_array(reduction, x.dtype), sentinel(dtype)
    groups = _argreduce_groups(geometry)
    one_loop = [variadic and _is_variadic(x, axes) for axes in groups]
    # What later windows share is stored, or each of them would compute it anew.
    stored = geometry.taps > (
        tuning.MOST_FUSED if geometry.is_non_overlapping else tuning.FEW_ELEMENTS
    )
    for axes, once in zip(groups, one_loop, strict=True):
        last = axes is groups[-1]
        search = reduce_pairs_variadic if once and (stored or last) else reduce_pairs
        leaf = functools.partial(
            _combined,
            unit=inner,
            dtype=dtype,
            reduction=reduction,
            may_be_empty=may_be_empty,
            search=search,
        )
        pair = _windows([(0, pair)], axes, leaf, identity)
        if one_loop[-1] and not (once or last):
            values, offsets = materialize(*pair)  # or the one loop would have to concatenate
            pair = values, offsets
        inner *= math.prod(axis.kernel for axis, _ in axes)
    return set_sentinels(pair, geometry)


def _is_variadic(x: Array, axes: list[PlacedAxis]) -> bool:
    """Whether a variadic reduction pays, a loop that cannot also concatenate segments."""
    short = all(axis.kernel <= tuning.LONGEST_SLICED and position != -1 for axis, position in axes)
    if short and x.shape[-1] == 2:
        return False  # it would not be vectorised
    if all(len(axis.segments()) == 1 for axis, _ in axes):
        return True
    few_results = all(axis.stride > 1 and position != -1 for axis, position in axes)
    large = isinstance(x.size, int) and x.size * x.dtype.itemsize >= tuning.LEAST_BYTES_OF_SEGMENTS
    return few_results and large


def _combined(
    pieces: list[Piece],
    unit: int,
    dtype: np.dtype,
    reduction: Reduction,
    may_be_empty: bool,
    search: Search,
) -> ValueOffset:
    """The argmax of some axes; of the first ones a piece is values alone, all at its offset."""
    pairs = []
    for number, (values, *offsets) in pieces:
        if offsets:
            pairs.append(add_offset((values, *offsets), number * unit, may_be_empty))
        else:
            pairs.append((values, jnp.full(values.shape, number, dtype)))
    return search(pairs, reduction, may_be_empty)
