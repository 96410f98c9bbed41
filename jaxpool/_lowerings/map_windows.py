"""Any function of the elements of a window, for windows of many elements: a block at a time.

All elements of all windows at once would hold as many copies of the array as a window has
elements. A block of windows holds about half as much as the array itself.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._geometry.resolve import Geometry
from .axis_slicing import pad_all, pooled_first


def map_windows(
    function: Callable[..., Any],
    arrays: Sequence[Array],
    outside: Sequence[np.ndarray],
    geometry: Geometry,
    *others: Array,
) -> Any:
    """Return ``function(*elements, *others)`` of every window, in the shape of a pooled array.

    Args:
      function: of the elements ``[taps, rest..]`` that a window has of each array, row-major, with
        the axes ``rest`` that are not pooled; it returns arrays of ``rest``.
      arrays: arrays of one shape.
      outside: for each, the value of elements outside it.
      geometry: the windows.
      others: arrays that broadcast to the result along the axes ``rest``; it gets their entries.
    """
    order, moved = pooled_first(geometry, arrays[0].ndim)
    padded = [
        pad_all(a.transpose(order), moved, value) for a, value in zip(arrays, outside, strict=True)
    ]
    rest = padded[0].shape[len(geometry.axes) :]

    def of_one(arguments: tuple[Array, ...]) -> Any:
        start, *entries = arguments
        return function(*(_elements(a, start, geometry) for a in padded), *entries)

    turned = (a.transpose(order) for a in others)
    flat = (a.reshape(-1, *a.shape[len(geometry.axes) :]) for a in turned)
    block = max(1, arrays[0].size // max(1, 2 * geometry.taps * math.prod(rest)))
    results = lax.map(of_one, (_starts(geometry), *flat), batch_size=block)
    return jax.tree.map(lambda a: _in_place(a, geometry), results)


def _elements(padded: Array, start: Array, geometry: Geometry) -> Array:
    """The elements ``[taps, rest..]`` of the window that begins at ``start``."""
    rest = padded.shape[len(start) :]
    starts = [*start, *[jnp.zeros((), start.dtype)] * len(rest)]
    part = lax.dynamic_slice(padded, starts, (*(axis.span for axis in geometry.axes), *rest))
    steps = [*(axis.dilation for axis in geometry.axes), *[1] * len(rest)]
    part = lax.slice(part, [0] * part.ndim, part.shape, steps)
    return part.reshape(geometry.taps, *rest)


def _starts(geometry: Geometry) -> Array:
    """Where every window begins in the padded array, ``[window, pooled axis]``."""
    windows = jnp.indices(geometry.out_shape, jnp.int32).reshape(len(geometry.axes), -1)
    return jnp.stack([w * a.stride for w, a in zip(windows, geometry.axes, strict=True)], -1)


def _in_place(a: Array, geometry: Geometry) -> Array:
    """Windows in a row as the pooled axes, which go back to their positions."""
    whole = a.reshape(*geometry.out_shape, *a.shape[1:])
    return jnp.moveaxis(whole, range(len(geometry.axes)), geometry.positions)
