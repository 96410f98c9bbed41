"""MLI's fixed-point arithmetic: bit-exact reciprocals, rounding shifts and saturation.

The average of ``m`` elements is ``saturate(round_shift(sum(x) * mul, h + shift))`` with

    h = 14 + ceil(log2 m),  mul = floor(2^h / m).

``round_shift`` adds half of the last place and shifts ("up"), or rounds half to even
("convergent"). The factor and the shift of a window are static Python integers. The sum is traced.
Arrays have 32 bits, so a product of 48 bits is stored in two halves.

Source: embARC MLI, development branch, reference build.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from ..._geometry.axis import INT32_MAX

# --- numbers of a window --------------------------------------------------------------------------


def reciprocal(m: int) -> tuple[int, int]:
    """Return (mul, h), where ``1 / m`` is about ``mul * 2^-h``."""
    h = 14 + (m - 1).bit_length()
    return (1 << h) // m, h


def requantisation(
    m: int, source: tuple[int, int, int], target: tuple[int, int, int], mode: str
) -> tuple[int, int, int]:
    """Return (mul, shift, start) of sa8: the average is ``(start + sum * mul) * 2^-shift``."""
    (in_zero, in_scale, in_bits), (out_zero, out_scale, out_bits) = source, target
    before = 16 + out_scale.bit_length() - in_scale.bit_length()
    scale, removed_bits = _normalise((in_scale << before) // out_scale, 16, mode)
    shift = before + in_bits - out_bits + removed_bits
    offset = _clip(out_zero - _clip(_round_shift(scale * in_zero, shift, mode), 16), 16)
    inverse, h = reciprocal(m)
    mul, removed_bits = _normalise(scale * inverse, 8, mode)
    shift += h + removed_bits
    return mul, shift, _clip(offset << shift if shift >= 0 else offset >> -shift, 32)


def _normalise(value: int, bits: int, mode: str) -> tuple[int, int]:
    """Return (v, -n): ``value`` is about ``v * 2^n``; ``v`` has ``bits`` bits with its sign."""
    n = value.bit_length() - (bits - 1)
    return _clip(_round_shift(value, n, mode), bits), -n


def _round_shift(value: int, shift: int, mode: str) -> int:
    if shift <= 0:
        return value << -shift
    floor, half = value >> shift, 1 << (shift - 1)
    remainder = value - (floor << shift)
    return floor + (remainder > half or (remainder == half and (mode == "up" or floor % 2 == 1)))


def _clip(value: int, bits: int) -> int:
    return min(max(value, -(1 << (bits - 1))), (1 << (bits - 1)) - 1)


# --- arrays ---------------------------------------------------------------------------------------


def round_shift_32(product: Array, shift: np.ndarray, mode: str) -> Array:
    """Return ``round_shift`` of a 32-bit accumulator, in which the addition of "up" saturates."""
    y = _round_shift_array(product, shift, mode)
    if mode == "convergent":
        return y
    right = np.clip(shift, 1, 31).astype(np.int32)
    half = np.left_shift(1, right - 1, dtype=np.int32)
    overflows = (product > jnp.asarray(INT32_MAX - half)) & jnp.asarray((0 < shift) & (shift < 32))
    return jnp.where(overflows, jnp.asarray(INT32_MAX >> right), y)


def round_shift_64(total: Array, mul: np.ndarray, shift: np.ndarray, mode: str) -> Array:
    """Return ``round_shift`` of ``total * mul``, less than ``2^45``, exact in 16 bits or saturated.

    The product is ``high * 2^16 + low`` with ``0 <= low < 2^16``. After a shift by less than 16 the
    result fits 16 bits only if ``high`` is small. Before a longer shift, all bits of ``low`` except
    the first are replaced by a single sticky bit, which says whether any of them is set.
    """
    high = (total >> 16) * mul
    low = (total & 0xFFFF) * mul
    high, low = high + (low >> 16), low & 0xFFFF
    narrow_product = (jnp.clip(high, -(2**14) - 1, 2**14) << 16) | low
    sticky_product = (high << 2) | (low >> 15 << 1) | (low & 0x7FFF != 0).astype(jnp.int32)
    is_short = shift < 16
    product = jnp.where(
        jnp.broadcast_to(jnp.asarray(is_short), narrow_product.shape),
        narrow_product,
        sticky_product,
    )
    return _round_shift_array(product, np.where(is_short, shift, shift - 14), mode)


def _round_shift_array(x: Array, shift: np.ndarray, mode: str) -> Array:
    """Return ``round_shift(x, shift)``, clipped to 17 bits before a shift to the left."""
    right = jnp.broadcast_to(jnp.asarray(np.clip(shift, 0, 31), jnp.int32), x.shape)
    left = jnp.broadcast_to(jnp.asarray(np.clip(-shift, 0, 15), jnp.int32), x.shape)
    floor = x >> right
    remainder, half = x - (floor << right), 1 << jnp.maximum(right - 1, 0)
    tie_rounds_up = (remainder == half) if mode == "up" else (remainder == half) & (floor & 1 == 1)
    round_up = (remainder > half) | (tie_rounds_up & (right > 0))
    y = jnp.where(jnp.asarray(shift > 31), 0, floor + round_up.astype(jnp.int32))
    return jnp.where(left > 0, jnp.clip(y, -(2**15), 2**15) << left, y)
