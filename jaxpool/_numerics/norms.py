"""Norms ``(sum |x|^p)^(1/p)`` of windows or of planes.

Squares are computed directly. Other powers are kept in range in one of two ways. For exponents up
to ``MAX_P_WITH_COMMON_SCALE``, all elements of a plane have one scale ``2^e``, near the largest of
them: ``(sum |x|^p)^(1/p) = 2^e * (sum |x / 2^e|^p)^(1/p)``. For larger exponents, the power of each
element is a term with a separate level, see :mod:`.scaled_sums`.
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

MAX_P_WITH_COMMON_SCALE = 4
"""Largest exponent whose powers differ so little that one scale suffices for all of a plane."""


def norm(
    x: Array,
    p: float,
    axes: tuple[int, ...],
    total: Callable[[Array], Array],
    largest: Callable[[Array], Array],
    joined: Callable[[Callable[[Array], Terms], Array], Terms],
) -> Array:
    """Return ``(sum |x|^p)^(1/p)`` of every window.

    Args:
      x: the array, 0 where an element does not count.
      p: the exponent, positive or infinite.
      axes: the pooled axes; a plane of these axes may have a common scale.
      total: returns the sum of every window of an array.
      largest: returns the largest element of every window of an array.
      joined: ``joined(make, a)`` returns the sum over every window of the terms ``make(a)``.
    """
    if p == 2:
        return _root(total(x * x), 2)
    magnitude = absolute(x)
    if p == 1:
        return total(magnitude)
    if p == math.inf:
        y = largest(magnitude)
        return jnp.where(y < 0, np.zeros((), x.dtype), y)
    if p > MAX_P_WITH_COMMON_SCALE:
        level, factor = joined(functools.partial(_power_terms, p=p), magnitude)
        return _root_of_term(level, factor, p)
    exponent = _exponent(lax.abs(lax.stop_gradient(x)), axes)
    direct = lambda magnitude: _root(total(_power(magnitude, p)), p)  # noqa: E731
    return _at_scale(direct, magnitude, exponent)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _at_scale(norm: Callable[[Array], Array], x: Array, exponent: Array) -> Array:
    """Return ``2^e * norm(x / 2^e)`` for a constant ``e`` and an array of numbers ``>= 0``.

    The derivative of a norm is the same at every scale. So the rule omits ``2^e`` and ``2^-e``,
    which cancel: a product of a cotangent and only one of them might leave the range of the dtype.
    """
    return norm(x * two_to(-exponent)) * two_to(exponent)


@_at_scale.defjvp
def _at_scale_jvp(norm, primals, tangents):
    (x, exponent), (t, _) = primals, tangents
    y, dy = jax.jvp(norm, (x * two_to(-exponent),), (t,))
    return y * two_to(exponent), dy


def _exponent(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the integer ``e`` with ``2^e`` near the largest finite element of each plane."""
    _, e = jnp.frexp(scaled_sums.maximum_over(finite(x), axes))
    max_exponent = np.finfo(x.dtype).maxexp - 2
    return e.clip(-max_exponent, max_exponent).astype(x.dtype)


# --- powers as terms -----------------------------------------------------------------------------


def _power_terms(x: Array, p: float) -> Terms:
    """Return ``x ** p`` as terms, for an array of numbers ``>= 0``.

    The power of zero is the term 0, with zero derivatives. Subnormal numbers count as zero.
    """
    nonzero = ~is_tiny(x)
    x = jnp.where(nonzero, x, np.ones((), x.dtype))
    level, factor = _level_and_factor(lax.stop_gradient(x), p)
    return scaled_sums.terms_where(
        level, (factor * scaled_sums.unit(p * scaled_sums.log(x)),), nonzero
    )


def _level_and_factor(x: Array, p: float) -> tuple[Array, Array]:
    """Return level and factor of ``x ** p``."""
    level, remainder = log2_of_power(x, p)
    integer, finite = lax.floor(remainder), x < np.inf
    total, remainder, info = level + integer, remainder - integer, np.finfo(x.dtype)
    if p * info.maxexp > 2**info.nmant:  # or the sum of two integers is rounded
        remainder = remainder + (integer - (total - level))
    level = jnp.where(finite, total, np.asarray(np.inf, x.dtype))
    # The factor of an infinity is one. NaN remains NaN.
    return level, jnp.where(finite, lax.exp2(remainder), lax.min(x, np.ones((), x.dtype)))


def _root_of_term(level: Array, factor: Array, p: float) -> Array:
    """Return the ``p``-th root of a term; the root of zero is zero, with zero derivatives.

    For an integer ``k``, ``(2^level * f)^(1/p) = 2^k * 2^((level - k * p) / p) * f^(1/p)``.
    """
    infinite = level == np.inf
    level = jnp.where(lax.abs(level) == np.inf, np.zeros((), level.dtype), level)
    integer = lax.floor(level / np.asarray(p, level.dtype))
    high, low = in_two(p, level.dtype)
    remainder = (level - integer * high - integer * low) / np.asarray(p, level.dtype)
    scale = jnp.where(infinite, np.asarray(np.inf, level.dtype), lax.exp2(remainder))
    half = lax.floor(integer * np.asarray(0.5, integer.dtype))
    return _root(factor, p) * scale * two_to(half) * two_to(integer - half)


# --- direct powers -------------------------------------------------------------------------------


def _root(x: Array, p: float) -> Array:
    """Return ``x ** (1 / p)``; the root of zero is zero, with zero derivatives."""
    return square_root(x) if p == 2 else _power(x, 1 / p)


def square_root(x: Array) -> Array:
    """Return the square root; the root of zero is zero, with zero derivatives."""
    zero, one = np.zeros((), x.dtype), np.ones((), x.dtype)
    return jnp.where(x == 0, zero, lax.sqrt(jnp.where(x == 0, one, x)))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _power(x: Array, p: float) -> Array:
    """Return ``x ** p`` for an array of numbers ``>= 0``.

    Unless ``p`` is an integer, derivatives at zero are zero. XLA:CPU vectorises exponentials, but
    computes ``lax.pow`` of numbers sequentially.
    """
    if float(p).is_integer():
        return lax.integer_pow(x, int(p))
    if float(2 * p).is_integer():
        y = lax.integer_pow(x, int(p)) * lax.sqrt(x)
    else:
        (level, remainder), max_level = log2_of_power(x, p), np.finfo(x.dtype).maxexp
        y = lax.exp2(remainder) * two_to(lax.min(level, np.asarray(max_level, level.dtype)))
        y = jnp.where(x < np.inf, y, x)
        y = jnp.where(is_tiny(x), np.zeros((), x.dtype), y)
    # Otherwise every window would recompute the power of an element. A root has a single reader.
    y = y if p < 1 else materialize(y)
    return _with_derivatives(y, x, p) if RULES_ARE_LOST else y


def _with_derivatives(y: Array, x: Array, p: float) -> Array:
    """Return ``y`` with the derivatives of ``x ** p``."""
    x = jnp.where(_is_regular(x), x, np.ones((), x.dtype))
    return lax.stop_gradient(y) * scaled_sums.unit(p * lax.log(x))


def _is_regular(x: Array) -> Array:
    """Return whether ``1 / x ** 2``, a factor of derivatives of quotients, is finite and not 0."""
    return (x > np.finfo(x.dtype).tiny ** 0.45) & (x < np.finfo(x.dtype).max ** 0.45)


@_power.defjvp
def _power_jvp(p: float, primals, tangents):
    (x,), (t,) = primals, tangents
    y = _power(x, p)
    if float(p).is_integer():
        return y, np.asarray(p, x.dtype) * lax.integer_pow(x, int(p) - 1) * t
    return y, jnp.where(x == 0, np.zeros((), x.dtype), _derivative(x, y, p, 1) * t)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _derivative(x: Array, y: Array, p: float, order: int) -> Array:
    """Return the ``order``-th derivative of ``y = x ** p``, zero where ``y`` is zero.

    The rule returns the next derivative. JAX's derivative of the quotient would square the divisor,
    which would overflow.
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
