"""Which windows contain an element of one axis: the index arithmetic of every transpose.

Offset ``t`` of window ``o`` reads element ``o * stride + t * dilation`` of the padded axis. Write
that element as ``q * stride + phase``, with ``0 <= phase < stride``. Then

    phase = t * dilation mod stride,    q = o + shift    with    shift = t * dilation // stride.

Neither ``phase`` nor ``shift`` depends on the window. Every offset therefore belongs to one phase,
and the windows that contain the elements of a phase are ``q - shift``, one for each offset of it:

    elements[q, phase] = combine over shift of windows[q - shift].

For each shift, that is a slice of the windows. For example, with kernel 3, stride 2, dilation 1:

    phase 0: offset 0 has shift 0, offset 2 has shift 1    elements[q, 0] from windows q and q - 1
    phase 1: offset 1 has shift 0                          elements[q, 1] from window q

A row-major array ``[q, phase]`` has the same memory layout as the padded axis.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis, cdiv
from ..._geometry.layout import with_lengths
from ..._geometry.resolve import Geometry
from .. import tuning
from .axis_slicing import T, concatenate, pad, pad_axes, slice_axis, tree_reduce
from .borders import extend_nearest

Arrays = tuple[Array, ...]
"""Arrays that are processed together, such as values and offsets; their shapes broadcast."""


class Phases(NamedTuple):
    """The phases of a padded axis.

    Attributes:
      first, last: the range ``first <= q < last`` that covers the elements that windows read.
      offsets: from a phase that an offset belongs to, to a dict from each shift to its offset.
    """

    first: int
    last: int
    offsets: dict[int, dict[int, int]]

    @property
    def shifts(self) -> list[int]:
        """The shifts of all phases, ascending."""
        return sorted({shift for offsets in self.offsets.values() for shift in offsets})


def offsets_by_phase(axis: Axis, offsets: Iterable[int]) -> dict[int, dict[int, int]]:
    """Return, for each phase of the unpadded axis, its offsets by their shifts.

    Window ``q - shift`` reads element ``q * stride + phase`` at that offset.
    """
    by_phase: dict[int, dict[int, int]] = {}
    for offset in offsets:
        shift, phase = divmod(offset * axis.dilation - axis.pad_low, axis.stride)
        by_phase.setdefault(phase, {})[shift] = offset
    return by_phase


def phases_of(axis: Axis) -> Phases:
    """Return the phases of the padded axis."""
    offsets = offsets_by_phase(replace(axis, pad_low=0), range(axis.kernel))
    last = cdiv(axis.pad_low + _read_length(axis), axis.stride)
    return Phases(axis.pad_low // axis.stride, last, offsets)


def group_ranges(
    axis: Axis, phases: Phases, shifts: Sequence[int]
) -> Iterator[tuple[int, int, list[int]]]:
    """Yield ranges ``first <= q < last``, each with those ``shifts`` for which it has windows.

    Window ``q - shift`` exists for every ``q`` of the range or for none. Groups near an end of the
    axis have fewer windows than those in the middle.
    """
    ends = {phases.first, phases.last}
    for q in itertools.chain(shifts, (shift + axis.out for shift in shifts)):
        if phases.first < q < phases.last:
            ends.add(q)
    for first, last in itertools.pairwise(sorted(ends)):
        yield first, last, [shift for shift in shifts if 0 <= first - shift < axis.out]


def _read_length(axis: Axis) -> int:
    """Return the number of elements up to the last one that a window reads, at least 1."""
    return max(1, min((axis.out - 1) * axis.stride + axis.span - axis.pad_low, axis.size))


def crop(x: Array, axis: Axis, position: int, identity: float = 0) -> Array:
    """Crop an axis of full groups to its elements; those past the last window are ``identity``."""
    length = _read_length(axis)
    x = slice_axis(x, position, axis.pad_low % axis.stride, length, 1)
    return pad(x, position, 0, axis.size - length, identity)


def windows_of_groups(x: Array, axis: Axis, position: int, value: float | np.ndarray = 0) -> Array:
    """Return, for each group, the only window that can contain its elements, or ``value``.

    The windows do not overlap.
    """
    phases = phases_of(axis)
    return pad(x, position, -phases.first, phases.last - axis.out, value)


def pad_windows(
    arrays: Arrays, values: tuple[float | np.ndarray, ...], geometry: Geometry
) -> tuple[Geometry, Arrays]:
    """Add windows at both ends of each axis, so that every shift of every element has a window.

    A transpose is then one loop, without separate loops for the elements near the ends.

    Args:
      arrays: arrays of windows.
      values: for each array, its value in the added windows.
      geometry: the windows.
    Returns:
      The geometry with the added windows, and the padded arrays.
    """
    axes = []
    for axis, position in geometry.placed:
        phases = phases_of(axis)
        low = max(phases.shifts) - phases.first
        high = cdiv(axis.pad_low + axis.size, axis.stride) - axis.out
        start = axis.pad_low + low * axis.stride
        axes.append(replace(axis, pad_low=start, out=low + axis.out + high))
        arrays = pad(arrays, position, low, high, values)
    return Geometry(tuple(axes), geometry.positions), arrays


def combine_over_elements(
    windows: Callable[[int], Arrays],
    identities: tuple[float | None, ...],
    axis: Axis,
    position: int,
    combine: Callable[[list[Arrays]], Arrays],
) -> Arrays:
    """Combine, for each element of an axis, the contributions of the windows that contain it.

    Args:
      windows: returns, for an offset, the contribution of each window to the element that it reads
        there, as arrays with one entry for each window.
      identities: the identity of ``combine`` for each array, which is also the result for an
        element in no window. None if ``combine`` can accept the contribution of the nearest window
        instead; the result for an element in no window is then arbitrary.
      axis, position: the axis.
      combine: maps a list of contributions to the same elements, last window first, to the result.
    """
    constants = tuple(0 if identity is None else identity for identity in identities)
    phases = phases_of(axis)

    def combine_range(
        by_shift: dict[int, Arrays], first: int, last: int, shifts: list[int]
    ) -> Arrays:
        if not shifts:
            return _full_like(next(iter(by_shift.values())), constants, position, last - first)
        terms = [
            tuple(
                _slice_or_pad(a, position, first - s, last - s, axis.out, identity)
                for a, identity in zip(by_shift[s], identities, strict=True)
            )
            for s in shifts
        ]
        return combine(terms)

    groups: dict[int, list[Array]] = {}
    for phase, offsets in phases.offsets.items():
        by_shift = {shift: windows(offset) for shift, offset in offsets.items()}
        ranges = _concatenated_ranges(axis, position, phases, list(by_shift))
        parts = [combine_range(by_shift, *of_range) for of_range in ranges]
        groups[phase] = [concatenate(arrays, position) for arrays in zip(*parts, strict=True)]
    return _join_phases(groups, axis, position, constants)


def add_over_elements(windows: Callable[[int], Array], axis: Axis, position: int) -> Array:
    """Add, for each element of an axis, what ``windows`` returns for the windows that contain it.

    This is :func:`combine_over_elements` for one array and its sum.
    """

    def total(terms: list[Arrays]) -> Arrays:
        return (tree_reduce(lax.add, [term for (term,) in terms]),)

    return combine_over_elements(lambda t: (windows(t),), (0,), axis, position, total)[0]


def _concatenated_ranges(
    axis: Axis, position: int, phases: Phases, shifts: list[int]
) -> Iterable[tuple[int, int, list[int]]]:
    """Return :func:`group_ranges`, or one range of padded windows where that compiles faster."""
    is_strided_row = position == -1 and axis.stride > 1
    if is_strided_row and len(phases.shifts) <= tuning.MAX_PADDED_SHIFTS:
        return [(phases.first, phases.last, shifts)]
    return group_ranges(axis, phases, shifts)


def _join_phases(
    groups: dict[int, list[Array]], axis: Axis, position: int, identities: tuple[float, ...]
) -> Arrays:
    """Return each array over the elements of an axis, from its parts for each phase."""
    results = []
    for n, identity in enumerate(identities):
        arrays = {phase: group[n] for phase, group in groups.items()}
        interleaved = interleave(arrays, axis.stride, position, identity)
        results.append(crop(interleaved, axis, position, identity))
    return tuple(results)


def _slice_or_pad(
    x: Array, position: int, start: int, stop: int, count: int, identity: float | None
) -> Array:
    """Return ``x[start:stop]`` of an axis of length ``count``, padded where that exceeds it.

    The padding is ``identity``, or if that is None, the first or last entry.
    """
    if 0 <= start and stop <= count:
        return slice_axis(x, position, start, stop - start, 1)
    if identity is None:
        return extend_nearest(x, position, -start, stop - count)
    return pad(x, position, -start, stop - count, identity)


def _full_like(arrays: Arrays, values: tuple[float, ...], position: int, length: int) -> Arrays:
    def full(a: Array, value: float) -> Array:
        return jnp.full(with_lengths(a.shape, [position], [length]), value, a.dtype)

    return tuple(map(full, arrays, values))


def interleave(
    phases: Mapping[int, Array], stride: int, position: int, identity: float | np.ndarray = 0
) -> Array:
    """Interleave arrays of one phase each along an axis; missing phases are ``identity``."""
    like = next(iter(phases.values()))
    if stride == 1:
        return like
    phase_axis, pieces, next_phase = like.ndim + position + 1, [], 0
    for phase in (*sorted(phases), stride):
        if phase > next_phase:
            missing = (*like.shape[:phase_axis], phase - next_phase, *like.shape[phase_axis:])
            pieces.append(jnp.full(missing, identity, like.dtype))
        if phase < stride:
            pieces.append(jnp.expand_dims(phases[phase], phase_axis))
        next_phase = phase + 1
    shape = list(like.shape)
    shape[position] *= stride
    return concatenate(pieces, phase_axis).reshape(shape)


def dilate_windows(x: T, axis: Axis, position: int, identities: Any = 0) -> T:
    """Move window ``o`` of an axis to index ``o * stride``, with ``identities`` in between."""
    return pad_axes(x, {position: (0, 0, axis.stride - 1)}, identities)


def transpose_padding(axis: Axis) -> tuple[int, int, int]:
    """Return a ``lax.pad`` configuration after which the transpose slides over the windows.

    The interior padding puts window ``o`` at ``o * stride``, after the low padding. The windows
    that contain element ``i`` are then a window that begins at ``i``, with stride 1, the kernel and
    dilation of ``axis``, and its taps in reverse order: the first tap is the last offset.
    """
    last = (axis.out - 1) * axis.stride
    return axis.span - 1 - axis.pad_low, axis.size - 1 - last + axis.pad_low, axis.stride - 1


def transposed_axis(axis: Axis) -> Axis:
    """Return the axis of the transpose: one window for each element, over the dilated windows.

    Window ``i`` reads, in the array that :func:`dilate_windows` returns, the windows that contain
    element ``i``. Its last tap is their offset 0.
    """
    size = (axis.out - 1) * axis.stride + 1
    low = axis.span - 1 - axis.pad_low
    return Axis(size, axis.kernel, 1, axis.dilation, low, 0, 0, axis.size)
