"""Average and sum pooling.

Systems disagree on what counts in the divisor of an average, on the average of nothing and on the
rounding of integers; :class:`Averaging` is one system's rule.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .. import _exact
from .._arguments import flag, integer
from .._cut import column
from .._errors import message
from .._reductions import accumulator, sum_dtype
from .._window import Axis, Geometry, cdiv, check_known, settle
from ._common import Op, Settings, call, check_real, check_where
from ._sums import check_averageable, check_cells, counts, divide, masked, window_sum


def avg_pool(
    x: ArrayLike,
    window_shape: Any,
    strides: Any,
    padding: Any = "VALID",
    *,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    lowering: str = "auto",
) -> Array:
    """Average over sliding windows.

    ``y[.., o, ..] = (sum over t of x[.., o * stride - pad_low + t * dilation, ..]) / count[o]``
    over the cells inside ``x``. ``count`` is exact: the taps on declared padding or ``x``
    (``count_include_pad=True``: PyTorch, ONNX), or on ``x`` alone (False). The overhang of ceil
    rounding never counts.

    Args:
      x: array of any real dtype, or anything ``jnp.asarray`` takes; not bool.
      window_shape, strides, padding, dilations, rounding, data_format, lowering: as in
        :func:`max_pool`.
      count_include_pad: whether declared padding counts in the divisor.
      divisor_override: an int, not zero, that replaces every divisor.
      where: boolean mask that broadcasts to ``x``; cells where it is False are neither added
        nor counted.
    Returns:
      Array of the dtype of ``x``; pooled axes have :func:`output_shape`, the others are unchanged.
      Narrow floats are added and divided in float32 and rounded once. Integer averages are exact,
      the sum does not wrap; they are rounded half to even and saturate.
    Derivatives: linear; forward and reverse, any order. Integers have none.
    Edge cases: a window in which nothing counts gives 0. NaN and infinities propagate.
    Raises:
      TypeError, ValueError, NotImplementedError: as :func:`max_pool`; TypeError for bool.
    References: Dumoulin and Visin 2016 (arXiv:1603.07285), section 5; PyTorch ``avg_pool2d``; ONNX
      AveragePool-22.
    Example:
      >>> x = jnp.array([[1.0], [2.0], [3.0]])
      >>> jaxpool.avg_pool(x, (2,), 1, 1)[:, 0]
      Array([0.5, 1.5, 2.5, 1.5], dtype=float32)
      >>> jaxpool.avg_pool(x, (2,), 1, 1, count_include_pad=False)[:, 0]
      Array([1. , 1.5, 2.5, 3. ], dtype=float32)
    """
    return call(
        _AVG_POOL, x, where, window_shape, strides, padding, dilations, rounding,
        data_format, lowering, count_include_pad, divisor_override,
    )  # fmt: skip


def sum_pool(
    x: ArrayLike,
    window_shape: Any,
    strides: Any,
    padding: Any = "VALID",
    *,
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    lowering: str = "auto",
) -> Array:
    """Sum over sliding windows.

    ``y[.., o, ..] = sum over t of x[.., o * stride - pad_low + t * dilation, ..]`` over the cells
    inside ``x``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      window_shape, strides, padding, dilations, rounding, data_format, where, lowering: as in
        :func:`max_pool`.
    Returns:
      Array; pooled axes have :func:`output_shape`, the others are unchanged. The dtype is that of
      ``jnp.sum``: floats keep theirs, integers of up to 32 bits become int32 or uint32 (int64 or
      uint64 where JAX has 64-bit types), booleans are counted.
      Narrow floats are added in float32 and rounded once; integers wrap as in ``jnp.sum``.
    Derivatives: linear; forward and reverse, any order. Integers have none.
    Edge cases: a window without a cell gives 0. NaN and infinities propagate.
    Raises:
      TypeError, ValueError, NotImplementedError: as :func:`max_pool`.
    References: Dumoulin and Visin 2016 (arXiv:1603.07285), section 5.
    Example:
      >>> jaxpool.sum_pool(jnp.array([[1.0], [2.0], [3.0]]), (2,), 1)[:, 0]
      Array([3., 5.], dtype=float32)
    """
    return call(
        _SUM_POOL, x, where, window_shape, strides, padding, dilations, rounding,
        data_format, lowering,
    )  # fmt: skip


# --- by the rules of another system --------------------------------------------------------------


@dataclass(frozen=True)
class Averaging:
    """A rule of averages.

    Attributes:
      counted: what the divisor counts: "real" cells; "declared" padding too (the library's own
        default, PyTorch, ONNX); all "taps", on overhang too (oneDNN, Flax); or all "taps_if_padded"
        if any pooled axis has padding, else real cells (OpenVINO).
      divisor: replaces the count.
      nothing: the average of floats of a window in which nothing counts: "zero", "nan" (Flax), or
        "zero_by_count" (OpenVINO), zero over taps less those before the array less those after it,
        which is nan, but zero where this difference is negative: where a window starts beyond the
        first place after the array. Of integers it is 0.
      rounding: of integers, see :mod:`jaxpool._exact`.
    """

    counted: Literal["real", "declared", "taps", "taps_if_padded"] = "declared"
    divisor: int | None = None
    nothing: Literal["zero", "nan", "zero_by_count"] = "zero"
    rounding: _exact.Rounding = "half_even"


def average_by(
    op: str,
    rule: Averaging,
    x: ArrayLike,
    window_shape: Any,
    strides: Any,
    padding: Any,
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_first",
) -> Array:
    """Return :func:`avg_pool` by another system's rule, for the front ends; ``op`` is their name.

    The settings are those of :func:`avg_pool`; the rounding may also be "ceil_torch_or_one".
    """
    return call(
        _average_by(op), x, None, window_shape, strides, padding, dilations, rounding,
        data_format, "auto", rule,
    )  # fmt: skip


@functools.lru_cache(maxsize=256)
def _average_by(op: str) -> Op:
    return Op(op, _average, lambda op, rule: (rule,))


def quantised_average_by(
    op: str,
    rule: Averaging,
    x: ArrayLike,
    scales: tuple[Any, Any, Any, Any],
    window_shape: Any,
    strides: Any,
    padding: Any,
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_first",
) -> Array:
    """Return the average of quantised integers, quantised anew, for the front ends.

    ``saturate(round(average((x - x_zero) * x_scale) / y_scale + y_zero))`` in float32, half to
    even.

    Args:
      op, rule, x, window_shape, strides, padding, dilations, rounding, data_format: as in
        :func:`average_by`.
      scales: x_scale, x_zero, y_scale, y_zero, scalars; a zero of None is 0.
    """
    return call(
        _quantised_average_by(op), x, scales, window_shape, strides, padding, dilations, rounding,
        data_format, "auto", rule,
    )  # fmt: skip


_SCALES = ("x_scale", "x_zero_point", "y_scale", "y_zero_point")


@functools.lru_cache(maxsize=256)
def _quantised_average_by(op: str) -> Op:
    return Op(op, _quantised_average, lambda op, rule: (rule,), _SCALES)


def _quantised_average(settings: Settings, x: Array, scales: Any) -> Array:
    (rule,), geometry = settings.own, settings.geometry(x.shape)
    x_scale, x_zero, y_scale, y_zero = map(_scalar, scales)
    total = window_sum(settings, (x.astype(jnp.float32) - x_zero) * x_scale)
    zero = _zero(total)
    divisor = jnp.asarray(_divisor(settings, geometry, None, rule), jnp.float32) + zero
    return _quantised(divide(total, divisor) / (y_scale + zero) + y_zero, x.dtype)


def _scalar(scale: ArrayLike | None) -> Array:
    return jnp.asarray(0 if scale is None else scale, jnp.float32).reshape(())


def _zero(x: Array) -> Array:
    """Zeros that XLA cannot know, to be added to what divides.

    XLA turns a division by a constant or by a scalar into a product with its inverse, which can
    fall on the other side of a tie.
    """
    return x.astype(jnp.float32) * 0


def _quantised(y: Array, dtype: Any) -> Array:
    limits = jnp.iinfo(dtype)
    return jnp.clip(jnp.round(y), limits.min, limits.max).astype(dtype)


@jax.jit
def quantised_global_average(
    x: Array, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any
) -> Array:
    """Return the average of each quantised plane, channels first, for the front ends.

    ``saturate(round(sum(x - x_zero) * (x_scale / (y_scale * count))) + y_zero)``, half to even: an
    exact sum, and one factor in float32.
    """
    axes = tuple(range(2, x.ndim))
    count = math.prod(x.shape[2:])
    x_scale, x_zero, y_scale, y_zero = map(_scalar, (x_scale, x_zero, y_scale, y_zero))
    total = x.sum(axes, jnp.int32, keepdims=True) - x_zero.astype(jnp.int32) * count
    total = total.astype(jnp.float32)
    factor = x_scale / (y_scale * count + _zero(total))
    return _quantised(jnp.round(total * factor) + y_zero, x.dtype)


# --- bodies --------------------------------------------------------------------------------------


def _sum(settings: Settings, x: Array, where: Any) -> Array:
    check_real(settings.op, x)
    valid = check_where(settings.op, where, x.shape)
    result = sum_dtype(x.dtype)
    x = masked(x, valid).astype(accumulator(result))
    return window_sum(settings, x).astype(result)


def _average(settings: Settings, x: Array, where: Any) -> Array:
    (rule,) = settings.own
    check_averageable(settings.op, x)
    valid = check_where(settings.op, where, x.shape)
    x = masked(x, valid)
    geometry = settings.geometry(x.shape)
    divisor = _divisor(settings, geometry, valid, rule)
    if jnp.issubdtype(x.dtype, jnp.integer):
        check_cells(settings.op, geometry.taps)
        largest = max(geometry.taps, abs(rule.divisor or 1))
        total = functools.partial(window_sum, settings)
        return _exact.average(x, total, divisor, largest, rule.rounding)
    total = window_sum(settings, x.astype(accumulator(x.dtype)))
    y = divide(total, divisor, np.nan if rule.nothing == "nan" else 0)
    if rule.nothing == "zero_by_count" and not _counts_taps(rule, geometry):
        y = _nan_at_no_difference(settings, geometry, y)
    return y.astype(x.dtype)


def _nan_at_no_difference(settings: Settings, geometry: Geometry, y: Array) -> Array:
    check_known(settings.op, geometry.spatial_shape)
    whole = settle(settings.op, settings.window, geometry.spatial_shape, geometry.positions)
    for axis, position in whole.placed:
        none = np.array([_difference(axis, window) == 0 for window in range(axis.out)])
        if none.any():
            y = jnp.where(column(none, position, y.ndim), np.asarray(np.nan, y.dtype), y)
    return y


def _difference(axis: Axis, window: int) -> int:
    """Taps of a window less those before the array less those after it."""
    start = axis.start(window)
    before, after = max(-start, 0), max(start + axis.span - axis.size, 0)
    return axis.kernel - cdiv(before, axis.dilation) - cdiv(after, axis.dilation)


def _counts_taps(rule: Averaging, geometry: Geometry) -> bool:
    padded = any(axis.pad_low or axis.pad_high for axis in geometry.axes)
    return rule.counted == "taps" or (rule.counted == "taps_if_padded" and padded)


def _divisor(settings: Settings, geometry: Geometry, valid: Array | None, rule: Averaging) -> Any:
    if rule.divisor is not None:
        return rule.divisor
    if _counts_taps(rule, geometry):
        return geometry.taps
    return counts(settings, geometry, valid, rule.counted == "declared")


def _settle_divisor(op: str, include_pad: Any, override: Any) -> tuple[Averaging]:
    meaning = "It says whether declared padding counts in the divisor."
    counted = "declared" if flag(op, "count_include_pad", include_pad, meaning) else "real"
    return (Averaging(counted, settle_override(op, override)),)


def settle_override(op: str, override: Any) -> int | None:
    """Return a divisor of the caller's own, or None, or raise."""
    if override is None:
        return None
    divisor = integer(op, "divisor_override", override, -(2**28))
    if divisor == 0 or divisor > 2**28:
        raise ValueError(
            message(
                op,
                f"`divisor_override` = {divisor} is out of range.",
                "It divides the sum of every window; it must not be zero nor exceed 2**28.",
                "Give another integer, negative ones included, or None for the window's count.",
            )
        )
    return divisor


_AVG_POOL = Op("avg_pool", _average, _settle_divisor)
_SUM_POOL = Op("sum_pool", _sum)
