"""Maxima, averages and norms, over windows and over full planes."""

from collections.abc import Sequence
from typing import Any, SupportsIndex

from jax import Array
from jax.typing import ArrayLike

from ..._errors import public
from ...ops import global_sums
from ...ops._dispatch import call
from ...ops._parameters import check_positive
from ...ops.lp import LP_POOL
from .. import _averages, _checks, _rules
from .arguments import array, binary, check_float, windows


@public
def max_pool(
    x: ArrayLike,
    kernel_shape: Sequence[SupportsIndex],
    *,
    strides: Sequence[SupportsIndex] | None = None,
    pads: Sequence[SupportsIndex] | None = None,
    dilations: Sequence[SupportsIndex] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    storage_order: int = 0,
) -> tuple[Array, Array]:
    """Return the maximum over windows and its index, as the operator MaxPool.

    Args:
      x: array (N, C, D1, ..., Dn) of any real dtype.
      kernel_shape: number of taps per pooled axis.
      strides: strides per pooled axis; None is 1 (MaxPool-22, attribute strides).
      pads: the beginnings of all pooled axes, then the ends; None is 0. Padding is never
        a maximum.
      dilations: dilations per pooled axis; None is 1.
      auto_pad: "NOTSET" (use ``pads``), "VALID" (no padding), "SAME_UPPER" or "SAME_LOWER".
      ceil_mode: 1 keeps a partial last window if it starts in the array or the padding before it.
      storage_order: order of the pooled axes in the indices; 0 is row-major, 1 is column-major.
    Returns:
      (y, indices): indices are flat over all axes of the array.
    Derivatives: as :func:`jaxpool.max_pool`.
    Edge cases: as in the module.
    Raises:
      TypeError: a setting is not an integer. ValueError: it is out of range, has the wrong length
        or does not fit.
    References: ONNX MaxPool-22.
    Example:
      >>> x = jnp.arange(24.0).reshape(2, 2, 2, 3)
      >>> jaxpool.compat.onnx.max_pool(x, (2, 2))[1].ravel()
      Array([ 4,  5, 10, 11, 16, 17, 22, 23], dtype=int32)
    """
    x, window_arguments = windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    column_major = bool(binary("storage_order", storage_order))
    return _rules.max_with_argmax_by(
        "from_first_element", x, window_arguments, index_space=0, empty_at=-1,
        index_dtype=_checks.index_dtype(x.shape), column_major=column_major,
    )  # fmt: skip


@public
def average_pool(
    x: ArrayLike,
    kernel_shape: Sequence[SupportsIndex],
    *,
    strides: Sequence[SupportsIndex] | None = None,
    pads: Sequence[SupportsIndex] | None = None,
    dilations: Sequence[SupportsIndex] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
) -> Array:
    """Return the average over windows, as the operator AveragePool.

    Args:
      x: array (N, C, D1, ..., Dn) of floats.
      kernel_shape, strides, pads, dilations, auto_pad, ceil_mode: as in :func:`max_pool`.
      count_include_pad: 1 counts padding in the divisor; overhang of ceil_mode never counts. The
        default is 0 (AveragePool-22, attribute count_include_pad).
    Returns:
      Array of the dtype of ``x``; low-precision floats are added in float32.
    Derivatives: linear; as :func:`jaxpool.avg_pool`.
    Edge cases: a window without counted elements gives 0.
    Raises:
      TypeError, ValueError: as :func:`max_pool`; TypeError also for integers.
    References: ONNX AveragePool-22.
    Example:
      >>> x = jnp.arange(1.0, 7.0).reshape(1, 1, 6)
      >>> jaxpool.compat.onnx.average_pool(x, (3,), strides=(2,), pads=(1, 1), ceil_mode=1)[0, 0]
      Array([1.5, 3. , 5. , 6. ], dtype=float32)
    """
    x, window_arguments = windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    check_float(x)
    includes_padding = binary("count_include_pad", count_include_pad)
    rule = _averages.Averaging("declared" if includes_padding else "real")
    return _averages.average_by(rule, x, window_arguments)


@public
def lp_pool(
    x: ArrayLike,
    kernel_shape: Sequence[SupportsIndex],
    *,
    p: float = 2,
    strides: Sequence[SupportsIndex] | None = None,
    pads: Sequence[SupportsIndex] | None = None,
    dilations: Sequence[SupportsIndex] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
) -> Array:
    """Return the Lp norm over windows, as the operator LpPool: ``(sum of |x| ** p) ** (1 / p)``.

    Args:
      x: array (N, C, D1, ..., Dn) of floats.
      kernel_shape, strides, pads, dilations, auto_pad, ceil_mode: as in :func:`max_pool`.
      p: the exponent, positive; 2 by default (LpPool-22, attribute p).
    Returns:
      Array of the dtype of ``x``.
    Derivatives: as :func:`jaxpool.lp_pool`.
    Edge cases: a partial window is not scaled up; an empty window gives 0.
    Raises:
      TypeError, ValueError: as :func:`max_pool`; TypeError also for integers.
    References: ONNX LpPool-22.
    Example:
      >>> jaxpool.compat.onnx.lp_pool(jnp.array([[[-3.0, -4.0]]]), (2,), p=1)[0, 0]
      Array([7.], dtype=float32)
    """
    x, window_arguments = windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    check_float(x)
    check_positive("p", p, static=True)
    return call(LP_POOL, x, (None,), window_arguments, p=p)


@public
def global_max_pool(x: ArrayLike) -> Array:
    """Return the maximum of each plane, as the operator GlobalMaxPool: (N, C, 1, ..., 1)."""
    x = array(x)
    return _rules.adaptive_max_by("from_first_element", x, (1,) * (x.ndim - 2))


@public
def global_average_pool(x: ArrayLike) -> Array:
    """Return the average of each plane, as the operator GlobalAveragePool: (N, C, 1, ..., 1)."""
    x = array(x)
    check_float(x)
    return global_sums.global_avg_pool(x, data_format="channels_first")


@public
def global_lp_pool(x: ArrayLike, *, p: float = 2) -> Array:
    """Return the Lp norm of each plane, as the operator GlobalLpPool: (N, C, 1, ..., 1)."""
    x = array(x)
    check_float(x)
    check_positive("p", p, static=True)
    return global_sums.global_lp_pool(x, p=p, data_format="channels_first")


def values_of_max_pool(
    x: ArrayLike, kernel_shape: Any, strides: Any = None, pads: Any = None, dilations: Any = None,
    auto_pad: Any = "NOTSET", ceil_mode: Any = 0, storage_order: Any = 0,
) -> Array:  # fmt: skip
    binary("storage_order", storage_order)
    x, window_arguments = windows(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    return _rules.max_by("from_first_element", x, window_arguments)
