"""The transpose of reading windows at their offsets, each term padded to its phase: for XLA:TPU.

XLA:TPU keeps the arrays of a network with the pooled axes major, so that a shift along them is an
address. A padding is part of a fusion only where it reads an operand of the fusion. So a term of
:mod:`..parts.phase_sums` is one padding of ``g`` and one of the offsets, by the shift along the
groups of each axis and to one entry of ``stride`` along its phases. Terms are then as large as the
result, and their sum is one kernel that stores nothing beside it. A concatenation of phases would
store each of them, and a padding between elements is a slow kernel of its own.

An axis of length one has no place of its own in memory. XLA would put the phases before all groups
and then copy the result into the order of a network. Arrays whose pooled axes are merged have no
other order than that, so ``g`` and the offsets become such arrays, and no more, before a barrier.

Windows that do not overlap are a broadcast, see :mod:`..parts.grid`, where they are large,
since it does not grow with them, and over three axes, where XLA orders the terms in its own way all
the same and the copy costs more.
"""

import functools

import jax.numpy as jnp
import numpy as np
from jax import Array

from ..._geometry.resolve import Geometry
from .. import tuning
from ..parts import grid, phase_sums
from ..parts.argreduce import ValueOffset
from ..parts.axis_slicing import pooled_first
from ..parts.phase_sums import Step
from ..request import Request


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
    order, back, major = pooled_first(geometry, g.ndim)
    g, offsets = jnp.transpose(g, order), jnp.transpose(offsets, order)
    many = geometry.taps > tuning.MOST_TERMS_ON_TPU or len(geometry.axes) > 2
    if geometry.is_non_overlapping and many:
        dx = _broadcast(g.astype(dtype), offsets, major).astype(g.dtype)
    else:
        sums = functools.partial(_summed, pooled=len(major.axes))
        dx = phase_sums.scatter(g, offsets, major, dtype, sums, tuning.MOST_TERMS_ON_TPU)
    return jnp.transpose(dx, back)


def _summed(
    g: Array, offsets: Array, step: Step, wide: np.dtype, rounded: np.dtype, pooled: int
) -> ValueOffset:
    """Sum of the terms of all phases, each on the grid of groups and phases."""
    g, offsets = grid.stored(g, pooled), grid.stored(offsets, pooled)
    pairs = [
        phase_sums.given(g, offsets, term, grid.put(step.geometry, phase, term.shift))
        for phase, terms in step.terms.items()
        for term in terms
    ]
    values, left = phase_sums.combined(pairs, wide, rounded)
    geometry, rank = step.geometry, g.ndim
    return grid.merged(values, geometry, rank, False), grid.merged(left, geometry, rank, False)


def _broadcast(g: Array, offsets: Array, geometry: Geometry) -> Array:
    pooled = len(geometry.axes)
    g, offsets = grid.stored(g, pooled), grid.stored(offsets, pooled)
    elements = grid.stored(grid.on_grid(g, offsets, geometry), 2 * pooled)
    return grid.merged(elements, geometry, g.ndim)
