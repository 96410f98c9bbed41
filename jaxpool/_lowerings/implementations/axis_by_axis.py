"""Transpose sums of windows, one axis after another.

An element receives the sum of the values of all windows that contain it. This separates into sums
along each axis, each of which is computed in one of four ways:

* tiled windows: an element is in one window, so values are repeated;
* few elements: the slices of :mod:`..parts.phases` are added;
* few elements of contiguous rows, at stride 1: :mod:`.reduce_window`;
* many elements: windows of smaller windows, by :mod:`.doubling`.

The contiguous axis is first, while the array is smallest; the other axes then process full rows.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry
from ..._xla.materialize import materialize
from ...reductions import SUM
from .. import tuning
from ..parts.axis_slicing import slice_axis
from ..parts.phases import (
    add_over_elements,
    crop,
    dilate_windows,
    transposed_axis,
    windows_of_groups,
)
from ..request import Request
from . import doubling, reduce_window


def unsupported_reason(request: Request) -> str | None:
    """Return None: every sum of windows has this transpose."""
    return None


def slower_reason(request: Request) -> str | None:
    """Return why the plan prefers another implementation on GPU and TPU, or None."""
    longest, limit = max(request.geometry.kernel), tuning.LONGEST_SUMMED
    if request.platform == "tpu":
        limit = doubling.max_summed_kernel(request)
    if request.platform == "cpu" or longest > limit:
        return None
    return f"{longest} elements on one axis; lax.reduce_window moves less data up to {limit}"


def sum_transpose(g: Array, geometry: Geometry) -> Array:
    """Return for each element the sum of the values of all windows that contain it."""
    in_rows = -1 in geometry.positions
    if in_rows:  # otherwise each slice recomputes its operand
        g = materialize(g)
    for axis, position in sorted(geometry.placed, key=lambda placed: placed[1] != -1):
        g = _sum_function(axis, position, in_rows)(g, axis, position)
    return g


def _sum_function(axis: Axis, position: int, in_rows: bool) -> Callable[[Array, Axis, int], Array]:
    """Return the function that computes the transpose along an axis."""
    is_long = axis.kernel > tuning.LONGEST_SCATTERED
    if _covers_each_element_once(axis) and (is_long or in_rows):
        return _repeat
    if is_long:
        return _sum_by_doubling
    by_reduce_window = axis.stride == 1 and reduce_window.is_faster(transposed_axis(axis), position)
    return _sum_rows if by_reduce_window else _sum_slices


def _covers_each_element_once(axis: Axis) -> bool:
    """Return whether windows of several elements are tiled, without gaps."""
    return axis.stride == axis.span == axis.kernel > 1


def _sum_slices(g: Array, axis: Axis, position: int) -> Array:
    return add_over_elements(lambda _: g, axis, position)


def _sum_rows(g: Array, axis: Axis, position: int) -> Array:
    """Return the transpose by :mod:`.reduce_window`, along contiguous rows at stride 1."""
    sums = reduce_window.reduce(g, Geometry((transposed_axis(axis),), (position,)), SUM)
    return slice_axis(sums, position, 0, axis.size, 1)  # entries after these are of padding


def _repeat(g: Array, axis: Axis, position: int) -> Array:
    g = materialize(g)  # otherwise each element would recompute a sum that produces g
    g = windows_of_groups(g, axis, position)
    return crop(jnp.repeat(g, axis.stride, position), axis, position)


def _sum_by_doubling(g: Array, axis: Axis, position: int) -> Array:
    geometry = Geometry((transposed_axis(axis),), (position,))
    return doubling.reduce(dilate_windows(g, axis, position), geometry, SUM)
