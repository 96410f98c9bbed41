"""Transpose gathers at window offsets, with each term padded to its phase: for XLA:TPU.

XLA:TPU stores the arrays of a network with the pooled axes major, so a shift along them is only an
address. A padding is part of a fusion only if it reads an operand of the fusion. So a term of
:mod:`..parts.phase_sums` is one padding of ``g`` and one of the offsets: by the shift along the
groups of each axis, and from one entry to ``stride`` entries along its phases. Terms are then as
large as the result, and their sum is one kernel, which stores only the result. A concatenation of
phases would store each phase, and a padding between elements is a slow separate kernel.

An axis of length one has no fixed position in a layout. XLA would place the phases before all
groups and then copy the result into the order of a network. Merged pooled axes have no other order,
so ``g`` and the offsets, but not the terms, pass a barrier with their pooled axes merged.

Non-overlapping windows are a broadcast, see :mod:`..parts.grid`, if they are large, since its cost
does not grow with them, and over three axes, where XLA reorders the terms nevertheless and the copy
costs more.
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
    """Return why padded phases do not support ``request``, or None."""
    return None if request.geometry.taps <= tuning.MAX_TERMS_ON_TPU else request.unsplittable_reason


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return, for each element, the sum of the values of the windows whose offset selects it.

    Args:
      g: values of the windows, representable in ``dtype`` but stored in the accumulator dtype.
      offsets: the window offsets, row-major; an argmax if windows overlap and exceed 16 taps.
      geometry: the windows.
      dtype: the dtype that the result is rounded to.
    """
    order, inverse, major = pooled_first(geometry, g.ndim)
    g, offsets = jnp.transpose(g, order), jnp.transpose(offsets, order)
    by_broadcast = geometry.taps > tuning.MAX_TERMS_ON_TPU or len(geometry.axes) > 2
    if geometry.is_non_overlapping and by_broadcast:
        dx = _broadcast_to_elements(g.astype(dtype), offsets, major).astype(g.dtype)
    else:
        sums = functools.partial(_sum_terms, pooled=len(major.axes))
        dx = phase_sums.scatter(g, offsets, major, dtype, sums, tuning.MAX_TERMS_ON_TPU)
    return jnp.transpose(dx, inverse)


def _sum_terms(
    g: Array, offsets: Array, step: Step, accum_dtype: np.dtype, result_dtype: np.dtype, pooled: int
) -> ValueOffset:
    """Return the sum of the terms of all phases, each on the grid of groups and phases."""
    g, offsets = grid.materialize_row_major(g, pooled), grid.materialize_row_major(offsets, pooled)
    pairs = [
        phase_sums.select_term(
            g, offsets, term, grid.shift_into_phase(step.geometry, phase, term.shift)
        )
        for phase, terms in step.terms.items()
        for term in terms
    ]
    sums = phase_sums.sum_terms(pairs, accum_dtype, result_dtype)
    values, remaining = (grid.merge_phases(a, step.geometry, g.ndim, False) for a in sums)
    return values, remaining


def _broadcast_to_elements(g: Array, offsets: Array, geometry: Geometry) -> Array:
    """Return the elements by a broadcast over the steps of every axis."""
    pooled = len(geometry.axes)
    g, offsets = grid.materialize_row_major(g, pooled), grid.materialize_row_major(offsets, pooled)
    elements = grid.materialize_row_major(grid.place_at_offsets(g, offsets, geometry), 2 * pooled)
    return grid.merge_phases(elements, geometry, g.ndim)
