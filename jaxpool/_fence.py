"""A fence between a computation and its uses, so that XLA:CPU does it once.

The way back reads winning taps once per tap, and XLA:CPU would rather fuse the whole selection into
each of these reads than store one byte per window. It drops ``lax.optimization_barrier`` before it
fuses, but after it has simplified choices (jaxlib 0.10.2 and 0.12); so a choice whose condition
lies behind a barrier stays, and nothing that differs between its branches is fused across it.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax


def computed_once(*arrays: Array) -> tuple[Array, ...]:
    """Return the arrays as they are, but finished."""
    return lax.platform_dependent(*arrays, cpu=_choice, default=lambda *arrays: arrays)


def _choice(*arrays: Array) -> tuple[Array, ...]:
    """A choice that always goes one way, of which the compiler learns too late."""
    never = lax.optimization_barrier(np.zeros((), np.bool_))
    other = lambda *arrays: tuple(map(jnp.zeros_like, arrays))  # noqa: E731
    return lax.cond(never, other, lambda *arrays: arrays, *arrays)
