"""Smooth relatives of max pooling: log-sum-exp and softmax-weighted averages."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .._reductions import accumulator
from . import _terms
from ._common import Op, Settings, call, check_float, check_where
from ._parameters import check_positive, parameter
from ._sums import count_cells
from ._terms import Terms


def logsumexp_pool(
    x: ArrayLike,
    window_shape: Any,
    strides: Any,
    padding: Any = "VALID",
    *,
    temperature: ArrayLike = 1.0,
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    lowering: str = "auto",
) -> Array:
    """Logarithm of the sum of exponentials over sliding windows: a smooth maximum.

    ``y[.., o, ..] = T * log(sum over t of exp(x[.., q, ..] / T))`` over the cells inside ``x``,
    ``q = o * stride - pad_low + t * dilation``. As the temperature ``T`` falls to 0 it becomes the
    maximum.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` takes.
      window_shape, strides, padding, dilations, rounding, data_format, where: as in
        :func:`max_pool`.
      temperature: a positive number, or an array, also a traced one, that broadcasts to ``x`` with
        length 1 on the pooled axes, such as one temperature per channel. ``x / temperature`` must
        be finite where ``x`` is.
      lowering: "auto", "slices" or "doubling", as in :func:`max_pool`.
    Returns:
      Array of the dtype of ``x``; pooled axes have :func:`output_shape`, the others are unchanged.
      Narrow floats are computed in float32 and rounded once. Exponentials are taken relative to the
      largest of the window, so they do not overflow.
    Derivatives: in ``x``, the softmax of the window, and in ``temperature``; forward and reverse,
      any order. Reverse mode keeps arrays of the sizes of ``x`` and of the result, however many
      taps there are.
    Edge cases: NaN in a window gives NaN. A window without a cell, or of -inf alone, gives -inf and
      no gradient; a cell of -inf in another window has gradient 0. With inf the result is inf, and
      the cells of inf share the gradient. Values of an array ``temperature`` are not checked.
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
    check_positive("logsumexp_pool", "temperature", temperature)
    return call(
        _LOGSUMEXP_POOL, x, (where, temperature), window_shape, strides, padding, dilations,
        rounding, data_format, lowering,
    )  # fmt: skip


def soft_pool(
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
    """Average over sliding windows, weighted by the softmax of the window.

    ``y[.., o, ..] = sum over t of x[q] * exp(x[q]) / sum over t of exp(x[q])`` with
    ``q = o * stride - pad_low + t * dilation``, over the cells inside ``x``. It lies between the
    average and the maximum.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` takes. Multiply it by ``b``
        and divide the result by ``b`` for weights ``exp(b * x)``.
      window_shape, strides, padding, dilations, rounding, data_format, where: as in
        :func:`max_pool`.
      lowering: "auto", "slices" or "doubling", as in :func:`max_pool`.
    Returns:
      Array of the dtype of ``x``; pooled axes have :func:`output_shape`, the others are unchanged.
      Narrow floats are computed in float32 and rounded once. Exponentials are taken relative to the
      largest of the window, so they do not overflow; a cell times the taps of a window must fit
      float32 (float64 for that).
    Derivatives: ``dy = sum of w * (1 + x - y) * dx`` with ``w`` the softmax; forward and reverse,
      any order. Reverse mode keeps arrays of the sizes of ``x`` and of the result, however many
      taps there are.
    Edge cases: NaN in a window gives NaN, and inf gives inf, without a meaningful derivative. A
      cell of -inf has weight and gradient 0; a window of -inf alone gives -inf. A window without a
      cell gives 0 and no gradient.
    Raises:
      TypeError, ValueError, NotImplementedError: as :func:`max_pool`; TypeError also for integers
        and bool.
    References: Stergiou, Poppe and Kalliatakis 2021 (arXiv:2101.00440), equations 2 and 3.
    Example:
      >>> x = jnp.array([[1.0], [1.0], [50.0]])
      >>> jaxpool.soft_pool(x, (2,), 1)[:, 0]
      Array([ 1., 50.], dtype=float32)
    """
    return call(
        _SOFT_POOL, x, where, window_shape, strides, padding, dilations, rounding,
        data_format, lowering,
    )  # fmt: skip


def _joined(settings: Settings, x: Array, where: Any, temperature: Any, weighted: bool) -> Terms:
    """The exponentials of every window, joined."""
    geometry = settings.geometry(x.shape)
    _terms.check_lowering(settings.op, settings.lowering, geometry)
    valid = check_where(settings.op, where, x.shape)
    terms = _terms.exponentials(x, valid, temperature, weighted)
    return _terms.join_windows(terms, geometry, settings.lowering)


def _logsumexp(settings: Settings, x: Array, arrays: Any) -> Array:
    where, temperature = arrays
    check_float(settings.op, x)
    wide = x.astype(accumulator(x.dtype))
    positions = settings.geometry(x.shape).positions
    temperature = parameter(settings.op, "temperature", temperature, wide, positions)
    level, factor = _joined(settings, wide, where, temperature, weighted=False)
    nothing, one = factor == 0, np.ones((), wide.dtype)
    log_sum = _terms.log_of(jnp.where(nothing, one, level), jnp.where(nothing, one, factor))
    y = jnp.where(nothing, np.asarray(-np.inf, wide.dtype), temperature * log_sum)
    return y.astype(x.dtype)


def _soft(settings: Settings, x: Array, where: Any) -> Array:
    check_float(settings.op, x)
    wide = x.astype(accumulator(x.dtype))
    _, weights, weighted = _joined(settings, wide, where, 1, weighted=True)
    valid = check_where(settings.op, where, x.shape)
    cells = count_cells(settings, settings.geometry(x.shape), valid, x.ndim)
    nothing, one = weights == 0, np.ones((), wide.dtype)
    blank = jnp.where(cells > 0, np.asarray(-np.inf, wide.dtype), np.zeros((), wide.dtype))
    y = jnp.where(nothing, blank, weighted / jnp.where(nothing, one, weights))
    return y.astype(x.dtype)


_LOGSUMEXP_POOL = Op("logsumexp_pool", _logsumexp, arrays=("where", "temperature"))
_SOFT_POOL = Op("soft_pool", _soft)
