"""Any function of the elements of a window, for windows of many elements: a block at a time.

All elements of all windows at once would hold as many copies of the array as a window has
elements. A block of windows holds about as much as the array itself.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._geometry.resolve import Geometry
from .axis_slicing import pad_all


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
      others: arrays of the shape of the result, whose entries ``[rest..]`` it gets too.
    """
    count = len(geometry.axes)
    padded = [
        _pooled_first(pad_all(a, geometry, value), geometry)
        for a, value in zip(arrays, outside, strict=True)
    ]
    rest = padded[0].shape[count:]

    def of_one(arguments: tuple[Array, ...]) -> Any:
        start, *entries = arguments
        return function(*(_elements(a, start, geometry) for a in padded), *entries)

    flat = (_pooled_first(a, geometry).reshape(-1, *rest) for a in others)
    block = max(1, arrays[0].size // max(1, geometry.taps * math.prod(rest)))
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


def _pooled_first(a: Array, geometry: Geometry) -> Array:
    return jnp.moveaxis(a, geometry.positions, range(len(geometry.axes)))


def _in_place(a: Array, geometry: Geometry) -> Array:
    """Windows in a row as the pooled axes, which go back to their positions."""
    whole = a.reshape(*geometry.out_shape, *a.shape[1:])
    return jnp.moveaxis(whole, range(len(geometry.axes)), geometry.positions)
