"""Smooth relatives of max pooling: log-sum-exp and softmax-weighted averages."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .._errors import public
from .._geometry.window import Padding, Rounding
from .._numerics import scaled_sums, window_terms
from .._numerics.checks import check_float, check_where
from .._numerics.divisors import count_array
from .._numerics.scaled_sums import Terms
from ..reductions import accumulator
from ._dispatch import Configuration, Op, WindowArguments, call
from ._parameters import check_positive, parameter


@public
def logsumexp_pool(
    x: ArrayLike,
    window_shape: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Padding = "VALID",
    *,
    temperature: ArrayLike = 1.0,
    dilations: int | Sequence[int] = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Array:
    """Logarithm of the sum of exponentials over sliding windows: a smooth maximum.

    ``y[.., o, ..] = T * log(sum over t of exp(x[.., q, ..] / T))`` over the elements inside ``x``,
    ``q = o * stride - pad_low + t * dilation``. As the temperature ``T`` falls to 0 it becomes the
    maximum.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      window_shape, strides, padding, dilations, rounding, data_format, where: as in
        :func:`max_pool`.
      temperature: a positive number, or an array, also a traced one, that broadcasts to ``x`` with
        length 1 on the pooled axes, such as one temperature per channel. ``x / temperature`` must
        be at most two thirds of the largest float where ``x`` is finite.
      implementation: "auto", "slices" or "doubling", as in :func:`max_pool`.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
      Low-precision floats are computed in float32 and rounded once. Exponentials are taken relative
      to the largest of the window, so they do not overflow.
    Derivatives: in ``x``, the softmax of the window, and in ``temperature``; forward and reverse
      mode, any order. Reverse mode keeps arrays of the sizes of ``x`` and of the result, however
      many taps there are.
    Edge cases: NaN in a window gives NaN. A window without elements, or of -inf alone, gives -inf
      and no gradient; an element of -inf in another window has gradient 0. With inf the result is
      inf, and the elements of inf share the gradient. Values of an array ``temperature`` are not
      checked.
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
    window_shape: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Padding = "VALID",
    *,
    dilations: int | Sequence[int] = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Array:
    """Average over sliding windows, weighted by the softmax of the window.

    ``y[.., o, ..] = sum over t of x[q] * exp(x[q]) / sum over t of exp(x[q])`` with
    ``q = o * stride - pad_low + t * dilation``, over the elements inside ``x``. It lies between the
    average and the maximum.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts. Multiply it by ``b``
        and divide the result by ``b`` for weights ``exp(b * x)``.
      window_shape, strides, padding, dilations, rounding, data_format, where: as in
        :func:`max_pool`.
      implementation: "auto", "slices" or "doubling", as in :func:`max_pool`.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
      Low-precision floats are computed in float32 and rounded once. Exponentials are taken relative
      to the largest of the window, so they do not overflow; an element times the taps of a window
      must fit float32 (float64 for that).
    Derivatives: ``dy = sum of w * (1 + x - y) * dx`` with ``w`` the softmax; forward and reverse
      mode, any order. Reverse mode keeps arrays of the sizes of ``x`` and of the result, however
      many taps there are.
    Edge cases: NaN in a window gives NaN, and inf gives inf, without a meaningful derivative. An
      element of -inf has weight and gradient 0; a window of -inf alone gives -inf. A window without
      elements gives 0 and no gradient.
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


def _joined(x: Array, where: Any, config: Configuration, temperature: Any, weighted: bool) -> Terms:
    """The sums of exponentials over every window."""
    geometry = config.geometry(x.shape)
    window_terms.check_implementation(config.implementation, geometry)

    def exponentials(x: Array, valid: Array | None, temperature: Array) -> Terms:
        wide = x.astype(accumulator(x.dtype))
        return scaled_sums.exponentials(wide, valid, temperature, weighted)

    arrays = x, check_where(where, x.shape), temperature
    padding = -np.inf, None if where is None else False, 1
    return window_terms.join_windows(exponentials, arrays, padding, geometry, config.implementation)


def _logsumexp(x: Array, where: Any, temperature: Any, *, config: Configuration) -> Array:
    check_float(x)
    wide = x.astype(accumulator(x.dtype))
    positions = config.geometry(x.shape).positions
    temperature = parameter("temperature", temperature, wide, positions)
    level, factor = _joined(x, where, config, temperature, weighted=False)
    y = scaled_sums.scaled_log_of(level, factor, temperature)
    return y.astype(x.dtype)


def _soft(x: Array, where: Any, *, config: Configuration) -> Array:
    check_float(x)
    wide = x.astype(accumulator(x.dtype))
    one = parameter("temperature", 1, wide, config.geometry(x.shape).positions)
    _, weights, weighted = _joined(x, where, config, one, weighted=True)
    valid = check_where(where, x.shape)
    count = count_array(config.geometry(x.shape), valid, x.ndim)
    empty, one = weights == 0, np.ones((), wide.dtype)
    identity = jnp.where(count > 0, np.asarray(-np.inf, wide.dtype), np.zeros((), wide.dtype))
    y = jnp.where(empty, identity, weighted / jnp.where(empty, one, weights))
    return y.astype(x.dtype)


_LOGSUMEXP_POOL = Op("logsumexp_pool", _logsumexp, arrays=("where", "temperature"))
_SOFT_POOL = Op("soft_pool", _soft)
