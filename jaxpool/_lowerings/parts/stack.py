"""The elements of every window as a new last axis.

``stack_taps(x)[o, t] = x[o * stride - pad_low + t * dilation]`` for window ``o`` and tap ``t``. The
taps of several axes are in row-major order.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis, cdiv
from ..._geometry.resolve import Geometry
from .. import tuning
from .axis_slicing import each_offset, lax_padding, pad, slice_axis


def stack_taps(x: Array, geometry: Geometry, padding: np.ndarray) -> Array:
    """Return the elements of every window as a new last axis, ``padding`` outside the array."""
    if geometry.taps <= tuning.MAX_STACKED:
        return jnp.stack(list(each_offset(x, geometry, padding)), -1)
    first = x.ndim
    for axis, position in geometry.placed[::-1]:
        x = _stack_axis(x, axis, position + first, first, padding)
    return x.reshape(*x.shape[:first], geometry.taps)


def _stack_axis(x: Array, axis: Axis, dimension: int, at: int, padding: np.ndarray) -> Array:
    """Return the elements along one axis as a new axis ``at``; for a long kernel in two steps.

    Let ``t = i * inner + j``. The first step stacks the taps ``j`` at every element, the second one
    stacks these stacks at the taps ``i * inner``.
    """
    position = dimension - x.ndim
    inner = 1
    if axis.kernel > tuning.LONGEST_STACKED:
        inner = 1 << (axis.kernel.bit_length() // 2)
    outer = cdiv(axis.kernel, inner)
    low, high = lax_padding(axis)
    x = pad(x, position, low, high + (inner * outer - axis.kernel) * axis.dilation, padding)
    if inner == 1:
        return _stack_slices(x, dimension, at, axis.kernel, axis.dilation, axis.out, axis.stride)
    starts = x.shape[dimension] - (inner - 1) * axis.dilation
    x = _stack_slices(x, dimension, at, inner, axis.dilation, starts, 1)
    x = _stack_slices(x, dimension, at, outer, inner * axis.dilation, axis.out, axis.stride)
    x = x.reshape(*x.shape[:at], outer * inner, *x.shape[at + 2 :])
    return lax.slice_in_dim(x, 0, axis.kernel, 1, at)


def _stack_slices(
    x: Array, dimension: int, at: int, steps: int, step: int, count: int, stride: int
) -> Array:
    """Stack ``steps`` slices of an axis, each ``step`` further on, as a new axis ``at``."""
    parts = [slice_axis(x, dimension - x.ndim, n * step, count, stride) for n in range(steps)]
    return jnp.stack(parts, at)
