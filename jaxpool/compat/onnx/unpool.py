"""Maxima put back where they were."""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
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
    output_shape: Sequence[int] | None = None,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    index_shape: str = "inferred",
) -> Array:
    """Values of a MaxPool put back at their indices, as the operator MaxUnpool.

    Args:
      x: array (N, C, D1, ..., Dn).
      indices: integers of the same shape, flat over the whole result.
      output_shape: shape of the result, static; without it an axis of n has
        ``(n - 1) * stride + kernel - pads``, the inferred length.
      kernel_shape, strides, pads: of the MaxPool, as in :func:`max_pool`.
      index_shape: the array in which ``indices`` count: "inferred", to which zeros are then added
        at the ends of the axes up to ``output_shape`` (ONNX's own test of the operator), no axis of
        which may be shorter; or "output" (ONNX Runtime), which undoes a MaxPool that left elements
        out, and must have at least as many elements.
    Returns:
      Array of the dtype of ``x``, zero where no index points. Of equal indices the last is kept.
    Derivatives: linear; as :func:`jaxpool.max_unpool`.
    Edge cases: -1 is passed over. Any other index outside the result is an error in an eager call,
      and dropped inside a transformation.
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
    whole = _checks.one_of("index_shape", index_shape, ("inferred", "output")) == "output"
    kernel = _checks.ints("kernel_shape", kernel_shape, count, int_for_all=False)
    strides, ends = per_axis("strides", strides, count), pads_of(pads, count)
    shape = _inferred_shape(x, kernel, strides, ends)
    windows, given = {"window_shape": kernel, "strides": strides, "padding": ends}, None
    if output_shape is not None:
        given = _output_shape(output_shape, shape, whole)
        if whole:
            windows, shape = _windows_over(given, shape, kernel, strides, ends), given
    settings = {"index_space": 0, "data_format": "channels_first", **windows}
    y = unpool.max_unpool(x, indices, shape[2:], **settings)
    if given is None:
        return y
    missing = [(0, whole - part) for whole, part in zip(given, y.shape, strict=True)]
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
    given: tuple[int, ...],
    inferred: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    ends: tuple[tuple[int, int], ...],
) -> dict[str, Any]:
    """The windows of the MaxPool, if it makes as many of an array of the shape ``given``."""
    ahead = [n - usual for n, usual in zip(given[2:], inferred[2:], strict=True)]
    if any(n >= stride for n, stride in zip(ahead, strides, strict=True)):
        return {}
    ends = tuple((low, high + max(0, -n)) for (low, high), n in zip(ends, ahead, strict=True))
    return {"window_shape": kernel, "strides": strides, "padding": ends}


def _output_shape(output_shape: Any, inferred: tuple[int, ...], whole: bool) -> tuple[int, ...]:
    entries = np.asarray(output_shape).tolist()
    given = _checks.ints("output_shape", entries, len(inferred), 0, int_for_all=False)
    shorter = any(a < b for a, b in zip(given, inferred, strict=True))
    small = math.prod(given) < math.prod(inferred) if whole else shorter
    if given[:2] != inferred[:2] or small:
        raise ValueError(
            message(
                f"$output_shape = {given} is too small, or of another batch.",
                f"The attributes imply {inferred}; "
                + ("it needs as many elements." if whole else "no axis may be shorter."),
                "Give the shape of the array that was pooled.",
            )
        )
    return given
