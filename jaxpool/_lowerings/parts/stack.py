"""The elements of every window as a new last axis.

``stack_taps(x)[o, t] = x[o * stride - pad_low + t * dilation]`` for window ``o`` and tap ``t``. The
taps of several axes are in row-major order. In the transpose, an element is the sum of what all
windows that contain the element have at its taps.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis, cdiv
from ..._geometry.resolve import Geometry
from .. import tuning
from .axis_slicing import each_offset, lax_padding, pad, slice_axis
from .phases import add_over_elements


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


def unstack_taps(g: Array, geometry: Geometry) -> Array:
    """Return the transpose of :func:`stack_taps`; its padding is a constant."""
    if geometry.is_non_overlapping and geometry.taps <= tuning.MAX_STACKED:
        return _unstack_at_once(g, geometry, ())
    rank = g.ndim - 1
    g = g.reshape(*g.shape[:rank], *geometry.kernel)
    for axis, position in geometry.placed[::-1]:
        g = _unstack_axis(g, axis, rank + position)
    return g


def _unstack_at_once(g: Array, geometry: Geometry, offsets: tuple[int, ...]) -> Array:
    """Return the elements at the taps with these offsets along the first axes, in one kernel."""
    if len(offsets) == len(geometry.axes):
        tap = int(np.ravel_multi_index(offsets, geometry.kernel))
        return lax.index_in_dim(g, tap, -1, keepdims=False)
    axis, position = geometry.placed[len(offsets)]
    read = lambda offset: _unstack_at_once(g, geometry, (*offsets, offset))  # noqa: E731
    return add_over_elements(read, axis, position)


def _unstack_axis(g: Array, axis: Axis, dimension: int, at: int = -1) -> Array:
    """Return the elements along one axis from their taps, the axis ``at`` of ``g``.

    For a long kernel, let ``t = i * inner + j``. All steps but the last add the taps ``i``, and
    return the taps ``j`` at every element at which a window or one of these taps starts.
    """
    if axis.kernel <= tuning.LONGEST_SCATTERED:
        return _unstack_slices(g, axis, dimension, at)
    inner = tuning.SCATTER_RADIX
    outer = cdiv(axis.kernel, inner)
    added = inner * outer - axis.kernel
    starts = axis.size + sum(lax_padding(axis)) + (added - (inner - 1)) * axis.dilation
    split = g.ndim + at
    g = pad(g, at, 0, added).reshape(*g.shape[:split], outer, inner, *g.shape[split + 1 :])
    before = replace(axis, size=starts, kernel=outer, dilation=inner * axis.dilation, pad_low=0)
    g = _unstack_axis(g, before, dimension, at - 1)
    return _unstack_slices(g, replace(axis, kernel=inner, stride=1, out=starts), dimension, at)


def _unstack_slices(g: Array, axis: Axis, dimension: int, at: int) -> Array:
    """Return the transpose of :func:`_stack_slices`, without the axis ``at``."""
    return add_over_elements(
        lambda tap: lax.index_in_dim(g, tap, at, keepdims=False), axis, dimension - (g.ndim - 1)
    )
