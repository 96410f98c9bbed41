"""Reduce by ``lax.reduce_window`` with computed padding: the reference for all windows."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import INT32_MAX, Axis
from ..._geometry.resolve import Geometry, is_static
from ..._xla.by_platform import by_platform
from ...reductions import Reduction, identity_array, identity_like, mask_with_identity
from .. import tuning
from ..parts.argreduce import ValueOffset, offset_dtype, prefers_first, sentinel
from ..parts.axis_slicing import input_shape, iota, lax_padding, pad_axes
from ..parts.float_order import (
    is_16_bit_extreme,
    is_float_extreme,
    reduce_in_integers_on_cpu,
)
from ..parts.phases import transpose_padding
from ..request import Request

_PADDING = np.int32(-1)


def unsupported_reason(request: Request) -> str | None:
    """Return why ``lax.reduce_window`` does not support ``request``, or None."""
    sizes = request.geometry.spatial_shape
    if request.operation == "argreduce" and is_static(sizes) and math.prod(sizes) > INT32_MAX:
        return "int32 cannot number the elements of the pooled axes"
    return None


def lax_settings(geometry: Geometry, rank: int) -> dict[str, tuple]:
    """Return the settings of ``lax.reduce_window`` for an array of ``rank`` axes."""
    dims, strides, dilations = [1] * rank, [1] * rank, [1] * rank
    padding = [(0, 0)] * rank
    for axis, position in geometry.placed:
        dims[position], strides[position] = axis.kernel, axis.stride
        dilations[position], padding[position] = axis.dilation, lax_padding(axis)
    return {
        "window_dimensions": tuple(dims),
        "window_strides": tuple(strides),
        "padding": tuple(padding),
        "window_dilation": tuple(dilations),
    }


def reduce(x: Any, geometry: Geometry, reduction: Reduction) -> Any:
    """Return the reduction of every window.

    XLA:CPU passes some reductions by ``maximum`` to a library that drops NaN (jaxlib 0.10.2 and
    0.12). So on CPU a maximum is the negated minimum of the negated operand. An extreme of 16-bit
    floats, which XLA:CPU would widen at every step, is computed in integers.
    """
    if not is_float_extreme(reduction, x):
        return _reduce(x, geometry, reduction)
    if is_16_bit_extreme(reduction, x):
        return reduce_in_integers_on_cpu(
            lambda x, extreme: _reduce(x, geometry, extreme), x, reduction
        )
    direct = functools.partial(_reduce, geometry=geometry, reduction=reduction)
    negated = functools.partial(_reduce, geometry=geometry, reduction=_negated(reduction))
    return by_platform(x, cpu=negated, default=direct)


def _negated(reduction: Reduction) -> Reduction:
    """Return the reduction that computes an extreme as the negated opposite extreme."""
    opposite = lax.min if reduction.extremum == "max" else lax.max
    return dataclasses.replace(
        reduction, combine=lambda a, b: lax.neg(opposite(lax.neg(a), lax.neg(b)))
    )


def _reduce(x: Any, geometry: Geometry, reduction: Reduction) -> Any:
    settings = lax_settings(geometry, jax.tree.leaves(x)[0].ndim)
    return lax.reduce_window(x, identity_like(reduction, x), reduction.combine, **settings)


def is_faster(axis: Axis, position: int) -> bool:
    """Return whether XLA:CPU reduces faster along an axis by ``lax.reduce_window`` than by slices.

    With padding along the contiguous axis, each row of slices is a concatenation, which fills no
    vectors.
    """
    long_at_stride_1 = axis.stride == 1 and axis.kernel >= tuning.SHORTEST_PADDED_ROW
    return position == -1 and long_at_stride_1 and len(axis.segments()) > 1


def faster_in_rows_reason(request: Request) -> str | None:
    """Return why XLA:CPU reduces long windows of rows faster by ``lax.reduce_window``, or None."""
    kernel, stride = request.row_kernel, request.geometry.axes[-1].stride
    max_kernel = tuning.MAX_WINDOWS_OF_ELEMENT * stride
    if request.window_rank > 1 or not tuning.MIN_ROW_REDUCED <= kernel <= max_kernel:
        return None
    return (
        f"{kernel} elements of a row; lax.reduce_window is faster from {tuning.MIN_ROW_REDUCED}, "
        f"at this stride up to {max_kernel}"
    )


def sum_transpose(g: Array, geometry: Geometry) -> Array:
    """Return for each element the sum of the values of all windows that contain it.

    With zeros between the values of strided windows, the windows of an element again form a window.
    """
    if 0 in g.shape:
        return jnp.zeros(input_shape(g.shape, geometry), g.dtype)
    margins = {position: transpose_padding(axis) for axis, position in geometry.placed}
    dilated = pad_axes(g, margins)
    settings = lax_settings(geometry, g.ndim) | {
        "window_strides": (1,) * g.ndim,
        "padding": "VALID",
    }
    return lax.reduce_window(dilated, np.zeros((), g.dtype), lax.add, **settings)


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the offset of its argmax, row-major.

    Reduce pairs of a value and its flat index over the pooled axes. The index breaks ties and is
    then converted to the offset in its window.
    """
    x = mask_with_identity(x, valid, reduction)
    indices = _flat_indices(x, geometry)
    if valid is not None:
        indices = jnp.where(valid, indices, _PADDING)
    init = (identity_array(reduction, x.dtype), _PADDING)
    values, indices = lax.reduce_window(
        (x, indices), init, prefers_first(reduction), **lax_settings(geometry, x.ndim)
    )
    return values, _window_offsets(indices, geometry).astype(offset_dtype(geometry))


def _flat_indices(x: Array, geometry: Geometry) -> Array:
    """Return the flat index of each element of ``x`` over the pooled axes."""
    index = jnp.zeros_like(x, jnp.int32)
    for axis, position in geometry.placed:
        index = index * axis.size + iota(axis.size, position, x.ndim, jnp.int32)
    return index


def _window_offsets(indices: Array, geometry: Geometry) -> Array:
    """Return the offset, in its window, of the element at each flat index, or the sentinel."""
    has_element, offset, unit = indices != _PADDING, jnp.zeros_like(indices), 1
    for axis, position in geometry.placed[::-1]:
        windows = iota(axis.out, position, indices.ndim, jnp.int32)
        start = windows * axis.stride - axis.pad_low
        offset = offset + (indices % axis.size - start) // axis.dilation * unit
        indices, unit = indices // axis.size, unit * axis.kernel
    return jnp.where(has_element, offset, sentinel(np.dtype(np.int32)))
