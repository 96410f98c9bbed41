"""Maxima placed back at their indices."""

import math
from collections.abc import Sequence
from typing import Any, SupportsIndex

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from ..._errors import message, public
from ..._geometry.resolve import check_known
from ...ops import unpool
from .. import _checks
from .arguments import array, check_pads, pads_of, per_axis


@public
def max_unpool(
    x: ArrayLike,
    indices: ArrayLike,
    output_shape: Sequence[SupportsIndex] | None = None,
    *,
    kernel_shape: Sequence[SupportsIndex],
    strides: Sequence[SupportsIndex] | None = None,
    pads: Sequence[SupportsIndex] | None = None,
    index_shape: str = "inferred",
) -> Array:
    """Place the values of a MaxPool at their indices, as the operator MaxUnpool.

    Args:
      x: array (N, C, D1, ..., Dn).
      indices: integers of the same shape, flat over all axes of the result.
      output_shape: static shape of the result; by default an axis of length n gets the inferred
        length ``(n - 1) * stride + kernel - pads``.
      kernel_shape, strides, pads: settings of the MaxPool, as in :func:`max_pool`.
      index_shape: the shape in which ``indices`` count. "inferred" (as in ONNX's own test of the
        operator) counts in the inferred shape; zeros are then added at the ends of the axes up to
        ``output_shape``, no axis of which may be shorter. "output" (ONNX Runtime) counts in
        ``output_shape``, which must have at least the same number of elements; this undoes a
        MaxPool that dropped elements.
    Returns:
      Array of the dtype of ``x``, zero where no index points. If indices repeat, the last value
      is kept.
    Derivatives: linear; as :func:`jaxpool.max_unpool`.
    Edge cases: -1 is ignored. Any other index outside the result is an error in an eager call, and
      is dropped inside a transformation.
    Raises:
      TypeError, ValueError: as :func:`max_pool`.
    References: ONNX MaxUnpool-22.
    Example:
      >>> y, indices = jnp.array([[[5.0, 7.0]]]), jnp.array([[[1, 2]]])
      >>> jaxpool.compat.onnx.max_unpool(y, indices, kernel_shape=(2,), strides=(2,))[0, 0]
      Array([0., 5., 7., 0.], dtype=float32)
    """
    x = array(x)
    count = x.ndim - 2
    counts_in_output = (
        _checks.one_of("index_shape", index_shape, ("inferred", "output")) == "output"
    )
    kernel = _checks.one_per_axis("kernel_shape", kernel_shape, count)
    strides, padding = per_axis("strides", strides, count), pads_of(pads, count)
    shape = _inferred_shape(x, kernel, strides, padding)
    windows, requested = {"window_shape": kernel, "strides": strides, "padding": padding}, None
    if output_shape is not None:
        requested = _output_shape(output_shape, shape, counts_in_output)
        if counts_in_output:
            windows, shape = _windows_over(requested, shape, kernel, strides, padding), requested
    settings = {"index_space": 0, "data_format": "channels_first", **windows}
    y = unpool.max_unpool(x, indices, shape[2:], **settings)
    if requested is None:
        return y
    missing = [(0, size - part) for size, part in zip(requested, y.shape, strict=True)]
    return jnp.pad(y, missing) if any(map(any, missing)) else y


def _inferred_shape(
    x: Array, kernel: tuple[int, ...], strides: tuple[int, ...], pads: tuple[tuple[int, int], ...]
) -> tuple[int, ...]:
    check_known(x.shape[2:])
    check_pads(kernel, pads)
    rows = zip(x.shape[2:], kernel, strides, pads, strict=True)
    inferred = tuple((size - 1) * s + k - low - high for size, k, s, (low, high) in rows)
    if min(inferred) < 1:
        raise ValueError(
            message(
                f"the result would have pooled axes of lengths {inferred}.",
                f"An axis of n has (n - 1) * stride + kernel - pads; $x has shape {x.shape}.",
                "Give the attributes of the MaxPool that the indices come from.",
            )
        )
    return (*x.shape[:2], *inferred)


def _windows_over(
    requested: tuple[int, ...],
    inferred: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
) -> dict[str, Any]:
    """Return the MaxPool's windows over ``requested``, or {} if their number is different."""
    extra = [n - expected for n, expected in zip(requested[2:], inferred[2:], strict=True)]
    if any(n >= stride for n, stride in zip(extra, strides, strict=True)):
        return {}
    padding = tuple((low, high + max(0, -n)) for (low, high), n in zip(padding, extra, strict=True))
    return {"window_shape": kernel, "strides": strides, "padding": padding}


def _output_shape(
    output_shape: Any, inferred: tuple[int, ...], counts_in_output: bool
) -> tuple[int, ...]:
    requested = _checks.ints("output_shape", output_shape, len(inferred), 0, int_for_all=False)
    is_shorter = any(a < b for a, b in zip(requested, inferred, strict=True))
    is_too_small = math.prod(requested) < math.prod(inferred) if counts_in_output else is_shorter
    if requested[:2] != inferred[:2] or is_too_small:
        raise ValueError(
            message(
                f"$output_shape = {requested} is too small, or has another batch or channel count.",
                f"The attributes imply {inferred}; "
                + (
                    "it needs that many elements."
                    if counts_in_output
                    else "no axis may be shorter."
                ),
                "Give the shape of the array that was pooled.",
            )
        )
    return requested
