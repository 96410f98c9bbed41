"""The transpose of reading windows at their offsets, as sums of shifted arrays.

The value ``g[o]`` of window ``o`` goes to the element that the window's offset names:

    dx[i] = sum over windows o and offsets t with o * stride - pad_low + t * dilation == i
            of where(offsets[o] == t, g[o], 0)

Let ``i = q * stride + phase``. For a phase and an offset there is at most one window, equally far
from every ``q``, so each phase of ``dx`` is a sum of shifted arrays:

    dx[q * stride + phase] = sum over (t, shift) of where(offsets[q + shift] == t, g[q + shift], 0)
    shift = (phase + pad_low - t * dilation) / stride, where that is an integer

A shift is a ``lax.pad`` of ``g`` and of ``offsets`` themselves and not of what is computed from
them, since XLA:TPU fuses a pad only where it reads an operand of the fusion. The terms are added
one after the other: XLA:GPU makes one kernel of a chain and several of a tree.

A fusion holds a limited number of terms. Larger windows take several steps, of some axes each: the
values that reach an element of the first axes come from windows with the same argmax along the
others, so they may be added there and share what is left of their offset. An axis that is longer
than a step takes windows of smaller windows for the same reason. So offsets must then be those of
an argmax; those of a single step may be any.

How phases become one array differs by platform: see ``phase_stack`` and ``phase_pads`` of
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
from .axis_slicing import levels
from .grid import Read
from .phases import offsets_by_phase

Phase = tuple[int, ...]
"""The phase of an element along every axis of a step."""

Sums = Callable[[Array, Array, "Step", np.dtype, np.dtype], ValueOffset]
"""``sums(g, offsets, step, wide, rounded)``: what a step adds up, and what is left of the offsets.
Sums run in ``wide``."""


class Term(NamedTuple):
    """What the windows ``shift`` further along each axis give: those of ``low <= offset < high``.

    What is left of their offset is ``passed`` less.
    """

    shift: tuple[int, ...]
    low: int
    high: int
    passed: int


class Step(NamedTuple):
    """Sums over some axes: from their windows to elements, or to smaller windows.

    Attributes:
      geometry: the axes.
      terms: those of each phase that some window reads.
      last: whether nothing is left of the offsets.
    """

    geometry: Geometry
    terms: dict[Phase, list[Term]]
    last: bool


# --- terms ----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def steps_of(geometry: Geometry, most: int) -> tuple[Step, ...]:
    """Steps of at most ``most`` terms, first axes first."""
    found, unit, waiting = [], geometry.taps, list(geometry.placed)
    while waiting:
        count = _axes_at_once([axis.kernel for axis, _ in waiting], most)
        taken, waiting = waiting[: max(count, 1)], waiting[max(count, 1) :]
        axes, positions = zip(*taken, strict=True)
        several = Geometry(axes, positions)
        unit //= several.taps
        found += [_step(several, unit)] if count else _level_steps(axes[0], positions[0], unit)
    return tuple(found)


def _axes_at_once(kernel: Sequence[int], most: int) -> int:
    products = itertools.accumulate(kernel, lambda a, b: a * b)
    return sum(1 for product in products if product <= most)


def _step(geometry: Geometry, unit: int) -> Step:
    """All offsets of some axes, each for itself."""
    lines = [_by_phase(axis, range(axis.kernel)) for axis in geometry.axes]
    terms: dict[Phase, list[Term]] = {}
    for phase in itertools.product(*lines):
        choices = itertools.product(*(line[r] for line, r in zip(lines, phase, strict=True)))
        terms[phase] = [_joint(choice, geometry.kernel, unit) for choice in choices]
    return Step(geometry, terms, unit == 1)


def _by_phase(axis: Axis, offsets: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
    """For each phase that a window reads, the offsets it reads it at and their shifts."""
    found: dict[int, list[tuple[int, int]]] = {}
    for phase, row in offsets_by_phase(axis, offsets).items():
        read = [(offset, shift) for offset, shift in row if -axis.groups < shift < axis.out]
        if read and phase < axis.size:
            found[phase] = read
    return found or {0: [(0, axis.out)]}  # past the last window: zeros


def _joint(choice: Sequence[tuple[int, int]], kernel: Sequence[int], unit: int) -> Term:
    joint = 0
    for (offset, _), length in zip(choice, kernel, strict=True):
        joint = joint * length + offset
    shift = tuple(shift for _, shift in choice)
    return Term(shift, joint * unit, (joint + 1) * unit, joint * unit)


def _level_steps(axis: Axis, position: int, unit: int) -> Iterator[Step]:
    """From windows to the smaller windows they are made of, on the grid of all their starts."""
    out, stride = axis.out, axis.stride
    for window, shifts in levels(axis.kernel, tuning.TERMS_RADIX):
        inner = window - shifts[-1]
        size, low = (out - 1) * stride + 1 + shifts[-1] * axis.dilation, 0
        if inner == 1:
            size, low = axis.size, axis.pad_low
        line = Axis(size, window, stride, axis.dilation, low, 0, 0, out)
        firsts = dict(zip(shifts, [0, *(shift + inner for shift in shifts)], strict=False))
        terms = {
            (phase,): [
                Term((step,), firsts[shift] * unit, (shift + inner) * unit, shift * unit)
                for shift, step in found
            ]
            for phase, found in _by_phase(line, shifts).items()
        }
        yield Step(Geometry((line,), (position,)), terms, unit == 1 and inner == 1)
        out, stride = size, 1


# --- sums -----------------------------------------------------------------------------------------


def scatter(
    g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype, sums: Sums, most: int
) -> Array:
    """Return the sum, for each element, of the values of the windows whose offset names it.

    Args:
      g: values of the windows, numbers of ``dtype`` in the dtype that sums of it run in.
      offsets: of the windows, row-major.
      geometry: the windows.
      dtype: what the result is rounded to, once.
      sums: adds up the terms of a step.
      most: terms that a step may have.
    """
    wide, g = g.dtype, g.astype(dtype)
    for step in steps_of(geometry, most):
        g, offsets = sums(g, offsets, step, wide, dtype if step.last else wide)
    return g.astype(wide)


def combined(given: Sequence[ValueOffset], wide: np.dtype, rounded: np.dtype) -> ValueOffset:
    """The sum of what terms give, and what is left of the offset that one of them took."""
    total = functools.reduce(lax.add, (value.astype(wide) for value, _ in given))
    return total.astype(rounded), functools.reduce(lax.min, (rest for _, rest in given))


def given(g: Array, offsets: Array, term: Term, read: Read) -> ValueOffset:
    """The values that a term gives, and what is left of the offsets it takes."""
    number = lambda value: np.asarray(value, offsets.dtype)  # noqa: E731
    zero = np.zeros((), g.dtype)
    there = read(offsets, sentinel(offsets.dtype))
    taken = lax.eq(there, number(term.low))
    if term.high > term.low + 1:
        below = lax.lt(there, number(term.high))
        taken = lax.bitwise_and(lax.ge(there, number(term.low)), below)
    value = select(taken, read(g, zero), zero)
    return value, select(taken, lax.sub(there, number(term.passed)), not_taken(offsets.dtype))


def not_taken(dtype: np.dtype) -> np.ndarray:
    """What is left of an offset that is not taken: more than any offset."""
    return np.asarray(np.iinfo(dtype).max, dtype)
