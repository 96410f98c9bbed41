"""Divisors that XLA does not recognise as constant.

For jaxlib 0.10 to 0.12. XLA converts a division by a constant, or by a scalar, into a product with
the reciprocal, whose result may be off in the last place. The result is then on the other side of a
rounding tie, or of the end of an interval.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax


def opaque_divisor(divisor: Any, dividend: Array) -> Array:
    """Return a positive ``divisor`` for each element of ``dividend``, an array XLA cannot fold."""
    divisor, one = jnp.asarray(divisor, dividend.dtype), np.ones((), dividend.dtype)
    return jnp.where(lax.is_finite(dividend), divisor, one)  # XLA may fold x == x
