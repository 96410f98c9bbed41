"""Windows of filters as geometries of the pooling implementations, and access to single taps."""

import functools
from collections.abc import Iterator, Sequence
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
    pad_for_scatter,
    reduce_taps,
    sum_at_tap,
    sum_named_taps,
)
from .._xla.materialize import materialize
from ._arguments import Extent, Neighborhood

Offsets = np.ndarray
"""The taps of a window, row-major: an int array (taps, axes) of offsets from its first corner."""


def window_geometry(
    shape: Sequence[int],
    extents: Sequence[Extent],
    padding: Sequence[tuple[int, int]] | None = None,
) -> Geometry:
    """Return the geometry of full rectangular windows with stride 1 over an array of ``shape``."""
    order = np.argsort([extent.position for extent in extents])
    ascending = [extents[n] for n in order]
    positions = tuple(extent.position for extent in ascending)
    pads = "VALID" if padding is None else [padding[n] for n in order]
    window = Window([extent.size for extent in ascending], 1, pads)
    return resolve(window, [shape[position] for position in positions], positions)


def pad_symbolic_axes(x: Array, extents: Sequence[Extent], value: np.ndarray) -> Array:
    """Return ``x`` padded at the end of each symbolic axis that may be shorter than two windows.

    Only surplus windows at the end read the padding; :func:`crop` removes them.
    """
    for extent in extents:
        if may_be_short(x.shape[extent.position], extent):
            x = pad(x, extent.position, 0, 2 * extent.size, value)
    return x


def may_be_short(size: Any, extent: Extent) -> bool:
    """Return whether a symbolic ``size`` may be less than the length of two windows."""
    return not isinstance(size, int) and not is_at_least(size, 2 * extent.size)


def crop(y: Array, extents: Sequence[Extent], shape: Sequence[int]) -> Array:
    """Return ``y`` cropped along each filtered axis to the length of that axis in ``shape``."""
    for extent in extents:
        if y.shape[extent.position] != shape[extent.position]:
            y = lax.slice_in_dim(y, 0, shape[extent.position], axis=extent.position)
    return y


class Taps:
    """The taps of the windows over an extended array, with access to the elements at each tap.

    Attributes:
      extents: the filtered axes.
      offsets: the taps, as offsets from the first corner of a window.
      shape: shape of the array before it was extended, which is also the shape of the result.
      numbers: the tap numbers: 0, 1, .., unless these are some taps of a larger window.
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

    @classmethod
    def of(cls, neighborhood: Neighborhood, shape: Sequence[int]) -> "Taps":
        """Return the taps of a neighbourhood in an array of ``shape``."""
        return cls(neighborhood.extents, np.argwhere(neighborhood.mask).astype(np.int32), shape)

    def __len__(self) -> int:
        return len(self.offsets)

    def each_tap(self, extended: Array) -> Iterator[Array]:
        """Yield the element at each tap of every window, one slice per tap."""
        for offset in self.offsets.tolist():
            elements = extended
            for extent, start in zip(self.extents, offset, strict=True):
                end = start + self.shape[extent.position]
                elements = lax.slice_in_dim(elements, start, end, axis=extent.position)
            yield elements

    def reduce(self, fold: Fold, extended: Array, per_window: Sequence[Array] = ()) -> Any:
        """Return the reduction over all taps of an extended array.

        ``per_window`` are arrays with one entry for each window.
        """
        if len(self) > tuning.MAX_TAPS_UNROLLED:
            return reduce_taps(self.reads(), fold, extended, per_window)
        return functools.reduce(fold.combine, self._terms(fold, (extended,), per_window))

    def _terms(self, fold: Fold, arrays: Sequence[Array], per_window: Sequence[Array]) -> list[Any]:
        elements = zip(*map(self.each_tap, arrays), strict=True)
        return [
            fold.value(n, *values, *per_window)
            for n, values in zip(self.numbers, elements, strict=True)
        ]

    def scatter_add(self, numbers: Array, g: Array, shape: Sequence[int]) -> Array:
        """Return an extended array, to which each window adds its cotangent at one of its taps.

        Args:
          numbers: the tap number of each window.
          g: the cotangent of each window.
          shape: shape of the extended array.
        """
        margins = [
            (size - window_count, size - window_count, 0)
            for size, window_count in zip(shape, self.shape, strict=True)
        ]
        padded = pad_for_scatter(g, numbers, dict(enumerate(margins)))
        reversed_origin = np.asarray(
            [margins[extent.position][0] for extent in self.extents], np.int32
        )
        reversed_taps = Taps(self.extents, reversed_origin - self.offsets, shape, self.numbers)
        if len(self) > tuning.MAX_TAPS_UNROLLED:
            return sum_named_taps(reversed_taps.reads(), *padded)
        fold = sum_at_tap(g.dtype)
        return tree_reduce(lax.add, reversed_taps._terms(fold, materialize(padded), ()))

    def reads(self) -> Reads:
        """Return the taps in the form that the implementations accept."""
        order = np.argsort([extent.position for extent in self.extents])
        axes = tuple(self.extents[n].position for n in order)
        table = self.offsets[:, order].T

        def shifts(indices: Array) -> list[Array]:
            return [jnp.asarray(row)[indices] for row in table]

        numbers = None if np.array_equal(self.numbers, np.arange(len(self))) else self.numbers
        return Reads(axes, self.shape, (1,) * len(axes), len(self), shifts, numbers)
