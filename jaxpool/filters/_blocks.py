"""All taps of a window at once, a block of the result after the other.

An array of all taps of all windows would hold as many copies of the array as a window has taps.
Blocks of the result bound it. Their derivative makes a block anew, so reverse mode keeps none.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._geometry.axis import cdiv
from .._lowerings import tuning
from .._lowerings.parts.stack import stacked
from ._arguments import Extent
from ._windows import Taps, rectangle


def over_blocks(function: Callable[[Array], Array], extended: Array, taps: Taps) -> Array:
    """Return ``function`` of the taps of every window, which it gets as the last axis."""
    extents = [extent for extent in taps.extents if extent.size > 1]
    filtered = {extent.position for extent in extents}
    others = set(range(-extended.ndim, 0)) - filtered
    whole = [*extents, *(Extent(position, 1, 0, "constant") for position in others)]
    order = sorted(whole, key=lambda extent: -taps.shape[extent.position])
    return _blocks(lambda slab: function(_taps_of(slab, taps)), extended, order, taps)


def _taps_of(slab: Array, taps: Taps) -> Array:
    """The taps of all windows of a slab as its last axis, row-major over the axes of the array."""
    sizes = [extent.size for extent in taps.extents]
    if not sizes:
        return slab[..., None]
    geometry = rectangle(slab.shape, taps.extents)
    order = np.argsort([extent.position for extent in taps.extents])
    shape = tuple(sizes[n] for n in order)
    numbers = np.sort(np.ravel_multi_index(tuple(taps.offsets.T[order]), shape))
    every = stacked(slab, geometry, np.zeros((), slab.dtype))
    return every if len(numbers) == every.shape[-1] else every[..., numbers]


def _blocks(
    function: Callable[[Array], Array], extended: Array, order: Sequence[Extent], taps: Taps
) -> Array:
    per_place = int(np.prod([extent.size for extent in taps.extents]))
    sizes = {extent.position: extent.size for extent in order}
    lengths = {p: extended.shape[p] - size + 1 for p, size in sizes.items()}
    places = int(np.prod(list(lengths.values())))
    if places * per_place <= tuning.MOST_TAPS_AT_ONCE or len(order) == 0:
        return function(extended)
    (extent, *rest), length = order, lengths[order[0].position]
    rows = max(1, min(length, tuning.MOST_TAPS_AT_ONCE // max(1, places // length * per_place)))
    starts = np.minimum(np.arange(cdiv(length, rows)) * rows, length - rows).astype(np.int32)

    @jax.checkpoint
    def block(start: Array) -> Array:
        count = rows + extent.size - 1
        slab = lax.dynamic_slice_in_dim(extended, start, count, extent.position % extended.ndim)
        return _blocks(function, slab, rest, taps)

    return _joined(lax.map(block, jnp.asarray(starts)), extent.position, length, rows)


def _joined(parts: Array, position: int, length: int, rows: int) -> Array:
    """Blocks in order along an axis; the last begins inside the one before it."""
    axis = position % (parts.ndim - 1)
    before = (len(parts) - 1) * rows
    last = lax.slice_in_dim(parts[-1], rows - (length - before), rows, axis=axis)
    first = jnp.moveaxis(parts[:-1], 0, axis)
    shape = (*first.shape[:axis], before, *first.shape[axis + 2 :])
    return lax.concatenate([first.reshape(shape), last], axis)
