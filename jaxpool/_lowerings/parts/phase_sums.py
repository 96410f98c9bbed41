"""The transpose of reading windows at their offsets, as sums of shifted arrays.

The cotangent ``g[o]`` of window ``o`` is added to the element that the window's offset names:

    dx[i] = sum over windows o and offsets t with o * stride - pad_low + t * dilation == i
            of where(offsets[o] == t, g[o], 0)

Let ``i = q * stride + phase``. For one phase and one offset, at most one window satisfies the
condition, and its distance from ``q`` does not depend on ``q``. So each phase of ``dx`` is a sum of
shifted arrays, with one *term* for each offset ``t`` whose shift is an integer:

    dx[q * stride + phase] = sum over (t, shift) of where(offsets[q - shift] == t, g[q - shift], 0)
    shift = (t * dilation - pad_low - phase) / stride

For example, with kernel 3, stride 2 and no padding,

    dx[2 * q]     = where(offsets[q] == 0, g[q], 0) + where(offsets[q - 1] == 2, g[q - 1], 0),
    dx[2 * q + 1] = where(offsets[q] == 1, g[q], 0).

Shifts. A shift is a ``lax.pad`` of ``g`` and of ``offsets``, not of a value computed from them,
since XLA:TPU fuses a pad only where it reads an operand of the fusion. The terms are added
sequentially: XLA:GPU makes one kernel of a chain of additions and several of a tree.

Steps. A fusion can contain a limited number of terms, so larger windows take several steps. Each
step sums over some axes, the first axes first. Take rows, then columns: windows over the same
columns whose argmax lies in the same row have the same argmax: the first maximum of that row in
these columns. Their values may be added before the columns are considered, and they have the same
remaining offset.
An axis with more offsets than a step can have terms is split into levels of smaller windows, by the
same argument. Several steps therefore need the offsets of an argmax; a single step accepts any.

The way that phases become one array differs by platform: see ``phase_stack`` and ``phase_pads`` of
:mod:`..implementations`.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry
from ..._xla.select import select
from .. import tuning
from .argreduce import ValueOffset, sentinel
from .axis_slicing import window_levels
from .grid import ShiftWindows
from .phases import offsets_by_phase

Phase = tuple[int, ...]
"""The phase of an element along every axis of a step."""

Sums = Callable[[Array, Array, "Step", np.dtype, np.dtype], ValueOffset]
"""``sums(g, offsets, step, accum_dtype, result_dtype)`` returns the sums of a step and what remains
of the offsets. It adds in ``accum_dtype`` and rounds to ``result_dtype``."""


class Term(NamedTuple):
    """A term of the sum for group ``q``: window ``q - shift``, if ``low <= offset < high``.

    What remains of the offset is ``offset - passed``.
    """

    shift: tuple[int, ...]
    low: int
    high: int
    passed: int


class Step(NamedTuple):
    """Sums over some axes, from windows along them to elements or to smaller windows.

    Attributes:
      geometry: the axes.
      terms: the terms of each phase that some window reads.
      last: whether this is the last step, after which no offset remains.
    """

    geometry: Geometry
    terms: dict[Phase, list[Term]]
    last: bool = False


# --- terms ----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def steps_of(geometry: Geometry, max_terms: int) -> tuple[Step, ...]:
    """Return the steps of a scatter, each of at most ``max_terms`` terms, first axes first."""
    steps, unit, remaining = [], geometry.taps, list(geometry.placed)
    while remaining:
        count = _axes_of_step([axis.kernel for axis, _ in remaining], max_terms)
        current, remaining = remaining[: max(count, 1)], remaining[max(count, 1) :]
        axes, positions = zip(*current, strict=True)
        joint = Geometry(axes, positions)
        unit //= joint.taps
        steps += [_single_step(joint, unit)] if count else _level_steps(axes[0], positions[0], unit)
    return (*steps[:-1], steps[-1]._replace(last=True))


def _axes_of_step(kernel: Sequence[int], max_terms: int) -> int:
    """Return how many leading axes have at most ``max_terms`` offsets together."""
    products = itertools.accumulate(kernel, lambda a, b: a * b)
    return sum(1 for product in products if product <= max_terms)


def _single_step(geometry: Geometry, unit: int) -> Step:
    """Return the step over some axes that has a term for each of their offsets."""
    by_axis = [_by_phase(axis, range(axis.kernel)) for axis in geometry.axes]
    terms: dict[Phase, list[Term]] = {}
    for phase in itertools.product(*by_axis):
        rows = (of_axis[r].items() for of_axis, r in zip(by_axis, phase, strict=True))
        terms[phase] = [_term(choice, geometry.kernel, unit) for choice in itertools.product(*rows)]
    return Step(geometry, terms)


def _by_phase(axis: Axis, offsets: Sequence[int]) -> dict[int, dict[int, int]]:
    """Return, for each phase that some window reads, the offsets that read it by their shifts."""
    by_phase: dict[int, dict[int, int]] = {}
    for phase, row in offsets_by_phase(axis, offsets).items():
        read = {shift: t for shift, t in row.items() if -axis.out < shift < axis.groups}
        if read and phase < axis.size:
            by_phase[phase] = read
    return by_phase or {0: {-axis.out: 0}}  # a shift past the last window: the result is zeros


def _term(choice: Sequence[tuple[int, int]], kernel: Sequence[int], unit: int) -> Term:
    """Return the term of one shift and offset per axis; later steps have ``unit`` offsets."""
    number = 0
    for (_, offset), length in zip(choice, kernel, strict=True):
        number = number * length + offset
    shift = tuple(shift for shift, _ in choice)
    return Term(shift, number * unit, (number + 1) * unit, number * unit)


def _level_steps(axis: Axis, position: int, unit: int) -> Iterator[Step]:
    """Yield the steps along a long axis, from each level of windows to the next smaller windows.

    A smaller window may begin at any element, so those of each level have stride 1.
    """
    out, stride = axis.out, axis.stride
    for window, offsets in window_levels(axis.kernel, tuning.TERMS_RADIX):
        inner = window - offsets[-1]
        size, low = (out - 1) * stride + 1 + offsets[-1] * axis.dilation, 0
        if inner == 1:
            size, low = axis.size, axis.pad_low
        level_axis = Axis(size, window, stride, axis.dilation, low, 0, 0, out)
        firsts = dict(zip(offsets, [0, *(offset + inner for offset in offsets)], strict=False))
        terms = {
            (phase,): [
                Term((shift,), firsts[offset] * unit, (offset + inner) * unit, offset * unit)
                for shift, offset in row.items()
            ]
            for phase, row in _by_phase(level_axis, offsets).items()
        }
        yield Step(Geometry((level_axis,), (position,)), terms)
        out, stride = size, 1


# --- sums -----------------------------------------------------------------------------------------


def scatter(
    g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype, sums: Sums, max_terms: int
) -> Array:
    """Return the sum, for each element, of the values of the windows whose offset names it.

    Args:
      g: values of the windows, representable in ``dtype``, stored in the accumulator dtype.
      offsets: row-major offset of each window.
      geometry: the windows.
      dtype: the dtype to which the result is rounded, once; it is returned in that of ``g``.
      sums: adds the terms of a step.
      max_terms: the number of terms that a step may have.
    """
    accum_dtype, g = g.dtype, g.astype(dtype)
    for step in steps_of(geometry, max_terms):
        g, offsets = sums(g, offsets, step, accum_dtype, dtype if step.last else accum_dtype)
    return g.astype(accum_dtype)


def sum_terms(
    terms: Sequence[ValueOffset], accum_dtype: np.dtype, result_dtype: np.dtype
) -> ValueOffset:
    """Return the sum of the values of several terms, and the smallest of the remaining offsets.

    Terms that select a window of one group agree on the remaining offset. Other terms have
    :func:`unselected_offset`.
    """
    total = functools.reduce(lax.add, (value.astype(accum_dtype) for value, _ in terms))
    return total.astype(result_dtype), functools.reduce(lax.min, (offset for _, offset in terms))


def select_term(g: Array, offsets: Array, term: Term, read: ShiftWindows) -> ValueOffset:
    """Return the values that a term selects, 0 elsewhere, and what remains of their offsets."""
    number = lambda value: np.asarray(value, offsets.dtype)  # noqa: E731
    zero = np.zeros((), g.dtype)
    shifted = read(offsets, sentinel(offsets.dtype))
    hit = lax.eq(shifted, number(term.low))
    if term.high > term.low + 1:
        below = lax.lt(shifted, number(term.high))
        hit = lax.bitwise_and(lax.ge(shifted, number(term.low)), below)
    value = select(hit, read(g, zero), zero)
    return value, select(
        hit, lax.sub(shifted, number(term.passed)), unselected_offset(offsets.dtype)
    )


def unselected_offset(dtype: np.dtype) -> np.ndarray:
    """Return the remaining offset where a term selects no window: more than any offset."""
    return np.asarray(np.iinfo(dtype).max, dtype)
