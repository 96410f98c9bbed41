"""The transpose of window sums, one axis after the other.

An element receives the sum of the values of all windows that hold it. The sum separates into sums
along each axis, and along an axis it is one of four:

* of tiled windows an element has one: values are repeated;
* of few elements: the slices of :mod:`..parts.phases` are added;
* of few elements of contiguous rows, at stride 1: :mod:`.reduce_window`;
* of many: windows of windows, by :mod:`.doubling`.

The contiguous axis goes first, while there is little of it: what follows are whole rows.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array, lax

from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry
from ..._xla.materialize import materialize
from ...reductions import SUM
from .. import tuning
from ..parts.axis_slicing import slice_axis, tree_reduce
from ..parts.phases import Arrays, crop, holders, mirrored, over_elements, stretch
from ..request import Request
from . import doubling, reduce_window


def unsupported_reason(request: Request) -> str | None:
    """Return None: every sum of windows has this transpose."""
    return None


def slower_reason(request: Request) -> str | None:
    """Return why the plan prefers another on GPU and TPU, or None."""
    longest, most = max(request.geometry.kernel), tuning.LONGEST_SUMMED
    if request.platform == "tpu":
        most = doubling.max_summed_kernel(request.geometry)
    if request.platform == "cpu" or longest > most:
        return None
    return f"{longest} elements on one axis; up to {most} lax.reduce_window moves less"


def sum_transpose(g: Array, geometry: Geometry) -> Array:
    """Return for each element the sum of the values of all windows that hold it."""
    in_rows = -1 in geometry.positions
    if in_rows:  # each slice would compute anew what makes it
        (g,) = materialize(g)
    for axis, position in sorted(geometry.placed, key=lambda at: at[1] != -1):
        g = _along(axis, position, in_rows)(g, axis, position)
    return g


def _along(axis: Axis, position: int, in_rows: bool) -> Callable[[Array, Axis, int], Array]:
    long = axis.kernel > tuning.LONGEST_SCATTERED
    if _holds_each_once(axis) and (long or in_rows):
        return _repeat
    if long:
        return _sum_by_doubling
    in_row = axis.stride == 1 and reduce_window.is_quicker(mirrored(axis), position)
    return _sum_of_row if in_row else _sum_of_slices


def _holds_each_once(axis: Axis) -> bool:
    """Whether every element from the first window to the last lies in one window."""
    return axis.stride == axis.span == axis.kernel > 1


def _sum_of_slices(g: Array, axis: Axis, position: int) -> Array:
    def total(given: list[Arrays]) -> Arrays:
        return (tree_reduce(lax.add, [value for (value,) in given]),)

    return over_elements(lambda _: (g,), (0,), axis, position, total)[0]


def _sum_of_row(g: Array, axis: Axis, position: int) -> Array:
    sums = reduce_window.reduce(g, Geometry((mirrored(axis),), (position,)), SUM)
    return slice_axis(sums, position, 0, axis.size, 1)  # windows in padding alone come after


def _repeat(g: Array, axis: Axis, position: int) -> Array:
    (g,) = materialize(g)  # it may come from a sum, which each element would compute anew
    g = holders(g, axis, position)
    return crop(jnp.repeat(g, axis.stride, position), axis, position)


def _sum_by_doubling(g: Array, axis: Axis, position: int) -> Array:
    geometry = Geometry((mirrored(axis),), (position,))
    return doubling.reduce(stretch(g, axis, position), geometry, SUM)
