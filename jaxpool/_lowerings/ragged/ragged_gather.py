"""Gather at the offsets of windows of arbitrary starts and lengths, and its transpose.

Along one axis, with ``p[o] = start[o] + offset[o]``,

    gather(x)[o] = x[p[o]],    scatter(g)[i] = sum over {o: p[o] = i} of g[o].

The transpose needs no scatter instruction. The windows that contain element ``i`` are neighbours:
``first[i] <= o < first[i] + count[i]``. They are the elements of a ragged window of windows, and
element ``i`` is the sum of ``where(offset[o] == i - start[o], g[o], 0)`` over it. Along the
contiguous axis, where gathers are slow, each element is compared with all windows if they are few.

Several axes are processed sequentially, the last one first. The offsets are those of an argmax.
Take windows with the same rows, whose argmaxes lie in the same column: each is the first maximum of
that column in these rows, so all are the same element. The values of these windows are therefore
added when the columns are processed, and they have the same remaining offset.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.ragged import RaggedAxis
from ..._xla.materialize import materialize_axis
from ...reductions import MIN, SUM
from .. import tuning
from ..parts.argreduce import ValueOffset
from ..parts.axis_slicing import iota, reshape_along, variadic_tree_reduce
from .ragged import Axes, piece_length, reduce_axis, slice_of_windows
from .ragged_offsets import bits_below, coordinate, coordinates, sentinel, unpack_offset


def gather(x: Array, offsets: Array, positions: Sequence[int], axes: Axes) -> Array:
    """Return the element of ``x`` at the offset of every window, 0 for the sentinel."""
    indices = coordinates(offsets, positions, axes)
    for axis in range(-x.ndim, 0):
        if axis not in indices:
            indices[axis] = iota(x.shape[axis], axis, x.ndim, jnp.int32)
    index = tuple(jnp.broadcast_to(indices[axis], offsets.shape) for axis in range(-x.ndim, 0))
    has_element = offsets != sentinel(offsets)
    return jnp.where(has_element, x.at[index].get(mode="clip"), np.zeros((), x.dtype))


def scatter(g: Array, offsets: Array, positions: Sequence[int], axes: Axes) -> Array:
    """Return the sum, for each element, of the values of the windows whose offset names it."""
    placed_axes = list(zip(positions, axes, bits_below(axes), strict=True))
    for position, axis, shift in placed_axes[::-1]:
        g, offsets = materialize_axis((g, offsets))
        g, offsets = _scatter_axis(g, offsets, position, axis, shift)
    return g


def _scatter_axis(
    g: Array, offsets: Array, position: int, axis: RaggedAxis, shift: int
) -> ValueOffset:
    """Scatter along one axis: return the sums for its elements, and their remaining offsets."""
    if position == -1 and len(axis.starts) <= min(tuning.MAX_RAGGED_COMPARED, axis.size):
        return _add_from_all_windows(g, offsets, axis, shift)
    holders = axis.holders()
    elements = np.arange(axis.size)
    if holders.longest <= tuning.LONGEST_RAGGED:
        return _add_from_holders(g, offsets, position, axis, holders, elements, shift)
    pieces, groups = holders.pieces(piece_length(holders))
    elements = np.repeat(elements, groups.lengths)
    g, offsets = _add_from_holders(g, offsets, position, axis, pieces, elements, shift)
    return reduce_axis(g, position, groups, SUM), reduce_axis(offsets, position, groups, MIN)


def _add_from_holders(
    g: Array,
    offsets: Array,
    position: int,
    axis: RaggedAxis,
    holders: RaggedAxis,
    elements: np.ndarray,
    shift: int,
) -> ValueOffset:
    """Add, for each entry of ``elements``, the values of its windows whose offset names it.

    ``holders`` has, for each entry, the range of windows that contain it. Returns also the offsets
    of the windows that name it, or the sentinel.
    """
    starts = np.array(axis.starts)
    firsts, counts = np.array(holders.starts), np.array(holders.lengths)
    identity, parts = (np.zeros((), g.dtype), sentinel(offsets)), []
    for nth in range(holders.longest):
        own_offset = elements - starts[firsts + np.minimum(nth, counts - 1)]
        wanted = np.where(nth < counts, own_offset, sentinel(offsets))  # exceeds every offset
        wanted = reshape_along(wanted.astype(offsets.dtype), position, g.ndim)
        value, offset = (slice_of_windows(a, position, holders, nth) for a in (g, offsets))
        hit = (offset != sentinel(offset)) & (unpack_offset(offset, axis, shift) == wanted)
        parts.append(_select_pair(hit, (value, offset), identity))
    return _add_in_one_loop(parts, identity)


def _add_from_all_windows(g: Array, offsets: Array, axis: RaggedAxis, shift: int) -> ValueOffset:
    """Add, for each element of the last axis, the values of all windows whose offset names it."""
    named = jnp.where(offsets == sentinel(offsets), -1, coordinate(offsets, -1, axis, shift))
    elements = iota(axis.size, -1, g.ndim, jnp.int32)
    identity, parts = (np.zeros((), g.dtype), sentinel(offsets)), []
    for window in range(len(axis.starts)):
        of_window = (lax.slice_in_dim(a, window, window + 1, axis=-1) for a in (named, g, offsets))
        element, *pair = of_window
        parts.append(_select_pair(element == elements, pair, identity))
    return _add_in_one_loop(parts, identity)


def _select_pair(hit: Array, pair: Sequence[Array], identity: Sequence[np.ndarray]) -> ValueOffset:
    """Return the value and offset of ``pair`` where ``hit``, those of ``identity`` elsewhere."""
    value, offset = (jnp.where(hit, a, b) for a, b in zip(pair, identity, strict=True))
    return value, offset


def _add_in_one_loop(
    parts: Sequence[ValueOffset], identity: tuple[np.ndarray, np.ndarray]
) -> ValueOffset:
    """Return the sum of the values and the minimum of the offsets, as one loop on CPU."""

    def add(a: ValueOffset, b: ValueOffset) -> ValueOffset:
        return a[0] + b[0], lax.min(a[1], b[1])

    return variadic_tree_reduce(add, parts, identity)
