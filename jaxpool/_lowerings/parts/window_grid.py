"""Elements of windows that do not overlap, from one value of each window.

An element of a padded axis lies at step ``r`` of group ``o``, at ``o * stride + r``. No window but
``o`` can hold it, at offset ``r / dilation`` if that is an integer below the window's length. So
values of windows become elements by a broadcast over the steps of every axis,

    elements[o * stride + r] = where(step of offsets[o] == r, g[o], 0),

which needs no sums and does not grow with the window.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry


def step_axes(positions: Sequence[int], rank: int) -> tuple[int, ...]:
    """Where axes of steps lie, one behind each axis at ascending ``positions``, all negative.

    ``rank`` is that of an array without them.
    """
    return tuple(rank + position + n + 1 for n, position in enumerate(positions))


def over_steps(windows: Array, geometry: Geometry) -> Array:
    """Return what windows have at every step, on an axis of steps behind each pooled one."""
    axes = step_axes(geometry.positions, windows.ndim)
    shape = list(windows.shape)
    for at, axis in zip(axes, geometry.axes, strict=True):
        shape.insert(at, axis.stride)
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    return lax.broadcast_in_dim(windows, shape, kept)


def on_grid(g: Array, offsets: Array, geometry: Geometry) -> Array:
    """Return values of windows at the step that their offset names, 0 at the others."""
    named, given = over_steps(offsets.astype(jnp.int32), geometry), over_steps(g, geometry)
    here = _places(named, geometry) == _steps(given.shape, step_axes(geometry.positions, g.ndim))
    return jnp.where(here, given, jnp.zeros((), g.dtype))


def _steps(shape: Sequence[int], axes: Sequence[int]) -> Array:
    """The steps of a group, numbered row-major.

    Made in the shape of the array: XLA:GPU would store a smaller one as a table, by a kernel.
    """
    number = jnp.zeros(shape, jnp.int32)
    for at in axes:
        number = number * shape[at] + lax.broadcasted_iota(jnp.int32, shape, at)
    return number


def _places(offsets: Array, geometry: Geometry) -> Array:
    """The numbers of the steps at which offsets read, of no step for no offset of a window."""
    if all(axis.stride == axis.kernel for axis in geometry.axes):
        return offsets
    place, rest, weight = jnp.zeros_like(offsets), offsets, 1
    for axis in geometry.axes[::-1]:
        place = place + lax.rem(rest, np.int32(axis.kernel)) * (axis.dilation * weight)
        rest, weight = lax.div(rest, np.int32(axis.kernel)), weight * axis.stride
    return jnp.where((offsets >= 0) & (offsets < geometry.taps), place, -1)


def merged(grid: Array, geometry: Geometry, rank: int, padded: bool = True) -> Array:
    """The elements: steps merged with their pooled axes, and what is no element cut off.

    Args:
      grid: an array with an axis of steps behind each pooled one.
      geometry: the windows.
      rank: axes of the result.
      padded: whether groups begin at the padding, not at the first element.
    """
    shape, config = list(grid.shape), [(0, 0, 0)] * rank
    for at in reversed(step_axes(geometry.positions, rank)):
        shape[at - 1 : at + 1] = [shape[at - 1] * shape[at]]
    for axis, position in geometry.placed:
        low = axis.pad_low if padded else 0
        config[position] = (-low, low + axis.size - shape[position], 0)
    return lax.pad(grid.reshape(shape), np.zeros((), grid.dtype), config)
