"""``lax.select`` between arrays and scalars.

``jnp.where`` is a jitted function: JAX traces, differentiates and batches each call of it as a
separate program.
"""

from typing import Any

from jax import Array, lax


def select(which: Array, x: Any, y: Any) -> Array:
    """Return ``x`` where ``which`` is true, else ``y``; either ``x`` or ``y`` may be a scalar."""
    if not x.ndim:
        x = lax.full_like(y, x)
    elif not y.ndim:
        y = lax.full_like(x, y)
    return lax.select(which, x, y)
