"""embARC MLI's pooling kernels: fixed point and asymmetric 8 bit, to the last bit.

Rules of MLI 2.x, reference build. Padding is never a maximum and never counted. Max keeps the
element parameters of its input. The average of ``m`` elements has no division; with

    h = 14 + ceil(log2 m),  mul = floor(2^h / m)

it is ``saturate(round_shift(sum(x) * mul, h + in_frac_bits - out_frac_bits))``. ``mul`` is cut to
15 bits, so that seven times 32767 averages to 32766. ``round_shift`` adds half of the last place
and shifts ("up", the default on VPX), or rounds half to even ("convergent", on EM and HS). The
product is kept in 32 bits for fx8 and sa8, where it wraps, and in 64 bits for fx16.

sa8 data stand for ``(x - zero_point) * scale * 2^-scale_frac_bits``. The ratio of the two scales
is normalised to 16 bits, its product with ``mul`` to 8 bits, and what the zero points amount to is
added before the shift.

The kernels for CHW are those of release 1.1, which has the same table of reciprocals. A kernel is
named as there, without ``mli_krn_``. The names that fix a part of the configuration exist too:
``maxpool_chw_fx16_k3x3_str1_nopad`` (width by height, stride, no padding; ``_krnpad`` allows it),
``avepool_chw_fx8_generic``. Every kernel raises :class:`MliError` with the library's status where
a debug build returns it.

The manual asks for a kernel of at most the size of the input. No release enforces that, and the
padded size decides: a kernel larger than the input runs if padding makes room for it. Padding is
less than the kernel, so that every window holds an element.

Source: embARC MLI, development branch; documentation of max and average pooling.
"""

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

import jax.numpy as jnp

from .._errors import no_attribute, public
from ._mli_kernels import (
    FX8,
    FX16,
    ROUNDINGS,
    SA8,
    Rounding,
    average_fx,
    average_sa8,
    check_rounding,
    checked,
    maximum,
)  # fmt: skip
from ._mli_tensors import FxTensor, MliError, PoolConfig, SaTensor, pads_of

__all__ = [
    "ROUNDINGS",
    "FxTensor",
    "MliError",
    "PoolConfig",
    "SaTensor",
    "avepool_chw_fx16",
    "avepool_chw_fx8",
    "avepool_hwc_fx16",
    "avepool_hwc_fx8",
    "avepool_hwc_sa8",
    "maxpool_chw_fx16",
    "maxpool_chw_fx8",
    "maxpool_hwc_fx16",
    "maxpool_hwc_fx8",
    "maxpool_hwc_sa8",
]


def __dir__() -> list[str]:
    return list(__all__)


Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# --- the boundary ---------------------------------------------------------------------------------


def _kernel(function: Kernel) -> Kernel:
    """Decorate a kernel: its errors bear its name."""

    @public
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except MliError as error:
            raise MliError(error.status, f"{function.__name__}: {error.what}") from None

    return run  # pyright: ignore[reportReturnType]: the signature is that of the function


# --- kernels --------------------------------------------------------------------------------------


@_kernel
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
    return FxTensor(maximum(x, cfg, FX8, "CHW", None), x.frac_bits)


@_kernel
def maxpool_chw_fx16(x: FxTensor, cfg: PoolConfig) -> FxTensor:
    """``mli_krn_maxpool_chw_fx16``: as :func:`maxpool_chw_fx8`, for int16."""
    return FxTensor(maximum(x, cfg, FX16, "CHW", None), x.frac_bits)


@_kernel
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
    return FxTensor(maximum(x, cfg, FX8, "HWC", out_shape), x.frac_bits)


@_kernel
def maxpool_hwc_fx16(
    x: FxTensor, cfg: PoolConfig, *, out_shape: tuple[int, int] | None = None
) -> FxTensor:
    """``mli_krn_maxpool_hwc_fx16``: as :func:`maxpool_hwc_fx8`, for int16."""
    return FxTensor(maximum(x, cfg, FX16, "HWC", out_shape), x.frac_bits)


@_kernel
def maxpool_hwc_sa8(
    x: SaTensor, cfg: PoolConfig, *, out_shape: tuple[int, int] | None = None
) -> SaTensor:
    """``mli_krn_maxpool_hwc_sa8``: as :func:`maxpool_hwc_fx8`; keeps zero point and scale."""
    data = maximum(x, cfg, SA8, "HWC", out_shape)
    return SaTensor(data, x.zero_point, x.scale, x.scale_frac_bits)


@_kernel
def avepool_chw_fx8(x: FxTensor, cfg: PoolConfig, *, rounding: Rounding = "up") -> FxTensor:
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
    return average_fx(x, cfg, FX8, "CHW", rounding, None, None)


@_kernel
def avepool_chw_fx16(x: FxTensor, cfg: PoolConfig, *, rounding: Rounding = "up") -> FxTensor:
    """``mli_krn_avepool_chw_fx16``: as :func:`avepool_chw_fx8`, for int16."""
    return average_fx(x, cfg, FX16, "CHW", rounding, None, None)


@_kernel
def avepool_hwc_fx8(
    x: FxTensor,
    cfg: PoolConfig,
    *,
    out_frac_bits: int | None = None,
    out_shape: tuple[int, int] | None = None,
    rounding: Rounding = "up",
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
    return average_fx(x, cfg, FX8, "HWC", rounding, out_shape, out_frac_bits)


@_kernel
def avepool_hwc_fx16(
    x: FxTensor,
    cfg: PoolConfig,
    *,
    out_frac_bits: int | None = None,
    out_shape: tuple[int, int] | None = None,
    rounding: Rounding = "up",
) -> FxTensor:
    """``mli_krn_avepool_hwc_fx16``: as :func:`avepool_hwc_fx8`, for int16."""
    return average_fx(x, cfg, FX16, "HWC", rounding, out_shape, out_frac_bits)


@_kernel
def avepool_hwc_sa8(
    x: SaTensor,
    cfg: PoolConfig,
    *,
    out_zero_point: int | None = None,
    out_scale: int | None = None,
    out_scale_frac_bits: int | None = None,
    out_shape: tuple[int, int] | None = None,
    rounding: Rounding = "up",
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
    data, size = checked(x, cfg, SA8, "HWC", out_shape)
    check_rounding(rounding)
    source = (x.zero_point, x.scale, x.scale_frac_bits)
    given = (out_zero_point, out_scale, out_scale_frac_bits)
    target = tuple(a if b is None else b for a, b in zip(source, given, strict=True))
    if x.scale < 1 or target[1] < 1:
        raise MliError("MLI_STATUS_INCOMPATEBLE_TENSORS", "a scale is not positive")
    return SaTensor(average_sa8(data, cfg, size, rounding, source, target), *target)


# --- specialised kernels --------------------------------------------------------------------------

_SPECIALISED = re.compile(
    r"((?:max|ave)pool_(?:chw|hwc)_(?:fx8|fx16))"
    r"(?:_k(\d+)x(\d+))?(?:_ch(\d+))?(?:_str(\d+))?(_nopad|_krnpad)?(?:_generic)?"
)
"""Base kernel, kernel width and height, channels, stride, padding: what a name fixes."""


def __getattr__(name: str) -> Any:
    fixed = _SPECIALISED.fullmatch(name)
    if fixed is None:
        raise no_attribute(__name__, name)
    return _specialised(name, fixed.groups())


@functools.lru_cache(maxsize=64)
def _specialised(name: str, fixed: tuple[str | None, ...]) -> Callable[..., Any]:
    """The kernel of a name that fixes some of its settings."""
    base = globals()[str(fixed[0])]

    @functools.wraps(base)
    def run(x: FxTensor, cfg: PoolConfig, **settings: Any) -> FxTensor:
        result = inspect.unwrap(base)(x, cfg, **settings)
        _check_fixed(x, cfg, 0 if "_chw_" in name else 2, fixed[1:])
        return result

    run.__name__ = run.__qualname__ = name
    run.__doc__ = f"``mli_krn_{name}``: :func:`{base.__name__}` for the settings that it names."
    return _kernel(run)


def _check_fixed(
    x: FxTensor, cfg: PoolConfig, channel_axis: int, fixed: tuple[str | None, ...]
) -> None:
    width, height, channels, stride, padding = fixed
    found = {
        "kernel_width": (cfg.kernel_width, width),
        "kernel_height": (cfg.kernel_height, height),
        "stride_width": (cfg.stride_width, stride),
        "stride_height": (cfg.stride_height, stride),
        "the number of channels": (jnp.shape(x.data)[channel_axis], channels),
        "the largest padding": (max(map(max, pads_of(cfg))), "0" if padding == "_nopad" else None),
    }
    for what, (number, asked) in found.items():
        if asked is not None and number != int(asked):
            raise MliError("MLI_STATUS_SHAPE_MISMATCH", f"{what} is {number}, not {asked}")
