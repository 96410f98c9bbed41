"""Erosion, dilation, opening and closing, flat or with a structure."""

import jax.numpy as jnp
from jax import Array

from ..reductions import MAX, MIN
from ._arguments import Neighborhood
from ._extreme import extreme, weighted_extreme


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
