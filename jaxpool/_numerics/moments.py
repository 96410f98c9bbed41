"""Variances of windows and their derivatives of any order.

    s[o] = sum over i of (x[i] - m[o]) ** 2,    m[o] = mean over i of x[i],

``i`` running over the elements of window ``o``. The deviations of a window add to zero, so ``m``
adds nothing to the derivative:

    ds[o] = 2 * sum over i of (x[i] - m[o]) dx[i],

which is bilinear: linear in ``dx``, with derivatives by ``x``.

A mean that is large beside the deviation cancels nothing. Windows that are joined hold what is left
of the elements less the mean of the whole array, which changes no deviation, so that numbers are
small and have digits to spare. Windows that GPU and TPU compute at once need no such pass over the
array: they correct the sum, and the derivative, by what the rounding of the mean has left.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._autodiff.linear import bilinear_map
from .._geometry.resolve import Geometry
from .._xla.by_platform import by_platform
from .._xla.sharding_types import varying_zeros
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
    middle, none = (functools.partial(f, geometry) for f in (_middle, _no_middle))
    chosen = {
        p: none if covariances.is_at_once(geometry, p) else middle for p in ("cpu", "gpu", "tpu")
    }
    found = by_platform(chosen, lax.stop_gradient(x), valid)
    return _moments(x - found, valid, geometry, dtype)[-1]


def _middle(geometry: Geometry, x: Array, valid: Array | None) -> Array:
    """The mean of the finite elements along the axes of windows."""
    there = lax.is_finite(x) if valid is None else lax.is_finite(x) & valid
    count = there.astype(x.dtype).sum(geometry.positions, keepdims=True)
    total = masked(x, there).sum(geometry.positions, keepdims=True)
    mean = total / jnp.maximum(count, jnp.ones((), x.dtype))
    return finite(mean)


def _no_middle(geometry: Geometry, x: Array, valid: Array | None) -> Array:
    shape = list(x.shape)
    for position in geometry.positions:
        shape[position] = 1
    return varying_zeros(tuple(shape), x.dtype, x)


# The plain function has the right derivative as well, but a slower one, should JAX lose the rule.


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _moments(
    x: Array, valid: Array | None, geometry: Geometry, dtype: np.dtype
) -> covariances.Moments:
    return covariances.moments(x, valid, geometry, dtype)


@_moments.defjvp
def _moments_jvp(geometry: Geometry, dtype: np.dtype, primals, tangents):
    (x, valid), (t, _) = primals, tangents
    mean, rest, squares = _moments(x, valid, geometry, dtype)
    # Zeros in place of what is not finite: no infinity meets a cotangent of zero, which makes NaN
    # of elements that share no window with the infinity.
    clean = finite(x)
    one = 1 + nan_unless_finite(mean)

    def forward(t: Array) -> Array:
        return one * covariances.covariance(clean, t, valid, geometry)

    def transpose(g: Array) -> Array:
        return masked(covariances.scatter(g, mean, rest, x, geometry), valid)

    squares_t = 2 * bilinear_map(forward, transpose, t, mean.shape)
    # Constants: the transpose alone reads them, and JAX has its derivatives from the map itself.
    constants = jnp.zeros_like(mean), jnp.zeros_like(rest)
    return (mean, rest, squares), (*constants, squares_t)
