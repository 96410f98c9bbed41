"""Exact integer averages: sums that do not wrap, divided, rounded, saturated.

An integer of w bits is cut into digits of ``b`` bits, ``x = sum of x_i * 2^(b i)``, the top digit
signed. A window of ``n`` taps sums each digit apart, which cannot wrap while ``n * 2^b`` fits the
word. Carries make the digit sums proper digits of ``|S|``, and schoolbook long division by the
divisor ``D``, one digit at a time with a remainder below ``D``, gives quotient and remainder of
``|S| / D`` without a wider type.

Rounding. "half_even" is the library's own, "trunc" PyTorch's.
"""

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

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
      window_sum: sums the elements of every window of an int32 or int64 array.
      divisor: int, or integer array of the shape of the result; 0 only where the sum is 0.
      largest: bound of the taps of a window and of ``abs(divisor)``.
      rounding: where a quotient between two integers goes.
    """
    word = np.dtype(np.int64 if x.dtype.itemsize == 8 else np.int32)
    divisor = jnp.broadcast_to(jnp.asarray(divisor, word), jax.eval_shape(window_sum, x).shape)
    size = jnp.maximum(abs(divisor), 1)
    if largest << (8 * x.dtype.itemsize) <= 1 << 23:
        return _by_float(window_sum(x.astype(word)), divisor, size, x.dtype, rounding)
    bits = min(4 * word.itemsize, 8 * word.itemsize - 2 - largest.bit_length())
    sums = [window_sum(digit) for digit in _digits(x, bits, word)]
    negative, sums = _magnitude(_carry(sums, bits), bits)
    quotient, rest, over = _divide(sums, size, bits)
    negative = negative ^ (divisor < 0)
    up = _goes_up(rest, size, quotient & 1 == 1, rounding)
    return _saturate(quotient, up, over, negative, x.dtype)


def in_bytes(x: Array) -> Array:
    """Return ``x``, integers of less than a byte as int8 or uint8."""
    if not jnp.issubdtype(x.dtype, jnp.integer) or jnp.iinfo(x.dtype).bits >= 8:
        return x
    return x.astype(jnp.int8 if jnp.iinfo(x.dtype).min else jnp.uint8)


def _goes_up(rest: Array, size: Array, odd: Array, rounding: Rounding) -> Array:
    """Whether the absolute value of a quotient, cut to an integer, has to grow by one."""
    if rounding == "trunc":
        return jnp.zeros(rest.shape, bool)
    return (rest > size - rest) | ((rest == size - rest) & odd)


def _by_float(
    total: Array, divisor: Array, size: Array, dtype: np.dtype, rounding: Rounding
) -> Array:
    """Divide sums below 2^23 in float32, right to one, and let the remainder say which way."""
    negative, magnitude = (total < 0) ^ (divisor < 0), abs(total)
    quotient = (magnitude.astype(jnp.float32) / size.astype(jnp.float32)).astype(total.dtype)
    rest = magnitude - quotient * size
    beyond = rest < 0  # the float was rounded up to an integer
    quotient, rest = quotient - beyond.astype(total.dtype), jnp.where(beyond, rest + size, rest)
    up = _goes_up(rest, size, quotient & 1 == 1, rounding)
    quotient = quotient + up.astype(quotient.dtype)
    limits = jnp.iinfo(dtype)
    signed = jnp.where(negative, -quotient, quotient)
    return jnp.clip(signed, limits.min, limits.max).astype(dtype)


def _digits(x: Array, bits: int, word: np.dtype) -> list[Array]:
    """Digits of ``x`` from the lowest up; the top one keeps the sign."""
    x = in_bytes(x)  # or they hold neither the mask of a digit nor its place
    width = 8 * x.dtype.itemsize
    digits = []
    for low in range(0, width, bits):
        digit = x >> np.asarray(low, x.dtype)
        if low + bits < width:
            digit = digit & np.asarray((1 << bits) - 1, x.dtype)
        digits.append(digit.astype(word))
    return digits


def _carry(sums: list[Array], bits: int) -> list[Array]:
    digits, carry = [], jnp.zeros_like(sums[0])
    for total in sums[:-1]:
        total = total + carry
        digits.append(total & ((1 << bits) - 1))
        carry = total >> bits
    return [*digits, sums[-1] + carry]


def _magnitude(digits: list[Array], bits: int) -> tuple[Array, list[Array]]:
    """Whether the number is negative, and the digits of its absolute value."""
    negative = digits[-1] < 0
    flipped, borrow = [], jnp.zeros_like(digits[0])
    for digit in digits[:-1]:
        lower = -digit - borrow
        flipped.append(lower & ((1 << bits) - 1))
        borrow = (lower < 0).astype(lower.dtype)
    flipped.append(-digits[-1] - borrow)
    return negative, [jnp.where(negative, f, d) for f, d in zip(flipped, digits, strict=True)]


def _divide(digits: list[Array], size: Array, bits: int) -> tuple[Array, Array, Array]:
    """Quotient (unsigned), remainder, and whether the quotient left the word, by long division."""
    unsigned = np.dtype(f"uint{8 * size.dtype.itemsize}")
    quotient, rest = jnp.zeros(size.shape, unsigned), jnp.zeros_like(size)
    over = jnp.zeros(size.shape, bool)
    for digit in digits[::-1]:
        current = (rest << bits) + digit
        over = over | (quotient >> np.asarray(8 * unsigned.itemsize - bits, unsigned) != 0)
        quotient = (quotient << np.asarray(bits, unsigned)) + (current // size).astype(unsigned)
        rest = current % size
    return quotient, rest, over


def _saturate(quotient: Array, up: Array, over: Array, negative: Array, dtype: np.dtype) -> Array:
    limits, word = jnp.iinfo(dtype), quotient.dtype
    top = jnp.where(negative, np.asarray(-limits.min, word), np.asarray(limits.max, word))
    clipped = jnp.where(over, top, jnp.minimum(quotient, top))
    clipped = jnp.where(up & (clipped < top), clipped + np.asarray(1, word), clipped)
    return jnp.where(negative, -clipped, clipped).astype(dtype)
