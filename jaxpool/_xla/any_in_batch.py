"""A question asked once for all examples of ``jax.vmap``.

For JAX 0.10 to 0.12. ``lax.cond`` of a condition with one answer for each example is no branch any
more: vmap computes both branches and selects. With one answer for all examples it stays a branch.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


@jax.custom_batching.custom_vmap
def any_in_batch(mask: Array) -> Array:
    """Return whether any entry is true, in all examples of a batch."""
    numbers = mask.astype(jnp.uint8)  # XLA:CPU takes several bytes at once, but booleans one by one
    return numbers.max(initial=0) > 0  # of an empty mask, False


@any_in_batch.def_vmap
def _of_all_examples(size: int, batched: Any, mask: Array) -> tuple[Array, bool]:
    return any_in_batch(mask), False
