"""Conversion of floats to integers as in NumPy, on which scipy depends."""

import jax.numpy as jnp
import numpy as np
from jax import Array


def cast_as_numpy(numbers: Array, dtype: np.dtype) -> Array:
    """Return the numbers as ``dtype``; floats are truncated to integers that wrap, as in NumPy.

    Floats are also truncated to booleans, as in scipy: 0.9 is False.
    """
    if dtype == np.bool_ and jnp.issubdtype(numbers.dtype, jnp.floating):
        return jnp.abs(numbers) >= 1
    to_integers = jnp.issubdtype(numbers.dtype, jnp.floating) and jnp.issubdtype(dtype, jnp.integer)
    if to_integers and jnp.issubdtype(dtype, jnp.unsignedinteger):
        magnitude = jnp.abs(numbers).astype(np.uint64 if dtype.itemsize == 8 else np.uint32)
        numbers = jnp.where(numbers < 0, 0 - magnitude, magnitude)
    elif to_integers:
        numbers = numbers.astype(np.int64 if dtype.itemsize == 8 else np.int32)
    return numbers.astype(dtype)
