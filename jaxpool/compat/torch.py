"""Pooling of ``torch.nn.functional``, in its words and with its results.

``import jaxpool.compat.torch as F`` takes the place of ``import torch.nn.functional as F``. Arrays
are channels first, with or without a batch axis. The rules are those of PyTorch 2.13 on CPU:

* ``stride=None`` means the window (documentation of ``MaxPool2d`` and ``AvgPool2d``);
* ``ceil_mode`` keeps a last window that starts in the array or its left padding;
* NaN in a window gives NaN, index and gradient go to the last one;
* indices are flat over the pooled axes, int64 (int32 while JAX's 64-bit types are off);
* averages of integers are cut towards zero; narrow floats are added in float32;
* ``lp_pool`` takes no absolute value, and scales partly filled windows up.

Differences that remain: errors are ValueError and TypeError; dtypes that PyTorch has no kernel for
are pooled by the same rules; an empty window, which a dilated max can have, has index -1 instead of
one that PyTorch's backward would write to outside the array; ``max_unpool`` with a repeated index
gives the cotangent to the source that was written, PyTorch to all of them; bfloat16 samples of
fractional pooling place windows exactly, where PyTorch rounds the places to bfloat16.
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .. import _window
from .._arguments import flag, is_sequence
from .._errors import message, shown
from .._reductions import absolute
from .._window import check_known
from ..ops import adaptive, average, fractional, lp, unpool
from ..ops import max as maximum
from . import _checks
from ._checks import ints
from ._words import in_words

# --- max ------------------------------------------------------------------------------------------


def max_pool1d(
    input: ArrayLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maximum over windows of one axis, of (N, C, L) or (C, L); see :func:`max_pool2d`."""
    return _max(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: ArrayLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maximum over windows, as ``torch.nn.functional.max_pool2d``.

    Args:
      input: array (N, C, H, W) or (C, H, W).
      kernel_size: int or a pair.
      stride: int or a pair; None is ``kernel_size``.
      padding: int or a pair, on both ends of an axis; at most half the window. Padding never wins.
      dilation: int or a pair.
      ceil_mode: keep a last window that is partly outside if it starts in the array or its left
        padding; a window larger than the padded axis by less than a stride is then taken too.
      return_indices: also return the indices of the maxima, flat over (H, W).
    Returns:
      Array of the dtype of ``input``, or (values, indices).
    Derivatives: as :func:`jaxpool.max_pool`; at NaN to the last NaN of the window.
    Edge cases: as in the module. An empty batch gives an empty result.
    Raises:
      TypeError: a setting is not an integer or a bool. ValueError: it is out of range or does not
        fit; another axis than the batch is empty.
    References: PyTorch 2.13, ``torch.nn.MaxPool2d``.
    Example:
      >>> x = jnp.array([[[1.0, 5.0, jnp.nan, 2.0, jnp.nan, 3.0]]])
      >>> jaxpool.compat.torch.max_pool1d(x, 3, 2, 1, return_indices=True)[1][0, 0]
      Array([1, 2, 4], dtype=int32)
    """
    return _max(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: ArrayLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Maximum over windows of three axes, of (N, C, D, H, W); see :func:`max_pool2d`."""
    return _max(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _max(
    count: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: Any, return_indices: Any,
) -> Any:  # fmt: skip
    op = f"max_pool{count}d"
    x = _input(op, count, input)
    words = _windows(op, count, x, kernel_size, stride, padding, dilation, ceil_mode)
    if not flag(op, "return_indices", return_indices):
        return maximum.max_by(op, "last_nan", x, *words)
    dtype = _checks.index_dtype()
    return maximum.max_with_argmax_by(op, "last_nan", x, *words, index_dtype=dtype)


# --- averages -------------------------------------------------------------------------------------


def avg_pool1d(
    input: ArrayLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Array:
    """Average over windows of one axis, of (N, C, L) or (C, L); see :func:`avg_pool2d`."""
    return _average(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: ArrayLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """Average over windows, as ``torch.nn.functional.avg_pool2d``.

    Args:
      input, kernel_size, stride, padding, ceil_mode: as in :func:`max_pool2d`.
      count_include_pad: padding counts in the divisor; what ceil_mode adds beyond it never does.
      divisor_override: an int, not zero, that replaces every divisor.
    Returns:
      Array of the dtype of ``input``; averages of integers are cut towards zero.
    Derivatives: linear; as :func:`jaxpool.avg_pool`.
    Edge cases: as in the module. Only ``avg_pool3d`` refuses a window that exceeds the axis itself.
    Raises:
      TypeError, ValueError: as :func:`max_pool2d`.
    References: PyTorch 2.13, ``torch.nn.AvgPool2d``.
    Example:
      >>> x = jnp.arange(1.0, 7.0).reshape(1, 1, 6)
      >>> jaxpool.compat.torch.avg_pool1d(x, 3, 2, 1, ceil_mode=True)[0, 0]
      Array([1., 3., 5., 3.], dtype=float32)
    """
    return _average(
        2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool3d(
    input: ArrayLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """Average over windows of three axes, of (N, C, D, H, W); see :func:`avg_pool2d`."""
    return _average(
        3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _average(
    count: int, input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: Any,
    count_include_pad: Any, divisor_override: Any,
) -> Array:  # fmt: skip
    op = f"avg_pool{count}d"
    x = _input(op, count, input)
    words = _windows(op, count, x, kernel_size, stride, padding, 1, ceil_mode)
    _check_bare_axes(op, x, words[0])
    include = flag(op, "count_include_pad", count_include_pad)
    rule = average.Averaging(
        "declared" if include else "real",
        average.settle_override(op, divisor_override),
        rounding="trunc",
    )
    return average.average_by(op, rule, x, *words)


def _check_bare_axes(op: str, x: Array, kernel: tuple[int, ...]) -> None:
    """PyTorch's 3-D average compares the window with the axis itself, without its padding."""
    for axis, (taps, size) in enumerate(zip(kernel, x.shape[-len(kernel) :], strict=True)):
        if len(kernel) == 3 and _checks.missing(taps, 1, size, (0, 0)) > 0:
            raise ValueError(_checks.does_not_fit(op, "kernel_size", axis, taps, 1, size, (0, 0)))


# --- Lp -------------------------------------------------------------------------------------------


def lp_pool1d(
    input: ArrayLike,
    norm_type: float,
    kernel_size: Any,
    stride: Any = None,
    ceil_mode: bool = False,
) -> Array:
    """Power average over windows of one axis, of (N, C, L) or (C, L); see :func:`lp_pool2d`."""
    return _lp(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: ArrayLike,
    norm_type: float,
    kernel_size: Any,
    stride: Any = None,
    ceil_mode: bool = False,
) -> Array:
    """Power average over windows, as ``torch.nn.functional.lp_pool2d``.

    ``(sum of x ** p) ** (1 / p)``, of the powers as they are, without absolute values; a partly
    filled window is scaled up by its taps over its cells.

    Args:
      input: floats; its shape, ``kernel_size``, ``stride`` and ``ceil_mode`` as in
        :func:`max_pool2d`.
      norm_type: p, a number other than 0. Infinity is the largest absolute value, -infinity the
        smallest.
    Returns:
      Array of the dtype of ``input``. Narrow floats are computed in float32, where PyTorch rounds
      after every step.
    Derivatives: any order; zero where the powers of a window add up to 0 (for p < 1, NaN at a cell
      that is 0, as in PyTorch).
    Edge cases: a negative sum of powers has no root: NaN, unless p is 1.
    Raises:
      TypeError, ValueError: as :func:`max_pool2d`.
    References: PyTorch 2.13, ``torch.nn.LPPool2d``.
    Example:
      >>> x = jnp.array([[[3.0, -4.0, 3.0]]])
      >>> jaxpool.compat.torch.lp_pool1d(x, 1, 2, ceil_mode=True)[0, 0]
      Array([-1.,  6.], dtype=float32)
    """
    return _lp(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: ArrayLike,
    norm_type: float,
    kernel_size: Any,
    stride: Any = None,
    ceil_mode: bool = False,
) -> Array:
    """Power average over windows of three axes, of (N, C, D, H, W); see :func:`lp_pool2d`."""
    return _lp(3, input, norm_type, kernel_size, stride, ceil_mode)


def _lp(
    count: int, input: Any, norm_type: Any, kernel_size: Any, stride: Any, ceil_mode: Any
) -> Array:
    op = f"lp_pool{count}d"
    x = _input(op, count, input)
    words = _windows(op, count, x, kernel_size, stride, 0, 1, ceil_mode)
    p = _power(op, norm_type)
    if math.isinf(p):
        sign = 1 if p > 0 else -1
        return sign * maximum.max_by(op, "last_nan", sign * absolute(x), *words)
    kernel, strides, _, _, rounding = words
    _check_bare_axes(op, x, kernel)
    return lp.signed_lp_by(op, p, x, kernel, strides, rounding)


def _power(op: str, norm_type: Any) -> float:
    number = norm_type.item() if isinstance(norm_type, np.number) else norm_type
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise TypeError(_not_a_power(op, norm_type))
    if number == 0 or number != number:
        raise ValueError(_not_a_power(op, norm_type))
    return number


def _not_a_power(op: str, norm_type: Any) -> str:
    return message(
        op,
        f"`norm_type` = {shown(norm_type)} is no power.",
        "The root of order norm_type is taken: it is a number other than 0.",
        "Give for example 2, or math.inf.",
    )


# --- adaptive -------------------------------------------------------------------------------------


def adaptive_max_pool1d(input: ArrayLike, output_size: Any, return_indices: bool = False) -> Any:
    """Maximum over adaptive windows of one axis; see :func:`adaptive_max_pool2d`."""
    return _adaptive_max(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: ArrayLike, output_size: Any, return_indices: bool = False) -> Any:
    """Maximum over as many windows as asked for, as ``F.adaptive_max_pool2d``.

    Args:
      input: array (N, C, H, W) or (C, H, W).
      output_size: windows per axis, an int or a pair; None in a pair keeps the axis.
      return_indices: also return the indices of the maxima, flat over (H, W).
    Returns:
      Array of the dtype of ``input``, or (values, indices).
    Derivatives: as :func:`jaxpool.adaptive_max_pool`; at NaN to the last NaN of the window.
    Raises:
      TypeError, ValueError: as :func:`max_pool2d`.
    References: PyTorch 2.13, ``torch.nn.AdaptiveMaxPool2d``.
    Example:
      >>> x = jnp.array([[[3.0, 1.0, 2.0, 5.0, 4.0]]])
      >>> jaxpool.compat.torch.adaptive_max_pool1d(x, 3, return_indices=True)[1][0, 0]
      Array([0, 3, 3], dtype=int32)
    """
    return _adaptive_max(2, input, output_size, return_indices)


def adaptive_max_pool3d(input: ArrayLike, output_size: Any, return_indices: bool = False) -> Any:
    """Maximum over adaptive windows of three axes; see :func:`adaptive_max_pool2d`."""
    return _adaptive_max(3, input, output_size, return_indices)


def _adaptive_max(count: int, input: Any, output_size: Any, return_indices: Any) -> Any:
    op = f"adaptive_max_pool{count}d"
    x = _input(op, count, input)
    sizes = _output_size(op, count, output_size)
    if not flag(op, "return_indices", return_indices):
        return adaptive.adaptive_max_by(op, "last_nan", x, sizes)
    dtype = _checks.index_dtype()
    return adaptive.adaptive_max_with_argmax_by(op, "last_nan", x, sizes, index_dtype=dtype)


def adaptive_avg_pool1d(input: ArrayLike, output_size: Any) -> Array:
    """Average over adaptive windows of one axis; see :func:`adaptive_avg_pool2d`."""
    return _adaptive_average(1, input, output_size)


def adaptive_avg_pool2d(input: ArrayLike, output_size: Any) -> Array:
    """Average over as many windows as asked for, as ``F.adaptive_avg_pool2d``.

    Args:
      input, output_size: as in :func:`adaptive_max_pool2d`.
    Returns:
      Array of the dtype of ``input``.
    Derivatives: linear; as :func:`jaxpool.adaptive_avg_pool`.
    Raises:
      TypeError, ValueError: as :func:`max_pool2d`.
    References: PyTorch 2.13, ``torch.nn.AdaptiveAvgPool2d``.
    Example:
      >>> x = jnp.arange(1.0, 8.0).reshape(1, 1, 7)
      >>> jaxpool.compat.torch.adaptive_avg_pool1d(x, 3)[0, 0]
      Array([2., 4., 6.], dtype=float32)
    """
    return _adaptive_average(2, input, output_size)


def adaptive_avg_pool3d(input: ArrayLike, output_size: Any) -> Array:
    """Average over adaptive windows of three axes; see :func:`adaptive_avg_pool2d`."""
    return _adaptive_average(3, input, output_size)


def _adaptive_average(count: int, input: Any, output_size: Any) -> Array:
    op = f"adaptive_avg_pool{count}d"
    x = _input(op, count, input)
    sizes = _output_size(op, count, output_size)
    return adaptive.adaptive_average_by(op, "trunc", x, sizes)


def _output_size(op: str, count: int, output_size: Any) -> tuple[int | None, ...]:
    if not is_sequence(output_size):
        output_size = (output_size,) * count
    given = [n for n in output_size if n is not None]
    wrong = len(output_size) != count
    kept = ints(op, "output_size", output_size if wrong else given, count if wrong else len(given),
                least=0, spread=False)  # fmt: skip
    numbers = iter(kept)
    return tuple(None if n is None else next(numbers) for n in output_size)


# --- unpooling ------------------------------------------------------------------------------------


def max_unpool1d(
    input: ArrayLike,
    indices: ArrayLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Array:
    """Values of a max pooling of one axis back at their indices; see :func:`max_unpool2d`."""
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: ArrayLike,
    indices: ArrayLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Array:
    """Values of a max pooling back at their indices, as ``F.max_unpool2d``.

    Args:
      input: array (N, C, H, W) or (C, H, W).
      indices: integers of the same shape, flat over (H, W) of the result.
      kernel_size, stride, padding: of the pooling; the result has the size ``(n - 1) * stride +
        kernel_size - 2 * padding`` on each axis.
      output_size: another size, less than a stride away: of the pooled axes, or of all.
    Returns:
      Array of the dtype of ``input``, zero where no index points. Of equal indices the last wins.
    Derivatives: linear; as :func:`jaxpool.max_unpool`.
    Edge cases: -1, the index of a window without a cell, is passed over. Any other index outside
      the result is an error in an eager call, and dropped inside a transformation, where values
      are unknown.
    Raises:
      TypeError, ValueError: as :func:`max_pool2d`.
    References: PyTorch 2.13, ``torch.nn.MaxUnpool2d``.
    Example:
      >>> y, indices = jnp.array([[[5.0, 7.0]]]), jnp.array([[[1, 2]]])
      >>> jaxpool.compat.torch.max_unpool1d(y, indices, 2)[0, 0]
      Array([0., 5., 7., 0.], dtype=float32)
    """
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: ArrayLike,
    indices: ArrayLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Array:
    """Values of a max pooling of three axes back at their indices; see :func:`max_unpool2d`."""
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)


def _unpool(
    count: int, input: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any,
    output_size: Any,
) -> Array:  # fmt: skip
    op = f"max_unpool{count}d"
    y = _input(op, count, input)
    kernel = ints(op, "kernel_size", kernel_size, count)
    strides = _strides(op, stride, kernel)
    pads = ints(op, "padding", padding, count, 0)
    check_known(op, y.shape[-count:])
    rows = zip(y.shape[-count:], kernel, strides, pads, strict=True)
    default = [(size - 1) * s + k - 2 * p for size, k, s, p in rows]
    sizes = default if output_size is None else _unpooled_size(op, output_size, default, strides)
    if min(sizes) < 1:
        raise ValueError(
            message(
                op,
                f"the result would have size {tuple(sizes)}.",
                f"An axis of n has (n - 1) * stride + kernel_size - 2 * padding; `input` has shape "
                f"{y.shape}.",
                "Give the settings of the pooling that the indices come from.",
            )
        )
    with in_words(op):
        return unpool.max_unpool(y, indices, tuple(sizes), data_format="channels_first")


def _unpooled_size(
    op: str, output_size: Any, default: list[int], strides: tuple[int, ...]
) -> tuple[int, ...]:
    count = len(default)
    if is_sequence(output_size) and len(output_size) == count + 2:
        output_size = output_size[2:]
    sizes = ints(op, "output_size", output_size, count, spread=False)
    for axis, (size, usual, stride) in enumerate(zip(sizes, default, strides, strict=True)):
        if not usual - stride < size < usual + stride:
            raise ValueError(
                message(
                    op,
                    f"`output_size` = {size} is no size of pooled axis {axis}.",
                    f"Without it the axis has {usual}; it lies within a stride, {stride}, of that.",
                    "Give the size of the array that was pooled.",
                )
            )
    return sizes


# --- fractional -----------------------------------------------------------------------------------


def fractional_max_pool2d(
    input: ArrayLike,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: ArrayLike | None = None,
    *,
    key: ArrayLike | None = None,
) -> Any:
    """Maximum over windows at random places, as ``F.fractional_max_pool2d``.

    Args:
      input: array (N, C, H, W) or (C, H, W).
      kernel_size: int or a pair.
      output_size: windows per axis, int or a pair.
      output_ratio: instead, a pair of numbers in (0, 1) to multiply the sizes with.
      return_indices: also return the indices of the maxima, flat over (H, W).
      _random_samples: numbers in [0, 1) of shape (N, C, 2), for the width first; (1, C, 2) without
        a batch axis.
      key: of :mod:`jax.random`, to draw them instead: JAX has no hidden generator.
    Returns:
      Array of the dtype of ``input``, or (values, indices).
    Derivatives: as :func:`jaxpool.fractional_max_pool`; at NaN to the last NaN of the window.
    Raises:
      TypeError, ValueError: as :func:`jaxpool.fractional_max_pool`; ValueError also without
        ``output_size`` and ``output_ratio``, or without samples and key.
    References: PyTorch 2.13, ``torch.nn.FractionalMaxPool2d``; Graham 2014 (arXiv:1412.6071).
    Example:
      >>> x, half = jnp.arange(16.0).reshape(1, 4, 4), jnp.full((1, 1, 2), 0.5)
      >>> jaxpool.compat.torch.fractional_max_pool2d(x, 2, 2, _random_samples=half)[0]
      Array([[ 5.,  7.],
             [13., 15.]], dtype=float32)
    """
    return _fractional(
        2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples, key
    )


def fractional_max_pool3d(
    input: ArrayLike,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: ArrayLike | None = None,
    *,
    key: ArrayLike | None = None,
) -> Any:
    """Maximum over random windows of (N, C, T, H, W); see :func:`fractional_max_pool2d`.

    ``_random_samples`` of shape (N, C, 3) are in the order of the axes.
    """
    return _fractional(
        3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples, key
    )


def _fractional(
    count: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any,
    return_indices: Any, samples: Any, key: Any,
) -> Any:  # fmt: skip
    op = f"fractional_max_pool{count}d"
    x = _input(op, count, input)
    kernel = ints(op, "kernel_size", kernel_size, count)
    if output_size is None:
        output_size = _by_ratio(op, output_ratio, x.shape[-count:])
    sizes = ints(op, "output_size", output_size, count)
    _check_room(op, x, kernel, sizes)
    wants_indices = flag(op, "return_indices", return_indices)
    if samples is not None:
        samples = _samples(op, count, samples, x)
    with in_words(op, samples="_random_samples"):
        values, indices = fractional.fractional_max_by(
            op, "last_nan", x, kernel, sizes, samples, key, _checks.index_dtype()
        )
    return (values, indices) if wants_indices else values


def _check_room(op: str, x: Array, kernel: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    count = len(sizes)
    for axis, (size, taps, windows) in enumerate(zip(x.shape[-count:], kernel, sizes, strict=True)):
        needed = windows + taps - 1 + (count == 3)  # the 3-D kernel asks for a cell more
        if needed > size:
            raise ValueError(
                message(
                    op,
                    f"`output_size` = {windows} does not fit pooled axis {axis}.",
                    f"{windows} windows of {taps} cells need {needed} cells, the axis has {size}.",
                    "Ask for fewer windows, or use smaller ones.",
                )
            )


def _by_ratio(op: str, ratio: Any, shape: tuple[int, ...]) -> list[int]:
    ratios = tuple(ratio) if is_sequence(ratio) else ()
    if len(ratios) != len(shape) or not all(
        isinstance(r, (int, float, np.floating)) and 0 < r < 1 for r in ratios
    ):
        raise ValueError(
            message(
                op,
                f"`output_ratio` = {shown(ratio)}, and `output_size` is None.",
                f"One of them says how many windows there are; a ratio has {len(shape)} numbers "
                "between 0 and 1.",
                "Give `output_size`, or for example output_ratio=(0.5, 0.5).",
            )
        )
    return [int(size * r) for size, r in zip(shape, ratios, strict=True)]


def _samples(op: str, count: int, samples: Any, x: Array) -> Array:
    """The samples in the order of the axes, without the batch axis if ``x`` has none."""
    samples = _checks.array(op, "_random_samples", samples)
    batch = x.shape[:-count] if x.ndim == count + 2 else (1, *x.shape[:-count])
    if samples.shape != (*batch, count):
        raise ValueError(
            message(
                op,
                f"`_random_samples` have shape {samples.shape}.",
                f"`input` has shape {x.shape}; there is one number for each plane and axis.",
                f"Give an array of shape {(*batch, count)}.",
            )
        )
    samples = samples[..., ::-1] if count == 2 else samples
    return samples if x.ndim == count + 2 else samples[0]


# --- what the caller wrote ------------------------------------------------------------------------


def _input(op: str, count: int, input: Any) -> Array:
    x = _checks.array(op, "input", input)
    axes = "channels and the pooled axes, with or without a batch axis"
    _checks.check_rank(op, "input", x.shape, (count + 1, count + 2), axes)
    why = "Only the batch axis may be empty."
    _checks.check_not_empty(op, "input", x.shape, x.ndim - count - 1, why)
    return jnp.asarray(x)


def _strides(op: str, stride: Any, kernel: tuple[int, ...]) -> tuple[int, ...]:
    if stride is None or (is_sequence(stride) and not len(stride)):
        return kernel
    return ints(op, "stride", stride, len(kernel))


def _windows(
    op: str, count: int, x: Array, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: Any,
) -> tuple[Any, Any, Any, Any, str]:  # fmt: skip
    """Window, strides, padding, dilations and rounding, checked as PyTorch checks them."""
    kernel = ints(op, "kernel_size", kernel_size, count)
    strides = _strides(op, stride, kernel)
    pads = ints(op, "padding", padding, count, 0)
    dilations = ints(op, "dilation", dilation, count)
    ceil = flag(op, "ceil_mode", ceil_mode)
    rows = zip(x.shape[-count:], kernel, strides, pads, dilations, strict=True)
    for axis, (size, k, s, p, d) in enumerate(rows):
        if p > k // 2:
            raise ValueError(
                message(
                    op,
                    f"`padding` = {p} is more than half of `kernel_size` = {k}.",
                    "PyTorch allows at most half of the window.",
                    "Pad the array itself, or use jaxpool's own op, which has no such limit.",
                )
            )
        missing = _checks.missing(k, d, size, (p, p))
        if missing > 0 and not (ceil and missing < s):
            raise ValueError(_checks.does_not_fit(op, "kernel_size", axis, k, d, size, (p, p)))
    rounding = _window.CEIL_OR_ONE if ceil else "floor"
    return kernel, strides, tuple((p, p) for p in pads), dilations, rounding
