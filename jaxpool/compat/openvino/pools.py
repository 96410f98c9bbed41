"""The operations, one function for each version."""

import math
from collections.abc import Sequence
from typing import Any, SupportsIndex

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from ..._errors import message, public
from ..._geometry.arguments import as_bool, integer
from ...ops._dispatch import WindowArguments
from .. import _averages, _rules
from .arguments import NEW_ROUNDINGS, OLD_ROUNDINGS, adaptive, index_type, windows

_NAMES = {"index_space": "axis", "index_dtype": "index_element_type"}
"""OpenVINO's names for arguments of the ops."""


@public
def max_pool_v1(
    data: ArrayLike,
    strides: Sequence[SupportsIndex],
    pads_begin: Sequence[SupportsIndex],
    pads_end: Sequence[SupportsIndex],
    kernel_shape: Sequence[SupportsIndex],
    rounding_type: str = "floor",
    auto_pad: str | None = "explicit",
    name: str | None = None,
) -> Array:
    """Return the maximum over windows, as MaxPool-1; see :func:`max_pool_v14`.

    There are no dilations and no indices, and ``rounding_type`` is "floor" or "ceil".
    """
    settings = strides, None, pads_begin, pads_end, kernel_shape, rounding_type, auto_pad
    x, window_arguments = windows(data, settings, OLD_ROUNDINGS)
    return _rules.max_by("from_lowest", x, window_arguments)


@public(**_NAMES)
def max_pool_v8(
    data: ArrayLike,
    strides: Sequence[SupportsIndex],
    dilations: Sequence[SupportsIndex],
    pads_begin: Sequence[SupportsIndex],
    pads_end: Sequence[SupportsIndex],
    kernel_shape: Sequence[SupportsIndex],
    rounding_type: str = "floor",
    auto_pad: str | None = "explicit",
    index_element_type: str = "i64",
    axis: int = 0,
    name: str | None = None,
) -> tuple[Array, Array]:
    """Return the maximum over windows and its index, as MaxPool-8; see :func:`max_pool_v14`.

    ``rounding_type`` is "floor" or "ceil".
    """
    settings = strides, dilations, pads_begin, pads_end, kernel_shape, rounding_type, auto_pad
    return _max(data, settings, OLD_ROUNDINGS, index_element_type, axis)


@public(**_NAMES)
def max_pool_v14(
    data: ArrayLike,
    strides: Sequence[SupportsIndex],
    dilations: Sequence[SupportsIndex],
    pads_begin: Sequence[SupportsIndex],
    pads_end: Sequence[SupportsIndex],
    kernel_shape: Sequence[SupportsIndex],
    rounding_type: str = "floor",
    auto_pad: str | None = "explicit",
    index_element_type: str = "i64",
    axis: int = 0,
    name: str | None = None,
) -> tuple[Array, Array]:
    """Return the maximum over windows and its index, as MaxPool-14.

    Args:
      data: array (N, C, D1, ..., Dn) of any real dtype.
      strides, dilations: one per pooled axis.
      pads_begin, pads_end: one per pooled axis, or none for no padding; used only if ``auto_pad``
        is "explicit".
      kernel_shape: number of taps per pooled axis.
      rounding_type: "floor", "ceil" (keeps a partial last window) or "ceil_torch" (keeps a partial
        last window if it starts in the array or the padding before it); used for every
        ``auto_pad``.
      auto_pad: "explicit" or None, "valid", "same_upper" or "same_lower".
      index_element_type: "i64" or "i32".
      axis: the first axis that the indices count, -R to R - 1 for R axes; 0 by default (MaxPool-14,
        attribute axis).
      name: ignored.
    Returns:
      (values, indices).
    Derivatives: as :func:`jaxpool.max_pool`; an empty window has no gradient.
    Edge cases: as in the module.
    Raises:
      TypeError: a setting is not an integer. ValueError: it is out of range, has the wrong length
        or does not fit; ``data`` is empty.
    References: OpenVINO opset 14, MaxPool-14.
    Example:
      >>> x = jnp.array([[[jnp.nan, 5.0, -jnp.inf, -jnp.inf]]])
      >>> f = jaxpool.compat.openvino.max_pool_v14
      >>> values, indices = f(x, (2,), (1,), (0,), (0,), (2,))
      >>> indices[0, 0], values[0, 0, 1] == jnp.finfo(jnp.float32).min
      (Array([1, 0], dtype=int32), Array(True, dtype=bool))
    """
    settings = strides, dilations, pads_begin, pads_end, kernel_shape, rounding_type, auto_pad
    return _max(data, settings, NEW_ROUNDINGS, index_element_type, axis)


def _max(
    data: Any, settings: tuple, roundings: Sequence[str], index_element_type: Any, axis: Any
) -> tuple[Array, Array]:
    x, window_arguments = windows(data, settings, roundings)
    first = integer("axis", axis, -math.inf)
    space = {"index_space": first, "index_dtype": index_type(index_element_type, x.shape[first:])}
    # The CPU plugin pools other integers in a wider dtype, so no element equals its lowest number.
    starts_from_lowest = x.dtype in (jnp.int8, jnp.uint8, jnp.int32) or jnp.issubdtype(
        x.dtype, jnp.floating
    )
    rule = "from_lowest" if starts_from_lowest else "first"
    return _rules.max_with_argmax_by(rule, x, window_arguments, **space, empty_at=0)


@public
def avg_pool_v1(
    data_batch: ArrayLike,
    strides: Sequence[SupportsIndex],
    pads_begin: Sequence[SupportsIndex],
    pads_end: Sequence[SupportsIndex],
    kernel_shape: Sequence[SupportsIndex],
    exclude_pad: bool,
    rounding_type: str = "floor",
    auto_pad: str | None = "explicit",
    name: str | None = None,
) -> Array:
    """Return the average over windows, as AvgPool-1; see :func:`avg_pool_v16`.

    There are no dilations, and ``rounding_type`` is "floor" or "ceil".
    """
    settings = strides, None, pads_begin, pads_end, kernel_shape, rounding_type, auto_pad
    return _average(data_batch, settings, exclude_pad, OLD_ROUNDINGS)


@public
def avg_pool_v14(
    data_batch: ArrayLike,
    strides: Sequence[SupportsIndex],
    pads_begin: Sequence[SupportsIndex],
    pads_end: Sequence[SupportsIndex],
    kernel_shape: Sequence[SupportsIndex],
    exclude_pad: bool,
    rounding_type: str = "floor",
    auto_pad: str | None = "explicit",
    name: str | None = None,
) -> Array:
    """Return the average, as AvgPool-14; see :func:`avg_pool_v16`. There are no dilations."""
    settings = strides, None, pads_begin, pads_end, kernel_shape, rounding_type, auto_pad
    return _average(data_batch, settings, exclude_pad, NEW_ROUNDINGS)


@public
def avg_pool_v16(
    data_batch: ArrayLike,
    strides: Sequence[SupportsIndex],
    pads_begin: Sequence[SupportsIndex],
    pads_end: Sequence[SupportsIndex],
    kernel_shape: Sequence[SupportsIndex],
    exclude_pad: bool,
    rounding_type: str = "floor",
    auto_pad: str | None = "explicit",
    dilations: Sequence[SupportsIndex] | None = None,
    name: str | None = None,
) -> Array:
    """Return the average over windows, as AvgPool-16.

    Args:
      data_batch: array (N, C, D1, ..., Dn) of any real dtype; not bool.
      strides, pads_begin, pads_end, kernel_shape, rounding_type, auto_pad: as in
        :func:`max_pool_v14`.
      exclude_pad: True counts only the elements of the window; for False see the module.
      dilations: one per pooled axis; None is 1 (opset 16, AvgPool-16, attribute dilations).
      name: ignored.
    Returns:
      Array of the dtype of ``data_batch``; low-precision floats are added in float32, averages of
      integers are rounded half to even.
    Derivatives: linear; as :func:`jaxpool.avg_pool`.
    Edge cases: as in the module. With ``exclude_pad`` pads must be smaller than the dilated
      kernel.
    Raises:
      TypeError, ValueError: as :func:`max_pool_v14`.
    References: OpenVINO opset 16, AvgPool-16.
    Example:
      >>> x = jnp.arange(1.0, 7.0).reshape(1, 1, 6)
      >>> f = jaxpool.compat.openvino.avg_pool_v16
      >>> f(x, (2,), (1,), (1,), (3,), False, "ceil")[0, 0]
      Array([1., 3., 5., 2.], dtype=float32)
    """
    settings = strides, dilations, pads_begin, pads_end, kernel_shape, rounding_type, auto_pad
    return _average(data_batch, settings, exclude_pad, NEW_ROUNDINGS)


def _average(data: Any, settings: tuple, exclude_pad: Any, roundings: Sequence[str]) -> Array:
    x, window_arguments = windows(data, settings, roundings)
    excludes_padding = as_bool("exclude_pad", exclude_pad)
    if excludes_padding:
        _check_counted(window_arguments)
    rule = _averages.Averaging(
        "real" if excludes_padding else "taps_if_padded", empty="zero_by_count"
    )
    return _averages.average_by(rule, x, window_arguments)


def _check_counted(windows: WindowArguments) -> None:
    """Raise if a window can lie in explicit padding, where no element would count."""
    kernel, _, padding, dilations, *_ = windows
    if isinstance(padding, str):
        return
    for axis, (k, d, ends) in enumerate(zip(kernel, dilations, padding, strict=True)):
        span = (k - 1) * d + 1
        if max(ends) >= span:
            raise ValueError(
                message(
                    f"the padding {ends} of pooled axis {axis} contains a full window.",
                    f"A window spans {span} elements on that axis. With $exclude_pad no element "
                    "would count.",
                    "Use less padding, or exclude_pad=False.",
                )
            )


@public
def adaptive_avg_pool_v8(data: ArrayLike, output_shape: Any, name: str | None = None) -> Array:
    """Return the average over adaptive windows, as AdaptiveAvgPool-8.

    Args:
      data: array (N, C, D1, ..., Dn).
      output_shape: static number of windows per pooled axis; 0 and -1 give an empty result.
      name: ignored.
    Returns:
      Array of the dtype of ``data``.
    Derivatives: linear; as :func:`jaxpool.adaptive_avg_pool`.
    Raises:
      TypeError, ValueError: as :func:`max_pool_v14`.
    References: OpenVINO opset 8, AdaptiveAvgPool-8.
    Example:
      >>> x = jnp.arange(1.0, 8.0).reshape(1, 1, 7)
      >>> jaxpool.compat.openvino.adaptive_avg_pool_v8(x, [3])[0, 0]
      Array([2., 4., 6.], dtype=float32)
    """
    x, sizes = adaptive(data, output_shape)
    return _averages.adaptive_average_by("half_even", x, sizes)


@public(**_NAMES)
def adaptive_max_pool_v8(
    data: ArrayLike,
    output_shape: Any,
    index_element_type: str = "i64",
    name: str | None = None,
) -> tuple[Array, Array]:
    """Return the maximum over adaptive windows and its index, as AdaptiveMaxPool-8.

    Args:
      data, output_shape: as in :func:`adaptive_avg_pool_v8`.
      index_element_type: "i64" or "i32".
      name: ignored.
    Returns:
      (values, indices); indices are flat over the pooled axes.
    Derivatives: as :func:`jaxpool.adaptive_max_pool`.
    Edge cases: a NaN in the first element of a window is the result, other NaN are ignored.
    Raises:
      TypeError, ValueError: as :func:`max_pool_v14`.
    References: OpenVINO opset 8, AdaptiveMaxPool-8.
    Example:
      >>> x = jnp.array([[[3.0, 1.0, 2.0, 5.0, 4.0]]])
      >>> jaxpool.compat.openvino.adaptive_max_pool_v8(x, [3])[1][0, 0]
      Array([0, 3, 3], dtype=int32)
    """
    x, sizes = adaptive(data, output_shape)
    dtype = index_type(index_element_type, x.shape[2:])
    return _rules.adaptive_max_with_argmax_by("from_first_element", x, sizes, index_dtype=dtype)
