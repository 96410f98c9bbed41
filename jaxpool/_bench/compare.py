"""Comparison of the results of two programs, up to the rounding of sums."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._errors import message, shown
from .._explain.explain import Explanation


def largest_difference(
    explanation: Explanation, arguments: tuple[Array, ...], our_result: Any, their_result: Any
) -> float:
    """Return the largest difference between two results computed from the same arguments.

    Raises:
      ValueError: the difference is larger than the rounding of sums can explain.
    """
    pairs = zip(jax.tree.leaves(our_result), jax.tree.leaves(their_result), strict=True)
    largest = max(_difference(a, b) for a, b in pairs)
    allowed = _allowed_difference(explanation, arguments)
    if largest > allowed:
        raise ValueError(
            message(
                f"Results differ by {largest:.1e}, more than the rounding error of {allowed:.1e}.",
                "jaxpool and lax.reduce_window received the same "
                f"{shown(explanation.dtype.name)} array.",
                "Please report this call with the output of `python -m jaxpool doctor`.",
            )
        )
    return largest


def _difference(a: Array, b: Array) -> float:
    if a.shape != b.shape or a.dtype != b.dtype:
        return math.inf
    equal = np.asarray(a) == np.asarray(b)  # true also for the infinities of empty windows
    as_float64 = (np.asarray(c).astype(np.float64) for c in (a, b))
    with np.errstate(invalid="ignore"):
        differences = np.where(equal, 0, np.abs(np.subtract(*as_float64)))
    return float(np.where(np.isnan(differences), math.inf, differences).max())


def _allowed_difference(explanation: Explanation, arguments: tuple[Array, ...]) -> float:
    """Return the rounding error of a sum with one term per tap; of one term for averages.

    The bound also holds for the gradient, because an element is in at most as many windows as a
    window has taps. It is 0 for integers, and for a maximum without its gradient, which adds
    nothing.
    """
    adds = explanation.op in ("sum_pool", "avg_pool") or len(arguments) > 1
    if not adds or not jnp.issubdtype(explanation.dtype, jnp.floating):
        return 0.0
    terms = 1 if explanation.op == "avg_pool" else explanation.geometry.taps
    largest = max(float(jnp.abs(array.astype(np.float32)).max()) for array in arguments)
    return 4 * float(jnp.finfo(explanation.dtype).eps) * terms * largest
