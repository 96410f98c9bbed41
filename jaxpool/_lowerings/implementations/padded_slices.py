"""Sum windows at stride 1 as slices of a padded copy, and transpose such sums likewise.

With zeros around the array every window has all of its elements, so one loop adds one slice for
each offset. :mod:`.slices` has a loop for each segment of the windows: it stores no copy, but
XLA:CPU compiles up to nine loops instead of two.

The transpose of such a sum is again such a sum, of the cotangent, over the windows of window starts
that :func:`..parts.phases.transposed_axis` returns.
"""

from typing import Any

from jax import Array, lax

from ..._geometry.resolve import Geometry
from ..._xla.materialize import materialize
from .. import tuning
from ..parts.axis_slicing import each_tap, elements_at, pad_to_windows, tree_reduce
from ..parts.phases import transposed_axis
from ..request import Request


def unsupported_reason(request: Request) -> str | None:
    """Return why another implementation computes the transpose, or None."""
    return _geometry_reason(request.geometry)


def _geometry_reason(geometry: Geometry) -> str | None:
    """Return why slices of a padded copy do not suit ``geometry``, or None."""
    if geometry.is_strided:
        return "windows do not start at every element"
    if -1 in geometry.positions:
        return "the contiguous axis is pooled: slices of a copy are not aligned"
    if geometry.taps > tuning.MAX_JOINT:
        return f"windows of {geometry.taps} elements; one loop reads up to {tuning.MAX_JOINT}"
    return None


def saves_loops(x: Any, geometry: Geometry) -> bool:
    """Return whether a sum saves more compilation time than its padded copy costs."""
    if geometry.taps <= tuning.FEW_ELEMENTS or _geometry_reason(geometry):
        return False
    is_small = isinstance(x.size, int) and x.size <= tuning.MAX_COPIED
    return is_small and any(len(axis.segments()) > 1 for axis in geometry.axes)


def window_sum(x: Array, geometry: Geometry) -> Array:
    """Return the sum of every window."""
    padded = materialize(pad_to_windows(x, geometry))
    return tree_reduce(lax.add, [elements_at(padded, tap, geometry) for tap in each_tap(geometry)])


def sum_transpose(g: Array, geometry: Geometry) -> Array:
    """Return for each element the sum of the values of all windows that contain it."""
    return window_sum(g, Geometry(tuple(map(transposed_axis, geometry.axes)), geometry.positions))
