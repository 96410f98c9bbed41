"""Windows of filters as the implementations take them, and their taps one by one."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._geometry.resolve import Geometry, is_at_least, resolve
from .._geometry.window import Window
from .._lowerings import tuning
from .._lowerings.parts.axis_slicing import pad, tree_reduce
from .._lowerings.parts.every_tap import (
    Fold,
    Reads,
    padded_windows,
    reduce_taps,
    sum_of_named,
)
from .._lowerings.plan import Plan, plan_for
from .._xla.materialize import materialize
from ..reductions import Reduction
from ._arguments import Extent, Neighborhood

Offsets = np.ndarray
"""The taps of a window, row-major: an int array (taps, axes), from the first corner."""


def rectangle(
    shape: Sequence[int],
    extents: Sequence[Extent],
    padding: Sequence[tuple[int, int]] | None = None,
) -> Geometry:
    """Return the windows of all taps over an array of ``shape``, one at each place."""
    order = np.argsort([extent.position for extent in extents])
    ascending = [extents[n] for n in order]
    positions = tuple(extent.position for extent in ascending)
    pads = "VALID" if padding is None else [padding[n] for n in order]
    window = Window([extent.size for extent in ascending], 1, pads)
    return resolve(window, [shape[position] for position in positions], positions)


def with_room(x: Array, extents: Sequence[Extent], value: np.ndarray) -> Array:
    """Return ``x`` with more behind each symbolic axis that may not hold two windows.

    Only windows that are one too many read it, the last ones: see :func:`cut`.
    """
    for extent in extents:
        if may_be_short(x.shape[extent.position], extent):
            x = pad(x, extent.position, 0, 2 * extent.size, value)
    return x


def may_be_short(size: Any, extent: Extent) -> bool:
    """Whether an axis of unknown size is not known to hold two windows that do not overlap."""
    return not isinstance(size, int) and not is_at_least(size, 2 * extent.size)


def cut(y: Array, extents: Sequence[Extent], shape: Sequence[int]) -> Array:
    """Return ``y`` with as many windows as ``shape`` has elements along each filtered axis."""
    for extent in extents:
        if y.shape[extent.position] != shape[extent.position]:
            y = lax.slice_in_dim(y, 0, shape[extent.position], axis=extent.position)
    return y


def plan_of(x: Array, geometry: Geometry, reduction: Reduction) -> Plan:
    return plan_for(geometry, reduction, np.dtype(x.dtype))


def offsets_of(hood: Neighborhood) -> Offsets:
    """The taps of a neighbourhood, row-major, each an offset from the first corner."""
    return np.argwhere(hood.mask).astype(np.int32)


class Taps:
    """The elements of an extended array that the windows hold, tap by tap.

    Attributes:
      extents: the filtered axes.
      offsets: the taps, from the first corner of a window.
      shape: shape of the array before it was extended, which is that of the result.
      numbers: of the taps, from 0 up unless they are some of more.
    """

    def __init__(
        self,
        extents: Sequence[Extent],
        offsets: Offsets,
        shape: Sequence[int],
        numbers: Sequence[int] | np.ndarray | None = None,
    ) -> None:
        self.extents, self.offsets, self.shape = tuple(extents), offsets, tuple(shape)
        self.numbers = np.asarray(range(len(offsets)) if numbers is None else numbers, np.int32)

    def __len__(self) -> int:
        return len(self.offsets)

    def at(self, extended: Array, number: int) -> Array:
        """Return the element at tap ``number``, a Python int, of every window."""
        for extent, start in zip(self.extents, self.offsets[number], strict=True):
            end = int(start) + self.shape[extent.position]
            extended = lax.slice_in_dim(extended, int(start), end, axis=extent.position)
        return extended

    def each(self, extended: Array) -> Iterator[Array]:
        """The elements at each tap in turn; as many slices as taps."""
        return (self.at(extended, number) for number in range(len(self)))

    def reduce(self, fold: Fold, arrays: Sequence[Array], others: Sequence[Array] = ()) -> Any:
        """Return the reduction over all taps of extended arrays of one shape.

        ``others`` have an entry for each window.
        """
        if len(self) > tuning.MOST_TAPS_UNROLLED:
            fold = fold._replace(value=self._of_numbers(fold.value))
            return reduce_taps(self.reads(), fold, arrays, others)
        return functools.reduce(fold.combine, self._terms(fold, arrays, others))

    def _terms(self, fold: Fold, arrays: Sequence[Array], others: Sequence[Array]) -> list[Any]:
        elements = zip(*map(self.each, arrays), strict=True)
        return [fold.value(n, *own, *others) for n, own in zip(self.numbers, elements, strict=True)]

    def add_up(self, numbers: Array, g: Array, shape: Sequence[int]) -> Array:
        """Return an extended array of ``shape`` with ``g`` of each window added at one of its taps.

        Args:
          numbers: of the tap of each window.
          g: what is added there.
          shape: that of the extended array.
        """
        room = [(size - own, size - own, 0) for size, own in zip(shape, self.shape, strict=True)]
        held = padded_windows(g, numbers, room)
        first = np.asarray([room[extent.position][0] for extent in self.extents], np.int32)
        back, fold = (
            Taps(self.extents, first - self.offsets, shape, self.numbers),
            sum_of_named(g.dtype),
        )
        if len(self) > tuning.MOST_TAPS_UNROLLED:
            return back.reduce(fold, held)
        return tree_reduce(lax.add, back._terms(fold, materialize(*held), ()))

    def reads(self) -> Reads:
        """What windows read, as the implementations take it."""
        order = np.argsort([extent.position for extent in self.extents])
        axes = tuple(self.extents[n].position for n in order)
        table = self.offsets[:, order].T

        def shifts(numbers: Array) -> list[Array]:
            return [jnp.asarray(row)[numbers] for row in table]

        return Reads(axes, self.shape, (1,) * len(axes), len(self), shifts)

    def _of_numbers(self, value: Callable[..., Any]) -> Callable[..., Any]:
        """``value`` of the number of a tap, as a function of where it is among the taps."""
        if np.array_equal(self.numbers, np.arange(len(self))):
            return value
        return lambda n, *elements: value(jnp.asarray(self.numbers)[n], *elements)
