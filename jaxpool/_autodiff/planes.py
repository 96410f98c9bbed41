"""Differentiable sums and maxima over planes: windows that cover all elements of some axes.

The lengths of these axes may be symbolic. Planes are reduced as in
``_lowerings.implementations.tiled``. The transpose of a maximum compares each element once.
"""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._geometry.axis import Axis
from .._geometry.resolve import Geometry, is_static
from .._lowerings import tuning
from .._lowerings.implementations import reduce_window
from .._lowerings.parts.argreduce import ValueOffset, offset_dtype
from .._lowerings.parts.entire_axes import argmax_offsets, offset_iota, reduce_axes
from .._lowerings.parts.grid import phase_axis_indices
from .._xla.by_platform import by_platform
from .._xla.materialize import materialize
from ..reductions import MAX, SUM, Reduction, accumulator, mask_with_identity
from .linear import is_differentiable, linear_map
from .rules import ArgReduce, Gather, selection, selection_with_offsets


class Planes(NamedTuple):
    """The planes of an array.

    Attributes:
      positions: the array axes that a plane covers, negative, ascending.
      lengths: the lengths of these axes.
    """

    positions: tuple[int, ...]
    lengths: tuple[int, ...]

    def split_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return ``shape`` with every covered axis split in two: one window and its elements."""
        split: list[int] = []
        for position, size in zip(range(-len(shape), 0), shape, strict=True):
            split += [1, size] if position in self.positions else [size]
        return tuple(split)

    def element_axes(self, rank: int) -> tuple[int, ...]:
        """Return the axes of the elements in the split shape of an array of ``rank`` axes."""
        return phase_axis_indices(self.positions, rank)

    @property
    def are_known(self) -> bool:
        """Whether all lengths are integers; in an export they may be symbolic."""
        return is_static(self.lengths)

    @property
    def geometry(self) -> Geometry:
        """The planes as windows."""
        axes = (Axis(length, length, length, 1, 0, 0, 0, 1) for length in self.lengths)
        return Geometry(tuple(axes), self.positions)

    @property
    def offset_dtype(self) -> np.dtype:
        """The dtype of offsets in a plane, int32 if the lengths are symbolic."""
        return offset_dtype(self.geometry) if self.are_known else np.dtype(np.int32)


def plane_sum(x: Array, planes: Planes) -> Array:
    """Return the sum of every plane."""
    shape = x.shape
    forward = functools.partial(_reduce, planes=planes, reduction=SUM)
    if not is_differentiable(x):
        return forward(x)

    def transpose(g: Array) -> Array:
        g = materialize(g)  # or each element may recompute the sum that ``g`` comes from
        return jnp.broadcast_to(_over_elements(g, planes), planes.split_shape(shape)).reshape(shape)

    return linear_map(forward, transpose, x, jax.eval_shape(forward, x).shape)


def plane_maximum(x: Array, valid: Array | None, planes: Planes, maximum: Reduction = MAX) -> Array:
    """Return the largest of the ``valid`` elements of every plane; differentiable.

    ``maximum`` decides which of several equal elements, and which NaN, receives the cotangent.
    """
    reduce = functools.partial(_largest, planes=planes)
    return selection(reduce, *_argreduce_and_gather(planes, maximum), x, valid)


def plane_maximum_with_offsets(
    x: Array, valid: Array | None, planes: Planes, maximum: Reduction
) -> ValueOffset:
    """Return :func:`plane_maximum`, and the offset of the largest element in each plane."""
    return selection_with_offsets(*_argreduce_and_gather(planes, maximum), x, valid)


def _argreduce_and_gather(planes: Planes, maximum: Reduction) -> tuple[ArgReduce, Gather]:
    def argreduce(x: Array, valid: Array | None) -> ValueOffset:
        values, axes = materialize(_largest(x, valid, planes)), planes.element_axes(x.ndim)
        split_valid = None if valid is None else _split(valid, planes)
        operands = _split(x, planes), split_valid, values
        return values, argmax_offsets(*operands, axes, maximum, planes.offset_dtype)

    return argreduce, functools.partial(_gather, planes=planes)


def _largest(x: Array, valid: Array | None, planes: Planes) -> Array:
    return _reduce(mask_with_identity(x, valid, MAX), planes, MAX)


def _reduce(x: Array, planes: Planes, reduction: Reduction) -> Array:
    """Return the reduction of every plane."""

    def over_axes(x: Array) -> Array:
        return reduce_axes(_split(x, planes), planes.element_axes(x.ndim), reduction)

    if not _are_many_and_small(x.shape, planes):
        return over_axes(x)
    by_threads = functools.partial(
        reduce_window.reduce, geometry=planes.geometry, reduction=reduction
    )
    return by_platform(x, cpu=over_axes, tpu=over_axes, default=by_threads)


def _are_many_and_small(shape: Sequence[int], planes: Planes) -> bool:
    """Return whether one GPU thread per plane, beside others in memory, reads all its elements."""
    if -1 in planes.positions or not is_static(shape):
        return False
    size = math.prod(planes.lengths)
    return 0 < size <= tuning.LONGEST_SUMMED and math.prod(shape) >= tuning.MIN_PLANES * size


def _split(x: Array, planes: Planes) -> Array:
    return x.reshape(planes.split_shape(x.shape))


def _over_elements(y: Array, planes: Planes) -> Array:
    """Return ``y``, one value per plane, with axes of length 1 for the elements."""
    return jnp.expand_dims(y, planes.element_axes(y.ndim))


def _gather(t: Array, offsets: Array, value: Array, planes: Planes) -> Array:
    """Return the element of ``t`` at the offset of every plane; ``value`` is the known result."""
    axes = planes.element_axes(t.ndim)

    def is_selected(offsets: Array) -> Array:
        numbers = offset_iota(planes.split_shape(t.shape), axes, offsets.dtype)
        return _over_elements(offsets, planes) == numbers

    def forward(t: Array) -> Array:
        elements = jnp.where(is_selected(offsets), _split(t, planes), np.zeros((), t.dtype))
        return reduce_axes(elements, axes, SUM)

    def transpose(g: Array) -> Array:
        g, stored_offsets = materialize((g, offsets))
        cotangents = jnp.where(
            is_selected(stored_offsets), _over_elements(g, planes), np.zeros((), g.dtype)
        )
        return cotangents.reshape(t.shape)

    widened = t.astype(accumulator(t.dtype))
    return linear_map(forward, transpose, widened, offsets.shape, value)
