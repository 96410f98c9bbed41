"""Averages by the rules of other libraries, and PyTorch's power average.

Libraries disagree on what counts in the divisor, on the average of a window in which no element
counts, and on the rounding of integers. An :class:`Averaging` is the rule of one library.
"""

import functools
import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .._geometry.axis import Axis, cdiv
from .._geometry.resolve import Geometry, check_known, resolve
from .._lowerings.parts.axis_slicing import reshape_along
from .._lowerings.parts.every_tap import fold_over_taps
from .._numerics.checks import check_float
from .._numerics.divisors import (
    average,
    check_averageable,
    counts,
    divide,
    divide_exactly,
    window_sum,
    zero_where_masked,
)
from .._numerics.integer_mean import Rounding
from .._numerics.quotient import rounded_quotient
from .._xla.materialize import materialize
from .._xla.nan_constant import nan_where
from .._xla.opaque_divisor import opaque_divisor
from .._xla.sharding_types import varying_zeros
from ..ops import adaptive
from ..ops._dispatch import Configuration, Op, WindowArguments, call, configure
from ..ops._partition import canonical_sizes
from ..ops.average import AVG_POOL, zeros_if_counted
from ..reductions import accumulator
from ._compiled import compiled


@dataclass(frozen=True)
class Averaging:
    """A rule of averages.

    Attributes:
      counted: what the divisor counts: "real" elements; also "declared" padding (PyTorch, ONNX);
        all "taps", also on overhang (oneDNN, Flax); or "taps_if_padded": all taps if any pooled
        axis has padding, otherwise real elements (OpenVINO).
      divisor: an int that replaces the count.
      empty: the average of floats in a window without counted elements. "zero" is 0.
        "zero_by_count" (OpenVINO) is 0 / n, where n is the number of taps minus the taps before the
        array minus the taps after it: NaN if n is 0. If n is negative, which means that the window
        starts beyond the first coordinate after the array, the average is 0. Averages of integers
        are always 0.
      rounding: how averages of integers are rounded.
    """

    counted: Literal["real", "declared", "taps", "taps_if_padded"] = "declared"
    divisor: int | None = None
    empty: Literal["zero", "zero_by_count"] = "zero"
    rounding: Rounding = "half_even"


def average_by(rule: Averaging, x: Array, windows: WindowArguments) -> Array:
    """Return averages under ``rule``; a native rule runs :func:`jaxpool.avg_pool`'s program."""
    if rule.empty != "zero":
        if not _has_no_empty_window(windows):
            return call(_ZERO_BY_COUNT, x, (), windows, rule=rule)
        counted = "taps" if rule.counted == "taps_if_padded" else rule.counted
        rule = replace(rule, counted=counted, empty="zero")
    needs_rounding = jnp.issubdtype(x.dtype, jnp.integer) and rule.rounding != "half_even"
    if needs_rounding or rule.counted not in ("real", "declared"):
        return call(_AVERAGE_BY, x, (None,), windows, rule=rule)
    options = {"count_include_pad": rule.counted == "declared", "divisor_override": rule.divisor}
    return call(AVG_POOL, x, (None,), windows, **options)


def _has_no_empty_window(windows: WindowArguments) -> bool:
    """Return whether every window contains an element, and no window extends beyond the padding."""
    window = configure(windows).window
    if window.rounding != "floor" or any(dilation != 1 for dilation in window.dilations):
        return False
    pads = window.padding
    is_named = isinstance(pads, str)
    return is_named or all(max(p) < k for p, k in zip(pads, window.kernel, strict=True))


def _average(x: Array, where: Any, *, config: Configuration, rule: Averaging) -> Array:
    check_averageable(x)
    geometry = config.geometry(x.shape)
    total = functools.partial(window_sum, geometry=geometry)
    largest = max(geometry.taps, abs(rule.divisor or 1))
    divisor = _divisor(rule, geometry, where)
    return average(zero_where_masked(x, where), total, divisor, largest, rule.rounding)


def _average_by_count(x: Array, *, config: Configuration, rule: Averaging) -> Array:
    y, geometry = _average(x, None, config=config, rule=rule), config.geometry(x.shape)
    if _counts_taps(rule, geometry) or not jnp.issubdtype(y.dtype, jnp.floating):
        return y
    return _nan_at_zero_difference(y, config, geometry)


def _divisor(rule: Averaging, geometry: Geometry, where: Any) -> Any:
    if rule.divisor is not None:
        return rule.divisor
    if _counts_taps(rule, geometry):
        return geometry.taps
    return counts(geometry, where, rule.counted == "declared")


def _counts_taps(rule: Averaging, geometry: Geometry) -> bool:
    padded = any(axis.pad_low or axis.pad_high for axis in geometry.axes)
    return rule.counted == "taps" or (rule.counted == "taps_if_padded" and padded)


def _nan_at_zero_difference(y: Array, config: Configuration, geometry: Geometry) -> Array:
    check_known(geometry.spatial_shape)
    resolved = resolve(config.window, geometry.spatial_shape, geometry.positions)
    for axis, position in resolved.placed:
        is_zero = np.array([_tap_difference(axis, window) == 0 for window in range(axis.out)])
        if is_zero.any():
            y = nan_where(reshape_along(is_zero, position, y.ndim), y)
    return y


def _tap_difference(axis: Axis, window: int) -> int:
    """Return the taps of a window minus those before the array minus those after the array."""
    start = axis.start(window)
    before, after = max(-start, 0), max(start + axis.span - axis.size, 0)
    return axis.kernel - cdiv(before, axis.dilation) - cdiv(after, axis.dilation)


_AVERAGE_BY = Op(
    "avg_pool", _average, padding=lambda rule: zeros_if_counted(rule.counted == "declared")
)
_ZERO_BY_COUNT = Op("avg_pool", _average_by_count, arrays=())


def adaptive_average_by(rounding: Rounding, x: Array, output_size: Any) -> Array:
    """Return adaptive averages, channels first, with ``rounding`` of integers."""
    native = rounding == "half_even" or not jnp.issubdtype(x.dtype, jnp.integer)
    op = adaptive.ADAPTIVE_AVG_POOL if native else _ADAPTIVE_TRUNCATED
    return call(op, x, (None,), output_size=output_size, data_format="channels_first")


_ADAPTIVE_TRUNCATED = Op(
    "adaptive_avg_pool",
    functools.partial(adaptive.average_pool, rounding="trunc"),
    canonical_sizes,
)


# --- quantised averages ---------------------------------------------------------------------------


def quantised_average_by(
    rule: Averaging, x: Array, scales: tuple[Any, Any, Any, Any], windows: WindowArguments
) -> Array:
    """Return the average of quantised integers, requantised.

    ``saturate(round(average((x - x_zero) * x_scale) / y_scale + y_zero))`` in float32, rounded half
    to even; the sum is accumulated in the order of ONNX Runtime.

    Args:
      rule, x, windows: as in :func:`average_by`.
      scales: the scalars x_scale, x_zero, y_scale, y_zero; a zero point of None is 0.
    """
    return call(_QUANTISED_AVERAGE_BY, x, (None, *scales), windows, rule=rule)


def _quantised_average(
    x: Array, where: Any, *scales: ArrayLike | None, config: Configuration, rule: Averaging
) -> Array:
    geometry = config.geometry(x.shape)
    x_scale, x_zero, y_scale, y_zero = map(_float32_scalar, scales)
    terms = materialize(zero_where_masked((x.astype(jnp.float32) - x_zero) * x_scale, where))
    total = sequential_sum(terms, geometry)
    mean = divide_exactly(total, opaque_divisor(_divisor(rule, geometry, where), total))
    quotient = rounded_quotient(mean, opaque_divisor(y_scale, mean))
    return saturate(jnp.round(quotient + y_zero), x.dtype)


def sequential_sum(x: Array, geometry: Geometry) -> Array:
    """Return the sum of every window, accumulated sequentially in row-major order.

    A sum of floats depends on the order of its terms, and so does the integer to which it is
    rounded near a tie. Zeros in place of padding do not change the sum.
    """
    total = varying_zeros(geometry.full_shape(x.shape), x.dtype, x)
    return fold_over_taps(x, geometry, lambda _, elements, total: total + elements, total)


def _float32_scalar(scale: ArrayLike | None) -> Array:
    return jnp.asarray(0 if scale is None else scale, jnp.float32).reshape(())


def saturate(y: Array, dtype: Any) -> Array:
    """Convert ``y`` to an integer dtype, clipped to its range."""
    limits = jnp.iinfo(dtype)
    return jnp.clip(y, limits.min, limits.max).astype(dtype)


@compiled()
def quantised_global_average(
    x: Array, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any
) -> Array:
    """Return the average of each quantised plane, channels first.

    ``saturate(round(sum(x - x_zero) * (x_scale / (y_scale * count))) + y_zero)``, rounded half to
    even: the sum is in int32, which wraps as in ONNX Runtime, times a single float32 factor.
    """
    axes = tuple(range(2, x.ndim))
    count = math.prod(x.shape[2:])
    x_scale, x_zero, y_scale, y_zero = map(_float32_scalar, (x_scale, x_zero, y_scale, y_zero))
    total = x.sum(axes, jnp.int32, keepdims=True) - x_zero.astype(jnp.int32) * count
    total = total.astype(jnp.float32)
    factor = rounded_quotient(x_scale, opaque_divisor(y_scale * count, total))
    return saturate(jnp.round(jnp.round(total * factor) + y_zero), x.dtype)


_QUANTISED_AVERAGE_BY = Op(
    "quantised_avg_pool",
    _quantised_average,
    arrays=("where", "x_scale", "x_zero_point", "y_scale", "y_zero_point"),
)


# --- powers ---------------------------------------------------------------------------------------


def signed_lp_by(p: float, x: Array, windows: WindowArguments) -> Array:
    """Return PyTorch's ``lp_pool``, which takes no absolute values.

    ``(k * mean of x ** p) ** (1 / p)`` with the mean over the elements inside ``x`` and ``k`` the
    taps of the window: a partial window is scaled up. ``p`` is finite and not zero. A mean of zero
    has no derivative.
    """
    return call(_SIGNED_LP, x, (None,), windows, p=p)


def _signed_lp(x: Array, where: Any, *, config: Configuration, p: float) -> Array:
    check_float(x)
    geometry = config.geometry(x.shape)
    accumulated = x.astype(accumulator(x.dtype))
    powers = zero_where_masked(_power(accumulated, p), where)
    total = window_sum(powers, geometry, materialize_cotangent=True)
    mean = divide(total, counts(geometry, where, include_pad=False))
    is_zero = mean == 0
    base = jnp.where(is_zero, np.ones((), mean.dtype), mean) * np.asarray(geometry.taps, mean.dtype)
    result = base if p == 1 else lax.pow(base, np.asarray(1 / p, base.dtype))
    at_zero = np.asarray(0 if p > 0 else np.inf, result.dtype)
    return jnp.where(is_zero, at_zero, result).astype(x.dtype)


def _power(x: Array, p: float) -> Array:
    """Return ``x ** p``; PyTorch computes p = 0.5 and -0.5 as roots, whose value at -inf is NaN."""
    if float(p).is_integer():
        return lax.integer_pow(x, int(p))
    return {0.5: lax.sqrt, -0.5: lax.rsqrt}.get(p, lambda x: x**p)(x)


_SIGNED_LP = Op("lp_pool", _signed_lp)
