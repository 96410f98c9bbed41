"""Lp and generalised-mean pooling."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .._autodiff import rules
from .._errors import public
from .._geometry.arguments import Integers
from .._geometry.window import Padding, Rounding
from .._numerics import scaled_sums, window_terms
from .._numerics.checks import check_float, check_where
from .._numerics.divisors import count_array, window_sum, zero_where_masked
from .._numerics.norms import norm
from ..reductions import MAX, accumulator
from ._dispatch import Configuration, Op, WindowArguments, call
from ._parameters import canonical_p, check_positive, parameter


@public
def lp_pool(
    x: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    p: float = 2,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Array:
    """Return the Lp norm over sliding windows.

    ``y[.., o, ..] = (sum over t of |x[.., q, ..]| ** p) ** (1 / p)`` over the elements inside
    ``x``, with ``q = o * stride - pad_low + t * dilation``. The sum is not divided by the number of
    elements, and a partly filled window is not scaled up, as in ONNX. (PyTorch scales it up and
    omits the absolute value.)

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      window_shape, strides, padding, dilations, rounding, data_format: as in :func:`max_pool`.
      p: the static exponent, from 2^-20 to 2^20; infinity gives the largest absolute value. The
        exponent of :func:`gem_pool` is learnable.
      where: boolean mask that broadcasts to ``x``; elements where it is False are ignored.
      implementation: as in :func:`max_pool`; for finite exponents above 4, "slices" or "doubling".
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
      Low-precision floats are computed in float32 and rounded once. For ``p`` above 4, powers are
      computed relative to the largest element of the window, so they neither overflow nor vanish.
      For ``p`` up to 4 they are relative to the largest element of all pooled axes, so the power of
      an element 1e9 times smaller may vanish. Only for ``p`` = 2 elements are squared directly, so
      their squares must fit float32 (float64 for float64 elements).
    Derivatives: forward and reverse mode, any order, by
      ``dy = sum of (|x| / y) ** (p - 1) * sign(x) * dx``. The derivative is zero if the window is
      zero, and at elements that are zero, also for ``p <= 1``, where the true derivative jumps or
      is infinite. At ``p`` = infinity it is that of :func:`max_pool` of ``|x|``. With ``p`` above 4
      a cotangent times the result must be in the range of the dtype.
    Edge cases: NaN in a window gives NaN, even if there are infinities; an infinity gives infinity,
      without a meaningful derivative. A window without elements gives 0 and no gradient. Subnormal
      elements may be treated as zero.
    Raises:
      TypeError, ValueError, NotImplementedError: as :func:`max_pool`; TypeError also for integers
        and bool, and if ``p`` is not a number; ValueError if ``p`` is out of range.
    References: Gulcehre et al. 2014 (arXiv:1311.1780); ONNX LpPool-22.
    Example:
      >>> x = jnp.array([[3.0], [-4.0], [0.0]])
      >>> jaxpool.lp_pool(x, (2,), 1)[:, 0]
      Array([5., 4.], dtype=float32)
      >>> jaxpool.lp_pool(x, (2,), 1, p=1)[:, 0]
      Array([7., 4.], dtype=float32)
    """
    windows = WindowArguments(
        window_shape, strides, padding, dilations, rounding, data_format, implementation
    )
    return call(LP_POOL, x, (where,), windows, p=p)


@public
def gem_pool(
    x: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    p: ArrayLike = 3.0,
    eps: float = 1e-6,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Array:
    """Return the generalised mean over sliding windows, with a learnable exponent.

    ``y[.., o, ..] = (mean over t of max(x[.., q, ..], eps) ** p) ** (1 / p)`` over the elements
    inside ``x``, with ``q = o * stride - pad_low + t * dilation``. ``p`` = 1 gives the average, and
    a large ``p`` approaches the maximum.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      window_shape, strides, padding, dilations, rounding, data_format, where: as in
        :func:`max_pool`.
      p: the positive, finite exponent: a number, or an array, which may be traced. An array
        broadcasts to ``x`` with length 1 on the pooled axes; it can hold one exponent per channel.
      eps: a positive number that replaces smaller elements.
      implementation: "auto", "slices" or "doubling", as in :func:`max_pool`.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
      Low-precision floats are computed in float32 and rounded once. Powers are computed as
      exponentials relative to the largest one of the window, so they neither overflow nor vanish.
    Derivatives: in ``x`` and in ``p``; forward and reverse mode, any order. Elements below ``eps``
      have no derivative. A cotangent times the result must be in the range of the dtype.
    Edge cases: only real elements count in the mean, neither padding nor overhang. NaN in a window
      gives NaN; an infinity gives infinity, without a meaningful derivative. A window without
      elements gives 0 and no gradient. As ``p`` approaches 0, the result approaches the geometric
      mean and loses accuracy in proportion to ``1 / p``, and derivatives in ``p`` in proportion to
      ``1 / p ** 2``: at ``p`` = 0.01, float32 gives 5 correct digits. Values of an array ``p`` are
      not checked: a value that is not positive gives the result of the formula, or NaN.
    Raises:
      TypeError, ValueError, NotImplementedError: as :func:`max_pool`; ValueError also if ``p`` or
        ``eps`` is not positive and finite, or ``p`` does not fit ``x``; TypeError also if the dtype
        of ``x`` is not floating-point.
    References: Radenovic, Tolias and Chum 2018 (arXiv:1711.02512), equation 3.
    Example:
      >>> x = jnp.array([[1.0], [7.0], [5.0]])
      >>> jaxpool.gem_pool(x, (2,), 1, p=1.0)[:, 0]
      Array([4., 6.], dtype=float32)
      >>> bool(jax.grad(lambda p: jaxpool.gem_pool(x, (2,), 1, p=p).sum())(1.0) > 0)
      True
    """
    check_positive("p", p)
    windows = WindowArguments(
        window_shape, strides, padding, dilations, rounding, data_format, implementation
    )
    return call(_GEM_POOL, x, (where, p), windows, eps=eps)


def _lp(x: Array, where: Any, *, config: Configuration, p: float) -> Array:
    check_float(x)
    valid = check_where(where, x.shape)
    promoted = zero_where_masked(x, valid).astype(accumulator(x.dtype))
    geometry, implementation = config.geometry(x.shape), config.implementation

    def joined(terms_of: Callable[..., scaled_sums.Terms], a: Array) -> scaled_sums.Terms:
        return window_terms.join_windows(terms_of, (a,), (0,), geometry, implementation)

    y = norm(
        promoted,
        p,
        geometry.positions,
        total=lambda a: window_sum(a, geometry, implementation, materialize_cotangent=True),
        largest=lambda a: rules.extreme(a, None, config.plan(a.shape, a.dtype, MAX)),
        joined=joined,
    )
    return y.astype(x.dtype)


def _canonical_eps(eps: Any) -> dict[str, float]:
    check_positive("eps", eps, static=True)
    return {"eps": float(eps)}


# The generalised mean is ``y = exp((log sum exp(z) - log n) / p)`` with ``z = p log max(x, eps)``.
# ``log sum exp(z)`` is the level of the joined terms plus the logarithm of their factor. In this
# form JAX differentiates in ``p`` without a custom rule.


def _gem(x: Array, where: Any, p: Any, *, config: Configuration, eps: float) -> Array:
    check_float(x)
    geometry, implementation = config.geometry(x.shape), config.implementation
    valid = check_where(where, x.shape)
    count = count_array(geometry, valid, x.ndim)
    dtype = accumulator(x.dtype)
    p = parameter("p", p, x.astype(dtype), geometry.positions)

    def power_terms(x: Array, valid: Array | None, p: Array) -> scaled_sums.Terms:
        z = p * scaled_sums.log(_at_least_eps(x.astype(dtype), valid, eps))
        return scaled_sums.exponentials(z, valid, 1, weighted=False)

    padding = None if valid is None else (0, False, 1)
    arrays = x, valid, p
    level, factor = window_terms.join_windows(
        power_terms, arrays, padding, geometry, implementation
    )
    return _mean(level, factor, count, p).astype(x.dtype)


def _at_least_eps(x: Array, valid: Array | None, eps: float) -> Array:
    low = np.asarray(eps, x.dtype)
    below = x < low if valid is None else (x < low) | ~valid
    return jnp.where(below, low, x)


def _mean(level: Array, factor: Array, count: Array, p: Array) -> Array:
    empty = factor == 0
    one, zero = np.ones((), factor.dtype), np.zeros((), factor.dtype)
    level = jnp.where(empty, zero, level)
    mean = jnp.where(empty, one, factor) / jnp.maximum(count, 1).astype(factor.dtype)
    return jnp.where(empty, zero, lax.exp(scaled_sums.log_of(level, mean) / p))


LP_POOL = Op("lp_pool", _lp, canonical_p)
_GEM_POOL = Op("gem_pool", _gem, _canonical_eps, ("where", "p"))
