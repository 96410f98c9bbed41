"""Maxima, averages and power averages over sliding windows."""

import math
from typing import Any

from jax import Array
from jax.typing import ArrayLike

from ..._errors import message, public, shown
from ..._geometry.arguments import as_bool, is_sequence
from ..._numerics.checks import check_float, real_number
from ...ops.average import canonical_divisor
from ...reductions import absolute
from .. import _checks
from .._averages import Averaging, average_by, signed_lp_by
from .._checks import index_dtype
from .._rules import max_by, max_with_argmax_by
from ._overloads import sliding_max
from .arguments import Sizes, array, check_unpadded_axes, windows

# --- maxima ---------------------------------------------------------------------------------------


@sliding_max
@public
def max_pool1d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the maximum over windows of (N, C, L) or (C, L); see :func:`max_pool2d`."""
    return _max(1, input, return_indices, kernel_size, stride, padding, dilation, ceil_mode)


@sliding_max
@public
def max_pool2d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the maximum over windows, as ``torch.nn.functional.max_pool2d``.

    Args:
      input: array (N, C, H, W) or (C, H, W).
      kernel_size: int or a pair.
      stride: int or a pair; None is ``kernel_size``.
      padding: int or a pair, added at both ends of an axis; at most half the window. Padding is
        never a maximum.
      dilation: int or a pair.
      ceil_mode: whether to keep a partial last window that starts in the array or its left padding.
        A window that exceeds the padded axis by less than a stride is then also allowed.
      return_indices: whether to also return the indices of the maxima, flat over (H, W).
    Returns:
      Array of the dtype of ``input``, or (values, indices).
    Derivatives: as :func:`jaxpool.max_pool`; with NaN, at the last NaN of the window.
    Edge cases: as in the module. An empty batch gives an empty result.
    Raises:
      TypeError: a setting is not an integer or a bool. ValueError: it is out of range or does not
        fit; an axis other than the batch is empty.
    References: PyTorch 2.13, ``torch.nn.MaxPool2d``.
    Example:
      >>> x = jnp.array([[[1.0, 5.0, jnp.nan, 2.0, jnp.nan, 3.0]]])
      >>> jaxpool.compat.torch.max_pool1d(x, 3, 2, 1, return_indices=True)[1][0, 0]
      Array([1, 2, 4], dtype=int32)
    """
    return _max(2, input, return_indices, kernel_size, stride, padding, dilation, ceil_mode)


@sliding_max
@public
def max_pool3d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the maximum over windows of three axes; see :func:`max_pool2d`.

    ``input`` is (N, C, D, H, W) or (C, D, H, W).
    """
    return _max(3, input, return_indices, kernel_size, stride, padding, dilation, ceil_mode)


def _max(count: int, input: Any, return_indices: Any, *window: Any) -> Any:
    x = array(count, input)
    window_arguments = windows(x, count, *window)
    if not as_bool("return_indices", return_indices):
        return max_by("last_nan", x, window_arguments)
    dtype = index_dtype(x.shape[-count:])
    return max_with_argmax_by("last_nan", x, window_arguments, index_dtype=dtype)


# --- averages -------------------------------------------------------------------------------------


@public
def avg_pool1d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    """Return the average over windows of (N, C, L) or (C, L); see :func:`avg_pool2d`."""
    divisor = count_include_pad, None
    return _average(1, input, divisor, kernel_size, stride, padding, 1, ceil_mode)


@public
def avg_pool2d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """Return the average over windows, as ``torch.nn.functional.avg_pool2d``.

    Args:
      input, kernel_size, stride, padding, ceil_mode: as in :func:`max_pool2d`.
      count_include_pad: whether padding counts in the divisor; overhang of ceil_mode never counts.
      divisor_override: a nonzero int that replaces every divisor.
    Returns:
      Array of the dtype of ``input``; averages of integers are truncated towards zero.
    Derivatives: linear; as :func:`jaxpool.avg_pool`.
    Edge cases: as in the module. Only ``avg_pool3d`` rejects a window that exceeds the axis without
      its padding.
    Raises:
      TypeError, ValueError: as :func:`max_pool2d`.
    References: PyTorch 2.13, ``torch.nn.AvgPool2d``.
    Example:
      >>> x = jnp.arange(1.0, 7.0).reshape(1, 1, 6)
      >>> jaxpool.compat.torch.avg_pool1d(x, 3, 2, 1, ceil_mode=True)[0, 0]
      Array([1., 3., 5., 3.], dtype=float32)
    """
    divisor = count_include_pad, divisor_override
    return _average(2, input, divisor, kernel_size, stride, padding, 1, ceil_mode)


@public
def avg_pool3d(
    input: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """Return the average over windows of three axes; see :func:`avg_pool2d`.

    ``input`` is (N, C, D, H, W) or (C, D, H, W).
    """
    divisor = count_include_pad, divisor_override
    return _average(3, input, divisor, kernel_size, stride, padding, 1, ceil_mode)


def _average(count: int, input: Any, divisor: tuple[Any, Any], *window: Any) -> Array:
    x = array(count, input)
    window_arguments = windows(x, count, *window)
    check_unpadded_axes(x, window_arguments.window_shape)
    settings = canonical_divisor(*divisor)
    counted = "declared" if settings["count_include_pad"] else "real"
    rule = Averaging(counted, settings["divisor_override"], rounding="trunc")
    return average_by(rule, x, window_arguments)


# --- power averages -------------------------------------------------------------------------------


@public
def lp_pool1d(
    input: ArrayLike,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Array:
    """Return the power average over windows of (N, C, L) or (C, L); see :func:`lp_pool2d`."""
    return _lp(1, input, norm_type, kernel_size, stride, ceil_mode)


@public
def lp_pool2d(
    input: ArrayLike,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Array:
    """Return the power average over windows, as ``torch.nn.functional.lp_pool2d``.

    ``(sum of x ** p) ** (1 / p)``, without absolute values. In a partial window, the sum is
    multiplied by the number of taps over the number of elements.

    Args:
      input: array of floats; its shape, ``kernel_size``, ``stride`` and ``ceil_mode`` are as in
        :func:`max_pool2d`.
      norm_type: p, a number other than 0. Infinity gives the largest absolute value, -infinity the
        smallest.
    Returns:
      Array of the dtype of ``input``. Low-precision floats are computed in float32; PyTorch rounds
      after every step.
    Derivatives: any order; zero if the sum of powers of a window is 0 (for p < 1, NaN at an element
      that is 0, as in PyTorch).
    Edge cases: a negative sum of powers has no root; the result is NaN, unless p is 1.
    Raises:
      TypeError, ValueError: as :func:`max_pool2d`.
    References: PyTorch 2.13, ``torch.nn.LPPool2d``.
    Example:
      >>> x = jnp.array([[[3.0, -4.0, 3.0]]])
      >>> jaxpool.compat.torch.lp_pool1d(x, 1, 2, ceil_mode=True)[0, 0]
      Array([-1.,  6.], dtype=float32)
    """
    return _lp(2, input, norm_type, kernel_size, stride, ceil_mode)


@public
def lp_pool3d(
    input: ArrayLike,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Array:
    """Return the power average over windows of three axes; see :func:`lp_pool2d`.

    ``input`` is (N, C, D, H, W) or (C, D, H, W).
    """
    return _lp(3, input, norm_type, kernel_size, stride, ceil_mode)


def _lp(
    count: int, input: Any, norm_type: Any, kernel_size: Any, stride: Any, ceil_mode: Any
) -> Array:
    x = array(count, input)
    if count == 1 and is_sequence(kernel_size):
        raise TypeError(
            message(
                f"$kernel_size = {shown(kernel_size)} is not an integer.",
                "1 axis is pooled.",
                "Give one integer.",
            )
        )
    kernel = _checks.ints("kernel_size", kernel_size, count)
    window_arguments = windows(x, count, kernel, stride, ceil_mode=ceil_mode)
    p = _power(norm_type)
    check_float(x)
    if math.isinf(p):
        sign = 1 if p > 0 else -1
        return sign * max_by("last_nan", sign * absolute(x), window_arguments)
    check_unpadded_axes(x, kernel)
    return signed_lp_by(p, x, window_arguments)


def _power(norm_type: Any) -> float:
    number = real_number("norm_type", norm_type)
    if number == 0 or number != number:
        raise ValueError(
            message(
                f"$norm_type = {shown(norm_type)} is not a valid exponent.",
                "The root of order norm_type is taken, so it must be a nonzero number.",
                "Give for example 2, or math.inf.",
            )
        )
    return number
