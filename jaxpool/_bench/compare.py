"""Whether two programs computed the same, within the rounding of their sums."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._errors import message, shown
from .._explain.explain import Explanation


def largest_difference(
    found: Explanation, arguments: tuple[Array, ...], mine: Any, other: Any
) -> float:
    """Return the largest difference of two results of the same arguments.

    Raises:
      ValueError: it is larger than the rounding of their sums.
    """
    pairs = zip(jax.tree.leaves(mine), jax.tree.leaves(other), strict=True)
    largest = max(_difference(a, b) for a, b in pairs)
    allowed = _allowed(found, arguments)
    if largest > allowed:
        raise ValueError(
            message(
                f"Results differ by {largest:.1e}, and {allowed:.1e} would be rounding.",
                f"jaxpool and lax.reduce_window had the same {shown(found.dtype.name)} array.",
                "Please report this call with what `python -m jaxpool doctor` prints.",
            )
        )
    return largest


def _difference(a: Array, b: Array) -> float:
    if a.shape != b.shape or a.dtype != b.dtype:
        return math.inf
    exact = np.asarray(a) == np.asarray(b)  # infinities of empty windows too
    wide = (np.asarray(c).astype(np.float64) for c in (a, b))
    with np.errstate(invalid="ignore"):
        gaps = np.where(exact, 0, np.abs(np.subtract(*wide)))
    return float(np.where(np.isnan(gaps), math.inf, gaps).max())


def _allowed(found: Explanation, arguments: tuple[Array, ...]) -> float:
    """Rounding of a sum of as many terms as a window has, of averages of one; 0 for integers.

    An element lies in at most as many windows as a window has elements, so that holds for the
    gradient too. A maximum without its gradient adds nothing.
    """
    adds = found.op in ("sum_pool", "avg_pool") or len(arguments) > 1
    if not adds or not jnp.issubdtype(found.dtype, jnp.floating):
        return 0.0
    terms = 1 if found.op == "avg_pool" else found.geometry.taps
    largest = max(float(jnp.abs(array.astype(np.float32)).max()) for array in arguments)
    return 4 * float(jnp.finfo(found.dtype).eps) * terms * largest
