"""Smooth variants of max pooling: log-sum-exp and softmax-weighted averages."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .._errors import public
from .._geometry.arguments import Integers
from .._geometry.resolve import Geometry
from .._geometry.window import Padding, Rounding
from .._numerics import scaled_sums, window_terms
from .._numerics.checks import check_float, check_where
from .._numerics.divisors import count_array
from .._numerics.scaled_sums import Terms
from ..reductions import accumulator, has_infinity
from ._dispatch import Configuration, Op, WindowArguments, call
from ._parameters import check_positive, parameter


@public
def logsumexp_pool(
    x: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    temperature: ArrayLike = 1.0,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Array:
    """Return the log-sum-exp over sliding windows: a smooth maximum.

    ``y[.., o, ..] = T * log(sum over t of exp(x[.., q, ..] / T))`` over the elements inside ``x``,
    with ``q = o * stride - pad_low + t * dilation``. As the temperature ``T`` approaches 0, the
    result approaches the maximum.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      window_shape, strides, padding, dilations, rounding, data_format, where: as in
        :func:`max_pool`.
      temperature: a positive number, or an array, which may be traced. An array broadcasts to ``x``
        with length 1 on the pooled axes; it can hold one temperature per channel. Where ``x`` is
        finite, ``x / temperature`` must be at most two thirds of the largest float.
      implementation: "auto", "slices" or "doubling", as in :func:`max_pool`.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
      Low-precision floats are computed in float32 and rounded once. Exponentials are computed
      relative to the largest one of the window, so they do not overflow.
    Derivatives: in ``x`` (the softmax of the window) and in ``temperature``; forward and reverse
      mode, any order. Reverse mode stores arrays of the sizes of ``x`` and of the result, whatever
      the number of taps.
    Edge cases: NaN in a window gives NaN. A window without elements, or with only -inf, gives -inf
      and no gradient; an element of -inf in another window has gradient 0. If a window contains
      inf, the result is inf, and the gradient is divided among its elements of inf. Values of an
      array ``temperature`` are not checked.
    Raises:
      TypeError, ValueError, NotImplementedError: as :func:`max_pool`; TypeError also for integers
        and bool; ValueError if ``temperature`` is not positive or does not fit ``x``.
    References: Boyd and Vandenberghe 2004, section 3.1.5; Pinheiro and Collobert 2015
      (arXiv:1411.6228), equation 5.
    Example:
      >>> x = jnp.array([[0.0], [0.0], [8.0]])
      >>> jaxpool.logsumexp_pool(x, (2,), 1)[:, 0].round(3)
      Array([0.693, 8.   ], dtype=float32)
      >>> jax.grad(lambda x: jaxpool.logsumexp_pool(x, (2,), 2).sum())(x)[:, 0]
      Array([0.5, 0.5, 0. ], dtype=float32)
    """
    check_positive("temperature", temperature)
    windows = WindowArguments(
        window_shape, strides, padding, dilations, rounding, data_format, implementation
    )
    return call(_LOGSUMEXP_POOL, x, (where, temperature), windows)


@public
def soft_pool(
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
    """Return the average over sliding windows, weighted by the softmax of the window.

    ``y[.., o, ..] = sum over t of x[q] * exp(x[q]) / sum over t of exp(x[q])`` with
    ``q = o * stride - pad_low + t * dilation``, over the elements inside ``x``. It lies between the
    average and the maximum.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts. For weights
        ``exp(b * x)``, multiply ``x`` by ``b`` and divide the result by ``b``.
      window_shape, strides, padding, dilations, rounding, data_format, where: as in
        :func:`max_pool`.
      implementation: "auto", "slices" or "doubling", as in :func:`max_pool`.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
      Low-precision floats are computed in float32 and rounded once. Exponentials are computed
      relative to the largest one of the window, so they do not overflow. An element times the
      number of taps must fit float32 (float64 for float64 elements).
    Derivatives: ``dy = sum of w * (1 + x - y) * dx``, where ``w`` is the softmax; forward and
      reverse mode, any order. Reverse mode stores arrays of the sizes of ``x`` and of the result,
      whatever the number of taps.
    Edge cases: NaN in a window gives NaN, and inf gives inf, without a meaningful derivative. An
      element of -inf has weight and gradient 0; a window with only -inf gives -inf. A window
      without elements gives 0 and no gradient.
    Raises:
      TypeError, ValueError, NotImplementedError: as :func:`max_pool`; TypeError also for integers
        and bool.
    References: Stergiou, Poppe and Kalliatakis 2021 (arXiv:2101.00440), equations 2 and 3.
    Example:
      >>> x = jnp.array([[1.0], [1.0], [50.0]])
      >>> jaxpool.soft_pool(x, (2,), 1)[:, 0]
      Array([ 1., 50.], dtype=float32)
    """
    windows = WindowArguments(
        window_shape, strides, padding, dilations, rounding, data_format, implementation
    )
    return call(_SOFT_POOL, x, (where,), windows)


def _window_sums(
    x: Array,
    valid: Array | None,
    geometry: Geometry,
    implementation: str,
    temperature: Array,
    weighted: bool,
) -> Terms:
    """Return the sums of exponentials over every window, as level and factors."""

    def exponentials(x: Array, valid: Array | None, temperature: Array) -> Terms:
        promoted = x.astype(accumulator(x.dtype))
        return scaled_sums.exponentials(promoted, valid, temperature, weighted)

    arrays = x, valid, temperature
    padding = (-np.inf, None if valid is None else False, 1) if has_infinity(x.dtype) else None
    return window_terms.join_windows(exponentials, arrays, padding, geometry, implementation)


def _logsumexp(x: Array, where: Any, temperature: Any, *, config: Configuration) -> Array:
    check_float(x)
    promoted, geometry = x.astype(accumulator(x.dtype)), config.geometry(x.shape)
    valid = check_where(where, x.shape)
    temperature = parameter("temperature", temperature, promoted, geometry.positions)
    windows = geometry, config.implementation
    level, factor = _window_sums(x, valid, *windows, temperature, weighted=False)
    y = scaled_sums.scaled_log_of(level, factor, temperature)
    return y.astype(x.dtype)


def _soft(x: Array, where: Any, *, config: Configuration) -> Array:
    check_float(x)
    dtype, geometry = accumulator(x.dtype), config.geometry(x.shape)
    valid = check_where(where, x.shape)
    temperature = jnp.ones((1,) * x.ndim, dtype)
    windows = geometry, config.implementation
    _, weights, weighted = _window_sums(x, valid, *windows, temperature, weighted=True)
    count = count_array(geometry, valid, x.ndim)
    is_empty = weights == 0
    identity = jnp.where(count > 0, np.asarray(-np.inf, dtype), np.zeros((), dtype))
    y = jnp.where(is_empty, identity, weighted / jnp.where(is_empty, np.ones((), dtype), weights))
    return y.astype(x.dtype)


_LOGSUMEXP_POOL = Op("logsumexp_pool", _logsumexp, arrays=("where", "temperature"))
_SOFT_POOL = Op("soft_pool", _soft)
