"""The linear map that reads, for every window, the cell of the tap that won.

``read(t, taps)[o] = t[o * stride - pad_low + taps[o] * dilation]``, and 0 where ``taps`` marks an
empty window. It is written as a sum over taps of ``where(taps == tap, cell, 0)``, so it is linear
in ``t``, and its transpose, which JAX derives, sends a cotangent to the winners without any
scatter.
"""

import itertools

import jax.numpy as jnp
import numpy as np
from jax import Array

from ._reductions import accumulator
from ._window import Geometry
from .lowerings._cut import cut, pad, padding_of


def read(t: Array, taps: Array, geometry: Geometry) -> Array:
    """Return the entry of ``t`` at the winning tap of every window."""
    dtype = t.dtype
    t = t.astype(accumulator(dtype))
    for axis, position in zip(geometry.axes, geometry.positions, strict=True):
        t = pad(t, position, *padding_of(axis), np.zeros((), t.dtype))
    total = jnp.zeros(taps.shape, t.dtype)
    for number, tap in enumerate(itertools.product(*map(range, geometry.kernel))):
        hit = taps == np.asarray(number, taps.dtype)
        total = total + jnp.where(hit, _cell(t, tap, geometry), 0)
    return total.astype(dtype)


def _cell(t: Array, tap: tuple[int, ...], geometry: Geometry) -> Array:
    for axis, position, k in zip(geometry.axes, geometry.positions, tap, strict=True):
        t = cut(t, position, k * axis.dilation, axis.out, axis.stride)
    return t
