"""The transpose of sums of tiled windows: values broadcast over the steps of a window.

Where strides are as long as windows an element lies in one window, see :mod:`..parts.grid`,
or behind the last one. XLA:GPU and XLA:TPU make one kernel of the broadcast. Of a sum over
windows of an array with zeros between its values, XLA:TPU may store that array, and XLA:GPU reads
every zero.
"""

from jax import Array

from ..._geometry.resolve import Geometry
from ..parts.grid import merged, over_steps
from ..request import Request


def unsupported_reason(request: Request) -> str | None:
    """Return why a broadcast does not compute what is asked, or None."""
    geometry = request.geometry
    if not geometry.is_non_overlapping:
        return "windows overlap"
    apart = any(axis.stride > axis.kernel for axis in geometry.axes)
    return "there are gaps in or between windows" if apart else None


def sum_transpose(g: Array, geometry: Geometry) -> Array:
    """Return for each element the value of the window that holds it, 0 without one."""
    return merged(over_steps(g, geometry), geometry, g.ndim)
