"""Windows over a pooled axis that is collapsed with the axes after it.

XLA:CPU computes an array in loops along its last axis. If this axis has few elements, such as the
channels of an image, the loops are too short for vectors. Let ``c`` be the number of elements after
the last pooled axis, and let its stride be 1. Tap ``t`` of window ``o`` reads, for each ``r < c``,

    element (o - pad_low + t * dilation, r)
    = element (o * c + r) - pad_low * c + t * dilation * c of the collapsed axis.

So the collapsed axis has windows of the same taps, with ``c`` times the padding and dilation.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
from jax import Array, lax

from ..._geometry.axis import INT32_MAX, Axis
from ..._geometry.resolve import Geometry, is_static
from ..._xla.materialize import BARRIER_HOLDS
from .. import tuning

MAX_BORDERS = 2**14
"""Maximum padding of a collapsed axis, to bound the time to trace: a plan may list each window that
begins or ends in padding."""


def with_short_rows_collapsed(
    compute: Callable[..., Any], geometry: Geometry, shape: tuple[int, ...]
) -> Callable[..., Any]:
    """Return ``compute``, on collapsed arrays if few elements follow the last pooled axis.

    Arrays are stored before and after, if a barrier suffices for that. In a fused loop, an operand
    that broadcasts along channels would be read at the remainder of a division.

    Args:
      compute: a function ``compute(*arrays, geometry=geometry)`` of arrays of equal rank, whose
        results have that rank too.
      geometry: the windows.
      shape: the shape of an array.
    """
    length = row_length(geometry, shape)
    if length <= 1:
        return compute
    row = shape[geometry.positions[-1] :][1:]
    windows = _collapsed(geometry, length)

    def collapse(a: Array) -> Array:
        return lax.collapse(a, a.ndim - 1 - len(row))

    def expand(a: Array) -> Array:
        return a.reshape(*a.shape[:-1], a.shape[-1] // length, *row)

    def run(*arrays: Any) -> Any:
        stored = lax.optimization_barrier(arrays)
        results = compute(*jax.tree.map(collapse, stored), geometry=windows)
        return jax.tree.map(expand, lax.optimization_barrier(results))

    return run


def row_length(geometry: Geometry, shape: tuple[int, ...]) -> int:
    """Return the number of elements that are collapsed with the last pooled axis; 1 if none are."""
    axis, position = geometry.placed[-1]
    if not BARRIER_HOLDS or axis.stride > 1 or not is_static(shape):
        return 1
    row = math.prod(shape[position:][1:])
    borders = axis.pad_low + axis.pad_high + axis.overhang
    is_short = (axis.size + borders) * row <= INT32_MAX and borders * row <= MAX_BORDERS
    return row if is_short and row <= tuning.MAX_COLLAPSED_ROW else 1


def _collapsed(geometry: Geometry, row: int) -> Geometry:
    """Return the windows over an array whose last pooled axis is collapsed with rows after it."""
    *axes, last = geometry.axes
    shift = -1 - geometry.positions[-1]
    positions = tuple(position + shift for position in geometry.positions)
    return Geometry((*axes, _scaled(last, row)), positions)


def _scaled(axis: Axis, row: int) -> Axis:
    return replace(
        axis,
        size=axis.size * row,
        dilation=axis.dilation * row,
        pad_low=axis.pad_low * row,
        pad_high=axis.pad_high * row,
        overhang=axis.overhang * row,
        out=axis.out * row,
    )
