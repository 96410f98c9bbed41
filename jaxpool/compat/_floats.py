"""Averages of integers as floats, as the JAX libraries return them."""

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike


def as_floats(inputs: ArrayLike) -> Array:
    """Return ``inputs``, integers and booleans in the dtype of their true division."""
    x = jnp.asarray(inputs)
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    return x.astype(jax.eval_shape(jnp.true_divide, x, x).dtype)
