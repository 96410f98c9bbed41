"""The batch axis of a function and that of its derivative rule.

Inside ``jax.vmap`` an array has its batch axis anywhere among the others. JAX (0.12) takes the
place of the batch axis of a ``jax.custom_jvp`` call from the function, also where the results come
from the rule: they are wrong where the places differ. A rule that ends in a linear solve has the
axis first, so the function must have it first, too.
"""

from jax import Array, lax


def batch_axis_first(x: Array) -> Array:
    """Return ``x`` with the batch axis that ``jax.vmap`` gives it, if any, before all others."""
    return lax.squeeze(lax.expand_dims(x, (0,)), (0,))  # a broadcast puts a batch axis first
