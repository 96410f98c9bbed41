"""Which windows hold an element of one axis: the index arithmetic of every transpose.

Offset ``t`` of window ``o`` reads element ``o * stride + t * dilation`` of the padded axis. Let
that be ``q * stride + phase``. Then the phase is ``t * dilation mod stride``, the same for all
windows, and ``q = o + shift`` with ``shift = t * dilation // stride``. So the elements of one phase
are held by the windows ``q - shift``, one for each offset of that phase:

    elements[q, phase] = combine over shift of windows[q - shift]

which for each shift is a slice of the windows. An array of ``(q, phase)`` lies in memory as the
padded axis does.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis, cdiv
from ..._geometry.resolve import Geometry
from .. import tuning
from .axis_slicing import concatenate, pad, slice_axis
from .borders import nearest

Arrays = tuple[Array, ...]
"""Arrays that belong together, of shapes that broadcast to one another."""


class Phases(NamedTuple):
    """How the elements of a padded axis fall into phases.

    Attributes:
      first, last: the range of ``q`` that covers the elements of the axis.
      offsets: for each phase that an offset falls into, the offset of each shift.
    """

    first: int
    last: int
    offsets: dict[int, dict[int, int]]

    @property
    def shifts(self) -> list[int]:
        """Every shift of some phase."""
        return sorted({shift for offsets in self.offsets.values() for shift in offsets})


def offsets_by_phase(axis: Axis, offsets: Iterable[int]) -> dict[int, list[tuple[int, int]]]:
    """For each phase of an axis without its padding, the offsets that read it and their shifts.

    Offset ``t`` of window ``q + shift`` reads element ``q * stride + phase``.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    for offset in offsets:
        start = offset * axis.dilation - axis.pad_low
        phase = start % axis.stride
        found.setdefault(phase, []).append((offset, (phase - start) // axis.stride))
    return found


def phases_of(axis: Axis) -> Phases:
    """Return the phases of an axis."""
    in_padded = offsets_by_phase(replace(axis, pad_low=0), range(axis.kernel))
    offsets = {phase: {-shift: t for t, shift in row} for phase, row in in_padded.items()}
    last = cdiv(axis.pad_low + _read_length(axis), axis.stride)
    return Phases(axis.pad_low // axis.stride, last, offsets)


def runs(axis: Axis, phases: Phases, shifts: Sequence[int]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield ranges ``first <= q < last`` and the shifts at which a window holds their elements."""
    ends = {phases.first, phases.last}
    for q in itertools.chain(shifts, (shift + axis.out for shift in shifts)):
        if phases.first < q < phases.last:
            ends.add(q)
    for first, last in itertools.pairwise(sorted(ends)):
        yield first, last, [shift for shift in shifts if 0 <= first - shift < axis.out]


def _read_length(axis: Axis) -> int:
    """Elements up to the last one that a window reads, and at least one."""
    return max(1, min((axis.out - 1) * axis.stride + axis.span - axis.pad_low, axis.size))


def crop(x: Array, axis: Axis, position: int, identity: float = 0) -> Array:
    """Return the elements of an axis, out of whole groups of phases."""
    length = _read_length(axis)
    x = slice_axis(x, position, axis.pad_low % axis.stride, length, 1)
    return pad(x, position, 0, axis.size - length, np.asarray(identity, x.dtype))


def holders(x: Array, axis: Axis, position: int, value: float | np.ndarray = 0) -> Array:
    """Return the non-overlapping window of each group of phases, ``value`` without one."""
    phases = phases_of(axis)
    high = phases.last - axis.out
    return pad(x, position, -phases.first, high, np.asarray(value, x.dtype))


def surround(
    arrays: Arrays, values: Sequence[float | np.ndarray], geometry: Geometry
) -> tuple[Geometry, Arrays]:
    """Return windows past both ends of each axis, so that every shift of each element has one.

    Also the arrays of windows, with a value of each in those that are added. A transpose then is
    one loop, with no other for the elements at an end.
    """
    axes = []
    for axis, position in geometry.placed:
        phases = phases_of(axis)
        low = max(phases.shifts) - phases.first
        high = cdiv(axis.pad_low + axis.size, axis.stride) - axis.out
        start = axis.pad_low + low * axis.stride
        axes.append(replace(axis, pad_low=start, out=low + axis.out + high))
        arrays = tuple(
            pad(array, position, low, high, np.asarray(value, array.dtype))
            for array, value in zip(arrays, values, strict=True)
        )
    return Geometry(tuple(axes), geometry.positions), arrays


def over_elements(
    windows: Callable[[int], Arrays],
    identities: tuple[float | None, ...],
    axis: Axis,
    position: int,
    combine: Callable[[list[Arrays]], Arrays],
) -> Arrays:
    """Return for each element of an axis what the windows that hold it give, combined.

    Args:
      windows: for an offset, what each window gives to its element there, in arrays of one entry
        for each window.
      identities: of ``combine``, one number for each array: also the result for an element that no
        window holds. None where ``combine`` is to have the number of the nearest window, and such
        an element any.
      axis, position: the axis.
      combine: from what the windows give to some elements, the last window first, to the result.
    """
    constants = tuple(0 if identity is None else identity for identity in identities)
    phases = phases_of(axis)
    strided_rows = position == -1 and axis.stride > 1
    padded = strided_rows and len(phases.shifts) <= tuning.MOST_PADDED_SHIFTS
    groups: dict[int, list[Array]] = {}
    for phase, offsets in phases.offsets.items():
        at = {shift: windows(offset) for shift, offset in offsets.items()}
        every = phases.first, phases.last, list(at)
        parts = []
        for first, last, shifts in [every] if padded else runs(axis, phases, list(at)):
            given = [
                tuple(
                    _between(a, position, first - s, last - s, axis.out, identity)
                    for a, identity in zip(at[s], identities, strict=True)
                )
                for s in shifts
            ]
            like = next(iter(at.values()))
            parts.append(
                combine(given) if given else _constant(like, constants, position, last - first)
            )
        groups[phase] = [concatenate(arrays, position) for arrays in zip(*parts, strict=True)]
    received = []
    for n, identity in enumerate(constants):
        arrays = {phase: group[n] for phase, group in groups.items()}
        whole = interleave(arrays, axis.stride, position, identity)
        received.append(crop(whole, axis, position, identity))
    return tuple(received)


def _between(
    x: Array, position: int, start: int, stop: int, count: int, identity: float | None
) -> Array:
    """Entries ``start`` to ``stop`` of an axis of ``count``, ``identity`` beyond its ends."""
    if 0 <= start and stop <= count:
        return slice_axis(x, position, start, stop - start, 1)
    if identity is None:
        return nearest(x, position, -start, stop - count)
    return pad(x, position, -start, stop - count, np.asarray(identity, x.dtype))


def _constant(like: Arrays, values: tuple[float, ...], position: int, length: int) -> Arrays:
    def full(a: Array, value: float) -> Array:
        shape = list(a.shape)
        shape[position] = length
        return jnp.full(shape, value, a.dtype)

    return tuple(map(full, like, values))


def interleave(
    phases: Mapping[int, Array], stride: int, position: int, identity: float | np.ndarray = 0
) -> Array:
    """Return arrays of one phase each as one array, with ``identity`` in the other phases."""
    like = next(iter(phases.values()))
    if stride == 1:
        return like
    along, pieces, following = like.ndim + position + 1, [], 0
    for phase in (*sorted(phases), stride):
        if phase > following:
            missing = (*like.shape[:along], phase - following, *like.shape[along:])
            pieces.append(jnp.full(missing, identity, like.dtype))
        if phase < stride:
            pieces.append(jnp.expand_dims(phases[phase], along))
        following = phase + 1
    shape = list(like.shape)
    shape[position] *= stride
    return lax.concatenate(pieces, along).reshape(shape)


def stretch(x: Array, axis: Axis, position: int, identity: float = 0) -> Array:
    """Return ``x`` on the grid of all window starts, ``identity`` where no window starts."""
    config = [(0, 0, 0)] * x.ndim
    config[position] = (0, 0, axis.stride - 1)
    return lax.pad(x, np.asarray(identity, x.dtype), config)


def room_of_windows(axis: Axis) -> tuple[int, int, int]:
    """Return the padding of ``lax.pad`` that makes the windows of an element a window.

    Window ``o`` then lies at ``o * stride``, and the windows of element ``i`` begin at ``i``, of
    stride one and of the same dilation, the last offset first.
    """
    last = (axis.out - 1) * axis.stride
    return axis.span - 1 - axis.pad_low, axis.size - 1 - last + axis.pad_low, axis.stride - 1


def mirrored(axis: Axis) -> Axis:
    """Return the windows over window starts that hold those of the windows of each element."""
    size = (axis.out - 1) * axis.stride + 1
    low = axis.span - 1 - axis.pad_low
    return Axis(size, axis.kernel, 1, axis.dilation, low, 0, 0, axis.size)
