"""Windows of filters as the implementations take them, and their taps one by one."""

from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._geometry.resolve import Geometry, resolve
from .._geometry.window import Window
from .._lowerings import tuning
from .._lowerings.parts.axis_slicing import tree_reduce
from .._lowerings.plan import Plan, plan_for
from .._xla.materialize import materialize
from .._xla.sharding_types import varying_alike
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
        numbers: Sequence[int] | None = None,
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

    def walk(self, step: Any, state: Any, extended: Array) -> Any:
        """Return ``step(number, elements at that tap, state)`` taken over all taps in turn.

        A loop if there are many, so that the program does not grow with them.
        """
        if len(self) <= tuning.MOST_TAPS_UNROLLED:
            for number, elements in zip(self.numbers, self.each(extended), strict=True):
                state = step(number, elements, state)
            return state
        extended, state = varying_alike((extended, state))
        starts, numbers = jnp.asarray(self._starts()), jnp.asarray(self.numbers)

        def body(n: Array, state: Any) -> Any:
            return step(numbers[n], lax.dynamic_slice(extended, starts[n], self.shape), state)

        return lax.fori_loop(0, len(self), body, state, unroll=tuning.OFFSETS_AT_ONCE)

    def add_up(self, numbers: Array, g: Array, shape: Sequence[int]) -> Array:
        """Return an extended array of ``shape`` with ``g`` of each window added at one of its taps.

        Args:
          numbers: of the tap of each window.
          g: what is added there.
          shape: that of the extended array.
        """
        room = [(size - own, size - own, 0) for size, own in zip(shape, self.shape, strict=True)]
        # An element reads what each tap would give it: several at once, which writes could not be.
        none, zero = np.asarray(-1, numbers.dtype), np.zeros((), g.dtype)
        held = lax.pad(numbers, none, room), lax.pad(g, zero, room)
        starts = np.asarray([low for low, *_ in room], np.int32) - self._starts()
        given = lambda n, held, g: jnp.where(held == n, g, jnp.zeros_like(g))  # noqa: E731
        if len(self) <= tuning.MOST_TAPS_UNROLLED:
            held = [materialize(a)[0] for a in held]
            parts = [
                given(n, *(lax.slice(a, start, start + np.asarray(shape)) for a in held))
                for n, start in zip(self.numbers, starts, strict=True)
            ]
            return tree_reduce(lax.add, parts)
        *held, total = varying_alike((*held, jnp.zeros(shape, g.dtype)))
        starts, own = jnp.asarray(starts), jnp.asarray(self.numbers)

        def add(n: Array, total: Array) -> Array:
            return total + given(own[n], *(lax.dynamic_slice(a, starts[n], shape) for a in held))

        return lax.fori_loop(0, len(self), add, total, unroll=tuning.OFFSETS_AT_ONCE)

    def _starts(self) -> np.ndarray:
        """Where each tap of the first window lies, along every axis."""
        table = np.zeros((len(self), len(self.shape)), np.int32)
        table[:, [extent.position for extent in self.extents]] = self.offsets
        return table
