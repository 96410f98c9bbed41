"""Averages of integers as floats, as the JAX libraries return them."""

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from ._checks import array


def as_floats(inputs: ArrayLike) -> Array:
    """Return ``inputs``, integers and booleans in the dtype of their true division."""
    x = array("inputs", inputs)
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    return x.astype(jax.eval_shape(jnp.true_divide, x, x).dtype)
