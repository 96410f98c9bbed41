"""Erosion and dilation, flat or with a structure, and what is made of both."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from ..ops._dispatch import Op
from ..reductions import MAX, MIN
from ._arguments import Neighborhood
from ._call import filter_op
from ._extreme import extreme, weighted_extreme

Body = Callable[[Array, Neighborhood, Array | None], Array]


def morphology_op(name: str, body: Body) -> Op:
    """Return the op of ``body(x, neighborhood, structure or None)``."""
    return filter_op(name, lambda x, hood, own, structure: body(x, hood, structure), "structure")


def eroded(x: Array, hood: Neighborhood, structure: Array | None) -> Array:
    if structure is None:
        return extreme(x, hood, MIN)
    return weighted_extreme(x, -_signed(structure), hood, MIN)


def dilated(x: Array, hood: Neighborhood, structure: Array | None) -> Array:
    if structure is None:
        return extreme(x, hood.mirrored(), MAX)
    return weighted_extreme(x, _signed(jnp.flip(structure)), hood.mirrored(), MAX)


def opened(x: Array, hood: Neighborhood, structure: Array | None) -> Array:
    return dilated(eroded(x, hood, structure), hood, structure)


def closed(x: Array, hood: Neighborhood, structure: Array | None) -> Array:
    return eroded(dilated(x, hood, structure), hood, structure)


def _signed(structure: Array) -> Array:
    """A structure whose dtype holds its negative."""
    if jnp.issubdtype(structure.dtype, jnp.floating) or structure.dtype.itemsize == 8:
        return structure
    return structure.astype(jnp.int32)
