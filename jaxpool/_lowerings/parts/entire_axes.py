"""Reductions over entire axes, and the offset of the argmax among them.

XLA:CPU mostly reduces several axes jointly one number at a time, and drops NaN from large
reductions of floats (jaxlib 0.10.2 and 0.12). For short axes it is up to ten times as fast to
combine slices along one axis after another, in long loops over the other axes.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import is_static
from ..._xla.any_in_batch import any_in_batch
from ..._xla.by_platform import by_platform
from ..._xla.materialize import materialize
from ...reductions import MIN, Reduction, accumulator, identity_array, identity_like
from .. import tuning
from .argreduce import sentinel
from .axis_slicing import iota
from .float_order import (
    is_16_bit_extreme,
    is_float_extreme,
    reduce_in_integers,
    reduce_slices,
    takes_last_nan,
    to_native_dtype,
)


def reduce_axes(x: Any, axes: tuple[int, ...], reduction: Reduction) -> Any:
    """Return the reduction over entire axes, in any order."""
    on_cpu, jointly = (
        functools.partial(function, axes=tuple(sorted(axes)), reduction=reduction)
        for function in (_reduce_on_cpu, _reduce_jointly)
    )
    return by_platform(x, cpu=on_cpu, default=jointly)


def _reduce_on_cpu(x: Any, axes: tuple[int, ...], reduction: Reduction) -> Any:
    native_x, native_reduction = to_native_dtype(x, reduction)
    if native_x is not x:
        return _reduce_on_cpu(native_x, axes, native_reduction).astype(x.dtype)
    if is_16_bit_extreme(reduction, x):
        return reduce_in_integers(lambda k, extreme: _reduce_on_cpu(k, axes, extreme), x, reduction)
    if _uses_passes(x, axes, reduction):
        combine = _add_slices if reduction.combine is lax.add else reduce_slices
        return _reduce_in_passes(x, axes, functools.partial(combine, reduction))
    reduce_all = _reduce_with_nan if is_float_extreme(reduction, x) else _reduce_jointly
    return reduce_all(x, axes, reduction)


def _uses_passes(x: Any, axes: tuple[int, ...], reduction: Reduction) -> bool:
    """Return whether XLA:CPU is faster with one pass for each axis, which combines slices."""
    if reduction.extremum is None and reduction.combine is not lax.add:
        return False
    lengths = [x.shape[axis] for axis in axes]
    if not is_static(lengths) or max(lengths) > tuning.LONGEST_PASS:
        return False
    is_contiguous = axes[-1] == x.ndim - 1
    if is_contiguous and lengths[-1] > tuning.LONGEST_PASS_ROWS:
        return False
    if reduction.extremum is not None:
        return True
    is_whole_row = is_contiguous and x.shape[-2] == 1
    return jnp.issubdtype(x.dtype, jnp.floating) and not is_whole_row


def _reduce_in_passes(
    x: Array, axes: tuple[int, ...], combine: Callable[[Sequence[Array]], Array]
) -> Array:
    """Reduce the elements of one axis after another, the contiguous axis last.

    Until then the windows and elements of the contiguous axis are merged into full rows.
    """
    *others, last = axes
    row, is_contiguous = x.shape[-2:], last == x.ndim - 1
    x = x.reshape(*x.shape[:-2], math.prod(row)) if is_contiguous else x
    for axis in others:
        x = materialize(combine(_slices(x, axis)))
    x = x.reshape(*x.shape[:-1], *row) if is_contiguous else x
    return lax.squeeze(combine(_slices(x, last)), axes)


def _slices(x: Array, axis: int) -> list[Array]:
    """Return a slice of length 1 for each index of an axis."""
    return [lax.slice_in_dim(x, n, n + 1, axis=axis) for n in range(x.shape[axis])]


def _add_slices(reduction: Reduction, slices: Sequence[Array]) -> Array:
    """Return the sum of slices, in loops that each add a few: long loops are not vectorised."""
    loops = math.ceil(len(slices) / tuning.MAX_ADDED_IN_LOOP)
    if loops > 1:
        length = math.ceil(len(slices) / loops)
        parts = [slices[n : n + length] for n in range(0, len(slices), length)]
        slices = [materialize(reduce_slices(reduction, part)) for part in parts]
    return reduce_slices(reduction, slices)


def _reduce_with_nan(x: Array, axes: tuple[int, ...], reduction: Reduction) -> Array:
    """Reduce floats directly, or in integers if there may be a NaN.

    Integers cost several times the direct reduction. They are used if the elements sum to NaN;
    without a NaN among the elements, that happens only where infinities of both signs meet.
    """

    def in_integers(x: Array) -> Array:
        return reduce_in_integers(
            lambda k, extreme: _reduce_jointly(k, axes, extreme), x, reduction
        )

    total = lax.reduce_sum(x, axes)
    in_floats = functools.partial(_reduce_jointly, axes=axes, reduction=reduction)
    return lax.cond(any_in_batch(total != total), in_integers, in_floats, x)


def _reduce_jointly(x: Any, axes: tuple[int, ...], reduction: Reduction) -> Any:
    """Return the reduction over all ``axes`` by one ``lax.reduce``."""
    return lax.reduce(x, identity_like(reduction, x), reduction.combine, axes)


# --- argmax ---------------------------------------------------------------------------------------


def offset_iota(shape: Sequence[int], axes: tuple[int, ...], dtype: np.dtype) -> Array:
    """Return the offset of every element in its window, row-major in the order of ``axes``."""
    offsets = jnp.zeros((1,) * len(shape), dtype)
    for axis in axes:
        offsets = offsets * shape[axis] + iota(shape[axis], axis - len(shape), len(shape), dtype)
    return offsets


def argmax_offsets(
    elements: Array,
    valid: Array | None,
    values: Array,
    axes: tuple[int, ...],
    reduction: Reduction,
    dtype: np.dtype,
) -> Array:
    """Return the offset of the argmax, row-major over ``axes``, or the sentinel if none is valid.

    Args:
      elements: the operand that was reduced over ``axes``.
      valid: the mask of the elements, or None.
      values: the results of the reduction.
      axes: the axes of the elements, the major axis first.
      reduction: a maximum or minimum.
      dtype: the dtype of the offsets.
    """
    numbers = offset_iota(elements.shape, axes, dtype)
    count = math.prod(elements.shape[axis] for axis in axes)
    last_nan = takes_last_nan(reduction)
    if last_nan:  # number NaN backwards, so that the last NaN has the smallest number
        numbers = jnp.where(elements != elements, count - 1 - numbers, numbers)
    by_rows = not last_nan and _has_rows(elements.shape, axes)
    find_first = _first_match_by_rows if by_rows else _first_match
    first = find_first(elements, valid, jnp.expand_dims(values, axes), numbers, axes)
    empty = identity_array(MIN, dtype)
    if last_nan:
        first = jnp.where((values != values) & (first != empty), count - 1 - first, first)
    return jnp.where(first == empty, sentinel(dtype), first)


def _first_match(
    elements: Array, valid: Array | None, values: Array, numbers: Array, axes: tuple[int, ...]
) -> Array:
    """Return the smallest of the ``numbers`` of elements that equal their result or are NaN.

    Floats of 16 bits are widened: XLA:CPU (jaxlib 0.12) would compare bfloat16 one by one.
    """
    dtype = accumulator(elements.dtype)
    elements, values = elements.astype(dtype), values.astype(dtype)
    is_match = (elements == values) | (elements != elements)
    if valid is not None:
        is_match = is_match & valid
    empty = identity_array(MIN, numbers.dtype)
    return reduce_axes(jnp.where(is_match, numbers, empty), axes, MIN)


def _has_rows(shape: Sequence[int], axes: tuple[int, ...]) -> bool:
    """Return whether windows extend along the contiguous axis and are high enough for full rows."""
    height = math.prod(shape[axis] for axis in axes if axis != len(shape) - 1)
    return len(shape) - 1 in axes and shape[-2] != 1 and height >= tuning.MIN_ROWS


def _first_match_by_rows(
    elements: Array, valid: Array | None, values: Array, numbers: Array, axes: tuple[int, ...]
) -> Array:
    """Return :func:`_first_match`, in loops that are as long as a row instead of a window."""
    row = elements.shape[-2:]
    elements, values, numbers = (_merge_rows(a, row) for a in (elements, values, numbers))
    valid = None if valid is None else _merge_rows(valid, row)
    values = materialize(values)
    others = tuple(axis for axis in axes if axis < elements.ndim)
    first = materialize(_first_match(elements, valid, values, numbers, others))
    return reduce_axes(first.reshape(*first.shape[:-1], *row), (first.ndim,), MIN)


def _merge_rows(a: Array, row: Sequence[int]) -> Array:
    """Return ``a`` with its last two axes, windows and their elements, merged into full rows."""
    rows = jnp.broadcast_to(a, (*a.shape[:-2], *row))
    return rows.reshape(*a.shape[:-2], math.prod(row))
