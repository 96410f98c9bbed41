"""embARC MLI's pooling kernels: fixed point and asymmetric 8 bit, bit-exact.

The rules are those of MLI 2.x, reference build. Padding is never a maximum and never counted. Max
keeps the element parameters of its input. The average of ``m`` elements has no division; with

    h = 14 + ceil(log2 m),  mul = floor(2^h / m)

it is ``saturate(round_shift(sum(x) * mul, h + in_frac_bits - out_frac_bits))``. ``mul`` is
truncated to 15 bits, so that seven times 32767 averages to 32766. ``round_shift`` adds half of the
last place and shifts ("up", the default on VPX), or rounds half to even ("convergent", on EM and
HS). The product has 32 bits for fx8 and sa8, where it wraps, and 64 bits for fx16.

sa8 data ``x`` represent ``(x - zero_point) * scale * 2^-scale_frac_bits``. The ratio of the two
scales is normalised to 16 bits, its product with ``mul`` to 8 bits, and the contribution of the
zero points is added before the shift.

The kernels for CHW are those of release 1.1, which has the same table of reciprocals. A kernel has
the library's name without ``mli_krn_``. Names that fix a part of the configuration also exist:
``maxpool_chw_fx16_k3x3_str1_nopad`` (width by height, stride, no padding; ``_krnpad`` allows
padding), ``avepool_chw_fx8_generic``. Every kernel raises :class:`MliError` with the status that a
debug build of the library returns.

The manual requires a kernel of at most the size of the input. No release enforces this; only the
padded size matters: a kernel larger than the input runs if it fits the padded input. Padding is
less than the kernel, so that every window contains an element.

Source: embARC MLI, development branch; documentation of max and average pooling.
"""

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

import jax.numpy as jnp

from ..._errors import no_attribute, public
from .programs import (
    FX8,
    FX16,
    ROUNDINGS,
    SA8,
    Rounding,
    average_fx,
    average_sa8,
    check_arguments,
    check_rounding,
    maximum,
)  # fmt: skip
from .tensors import FxTensor, MliError, PoolConfig, SaTensor, pads_of, parameter

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
    """Decorate a kernel: add its name to its errors."""

    @public
    @functools.wraps(function)
    def with_status(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except MliError as error:
            raise MliError(error.status, f"{function.__name__}: {error.what}") from None

    return with_status  # pyright: ignore[reportReturnType]: the signature is that of the function


# --- kernels --------------------------------------------------------------------------------------


@_kernel
def maxpool_chw_fx8(x: FxTensor, cfg: PoolConfig) -> FxTensor:
    """Return the maximum over windows, as ``mli_krn_maxpool_chw_fx8``.

    Args:
      x: int8 tensor of (channels, height, width).
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
    """Return the maximum, as ``mli_krn_maxpool_chw_fx16``; :func:`maxpool_chw_fx8` for int16."""
    return FxTensor(maximum(x, cfg, FX16, "CHW", None), x.frac_bits)


@_kernel
def maxpool_hwc_fx8(
    x: FxTensor, cfg: PoolConfig, *, out_shape: tuple[int, int] | None = None
) -> FxTensor:
    """Return the maximum over windows, as ``mli_krn_maxpool_hwc_fx8``.

    Args:
      x: int8 tensor of (height, width, channels).
      cfg: the windows.
      out_shape: height and width of the output tensor, if fewer windows are computed than fit.
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
    """Return the maximum, as ``mli_krn_maxpool_hwc_fx16``; :func:`maxpool_hwc_fx8` for int16."""
    return FxTensor(maximum(x, cfg, FX16, "HWC", out_shape), x.frac_bits)


@_kernel
def maxpool_hwc_sa8(
    x: SaTensor, cfg: PoolConfig, *, out_shape: tuple[int, int] | None = None
) -> SaTensor:
    """Return the maximum, as ``mli_krn_maxpool_hwc_sa8``, with zero point and scale of ``x``."""
    data = maximum(x, cfg, SA8, "HWC", out_shape)
    return SaTensor(data, x.zero_point, x.scale, x.scale_frac_bits)


@_kernel
def avepool_chw_fx8(x: FxTensor, cfg: PoolConfig, *, rounding: Rounding = "up") -> FxTensor:
    """Return the average over windows, as ``mli_krn_avepool_chw_fx8``.

    Args:
      x: int8 tensor of (channels, height, width).
      cfg: the windows.
      rounding: "up" or "convergent", depending on the build of the library.
    Returns:
      Tensor with the fractional bits of ``x``.
    Raises:
      MliError: a condition is not met.
    """
    return average_fx(x, cfg, FX8, "CHW", rounding, None, None)


@_kernel
def avepool_chw_fx16(x: FxTensor, cfg: PoolConfig, *, rounding: Rounding = "up") -> FxTensor:
    """Return the average, as ``mli_krn_avepool_chw_fx16``; :func:`avepool_chw_fx8` for int16."""
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
    """Return the average over windows, as ``mli_krn_avepool_hwc_fx8``.

    Args:
      x: int8 tensor of (height, width, channels).
      cfg: the windows.
      out_frac_bits: fractional bits of the output tensor; default those of ``x``.
      out_shape: height and width of the output tensor, if fewer windows are computed than fit.
      rounding: "up" or "convergent", depending on the build of the library.
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
    """Return the average, as ``mli_krn_avepool_hwc_fx16``; :func:`avepool_hwc_fx8` for int16."""
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
    """Return the requantised average over windows, as ``mli_krn_avepool_hwc_sa8``.

    Args:
      x: int8 tensor of (height, width, channels).
      cfg: the windows.
      out_zero_point, out_scale, out_scale_frac_bits: parameters of the output tensor; default those
        of ``x``.
      out_shape, rounding: as :func:`avepool_hwc_fx8`.
    Returns:
      Tensor with the parameters of the output.
    Raises:
      MliError: a condition is not met.
    """
    data, size = check_arguments(x, cfg, SA8, "HWC", out_shape)
    check_rounding(rounding)
    source = {"zero_point": x.zero_point, "scale": x.scale, "scale_frac_bits": x.scale_frac_bits}
    overrides = (out_zero_point, out_scale, out_scale_frac_bits)
    target = tuple(
        default if given is None else parameter(f"out_{name}", given)
        for (name, default), given in zip(source.items(), overrides, strict=True)
    )
    if x.scale < 1 or target[1] < 1:
        raise MliError("MLI_STATUS_INCOMPATEBLE_TENSORS", "a scale is not positive")
    parameters = {"source": tuple(source.values()), "target": target}
    y = average_sa8(data, cfg=cfg, size=size, mode=rounding, **parameters)
    return SaTensor(y, *target)


# --- specialised kernels --------------------------------------------------------------------------

_SPECIALISED = re.compile(
    r"((?:max|ave)pool_(?:(?:chw|hwc)_(?:fx8|fx16)|hwc_sa8))"
    r"(?:_k(\d+)x(\d+))?(?:_ch(\d+))?(?:_str(\d+))?(_nopad|_krnpad)?(?:_generic)?"
)
"""Parts of a specialised name: base kernel, kernel width and height, channels, stride, padding."""
_Tensor = FxTensor | SaTensor


def __getattr__(name: str) -> Any:
    fixed = _SPECIALISED.fullmatch(name)
    if fixed is None:
        function = name.removeprefix("mli_krn_")
        raise no_attribute(__name__, name, f": write {function}" if function in __all__ else "")
    return _specialised(name, fixed.groups())


@functools.lru_cache(maxsize=64)
def _specialised(name: str, fixed: tuple[str | None, ...]) -> Callable[..., Any]:
    """Return the kernel for a name that fixes some settings."""
    base = globals()[str(fixed[0])]

    @functools.wraps(base)
    def specialised_kernel(x: _Tensor, cfg: PoolConfig, **settings: Any) -> _Tensor:
        result = inspect.unwrap(base)(x, cfg, **settings)
        _check_fixed(x, cfg, 0 if "_chw_" in name else 2, fixed[1:])
        return result

    specialised_kernel.__name__ = specialised_kernel.__qualname__ = name
    specialised_kernel.__doc__ = (
        f"``mli_krn_{name}``: :func:`{base.__name__}` for the settings that it names."
    )
    return _kernel(specialised_kernel)


def _check_fixed(
    x: _Tensor, cfg: PoolConfig, channel_axis: int, fixed: tuple[str | None, ...]
) -> None:
    width, height, channels, stride, padding = fixed
    settings = {
        "kernel_width": (cfg.kernel_width, width),
        "kernel_height": (cfg.kernel_height, height),
        "stride_width": (cfg.stride_width, stride),
        "stride_height": (cfg.stride_height, stride),
        "the number of channels": (jnp.shape(x.data)[channel_axis], channels),
        "the largest padding": (max(map(max, pads_of(cfg))), "0" if padding == "_nopad" else None),
    }
    for setting, (number, expected) in settings.items():
        if expected is not None and number != int(expected):
            raise MliError("MLI_STATUS_SHAPE_MISMATCH", f"{setting} is {number}, not {expected}")
