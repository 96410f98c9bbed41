"""The transpose of reading windows at their offsets, its phases stacked: for XLA:GPU.

Phases, see :mod:`..parts.phase_sums`, are stacked behind their axis and reshaped, the last axis
first. XLA:GPU makes one kernel of this and of the sums.

Windows that do not overlap are a broadcast, see :mod:`..parts.grid`.
"""

import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry
from .. import tuning
from ..parts import phase_sums
from ..parts.argreduce import ValueOffset
from ..parts.axis_slicing import slice_axis
from ..parts.grid import Read, merged, on_grid
from ..parts.phase_sums import Phase, Step, Term
from ..parts.phases import interleave
from ..request import Request


def unsupported_reason(request: Request) -> str | None:
    """Return why stacked phases do not compute what is asked, or None."""
    return None if request.geometry.taps <= tuning.MOST_TERMS_ON_GPU else request.disagreement


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return the sum, for each element, of the values of the windows whose offset names it.

    Args:
      g: values of the windows, numbers of ``dtype`` in the dtype that sums of it run in.
      offsets: of the windows, row-major; beyond 16 elements of overlapping windows an argmax.
      geometry: the windows.
      dtype: what the result is rounded to.
    """
    if geometry.is_non_overlapping:
        grid = on_grid(g.astype(dtype), offsets, geometry)
        return merged(grid, geometry, g.ndim).astype(g.dtype)
    return phase_sums.scatter(g, offsets, geometry, dtype, summed, tuning.MOST_TERMS_ON_GPU)


def summed(g: Array, offsets: Array, step: Step, wide: np.dtype, rounded: np.dtype) -> ValueOffset:
    """What a step adds up, and what is left of the offsets, see :data:`..parts.phase_sums.Sums`."""
    sums, left = {}, {}
    for phase, terms in step.terms.items():
        reads = [(term, _shifted(step.geometry, term)) for term in terms]
        pairs = [phase_sums.given(g, offsets, *read) for read in reads]
        sums[phase], left[phase] = phase_sums.combined(pairs, wide, rounded)
    values = stacked(sums, step.geometry, np.zeros((), rounded))
    if step.last:
        return values, offsets
    return values, stacked(left, step.geometry, phase_sums.not_taken(offsets.dtype))


def _shifted(geometry: Geometry, term: Term) -> Read:
    """Return the function that gives each group of every axis the window ``shift`` further."""

    def shifted(x: Array, value: np.ndarray) -> Array:
        config = [(0, 0, 0)] * x.ndim
        for (axis, position), distance in zip(geometry.placed, term.shift, strict=True):
            config[position] = (-distance, axis.groups + distance - axis.out, 0)
        return lax.pad(x, value, config)

    return shifted


def stacked(parts: dict[Phase, Array], geometry: Geometry, value: np.ndarray) -> Array:
    """The phases as one array; elements of a phase that is not given have ``value``."""
    for number in reversed(range(len(geometry.axes))):
        rows: dict[Phase, dict[int, Array]] = {}
        for phase, part in parts.items():
            rows.setdefault(phase[:number], {})[phase[number]] = part
        axis, position = geometry.placed[number]
        whole = {rest: interleave(row, axis.stride, position, value) for rest, row in rows.items()}
        parts = {rest: slice_axis(a, position, 0, axis.size, 1) for rest, a in whole.items()}
    return parts[()]
