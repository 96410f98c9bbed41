"""Averages of integers as floats, as the JAX libraries return them."""

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from ._checks import array


def as_floats(name: str, value: ArrayLike) -> Array:
    """Return the argument ``name``, integers and booleans in the dtype of their true division."""
    x = array(name, value)
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    return x.astype(jax.eval_shape(jnp.true_divide, x, x).dtype)
