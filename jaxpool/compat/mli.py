"""embARC MLI's pooling kernels: fixed point and asymmetric 8 bit, to the last bit.

Rules of MLI 2.x, reference build. Padding never wins and is never counted. Max keeps the element
parameters of its input. The average of ``m`` cells has no division; with

    h = 14 + ceil(log2 m),  mul = floor(2^h / m)

it is ``saturate(round_shift(sum(x) * mul, h + in_frac_bits - out_frac_bits))``. ``mul`` is cut to
15 bits, so that seven times 32767 averages to 32766. ``round_shift`` adds half of the last place
and shifts ("up", the default on VPX), or rounds half to even ("convergent", on EM and HS). The
product is kept in 32 bits for fx8 and sa8, where it wraps, and in 64 bits for fx16.

sa8 data stand for ``(x - zero_point) * scale * 2^-scale_frac_bits``. The ratio of the two scales
is normalised to 16 bits, its product with ``mul`` to 8 bits, and what the zero points amount to is
added before the shift.

The kernels for CHW are those of release 1.1, which has the same table of reciprocals. Every kernel
raises :class:`MliError` with the library's status where a debug build returns it.

Source: embARC MLI, development branch; documentation of max and average pooling.
"""

import functools
import operator
from dataclasses import dataclass, fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._cut import column
from .._window import Geometry, check_known, geometry
from ..ops.average import sum_pool
from ..ops.max import max_pool

ROUNDINGS = ("up", "convergent")


class MliError(ValueError):
    """A condition of a kernel is not met.

    Attributes:
      status: the library's name of it, such as "MLI_STATUS_BAD_FUNC_CFG".
    """

    def __init__(self, status: str, what: str):
        super().__init__(f"{status}: {what}")
        self.status = status


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["data"], meta_fields=["frac_bits"]
)
@dataclass(frozen=True, eq=False)
class FxTensor:
    """Fixed-point numbers ``data * 2^-frac_bits``: a pytree with one array.

    Attributes:
      data: int8 (fx8) or int16 (fx16) array.
      frac_bits: fractional bits.
    """

    data: Array | np.ndarray
    frac_bits: int


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["data"],
    meta_fields=["zero_point", "scale", "scale_frac_bits"],
)
@dataclass(frozen=True, eq=False)
class SaTensor:
    """Numbers ``(data - zero_point) * scale * 2^-scale_frac_bits``: a pytree with one array.

    Attributes:
      data: int8 array.
      zero_point: int16.
      scale: positive int16.
      scale_frac_bits: fractional bits of the scale.
    """

    data: Array | np.ndarray
    zero_point: int
    scale: int
    scale_frac_bits: int


@dataclass(frozen=True)
class PoolConfig:
    """``mli_pool_cfg``: eight numbers from 0 to 255.

    Attributes:
      kernel_width, kernel_height: taps.
      stride_width, stride_height: cells between windows, at least 1.
      padding_left, padding_right, padding_top, padding_bottom: less than the kernel.
    """

    kernel_width: int
    kernel_height: int
    stride_width: int = 1
    stride_height: int = 1
    padding_left: int = 0
    padding_right: int = 0
    padding_top: int = 0
    padding_bottom: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = operator.index(getattr(self, field.name))
            if not 0 <= value <= 255:
                raise MliError(
                    "MLI_STATUS_BAD_FUNC_CFG", f"{field.name} is {value}, not a number of 8 bits"
                )
            object.__setattr__(self, field.name, value)


def maxpool_chw_fx8(x: FxTensor, cfg: PoolConfig) -> FxTensor:
    """``mli_krn_maxpool_chw_fx8``: maximum over windows of a (channels, height, width) tensor.

    Args:
      x: int8 tensor.
      cfg: the windows.
    Returns:
      Tensor with the fractional bits of ``x``.
    Raises:
      MliError: a condition is not met.
    Example:
      >>> from jaxpool.compat import mli
      >>> x = mli.FxTensor(jnp.array([[[-3, -1, -2]]], jnp.int8), frac_bits=7)
      >>> mli.maxpool_chw_fx8(x, mli.PoolConfig(2, 1)).data
      Array([[[-1, -1]]], dtype=int8)
    """
    return _max_fx("maxpool_chw_fx8", x, cfg, None)


def maxpool_chw_fx16(x: FxTensor, cfg: PoolConfig) -> FxTensor:
    """``mli_krn_maxpool_chw_fx16``: as :func:`maxpool_chw_fx8`, for int16."""
    return _max_fx("maxpool_chw_fx16", x, cfg, None)


def maxpool_hwc_fx8(
    x: FxTensor, cfg: PoolConfig, *, out_shape: tuple[int, int] | None = None
) -> FxTensor:
    """``mli_krn_maxpool_hwc_fx8``: maximum over windows of a (height, width, channels) tensor.

    Args:
      x: int8 tensor.
      cfg: the windows.
      out_shape: height and width of the output tensor, if it is smaller than what fits.
    Returns:
      Tensor with the fractional bits of ``x``.
    Raises:
      MliError: a condition is not met.
    """
    return _max_fx("maxpool_hwc_fx8", x, cfg, out_shape)


def maxpool_hwc_fx16(
    x: FxTensor, cfg: PoolConfig, *, out_shape: tuple[int, int] | None = None
) -> FxTensor:
    """``mli_krn_maxpool_hwc_fx16``: as :func:`maxpool_hwc_fx8`, for int16."""
    return _max_fx("maxpool_hwc_fx16", x, cfg, out_shape)


def maxpool_hwc_sa8(
    x: SaTensor, cfg: PoolConfig, *, out_shape: tuple[int, int] | None = None
) -> SaTensor:
    """``mli_krn_maxpool_hwc_sa8``: as :func:`maxpool_hwc_fx8`; keeps zero point and scale."""
    op = "maxpool_hwc_sa8"
    data, size = _checked(op, x, cfg, out_shape)
    return SaTensor(_largest(data, cfg, "HWC", size), x.zero_point, x.scale, x.scale_frac_bits)


def avepool_chw_fx8(x: FxTensor, cfg: PoolConfig, *, rounding: str = "up") -> FxTensor:
    """``mli_krn_avepool_chw_fx8``: average over windows of a (channels, height, width) tensor.

    Args:
      x: int8 tensor.
      cfg: the windows.
      rounding: "up" or "convergent", as the library was built.
    Returns:
      Tensor with the fractional bits of ``x``.
    Raises:
      MliError: a condition is not met.
    """
    return _average_fx("avepool_chw_fx8", x, cfg, rounding, None, None)


def avepool_chw_fx16(x: FxTensor, cfg: PoolConfig, *, rounding: str = "up") -> FxTensor:
    """``mli_krn_avepool_chw_fx16``: as :func:`avepool_chw_fx8`, for int16."""
    return _average_fx("avepool_chw_fx16", x, cfg, rounding, None, None)


def avepool_hwc_fx8(
    x: FxTensor,
    cfg: PoolConfig,
    *,
    out_frac_bits: int | None = None,
    out_shape: tuple[int, int] | None = None,
    rounding: str = "up",
) -> FxTensor:
    """``mli_krn_avepool_hwc_fx8``: average over windows of a (height, width, channels) tensor.

    Args:
      x: int8 tensor.
      cfg: the windows.
      out_frac_bits: fractional bits of the output tensor; default those of ``x``.
      out_shape: height and width of the output tensor, if it is smaller than what fits.
      rounding: "up" or "convergent", as the library was built.
    Returns:
      Tensor with ``out_frac_bits``.
    Raises:
      MliError: a condition is not met.
    Example:
      >>> from jaxpool.compat import mli
      >>> x = mli.FxTensor(jnp.array([[[1], [2], [-1], [-2]]], jnp.int8), frac_bits=7)
      >>> cfg = mli.PoolConfig(2, 1, stride_width=2)
      >>> mli.avepool_hwc_fx8(x, cfg).data.ravel()
      Array([ 2, -1], dtype=int8)
      >>> mli.avepool_hwc_fx8(x, cfg, rounding="convergent").data.ravel()
      Array([ 2, -2], dtype=int8)
    """
    return _average_fx("avepool_hwc_fx8", x, cfg, rounding, out_shape, out_frac_bits)


def avepool_hwc_fx16(
    x: FxTensor,
    cfg: PoolConfig,
    *,
    out_frac_bits: int | None = None,
    out_shape: tuple[int, int] | None = None,
    rounding: str = "up",
) -> FxTensor:
    """``mli_krn_avepool_hwc_fx16``: as :func:`avepool_hwc_fx8`, for int16."""
    return _average_fx("avepool_hwc_fx16", x, cfg, rounding, out_shape, out_frac_bits)


def avepool_hwc_sa8(
    x: SaTensor,
    cfg: PoolConfig,
    *,
    out_zero_point: int | None = None,
    out_scale: int | None = None,
    out_scale_frac_bits: int | None = None,
    out_shape: tuple[int, int] | None = None,
    rounding: str = "up",
) -> SaTensor:
    """``mli_krn_avepool_hwc_sa8``: average of a (height, width, channels) tensor, requantised.

    Args:
      x: int8 tensor.
      cfg: the windows.
      out_zero_point, out_scale, out_scale_frac_bits: parameters of the output tensor; default those
        of ``x``.
      out_shape, rounding: as :func:`avepool_hwc_fx8`.
    Returns:
      Tensor with the parameters of the output.
    Raises:
      MliError: a condition is not met.
    """
    op = "avepool_hwc_sa8"
    data, size = _checked(op, x, cfg, out_shape)
    mode = _mode(op, rounding)
    source = (x.zero_point, x.scale, x.scale_frac_bits)
    given = (out_zero_point, out_scale, out_scale_frac_bits)
    target = tuple(a if b is None else b for a, b in zip(source, given, strict=True))
    if x.scale < 1 or target[1] < 1:
        raise MliError("MLI_STATUS_INCOMPATEBLE_TENSORS", f"{op}: a scale is not positive")
    return SaTensor(_average_sa8(data, cfg, size, mode, source, target), *target)


# --- conditions -----------------------------------------------------------------------------------


def _checked(
    op: str, x: FxTensor | SaTensor, cfg: PoolConfig, out_shape: tuple[int, int] | None
) -> tuple[Array, tuple[int, int]]:
    """The data, and the height and width of the result."""
    data, fault = jnp.asarray(x.data), functools.partial(MliError)
    dtype = jnp.int16 if op.endswith("16") else jnp.int8
    if data.dtype != dtype:
        raise fault("MLI_STATUS_TYPE_MISMATCH", f"{op}: elements are {data.dtype}")
    if data.ndim != 3:
        raise fault("MLI_STATUS_SHAPE_MISMATCH", f"{op}: the rank is {data.ndim}, not 3")
    if 0 in data.shape:
        raise fault("MLI_STATUS_BAD_TENSOR", f"{op}: the shape {data.shape} has a zero")
    bad_cfg = functools.partial(fault, "MLI_STATUS_BAD_FUNC_CFG")
    if not isinstance(cfg, PoolConfig):
        raise bad_cfg(f"{op}: cfg is no PoolConfig")
    if min(cfg.stride_height, cfg.stride_width) < 1:
        raise bad_cfg(f"{op}: a stride is 0")
    spatial = data.shape[:2] if "hwc" in op else data.shape[1:]
    largest = []
    for size, (kernel, stride, pads) in zip(spatial, _axes(cfg), strict=True):
        if max(pads) >= kernel:
            raise bad_cfg(f"{op}: padding {pads} is not less than the kernel, {kernel}")
        largest.append((size + sum(pads) - kernel) // stride + 1)
    height, width = largest if out_shape is None else out_shape
    if not (0 < height <= largest[0] and 0 < width <= largest[1]):
        raise bad_cfg(f"{op}: an output of {height}x{width}, where {largest} fit")
    return data, (height, width)


def _axes(cfg: PoolConfig) -> tuple[tuple[int, int, tuple[int, int]], ...]:
    """Kernel, stride and pads of height and width."""
    return (
        (cfg.kernel_height, cfg.stride_height, (cfg.padding_top, cfg.padding_bottom)),
        (cfg.kernel_width, cfg.stride_width, (cfg.padding_left, cfg.padding_right)),
    )


def _mode(op: str, rounding: str) -> str:
    if rounding not in ROUNDINGS:
        raise ValueError(f"{op}: `rounding` = {rounding!r} is not one of {', '.join(ROUNDINGS)}.")
    return rounding


# --- kernels --------------------------------------------------------------------------------------


def _max_fx(op: str, x: FxTensor, cfg: PoolConfig, out_shape: tuple[int, int] | None) -> FxTensor:
    data, size = _checked(op, x, cfg, out_shape)
    return FxTensor(_largest(data, cfg, _layout(op), size), x.frac_bits)


def _average_fx(
    op: str,
    x: FxTensor,
    cfg: PoolConfig,
    rounding: str,
    out_shape: tuple[int, int] | None,
    out_frac_bits: int | None,
) -> FxTensor:
    data, size = _checked(op, x, cfg, out_shape)
    mode = _mode(op, rounding)
    bits = x.frac_bits if out_frac_bits is None else out_frac_bits
    return FxTensor(_average(data, cfg, _layout(op), size, mode, x.frac_bits - bits), bits)


def _layout(op: str) -> str:
    return "HWC" if "hwc" in op else "CHW"


def _window(cfg: PoolConfig) -> tuple[Any, ...]:
    """Kernel, strides and padding in the words of the library."""
    return tuple(zip(*_axes(cfg), strict=True))


def _upto(y: Array, layout: str, size: tuple[int, int]) -> Array:
    first = layout.index("H")
    return y[(slice(None),) * first + tuple(slice(0, length) for length in size)]


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def _largest(data: Array, cfg: PoolConfig, layout: str, size: tuple[int, int]) -> Array:
    return _upto(max_pool(data, *_window(cfg), data_format=layout), layout, size)


@functools.partial(jax.jit, static_argnums=(1, 2, 3, 4, 5))
def _average(
    data: Array, cfg: PoolConfig, layout: str, size: tuple[int, int], mode: str, bits: int
) -> Array:
    total, counts = _sums(data, cfg, layout)
    shift = _of_counts(lambda m: _reciprocal(m)[1] + bits, counts)
    mul = _of_counts(lambda m: _reciprocal(m)[0], counts)
    wide = data.dtype == jnp.int16
    y = _shifted_64(total, mul, shift, mode) if wide else _shifted_32(total * mul, shift, mode)
    return _upto(_saturated(y, data.dtype), layout, size)


@functools.partial(jax.jit, static_argnums=(1, 2, 3, 4, 5))
def _average_sa8(
    data: Array,
    cfg: PoolConfig,
    size: tuple[int, int],
    mode: str,
    source: tuple[int, int, int],
    target: tuple[int, int, int],
) -> Array:
    total, counts = _sums(data, cfg, "HWC")
    requantised = functools.partial(_requantised, source=source, target=target, mode=mode)
    mul, shift, start = (
        _of_counts(lambda m, part=part: requantised(m)[part], counts) for part in range(3)
    )
    y = _shifted_32(total * mul + start, shift, mode)
    return _upto(_saturated(y, data.dtype), "HWC", size)


def _sums(data: Array, cfg: PoolConfig, layout: str) -> tuple[Array, np.ndarray]:
    """The sum of every window in int32, which holds it, and how many cells it has."""
    total = sum_pool(data.astype(jnp.int32), *_window(cfg), data_format=layout)
    first = layout.index("H")
    sizes = data.shape[first : first + 2]
    check_known(f"avepool_{layout.lower()}", sizes)
    made: Geometry = geometry(sizes, *_window(cfg))
    height, width = (axis.counts(include_pad=False) for axis in made.axes)
    return total, column(height, first, 3) * column(width, first + 1, 3)


def _of_counts(function: Any, counts: np.ndarray) -> np.ndarray:
    """``function`` of every count, in int32, for few different counts."""
    numbers, place = np.unique(counts, return_inverse=True)
    return np.array([function(int(m)) for m in numbers], np.int32)[place].reshape(counts.shape)


# --- fixed point, numbers known when compiling ----------------------------------------------------


def _reciprocal(m: int) -> tuple[int, int]:
    """(mul, h): 1 / m is about mul * 2^-h."""
    h = 14 + (m - 1).bit_length()
    return (1 << h) // m, h


def _requantised(
    m: int, source: tuple[int, int, int], target: tuple[int, int, int], mode: str
) -> tuple[int, int, int]:
    """(mul, shift, start) of sa8: the average is (start + sum * mul) * 2^-shift."""
    (in_zero, in_scale, in_bits), (out_zero, out_scale, out_bits) = source, target
    before = 16 + out_scale.bit_length() - in_scale.bit_length()
    scale, lost = _normalised((in_scale << before) // out_scale, 16, mode)
    shift = before + in_bits - out_bits + lost
    offset = _clip(out_zero - _clip(_round_shift(scale * in_zero, shift, mode), 16), 16)
    reciprocal, h = _reciprocal(m)
    mul, lost = _normalised(scale * reciprocal, 8, mode)
    shift += h + lost
    return mul, shift, _clip(offset << shift if shift >= 0 else offset >> -shift, 32)


def _normalised(value: int, bits: int, mode: str) -> tuple[int, int]:
    """(v, -n): ``value`` is about ``v * 2^n``, ``v`` filling ``bits`` bits with its sign."""
    n = value.bit_length() - (bits - 1)
    return _clip(_round_shift(value, n, mode), bits), -n


def _round_shift(value: int, shift: int, mode: str) -> int:
    if shift <= 0:
        return value << -shift
    floor, half = value >> shift, 1 << (shift - 1)
    rest = value - (floor << shift)
    return floor + (rest > half or (rest == half and (mode == "up" or floor % 2 == 1)))


def _clip(value: int, bits: int) -> int:
    return min(max(value, -(1 << (bits - 1))), (1 << (bits - 1)) - 1)


# --- fixed point, arrays --------------------------------------------------------------------------

_MOST = 2**31 - 1


def _shifted_32(product: Array, shift: np.ndarray, mode: str) -> Array:
    """``round_shift`` of an accumulator of 32 bits, in which the addition of "up" saturates."""
    y = _round_shifted(product, shift, mode)
    if mode == "convergent":
        return y
    right = np.clip(shift, 1, 31).astype(np.int32)
    half = np.left_shift(1, right - 1, dtype=np.int32)
    full = (product > jnp.asarray(_MOST - half)) & jnp.asarray((0 < shift) & (shift < 32))
    return jnp.where(full, jnp.asarray(_MOST >> right), y)


def _shifted_64(total: Array, mul: np.ndarray, shift: np.ndarray, mode: str) -> Array:
    """``round_shift`` of ``total * mul``, less than ``2^45``, right to 16 bits and above saturated.

    The product is ``high * 2^16 + low`` with ``0 <= low < 2^16``. A shift by less than 16 leaves 16
    bits only if ``high`` is small; before a longer one all but the first bit of ``low`` is one bit
    that says whether anything is there.
    """
    high = (total >> 16) * mul
    low = (total & 0xFFFF) * mul
    high, low = high + (low >> 16), low & 0xFFFF
    near = (jnp.clip(high, -(2**14) - 1, 2**14) << 16) | low
    far = (high << 2) | (low >> 15 << 1) | (low & 0x7FFF != 0).astype(jnp.int32)
    short = shift < 16
    product = jnp.where(jnp.broadcast_to(jnp.asarray(short), near.shape), near, far)
    return _round_shifted(product, np.where(short, shift, shift - 14), mode)


def _round_shifted(x: Array, shift: np.ndarray, mode: str) -> Array:
    """``round_shift(x, shift)``, cut to 17 bits where the shift is to the left."""
    right = jnp.broadcast_to(jnp.asarray(np.clip(shift, 0, 31), jnp.int32), x.shape)
    left = jnp.broadcast_to(jnp.asarray(np.clip(-shift, 0, 15), jnp.int32), x.shape)
    floor = x >> right
    rest, half = x - (floor << right), 1 << jnp.maximum(right - 1, 0)
    tie = (rest == half) if mode == "up" else (rest == half) & (floor & 1 == 1)
    up = (rest > half) | (tie & (right > 0))
    y = jnp.where(jnp.asarray(shift > 31), 0, floor + up.astype(jnp.int32))
    return jnp.where(left > 0, jnp.clip(y, -(2**15), 2**15) << left, y)


def _saturated(y: Array, dtype: Any) -> Array:
    limits = jnp.iinfo(dtype)
    return jnp.clip(y, limits.min, limits.max).astype(dtype)
