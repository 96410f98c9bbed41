"""An array to be written, part after part, by all of a program.

``lax.empty`` is an array of whatever memory holds on TPU, and zeros elsewhere. To write zeros first
would be one more pass over the array. XLA:TPU alone knows it: a program that is lowered for TPU has
to run there, also if ``jax.export`` leaves out its check of the platform.

JAX before 0.12 batches ``lax.empty`` under every ``vmap``, so that a result no longer is the same
for all examples where it should be (``jax.jacfwd`` raises). There the array is of zeros.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

HAS_EMPTY = jax.__version_info__ >= (0, 12)


def uninitialized(shape: Sequence[int], dtype: Any) -> Array:
    """Return an array of unknown numbers, every one of which is yet to be written."""
    return lax.empty(tuple(shape), dtype) if HAS_EMPTY else jnp.zeros(shape, dtype)
