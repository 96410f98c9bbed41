"""The elements of every window as a new last axis.

``stack_taps(x)[o, t] = x[o * stride - pad_low + t * dilation]`` for window ``o`` and tap ``t``. The
taps of several axes are in row-major order.

Windows of a few taps are one stack of an array for each tap, with which XLA fuses a reduction of
the taps. Other windows are stacked along one axis after another. Window ``o`` without dilation is
the first ``kernel`` elements of the groups ``o, o + 1, ..`` of ``stride`` elements each, so windows
of groups are stacked, at stride 1; a window of a single group is a reshape.

No slice has a stride, see :mod:`.grid`, unless a pooled axis has a symbolic size. In the transpose
that JAX derives, a strided slice would be a padding between elements. It is slow on CPU and may be
a serial loop on TPU, and XLA (jaxlib 0.10 to 0.12) partitions it wrongly if the result is sharded
and the cotangent is not.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jax import Array

from ..._geometry.axis import Axis, cdiv
from ..._geometry.resolve import Geometry, is_static
from ..._xla.by_platform import by_platform
from .. import tuning
from . import axis_slicing, grid


def stack_taps(x: Array, geometry: Geometry, padding: np.ndarray) -> Array:
    """Return the elements of every window as a new last axis, ``padding`` outside the array."""
    is_one_group = geometry.is_non_overlapping and all(a.dilation == 1 for a in geometry.axes)
    if geometry.taps <= tuning.MAX_STACKED and not is_one_group:
        return _stack_at_once(x, geometry, padding)
    rank = x.ndim
    for axis, position in geometry.placed[::-1]:
        x = _stack_axis(x, axis, rank + position, padding)
    x = jnp.moveaxis(x, grid.phase_axis_indices(geometry.positions, rank), range(rank, x.ndim))
    return x.reshape(*x.shape[:rank], geometry.taps)


def _stack_at_once(x: Array, geometry: Geometry, padding: np.ndarray) -> Array:
    """Return the array of each tap, stacked as a new last axis.

    A function of the windows with its gradient takes 0.1 to 0.8 of the time on GPU, by the bytes of
    its kernels, if the taps are stacked first and the axis moved. The transpose of the move would
    be a copy on CPU.
    """

    def moved(x: Array) -> Array:
        return jnp.moveaxis(_stack(x, geometry, padding, 0), 0, -1)

    def last(x: Array) -> Array:
        return _stack(x, geometry, padding, x.ndim)

    return by_platform(x, cpu=last, default=moved)


def _stack(x: Array, geometry: Geometry, padding: np.ndarray, at: int) -> Array:
    """Return the array of each tap, stacked as a new axis ``at``."""
    is_known = is_static(geometry.spatial_shape)
    read = grid.each_offset if is_known else axis_slicing.each_offset
    arrays = [jnp.expand_dims(a, at) for a in read(x, geometry, padding)]
    return axis_slicing.concatenate(arrays, at)


def _stack_axis(x: Array, axis: Axis, dimension: int, padding: np.ndarray) -> Array:
    """Return the elements along one axis as a new axis after it."""
    if axis.dilation > 1:
        return _stack_slices(x, axis, dimension, padding)
    position = dimension - x.ndim
    groups = cdiv(axis.kernel, axis.stride)
    length = (axis.out - 1 + groups) * axis.stride
    x = axis_slicing.pad(x, position, axis.pad_low, length - axis.pad_low - axis.size, padding)
    whole = replace(axis, size=length)
    x = grid.split_into_phases(x, Geometry((whole,), (position,)))
    of_groups = Axis(whole.groups, groups, 1, 1, 0, 0, 0, axis.out)
    x = _stack_slices(x, of_groups, dimension, padding)
    return _merge_and_crop(x, dimension + 1, axis.kernel)


def _stack_slices(x: Array, axis: Axis, dimension: int, padding: np.ndarray) -> Array:
    """Return the elements along one axis as a new axis after it; for a long kernel in two steps.

    Let ``t = i * inner + j``. The first step stacks the taps ``j`` at every element, the second one
    stacks these stacks at the taps ``i * inner``.
    """
    stack = lambda x, axis: _stack(  # noqa: E731
        x, Geometry((axis,), (dimension - x.ndim,)), padding, dimension + 1
    )
    if axis.kernel <= tuning.LONGEST_STACKED:
        return stack(x, axis)
    inner = 1 << (axis.kernel.bit_length() // 2)
    outer = cdiv(axis.kernel, inner)
    starts = (axis.out - 1) * axis.stride + (outer - 1) * inner * axis.dilation + 1
    x = stack(x, replace(axis, kernel=inner, stride=1, out=starts))
    steps = replace(axis, size=starts, kernel=outer, dilation=inner * axis.dilation, pad_low=0)
    return _merge_and_crop(stack(x, steps), dimension + 1, axis.kernel)


def _merge_and_crop(x: Array, dimension: int, length: int) -> Array:
    """Merge an axis with the one after it, and crop it to ``length``."""
    merged = x.shape[dimension] * x.shape[dimension + 1]
    x = x.reshape(*x.shape[:dimension], merged, *x.shape[dimension + 2 :])
    return axis_slicing.pad(x, dimension - x.ndim, 0, length - merged)
