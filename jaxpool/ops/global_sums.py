"""Global averages, norms, standard deviations and log-sum-exps: sums over all pooled axes."""

import functools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .._autodiff import planes as _planes
from .._autodiff.planes import Planes
from .._errors import public
from .._numerics import scaled_sums
from .._numerics.checks import check_float
from .._numerics.divisors import average, check_averageable, divide, zero_where_masked
from .._numerics.integer_mean import Rounding
from .._numerics.norms import norm, square_root
from ..reductions import accumulator
from ._dispatch import call
from ._parameters import canonical_p, check_positive, parameter
from .global_ import global_op
from .statistics import canonical_correction, variance_of


@public
def global_avg_pool(
    x: ArrayLike,
    *,
    data_format: str = "channels_last",
    keepdims: bool = True,
    where: ArrayLike | None = None,
) -> Array:
    """Return the average over all elements of the pooled axes.

    ``y[n, c] = (sum over q of x[n, q, c]) / count``, where ``q`` runs over all pooled axes.

    Args:
      x: array of any real dtype, or anything ``jnp.asarray`` accepts; not bool.
      data_format, keepdims: as in :func:`global_max_pool`.
      where: boolean mask that broadcasts to ``x``; elements where it is False are neither added nor
        counted.
    Returns:
      Array of the dtype of ``x``, with pooled axes of length 1 or without them. Low-precision
      floats are added and divided in float32 and rounded once. Integer averages are exact, because
      the sum does not wrap; they are rounded half to even.
    Derivatives: linear; forward and reverse mode, any order. Integers have no derivative.
    Edge cases: without elements the result is 0. NaN and infinities propagate.
    Raises:
      TypeError, ValueError: as :func:`global_max_pool`; TypeError also for bool.
    References: Lin et al. 2014, "Network in network" (arXiv:1312.4400); ONNX GlobalAveragePool-22.
    Example:
      >>> x = jnp.array([[[1.0, 5.0], [4.0, 2.0]]])
      >>> jaxpool.global_avg_pool(x)
      Array([[[2.5, 3.5]]], dtype=float32)
      >>> jaxpool.global_avg_pool(x, where=jnp.array([[[True], [False]]]), keepdims=False)
      Array([[1., 5.]], dtype=float32)
    """
    return call(_GLOBAL_AVG_POOL, x, (where,), data_format=data_format, keepdims=keepdims)


@public
def global_lp_pool(
    x: ArrayLike,
    *,
    p: float = 2,
    data_format: str = "channels_last",
    keepdims: bool = True,
    where: ArrayLike | None = None,
) -> Array:
    """Return the Lp norm over all elements of the pooled axes.

    ``y[n, c] = (sum over q of |x[n, q, c]| ** p) ** (1 / p)``, where ``q`` runs over all pooled
    axes.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      p: the exponent, from 2^-20 to 2^20; infinity gives the largest absolute value.
      data_format, keepdims, where: as in :func:`global_max_pool`.
    Returns:
      Array of the dtype of ``x``, with pooled axes of length 1 or without them. Low-precision
      floats are computed in float32 and rounded once.
    Derivatives: as :func:`lp_pool`.
    Edge cases: as :func:`lp_pool`; without elements the result is 0.
    Raises:
      TypeError, ValueError: as :func:`global_max_pool`; TypeError also for integers and bool;
        ValueError if ``p`` is out of range.
    References: ONNX GlobalLpPool-22.
    Example:
      >>> jaxpool.global_lp_pool(jnp.array([3.0, -4.0]), data_format="W")
      Array([5.], dtype=float32)
    """
    return call(_GLOBAL_LP_POOL, x, (where,), data_format=data_format, keepdims=keepdims, p=p)


@public
def global_std_pool(
    x: ArrayLike,
    *,
    correction: int = 0,
    data_format: str = "channels_last",
    keepdims: bool = True,
    where: ArrayLike | None = None,
) -> Array:
    """Return the standard deviation over all elements of the pooled axes.

    ``y[n, c] = sqrt((sum over q of (x[n, q, c] - mean[n, c]) ** 2) / (count - correction))``, where
    ``q`` runs over all pooled axes.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      correction: as in :func:`var_pool`.
      data_format, keepdims: as in :func:`global_max_pool`.
      where: boolean mask that broadcasts to ``x``; elements where it is False are ignored.
    Returns:
      Array of the dtype of ``x``, with pooled axes of length 1 or without them. Low-precision
      floats are computed in float32 and rounded once.
    Derivatives: forward and reverse mode, any order; 0 where the deviation is 0.
    Edge cases: ``correction`` or fewer elements give NaN and, if they are finite, no gradient.
    Raises:
      TypeError, ValueError: as :func:`global_max_pool`; TypeError also for integers and bool.
    References: Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance".
    Example:
      >>> jaxpool.global_std_pool(jnp.array([1.0, 3.0, 3.0, 5.0]), data_format="W", correction=1)
      Array([1.6329932], dtype=float32)
    """
    return call(
        _GLOBAL_STD_POOL,
        x,
        (where,),
        data_format=data_format,
        keepdims=keepdims,
        correction=correction,
    )


@public
def global_logsumexp_pool(
    x: ArrayLike,
    *,
    temperature: ArrayLike = 1.0,
    data_format: str = "channels_last",
    keepdims: bool = True,
    where: ArrayLike | None = None,
) -> Array:
    """Return the log-sum-exp, a smooth maximum, over all elements of the pooled axes.

    ``y[n, c] = T * log(sum over q of exp(x[n, q, c] / T))``, where ``q`` runs over all pooled axes.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      temperature: ``T``, as in :func:`logsumexp_pool`.
      data_format, keepdims, where: as in :func:`global_max_pool`.
    Returns:
      Array of the dtype of ``x``, with pooled axes of length 1 or without them. Low-precision
      floats are computed in float32 and rounded once.
    Derivatives: as :func:`logsumexp_pool`.
    Edge cases: as :func:`logsumexp_pool`; without elements the result is -inf.
    Raises:
      TypeError, ValueError: as :func:`global_max_pool`; TypeError also for integers and bool;
        ValueError also if ``temperature`` is not positive or does not fit ``x``.
    References: Pinheiro and Collobert 2015, "From image-level to pixel-level labeling with
      convolutional networks" (arXiv:1411.6228).
    Example:
      >>> jaxpool.global_logsumexp_pool(jnp.zeros(4), data_format="W")
      Array([1.3862944], dtype=float32)
    """
    check_positive("temperature", temperature)
    return call(
        _GLOBAL_LOGSUMEXP_POOL,
        x,
        (where, temperature),
        data_format=data_format,
        keepdims=keepdims,
    )


# --- bodies ---------------------------------------------------------------------------------------


def average_of(
    x: Array, valid: Array | None, planes: Planes, rounding: Rounding = "half_even"
) -> Array:
    """Return the average of every plane; the lengths may be unknown."""
    total = functools.partial(_planes.plane_sum, planes=planes)
    largest = math.prod(planes.lengths)
    divisor = largest if valid is None else total(valid.astype(jnp.int32))
    return average(zero_where_masked(x, valid), total, divisor, largest, rounding)


def _lp(x: Array, valid: Array | None, planes: Planes, p: float) -> Array:
    y = norm(
        zero_where_masked(x, valid).astype(accumulator(x.dtype)),
        p,
        planes.positions,
        total=lambda a: _planes.plane_sum(a, planes),
        largest=lambda a: _planes.plane_maximum(a, None, planes),
        joined=lambda make, a: scaled_sums.join_axes(make(a), planes.positions),
    )
    return y.astype(x.dtype)


def _std(x: Array, valid: Array | None, planes: Planes, correction: int) -> Array:
    promoted = zero_where_masked(x.astype(accumulator(x.dtype)), valid)
    mask = jnp.ones_like(promoted) if valid is None else valid.astype(promoted.dtype)
    total = functools.partial(_planes.plane_sum, planes=planes)
    count = total(mask)
    # Divide before adding: the sum of large elements could overflow.
    deviation = zero_where_masked(promoted - total(divide(promoted, count)), valid)
    # Subtract the rounding error of the mean, which is large relative to small deviations.
    error = divide(total(deviation), count)
    deviation = zero_where_masked(deviation - error, valid)
    squares = total(deviation * deviation)
    # Of equal elements, the rounding error of this subtraction is left.
    noise = 16 * float(jnp.finfo(squares.dtype).eps) * error
    squares = jnp.where(squares < count * noise * noise, np.zeros((), squares.dtype), squares)
    return variance_of(count, squares, correction, square_root).astype(x.dtype)


def _logsumexp(x: Array, valid: Array | None, planes: Planes, temperature: Any) -> Array:
    promoted = x.astype(accumulator(x.dtype))
    temperature = parameter("temperature", temperature, promoted, planes.positions)
    _, z, nonzero = scaled_sums.exponents(promoted, valid, temperature)
    y = scaled_sums.scaled_logsumexp(z, nonzero, planes.positions, temperature)
    return y.astype(x.dtype)


_GLOBAL_AVG_POOL = global_op("global_avg_pool", average_of, check_averageable)
_GLOBAL_LP_POOL = global_op("global_lp_pool", _lp, check_float, canonical_p)
_GLOBAL_STD_POOL = global_op("global_std_pool", _std, check_float, canonical_correction)
_GLOBAL_LOGSUMEXP_POOL = global_op(
    "global_logsumexp_pool", _logsumexp, check_float, arrays=("where", "temperature")
)
