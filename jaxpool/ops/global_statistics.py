"""More global pools: minima, maxima with indices, standard deviations, log-sum-exp.

A minimum is computed as a maximum of the negated floats, or of the bitwise complements of integers
and booleans. Complements reverse the order of integers and, unlike negatives, always fit the dtype.
"""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from .._autodiff import planes as _planes
from .._autodiff import rules
from .._autodiff.planes import Planes
from .._errors import public
from .._lowerings.plan import plan_for
from .._numerics import indices, scaled_sums
from .._numerics.checks import check_float, check_real
from .._numerics.divisors import divide, zero_where_masked
from .._numerics.indices import IndexSpace
from ..reductions import MAX, accumulator
from ._dispatch import call
from ._parameters import parameter
from .global_ import global_op, maximum_with_indices
from .statistics import canonical_correction, root, variance_of


@public
def global_min_pool(
    x: ArrayLike,
    *,
    data_format: str = "channels_last",
    keepdims: bool = True,
    where: ArrayLike | None = None,
) -> Array:
    """Return the minimum over all elements of the pooled axes.

    ``y[n, c] = min over q of x[n, q, c]``, where ``q`` runs over all pooled axes.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      data_format, keepdims, where: as in :func:`global_max_pool`.
    Returns:
      Array of the dtype of ``x``, with pooled axes of length 1 or without them.
    Derivatives: as :func:`global_max_pool`; the tangent is that of the first minimum.
    Edge cases: NaN gives NaN. Without elements (only ``where`` can remove all) the result is the
      highest value of the dtype, and there is no gradient.
    Raises:
      TypeError, ValueError: as :func:`global_max_pool`.
    References: Oquab et al. 2015, "Is object localization for free?".
    Example:
      >>> jaxpool.global_min_pool(jnp.array([[[1.0, 5.0], [4.0, 2.0]]]), keepdims=False)
      Array([[1., 2.]], dtype=float32)
    """
    return call(_GLOBAL_MIN_POOL, x, (where,), data_format=data_format, keepdims=keepdims)


@public
def global_max_pool_with_argmax(
    x: ArrayLike,
    *,
    data_format: str = "channels_last",
    keepdims: bool = True,
    where: ArrayLike | None = None,
    index_space: IndexSpace = "spatial",
    index_dtype: DTypeLike | None = None,
) -> tuple[Array, Array]:
    """Return the maximum over all elements of the pooled axes, and its index.

    The values ``y`` are those of :func:`global_max_pool`. ``indices`` has the position of the first
    maximum, in row-major order of the pooled axes; with one pooled axis
    ``x[n, indices[n, c], c] = y[n, c]``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      data_format, keepdims, where: as in :func:`global_max_pool`.
      index_space, index_dtype: as in :func:`max_pool_with_argmax`; the window is all pooled axes.
    Returns:
      (values, indices), both of the shape of :func:`global_max_pool`'s result.
    Derivatives: values as :func:`global_max_pool`; indices are integers and have no tangent.
    Edge cases: if the value is NaN, the index is that of the first NaN. Without elements it is -1,
      or the largest number of an unsigned dtype.
    Raises:
      TypeError, ValueError: as :func:`global_max_pool` and :func:`max_pool_with_argmax`.
    References: Oquab et al. 2015, "Is object localization for free?".
    Example:
      >>> x = jnp.array([[[1.0, 5.0], [4.0, 2.0]]])
      >>> jaxpool.global_max_pool_with_argmax(x, keepdims=False)[1]
      Array([[1, 0]], dtype=int32)
    """
    return call(
        _GLOBAL_ARGMAX,
        x,
        (where,),
        data_format=data_format,
        keepdims=keepdims,
        index_space=index_space,
        index_dtype=index_dtype,
    )


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
    Edge cases: ``correction`` or fewer elements give NaN and no gradient.
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
      TypeError, ValueError: as :func:`global_max_pool`; TypeError also for integers and bool.
    References: Pinheiro and Collobert 2015, "From image-level to pixel-level labeling with
      convolutional networks" (arXiv:1411.6228).
    Example:
      >>> jaxpool.global_logsumexp_pool(jnp.zeros(4), data_format="W")
      Array([1.3862944], dtype=float32)
    """
    return call(
        _GLOBAL_LOGSUMEXP_POOL,
        x,
        (where, temperature),
        data_format=data_format,
        keepdims=keepdims,
    )


# --- bodies ---------------------------------------------------------------------------------------


def _min(x: Array, valid: Array | None, planes: Planes) -> Array:
    reverse = jnp.negative if jnp.issubdtype(x.dtype, jnp.floating) else jnp.invert
    return reverse(_planes.plane_maximum(reverse(x), valid, planes))


def _argmax(
    x: Array, valid: Array | None, planes: Planes, index_space: Any, index_dtype: Any
) -> tuple[Array, Array]:
    space = index_space, index_dtype
    if not planes.are_known:
        return maximum_with_indices(x, valid, planes, *space)
    plan = plan_for(planes.geometry, MAX, np.dtype(x.dtype))
    values, offsets = rules.extreme_with_offsets(x, valid, plan)
    masked = valid is not None
    return values, indices.convert(offsets, x.shape, plan.geometry, *space, masked)


def _std(x: Array, valid: Array | None, planes: Planes, correction: int) -> Array:
    promoted = zero_where_masked(x.astype(accumulator(np.dtype(x.dtype))), valid)
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
    return variance_of(count, squares, correction, root).astype(x.dtype)


def _logsumexp(x: Array, valid: Array | None, planes: Planes, temperature: Any) -> Array:
    promoted = x.astype(accumulator(np.dtype(x.dtype)))
    temperature = parameter("temperature", temperature, promoted, planes.positions)
    parts = scaled_sums.exponentials(promoted, valid, temperature, False)
    level, factor = scaled_sums.join_axes(parts, planes.positions)
    return scaled_sums.scaled_log_of(level, factor, temperature).astype(x.dtype)


_GLOBAL_MIN_POOL = global_op("global_min_pool", _min, check_real)
_GLOBAL_ARGMAX = global_op("global_max_pool_with_argmax", _argmax, check_real, indices.canonical)
_GLOBAL_STD_POOL = global_op("global_std_pool", _std, check_float, canonical_correction)
_GLOBAL_LOGSUMEXP_POOL = global_op(
    "global_logsumexp_pool", _logsumexp, check_float, arrays=("where", "temperature")
)
