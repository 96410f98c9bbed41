"""Sums of squared deviations of windows, and their derivatives of any order.

With ``i`` over the elements of window ``o``,

    s[o] = sum over i of (x[i] - m[o]) ** 2,    m[o] = mean over i of x[i].

The deviations of a window sum to zero, so ``dm`` does not contribute to the tangent

    ds[o] = 2 * sum over i of (x[i] - m[o]) dx[i].

The tangent is a bilinear map: it is linear in ``dx``, and differentiable in ``x``.

Means are stored in two parts, so a mean that is large compared with the deviations causes no
cancellation. See :mod:`.covariances`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._autodiff.linear import bilinear_map
from .._geometry.resolve import Geometry
from . import covariances
from .divisors import finite, nan_unless_finite, zero_where_masked


def squared_deviations(x: Array, valid: Array | None, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return the sum of the squared deviations of every window, NaN if an element is not finite.

    Args:
      x: the array in its accumulator dtype, with values that ``dtype`` represents exactly.
      valid: mask of the elements that count, or None.
      geometry: the windows.
      dtype: the dtype of the array before its promotion.
    """
    return _moments(x, valid, geometry, dtype)[-1]


# If JAX loses the rule, the derivative of the function itself is also correct, but slower.


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _moments(
    x: Array, valid: Array | None, geometry: Geometry, dtype: np.dtype
) -> covariances.Moments:
    return covariances.moments(x, valid, geometry, dtype)


@_moments.defjvp
def _moments_jvp(geometry: Geometry, dtype: np.dtype, primals, tangents):
    (x, valid), (t, _) = primals, tangents
    base, delta, squares = _moments(x, valid, geometry, dtype)
    # Elements that are not finite become 0. Otherwise an infinity times a cotangent of 0 would be
    # NaN, also for elements that have no window in common with the infinity.
    finite_x = finite(x)
    one_or_nan = 1 + nan_unless_finite(base)

    def forward(t: Array) -> Array:
        return one_or_nan * covariances.covariance(finite_x, t, valid, geometry)

    def transpose(g: Array) -> Array:
        return zero_where_masked(covariances.scatter(g, base, delta, x, valid, geometry), valid)

    squares_t = 2 * bilinear_map(forward, transpose, t, base.shape)
    # Zero tangents: only the transpose reads the means, and JAX derives the derivatives of the map
    # from ``forward``.
    constants = jnp.zeros_like(base), jnp.zeros_like(delta)
    return (base, delta, squares), (*constants, squares_t)
