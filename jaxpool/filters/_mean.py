"""Means over windows along one axis, rounded once.

Floats. The result equals that of arithmetic in twice the precision, rounded once. Scipy has the
same result, because it adds in float64. On CPU, sums of float32 are also accumulated in float64,
whether or not the user sets ``jax_enable_x64``: that setting is about the dtypes of arrays outside.

On other platforms float64 is missing or slow, and float64 itself has no wider dtype. In these cases
a sum is a pair ``high + low``. With ``s = fl(a + b)`` the error ``(a + b) - s`` is itself a float,
which six operations compute (Knuth's two-sum), so the sum of a window is known to about twice the
precision of its dtype (:mod:`._sums`). The quotient by ``k`` is ``q = fl(high / k)``, corrected by
the quotient of the remainder ``(high - q k) + low``.

Integer means are exact (:mod:`jaxpool._numerics.integer_mean`) and truncated towards zero, as in
scipy.

A mean is linear: its derivative is the mean of the tangents, rounded like other sums.

Source: Knuth, The Art of Computer Programming, 4.2.2, theorem B.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._autodiff.linear import linear_map
from .._geometry.resolve import Geometry
from .._lowerings import plan as plan_
from .._lowerings import tuning
from .._numerics import integer_mean
from .._numerics.divisors import window_sum
from .._numerics.quotient import remainder_of, rounded_quotient
from .._xla.by_platform import by_platform
from .._xla.opaque_divisor import opaque_divisor
from ..reductions import SUM
from ._sums import Pair, map_sums, pair_sums


def mean(x: Array, geometry: Geometry) -> Array:
    """Return the mean of every window along the only pooled axis; differentiable.

    Floats must be float32 or float64.
    """
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return _float_mean(x, geometry)
    if x.dtype == jnp.bool_:
        return mean(x.astype(jnp.uint8), geometry) != 0

    total = functools.partial(window_sum, geometry=geometry)
    return integer_mean.average(x, total, geometry.taps, geometry.taps, "trunc")


def _float_mean(x: Array, geometry: Geometry) -> Array:
    ((axis, position),) = geometry.placed
    value = _mean_value(lax.stop_gradient(x), axis.kernel, position)
    plan, taps = plan_.plan_for(geometry, SUM, x.dtype), np.asarray(axis.kernel, x.dtype)
    forward = lambda t: plan_.reduce(plan, t) / taps  # noqa: E731
    transpose = lambda g: plan_.sum_transpose(plan, g / taps)  # noqa: E731
    return linear_map(forward, transpose, x, value.shape, value)


def _mean_value(x: Array, taps: int, position: int) -> Array:
    if x.dtype != np.float32:
        return from_pairs(x, taps, position, tuning.MAX_ADDED_AT_ONCE)
    max_direct_taps = tuning.MAX_PAIRS_ADDED_AT_ONCE
    from_pair_sums = functools.partial(
        from_pairs, taps=taps, position=position, max_direct_taps=max_direct_taps
    )
    from_float64 = functools.partial(_from_float64, taps=taps, position=position)
    return by_platform(x, cpu=from_float64, default=from_pair_sums)


def from_pairs(x: Array, taps: int, position: int, max_direct_taps: int) -> Array:
    """Return the mean of every window along an axis, from sums in pairs of floats.

    ``max_direct_taps``: as in :func:`pair_sums`.
    """
    return _quotient(pair_sums(x, taps, position, max_direct_taps), taps)


def _from_float64(x: Array, taps: int, position: int) -> Array:
    with jax.enable_x64(True):
        mean = lambda total: (total / np.float64(taps)).astype(x.dtype)  # noqa: E731
        return map_sums(mean, x, np.dtype(np.float64), taps, position)


# --- quotients ------------------------------------------------------------------------------------


def _quotient(total: Pair, divisor: int) -> Array:
    """Return the sum divided by an integer, rounded once; a sum that is not finite is unchanged."""
    high, low = total
    if low is None:
        return high
    quotient = _approximate_quotient(high, divisor)
    remainder = remainder_of(high, quotient, _integer_halves(divisor, high.dtype))
    remainder += low
    # A mean halfway between two floats is rounded to even only if this quotient has no error.
    refined = quotient + rounded_quotient(remainder, opaque_divisor(divisor, remainder))
    return jnp.where(lax.is_finite(high), refined, high)


def _approximate_quotient(a: Array, divisor: int) -> Array:
    """Return ``a / divisor`` as a product with the reciprocal, which may be off in the last place.

    The select keeps XLA from fusing the unrounded product into a subtraction that follows.
    """
    product = a * np.asarray(1 / divisor, a.dtype)
    return jnp.where(a == 0, a, product)


def _integer_halves(integer: int, dtype: np.dtype) -> list[np.ndarray]:
    """Return at most two nonzero floats of half the precision whose sum is the integer."""
    step = 1 << ((jnp.finfo(dtype).nmant + 1) // 2)
    halves = integer // step * step, integer % step
    return [np.asarray(half, dtype) for half in halves if half]
