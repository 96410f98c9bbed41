"""Transpose sums of tiled windows: broadcast values over the steps of a window.

If strides equal windows, an element is in one window, see :mod:`..parts.grid`, or after the last
window. XLA:GPU and XLA:TPU make one kernel of the broadcast. For a sum over windows of an array
with zeros between its values, XLA:TPU may store that array, and XLA:GPU reads every zero.
"""

from jax import Array

from ..._geometry.resolve import Geometry
from ..parts.grid import broadcast_over_phases, merge_phases
from ..request import Request


def unsupported_reason(request: Request) -> str | None:
    """Return why a broadcast does not support ``request``, or None."""
    geometry = request.geometry
    if not geometry.is_non_overlapping:
        return "windows overlap"
    has_gaps = any(axis.stride > axis.kernel for axis in geometry.axes)
    return "there are gaps in or between windows" if has_gaps else None


def sum_transpose(g: Array, geometry: Geometry) -> Array:
    """Return for each element the value of the window that contains it, 0 if none does."""
    return merge_phases(broadcast_over_phases(g, geometry), geometry, g.ndim)
