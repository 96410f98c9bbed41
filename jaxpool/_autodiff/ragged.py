"""Differentiable sums and maxima over windows of any start and length.

Sums are linear. The transpose of a sum along an axis is again a sum over such windows: each element
sums the cotangents of the windows that contain it, which are neighbouring windows.

Maxima are selections, see :mod:`.rules`.
"""

import functools
from typing import NamedTuple

from jax import Array

from .._geometry.layout import with_lengths
from .._geometry.ragged import RaggedAxis
from .._lowerings.parts.argreduce import ValueOffset
from .._lowerings.ragged import ragged
from .._lowerings.ragged.ragged_gather import gather, scatter
from .._lowerings.ragged.ragged_offsets import is_countable
from .._xla.lost_rules import RULES_ARE_LOST
from .._xla.materialize import materialize
from ..reductions import MAX, SUM, Reduction, accumulator, mask_with_identity
from .linear import is_differentiable, linear_map
from .rules import ArgReduce, Gather, selection, selection_with_offsets


class RaggedWindows(NamedTuple):
    """Windows over some axes of an array.

    Attributes:
      positions: the array axes, negative.
      axes: the windows along each of these axes.
    """

    positions: tuple[int, ...]
    axes: tuple[RaggedAxis, ...]


def ragged_sum(x: Array, windows: RaggedWindows) -> Array:
    """Return the sum of every window; differentiable."""
    return ragged.apply_per_axis(_total_along_axis, x, *windows)


def _total_along_axis(x: Array, position: int, axis: RaggedAxis) -> Array:
    forward = functools.partial(ragged.reduce_axis, position=position, axis=axis, reduction=SUM)
    if not is_differentiable(x):
        return forward(x)

    def transpose(g: Array) -> Array:
        g = materialize(g)  # or each element may recompute the sum that ``g`` comes from
        return forward(g, axis=axis.holders())

    out_shape = with_lengths(x.shape, [position], [len(axis.starts)])
    return linear_map(forward, transpose, x, out_shape)


def ragged_maximum(
    x: Array, valid: Array | None, windows: RaggedWindows, maximum: Reduction
) -> Array:
    """Return the largest ``valid`` element of every window; differentiable.

    ``maximum`` decides which of several NaN receives the cotangent.
    """

    def reduce(x: Array, valid: Array | None) -> Array:
        return ragged.extreme(mask_with_identity(x, valid, MAX), *windows)

    functions = reduce, *_argreduce_and_gather(windows, maximum)
    may_be_lost = RULES_ARE_LOST and is_countable(windows.axes)
    return selection(*functions, x, valid, rule_may_be_lost=may_be_lost)


def ragged_maximum_with_offsets(
    x: Array, valid: Array | None, windows: RaggedWindows, maximum: Reduction
) -> ValueOffset:
    """Return :func:`ragged_maximum`, and the offset of the largest element in each window."""
    return selection_with_offsets(*_argreduce_and_gather(windows, maximum), x, valid)


def _argreduce_and_gather(windows: RaggedWindows, maximum: Reduction) -> tuple[ArgReduce, Gather]:
    def argreduce(x: Array, valid: Array | None) -> ValueOffset:
        return ragged.argreduce(mask_with_identity(x, valid, MAX), valid, *windows, maximum)

    return argreduce, functools.partial(_gather, windows=windows)


def _gather(x: Array, offsets: Array, value: Array, windows: RaggedWindows) -> Array:
    forward, transpose = (
        functools.partial(f, offsets=offsets, positions=windows.positions, axes=windows.axes)
        for f in (gather, scatter)
    )
    return linear_map(forward, transpose, x.astype(accumulator(x.dtype)), offsets.shape, value)
