"""Gather at flat indices over several axes, and find the last writer of each element.

A flat index counts the elements of some axes in row-major order. An array is viewed as
``[before, counted, after]``, with these axes merged into one; a *plane* is ``[b, :, c]``. With
``-1`` for no index,

    take_from_planes(values, index)[b, s, c] = values[b, index[b, s, c], c],
    last_writer(index)[b, i, c] = the last s with index[b, s, c] = i, or -1.

``last_writer`` scatters the maximum of the integers ``s``, so its result does not depend on the
order in which a device processes them.
"""

import itertools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax


def to_planes(a: Array, axes: tuple[int, ...]) -> Array:
    """Reshape ``a`` to ``[before, counted, after]``, with the axes that an index counts merged."""
    adjacent = _adjacent_axes(axes)
    a = jnp.moveaxis(a, axes, adjacent)
    first, end = adjacent[0] % a.ndim, adjacent[-1] % a.ndim + 1
    parts = a.shape[:first], a.shape[first:end], a.shape[end:]
    return a.reshape([math.prod(part) for part in parts])


def from_planes(planes: Array, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """Return the array of ``shape`` from its planes: the inverse of :func:`to_planes`."""
    adjacent = _adjacent_axes(axes)
    moved = jax.eval_shape(lambda: jnp.moveaxis(jnp.zeros(shape), axes, adjacent)).shape
    return jnp.moveaxis(planes.reshape(moved), adjacent, axes)


def _adjacent_axes(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return ``axes`` if they are adjacent, else the last axes, to which they can be moved."""
    are_adjacent = all(b == a + 1 for a, b in itertools.pairwise(axes))
    return axes if are_adjacent else tuple(range(-len(axes), 0))


def last_writer(index: Array, size: int) -> Array:
    """Return, for each element ``[b, i, c]``, the last ``s`` with ``index[b, s, c] == i``, or -1.

    The result has ``size`` elements in each plane.
    """

    def write_plane(source: Array, index: Array) -> Array:
        last = jnp.full(size, -1, jnp.int32)
        # An index past the end is dropped; JAX would wrap a negative one.
        return last.at[jnp.where(index < 0, size, index)].max(source, mode="drop")

    return _over_planes(write_plane)(lax.broadcasted_iota(jnp.int32, index.shape, 1), index)


def take_from_planes(values: Array, index: Array, fill: int) -> Array:
    """Return ``values[b, index[b, s, c], c]``, and ``fill`` where the index is -1."""

    def take_plane(values: Array, index: Array) -> Array:
        taken = values.at[jnp.maximum(index, 0)].get(mode="clip")
        return jnp.where(index < 0, np.asarray(fill, values.dtype), taken)

    return _over_planes(take_plane)(values, index)


def _over_planes(function: Callable[..., Array]) -> Callable[..., Array]:
    """Vectorise a function of planes over ``b`` and ``c``, which keeps each plane on its device.

    A single index into all planes would be faster on CPU, but of sharded arrays the compiler would
    gather all shards.
    """
    return jax.vmap(jax.vmap(function, 1, 1))
