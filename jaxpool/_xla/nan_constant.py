"""NaN that ``jax_debug_nans`` does not report: constants, and numbers that no result contains.

For JAX 0.10 to 0.12. With ``jax_disable_jit``, JAX runs one operation at a time and
``jax_debug_nans`` checks the result of each. It reports an operation that converts or broadcasts a
NaN, even if no result of the op contains this NaN. JAX does not check operands, such as arrays of
NumPy.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax


def nan_like(x: Any) -> np.ndarray:
    """Return NaN in the dtype of ``x``: a scalar, or without jit an array of the shape of ``x``."""
    shape = x.shape if _runs_without_jit() else ()
    return np.full(shape, np.nan, x.dtype)


def nan_where(which: Any, y: Array) -> Array:
    """Return NaN where ``which`` is true, else ``y``; ``which`` broadcasts to ``y``."""
    if _runs_without_jit():
        return lax.select(jnp.broadcast_to(which, y.shape), nan_like(y), y)
    return jnp.where(which, nan_like(y), y)


def difference(x: Array, y: Array) -> Array:
    """Return ``x - y``; where both are the same infinity, NaN or infinity."""
    if _runs_without_jit():
        y = jnp.where((x == y) & jnp.isinf(x), np.zeros((), y.dtype), y)
    return x - y


def _runs_without_jit() -> bool:
    return jax.config.jax_disable_jit  # pyright: ignore
