"""Statistics of windows: variances, standard deviations and quantiles."""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .._errors import message, public, shown
from .._geometry.arguments import Integers, integer, is_sequence
from .._geometry.window import Padding, Rounding
from .._numerics.checks import check_float, check_where, real_number
from .._numerics.divisors import count_array
from .._numerics.moments import squared_deviations
from .._numerics.norms import square_root
from .._numerics.quantiles import METHODS, Method, quantile_positions
from .._xla.nan_constant import nan_where
from ..reductions import accumulator
from ._dispatch import Configuration, Op, WindowArguments, call
from .rank import between, element_counts, ranked

Finish = Callable[[Array], Array]


@public
def var_pool(
    x: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    correction: int = 0,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Return the variance over sliding windows.

    ``y[.., o, ..] = (sum over t of (x[q] - mean[o]) ** 2) / (count[o] - correction)``, where
    ``q = o * stride - pad_low + t * dilation`` runs over the elements inside ``x``, and ``mean[o]``
    is their mean.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      window_shape, strides, padding, dilations, rounding, data_format: as in :func:`max_pool`.
      correction: an int >= 0 that is subtracted from the divisor. 0 gives the variance of the
        elements themselves (NumPy), 1 the unbiased estimate of the variance of the population that
        they are a sample of (pandas).
      where: boolean mask that broadcasts to ``x``; elements where it is False are ignored.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
      Low-precision floats are computed in float32 and rounded once. There is no cancellation if the
      mean is large relative to the deviation.
    Derivatives: forward and reverse mode, any order.
    Edge cases: padding, overhang and masked elements are ignored. A window of ``correction`` or
      fewer elements gives NaN and, if they are finite, no gradient. NaN and infinities in a window
      give NaN, also in the gradient, but only at the elements of that window. Deviations are not
      scaled before they are squared: in float32, deviations above about 1e19 give inf or NaN, and
      those below 1e-19 are treated as 0.
    Raises:
      TypeError, ValueError: as :func:`max_pool`; TypeError also for integers and bool.
    References: Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance".
    Example:
      >>> x = jnp.array([[1.0], [3.0], [7.0]])
      >>> jaxpool.var_pool(x, (2,), 1)[:, 0]
      Array([1., 4.], dtype=float32)
      >>> jaxpool.var_pool(x + 1e6, (2,), 1, correction=1)[:, 0]
      Array([2., 8.], dtype=float32)
    """
    windows = WindowArguments(window_shape, strides, padding, dilations, rounding, data_format)
    return call(_VAR_POOL, x, (where,), windows, correction=correction)


@public
def std_pool(
    x: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    correction: int = 0,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Return the standard deviation over sliding windows.

    ``y = sqrt(var_pool(x))``.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      window_shape, strides, padding, correction, dilations, rounding, data_format, where: as in
        :func:`var_pool`.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
    Derivatives: forward and reverse mode, any order; 0 where the deviation is 0.
    Edge cases: as :func:`var_pool`.
    Raises:
      TypeError, ValueError: as :func:`var_pool`.
    References: Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance".
    Example:
      >>> jaxpool.std_pool(jnp.array([[1.0], [3.0], [7.0]]), (2,), 1)[:, 0]
      Array([1., 2.], dtype=float32)
    """
    windows = WindowArguments(window_shape, strides, padding, dilations, rounding, data_format)
    return call(_STD_POOL, x, (where,), windows, correction=correction)


@public
def quantile_pool(
    x: ArrayLike,
    q: float,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    method: Method = "linear",
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Return a quantile over sliding windows.

    ``y[.., o, ..]`` is the quantile ``q`` of the elements of a window inside ``x``. If these are
    ``v[0 .. n - 1]`` in ascending order, the default method gives
    ``v[k] + (h - k) * (v[k + 1] - v[k])`` with ``h = (n - 1) * q`` and ``k = floor(h)``.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      q: a number from 0 to 1; 0.5 is the median.
      window_shape, strides, padding, dilations, rounding, data_format: as in :func:`max_pool`.
      method: as in ``numpy.quantile``: "linear", "lower", "higher", "nearest", "midpoint",
        "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf",
        "hazen", "weibull", "median_unbiased" or "normal_unbiased".
      where: boolean mask that broadcasts to ``x``; elements where it is False are ignored.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
    Derivatives: forward and reverse mode, any order. The tangent is the weighted mean of those of
      the two elements; among equal elements it is that of the first in row-major order. Second
      derivatives are zero.
    Edge cases: padding, overhang and masked elements are ignored. NaN in a window gives NaN. A
      window without elements gives NaN and no gradient.
    Raises:
      TypeError, ValueError: as :func:`max_pool`; TypeError also for integers and bool, ValueError
        if ``q`` is out of range or ``method`` is unknown.
    References: Hyndman and Fan 1996, "Sample quantiles in statistical packages"; NumPy
      ``quantile``.
    Example:
      >>> x = jnp.array([[1.0], [9.0], [2.0], [4.0]])
      >>> jaxpool.quantile_pool(x, 0.25, (3,), 1)[:, 0]
      Array([1.5, 3. ], dtype=float32)
      >>> jaxpool.quantile_pool(x, 0.25, (3,), 1, method="lower")[:, 0]
      Array([1., 2.], dtype=float32)
    """
    windows = WindowArguments(window_shape, strides, padding, dilations, rounding, data_format)
    return call(_QUANTILE_POOL, x, (where,), windows, q=q, method=method)


# --- variances ------------------------------------------------------------------------------------


def _variance(
    x: Array, where: Any, *, config: Configuration, correction: int, finish: Finish | None = None
) -> Array:
    """Return ``finish`` of the variance."""
    check_float(x)
    valid, dtype = check_where(where, x.shape), x.dtype
    geometry, promoted = config.geometry(x.shape), x.astype(accumulator(dtype))
    squares = squared_deviations(promoted, valid, geometry, dtype)
    count = count_array(geometry, valid, x.ndim)
    return variance_of(count, squares, correction, finish).astype(dtype)


def variance_of(count: Array, squares: Array, correction: int, finish: Finish | None) -> Array:
    """Return ``finish`` of the variance from counts and sums of squared deviations.

    Windows with too few elements give NaN. Their result is a constant, so they have no derivative.
    """
    subtracted = min(correction, np.iinfo(np.int32).max)  # no window has as many elements
    degrees = (count - np.asarray(subtracted, count.dtype)).astype(squares.dtype)
    is_defined = degrees > 0
    divisor = jnp.where(is_defined, degrees, jnp.ones((), degrees.dtype))
    variance = squares / divisor
    y = variance if finish is None else finish(variance)
    return nan_where(~is_defined, y)


def canonical_correction(correction: Any) -> dict[str, int]:
    """Return the option ``correction``, which is subtracted from the divisor, checked."""
    return {"correction": integer("correction", correction, 0)}


# --- quantiles ------------------------------------------------------------------------------------


def _canonical_quantile(q: Any, method: Any) -> dict[str, Any]:
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(
            message(
                f"$method = {shown(method)} is not a method.",
                f"The methods are {', '.join(METHODS)}.",
                'Give one of them, such as "linear".',
            )
        )
    return {"q": _fraction(q), "method": method}


def _fraction(q: Any) -> float:
    example = "0.5 for the median"
    if is_sequence(q):
        example += "; for several, jnp.stack([jaxpool.quantile_pool(x, q, ...) for q in qs], -1)"
    number = real_number("q", q, example)
    if 0 <= number <= 1:
        return float(number)
    raise ValueError(
        message(
            f"$q = {shown(q)} is not a number from 0 to 1.",
            "It says which fraction of the elements lies below the result.",
            "Give for example 0.5 for the median.",
        )
    )


def _quantile(x: Array, where: Any, *, config: Configuration, q: float, method: Method) -> Array:
    check_float(x)
    valid, geometry = check_where(where, x.shape), config.geometry(x.shape)
    selected = quantile_positions(q, method, geometry.taps)
    counts = element_counts(x, valid, geometry)
    if selected.share.any():
        weight_of = lambda counts: counts.entries_of(selected.share).array  # noqa: E731
        y = between(x, valid, geometry, (selected.low, selected.high), weight_of, _interpolated)
    else:
        y = ranked(x, valid, geometry, selected.low)
    return nan_where(counts.array == 0, y)


def _interpolated(low: Array, high: Array, weight: Any) -> Array:
    """Return ``low + weight * (high - low)``, computed from the end with the larger weight."""
    dtype = accumulator(low.dtype)
    a, b, weight = low.astype(dtype), high.astype(dtype), jnp.asarray(weight, dtype)
    gap = jnp.where(a == b, jnp.zeros((), dtype), b - a)  # 0 also for equal infinities
    share_of_low = jnp.where(gap == np.inf, 1, 1 - weight)  # above 0, even if rounded to 0
    from_low, from_high = a + gap * weight, b - gap * share_of_low
    is_near_low = (weight < 0.5) & (a != -np.inf) | (b == np.inf)  # avoid inf - inf
    y = jnp.where(is_near_low, from_low, from_high)
    overflows = jnp.isinf(gap) & jnp.isfinite(a) & jnp.isfinite(b)
    y = jnp.where(overflows, a * (1 - weight) + b * weight, y)
    return jnp.where(weight == 0, a, y).astype(low.dtype)


_VAR_POOL = Op("var_pool", _variance, canonical_correction)
_STD_POOL = Op("std_pool", functools.partial(_variance, finish=square_root), canonical_correction)
_QUANTILE_POOL = Op("quantile_pool", _quantile, _canonical_quantile)
