"""Means over windows along one axis, rounded once.

Floats. The result is the one that arithmetic of twice the digits gives, rounded once; scipy's is
that, as it adds in float64. XLA:CPU does likewise with float32. It is told to without the user's
``jax_enable_x64``, whose meaning is which dtypes arrays have outside.

Elsewhere float64 is missing or slow, and of float64 there is no wider dtype. There a sum is
carried as ``high + low``: with ``s = fl(a + b)`` the error ``(a + b) - s`` is a float itself, which
six operations find (Knuth's two-sum), so the sum of a window is known to about twice the digits of
its dtype (:mod:`._sums`). Its quotient by ``k`` is the float ``q = fl(high / k)`` corrected by the
quotient of what is left of it, ``(high - q k) + low``.

Integers are exact (:mod:`jaxpool._numerics.integer_mean`), cut towards zero as in scipy.

A mean is linear, so its derivative is the mean of the tangents, which is rounded as sums are.

Source: Knuth, The Art of Computer Programming, 4.2.2, theorem B; Dekker 1971, "A floating-point
technique for extending the available precision", for splitting a float into halves.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._autodiff import rules
from .._autodiff.linear import linear_map
from .._geometry.resolve import Geometry
from .._lowerings import plan as plan_
from .._lowerings import tuning
from .._numerics import integer_mean
from .._xla.by_platform import by_platform
from ..reductions import SUM
from ._sums import Pair, in_pairs, of_sums
from ._windows import plan_of


def mean(x: Array, geometry: Geometry) -> Array:
    """Return the mean of every window along the one pooled axis; differentiable.

    Floats must be float32 or float64.
    """
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return _float_mean(x, geometry)
    if x.dtype == jnp.bool_:
        return mean(x.astype(jnp.uint8), geometry) != 0

    def total(digit: Array) -> Array:
        return rules.window_sum(digit, plan_of(digit, geometry, SUM))

    return integer_mean.average(x, total, geometry.taps, geometry.taps, "trunc")


def _float_mean(x: Array, geometry: Geometry) -> Array:
    ((axis, position),) = geometry.placed
    value = _value(lax.stop_gradient(x), axis.kernel, position)
    plan, taps = plan_of(x, geometry, SUM), np.asarray(axis.kernel, x.dtype)
    forward = lambda t: plan_.reduce(plan, t) / taps  # noqa: E731
    transpose = lambda g: plan_.sum_transpose(plan, g / taps)  # noqa: E731
    return linear_map(forward, transpose, x, value.shape, value)


def _value(x: Array, taps: int, position: int) -> Array:
    if x.dtype != np.float32:
        return from_pairs(x, taps, position, tuning.MOST_ADDED_AT_ONCE)
    at_once = tuning.MOST_PAIRS_ADDED_AT_ONCE
    pairs = functools.partial(from_pairs, taps=taps, position=position, at_once=at_once)
    wide = functools.partial(_from_float64, taps=taps, position=position)
    return by_platform({"cpu": wide, "gpu": pairs, "tpu": pairs}, x)


def from_pairs(x: Array, taps: int, position: int, at_once: int) -> Array:
    """Return the mean of every window along an axis, by sums in pairs of floats.

    ``at_once``: taps up to which they are added one after the other.
    """
    return _quotient(in_pairs(x, taps, position, at_once), taps)


def _from_float64(x: Array, taps: int, position: int) -> Array:
    with jax.enable_x64(True):
        mean = lambda total: (total / np.float64(taps)).astype(x.dtype)  # noqa: E731
        return of_sums(mean, x, np.dtype(np.float64), taps, position)


# --- quotients ------------------------------------------------------------------------------------


def _quotient(total: Pair, divisor: int) -> Array:
    """Return the sum over an integer, rounded once; a sum that is not finite stays what it is."""
    high, low = total
    if low is None:
        return high
    quotient, rest = _nearly(high, divisor), high
    for part in _halves(quotient):
        for factor in _integer_halves(divisor, high.dtype):
            rest = rest - part * factor
    refined = quotient + _divided(rest + low, divisor)
    return jnp.where(lax.is_finite(high), refined, high)


def _nearly(a: Array, divisor: int) -> Array:
    """``a / divisor`` as a product with the inverse, which may be off in the last place.

    The choice keeps the product from being fused, unrounded, with what is subtracted from it.
    """
    product = a * np.asarray(1 / divisor, a.dtype)
    return jnp.where(a == 0, a, product)


def _divided(a: Array, divisor: int) -> Array:
    """``a / divisor``, of a divisor that XLA does not see to be one, or it took its inverse."""
    one = np.ones((), a.dtype)
    return a / jnp.where(lax.is_finite(a), np.asarray(divisor, a.dtype), one)


def _halves(a: Array) -> tuple[Array, Array]:
    """Two floats of half the digits whose sum is ``a``, so that their products are exact."""
    digits = jnp.finfo(a.dtype).nmant + 1
    integer = np.dtype(f"int{8 * a.dtype.itemsize}")
    mask = np.asarray(-1 << (digits // 2), integer)
    high = lax.bitcast_convert_type(lax.bitcast_convert_type(a, integer) & mask, a.dtype)
    return high, a - high


def _integer_halves(number: int, dtype: np.dtype) -> list[np.ndarray]:
    """Up to two floats of half the digits whose sum is the number."""
    step = 1 << ((jnp.finfo(dtype).nmant + 1) // 2)
    parts = number // step * step, number % step
    return [np.asarray(part, dtype) for part in parts if part]
