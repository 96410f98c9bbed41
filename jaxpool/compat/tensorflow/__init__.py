"""``tf.nn``'s pooling functions, and the quantised averages of TensorFlow Lite.

The rules are those of TensorFlow 2.21.0 on CPU, with oneDNN, its default. Averages never count
padding. ``max_pool`` starts from the lowest finite float: it replaces -inf by this float, and
ignores NaN. ``max_pool_with_argmax`` starts from the first element of each window: a NaN in this
element is the result, other NaN are ignored. In TensorFlow and in this module, the gradient of both
functions goes to the element that ``max_pool_with_argmax`` selects.

Deliberate differences:

* float16 averages are added in float32; TensorFlow overflows;
* a window that does not fit is an error also where TensorFlow returns an empty result;
* the gradient of a maximum of rank 5 goes to one element, as for the other ranks; TensorFlow gives
  it to every element that equals the maximum;
* a maximum over windows of channels, which TensorFlow supports for rank 4 with windows that divide
  the channels, is an error: ``jaxpool.max_pool`` pools any axes.

``tf.nn.fractional_max_pool``, ``fractional_avg_pool`` and ``pool`` are not included:
:func:`jaxpool.fractional_max_pool` has PyTorch's rule, and ``pool`` is ``max_pool`` or ``avg_pool``
by name.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from ..._errors import message, public, shown
from ..._errors.missing_names import getter, of_front_end
from ..._geometry.arguments import Integers, as_bool, integer
from ..._numerics import indices as _indices
from ...ops import average
from .. import _checks
from .._scans import over_windows
from . import programs as _programs
from .arguments import configuration, padding_name

Sizes = Integers | None
Padding = str | Sequence[Sequence[SupportsIndex]]

__all__ = [
    "avg_pool",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_pool_with_argmax",
    "tflite_average_pool_2d",
]


def __dir__() -> list[str]:
    return list(__all__)


if not TYPE_CHECKING:  # or a type checker would accept every name
    __getattr__ = getter(__name__, of_front_end, __all__)


@public(window_shape="ksize")
def max_pool(
    input: ArrayLike,
    ksize: Sizes,
    strides: Sizes,
    padding: Padding,
    data_format: str | None = None,
    name: str | None = None,
) -> Array:
    """Return the maximum over sliding windows, as ``tf.nn.max_pool``.

    Args:
      input: array of rank 3, 4 or 5.
      ksize: number of taps: an int, one per spatial axis, or one per axis of ``input`` with 1 for
        batch and channels.
      strides: as ``ksize``; None is 1.
      padding: "VALID", "SAME", or one (low, high) pair per axis of ``input``, smaller than the
        window.
      data_format: "NWC", "NHWC", "NDHWC" (the default of each rank), or the same with the channels
        second.
      name: ignored.
    Returns:
      Array of the dtype of ``input``. If no element of a window is greater than the lowest finite
      float, the result is that float.
    Derivatives: as :func:`jaxpool.max_pool`, at the element of :func:`max_pool_with_argmax`.
    Example:
      >>> from jaxpool.compat import tensorflow as tf
      >>> x = jnp.array([[[jnp.nan], [1.0], [jnp.nan], [2.0]]])
      >>> tf.max_pool(x, 4, 1, "VALID").item()
      2.0
    """
    return _max_pool_of_ranks((1, 2, 3), input, ksize, strides, padding, data_format)


@public(window_shape="ksize")
def max_pool1d(
    input: ArrayLike, ksize: Sizes, strides: Sizes, padding: Padding, data_format: str = "NWC",
    name: str | None = None,
) -> Array:  # fmt: skip
    """Return the maximum, as ``tf.nn.max_pool1d``; :func:`max_pool` of an array of rank 3."""
    return _max_pool_of_ranks((1,), input, ksize, strides, padding, data_format)


@public(window_shape="ksize")
def max_pool2d(
    input: ArrayLike, ksize: Sizes, strides: Sizes, padding: Padding, data_format: str = "NHWC",
    name: str | None = None,
) -> Array:  # fmt: skip
    """Return the maximum, as ``tf.nn.max_pool2d``; :func:`max_pool` of an array of rank 4."""
    return _max_pool_of_ranks((2,), input, ksize, strides, padding, data_format)


@public(window_shape="ksize")
def max_pool3d(
    input: ArrayLike, ksize: Sizes, strides: Sizes, padding: Padding, data_format: str = "NDHWC",
    name: str | None = None,
) -> Array:  # fmt: skip
    """Return the maximum, as ``tf.nn.max_pool3d``; :func:`max_pool` of an array of rank 5."""
    return _max_pool_of_ranks((3,), input, ksize, strides, padding, data_format)


def _max_pool_of_ranks(counts: tuple[int, ...], input: Any, *window: Any) -> Array:
    x = _checks.array("input", input)
    config = configuration(x.shape, *window, counts)
    return _programs.max_values(x, config=config)


@public(window_shape="ksize", index_dtype="output_dtype")
def max_pool_with_argmax(
    input: ArrayLike,
    ksize: Sizes,
    strides: Sizes,
    padding: str,
    data_format: str = "NHWC",
    output_dtype: DTypeLike | None = None,
    include_batch_in_index: bool = False,
    name: str | None = None,
) -> tuple[Array, Array]:
    """Return the maximum over sliding windows and its index, as ``tf.nn.max_pool_with_argmax``.

    Args:
      input: array of rank 4, not empty.
      ksize, strides: as :func:`max_pool`.
      padding: "VALID" or "SAME".
      data_format: "NHWC"; TensorFlow supports no other format on CPU.
      output_dtype: dtype of the indices; default int64 if JAX has 64-bit types on, else int32.
      include_batch_in_index: whether indices also count the batch axis.
      name: ignored.
    Returns:
      (values, indices); an index is ``(h * W + w) * C + c``, plus ``n * H * W * C`` with the
      batch.
    Derivatives: values as :func:`jaxpool.max_pool`, at the element of the index; indices have none.
    """
    x = _checks.array("input", input)
    by_batch = as_bool("include_batch_in_index", include_batch_in_index)
    are_names = isinstance(data_format, str) and isinstance(padding, str)
    if not are_names or data_format != "NHWC" or x.ndim != 4 or x.size == 0:
        raise ValueError(
            message(
                "only arrays in NHWC, not empty, and padding by name are supported.",
                f"$input has shape {x.shape}, $data_format is {shown(data_format)}, $padding is "
                f"{shown(padding)}.",
                "jaxpool.max_pool_with_argmax takes any rank, layout and padding.",
            )
        )
    config = configuration(x.shape, ksize, strides, padding, data_format)
    if output_dtype is None:
        output_dtype = _checks.index_dtype(x.shape if by_batch else x.shape[1:])
    dtype = _indices.check_dtype(output_dtype)
    space = 0 if by_batch else 1
    return _programs.max_values_with_indices(x, config=config, dtype=dtype, space=space)


@public(window_shape="ksize")
def avg_pool(
    input: ArrayLike,
    ksize: Sizes,
    strides: Sizes,
    padding: str,
    data_format: str | None = None,
    name: str | None = None,
) -> Array:
    """Return the average over sliding windows, as ``tf.nn.avg_pool``; padding is never counted.

    Args:
      input: array of floats of rank 3, 4 or 5.
      ksize, strides, data_format: as :func:`max_pool`.
      padding: "VALID" or "SAME".
      name: ignored.
    Returns:
      Array of the dtype of ``input``.
    """
    return _avg_pool_of_ranks((1, 2, 3), input, ksize, strides, padding, data_format)


@public(window_shape="ksize")
def avg_pool1d(
    input: ArrayLike, ksize: Sizes, strides: Sizes, padding: str, data_format: str = "NWC",
    name: str | None = None,
) -> Array:  # fmt: skip
    """Return the average, as ``tf.nn.avg_pool1d``; :func:`avg_pool` of an array of rank 3."""
    return _avg_pool_of_ranks((1,), input, ksize, strides, padding, data_format)


@public(window_shape="ksize")
def avg_pool2d(
    input: ArrayLike, ksize: Sizes, strides: Sizes, padding: str, data_format: str = "NHWC",
    name: str | None = None,
) -> Array:  # fmt: skip
    """Return the average, as ``tf.nn.avg_pool2d``; :func:`avg_pool` of an array of rank 4."""
    return _avg_pool_of_ranks((2,), input, ksize, strides, padding, data_format)


@public(window_shape="ksize")
def avg_pool3d(
    input: ArrayLike, ksize: Sizes, strides: Sizes, padding: str, data_format: str = "NDHWC",
    name: str | None = None,
) -> Array:  # fmt: skip
    """Return the average, as ``tf.nn.avg_pool3d``; :func:`avg_pool` of an array of rank 5."""
    return _avg_pool_of_ranks((3,), input, ksize, strides, padding, data_format)


def _avg_pool_of_ranks(
    counts: tuple[int, ...], input: Any, ksize: Any, strides: Any, padding: Any,
    data_format: Any,
) -> Array:  # fmt: skip
    x = _checks.array("input", input)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(
            message(
                f"$input has dtype {x.dtype}.",
                "TensorFlow averages floats only.",
                "Convert it, or use tflite_average_pool_2d for quantised values.",
            )
        )
    padding = padding_name(padding)
    config = configuration(x.shape, ksize, strides, padding, data_format, counts)
    return over_windows(average.avg_pool, x, config, count_include_pad=False)


@public(window_shape="filter")
def tflite_average_pool_2d(
    input: ArrayLike,
    filter_height: int,
    filter_width: int,
    stride_h: int,
    stride_w: int,
    padding: str,
    activation_min: int | None = None,
    activation_max: int | None = None,
) -> Array:
    """Return the average of quantised values, as TensorFlow Lite's AVERAGE_POOL_2D.

    The sum of the elements inside the array, in int32, is divided by their number and rounded half
    away from zero.

    Args:
      input: int8, uint8 or int16 array of (batch, height, width, channels).
      filter_height, filter_width: number of taps per axis.
      stride_h, stride_w: elements between windows.
      padding: "VALID" or "SAME"; never counted.
      activation_min, activation_max: the range of the fused activation; default that of the dtype.
    Returns:
      Array of the dtype of ``input``, with the scale and zero point of ``input``.
    References: TensorFlow Lite, ``reference_integer_ops::AveragePool``.
    Example:
      >>> from jaxpool.compat import tensorflow as tf
      >>> x = jnp.array([2, 3, -2, -3], jnp.int8).reshape(1, 1, 4, 1)
      >>> tf.tflite_average_pool_2d(x, 1, 2, 1, 2, "VALID").ravel()
      Array([ 3, -3], dtype=int8)
    """
    x = _checks.array("input", input)
    if x.dtype not in (jnp.int8, jnp.uint8, jnp.int16):
        raise TypeError(
            message(
                f"$input has dtype {x.dtype}.",
                "Quantised averages are those of int8, uint8 and int16.",
                "Use avg_pool for floats.",
            )
        )
    filter_size = (
        integer("filter_height", filter_height, 1),
        integer("filter_width", filter_width, 1),
    )
    window = filter_size, (integer("stride_h", stride_h, 1), integer("stride_w", stride_w, 1))
    config = configuration(x.shape, *window, padding_name(padding), "NHWC")
    low, high = _activation(activation_min, activation_max, jnp.iinfo(x.dtype))
    return _programs.quantised_average(x, config=config, low=low, high=high)


def _activation(low: Any, high: Any, limits: Any) -> tuple[int, int]:
    """Return the range of the activation, clipped to the range of the dtype."""
    int64_min = -(2**63)
    lower = limits.min if low is None else integer("activation_min", low, int64_min)
    upper = limits.max if high is None else integer("activation_max", high, int64_min)
    if max(lower, limits.min) > min(upper, limits.max):
        raise ValueError(
            message(
                f"$activation_min = {lower} and $activation_max = {upper} leave no value of "
                f"{limits.dtype}.",
                f"Values of that dtype lie between {limits.min} and {limits.max}.",
                "Give the quantised ends of the activation, or None.",
            )
        )
    return max(lower, limits.min), min(upper, limits.max)
