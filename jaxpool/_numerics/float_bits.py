"""Floats as products of factors and powers of two: exact, and of negligible cost next to ``exp``.

Source: Cody and Waite 1980, "Software manual for the elementary functions", for the reduction of
exponents.
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax


def two_to(n: Array) -> Array:
    """Return the exact ``2 ** n`` of integers ``n <= finfo.maxexp`` in a float dtype.

    The result is 0 where ``2 ** n`` is subnormal or less, infinity for ``n = finfo.maxexp``.
    """
    info = np.finfo(n.dtype)
    bias = info.maxexp - 1
    integers = np.dtype(f"int{info.bits}")
    # After this shift, the lowest bits of the float are the integer ``n + bias``. XLA's conversion
    # of floats to integers saturates, which costs XLA:CPU more than all remaining operations.
    shift = np.asarray(1.5 * 2.0**info.nmant + bias, n.dtype)
    bits = lax.bitcast_convert_type(lax.max(n, np.asarray(-bias, n.dtype)) + shift, integers)
    return lax.bitcast_convert_type(bits << np.asarray(info.nmant, integers), n.dtype)


def in_two(number: float, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return ``number`` in two parts; products of the first with integers of few bits are exact."""
    scale = 2.0 ** (np.finfo(dtype).nmant // 2 - math.frexp(number)[1])
    high = math.floor(number * scale) / scale
    return np.asarray(high, dtype), np.asarray(number - high, dtype)


def log2_of_power(x: Array, p: float) -> tuple[Array, Array]:
    """Return ``log2(x^p)`` as the sum of an integer and a small remainder.

    With ``x = m * 2^e``, ``log2(x^p) = e * p + p * log2(m)``.
    """
    m, e = _mantissa_and_exponent(x)
    high, low = in_two(p, x.dtype)
    exponent = e * high
    level = lax.floor(exponent)
    return level, exponent - level + e * low + np.asarray(p, x.dtype) * jnp.log2(m)


def _mantissa_and_exponent(x: Array) -> tuple[Array, Array]:
    """Return ``frexp`` of positive normal numbers; of other numbers, unspecified values."""
    info = np.finfo(x.dtype)
    integers, half = np.dtype(f"int{info.bits}"), info.maxexp - 2
    bits = lax.bitcast_convert_type(x, integers)
    fraction = bits & np.asarray((1 << info.nmant) - 1, integers)
    m = lax.bitcast_convert_type(fraction | np.asarray(half << info.nmant, integers), x.dtype)
    e = (bits >> np.asarray(info.nmant, integers)) - np.asarray(half, integers)
    return m, e.astype(x.dtype)


def is_tiny(x: Array) -> Array:
    """Return whether numbers ``x >= 0`` are zero or subnormal."""
    return x < np.finfo(x.dtype).tiny
