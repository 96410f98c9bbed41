"""Maxima by a loop that starts from a number (oneDNN) or from an element (TensorFlow).

From a number ``v``: the loop replaces its current value, initially ``v``, by each greater element.
NaN and elements that are not greater than ``v`` are therefore never selected. If no element is
selected, the result is ``v`` and the offset is 0, even if offset 0 is in padding.

From the first element ``f`` of the window inside the array: no element is greater than a NaN, and a
NaN is greater than no element. The argmax is therefore ``f`` if ``f`` is NaN, otherwise the first
maximum of the elements that are not NaN.

Both are selections: their derivative reads the tangent at the offsets.

Elements that a mask, ``where``, excludes are treated like padding.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from .._autodiff.gather import gather
from .._autodiff.rules import selection, selection_with_offsets
from .._geometry.axis import Axis
from .._geometry.resolve import Geometry
from .._lowerings.parts.argreduce import sentinel
from .._lowerings.parts.axis_slicing import concatenate, slice_axis
from .._lowerings.parts.window_counts import first_offsets
from .._xla.nan_constant import nan_where
from ..ops._dispatch import Configuration
from ..ops.max import max_pool, max_pool_with_argmax

Mask = Array | None
"""True where an element counts; None selects all elements."""


def over_windows(op: Callable[..., Any], x: Array, config: Configuration, **options: Any) -> Any:
    """Return the result of ``op`` over the canonical windows of ``config``."""
    window = config.window
    return op(
        x, window.kernel, window.strides, window.padding, dilations=window.dilations,
        rounding=window.rounding, data_format=config.data_format, **options,
    )  # fmt: skip


def max_from(x: Array, where: Mask, config: Configuration, start: Any) -> Array:
    """Return the maxima whose initial value is the number ``start``."""

    def reduce(x: Array, where: Mask) -> Array:
        start_value = np.asarray(start, x.dtype)
        selectable = _combine_masks(x > start_value, where)
        return jnp.maximum(over_windows(max_pool, x, config, where=selectable), start_value)

    return selection(reduce, *_argreduce_from(x, config, start), x, where)


def max_with_offsets_from(
    x: Array, where: Mask, config: Configuration, start: Any
) -> tuple[Array, Array]:
    """Return the maxima whose initial value is ``start``, and their window offsets."""
    return selection_with_offsets(*_argreduce_from(x, config, start), x, where)


def _argreduce_from(x: Array, config: Configuration, start: Any) -> tuple[Any, Any]:
    def argreduce(x: Array, where: Mask) -> tuple[Array, Array]:
        start_value = np.asarray(start, x.dtype)
        selectable = _combine_masks(x > start_value, where)
        options = {"where": selectable, "index_space": "window"}
        values, offsets = over_windows(max_pool_with_argmax, x, config, **options)
        empty = offsets == sentinel(offsets.dtype)
        values = jnp.maximum(values, start_value)
        return values, jnp.where(empty, np.zeros((), offsets.dtype), offsets)

    return argreduce, _gather_function(config.geometry(x.shape), any_offset=False)


def max_of_numbers(x: Array, where: Mask, *, config: Configuration) -> Array:
    """Return the maximum of the lowest finite number and the elements that are not NaN.

    The derivative is that of :func:`max_with_offsets_from_first`, as in TensorFlow.
    """

    def reduce(x: Array, where: Mask) -> Array:
        is_number = _combine_masks(x == x, where)
        return _at_least_lowest(over_windows(max_pool, x, config, where=is_number))

    def argreduce(x: Array, where: Mask) -> tuple[Array, Array]:
        maxima, offsets, _ = _maxima_and_first_nan(x, where, config)
        return _at_least_lowest(maxima), offsets

    read = _gather_function(config.geometry(x.shape))
    return selection(reduce, argreduce, read, x, where)


def _at_least_lowest(values: Array) -> Array:
    return jnp.maximum(values, np.asarray(jnp.finfo(values.dtype).min, values.dtype))


def max_with_offsets_from_first(
    x: Array, where: Mask, config: Configuration
) -> tuple[Array, Array]:
    """Return the maxima whose initial value is the first element, and their window offsets."""

    def argreduce(x: Array, where: Mask) -> tuple[Array, Array]:
        maxima, offsets, starts_with_nan = _maxima_and_first_nan(x, where, config)
        return nan_where(starts_with_nan, maxima), offsets

    read = _gather_function(config.geometry(x.shape))
    return selection_with_offsets(argreduce, read, x, where)


def _maxima_and_first_nan(
    x: Array, where: Mask, config: Configuration
) -> tuple[Array, Array, Array]:
    """Return maxima without NaN, argmax offsets, and whether the first element is NaN."""
    options = {"where": _combine_masks(x == x, where), "index_space": "window"}
    maxima, offsets = over_windows(max_pool_with_argmax, x, config, **options)
    if where is None:
        geometry = config.geometry(x.shape)
        starts_with_nan = first_elements(x != x, geometry)
        first_offset = first_offsets(geometry, x.ndim).astype(offsets.dtype)
    else:
        starts_with_nan, first_offset = _first_unmasked(x != x, where, config)
    first_offset = jnp.broadcast_to(first_offset, offsets.shape)
    return maxima, jnp.where(starts_with_nan, first_offset, offsets), starts_with_nan


def _combine_masks(selectable: Array, where: Mask) -> Array:
    return selectable if where is None else selectable & where


def _gather_function(geometry: Geometry, any_offset: bool = True) -> Any:
    """Return the function that gathers elements at offsets.

    Maxima from the first element need ``any_offset``: if the argmax of one window is a NaN, two
    windows can each contain the argmax of the other.
    """
    return lambda x, offsets, value: gather(x, offsets, geometry, value, any_offset=any_offset)


def first_elements(x: Array, geometry: Geometry) -> Array:
    """Return the first element of every window, 0 for an empty window."""
    for axis, position in geometry.placed:
        x = _first_along_axis(x, axis, position)
    return x


def _first_along_axis(x: Array, axis: Axis, position: int) -> Array:
    parts = []
    for segment in axis.segments():
        count = segment.last - segment.first
        if segment.low < segment.high:
            start = axis.start(segment.first) + segment.low * axis.dilation
            parts.append(slice_axis(x, position, start, count, axis.stride))
        else:
            parts.append(jnp.zeros_like(slice_axis(x, position, 0, 1, 1)).repeat(count, position))
    return concatenate(parts, position)


def _first_unmasked(marks: Array, where: Array, config: Configuration) -> tuple[Array, Array]:
    """Return whether the first unmasked element of every window is marked, and its offset."""
    argmax = functools.partial(over_windows, max_pool_with_argmax, config=config, where=where)
    marked, marked_offset = argmax(marks, index_space="window")
    _, first_offset = argmax(where, index_space="window")
    return marked & (marked_offset == first_offset), first_offset
