"""ONNX Runtime's averages of quantised integers."""

from collections.abc import Sequence
from typing import SupportsIndex

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from ..._errors import public
from ...ops._dispatch import WindowArguments, configure
from .. import _averages
from .arguments import binary, check_scalars, quantised_array, windows


@public
def qlinear_average_pool(
    x: ArrayLike,
    x_scale: ArrayLike,
    x_zero_point: ArrayLike | None,
    y_scale: ArrayLike,
    y_zero_point: ArrayLike | None = None,
    *,
    kernel_shape: Sequence[SupportsIndex],
    strides: Sequence[SupportsIndex] | None = None,
    pads: Sequence[SupportsIndex] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    channels_last: int = 0,
) -> Array:
    """Return the average of quantised integers, as ONNX Runtime's operator QLinearAveragePool.

    ``saturate(round(average((x - x_zero_point) * x_scale) / y_scale + y_zero_point))``, rounded
    half to even. With ``count_include_pad`` every tap counts, also overhang of ceil_mode, and
    padding is the number 0. A window that equals the plane, without padding, is averaged as by
    :func:`qlinear_global_average_pool`.

    Args:
      x: array of int8 or uint8.
      x_scale, x_zero_point, y_scale, y_zero_point: scalars; a zero point of None is 0.
      kernel_shape, strides, pads, auto_pad, ceil_mode, count_include_pad: as in
        :func:`average_pool`.
      channels_last: 1 if the channel axis is the last axis.
    Returns:
      Array of the dtype of ``x``.
    Derivatives: none, as for all integers.
    Raises:
      TypeError, ValueError: as :func:`average_pool`; TypeError also for other dtypes.
    References: ONNX Runtime, contrib operators, com.microsoft.QLinearAveragePool.
    Example:
      >>> x = jnp.array([[[1, 2, 3]]], jnp.int8)
      >>> f = jaxpool.compat.onnx.qlinear_average_pool
      >>> f(x, 0.5, 0, 0.5, 10, kernel_shape=(2,))[0, 0]
      Array([12, 12], dtype=int8)
    """
    x = quantised_array(x, channels_last)
    _, window_arguments = windows(x, kernel_shape, strides, pads, None, auto_pad, ceil_mode)
    include = binary("count_include_pad", count_include_pad)
    scales = check_scalars(
        x_scale=x_scale, x_zero_point=x_zero_point, y_scale=y_scale, y_zero_point=y_zero_point
    )
    if _is_full_plane(x.shape[2:], window_arguments):
        y = _averages.quantised_global_average(x, *scales)
    else:
        rule = _averages.Averaging("taps" if include else "real")
        y = _averages.quantised_average_by(rule, x, scales, window_arguments)
    return jnp.moveaxis(y, 1, -1) if channels_last else y


def _is_full_plane(sizes: tuple[int, ...], windows: WindowArguments) -> bool:
    """Return whether the window contains exactly the elements of the plane, without padding."""
    if windows.window_shape != sizes:
        return False
    axes = configure(windows).geometry((1, 1, *sizes)).axes
    return not any(axis.pad_low or axis.pad_high for axis in axes)


@public
def qlinear_global_average_pool(
    x: ArrayLike,
    x_scale: ArrayLike,
    x_zero_point: ArrayLike | None,
    y_scale: ArrayLike,
    y_zero_point: ArrayLike | None = None,
    *,
    channels_last: int = 0,
) -> Array:
    """Return the average of each quantised plane, as ONNX Runtime's QLinearGlobalAveragePool.

    ``saturate(round(sum(x - x_zero_point) * (x_scale / (y_scale * count))) + y_zero_point)``.
    """
    x = quantised_array(x, channels_last)
    scales = check_scalars(
        x_scale=x_scale, x_zero_point=x_zero_point, y_scale=y_scale, y_zero_point=y_zero_point
    )
    y = _averages.quantised_global_average(x, *scales)
    return jnp.moveaxis(y, 1, -1) if channels_last else y
