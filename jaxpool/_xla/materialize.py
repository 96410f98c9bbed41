"""Arrays that are stored before they are used, so that XLA:CPU computes them once.

A gradient reads the offsets of the argmax once for each element of a window, and XLA:CPU would fuse
the whole argmax into each of these reads rather than store one byte per window. A
``lax.optimization_barrier`` says not to, and jaxlib obeys from 0.11.1 on. Earlier ones drop the
barrier before they fuse, but after they have simplified branches: there a branch whose condition
lies behind a barrier stays, and what both sides of the branch read or make is not fused across it.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .by_platform import by_platform

BARRIER_HOLDS = jax.__version_info__ >= (0, 11, 1)


def materialize(*arrays: Array) -> tuple[Array, ...]:
    """Return the arrays, stored."""
    plain = lambda *arrays: arrays  # noqa: E731
    return by_platform({"cpu": _stored, "gpu": plain, "tpu": plain}, *arrays)


def _stored(*arrays: Array) -> tuple[Array, ...]:
    return lax.optimization_barrier(arrays) if BARRIER_HOLDS else _branch(*arrays)


def _branch(*arrays: Array) -> tuple[Array, ...]:
    """Return the arrays, by a branch that the compiler learns too late is always the same."""
    never = lax.optimization_barrier(np.zeros((), np.bool_))
    other = lambda *arrays: tuple(map(jnp.zeros_like, arrays))  # noqa: E731
    return lax.cond(never, other, lambda *arrays: arrays, *arrays)
