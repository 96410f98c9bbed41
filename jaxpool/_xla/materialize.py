"""Arrays that are stored before they are used, so that XLA:CPU computes them once.

A gradient reads the offsets of the argmax once for each element of a window. XLA:CPU would fuse the
full argmax into each of these reads instead of storing one byte per window. A
``lax.optimization_barrier`` prevents the fusion in jaxlib 0.11.1 and later. Earlier versions remove
the barrier before fusion, but after they simplify conditionals. In these versions, a conditional
whose predicate comes from a barrier is not simplified, and XLA does not fuse its operands or
results across it.
"""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .by_platform import by_platform

T = TypeVar("T")

BARRIER_HOLDS = jax.__version_info__ >= (0, 11, 1)


def materialize(arrays: T) -> T:
    """Return an array or a pytree of arrays, on CPU stored in memory before they are used."""
    return by_platform(arrays, cpu=_cpu_store(), default=_unchanged)


def materialize_axis(arrays: T) -> T:
    """Return results along one axis, on CPU and GPU stored before the next axis is reduced.

    XLA:GPU would fuse the reductions along two axes into one kernel. There a thread reads all
    elements of a window, and neighbouring threads read far apart. Along one axis after another, the
    last axis last, neighbouring threads read neighbours of the array.
    """
    return by_platform(arrays, cpu=_cpu_store(), tpu=_unchanged, default=lax.optimization_barrier)


def _cpu_store() -> Callable[[T], T]:
    return lax.optimization_barrier if BARRIER_HOLDS else _store_by_branch


def _store_by_branch(arrays: T) -> T:
    """Return the arrays from a conditional whose constant predicate is hidden from the compiler."""
    never = lax.optimization_barrier(np.zeros((), np.bool_))
    to_zeros = lambda arrays: jax.tree.map(jnp.zeros_like, arrays)  # noqa: E731
    return lax.cond(never, to_zeros, _unchanged, arrays)


def _unchanged(arrays: T) -> T:
    return arrays
