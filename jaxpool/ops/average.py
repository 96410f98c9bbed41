"""Average and sum pooling."""

import functools
import math
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from .._autodiff import rules
from .._errors import message, public
from .._geometry.arguments import Integers, as_bool, integer
from .._geometry.resolve import Geometry
from .._geometry.window import Padding, Rounding
from .._lowerings import tuning
from .._numerics.checks import check_float, check_real, check_where, is_real
from .._numerics.divisors import (
    average,
    check_averageable,
    counts,
    divide_differentiably,
    window_sum,
    zero_where_masked,
)
from ..reductions import accumulator, sum_dtype
from ._dispatch import Configuration, Op, WindowArguments, call


@public
def avg_pool(
    x: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    implementation: str = "auto",
    weights: ArrayLike | None = None,
) -> Array:
    """Return the average over sliding windows.

    ``y[.., o, ..] = (sum over t of x[.., o * stride - pad_low + t * dilation, ..]) / count[o]``
    over the elements inside ``x``. ``count[o]`` is the exact number of taps of the window on ``x``
    or declared padding (``count_include_pad=True``, PyTorch's default), or on ``x`` only (False,
    ONNX's default). The overhang of ceil rounding is never counted. With ``weights`` the result is
    ``(sum of weights * x) / (sum of weights)``.

    Args:
      x: array of any real dtype, or anything ``jnp.asarray`` accepts; not bool.
      window_shape, strides, padding, dilations, rounding, data_format, implementation: as in
        :func:`max_pool`.
      count_include_pad: whether declared padding counts in the divisor.
      divisor_override: a nonzero int of magnitude at most 2^28 that replaces every divisor.
      where: boolean mask that broadcasts to ``x``; elements where it is False are neither added nor
        counted.
      weights: real numbers that broadcast to ``x``, the weight of each element; ``x`` must then
        have a floating-point dtype. Padding has no weight, whatever ``count_include_pad`` says.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
      Low-precision floats are added and divided in float32 and rounded once. Integer averages are
      exact, because the sum does not wrap; they are rounded half to even and saturate.
    Derivatives: linear in ``x``; forward and reverse mode, any order, also in ``weights``. Integers
      have no derivative.
    Edge cases: a window whose count is 0, or whose weights sum to 0, gives 0. In other windows NaN
      and infinities propagate, whatever their weight.
    Raises:
      TypeError, ValueError, NotImplementedError: as :func:`max_pool`; TypeError for bool, and for
        integers with ``weights``; ValueError for ``weights`` that do not broadcast, or are combined
        with ``divisor_override``.
    References: Dumoulin and Visin 2016 (arXiv:1603.07285), section 5; PyTorch ``avg_pool2d``; ONNX
      AveragePool-22.
    Example:
      >>> x = jnp.array([[1.0], [2.0], [3.0]])
      >>> jaxpool.avg_pool(x, (2,), 1, 1)[:, 0]
      Array([0.5, 1.5, 2.5, 1.5], dtype=float32)
      >>> jaxpool.avg_pool(x, (2,), 1, 1, count_include_pad=False)[:, 0]
      Array([1. , 1.5, 2.5, 3. ], dtype=float32)
    """
    windows = WindowArguments(
        window_shape, strides, padding, dilations, rounding, data_format, implementation
    )
    divisor = {"count_include_pad": count_include_pad, "divisor_override": divisor_override}
    if weights is None:
        return call(AVG_POOL, x, (where,), windows, **divisor)
    return call(_WEIGHTED_AVG_POOL, x, (where, weights), windows, **divisor)


@public
def sum_pool(
    x: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Array:
    """Return the sum over sliding windows.

    ``y[.., o, ..] = sum over t of x[.., o * stride - pad_low + t * dilation, ..]`` over the
    elements inside ``x``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      window_shape, strides, padding, dilations, rounding, data_format, where, implementation: as in
        :func:`max_pool`.
    Returns:
      Array. Its shape (:func:`output_shape`) differs on the pooled axes only. Its dtype is that of
      ``jnp.sum``: floats keep their dtype, integers of up to 32 bits become int32 or uint32 (int64
      or uint64 if JAX has 64-bit types), and booleans are counted. Low-precision floats are added
      in float32 and rounded once; integers wrap as in ``jnp.sum``.
    Derivatives: linear; forward and reverse mode, any order. Integers have no derivative.
    Edge cases: a window without elements gives 0. NaN and infinities propagate.
    Raises:
      TypeError, ValueError, NotImplementedError: as :func:`max_pool`.
    References: Dumoulin and Visin 2016 (arXiv:1603.07285), section 5.
    Example:
      >>> jaxpool.sum_pool(jnp.array([[1.0], [2.0], [3.0]]), (2,), 1)[:, 0]
      Array([3., 5.], dtype=float32)
    """
    windows = WindowArguments(
        window_shape, strides, padding, dilations, rounding, data_format, implementation
    )
    return call(SUM_POOL, x, (where,), windows)


# --- bodies --------------------------------------------------------------------------------------


def _sum(x: Array, where: Any, *, config: Configuration) -> Array:
    check_real(x)
    valid, result = check_where(where, x.shape), sum_dtype(x.dtype)
    x, geometry = zero_where_masked(x, valid).astype(accumulator(result)), config.geometry(x.shape)
    y = window_sum(x, geometry, config.implementation).astype(result)
    return rules.materialized(y) if _is_materialized(geometry) else y


def _average(
    x: Array,
    where: Any,
    *,
    config: Configuration,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    check_averageable(x)
    valid, geometry = check_where(where, x.shape), config.geometry(x.shape)
    divisor: Any = divisor_override
    if divisor is None:
        divisor = counts(geometry, valid, count_include_pad)
    total = functools.partial(window_sum, geometry=geometry, implementation=config.implementation)
    largest = max(geometry.taps, abs(divisor_override or 1))
    may_be_empty = valid is not None or geometry.has_empty_window
    y = average(zero_where_masked(x, valid), total, divisor, largest, may_be_empty=may_be_empty)
    return rules.materialized(y) if _is_materialized(geometry) else y


def _is_materialized(geometry: Geometry) -> bool:
    """Return whether CPU stores the results of these windows before other loops read them.

    XLA:CPU fuses non-overlapping windows into every loop that reads their results. A reduction over
    the results is then not vectorised, and the transpose recomputes the cotangent of a result for
    each element of its window. Overlapping windows, and windows over the contiguous axis, gain less
    from a stored result than an elementwise op after them loses.
    """
    is_long = geometry.taps >= tuning.MIN_STORED_SUMS
    return is_long and geometry.is_non_overlapping and -1 not in geometry.positions


def _weighted(x: Array, where: Any, weights: Any, *, config: Configuration) -> Array:
    check_float(x)
    valid, geometry = check_where(where, x.shape), config.geometry(x.shape)
    promoted = x.astype(accumulator(x.dtype))
    weights = _as_weights(weights, promoted, valid, geometry.positions)
    total = functools.partial(window_sum, geometry=geometry, implementation=config.implementation)
    y = divide_differentiably(total(zero_where_masked(promoted, valid) * weights), total(weights))
    return y.astype(x.dtype)


def _as_weights(weights: Array, x: Array, valid: Array | None, positions: tuple[int, ...]) -> Array:
    """Return the weights in the dtype of ``x``, 0 at masked elements, or raise.

    They are broadcast to ``x`` on the pooled axes, and on all axes if there is a mask.
    """
    if not is_real(weights.dtype):
        raise TypeError(
            message(
                f"$weights have dtype {weights.dtype}.",
                "A weight is a real number; use $where to exclude elements.",
                "Give an array of floats.",
            )
        )
    shape = (1,) * (x.ndim - weights.ndim) + weights.shape
    if len(shape) != x.ndim or any(n not in (1, m) for n, m in zip(shape, x.shape, strict=True)):
        raise ValueError(
            message(
                f"$weights of shape {weights.shape} do not broadcast to the array.",
                f"The array has shape {x.shape}; a weight belongs to an element of the array.",
                "Give weights of that shape, or with axes of length 1; for a weight for each "
                "position in a window, use a convolution.",
            )
        )
    pooled = [
        m if a - x.ndim in positions else n
        for a, (n, m) in enumerate(zip(shape, x.shape, strict=True))
    ]
    full = x.shape if valid is not None else tuple(pooled)
    return zero_where_masked(jnp.broadcast_to(weights.astype(x.dtype).reshape(shape), full), valid)


def _canonical_weighted(count_include_pad: Any, divisor_override: Any) -> dict[str, Any]:
    if canonical_divisor(count_include_pad, divisor_override)["divisor_override"] is not None:
        raise ValueError(
            message(
                f"$divisor_override = {divisor_override} is given with $weights.",
                "A weighted average is divided by the sum of its weights.",
                "Give one of the two; multiply weights and sum_pool for another divisor.",
            )
        )
    return {}


def canonical_divisor(count_include_pad: Any, divisor_override: Any) -> dict[str, Any]:
    """Return the options that determine the divisors of averages, checked."""
    meaning = "It determines whether declared padding counts in the divisor."
    return {
        "count_include_pad": as_bool("count_include_pad", count_include_pad, meaning),
        "divisor_override": _checked_override(divisor_override),
    }


def _checked_override(divisor: Any) -> int | None:
    if divisor is None:
        return None
    divisor = integer("divisor_override", divisor, -math.inf)
    if not 0 < abs(divisor) <= 2**28:
        raise ValueError(
            message(
                f"$divisor_override = {divisor} is out of range.",
                "It divides the sum of every window; it must not be zero nor exceed 2**28 in size.",
                "Give another integer, negative ones included, or None for the window's count.",
            )
        )
    return divisor


def zeros_if_counted(count_include_pad: bool, **options: Any) -> str | None:
    """Return "constant", for zeros that are counted, if padding counts in an average, else None."""
    return "constant" if count_include_pad else None


AVG_POOL = Op("avg_pool", _average, canonical_divisor, padding=zeros_if_counted)
_WEIGHTED_AVG_POOL = Op(
    "avg_pool",
    _weighted,
    _canonical_weighted,
    arrays=("where", "weights"),
    per_element=("weights",),
)
SUM_POOL = Op("sum_pool", _sum)
