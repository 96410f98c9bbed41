"""The position of the batch axis of a function and of its derivative rule.

Inside ``jax.vmap`` the batch axis of an array can be at any position. For the results of a
``jax.custom_jvp`` call, JAX (0.12) uses the position in the results of the function, even if the
rule computes the results. The results are wrong if the two positions differ. The batch axis of a
linear solve comes first, so a function whose rule ends in one must move its batch axis first, too.
"""

from jax import Array, lax


def batch_axis_first(x: Array) -> Array:
    """Return ``x`` with the batch axis of ``jax.vmap``, if any, moved before all others."""
    return lax.squeeze(lax.expand_dims(x, (0,)), (0,))  # batching a broadcast moves the axis first
