"""The transpose of reading windows at their offsets, its phases written in place: for XLA:TPU.

XLA:TPU keeps the arrays of a network with the pooled axes major, so that a shift or a stride along
them is an address. There each phase, see :mod:`.phase_sums`, is written into an array that starts
uninitialised: one kernel a phase, and nothing is stored beside the result. A concatenation would
store every phase before it pads it, and a padding between elements is a slow kernel of its own.

Windows that do not overlap are a broadcast, see :mod:`.window_grid`. By itself it would be stored
in the layout that XLA prefers for it; written in place in two parts, the first row of steps and the
others, it is fused.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._geometry.resolve import Geometry
from .._xla.uninitialized import uninitialized
from . import phase_sums, tuning
from .axis_slicing import pooled_first
from .phase_sums import Phase, groups
from .request import Request
from .window_grid import merged, on_grid, step_axes


def unsupported_reason(request: Request) -> str | None:
    """Return why phases in place do not compute what is asked, or None."""
    return None if request.geometry.taps <= tuning.MOST_TERMS_ON_TPU else request.disagreement


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return the sum, for each element, of the values of the windows whose offset names it.

    Args:
      g: values of the windows, numbers of ``dtype`` in the dtype that sums of it run in.
      offsets: of the windows, row-major; beyond 16 elements of overlapping windows an argmax.
      geometry: the windows.
      dtype: what the result is rounded to.
    """
    order, major = pooled_first(geometry, g.ndim)
    # What makes them is no part of a fusion that pads them.
    g, offsets = lax.optimization_barrier((jnp.transpose(g, order), jnp.transpose(offsets, order)))
    if geometry.is_non_overlapping:
        dx = _non_overlapping(g.astype(dtype), offsets, major).astype(g.dtype)
    else:
        dx = phase_sums.scatter(g, offsets, major, dtype, in_place, tuning.MOST_TERMS_ON_TPU)
    return jnp.transpose(dx, tuple(np.argsort(order)))


def in_place(parts: dict[Phase, Array], geometry: Geometry, value: np.ndarray) -> Array:
    """The phases as one array; elements of a phase that is not given have ``value``."""
    like = next(iter(parts.values()))
    axes, strides = step_axes(geometry, like.ndim), [axis.stride for axis in geometry.axes]
    if math.prod(strides) == 1:
        return like
    shape = list(jnp.expand_dims(like, axes).shape)
    for axis, stride in zip(axes, strides, strict=True):
        shape[axis] = stride
    all_given = len(parts) == math.prod(strides)
    whole = uninitialized(shape, like.dtype) if all_given else jnp.full(shape, value)
    for phase, part in parts.items():
        whole = _updated(whole, jnp.expand_dims(part, axes), dict(zip(axes, phase, strict=True)))
    return _cropped(whole, like, geometry)


def _updated(whole: Array, part: Array, starts: dict[int, int]) -> Array:
    start = [starts.get(axis, 0) for axis in range(whole.ndim)]
    return lax.dynamic_update_slice(whole, part, start)


def _cropped(whole: Array, like: Array, geometry: Geometry) -> Array:
    """The elements of a grid of groups and phases."""
    shape, config = list(like.shape), [(0, 0, 0)] * like.ndim
    for axis, position in geometry.placed:
        shape[position] = groups(axis) * axis.stride
        config[position] = (0, axis.size - shape[position], 0)
    return lax.pad(whole.reshape(shape), np.zeros((), whole.dtype), config)


def _non_overlapping(g: Array, offsets: Array, geometry: Geometry) -> Array:
    axes, stride = step_axes(geometry, g.ndim), geometry.axes[0].stride
    if stride == 1:
        return merged(on_grid(g, offsets, geometry, 0, 1), geometry, g.ndim)
    first = on_grid(g, offsets, geometry, 0, 1)
    others = on_grid(g, offsets, geometry, 1, stride)
    shape = list(first.shape)
    shape[axes[0]] = stride
    whole = _updated(uninitialized(shape, g.dtype), first, {})
    return merged(_updated(whole, others, {axes[0]: 1}), geometry, g.ndim)
