"""Sums and maxima over planes, the elements of whole axes, whose lengths may be unknown.

A plane is a window that covers its axes, and is reduced as ``_lowerings.implementations.tiled``
does. The transpose is one comparison for each element.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._geometry.axis import Axis
from .._geometry.resolve import Geometry
from .._lowerings.implementations.tiled import argmax_offsets, offset_iota, reduce_axes
from .._lowerings.parts.argreduce import ValueOffset, offset_dtype
from .._lowerings.parts.grid import step_axes
from .._xla.materialize import materialize
from ..reductions import MAX, SUM, Reduction, accumulator, filled
from .linear import is_differentiable, linear_map
from .rules import ArgReduce, Gather, selection, selection_with_offsets


class Planes(NamedTuple):
    """The planes of an array.

    Attributes:
      positions: the array axes that a plane covers, negative, ascending.
      lengths: its elements along each of them.
    """

    positions: tuple[int, ...]
    lengths: tuple[int, ...]

    def split_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return ``shape`` with every axis of the planes as two, a window and its elements."""
        split: list[int] = []
        for position, size in zip(range(-len(shape), 0), shape, strict=True):
            split += [1, size] if position in self.positions else [size]
        return tuple(split)

    def element_axes(self, rank: int) -> tuple[int, ...]:
        """The axes of the elements in the split shape of an array of ``rank`` axes."""
        return step_axes(self.positions, rank)

    @property
    def are_known(self) -> bool:
        """Whether their lengths are: an export may leave them open."""
        return all(isinstance(length, int) for length in self.lengths)

    @property
    def geometry(self) -> Geometry:
        """Each plane as a window."""
        axes = (Axis(length, length, length, 1, 0, 0, 0, 1) for length in self.lengths)
        return Geometry(tuple(axes), self.positions)

    @property
    def offset_dtype(self) -> np.dtype:
        """That of the offsets of windows as long, int32 if that is unknown."""
        return offset_dtype(self.geometry) if self.are_known else np.dtype(np.int32)


def total(x: Array, planes: Planes) -> Array:
    """Return the sum of every plane."""
    shape = x.shape
    forward = lambda x: reduce_axes(_split(x, planes), planes.element_axes(x.ndim), SUM)  # noqa: E731
    if not is_differentiable(x):
        return forward(x)

    def transpose(g: Array) -> Array:
        (g,) = materialize(g)  # it may come from the sum, which each element would take again
        return jnp.broadcast_to(_over_elements(g, planes), planes.split_shape(shape)).reshape(shape)

    return linear_map(forward, transpose, x, jax.eval_shape(forward, x).shape)


def largest(x: Array, valid: Array | None, planes: Planes, maximum: Reduction = MAX) -> Array:
    """Return the largest of the ``valid`` elements of every plane; differentiable.

    ``maximum`` says which of equals, and which NaN, has the derivative.
    """
    reduce = functools.partial(_largest, planes=planes)
    return selection(reduce, *_argreduce_and_gather(planes, maximum), x, valid)


def largest_with_offsets(
    x: Array, valid: Array | None, planes: Planes, maximum: Reduction = MAX
) -> ValueOffset:
    """Return :func:`largest`, and the element of each plane that it is."""
    return selection_with_offsets(*_argreduce_and_gather(planes, maximum), x, valid)


def _argreduce_and_gather(planes: Planes, maximum: Reduction) -> tuple[ArgReduce, Gather]:
    def argreduce(x: Array, valid: Array | None) -> ValueOffset:
        (values,) = materialize(_largest(x, valid, planes))
        return values, _offsets(x, valid, values, planes, maximum)

    return argreduce, functools.partial(_gather, planes=planes)


def _largest(x: Array, valid: Array | None, planes: Planes) -> Array:
    elements = _split(filled(x, valid, MAX), planes)
    return reduce_axes(elements, planes.element_axes(x.ndim), MAX)


def _split(x: Array, planes: Planes) -> Array:
    return x.reshape(planes.split_shape(x.shape))


def _over_elements(y: Array, planes: Planes) -> Array:
    """One value per plane, in the rank of the split shape."""
    return jnp.expand_dims(y, planes.element_axes(y.ndim))


def _offsets(
    x: Array, valid: Array | None, values: Array, planes: Planes, maximum: Reduction
) -> Array:
    """The element of each plane that holds its largest value, or the sentinel."""
    present = None if valid is None else _split(valid, planes)
    axes = planes.element_axes(x.ndim)
    return argmax_offsets(_split(x, planes), present, values, axes, maximum, planes.offset_dtype)


def _gather(t: Array, offsets: Array, value: Array, planes: Planes) -> Array:
    """Return the element of ``t`` at the offset of every plane, which is ``value``."""
    axes = planes.element_axes(t.ndim)

    def hit(offsets: Array) -> Array:
        numbers = offset_iota(planes.split_shape(t.shape), axes, offsets.dtype)
        return _over_elements(offsets, planes) == numbers

    def forward(t: Array) -> Array:
        elements = jnp.where(hit(offsets), _split(t, planes), np.zeros((), t.dtype))
        return reduce_axes(elements, axes, SUM)

    def transpose(g: Array) -> Array:
        g, stored = materialize(g, offsets)
        given = jnp.where(hit(stored), _over_elements(g, planes), np.zeros((), g.dtype))
        return given.reshape(t.shape)

    wide = t.astype(accumulator(t.dtype))
    return linear_map(forward, transpose, wide, offsets.shape, value).astype(t.dtype)
