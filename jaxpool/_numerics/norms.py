"""Norms ``(sum |x|^p)^(1/p)`` of windows or of planes.

Powers are kept in range in one of three ways. A square is taken as it is. Up to ``MOST_PLAIN``
the elements of a plane share a scale ``2^e``, near the largest of them:
``(sum |x|^p)^(1/p) = 2^e * (sum |x / 2^e|^p)^(1/p)``. Above, every power is a term with a level of
its own, see :mod:`.scaled_sums`.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._xla.lost_rules import RULES_ARE_LOST
from .._xla.materialize import materialize
from ..reductions import absolute
from . import scaled_sums
from .divisors import finite
from .float_bits import in_two, is_tiny, log2_of_power, two_to
from .scaled_sums import Terms

MOST_PLAIN = 4
"""Exponents up to which powers of elements differ so little that one scale serves a whole plane."""


def norm(
    x: Array,
    p: float,
    axes: tuple[int, ...],
    total: Callable[[Array], Array],
    largest: Callable[[Array], Array],
    joined: Callable[[Callable[[Array], Terms], Array], Terms],
) -> Array:
    """Return ``(sum |x|^p)^(1/p)`` of every window; elements that do not count are zeros.

    Args:
      x: the array.
      p: the exponent, positive or infinite.
      axes: the pooled axes, a plane of which may have a scale.
      total: sums windows.
      largest: takes the largest element of windows.
      joined: joins the terms of elements over windows, from what makes them and of what.
    """
    if p == 2:
        return _root(total(x * x), 2)
    magnitude = absolute(x)
    if p == 1:
        return total(magnitude)
    if p == math.inf:
        y = largest(magnitude)
        return jnp.where(y < 0, np.zeros((), x.dtype), y)
    if p > MOST_PLAIN:
        level, factor = joined(functools.partial(_powers, p=p), magnitude)
        return _root_of(level, factor, p)
    exponent = _exponent(lax.abs(lax.stop_gradient(x)), axes)
    plain = lambda magnitude: _root(total(_power_of(magnitude, p)), p)  # noqa: E731
    return _at_scale(plain, magnitude, exponent)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _at_scale(norm: Callable[[Array], Array], x: Array, exponent: Array) -> Array:
    """``2^e * norm(x / 2^e)``, ``e`` a constant, of an array that is not negative.

    The derivative of a norm is the same at every scale: ``2^e`` and ``2^-e`` cancel before a
    cotangent meets either, which may be near the end of its range.
    """
    return norm(x * two_to(-exponent)) * two_to(exponent)


@_at_scale.defjvp
def _at_scale_jvp(norm, primals, tangents):
    (x, exponent), (t, _) = primals, tangents
    y, dy = jax.jvp(norm, (x * two_to(-exponent),), (t,))
    return y * two_to(exponent), dy


def _exponent(x: Array, axes: tuple[int, ...]) -> Array:
    """Whole ``e`` with ``2^e`` near the largest finite element of each plane."""
    _, e = jnp.frexp(jnp.max(finite(x), axes, keepdims=True))
    most = np.finfo(x.dtype).maxexp - 2
    return e.clip(-most, most).astype(x.dtype)


# --- powers as terms -----------------------------------------------------------------------------


def _powers(x: Array, p: float) -> Terms:
    """Return ``x ** p`` as terms, of an array that is not negative.

    The power of zero is no term, so that its derivatives are zero; subnormal numbers count as zero.
    """
    alive = ~is_tiny(x)
    x = jnp.where(alive, x, np.ones((), x.dtype))
    level, factor = _power(lax.stop_gradient(x), p)
    return scaled_sums.terms_where(level, (factor * scaled_sums.unit(p * lax.log(x)),), alive)


def _power(x: Array, p: float) -> tuple[Array, Array]:
    """Level and factor of ``x ** p``."""
    level, rest = log2_of_power(x, p)
    whole, finite = lax.floor(rest), x < np.inf
    level = jnp.where(finite, level + whole, np.asarray(np.inf, x.dtype))
    # of an infinity the factor is one, and NaN stays
    return level, jnp.where(finite, lax.exp2(rest - whole), lax.min(x, np.ones((), x.dtype)))


def _root_of(level: Array, factor: Array, p: float) -> Array:
    """Return the root of sums; that of zero is zero, with zero derivatives.

    With ``k`` whole, ``(2^level * f)^(1/p) = 2^k * 2^((level - k * p) / p) * f^(1/p)``.
    """
    infinite = level == np.inf
    level = jnp.where(lax.abs(level) == np.inf, np.zeros((), level.dtype), level)
    whole = lax.floor(level / np.asarray(p, level.dtype))
    high, low = in_two(p, level.dtype)
    rest = (level - whole * high - whole * low) / np.asarray(p, level.dtype)
    scale = jnp.where(infinite, np.asarray(np.inf, level.dtype), lax.exp2(rest))
    half = lax.floor(whole * np.asarray(0.5, whole.dtype))
    return _root(factor, p) * scale * two_to(half) * two_to(whole - half)


# --- plain powers --------------------------------------------------------------------------------


def _root(x: Array, p: float) -> Array:
    """Return ``x ** (1 / p)``; that of zero is zero, with zero derivatives."""
    if p != 2:
        return _power_of(x, 1 / p)
    zero, one = np.zeros((), x.dtype), np.ones((), x.dtype)
    return jnp.where(x == 0, zero, lax.sqrt(jnp.where(x == 0, one, x)))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _power_of(x: Array, p: float) -> Array:
    """``x ** p`` of an array that is not negative; that of zero has no derivative.

    XLA:CPU takes ``lax.pow`` one number after the other, exponentials in vectors.
    """
    if float(p).is_integer():
        return lax.integer_pow(x, int(p))
    if float(2 * p).is_integer():
        y = lax.integer_pow(x, int(p)) * lax.sqrt(x)
    else:
        (level, rest), most = log2_of_power(x, p), np.finfo(x.dtype).maxexp
        y = lax.exp2(rest) * two_to(lax.min(level, np.asarray(most, level.dtype)))
        y = jnp.where(x < np.inf, y, x)
        y = jnp.where(is_tiny(x), np.zeros((), x.dtype), y)
    # Every window would take the power of an element anew; a root has a single reader.
    y = y if p < 1 else materialize(y)[0]
    return _with_derivatives(y, x, p) if RULES_ARE_LOST else y


def _with_derivatives(y: Array, x: Array, p: float) -> Array:
    """``y``, with the derivatives of ``x ** p``."""
    x = jnp.where(_is_regular(x), x, np.ones((), x.dtype))
    return lax.stop_gradient(y) * scaled_sums.unit(p * lax.log(x))


def _is_regular(x: Array) -> Array:
    """Where ``1 / x ** 2``, which JAX takes in derivatives of quotients, is finite and not zero."""
    return (x > np.finfo(x.dtype).tiny ** 0.45) & (x < np.finfo(x.dtype).max ** 0.45)


@_power_of.defjvp
def _power_of_jvp(p: float, primals, tangents):
    (x,), (t,) = primals, tangents
    y = _power_of(x, p)
    if float(p).is_integer():
        return y, np.asarray(p, x.dtype) * lax.integer_pow(x, int(p) - 1) * t
    return y, jnp.where(x == 0, np.zeros((), x.dtype), _derivative(x, y, p, 1) * t)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _derivative(x: Array, y: Array, p: float, order: int) -> Array:
    """The derivative of that order of ``x ** p``, whose value is ``y``; zero where that is zero.

    Its own derivative is the next one, not that of a quotient, whose square would overflow.
    """
    if RULES_ARE_LOST:
        x = jnp.where(_is_regular(x), x, lax.stop_gradient(x))
    safe = jnp.where(x == 0, np.ones((), x.dtype), x)
    for step in range(order):
        y = y * np.asarray(p - step, x.dtype) / safe
    at_infinity = np.asarray(0 if p < order else np.inf, x.dtype)
    return jnp.where(x == np.inf, at_infinity, y)


@_derivative.defjvp
def _derivative_jvp(p: float, order: int, primals, tangents):
    (x, y), (t, _) = primals, tangents
    slope = _derivative(x, y, p, order + 1)
    return _derivative(x, y, p, order), jnp.where(x == 0, np.zeros((), x.dtype), slope * t)
