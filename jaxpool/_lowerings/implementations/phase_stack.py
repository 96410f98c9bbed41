"""Transpose gathers at window offsets, with the phases stacked: for XLA:GPU.

Phases, see :mod:`..parts.phase_sums`, are stacked after their axis and merged with it by a reshape,
the last axis first. XLA:GPU makes one kernel of this and of the sums.

Non-overlapping windows are a broadcast, see :mod:`..parts.grid`.
"""

import numpy as np
from jax import Array

from ..._geometry.resolve import Geometry
from .. import tuning
from ..parts import phase_sums
from ..parts.argreduce import ValueOffset
from ..parts.axis_slicing import pad_axes, slice_axis
from ..parts.grid import ShiftWindows, merge_phases, place_at_offsets
from ..parts.phase_sums import Phase, Step, Term
from ..parts.phases import interleave
from ..request import Request


def unsupported_reason(request: Request) -> str | None:
    """Return why stacked phases do not support ``request``, or None."""
    return None if request.geometry.taps <= tuning.MAX_TERMS_ON_GPU else request.unsplittable_reason


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return, for each element, the sum of the values of the windows whose offset selects it.

    Args:
      g: values of the windows, representable in ``dtype`` but stored in the accumulator dtype.
      offsets: the window offsets, row-major; an argmax if windows overlap and exceed 16 taps.
      geometry: the windows.
      dtype: the dtype that the result is rounded to.
    """
    if geometry.is_non_overlapping:
        on_steps = place_at_offsets(g.astype(dtype), offsets, geometry)
        return merge_phases(on_steps, geometry, g.ndim).astype(g.dtype)
    return phase_sums.scatter(g, offsets, geometry, dtype, sum_phases, tuning.MAX_TERMS_ON_GPU)


def sum_phases(
    g: Array, offsets: Array, step: Step, accum_dtype: np.dtype, result_dtype: np.dtype
) -> ValueOffset:
    """Return the sums of a step and the remaining offsets, see :data:`..parts.phase_sums.Sums`."""
    sums, remaining = {}, {}
    for phase, terms in step.terms.items():
        reads = [(term, _shift_to_groups(step.geometry, term)) for term in terms]
        pairs = [phase_sums.select_term(g, offsets, *read) for read in reads]
        sums[phase], remaining[phase] = phase_sums.sum_terms(pairs, accum_dtype, result_dtype)
    values = stack_phases(sums, step.geometry, np.zeros((), result_dtype))
    if step.last:
        return values, offsets
    return values, stack_phases(
        remaining, step.geometry, phase_sums.unselected_offset(offsets.dtype)
    )


def _shift_to_groups(geometry: Geometry, term: Term) -> ShiftWindows:
    """Return the function that gives group ``q``, on every axis, window ``q - shift``."""

    def shift_windows(x: Array, value: np.ndarray) -> Array:
        shifts = zip(geometry.placed, term.shift, strict=True)
        margins = {p: (n, axis.groups - n - axis.out, 0) for (axis, p), n in shifts}
        return pad_axes(x, margins, value)

    return shift_windows


def stack_phases(parts: dict[Phase, Array], geometry: Geometry, value: np.ndarray) -> Array:
    """Return the phases as one array, with ``value`` in the elements of missing phases."""
    for n in reversed(range(len(geometry.axes))):
        rows: dict[Phase, dict[int, Array]] = {}
        for phase, part in parts.items():
            rows.setdefault(phase[:n], {})[phase[n]] = part
        axis, position = geometry.placed[n]
        joined = {key: interleave(row, axis.stride, position, value) for key, row in rows.items()}
        parts = {key: slice_axis(a, position, 0, axis.size, 1) for key, a in joined.items()}
    return parts[()]
