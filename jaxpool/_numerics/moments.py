"""Variances of windows, of parts that are joined.

A part of ``n`` elements is its count, its mean ``m`` and the sum ``s`` of the squared deviations
from it. Two parts make

    n = n_a + n_b,   d = m_b - m_a,   m = m_a + d n_b / n,   s = s_a + s_b + d^2 n_a n_b / n,

where nothing is subtracted but means. These are kept of what is left of the elements less the mean
of the whole array, which changes no deviation, so that they are small and have digits to spare: a
mean that is large beside the deviation cancels nothing.

A window is joined by doubling: cost and program grow with the log of the window. Derivatives of any
order are those of these formulas.

Source: Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance", American
Statistician 37, section 3.
"""

import jax.numpy as jnp
from jax import Array, lax

from .._geometry.resolve import Geometry
from .._lowerings import doubling
from .._xla.materialize import materialize
from ..reductions import Reduction, filled
from .divisors import masked

Moments = tuple[Array, Array, Array]
"""Count, mean, and sum of squared deviations."""


def moments(x: Array, valid: Array | None, geometry: Geometry) -> Moments:
    """Return the moments of the elements of every window; all zero where there is none.

    The mean is that of the elements less one number for all of them.

    Args:
      x: floats.
      valid: mask of the elements that count, or None.
      geometry: the windows.
    """
    elements = jnp.ones_like(x), x - _middle(x, valid, geometry), jnp.zeros_like(x)
    return doubling.reduce(filled(elements, valid, _MOMENTS), geometry, _MOMENTS)


def _middle(x: Array, valid: Array | None, geometry: Geometry) -> Array:
    """The mean of the finite elements along the axes of windows: a constant for derivatives."""
    x = lax.stop_gradient(x)
    there = lax.is_finite(x) if valid is None else lax.is_finite(x) & valid
    count = there.astype(x.dtype).sum(geometry.positions, keepdims=True)
    total = masked(x, there).sum(geometry.positions, keepdims=True)
    mean = total / jnp.maximum(count, jnp.ones((), x.dtype))
    return jnp.where(lax.is_finite(mean), mean, jnp.zeros((), x.dtype))


def _join(a: Moments, b: Moments) -> Moments:
    """Return the moments of two parts together."""
    count = a[0] + b[0]
    share = b[0] / jnp.where(count == 0, jnp.ones((), count.dtype), count)
    difference = b[1] - a[1]
    mean = a[1] + difference * share
    squares = a[2] + b[2] + difference * difference * (a[0] * share)
    mean, squares = materialize(mean, squares)
    return count, mean, squares


_MOMENTS = Reduction("moments", _join, (0, 0, 0))
