"""Variances of windows and their derivatives of any order.

    s[o] = sum over i of (x[i] - m[o]) ** 2,    m[o] = mean over i of x[i],

``i`` running over the elements of window ``o``. The deviations of a window add to zero, so ``m``
adds nothing to the derivative:

    ds[o] = 2 * sum over i of (x[i] - m[o]) dx[i],

which is bilinear: linear in ``dx``, with derivatives by ``x``.

A mean that is large beside the deviation cancels nothing: it is kept in two parts, see
:mod:`.covariances`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._autodiff.linear import bilinear_map
from .._geometry.resolve import Geometry
from . import covariances
from .divisors import finite, masked, nan_unless_finite


def squared_deviations(x: Array, valid: Array | None, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return the sum of the squared deviations of every window, NaN of what is not finite.

    Args:
      x: numbers of ``dtype``, in a dtype to compute in.
      valid: mask of the elements that count, or None.
      geometry: the windows.
      dtype: of the array before it was widened.
    """
    return _moments(x, valid, geometry, dtype)[-1]


# The plain function has the right derivative as well, but a slower one, should JAX lose the rule.


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _moments(
    x: Array, valid: Array | None, geometry: Geometry, dtype: np.dtype
) -> covariances.Moments:
    return covariances.moments(x, valid, geometry, dtype)


@_moments.defjvp
def _moments_jvp(geometry: Geometry, dtype: np.dtype, primals, tangents):
    (x, valid), (t, _) = primals, tangents
    near, rest, squares = _moments(x, valid, geometry, dtype)
    # Zeros in place of what is not finite: no infinity meets a cotangent of zero, which makes NaN
    # of elements that share no window with the infinity.
    clean = finite(x)
    one = 1 + nan_unless_finite(near)

    def forward(t: Array) -> Array:
        return one * covariances.covariance(clean, t, valid, geometry)

    def transpose(g: Array) -> Array:
        return masked(covariances.scatter(g, near, rest, x, valid, geometry), valid)

    squares_t = 2 * bilinear_map(forward, transpose, t, near.shape)
    # Constants: the transpose alone reads them, and JAX has its derivatives from the map itself.
    constants = jnp.zeros_like(near), jnp.zeros_like(rest)
    return (near, rest, squares), (*constants, squares_t)
