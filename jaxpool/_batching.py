"""A question that is asked once for a whole batch of ``jax.vmap``.

A choice by an answer for each example is no choice any more: JAX goes both ways and selects. By one
answer for all of them it stays a choice.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


@jax.custom_batching.custom_vmap
def any_in_batch(mask: Array) -> Array:
    """Return whether any entry is true, in all examples of a batch."""
    numbers = mask.astype(jnp.uint8)  # XLA:CPU takes several bytes at once, but truth one by one
    return numbers.max(initial=0) > 0  # an empty mask has none


@any_in_batch.def_vmap
def _of_all_examples(size: int, batched: Any, mask: Array) -> tuple[Array, bool]:
    return any_in_batch(mask), False
