"""Reading at flat indices, which count the elements of some axes, and who wrote there last.

An array is seen as planes ``[before, counted, after]``, the counted axes made one. With ``-1`` for
no index,

    take(values, index)[b, s, c] = values[b, index[b, s, c], c],
    writer(index)[b, i, c] = the last ``s`` with ``index[b, s, c] = i``.

``writer`` scatters a maximum of integers, so the order in which a device runs through them does not
matter.
"""

import itertools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

INT32_MAX = 2**31 - 1


def planes_of(a: Array, axes: tuple[int, ...]) -> Array:
    """Return ``a`` as ``[before, counted, after]``, with the axes that an index counts made one."""
    together = _neighbours(axes)
    a = jnp.moveaxis(a, axes, together)
    first, end = together[0] % a.ndim, together[-1] % a.ndim + 1
    parts = a.shape[:first], a.shape[first:end], a.shape[end:]
    return a.reshape([math.prod(part) for part in parts])


def array_of(planes: Array, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """Return the array of ``shape`` whose planes these are."""
    together = _neighbours(axes)
    moved = jax.eval_shape(lambda: jnp.moveaxis(jnp.zeros(shape), axes, together)).shape
    return jnp.moveaxis(planes.reshape(moved), together, axes)


def _neighbours(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Where the axes go to be neighbours."""
    adjacent = all(b == a + 1 for a, b in itertools.pairwise(axes))
    return axes if adjacent else tuple(range(-len(axes), 0))


def writer(index: Array, size: int) -> Array:
    """For each element ``[b, i, c]``, the last source ``s`` of the plane that names it, or -1."""

    def plane(source: Array, index: Array) -> Array:
        return jnp.full(size, -1, jnp.int32).at[_or_past(index, size)].max(source, mode="drop")

    return _over_planes(plane)(lax.broadcasted_iota(jnp.int32, index.shape, 1), index)


def _or_past(index: Array, size: int) -> Array:
    """The index, and for -1 one past the end, which is dropped; JAX would wrap a negative one."""
    return jnp.where(index < 0, size, index)


def take(values: Array, index: Array, fill: int) -> Array:
    """``values[b, index[b, s, c], c]``, and ``fill`` where the index is -1."""

    def plane(values: Array, index: Array) -> Array:
        taken = values.at[jnp.maximum(index, 0)].get(mode="clip")
        return jnp.where(index < 0, np.asarray(fill, values.dtype), taken)

    return _over_planes(plane)(values, index)


def _over_planes(plane: Callable[..., Array]) -> Callable[..., Array]:
    """Run over the planes ``[b, :, c]`` as a batch, which leaves each on the device that holds it.

    One index into all planes at once would be quicker on CPU, but of arrays that are spread over
    devices the compiler would gather all.
    """
    return jax.vmap(jax.vmap(plane, 1, 1))
