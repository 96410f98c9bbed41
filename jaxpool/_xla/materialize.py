"""Arrays that are stored before they are used, so that XLA:CPU computes them once.

A gradient reads the offsets of the argmax once for each element of a window. XLA:CPU would fuse the
full argmax into each of these reads instead of storing one byte per window. A
``lax.optimization_barrier`` prevents the fusion in jaxlib 0.11.1 and later. Earlier versions remove
the barrier before fusion, but after they simplify conditionals. In these versions, a conditional
whose predicate comes from a barrier is not simplified, and XLA does not fuse its operands or
results across it.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .by_platform import by_platform

BARRIER_HOLDS = jax.__version_info__ >= (0, 11, 1)


def materialize(*arrays: Array) -> tuple[Array, ...]:
    """Return the arrays, on CPU stored in memory before they are used."""
    unchanged = lambda *arrays: arrays  # noqa: E731
    return by_platform({"cpu": _store, "gpu": unchanged, "tpu": unchanged}, *arrays)


def _store(*arrays: Array) -> tuple[Array, ...]:
    return lax.optimization_barrier(arrays) if BARRIER_HOLDS else _store_by_branch(*arrays)


def _store_by_branch(*arrays: Array) -> tuple[Array, ...]:
    """Return the arrays from a conditional whose constant predicate is hidden from the compiler."""
    never = lax.optimization_barrier(np.zeros((), np.bool_))
    to_zeros = lambda *arrays: tuple(map(jnp.zeros_like, arrays))  # noqa: E731
    return lax.cond(never, to_zeros, lambda *arrays: arrays, *arrays)
