"""Maxima that a loop over the window starts from a number (oneDNN) or an element (TensorFlow).

From a number ``v``: an element is taken if it is greater than what is held, at first ``v``. So NaN
and what is not greater than ``v`` are never taken. Where nothing is, the result is ``v``,
and the offset is 0, also if that lies in padding.

From the first element ``f`` of the window inside the array: nothing is greater than a NaN, and a
NaN is greater than nothing. So the argmax is ``f`` if ``f`` is NaN, else the first maximum of the
numbers.

Both are selections: their derivative reads the tangent at the offsets.

Elements that a mask, ``where``, leaves out are as padding.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._autodiff.gather import gather
from .._autodiff.rules import selection, selection_with_offsets
from .._geometry.resolve import Geometry
from .._lowerings.parts.argreduce import sentinel
from .._lowerings.parts.window_counts import first_offsets
from ..ops._dispatch import Configuration
from ..ops.max import max_pool, max_pool_with_argmax

Mask = Array | None
"""Which elements there are; None is all of them."""


def over_windows(op: Callable[..., Any], x: Array, config: Configuration, **options: Any) -> Any:
    """Return an op over windows that are already canonical."""
    window = config.window
    return op(
        x, window.kernel, window.strides, window.padding, dilations=window.dilations,
        rounding=window.rounding, data_format=config.data_format, **options,
    )  # fmt: skip


def max_from(x: Array, where: Mask, config: Configuration, start: Any) -> Array:
    """Return the maxima that start from a number."""

    def reduce(x: Array, where: Mask) -> Array:
        start_ = np.asarray(start, x.dtype)
        taken = _both(x > start_, where)
        return jnp.maximum(over_windows(max_pool, x, config, where=taken), start_)

    return selection(reduce, *_argreduce_from(x, config, start), x, where)


def max_with_offsets_from(
    x: Array, where: Mask, config: Configuration, start: Any
) -> tuple[Array, Array]:
    """Return the maxima that start from a number, and their window offsets."""
    return selection_with_offsets(*_argreduce_from(x, config, start), x, where)


def _argreduce_from(x: Array, config: Configuration, start: Any) -> tuple[Any, Any]:
    def argreduce(x: Array, where: Mask) -> tuple[Array, Array]:
        start_ = np.asarray(start, x.dtype)
        values, offsets = over_windows(
            max_pool_with_argmax, x, config, where=_both(x > start_, where), index_space="window"
        )
        empty = offsets == sentinel(offsets.dtype)
        return jnp.maximum(values, start_), jnp.where(empty, np.zeros((), offsets.dtype), offsets)

    return argreduce, _reader(config.geometry(x.shape))


def max_of_numbers(x: Array, where: Mask, config: Configuration) -> Array:
    """Return the largest number above the lowest finite one, or that.

    The derivative is that of :func:`max_with_offsets_from_first`, as in TensorFlow.
    """

    def lifted(values: Array) -> Array:
        return jnp.maximum(values, np.asarray(jnp.finfo(x.dtype).min, x.dtype))

    def reduce(x: Array, where: Mask) -> Array:
        return lifted(over_windows(max_pool, x, config, where=_both(x == x, where)))

    def argreduce(x: Array, where: Mask) -> tuple[Array, Array]:
        numbers, offsets, _ = _scanned(x, where, config)
        return lifted(numbers), offsets

    read = _reader(config.geometry(x.shape), any_offset=True)
    return selection(reduce, argreduce, read, x, where)


def max_with_offsets_from_first(
    x: Array, where: Mask, config: Configuration
) -> tuple[Array, Array]:
    """Return the maxima that start from the first element of a window, and their window offsets."""

    def argreduce(x: Array, where: Mask) -> tuple[Array, Array]:
        numbers, offsets, stays = _scanned(x, where, config)
        return jnp.where(stays, np.asarray(np.nan, x.dtype), numbers), offsets

    read = _reader(config.geometry(x.shape), any_offset=True)
    return selection_with_offsets(argreduce, read, x, where)


def _scanned(x: Array, where: Mask, config: Configuration) -> tuple[Array, Array, Array]:
    """Largest numbers, offsets of the argmax, and the windows whose first element is NaN."""
    numbers, offsets = over_windows(
        max_pool_with_argmax, x, config, where=_both(x == x, where), index_space="window"
    )
    if where is None:
        geometry = config.geometry(x.shape)
        stays = _first_elements(x != x, geometry)
        first = first_offsets(geometry, x.ndim).astype(offsets.dtype)
    else:
        stays, first = _first_where(x != x, where, config)
    return numbers, jnp.where(stays, jnp.broadcast_to(first, offsets.shape), offsets), stays


def _both(taken: Array, where: Mask) -> Array:
    return taken if where is None else taken & where


def _reader(geometry: Geometry, any_offset: bool = False) -> Any:
    """What reads elements at offsets; ``any_offset`` of maxima from the first element.

    Two windows can hold each other's, if that of one is a NaN.
    """
    return lambda x, offsets, value: gather(x, offsets, geometry, value, any_offset=any_offset)


def _first_elements(x: Array, geometry: Geometry) -> Array:
    """The first element of every window; pads are shorter than windows, so each has one."""
    for axis, position in geometry.placed:
        edge = lax.slice_in_dim(x, 0, 1, axis=position)
        x = lax.concatenate([*[edge] * axis.pad_low, x], x.ndim + position)
        end = (axis.out - 1) * axis.stride + 1
        x = lax.slice_in_dim(x, 0, end, axis.stride, position)
    return x


def _first_where(marks: Array, where: Array, config: Configuration) -> tuple[Array, Array]:
    """Whether the first element of every window is marked, and its offset."""
    argmax = functools.partial(over_windows, max_pool_with_argmax, config=config, where=where)
    marked, place = argmax(marks, index_space="window")
    _, first = argmax(where, index_space="window")
    return marked & (place == first), first
