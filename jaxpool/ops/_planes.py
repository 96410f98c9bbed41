"""Sums and maxima over planes, the cells of whole axes, whose lengths may be unknown.

A plane is a window that covers its axes, and is reduced as :mod:`jaxpool.lowerings.reshape` does.
The way back is one comparison for each cell.
"""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._errors import message
from .._fence import computed_once
from .._linear import rule_for, with_transpose
from .._reductions import MAX, SUM, accumulator, filled
from ..lowerings.reshape import cell_axes, cell_numbers, reduce_axes, winners


class Planes(NamedTuple):
    """The planes of an array.

    Attributes:
      positions: the array axes that a plane covers, negative.
      lengths: its cells along each of them.
    """

    positions: tuple[int, ...]
    lengths: tuple[int, ...]

    def split_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return ``shape`` with every axis of the planes as two, a window and its cells."""
        split: list[int] = []
        for position, size in zip(range(-len(shape), 0), shape, strict=True):
            split += [1, size] if position in self.positions else [size]
        return tuple(split)

    def cell_axes(self, rank: int) -> tuple[int, ...]:
        """The axes of the cells in the split shape of an array of ``rank`` axes."""
        return cell_axes(self.positions, rank)

    @property
    def tap_dtype(self) -> np.dtype:
        """uint8 while every tap and the mark of none fit, else int32, also if that is unknown."""
        known = all(isinstance(length, int) for length in self.lengths)
        return np.dtype(np.uint8 if known and math.prod(self.lengths) <= 255 else np.int32)


def check_not_empty(op: str, shape: Sequence[int], positions: Sequence[int]) -> None:
    """Raise if a pooled axis has no cell."""
    for index, position in enumerate(positions):
        if shape[position] < 1:
            raise ValueError(
                message(
                    op,
                    f"pooled axis {index} has size 0.",
                    "A window needs at least one cell on every pooled axis; only batch and channel "
                    "axes may be empty.",
                    "Check the shape and `data_format`.",
                )
            )


def total(x: Array, planes: Planes) -> Array:
    """Return the sum of every plane."""
    shape = x.shape
    there = lambda x: reduce_axes(_split(x, planes), planes.cell_axes(x.ndim), SUM)  # noqa: E731
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return there(x)

    def back(g: Array) -> Array:
        (g,) = computed_once(g)  # it may come from the sum, which each cell would take again
        return jnp.broadcast_to(_over_cells(g, planes), planes.split_shape(shape)).reshape(shape)

    return with_transpose(there, back, x, jax.eval_shape(there, x).shape)


def largest(x: Array, valid: Array | None, planes: Planes) -> Array:
    """Return the largest of the ``valid`` cells of every plane; differentiable."""
    return rule_for(x, _largest)(x, valid, planes)


# ``y[b] = x[p(b)]`` with ``p`` the first maximum of plane ``b``, so ``dy[b] = dx[p(b)]``: linear in
# ``dx``. Its transpose gives cell ``i`` of plane ``b`` the cotangent of ``b`` if ``p(b) = i``.


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _largest(x: Array, valid: Array | None, planes: Planes) -> Array:
    cells = _split(filled(x, valid, MAX), planes)
    return reduce_axes(cells, planes.cell_axes(x.ndim), MAX)


@_largest.defjvp
def _largest_jvp(planes: Planes, primals, tangents):
    (x, valid), (t, _) = primals, tangents
    (values,) = computed_once(_largest(x, valid, planes))
    return values, _read(t, _taps(x, valid, values, planes), planes)


def _split(x: Array, planes: Planes) -> Array:
    return x.reshape(planes.split_shape(x.shape))


def _over_cells(y: Array, planes: Planes) -> Array:
    """One value per plane, in the rank of the split shape."""
    return jnp.expand_dims(y, planes.cell_axes(y.ndim))


def _taps(x: Array, valid: Array | None, values: Array, planes: Planes) -> Array:
    """The cell of each plane that holds its largest value, or the mark of none."""
    present = None if valid is None else _split(valid, planes)
    axes = planes.cell_axes(x.ndim)
    return winners(_split(x, planes), present, values, axes, MAX, planes.tap_dtype)


def _read(t: Array, taps: Array, planes: Planes) -> Array:
    """Return the entry of ``t`` at the tap of every plane, 0 where there is none."""
    axes = planes.cell_axes(t.ndim)

    def hit(taps: Array) -> Array:
        cells = cell_numbers(planes.split_shape(t.shape), axes, taps.dtype)
        return _over_cells(taps, planes) == cells

    def there(t: Array) -> Array:
        cells = jnp.where(hit(taps), _split(t, planes), np.zeros((), t.dtype))
        return reduce_axes(cells, axes, SUM)

    def back(g: Array) -> Array:
        g, finished = computed_once(g, taps)
        sent = jnp.where(hit(finished), _over_cells(g, planes), np.zeros((), g.dtype))
        return sent.reshape(t.shape)

    wide = t.astype(accumulator(t.dtype))
    return with_transpose(there, back, wide, taps.shape).astype(t.dtype)
