"""NaN that ``jax_debug_nans`` does not report: constants, and numbers that no result contains.

For JAX 0.10 to 0.12. With ``jax_disable_jit``, JAX runs one operation at a time and
``jax_debug_nans`` checks the result of each. It reports an operation that converts or broadcasts a
NaN, even if no result of the op contains this NaN. ``jax.vmap`` broadcasts a constant that is
selected from. So without jit the NaN is made of bits, only where a result contains it.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax


def nan_at(which: Any, x: Any) -> Any:
    """Return NaN in the dtype of ``x``: a scalar, or without jit an array, 0 outside ``which``."""
    nan = np.asarray(np.nan, x.dtype)
    if not _runs_without_jit():
        return nan
    bits = nan.view(f"uint{8 * nan.itemsize}")
    return lax.bitcast_convert_type(jnp.where(which, bits, np.zeros((), bits.dtype)), x.dtype)


def nan_where(which: Any, y: Array) -> Array:
    """Return NaN where ``which`` is true, else ``y``; ``which`` broadcasts to ``y``."""
    return jnp.where(which, nan_at(which, y), y)


def hide_infinities(x: Array) -> Array:
    """Return ``x``, without jit 0 in place of infinities: for results that infinities leave out."""
    return jnp.where(jnp.isinf(x), np.zeros((), x.dtype), x) if _runs_without_jit() else x


def difference(x: Array, y: Array) -> Array:
    """Return ``x - y``; where both are the same infinity, NaN or infinity."""
    if _runs_without_jit():
        y = jnp.where((x == y) & jnp.isinf(x), np.zeros((), y.dtype), y)
    return x - y


def checked_at_the_end(f: Callable[..., Array]) -> Callable[..., Array]:
    """Return ``f``, of which JAX checks only the result; not for use within linear maps."""

    def checked(*arrays: Any) -> Array:
        if not _runs_without_jit():
            return f(*arrays)
        with jax.debug_nans(False):
            y = f(*arrays)
        return jnp.copy(y)  # an operation, whose result JAX checks

    return checked


def _runs_without_jit() -> bool:
    return jax.config.jax_disable_jit  # pyright: ignore
