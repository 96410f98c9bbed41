"""Erosion, dilation, opening and closing, flat or with a structure."""

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
    return filter_op(
        name,
        lambda x, neighborhood, options, structure: body(x, neighborhood, structure),
        "structure",
    )


def erosion(x: Array, neighborhood: Neighborhood, structure: Array | None) -> Array:
    if structure is None:
        return extreme(x, neighborhood, MIN)
    return weighted_extreme(x, structure, neighborhood, MIN)


def dilation(x: Array, neighborhood: Neighborhood, structure: Array | None) -> Array:
    if structure is None:
        return extreme(x, neighborhood.mirrored(), MAX)
    return weighted_extreme(x, jnp.flip(structure), neighborhood.mirrored(), MAX)


def opening(x: Array, neighborhood: Neighborhood, structure: Array | None) -> Array:
    return dilation(erosion(x, neighborhood, structure), neighborhood, structure)


def closing(x: Array, neighborhood: Neighborhood, structure: Array | None) -> Array:
    return erosion(dilation(x, neighborhood, structure), neighborhood, structure)
