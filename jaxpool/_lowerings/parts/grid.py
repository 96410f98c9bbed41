"""Pooled axes split into groups of ``stride`` elements and the steps of a group.

Element ``q * stride + r`` lies at step ``r`` of group ``q``; the steps that an offset reads are the
phases of :mod:`.phases`. An axis of steps lies behind each pooled one, which keeps the groups.

Of windows that do not overlap no one but ``q`` can hold the elements of group ``q`` of the padded
axis, at offset ``r / dilation`` if that is an integer below the window's length. So values of
windows become elements by a broadcast over the steps of every axis,

    elements[q * stride + r] = where(step of offsets[q] == r, g[q], 0),

which needs no sums and does not grow with the window.

Of any windows the elements at one offset of each are one step, shifted, of axes without their
padding: XLA:TPU and XLA:GPU read and write them in place. The pooled axes are made major, as
XLA:TPU keeps them in a network. A shift is a padding, negative where it cuts, and XLA:TPU makes it
part of the kernel that reads the array, as it does with no slice in steps. It does so where the
padding reads an operand of the kernel: what is computed of elements is computed of each slice, and
never sliced itself. An axis that is no whole number of groups is padded to one, which stores the
array once more.

The transpose puts windows where their elements are: a padding by the shift along the groups, and
one to ``stride`` entries along the steps.
"""

import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry
from .axis_slicing import each_place


def step_axes(positions: Sequence[int], rank: int) -> tuple[int, ...]:
    """Where axes of steps lie, one behind each axis at ascending ``positions``, all negative.

    ``rank`` is that of an array without them.
    """
    return tuple(rank + position + n + 1 for n, position in enumerate(positions))


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


# --- windows that do not overlap ------------------------------------------------------------------


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


# --- any windows ----------------------------------------------------------------------------------


Read = Callable[[Array, np.ndarray], Array]
"""Shifts an array of windows to the elements that they give to, ``value`` where there is none."""


def split(x: Array, geometry: Geometry, value: np.ndarray) -> Array:
    """Return ``x`` split; behind the last element, the last group has ``value``."""
    steps, config = step_axes(geometry.positions, x.ndim), [(0, 0, 0)] * x.ndim
    shape = list(x.shape)
    for at, (axis, position) in zip(steps, geometry.placed, strict=True):
        shape[at - 1 : at] = axis.groups, axis.stride
        config[position] = (0, axis.groups * axis.stride - axis.size, 0)
    return lax.pad(x, value, config).reshape(shape)


def each_offset(x: Array, geometry: Geometry, value: np.ndarray) -> list[Array]:
    """Return the element of every window at each offset, row-major; ``value`` in padding."""
    grid = split(x, geometry, value)
    return [_at(grid, place, geometry, value) for place in each_place(geometry)]


def _at(grid: Array, place: Sequence[int], geometry: Geometry, value: np.ndarray) -> Array:
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
