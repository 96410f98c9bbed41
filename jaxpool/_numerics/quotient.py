"""Correctly rounded quotients of floats, on platforms whose division is not.

XLA:GPU divides float32 with an error of up to two units in the last place. Let ``q`` be such a
quotient. The remainder ``a - q b`` is nearly exact if ``q`` and ``b`` are split into halves whose
products are exact, and ``q + (a - q b) / b`` is the rounded quotient.

Source: Dekker 1971, "A floating-point technique for extending the available precision".
"""

import operator
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._xla.by_platform import by_platform


def rounded_quotient(a: Array, b: Array) -> Array:
    """Return ``a / b`` of two arrays of floats, correctly rounded on every platform."""
    return by_platform(
        a, b, cpu=operator.truediv, default=lambda a, b: corrected_quotient(a / b, a, b)
    )


def corrected_quotient(quotient: Array, a: Array, b: Array) -> Array:
    """Return ``quotient`` with its error corrected; unchanged if the error is not finite."""
    corrected = quotient + remainder_of(a, quotient, halves(b)) / b
    return jnp.where(lax.is_finite(corrected), corrected, quotient)


def remainder_of(a: Array, quotient: Array, factors: Sequence[Any]) -> Array:
    """Return ``a`` minus ``quotient`` times the sum of ``factors``, which have half the digits."""
    for half in halves(quotient):
        for factor in factors:
            a = a - half * factor
    return a


def halves(a: Array) -> tuple[Array, Array]:
    """Return two floats of half the precision whose sum is ``a``; products of halves are exact."""
    digits = jnp.finfo(a.dtype).nmant + 1
    integer = np.dtype(f"int{8 * a.dtype.itemsize}")
    mask = np.asarray(-1 << (digits // 2), integer)
    high = lax.bitcast_convert_type(lax.bitcast_convert_type(a, integer) & mask, a.dtype)
    return high, a - high
