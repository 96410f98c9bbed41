"""Pooling of ``keras.ops``, with its names, arguments and defaults; strides default to the pool.

Source: Keras 3.15.1, ``keras.ops.nn`` on its JAX backend. ``data_format=None`` means
"channels_last"; Keras's configuration file is not read. Averages never count padding. Averages of
integers are floats, as in Keras; low-precision floats and integers are added without loss.

Differences:

* a call without ``strides`` runs; Keras 3.15.1 fails on its JAX backend;
* windows of adaptive pools are computed in integers; Keras divides in float32, so that some windows
  are an element too long (7 windows of 7 elements), or give NaN;
* NaN in an adaptive maximum gives NaN on every backend;
* the gradient of a maximum goes to the first maximum, row-major in the window, also with NaN;
* a pool that does not fit, an empty pooled axis and complex numbers are errors.
"""

import functools
from typing import TYPE_CHECKING, Any

from jax import Array
from jax.typing import ArrayLike

from .._errors import counted, message, public, shown
from .._errors.missing_names import getter, of_front_end
from .._geometry.arguments import Integers, is_sequence
from ..ops import adaptive
from ..ops.average import avg_pool as _avg_pool
from ..ops.max import max_pool as _max_pool
from ._checks import array, as_floats

__all__ = [
    "adaptive_average_pool",
    "adaptive_max_pool",
    "average_pool",
    "max_pool",
]


def __dir__() -> list[str]:
    return list(__all__)


if not TYPE_CHECKING:  # or a type checker would accept every name
    __getattr__ = getter(__name__, of_front_end, __all__)


@public(window_shape="pool_size")
def max_pool(
    inputs: ArrayLike,
    pool_size: Integers,
    strides: Integers | None = None,
    padding: str = "valid",
    data_format: str | None = None,
) -> Array:
    """Return the maximum over sliding windows, as ``keras.ops.max_pool``.

    Args:
      inputs: array of (batch, spatial axes.., channels), or with the channels second.
      pool_size: int, or one per spatial axis.
      strides: int, or one per spatial axis; default ``pool_size``.
      padding: "valid" or "same", in upper or lower case.
      data_format: "channels_last" (also None) or "channels_first", in upper or lower case.
    Returns:
      Array of the dtype of ``inputs``.
    Example:
      >>> from jaxpool.compat import keras
      >>> x = jnp.array([[[1.0], [3.0], [2.0], [5.0]]])
      >>> keras.max_pool(x, 2)[0, :, 0]
      Array([3., 5.], dtype=float32)
    """
    return _over_windows(_max_pool, inputs, pool_size, strides, padding, data_format)


@public(window_shape="pool_size")
def average_pool(
    inputs: ArrayLike,
    pool_size: Integers,
    strides: Integers | None = None,
    padding: str = "valid",
    data_format: str | None = None,
) -> Array:
    """Return the average, as ``keras.ops.average_pool``; padding is never counted.

    Args:
      inputs, pool_size, strides, padding, data_format: as :func:`max_pool`.
    Returns:
      Array of the dtype of ``inputs`` for floats, else float32.
    """
    return _over_windows(
        _average, as_floats("inputs", inputs), pool_size, strides, padding, data_format
    )


@public
def adaptive_max_pool(
    inputs: ArrayLike, output_size: Integers, data_format: str | None = None
) -> Array:
    """Return the maximum over ``output_size`` windows, as ``keras.ops.adaptive_max_pool``.

    Args:
      inputs, data_format: as :func:`max_pool`.
      output_size: int, or one per spatial axis.
    Returns:
      Array of the dtype of ``inputs``.
    """
    return _adaptive(adaptive.adaptive_max_pool, array("inputs", inputs), output_size, data_format)


@public
def adaptive_average_pool(
    inputs: ArrayLike, output_size: Integers, data_format: str | None = None
) -> Array:
    """Return the average over ``output_size`` windows, as ``keras.ops.adaptive_average_pool``.

    Args:
      inputs, output_size, data_format: as :func:`adaptive_max_pool`.
    Returns:
      Array of the dtype of ``inputs`` for floats, else float32.
    """
    x = as_floats("inputs", inputs)
    return _adaptive(adaptive.adaptive_avg_pool, x, output_size, data_format)


def _over_windows(
    function: Any, inputs: Any, pool_size: Any, strides: Any, padding: Any, data_format: Any
) -> Array:
    x = array("inputs", inputs)
    _check_padding(padding)
    window = _per_axis("pool_size", pool_size, x)
    steps, layout = window if strides is None else strides, _layout(data_format)
    return function(x, window, steps, padding, data_format=layout)


def _adaptive(function: Any, x: Array, output_size: Any, data_format: Any) -> Array:
    layout = _layout(data_format)
    return function(x, _per_axis("output_size", output_size, x), data_format=layout)


_average = functools.partial(_avg_pool, count_include_pad=False)


def _layout(data_format: Any) -> str:
    if data_format is None:
        return "channels_last"
    layout = str(data_format).lower()  # as Keras
    if layout not in ("channels_last", "channels_first"):
        raise ValueError(
            message(
                f"$data_format = {shown(data_format)} is not a layout.",
                "Keras supports channels_last and channels_first.",
                "Give one of them, or None for channels_last.",
            )
        )
    return layout


def _check_padding(padding: Any) -> None:
    if not isinstance(padding, str) or padding.lower() not in ("valid", "same"):
        raise ValueError(
            message(
                f"$padding = {shown(padding)} is not a padding.",
                "Keras supports valid and same.",
                "Give one of them; jaxpool.max_pool and jaxpool.avg_pool take pairs.",
            )
        )


def _per_axis(name: str, value: Any, x: Array) -> Any:
    """Return ``value`` for every axis except batch and channels."""
    count = x.ndim - 2
    if count < 1 or (is_sequence(value) and len(value) != count):
        raise ValueError(
            message(
                f"${name} = {shown(value)} does not match $inputs of shape {x.shape}.",
                f"Besides batch and channels they have {counted(max(count, 0), 'axis')}.",
                "Give an integer, or one for each spatial axis.",
            )
        )
    return tuple(value) if is_sequence(value) else (value,) * count
