"""Tiled windows: split each axis into windows and their elements, and reduce the elements.

For axes with ``stride == kernel`` or a single window, without dilation:
``y[o] = combine over t of x.reshape(windows, kernel)[o, t]``. A window that covers an axis is the
plain reduction of that axis.

XLA:CPU reduces several axes at once mostly one number after the other, and drops NaN from large
reductions of floats (jaxlib 0.10.2 and 0.12). Where windows are short it is up to ten times as fast
to combine slices, along one axis after the other, in long loops over the others.

Offsets are written where windows do not overlap, of any length. An element lies in at most one
window ``o`` and receives ``where(offsets[o] == its own offset, g[o], 0)``. In an array of ``(q,
phase)``, see :mod:`..parts.phases`, the phases are broadcast axes of one vectorised loop. Where the
contiguous axis is pooled with others, it goes first: a window's value is repeated over its columns,
with what is left of the offset where that lies in the column. Whole rows follow, where all axes at
once would make loops as short as a window.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry
from ..._xla.any_in_batch import any_in_batch
from ..._xla.by_platform import by_platform
from ..._xla.materialize import materialize
from ...reductions import MIN, Reduction, identity_array, identity_like
from .. import tuning
from ..parts.argreduce import ValueOffset, offset_dtype, sentinel
from ..parts.axis_slicing import iota, is_padded, pad
from ..parts.float_order import (
    is_float_extreme,
    is_narrow_extreme,
    reduce_in_integers,
    reduce_slices,
    takes_last_nan,
    widened,
)
from ..parts.grid import step_axes
from ..parts.phases import crop, holders
from ..request import Request


def unsupported_reason(request: Request) -> str | None:
    """Return why the windows cannot be computed as tiles, or None."""
    if request.verb == "scatter":
        return None if request.geometry.is_non_overlapping else "windows overlap"
    for axis in request.geometry.axes:
        if axis.dilation > 1 and axis.kernel > 1:
            return "a dilated window is no tile"
        if axis.out > 1 and axis.stride != axis.kernel:
            return f"windows of {axis.kernel} elements at stride {axis.stride} are not tiled"
    return None


def reduce(x: Any, geometry: Geometry, reduction: Reduction) -> Any:
    """Return the reduction of every window."""
    elements, axes = _split(x, geometry, identity_like(reduction, x))
    return reduce_axes(elements, axes, reduction)


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the offset of its argmax, row-major."""
    elements, axes = _split(x, geometry, identity_array(reduction, x.dtype))
    if valid is not None or is_padded(geometry):
        valid = jnp.ones(x.shape, bool) if valid is None else valid
        valid, _ = _split(valid, geometry, np.zeros((), bool))
    (values,) = materialize(reduce_axes(elements, axes, reduction))
    dtype = offset_dtype(geometry)
    return values, argmax_offsets(elements, valid, values, axes, reduction, dtype)


def _split(x: Any, geometry: Geometry, padding: Any) -> tuple[Any, tuple[int, ...]]:
    """Split every axis in two, windows and their elements; return also the axes of the elements."""
    shape = jax.tree.leaves(x)[0].shape
    split: list[tuple[int, ...]] = [(size,) for size in shape]
    for axis, position in geometry.placed:
        x = pad(x, position, axis.pad_low, axis.reach, padding)
        split[position] = (axis.out, axis.kernel)
    tiles = [size for sizes in split for size in sizes]
    elements = jax.tree.map(lambda a: a.reshape(tiles), x)
    return elements, step_axes(geometry.positions, len(shape))


def offset_iota(shape: Sequence[int], axes: tuple[int, ...], dtype: np.dtype) -> Array:
    """Return the offset of every element in its window, row-major over ``axes`` as given."""
    found = jnp.zeros((1,) * len(shape), dtype)
    for axis in axes:
        found = found * shape[axis] + iota(shape[axis], axis - len(shape), len(shape), dtype)
    return found


def argmax_offsets(
    elements: Array,
    valid: Array | None,
    values: Array,
    axes: tuple[int, ...],
    reduction: Reduction,
    dtype: np.dtype,
) -> Array:
    """Return the offset of the argmax, row-major over ``axes``; the sentinel if none is valid.

    Args:
      elements: what was reduced over ``axes``.
      valid: mask of the elements, or None.
      values: the results.
      axes: in the order in which they count.
      reduction: a maximum or minimum.
      dtype: of the offsets.
    """
    order = offset_iota(elements.shape, axes, dtype)
    count = math.prod(elements.shape[axis] for axis in axes)
    last_nan = takes_last_nan(reduction)
    if last_nan:  # counted backwards, the last one is the first
        order = jnp.where(elements != elements, count - 1 - order, order)
    by_rows = not last_nan and _has_rows(elements.shape, axes)
    find = _first_by_rows if by_rows else _first
    found = find(elements, valid, jnp.expand_dims(values, axes), order, axes)
    empty = identity_array(MIN, dtype)
    if last_nan:
        found = jnp.where((values != values) & (found != empty), count - 1 - found, found)
    return jnp.where(found == empty, sentinel(dtype), found)


def _first(
    elements: Array, valid: Array | None, values: Array, order: Array, axes: tuple[int, ...]
) -> Array:
    """Return the least ``order`` of the elements that are the value of the window or NaN."""
    hit = (elements == values) | (elements != elements)
    if valid is not None:
        hit = hit & valid
    empty = identity_array(MIN, order.dtype)
    return reduce_axes(jnp.where(hit, order, empty), axes, MIN)


def _has_rows(shape: Sequence[int], axes: tuple[int, ...]) -> bool:
    """Whether windows lie along the contiguous axis, and are high enough to look there by rows."""
    height = math.prod(shape[axis] for axis in axes if axis != len(shape) - 1)
    return len(shape) - 1 in axes and shape[-2] != 1 and height >= tuning.LEAST_ROWS


def _first_by_rows(
    elements: Array, valid: Array | None, values: Array, order: Array, axes: tuple[int, ...]
) -> Array:
    """:func:`_first`, in loops as long as a row and not as a window."""
    row = elements.shape[-2:]
    elements, values, order = (_whole_rows(a, row) for a in (elements, values, order))
    valid = None if valid is None else _whole_rows(valid, row)
    (values,) = materialize(values)
    others = tuple(axis for axis in axes if axis < elements.ndim)
    (found,) = materialize(_first(elements, valid, values, order, others))
    return reduce_axes(found.reshape(*found.shape[:-1], *row), (found.ndim,), MIN)


def _whole_rows(a: Array, row: Sequence[int]) -> Array:
    """Return ``a`` with its last axes, windows and their elements, as one of whole rows."""
    whole = jnp.broadcast_to(a, (*a.shape[:-2], *row))
    return whole.reshape(*a.shape[:-2], math.prod(row))


def reduce_axes(x: Any, axes: tuple[int, ...], reduction: Reduction) -> Any:
    """Return the reduction over whole axes, in any order."""
    on_cpu, elsewhere = (
        functools.partial(function, axes=tuple(sorted(axes)), reduction=reduction)
        for function in (_on_cpu, _at_once)
    )
    return by_platform({"cpu": on_cpu, "gpu": elsewhere, "tpu": elsewhere}, x)


def _on_cpu(x: Any, axes: tuple[int, ...], reduction: Reduction) -> Any:
    wide, order = widened(x, reduction)
    if wide is not x:
        return _on_cpu(wide, axes, order).astype(x.dtype)
    if is_narrow_extreme(reduction, x):
        return reduce_in_integers(lambda keys, order: _on_cpu(keys, axes, order), x, reduction)
    if _has_passes(x, axes, reduction):
        return _in_passes(x, axes, lambda slices: reduce_slices(reduction, slices))
    at_once = _with_nan if is_float_extreme(reduction, x) else _at_once
    return at_once(x, axes, reduction)


def _has_passes(x: Any, axes: tuple[int, ...], reduction: Reduction) -> bool:
    if reduction.extremum is None and reduction.combine is not lax.add:
        return False
    lengths = [x.shape[axis] for axis in axes]
    if not all(isinstance(length, int) for length in lengths):
        return False
    contiguous = x.ndim - 1 in axes
    if reduction.extremum is not None:
        return max(lengths) <= (tuning.LONGEST_PASS_ROWS if contiguous else tuning.LONGEST_PASS)
    if contiguous:
        return x.shape[-2] != 1 and max(lengths) <= tuning.LONGEST_SUM_PASS_ROWS
    large = isinstance(x.size, int) and x.size >= tuning.LEAST_SIZE_OF_SUM_PASS
    short, long = tuning.SHORTEST_SUM_PASS, tuning.LONGEST_SUM_PASS
    return large and short <= min(lengths) and max(lengths) <= long


def _in_passes(
    x: Array, axes: tuple[int, ...], combine: Callable[[Sequence[Array]], Array]
) -> Array:
    """Reduce the elements of one axis after the other.

    The contiguous axis comes last; till then its windows and their elements are whole rows.
    """
    *others, last = axes
    row, in_rows = x.shape[-2:], last == x.ndim - 1
    x = x.reshape(*x.shape[:-2], math.prod(row)) if in_rows else x
    for axis in others:
        (x,) = materialize(_pass(x, axis, combine))
    x = x.reshape(*x.shape[:-1], *row) if in_rows else x
    return lax.squeeze(_pass(x, last, combine), axes)


def _pass(x: Array, axis: int, combine: Callable[[Sequence[Array]], Array]) -> Array:
    return combine([lax.slice_in_dim(x, n, n + 1, axis=axis) for n in range(x.shape[axis])])


def _with_nan(x: Array, axes: tuple[int, ...], reduction: Reduction) -> Array:
    """Reduce floats at once, and again in integers if there may be a NaN.

    Integers cost several times the reduction, but without a NaN the sum is a NaN only where
    infinities of both signs meet.
    """

    def in_order(x: Array) -> Array:
        return reduce_in_integers(lambda keys, order: _at_once(keys, axes, order), x, reduction)

    total = lax.reduce_sum(x, axes)
    plain = functools.partial(_at_once, axes=axes, reduction=reduction)
    return lax.cond(any_in_batch(total != total), in_order, plain, x)


def _at_once(x: Any, axes: tuple[int, ...], reduction: Reduction) -> Any:
    return lax.reduce(x, identity_like(reduction, x), reduction.combine, axes)


# --- writing at offsets ---------------------------------------------------------------------------


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return, for each element, the value of its window if the offset names it, else 0."""
    g, offsets = _stored(g, offsets, geometry)
    (*axes, last), (*positions, contiguous) = geometry.axes, geometry.positions
    if geometry.taps <= tuning.MOST_SCATTERED or not axes or contiguous != -1:
        return _over_phases(g, offsets, geometry)
    g, offsets = materialize(*_columns(g, offsets, last))
    return _over_phases(g, offsets, Geometry(tuple(axes), tuple(positions)))


def _stored(g: Array, offsets: Array, geometry: Geometry) -> tuple[Array, Array]:
    """Return both, stored: XLA:CPU would compute anew for each element what makes them.

    Values of few elements in channels last are not, where storing them costs more than it saves.
    """
    if geometry.taps <= tuning.MOST_UNSTORED and -1 not in geometry.positions:
        return g, materialize(offsets)[0]
    g, offsets = materialize(g, offsets)
    return g, offsets


def _over_phases(g: Array, offsets: Array, geometry: Geometry) -> Array:
    """All phases of all axes at once."""
    for axis, position in geometry.placed:
        g = holders(g, axis, position)
        offsets = holders(offsets, axis, position, sentinel(offsets.dtype))
    axes = step_axes(geometry.positions, g.ndim)
    g, offsets, merged = jnp.expand_dims(g, axes), jnp.expand_dims(offsets, axes), list(g.shape)
    own, exists = jnp.zeros((1,) * g.ndim, jnp.int32), jnp.ones((1,) * g.ndim, bool)
    for (axis, position), dimension in zip(geometry.placed, axes, strict=True):
        step = iota(axis.stride, dimension - g.ndim, g.ndim, jnp.int32)
        exists = exists & (step % axis.dilation == 0) & (step < axis.kernel * axis.dilation)
        own = own * axis.kernel + step // axis.dilation
        merged[position] = g.shape[dimension - 1] * axis.stride
    hit = exists & (offsets.astype(jnp.int32) == own)
    received = jnp.where(hit, g, jnp.zeros((), g.dtype)).reshape(merged)
    for axis, position in geometry.placed:
        received = crop(received, axis, position)
    return received


def _columns(g: Array, offsets: Array, axis: Axis) -> tuple[Array, Array]:
    """Values, and offsets over the other axes, for each column of the last axis.

    An offset in another column becomes the sentinel, which divides to no row.
    """

    def repeated(a: Array) -> Array:
        return jnp.repeat(holders(a, axis, -1), axis.stride, -1)

    wide, given = offsets.astype(jnp.int32), repeated(g)
    column = iota(given.shape[-1], -1, g.ndim, jnp.int32) % axis.stride
    here = repeated(wide % axis.kernel) * axis.dilation == column
    rows = repeated((wide // axis.kernel).astype(offsets.dtype))
    rows = jnp.where(here, rows, sentinel(offsets.dtype))
    return crop(given, axis, -1), crop(rows, axis, -1)
