"""Elements of windows that do not overlap, from one value of each window.

An element of a padded axis lies at step ``r`` of group ``o``, at ``o * stride + r``. No window but
``o`` can hold it, at offset ``r / dilation`` if that is an integer below the window's length. So
values of windows become elements by a broadcast over the steps of every axis,

    elements[o * stride + r] = where(offsets[o] == offset of r, g[o], 0),

which needs no sums and does not grow with the window.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._geometry.resolve import Geometry


def step_axes(geometry: Geometry, rank: int) -> list[int]:
    """Where the axes of steps lie, one behind each pooled axis, for arrays of ``rank`` axes."""
    return [rank + position + n + 1 for n, position in enumerate(geometry.positions)]


def on_grid(g: Array, offsets: Array, geometry: Geometry, first: int, last: int) -> Array:
    """Values of windows over all steps, of the first pooled axis those from ``first`` to ``last``.

    Returns:
      An array with an axis of steps behind each pooled one.
    """
    axes = step_axes(geometry, g.ndim)
    steps = [axis.stride for axis in geometry.axes]
    steps[0] = last - first
    shape = list(jnp.expand_dims(g, axes).shape)
    for axis, count in zip(axes, steps, strict=True):
        shape[axis] = count
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    wanted = _offset_of_steps(geometry, steps, axes, len(shape), first)
    there = lax.broadcast_in_dim(offsets.astype(jnp.int32), shape, kept)
    sent = lax.broadcast_in_dim(g, shape, kept)
    return jnp.where(there == wanted, sent, jnp.zeros((), g.dtype))


def _offset_of_steps(
    geometry: Geometry, steps: Sequence[int], axes: Sequence[int], rank: int, first: int
) -> Array:
    """The offset, row-major, at which a window reads each step; -2 where it reads none.

    Nothing is compared for windows that read every step: XLA:GPU would store that as a table.
    """
    offset, read = jnp.zeros((1,) * rank, jnp.int32), None
    for number, (axis, count, at) in enumerate(zip(geometry.axes, steps, axes, strict=True)):
        line = [1] * rank
        line[at] = count
        step = lax.broadcasted_iota(jnp.int32, line, at) + (first if number == 0 else 0)
        offset = offset * axis.kernel + (step // axis.dilation if axis.dilation > 1 else step)
        if axis.stride > axis.kernel:
            inside = (step < axis.span) & (step % axis.dilation == 0)
            read = inside if read is None else read & inside
    return offset if read is None else jnp.where(read, offset, -2)


def merged(grid: Array, geometry: Geometry, rank: int) -> Array:
    """The elements: steps merged with their pooled axes, padding cut off."""
    shape, config = list(grid.shape), [(0, 0, 0)] * rank
    for at in reversed(step_axes(geometry, rank)):
        shape[at - 1 : at + 1] = [shape[at - 1] * shape[at]]
    for axis, position in geometry.placed:
        config[position] = (-axis.pad_low, axis.size + axis.pad_low - axis.out * axis.stride, 0)
    return lax.pad(grid.reshape(shape), np.zeros((), grid.dtype), config)
