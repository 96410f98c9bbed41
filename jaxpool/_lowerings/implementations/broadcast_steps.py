"""Transpose sums of tiled windows: broadcast values over the steps of a window.

If strides equal windows, an element is in one window, see :mod:`..parts.grid`, or after the last
window. XLA:GPU and XLA:TPU make one kernel of the broadcast. For a sum over windows of an array
with zeros between its values, XLA:TPU may store that array, and XLA:GPU reads every zero. XLA:CPU
makes one vectorised loop of the broadcast, unless elements are padded or cropped.
"""

from jax import Array

from ..._geometry.resolve import Geometry
from ..._xla.materialize import materialize
from ..parts.grid import broadcast_over_phases, merge_phases
from ..request import Request


def unsupported_reason(request: Request) -> str | None:
    """Return why a broadcast does not support ``request``, or None."""
    geometry = request.geometry
    if not geometry.is_non_overlapping:
        return "windows overlap"
    has_gaps = any(axis.stride > axis.kernel for axis in geometry.axes)
    return "there are gaps in or between windows" if has_gaps else None


def slower_reason(request: Request) -> str | None:
    """Return why the plan prefers another implementation on CPU, or None."""
    if request.platform == "cpu" and request.tiles_need_copy:
        return "the elements are not whole windows: another loop would crop them"
    return None


def sum_transpose(g: Array, geometry: Geometry) -> Array:
    """Return for each element the value of the window that contains it, 0 if none does."""
    if -1 in geometry.positions:
        g = materialize(g)  # otherwise XLA:CPU recomputes it for each element of a row
    return merge_phases(broadcast_over_phases(g, geometry), geometry, g.ndim)
