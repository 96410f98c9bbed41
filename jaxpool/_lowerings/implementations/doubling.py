"""Build windows from smaller windows, axis by axis: cost and program size grow with log K.

For an idempotent reduction, a window of K elements is the combination of a few overlapping smaller
windows, and so on down to one element (:func:`window_levels`). A sum must count each element once:
it adds the windows of the binary digits of K, which adjoin, and a window of ``2m`` elements is the
sum of two windows of ``m``. It is never a difference of running sums, which would cancel.

Source: van Herk 1992 and Gil and Werman 1993 for cost that does not grow with the window; here each
level is one vector operation over the full array.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry
from ...reductions import Reduction, identity_like, mask_with_identity
from .. import tuning
from ..parts import grid
from ..parts.argreduce import (
    ValueOffset,
    add_offset,
    identity_pair,
    initial_pair,
    offset_dtype,
    reduce_pairs,
    set_sentinels,
)
from ..parts.axis_slicing import (
    crop_after_windows,
    digit_parts,
    iota,
    is_padded,
    lax_padding,
    pad,
    shifted_slices,
    tree_reduce,
    window_levels,
)
from ..parts.float_order import (
    argreduce_in_integers,
    has_losing_key,
    reduce_in_integers_on_cpu,
)
from ..parts.offset_levels import gather as gather
from ..parts.offset_levels import scatter as scatter
from ..request import READ_ONCE, Request, has_rule
from . import reduce_window, tiled


def unsupported_reason(request: Request) -> str | None:
    """Return why doubling does not support ``request``, or None."""
    return request.unsplittable_reason


def slower_reason(request: Request) -> str | None:
    """Return why the plan prefers another implementation, or None."""
    if request.operation != "reduce":
        return None
    if request.platform == "cpu":
        return _slower_on_cpu(request)
    loses_digits = request.platform == "gpu" and tiled.is_long_sum(request)
    if request.geometry.is_non_overlapping and not loses_digits:
        return READ_ONCE
    return _slower_on_gpu(request) if request.platform == "gpu" else _slower_on_tpu(request)


def _slower_on_cpu(request: Request) -> str | None:
    if request.reduction is None or not has_rule(request.reduction):
        return None
    are_tiles = tiled.unsupported_reason(request) is None
    if are_tiles or request.geometry.is_non_overlapping and request.window_rank == 1:
        return READ_ONCE
    return reduce_window.faster_in_rows_reason(request)


def _slower_on_gpu(request: Request) -> str | None:
    axis = max(request.geometry.axes, key=lambda a: a.kernel / a.stride)
    kernel, limit = axis.kernel, tuning.SHORTEST_DOUBLED_ON_GPU * axis.stride
    if kernel < limit and not tiled.is_long_sum(request):
        return (
            f"{kernel} elements on one axis; doubling is faster from {limit} at this stride on GPU"
        )
    return None


def _slower_on_tpu(request: Request) -> str | None:
    longest, min_kernel = max(request.geometry.kernel), tuning.SHORTEST_DOUBLED_ON_TPU
    if longest < min_kernel:
        return f"{longest} elements on one axis; doubling is faster from {min_kernel} on TPU"
    assert request.reduction is not None, "a request for values has a reduction"
    max_kernel = max_summed_kernel(request)
    if not request.reduction.idempotent and longest <= max_kernel:
        return (
            f"{longest} elements on one axis; doubling is faster above {max_kernel} for sums on TPU"
        )
    return None


def max_summed_kernel(request: Request) -> int:
    """Return the longest kernel up to which a sum on TPU reads each element of a window.

    If only the contiguous axis is pooled, every shift moves lanes. XLA:TPU then compiles for longer
    the more elements there are, and for a single series it stores a copy for each lane.
    """
    only_in_rows = request.window_rank == 1 and request.row_kernel > 1
    return tuning.LONGEST_SUMMED_IN_ROWS_ON_TPU if only_in_rows else tuning.LONGEST_SUMMED


def reduce(x: Any, geometry: Geometry, reduction: Reduction) -> Any:
    """Return the reduction of every window; on CPU a float extreme is computed in integers."""
    return reduce_in_integers_on_cpu(lambda x, extreme: _reduce(x, geometry, extreme), x, reduction)


def _reduce(x: Any, geometry: Geometry, reduction: Reduction) -> Any:
    combine = functools.partial(tree_reduce, reduction.combine)
    parts_of = _overlapping_parts if reduction.idempotent else digit_parts
    by_jax = _is_differentiated_by_jax(x, geometry, reduction)
    if by_jax:
        x = crop_after_windows(x, geometry)
        for axis, position in geometry.placed:
            x = _mask_gaps(x, axis, position, reduction, first=axis.pad_low)
    for axis, position in geometry.placed[::-1]:
        x = pad(x, position, *lax_padding(axis), identity_like(reduction, x))
        if not by_jax:
            x = combine(parts_of(x, axis, position, combine, radix=2))
            continue
        combine_masked = functools.partial(_combine_masked, x, axis, position, reduction)
        every_start = replace(axis, stride=1, out=(axis.out - 1) * axis.stride + 1)
        parts = parts_of(x, every_start, position, combine_masked, radix=2)
        x = combine(_strided(parts, axis, position))
    return x


def _is_differentiated_by_jax(x: Any, geometry: Geometry, reduction: Reduction) -> bool:
    """Return whether JAX differentiates through a ``combine`` of strided windows, without a rule.

    JAX multiplies the derivative at elements that no window reads by 0, which is NaN where the
    derivative is not finite, so those elements are masked.
    """
    floats = any(jnp.issubdtype(a.dtype, jnp.inexact) for a in jax.tree.leaves(x))
    return geometry.is_strided and floats and not has_rule(reduction)


def _strided(parts: list[Any], axis: Axis, position: int) -> list[Any]:
    """Return the entries of all parts at which a window of ``axis`` starts.

    The entries are read by phases: the transpose of a strided slice would be a pad between entries.
    XLA partitions such a pad wrongly if its operand is replicated and its result is sharded, and
    XLA:TPU may run such a pad in serial loops.
    """
    if axis.stride == 1:
        return parts
    length = (axis.out - 1) * axis.stride + 1
    starts = Geometry((Axis(length, 1, axis.stride, 1, 0, 0, 0, axis.out),), (position,))
    return jax.tree.map(lambda a: grid.each_offset(a, starts, np.zeros((), a.dtype))[0], parts)


def _combine_masked(full: Any, axis: Axis, position: int, reduction: Reduction, parts: Any) -> Any:
    """Return the combination of ``parts`` of ``full``, with the gaps between windows masked."""
    length, count = (jax.tree.leaves(x)[0].shape[position] for x in (full, parts[0]))
    masked = [_mask_gaps(x, axis, position, reduction, span=length - count + 1) for x in parts]
    return tree_reduce(reduction.combine, masked)


def _mask_gaps(
    x: Any, axis: Axis, position: int, reduction: Reduction, first: int = 0, span: int = 1
) -> Any:
    """Return ``x`` with the identity in the entries that are in no window of ``axis``.

    An entry covers ``span`` elements from its position on. The first window begins ``first``
    elements before ``x``.
    """
    leaf, last_start = jax.tree.leaves(x)[0], axis.span - span
    if axis.stride <= last_start + 1:
        return x
    positions = iota(leaf.shape[position], position, leaf.ndim, np.int32) + np.int32(first)
    offsets = lax.rem(positions, np.int32(axis.stride))
    in_window = (offsets <= last_start) & (lax.rem(offsets, np.int32(axis.dilation)) == 0)
    return mask_with_identity(
        x, lax.broadcast_in_dim(in_window, leaf.shape, range(leaf.ndim)), reduction
    )


def _overlapping_parts(
    x: Any, axis: Axis, position: int, combine: Callable[[list[Any]], Any], radix: int
) -> list[Any]:
    """Return arrays that combine to the windows of ``axis``; they may share elements."""
    parts: list[Any] = []
    for window, shifts in window_levels(axis.kernel, radix)[::-1]:
        last = window == axis.kernel
        parts = shifted_slices(x, axis, position, shifts, last)
        if not last:
            x = combine(parts)
    return parts


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the offset of its argmax, row-major."""
    x = mask_with_identity(x, valid, reduction)
    if not has_losing_key(reduction, x):
        may_be_empty = valid is not None or is_padded(geometry)
        return _argreduce(x, valid, geometry, reduction, may_be_empty)
    integers = lambda keys, extreme: _argreduce(keys, None, geometry, extreme, False)  # noqa: E731
    return argreduce_in_integers(integers, x, valid, reduction)


def _argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction, may_be_empty: bool
) -> ValueOffset:
    pair, unit = initial_pair(x, valid, offset_dtype(geometry)), 1
    for axis, position in geometry.placed[::-1]:
        pair = _argreduce_axis(pair, axis, position, unit, reduction, may_be_empty)
        unit *= axis.kernel
    return set_sentinels(pair, geometry)


def _argreduce_axis(
    pair: ValueOffset,
    axis: Axis,
    position: int,
    unit: int,
    reduction: Reduction,
    may_be_empty: bool,
) -> ValueOffset:
    pair = pad(pair, position, *lax_padding(axis), identity_pair(pair, reduction))
    for window, shifts in window_levels(axis.kernel, tuning.ARGREDUCE_RADIX)[::-1]:
        slices = shifted_slices(pair, axis, position, shifts, last=window == axis.kernel)
        parts = [
            add_offset(part, shift * unit, may_be_empty)
            for part, shift in zip(slices, shifts, strict=True)
        ]
        pair = reduce_pairs(parts, reduction, may_be_empty)
    return pair
