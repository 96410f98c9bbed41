"""Writing windows at their offsets where windows do not overlap, of any length.

An element lies in at most one window ``o`` and receives ``where(offsets[o] == its own offset, g[o],
0)``. In an array of ``(q, phase)``, see :mod:`.phases`, the phases are broadcast axes of one
vectorised loop. Where the contiguous axis is pooled with others, it goes first: a window's value is
repeated over its columns, with what is left of the offset where that lies in the column. Whole rows
follow, where all axes at once would make loops as short as a window.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry
from ..._xla.materialize import materialize
from .. import tuning
from .argreduce import sentinel
from .axis_slicing import iota
from .grid import step_axes
from .phases import crop, holders


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return, for each element, the value of its window if the offset names it, else 0."""
    g, offsets = _stored(g, offsets, geometry)
    (*axes, last), (*positions, contiguous) = geometry.axes, geometry.positions
    if geometry.taps <= tuning.MOST_SCATTERED or not axes or contiguous != -1:
        return _over_phases(g, offsets, geometry)
    g, offsets = materialize(*_columns(g, offsets, last))
    return _over_phases(g, offsets, Geometry(tuple(axes), tuple(positions)))


def _stored(g: Array, offsets: Array, geometry: Geometry) -> tuple[Array, Array]:
    """Return both, stored: XLA:CPU would compute anew for each element what makes them.

    Values of few elements in channels last are not, where storing them costs more than it saves.
    """
    if geometry.taps <= tuning.MOST_UNSTORED and -1 not in geometry.positions:
        return g, materialize(offsets)[0]
    g, offsets = materialize(g, offsets)
    return g, offsets


def _over_phases(g: Array, offsets: Array, geometry: Geometry) -> Array:
    """All phases of all axes at once."""
    for axis, position in geometry.placed:
        g = holders(g, axis, position)
        offsets = holders(offsets, axis, position, sentinel(offsets.dtype))
    axes = step_axes(geometry.positions, g.ndim)
    g, offsets, merged = jnp.expand_dims(g, axes), jnp.expand_dims(offsets, axes), list(g.shape)
    own, exists = jnp.zeros((1,) * g.ndim, jnp.int32), jnp.ones((1,) * g.ndim, bool)
    for (axis, position), dimension in zip(geometry.placed, axes, strict=True):
        step = iota(axis.stride, dimension - g.ndim, g.ndim, jnp.int32)
        exists = exists & (step % axis.dilation == 0) & (step < axis.kernel * axis.dilation)
        own = own * axis.kernel + step // axis.dilation
        merged[position] = g.shape[dimension - 1] * axis.stride
    hit = exists & (offsets.astype(jnp.int32) == own)
    received = jnp.where(hit, g, jnp.zeros((), g.dtype)).reshape(merged)
    for axis, position in geometry.placed:
        received = crop(received, axis, position)
    return received


def _columns(g: Array, offsets: Array, axis: Axis) -> tuple[Array, Array]:
    """Values, and offsets over the other axes, for each column of the last axis.

    An offset in another column becomes the sentinel, which divides to no row.
    """

    def repeated(a: Array) -> Array:
        return jnp.repeat(holders(a, axis, -1), axis.stride, -1)

    wide, given = offsets.astype(jnp.int32), repeated(g)
    column = iota(given.shape[-1], -1, g.ndim, jnp.int32) % axis.stride
    here = repeated(wide % axis.kernel) * axis.dilation == column
    rows = repeated((wide // axis.kernel).astype(offsets.dtype))
    rows = jnp.where(here, rows, sentinel(offsets.dtype))
    return crop(given, axis, -1), crop(rows, axis, -1)
