"""The transpose of sums of tiled windows: values broadcast over the steps of a window.

Where strides are as long as windows an element lies in one window, see :mod:`..parts.window_grid`,
or behind the last one. XLA:GPU and XLA:TPU make one kernel of the broadcast. Of a sum over
windows of an array with zeros between its values, XLA:TPU may store that array, and XLA:GPU reads
every zero.
"""

import jax.numpy as jnp
from jax import Array, lax

from ..._geometry.resolve import Geometry
from ..parts.window_grid import merged, step_axes
from ..request import Request


def unsupported_reason(request: Request) -> str | None:
    """Return why a broadcast does not compute what is asked, or None."""
    geometry = request.geometry
    if not geometry.is_non_overlapping:
        return "windows overlap"
    apart = any(axis.stride > axis.kernel for axis in geometry.axes)
    return "there are gaps in or between windows" if apart else None


def sum_transpose(g: Array, geometry: Geometry, materialize_cotangent: bool = False) -> Array:
    """Return for each element the value of the window that holds it, 0 without one."""
    axes = step_axes(geometry, g.ndim)
    shape = list(jnp.expand_dims(g, axes).shape)
    for axis, at in zip(geometry.axes, axes, strict=True):
        shape[at] = axis.stride
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    return merged(lax.broadcast_in_dim(g, shape, kept), geometry, g.ndim)
