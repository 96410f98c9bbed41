"""Exact averages of integers: sums that cannot overflow, divided, rounded and saturated.

An integer is split into digits of ``b`` bits, ``x = sum of x_i * 2^(b i)``, of which the top digit
is signed. A window of ``n`` taps sums each digit separately, which cannot overflow as long as
``n * 2^b`` fits the word. Carries turn the sums into the digits of ``|S|``, the absolute value of
the sum ``S``. Long division by the divisor ``D``, one digit at a time with a remainder below ``D``,
gives quotient and remainder of ``|S| / D`` without a wider dtype.

Rounding. jaxpool rounds by "half_even", PyTorch by "trunc".
"""

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..reductions import byte_dtype

Rounding = Literal["half_even", "trunc"]


def average(
    x: Array,
    window_sum: Callable[[Array], Array],
    divisor: Any,
    largest: int,
    rounding: Rounding = "half_even",
) -> Array:
    """Return the average of integers over windows, in the dtype of ``x``.

    Args:
      x: integers, 0 where an element is masked out.
      window_sum: returns the sum of every window of an int32 or int64 array.
      divisor: int, or integer array of the shape of the result; 0 only where the sum is 0.
      largest: upper bound of the taps of a window and of ``abs(divisor)``.
      rounding: how to round a quotient that is not an integer.
    """
    word = np.dtype(np.int64 if x.dtype.itemsize == 8 else np.int32)
    divisor = jnp.broadcast_to(jnp.asarray(divisor, word), jax.eval_shape(window_sum, x).shape)
    size = jnp.maximum(abs(divisor), 1)
    if largest << (8 * x.dtype.itemsize) <= 1 << 23:
        return _divide_in_float32(window_sum(x.astype(word)), divisor, size, x.dtype, rounding)
    bits = min(4 * word.itemsize, 8 * word.itemsize - 2 - largest.bit_length())
    sums = [window_sum(digit) for digit in _digits(x, bits, word)]
    negative, sums = _magnitude(_carry(sums, bits), bits)
    quotient, remainder, overflowed = _divide(sums, size, bits)
    negative = negative ^ (divisor < 0)
    round_up = _rounds_up(quotient, remainder, size, rounding)
    return _saturate(quotient, round_up, overflowed, negative, x.dtype)


def _rounds_up(quotient: Array, remainder: Array, size: Array, rounding: Rounding) -> Array:
    """Return whether the absolute value of a truncated quotient must increase by one."""
    if rounding == "trunc":
        return jnp.zeros(remainder.shape, bool)
    is_odd = quotient & 1 == 1
    return (remainder > size - remainder) | ((remainder == size - remainder) & is_odd)


def _divide_in_float32(
    total: Array, divisor: Array, size: Array, dtype: np.dtype, rounding: Rounding
) -> Array:
    """Return averages of sums below 2^23, by float32 quotients that are corrected by at most 1."""
    negative, magnitude = (total < 0) ^ (divisor < 0), abs(total)
    quotient = (magnitude.astype(jnp.float32) / size.astype(jnp.float32)).astype(total.dtype)
    remainder = magnitude - quotient * size
    # XLA multiplies by the inverse of a constant, so the float quotient of a multiple of ``size``
    # may be just below an integer. Any other quotient may be rounded up to an integer.
    correction = (remainder >= size).astype(total.dtype) - (remainder < 0).astype(total.dtype)
    quotient, remainder = quotient + correction, remainder - correction * size
    round_up = _rounds_up(quotient, remainder, size, rounding)
    quotient = quotient + round_up.astype(quotient.dtype)
    limits = jnp.iinfo(dtype)
    signed = jnp.where(negative, -quotient, quotient)
    return jnp.clip(signed, limits.min, limits.max).astype(dtype)


def _digits(x: Array, bits: int, word: np.dtype) -> list[Array]:
    """Return the digits of ``x``, lowest first; the top digit is signed."""
    x = x.astype(byte_dtype(x.dtype))  # or the mask or shift of a digit may not fit
    width = 8 * x.dtype.itemsize
    digits = []
    for low in range(0, width, bits):
        digit = x >> np.asarray(low, x.dtype)
        if low + bits < width:
            digit = digit & np.asarray((1 << bits) - 1, x.dtype)
        digits.append(digit.astype(word))
    return digits


def _carry(sums: list[Array], bits: int) -> list[Array]:
    """Return the digits of the total, from the sums of each digit."""
    digits, carry = [], jnp.zeros_like(sums[0])
    for total in sums[:-1]:
        total = total + carry
        digits.append(total & ((1 << bits) - 1))
        carry = total >> bits
    return [*digits, sums[-1] + carry]


def _magnitude(digits: list[Array], bits: int) -> tuple[Array, list[Array]]:
    """Return whether the number is negative, and the digits of its absolute value."""
    negative = digits[-1] < 0
    flipped, borrow = [], jnp.zeros_like(digits[0])
    for digit in digits[:-1]:
        lower = -digit - borrow
        flipped.append(lower & ((1 << bits) - 1))
        borrow = (lower < 0).astype(lower.dtype)
    flipped.append(-digits[-1] - borrow)
    return negative, [jnp.where(negative, f, d) for f, d in zip(flipped, digits, strict=True)]


def _divide(digits: list[Array], size: Array, bits: int) -> tuple[Array, Array, Array]:
    """Return the unsigned quotient, the remainder, and whether the quotient overflows the word."""
    unsigned = np.dtype(f"uint{8 * size.dtype.itemsize}")
    quotient, remainder = jnp.zeros(size.shape, unsigned), jnp.zeros_like(size)
    overflowed = jnp.zeros(size.shape, bool)
    for digit in digits[::-1]:
        current = (remainder << bits) + digit
        overflowed = overflowed | (
            quotient >> np.asarray(8 * unsigned.itemsize - bits, unsigned) != 0
        )
        quotient = (quotient << np.asarray(bits, unsigned)) + (current // size).astype(unsigned)
        remainder = current % size
    return quotient, remainder, overflowed


def _saturate(
    quotient: Array, round_up: Array, overflowed: Array, negative: Array, dtype: np.dtype
) -> Array:
    limits, word = jnp.iinfo(dtype), quotient.dtype
    top = jnp.where(negative, np.asarray(-limits.min, word), np.asarray(limits.max, word))
    clipped = jnp.where(overflowed, top, jnp.minimum(quotient, top))
    clipped = jnp.where(round_up & (clipped < top), clipped + np.asarray(1, word), clipped)
    return jnp.where(negative, -clipped, clipped).astype(dtype)
