"""Windows made of smaller windows, one axis after the other: cost and program grow with log K.

For an idempotent reduction a window of K elements is a few overlapping windows of fewer elements,
and so on down to one (:func:`levels`). A sum must count each element once: it takes the windows of
the binary digits of K, one after the other, where the window of ``2m`` elements is two of ``m``.
Never a running sum, which would cancel.

Source: van Herk 1992 and Gil and Werman 1993 for cost that does not grow with the window; here each
level is one vector operation over the whole array.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry
from ...reductions import Reduction, filled, identity_array, identity_like
from .. import tuning
from ..parts.argreduce import (
    ValueOffset,
    add_offset,
    initial_pair,
    offset_dtype,
    reduce_pairs,
    sentinel,
    set_sentinels,
)
from ..parts.axis_slicing import (
    crop_behind,
    digit_parts,
    iota,
    is_padded,
    lax_padding,
    levels,
    pad,
    shifted_slices,
    tree_reduce,
)
from ..parts.float_order import (
    argreduce_in_integers,
    has_sentinel_value,
    reduce_in_integers_on_cpu,
)
from ..parts.offset_levels import gather as gather
from ..parts.offset_levels import scatter as scatter
from ..request import Request, has_rule


def unsupported_reason(request: Request) -> str | None:
    """Return why doubling does not compute what is asked, or None."""
    return request.disagreement


def slower_reason(request: Request) -> str | None:
    """Return why the plan prefers another on GPU or TPU, or None."""
    if request.verb != "reduce" or request.platform == "cpu":
        return None
    if request.geometry.is_non_overlapping:
        return "windows do not overlap, so each element is read once"
    return _slower_on_gpu(request) if request.platform == "gpu" else _slower_on_tpu(request)


def _slower_on_gpu(request: Request) -> str | None:
    longest = max(request.geometry.axes, key=lambda axis: axis.kernel / axis.stride)
    kernel, least = longest.kernel, tuning.SHORTEST_DOUBLED_ON_GPU * longest.stride
    if kernel < least:
        return f"{kernel} elements on one axis; doubling pays from {least} at its stride on GPU"
    return None


def _slower_on_tpu(request: Request) -> str | None:
    longest, least = max(request.geometry.kernel), tuning.SHORTEST_DOUBLED_ON_TPU
    if longest < least:
        return f"{longest} elements on one axis; doubling pays from {least} on TPU"
    assert request.reduction is not None, "values are those of a reduction"
    most = longest_summed(request.geometry)
    if not request.reduction.idempotent and longest <= most:
        return f"{longest} elements on one axis; sums pay above {most} on TPU"
    return None


def longest_summed(geometry: Geometry) -> int:
    """Elements on an axis up to which a sum on TPU reads each of them.

    Along the contiguous axis alone every shift moves lanes, for which XLA:TPU compiles the longer
    the more elements there are, and of a single series it stores a copy for each lane.
    """
    long = [position for axis, position in geometry.placed if axis.kernel > 1]
    return tuning.LONGEST_SUMMED_IN_ROWS_ON_TPU if long == [-1] else tuning.LONGEST_SUMMED


def reduce(x: Any, geometry: Geometry, reduction: Reduction) -> Any:
    """Return the reduction of every window; on CPU a float extreme runs in integers."""
    return reduce_in_integers_on_cpu(lambda x, order: _reduce(x, geometry, order), x, reduction)


def _reduce(x: Any, geometry: Geometry, reduction: Reduction) -> Any:
    joined = functools.partial(tree_reduce, reduction.combine)
    along = _overlapping if reduction.idempotent else digit_parts
    plainly = _is_differentiated_plainly(x, geometry, reduction)
    if plainly:
        x = crop_behind(x, geometry, identity_like(reduction, x))
        for axis, position in geometry.placed:
            x = _hidden(x, axis, position, reduction, first=axis.pad_low)
    for axis, position in geometry.placed[::-1]:
        x = pad(x, position, *lax_padding(axis), identity_like(reduction, x))
        each = functools.partial(_joined_inside, x, axis, position, reduction)
        x = joined(along(x, axis, position, each if plainly else joined, radix=2))
    return x


def _is_differentiated_plainly(x: Any, geometry: Geometry, reduction: Reduction) -> bool:
    """Whether the derivative is that of ``combine``, of entries that no window reads among them.

    It is 0 times what ``combine`` makes of them: NaN where that is not finite.
    """
    floats = any(jnp.issubdtype(a.dtype, jnp.inexact) for a in jax.tree.leaves(x))
    return geometry.is_strided and floats and not has_rule(reduction)


def _joined_inside(whole: Any, axis: Axis, position: int, reduction: Reduction, parts: Any) -> Any:
    """The combination of parts of ``whole``, of identities where it lies inside no window."""
    length, part = (jax.tree.leaves(x)[0].shape[position] for x in (whole, parts[0]))
    hidden = [_hidden(each, axis, position, reduction, span=length - part + 1) for each in parts]
    return tree_reduce(reduction.combine, hidden)


def _hidden(
    x: Any, axis: Axis, position: int, reduction: Reduction, first: int = 0, span: int = 1
) -> Any:
    """``x`` with the identity where ``span`` elements from there on lie in no window of ``axis``.

    The windows begin ``first`` elements before ``x``.
    """
    like, last = jax.tree.leaves(x)[0], axis.span - span
    if axis.stride <= last + 1:
        return x
    starts = iota(like.shape[position], position, like.ndim, np.int32) + np.int32(first)
    behind = lax.rem(starts, np.int32(axis.stride))
    inside = (behind <= last) & (lax.rem(behind, np.int32(axis.dilation)) == 0)
    return filled(x, lax.broadcast_in_dim(inside, like.shape, range(like.ndim)), reduction)


def _overlapping(
    x: Any, axis: Axis, position: int, joined: Callable[[list[Any]], Any], radix: int
) -> list[Any]:
    """Arrays that combine to the windows of ``axis``, elements counted more than once."""
    parts: list[Any] = []
    for window, shifts in levels(axis.kernel, radix)[::-1]:
        last = window == axis.kernel
        parts = shifted_slices(x, axis, position, shifts, last)
        if not last:
            x = joined(parts)
    return parts


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the offset of its argmax, row-major."""
    if not has_sentinel_value(reduction, x):
        return _argreduce(x, valid, geometry, reduction, may_be_empty=True)
    integers = lambda keys, order: _argreduce(keys, None, geometry, order, False)  # noqa: E731
    return argreduce_in_integers(integers, x, valid, reduction)


def _argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction, may_be_empty: bool
) -> ValueOffset:
    may_be_empty = may_be_empty and (valid is not None or is_padded(geometry))
    pair, inner = initial_pair(x, valid, offset_dtype(geometry)), 1
    for axis, position in geometry.placed[::-1]:
        pair = _argreduce_along(pair, axis, position, inner, reduction, may_be_empty)
        inner *= axis.kernel
    return set_sentinels(pair, geometry)


def _argreduce_along(
    pair: ValueOffset,
    axis: Axis,
    position: int,
    inner: int,
    reduction: Reduction,
    may_be_empty: bool,
) -> ValueOffset:
    low, high = lax_padding(axis)
    values, offsets = pair
    empty = identity_array(reduction, values.dtype), sentinel(offsets.dtype)
    pair = pad(pair, position, low, high, empty)
    for window, shifts in levels(axis.kernel, tuning.ARGREDUCE_RADIX)[::-1]:
        moved = shifted_slices(pair, axis, position, shifts, last=window == axis.kernel)
        parts = [
            add_offset(part, shift * inner, may_be_empty)
            for part, shift in zip(moved, shifts, strict=True)
        ]
        pair = reduce_pairs(parts, reduction, may_be_empty)
    return pair
