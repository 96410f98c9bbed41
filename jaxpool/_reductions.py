"""Reductions as values with laws.

A reduction is what a window does with its cells: an identity per dtype and an associative,
commutative ``combine``. Lowerings ask for its laws (``idempotent``), never for its name.

A *selection* is a reduction that returns one of its operands, such as max. It has ``beats(b, a)``:
whether ``b`` is strictly preferred to an ``a`` that comes earlier in the window. ``beats`` must be
the strict part of a total preorder; then the winner of a window is the first of its best cells, and
it is the same cell however the window is cut into parts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

DType = np.dtype


@dataclass(frozen=True, eq=False)
class Reduction:
    """What a window does with its cells.

    Attributes:
      name: how the reduction is called in messages and plans.
      combine: associative, commutative function of two arrays.
      identity: from a dtype to the value that ``combine`` ignores.
      idempotent: ``combine(a, a) == a``, so that overlapping parts of a window may be combined.
      beats: for a selection, whether its first argument is strictly preferred; else None.
    """

    name: str
    combine: Callable[[Array, Array], Array]
    identity: Callable[[DType], Any]
    idempotent: bool
    beats: Callable[[Array, Array], Array] | None = None


def _is_float(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


def _has_infinity(dtype: DType) -> bool:
    """False for the float8 formats that spend the code of infinity on a number."""
    return bool(np.isinf(np.asarray(np.inf, dtype)))


def _lowest(dtype: DType) -> Any:
    if dtype == np.bool_:
        return False
    if not _is_float(dtype):
        return jnp.iinfo(dtype).min
    return -np.inf if _has_infinity(dtype) else jnp.finfo(dtype).min


def _highest(dtype: DType) -> Any:
    if dtype == np.bool_:
        return True
    if not _is_float(dtype):
        return jnp.iinfo(dtype).max
    return np.inf if _has_infinity(dtype) else jnp.finfo(dtype).max


def _first_nan(b: Array, a: Array) -> Array:
    """Whether only the later ``b`` is NaN: NaN beats every number, and the first NaN wins."""
    return (b != b) & (a == a)


def _greater(b: Array, a: Array) -> Array:
    return (b > a) | _first_nan(b, a) if _is_float(b.dtype) else b > a


def _less(b: Array, a: Array) -> Array:
    return (b < a) | _first_nan(b, a) if _is_float(b.dtype) else b < a


MAX = Reduction("max", lax.max, _lowest, idempotent=True, beats=_greater)
MIN = Reduction("min", lax.min, _highest, idempotent=True, beats=_less)
SUM = Reduction("sum", lax.add, lambda dtype: 0, idempotent=False)


def identity_array(reduction: Reduction, dtype: DType) -> np.ndarray:
    """The identity as a NumPy scalar array, concrete also while JAX is tracing."""
    return np.asarray(reduction.identity(dtype), dtype)


def accumulator(dtype: DType) -> DType:
    """The dtype that sums of ``dtype`` run in: float32 for narrow floats, else the dtype itself."""
    if _is_float(dtype) and jnp.finfo(dtype).bits < 32:
        return np.dtype(np.float32)
    return dtype
