"""Elements on the grid of groups and phases, read and written in place: for XLA:TPU and XLA:GPU.

The pooled axes are made major, as XLA:TPU keeps them in a network, and each is split into groups
and phases, see :mod:`.phases`: then the elements at one offset of every window are one phase,
shifted. That is a padding, negative where it cuts, and XLA:TPU makes it part of the kernel that
reads the array, as it does with no slice in steps. It does so where the padding reads an operand of
the kernel: what is computed of elements is computed of each slice, and never sliced itself.

An axis that is no whole number of groups is padded to one, which stores the array once more.

The transpose puts windows where their elements are: a padding by the shift along the groups, and
one to ``stride`` entries along the phases.
"""

import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry
from .window_grid import step_axes

Read = Callable[[Array, np.ndarray], Array]
"""Shifts an array of windows to the elements that they give to, ``value`` where there is none."""


def split(x: Array, geometry: Geometry, value: np.ndarray) -> Array:
    """``x`` with an axis of ``stride`` phases behind each pooled axis, which keeps the groups.

    Behind the last element, the last group has ``value``.
    """
    steps, config = step_axes(geometry.positions, x.ndim), [(0, 0, 0)] * x.ndim
    shape = list(x.shape)
    for at, (axis, position) in zip(steps, geometry.placed, strict=True):
        shape[at - 1 : at] = axis.groups, axis.stride
        config[position] = (0, axis.groups * axis.stride - axis.size, 0)
    return lax.pad(x, value, config).reshape(shape)


def at(grid: Array, place: Sequence[int], geometry: Geometry, value: np.ndarray) -> Array:
    """The element of every window at one offset per axis, ``value`` where that is padding."""
    steps = step_axes(geometry.positions, grid.ndim - len(geometry.axes))
    config = [(0, 0, 0)] * grid.ndim
    for step, axis, t in zip(steps, geometry.axes, place, strict=True):
        group, phase = divmod(t * axis.dilation - axis.pad_low, axis.stride)
        config[step - 1] = (-group, axis.out + group - axis.groups, 0)
        config[step] = (-phase, phase + 1 - axis.stride, 0)
    return jnp.squeeze(lax.pad(grid, value, config), steps)


def put(geometry: Geometry, phase: Sequence[int], shift: Sequence[int]) -> Read:
    """Return the function that puts the window ``shift`` further into one phase of each group."""

    def shifted(x: Array, value: np.ndarray) -> Array:
        steps = step_axes(geometry.positions, x.ndim)
        config = [(0, 0, 0)] * (x.ndim + len(steps))
        for at, axis, r, distance in zip(steps, geometry.axes, phase, shift, strict=True):
            config[at - 1] = (-distance, axis.groups + distance - axis.out, 0)
            config[at] = (r, axis.stride - 1 - r, 0)
        return lax.pad(jnp.expand_dims(x, steps), value, config)

    return shifted


def stored(x: Array, pooled: int) -> Array:
    """``x``, in memory in the order of its axes, but where an export leaves their lengths open.

    JAX (0.10.2) then asks for the sign of their product, which may not be known.
    """
    if not all(isinstance(length, int) for length in x.shape[:pooled]):
        return lax.optimization_barrier(x)
    merged_axes = x.reshape(math.prod(x.shape[:pooled]), *x.shape[pooled:])
    return lax.optimization_barrier(merged_axes).reshape(x.shape)


def inside(place: Sequence[int], geometry: Geometry, shape: Sequence[int]) -> Array | None:
    """Whether the offset is an element of every window, or None if it always is.

    Args:
      place: the offset along each axis.
      geometry: the windows.
      shape: of the arrays of windows.
    """
    found = None
    for (axis, position), t in zip(geometry.placed, place, strict=True):
        start = t * axis.dilation - axis.pad_low
        if start >= 0 and start + (axis.out - 1) * axis.stride < axis.size:
            continue
        window = lax.broadcasted_iota(jnp.int32, shape, len(shape) + position)
        element = window * axis.stride + start
        here = (element >= 0) & (element < axis.size)
        found = here if found is None else found & here
    return found
