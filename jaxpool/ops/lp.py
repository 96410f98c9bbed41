"""Lp and generalised-mean pooling."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .._autodiff import rules
from .._errors import public
from .._geometry.window import Padding, Rounding
from .._numerics import scaled_sums, window_terms
from .._numerics.checks import check_float, check_where
from .._numerics.divisors import count_array, masked, window_sum
from .._numerics.norms import norm
from ..reductions import MAX, accumulator
from ._dispatch import Configuration, Op, WindowArguments, call
from ._parameters import canonical_exponent, check_positive, parameter


@public
def lp_pool(
    x: ArrayLike,
    window_shape: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Padding = "VALID",
    *,
    p: float = 2,
    dilations: int | Sequence[int] = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Array:
    """Lp norm over sliding windows.

    ``y[.., o, ..] = (sum over t of |x[.., q, ..]| ** p) ** (1 / p)`` over the elements inside
    ``x``, with ``q = o * stride - pad_low + t * dilation``. The sum is not divided by the number of
    elements, nor is a partly filled window scaled up (ONNX; PyTorch does, and takes no absolute
    value).

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      window_shape, strides, padding, dilations, rounding, data_format: as in :func:`max_pool`.
      p: the exponent, from 2^-20 to 2^20; infinity gives the largest absolute value. It is static;
        :func:`gem_pool` has a learnable one.
      where: boolean mask that broadcasts to ``x``; elements where it is False are ignored.
      implementation: as in :func:`max_pool`; finite exponents above 4 have "slices" and "doubling".
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
      Low-precision floats are computed in float32 and rounded once. Powers are taken relative to
      the largest element of the window, so they neither overflow nor vanish; with ``p`` up to 4
      relative to that of all pooled axes, where an element 1e9 times smaller may vanish; with ``p``
      = 2 as they are, so that the square of an element must fit float32 (float64 for that).
    Derivatives: forward and reverse mode, any order, by
      ``dy = sum of (|x| / y) ** (p - 1) * sign(x) * dx``. Zero where the window is zero, and zero
      at an element that is zero, also for ``p <= 1``, where the true slope has a jump or is
      infinite. At infinity as :func:`max_pool` of ``|x|``. With ``p`` above 4 a cotangent times the
      result must be in the range of the dtype.
    Edge cases: NaN in a window gives NaN, also beside infinities; an infinity gives infinity,
      without a meaningful derivative. A window without elements gives 0 and no gradient. Subnormal
      elements may count as zero.
    Raises:
      TypeError, ValueError, NotImplementedError: as :func:`max_pool`; TypeError also for integers
        and bool and if ``p`` is not a number; ValueError if it is not positive.
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
    window_shape: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Padding = "VALID",
    *,
    p: ArrayLike = 3.0,
    eps: float = 1e-6,
    dilations: int | Sequence[int] = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Array:
    """Generalised mean over sliding windows, with a learnable exponent.

    ``y[.., o, ..] = (mean over t of max(x[.., q, ..], eps) ** p) ** (1 / p)`` over the elements
    inside ``x``, with ``q = o * stride - pad_low + t * dilation``. ``p`` = 1 is the average, large
    ``p`` the maximum.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      window_shape, strides, padding, dilations, rounding, data_format, where: as in
        :func:`max_pool`.
      p: the exponent, positive: a number, or an array, also a traced one, that broadcasts to ``x``
        with length 1 on the pooled axes, such as one exponent per channel.
      eps: positive number that smaller elements are raised to.
      implementation: "auto", "slices" or "doubling", as in :func:`max_pool`.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
      Low-precision floats are computed in float32 and rounded once. Powers are taken as
      exponentials, relative to the largest of the window, so they neither overflow nor vanish.
    Derivatives: in ``x`` and in ``p``; forward and reverse mode, any order. Elements below ``eps``
      have none. A cotangent times the result must be in the range of the dtype.
    Edge cases: only real elements count in the mean, neither padding nor overhang. NaN in a window
      gives NaN; an infinity gives infinity, without a meaningful derivative. A window without
      elements gives 0 and no gradient. As ``p`` goes to 0, the geometric mean, results lose
      accuracy in proportion to ``1 / p`` and derivatives in ``p`` to ``1 / p ** 2``: float32 has 5
      digits of the mean at ``p`` = 0.01. Values of an array ``p`` are not checked: one that is not
      positive gives what the formula gives, or NaN.
    Raises:
      TypeError, ValueError, NotImplementedError: as :func:`lp_pool`; ValueError also if ``p`` does
        not fit ``x``, or ``eps`` is not positive and finite.
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


def _canonical_p(p: Any) -> dict[str, float]:
    return {"p": canonical_exponent(p)}


def _lp(x: Array, where: Any, *, config: Configuration, p: float) -> Array:
    check_float(x)
    valid = check_where(where, x.shape)
    wide = masked(x, valid).astype(accumulator(x.dtype))
    geometry, implementation = config.geometry(x.shape), config.implementation

    def joined(make: Callable[..., scaled_sums.Terms], a: Array) -> scaled_sums.Terms:
        window_terms.check_implementation(implementation, geometry)
        return window_terms.join_windows(make, (a,), (0,), geometry, implementation)

    y = norm(
        wide,
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


# ``y = exp((log sum exp(z) - log n) / p)`` with ``z = p log max(x, eps)``, and ``log sum exp(z)``
# is the level of the joined terms plus the logarithm of their factor. Written so, the derivative
# in ``p`` needs no rule of its own.


def _gem(x: Array, where: Any, p: Any, *, config: Configuration, eps: float) -> Array:
    check_float(x)
    geometry, implementation = config.geometry(x.shape), config.implementation
    window_terms.check_implementation(implementation, geometry)
    valid = check_where(where, x.shape)
    count = count_array(geometry, valid, x.ndim)
    dtype = accumulator(x.dtype)
    p = parameter("p", p, x.astype(dtype), geometry.positions)

    def powers(x: Array, valid: Array | None, p: Array) -> scaled_sums.Terms:
        z = p * lax.log(_raised(x.astype(dtype), valid, eps))
        return scaled_sums.exponentials(z, valid, 1, weighted=False)

    padding = None if valid is None else (0, False, 1)
    arrays = x, valid, p
    level, factor = window_terms.join_windows(powers, arrays, padding, geometry, implementation)
    return _mean(level, factor, count, p).astype(x.dtype)


def _raised(x: Array, valid: Array | None, eps: float) -> Array:
    low = np.asarray(eps, x.dtype)
    below = x < low if valid is None else (x < low) | ~valid
    return jnp.where(below, low, x)


def _mean(level: Array, factor: Array, count: Array, p: Array) -> Array:
    empty = factor == 0
    one, zero = np.ones((), factor.dtype), np.zeros((), factor.dtype)
    level = jnp.where(empty, zero, level)
    mean = jnp.where(empty, one, factor) / jnp.maximum(count, 1).astype(factor.dtype)
    return jnp.where(empty, zero, lax.exp(scaled_sums.log_of(level, mean) / p))


LP_POOL = Op("lp_pool", _lp, _canonical_p)
_GEM_POOL = Op("gem_pool", _gem, _canonical_eps, ("where", "p"))
