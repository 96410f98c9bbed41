"""Reductions for :func:`jaxpool.pool`.

``MAX, MIN, SUM, MEAN, PRODUCT, LOGSUMEXP, ANY, ALL`` and ``lp(p)`` are values; one of your own is a
:class:`jaxpool.Reduction`. A window without a cell gives the identity: the lowest or highest value
of the dtype, 0, 0, 1, -inf, False, True, 0.
"""

import functools
import numbers
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ._errors import message
from ._reductions import MAX as MAX
from ._reductions import MIN as MIN
from ._reductions import SUM as SUM
from ._reductions import Reduction as Reduction
from ._reductions import absolute, accumulator, sum_accumulator, sum_dtype

__all__ = [
    "ALL",
    "ANY",
    "LOGSUMEXP",
    "MAX",
    "MEAN",
    "MIN",
    "PRODUCT",
    "Reduction",
    "SUM",
    "lp",
]


def _floats(dtype: np.dtype) -> np.dtype | None:
    """The accumulator of a reduction that takes floats alone."""
    return accumulator(dtype) if jnp.issubdtype(dtype, jnp.floating) else None


def _boolean(dtype: np.dtype) -> np.dtype:
    return np.dtype(bool)


def _mean(total: Array, count: Array) -> Array:
    nothing = count == 0
    return jnp.where(nothing, jnp.zeros((), total.dtype), total / jnp.where(nothing, 1, count))


@jax.custom_jvp
def _logaddexp(a: Array, b: Array) -> Array:
    return jnp.logaddexp(a, b)


@_logaddexp.defjvp
def _logaddexp_jvp(primals, tangents):
    """``dy = s(a - b) da + s(b - a) db``, s the logistic function; 0 where both are -inf."""
    a, b = primals
    y = _logaddexp(a, b)
    difference = jnp.where(jnp.isinf(a) & (a == b), jnp.zeros((), a.dtype), a - b)
    tangent = jax.nn.sigmoid(difference) * tangents[0] + jax.nn.sigmoid(-difference) * tangents[1]
    return y, jnp.where(y == -jnp.inf, jnp.zeros((), a.dtype), tangent)


MEAN = Reduction("mean", lax.add, 0, finish=_mean, accumulator=_floats)
PRODUCT = Reduction("product", lax.mul, 1, accumulator=sum_accumulator, result=sum_dtype)
LOGSUMEXP = Reduction("logsumexp", _logaddexp, -np.inf, accumulator=_floats)
ANY = Reduction(
    "any", lax.bitwise_or, False, idempotent=True, accumulator=_boolean, result=_boolean
)
ALL = Reduction(
    "all", lax.bitwise_and, True, idempotent=True, accumulator=_boolean, result=_boolean
)


def lp(p: float) -> Reduction:
    """The reduction ``(sum |x|^p)^(1/p)``; for ``p = inf``, ``max |x|``.

    The derivative at a window of zeros is 0. Floats only; ``|x|^p`` must be in their range, which
    :func:`jaxpool.lp_pool` does not ask for.

    Args:
      p: a positive number. Equal numbers give the same value, so that :func:`jaxpool.pool` is
        compiled once for each.
    Raises:
      TypeError: ``p`` is not a number. ValueError: it is not positive.
    Example:
      >>> jaxpool.pool(jnp.array([[3.0], [-4.0]]), jaxpool.reductions.lp(2), (2,), 1)[:, 0]
      Array([5.], dtype=float32)
    """
    if not isinstance(p, numbers.Real):
        raise TypeError(_not_a_power(p))
    if not p > 0:
        raise ValueError(_not_a_power(p))
    return _lp(float(p))


def _not_a_power(p: Any) -> str:
    return message(
        "lp",
        f"`p` = {p!r} is not a positive number.",
        "It is a static number, the power of |x|.",
        "Give for example 2, or float('inf') for the largest absolute value.",
    )


@functools.lru_cache(maxsize=256)
def _lp(p: float) -> Reduction:
    if p == float("inf"):
        return replace(MAX, name="lp(inf)", identity=0, prepare=absolute, accumulator=_floats)
    return Reduction(
        f"lp({p:g})",
        lax.add,
        0,
        prepare=functools.partial(_absolute_power, p=p),
        finish=lambda total, count: _power(total, 1 / p),
        accumulator=_floats,
    )


def _absolute_power(x: Array, p: float) -> Array:
    """``|x|^p``; for even ``p`` without ``|x|``, whose corner would lose the curvature at 0."""
    if not p.is_integer():
        return _power(absolute(x), p)
    return x ** int(p) if p % 2 == 0 else absolute(x) ** int(p)


def _power(x: Array, exponent: float) -> Array:
    """``x^exponent`` of ``x >= 0``; at 0 it is 0, and so is every derivative."""
    if exponent == 1:
        return x
    zero = x == 0
    power = jnp.where(zero, jnp.ones((), x.dtype), x) ** exponent
    return jnp.where(zero, jnp.zeros((), x.dtype), power)
