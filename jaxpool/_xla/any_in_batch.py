"""A predicate with one value for all examples of ``jax.vmap``.

For JAX 0.10 to 0.12. If the predicate of ``lax.cond`` differs between examples, vmap replaces the
branch: it computes both sides and selects. With one predicate for all examples, the branch remains.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


@jax.custom_batching.custom_vmap
def any_in_batch(mask: Array) -> Array:
    """Return whether any entry is true, over all examples of a batch."""
    numbers = mask.astype(jnp.uint8)  # XLA:CPU vectorises over bytes, but not over booleans
    return numbers.max(initial=0) > 0  # False for an empty mask


@any_in_batch.def_vmap
def _any_in_all_examples(size: int, batched: Any, mask: Array) -> tuple[Array, bool]:
    return any_in_batch(mask), False
