"""The transpose of reading windows at their offsets, each term padded to its phase: for XLA:TPU.

XLA:TPU keeps the arrays of a network with the pooled axes major, so that a shift along them is an
address. A padding is part of a fusion where it reads an operand of it, and nowhere else. So a term
of :mod:`.phase_sums` is one padding of ``g`` and one of the offsets, by the shift along the groups
of each axis and to one entry of ``stride`` along its phases. Terms are then as large as the result,
and their sum is one kernel that stores nothing beside it. A concatenation of phases would store
each of them, and a padding between elements is a slow kernel of its own.

An axis of length one has no place of its own in memory. XLA would put the phases before all groups
and then copy the result into the order of a network. Arrays whose pooled axes are merged have no
other order than that, so ``g`` and the offsets become such arrays, and no more, before a barrier.

Windows that do not overlap are a broadcast, see :mod:`.window_grid`, where they are large, since it
does not grow with them, and over three axes, where XLA orders the terms in its own way all the same
and the copy costs more.
"""

import functools
import math

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._geometry.resolve import Geometry
from . import phase_sums, tuning
from .argreduce import ValueOffset
from .axis_slicing import pooled_first
from .phase_sums import Phase, Step, Term, groups
from .request import Request
from .window_grid import merged, on_grid, step_axes


def unsupported_reason(request: Request) -> str | None:
    """Return why padded phases do not compute what is asked, or None."""
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
    g, offsets = jnp.transpose(g, order), jnp.transpose(offsets, order)
    many = geometry.taps > tuning.MOST_TERMS_ON_TPU or len(geometry.axes) > 2
    if geometry.is_non_overlapping and many:
        dx = _broadcast(g.astype(dtype), offsets, major).astype(g.dtype)
    else:
        sums = functools.partial(_summed, pooled=len(major.axes))
        dx = phase_sums.scatter(g, offsets, major, dtype, sums, tuning.MOST_TERMS_ON_TPU)
    return jnp.transpose(dx, tuple(np.argsort(order)))


def _summed(
    g: Array, offsets: Array, step: Step, wide: np.dtype, rounded: np.dtype, pooled: int
) -> ValueOffset:
    """Sum of the terms of all phases, each on the grid of groups and phases."""
    g, offsets = stored(g, pooled), stored(offsets, pooled)
    pairs = [
        phase_sums.given(g, offsets, step, term, placed(step.geometry, phase, term))
        for phase, terms in step.terms.items()
        for term in terms
    ]
    values, left = phase_sums.combined(pairs, wide, rounded)
    return elements(values, step.geometry, g.ndim), elements(left, step.geometry, g.ndim)


def stored(x: Array, pooled: int) -> Array:
    """``x``, in memory in the order of its axes, but where an export leaves their lengths open.

    JAX (0.10.2) then asks for the sign of their product, which may not be known.
    """
    if not all(isinstance(length, int) for length in x.shape[:pooled]):
        return lax.optimization_barrier(x)
    merged_axes = x.reshape(math.prod(x.shape[:pooled]), *x.shape[pooled:])
    return lax.optimization_barrier(merged_axes).reshape(x.shape)


def placed(geometry: Geometry, phase: Phase, term: Term) -> phase_sums.Read:
    """Return the function that puts the window ``shift`` further into one phase of each group."""

    def shifted(x: Array, value: np.ndarray) -> Array:
        steps = step_axes(geometry, x.ndim)
        config = [(0, 0, 0)] * (x.ndim + len(steps))
        for at, axis, r, distance in zip(steps, geometry.axes, phase, term.shift, strict=True):
            config[at - 1] = (-distance, groups(axis) + distance - axis.out, 0)
            config[at] = (r, axis.stride - 1 - r, 0)
        return lax.pad(jnp.expand_dims(x, steps), value, config)

    return shifted


def elements(grid: Array, geometry: Geometry, rank: int) -> Array:
    """The elements of a grid of groups and phases."""
    shape, config = list(grid.shape), [(0, 0, 0)] * rank
    for at in reversed(step_axes(geometry, rank)):
        shape[at - 1 : at + 1] = [shape[at - 1] * shape[at]]
    for axis, position in geometry.placed:
        config[position] = (0, axis.size - shape[position], 0)
    return lax.pad(grid.reshape(shape), np.zeros((), grid.dtype), config)


def _broadcast(g: Array, offsets: Array, geometry: Geometry) -> Array:
    pooled = len(geometry.axes)
    grid = on_grid(stored(g, pooled), stored(offsets, pooled), geometry)
    return merged(stored(grid, 2 * pooled), geometry, g.ndim)
