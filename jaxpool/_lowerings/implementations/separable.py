"""Reduce by ``lax.reduce_window`` along one axis after another, the last axis first.

The reduction of a window is the reduction over its rows of the reductions of each row. XLA:GPU and
XLA:TPU read every element of a window for each result, so this reads the sum of the lengths instead
of their product, but stores the intermediate results. The transpose of a sum separates likewise.

XLA:TPU stores few images with columns along the tiles of its registers, see :mod:`..parts.tiles`.
Along them, ``lax.reduce_window`` takes most of the time. So the sums of short rows add shifted
arrays there, one padding per element, and the sums along the other axes are part of the same
kernel. By the figures of the compiler for v5e, the averages of 5x5 on 12 images of 56x56x128 then
take 47 us in float32 instead of 235. Where the batch is along tiles, they would take up to 1.35
times as long in bfloat16.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry
from ..._xla.by_platform import by_platform
from ...reductions import SUM, Reduction
from .. import tuning
from ..parts import tiles
from ..parts.axis_slicing import pad
from ..parts.float_order import is_16_bit_extreme
from ..request import READ_ONCE, Request
from . import reduce_window
from .reduce_window import argreduce as argreduce


def unsupported_reason(request: Request) -> str | None:
    """Return None: every reduction separates into reductions along each axis."""
    return None


def slower_reason(request: Request) -> str | None:
    """Return why the plan prefers to reduce all axes jointly, or None."""
    geometry, reduction, on_tpu = request.geometry, request.reduction, request.platform == "tpu"
    min_taps = tuning.MIN_SEPARATED_ON_TPU if on_tpu else _min_taps_on_gpu(request)
    if on_tpu and reduction is not None and reduction.idempotent:
        return "an idempotent reduction reduces all axes at once, or nested windows"
    if geometry.is_non_overlapping:
        return READ_ONCE
    if request.window_rank < 2:
        return "windows extend along one axis"
    if geometry.taps < min_taps:
        return f"windows of {geometry.taps} elements; one axis at a time is faster from {min_taps}"
    return None


def _min_taps_on_gpu(request: Request) -> int:
    """Return the number of taps from which reducing one axis after another pays on GPU.

    The threshold is lower for dtypes of less than 32 bits, which have more elements in the same
    number of bytes, and for the transpose of strided sums, whose windows contain one nonzero per
    stride.
    """
    is_sparse = request.operation == "sum_transpose" and request.geometry.is_strided
    if is_sparse or request.dtype.itemsize < 4:
        return tuning.MIN_16_BIT_SEPARATED_ON_GPU
    return tuning.MIN_SEPARATED_ON_GPU


def reduce(x: Any, geometry: Geometry, reduction: Reduction) -> Any:
    """Return the reduction of every window."""
    by_axis = functools.partial(_reduce_by_axis, placed=geometry.placed, reduction=reduction)
    if reduction.combine is not lax.add or not _shifts_rows(x.shape, geometry):
        return by_axis(x)
    on_tpu = functools.partial(_sum_shifted_rows, geometry=geometry)
    return by_platform(x, tpu=on_tpu, default=by_axis)


def _reduce_by_axis(x: Any, placed: Sequence[tuple[Axis, int]], reduction: Reduction) -> Any:
    for axis, position in placed[::-1]:
        x = reduce_window.reduce(x, Geometry((axis,), (position,)), reduction)
        if is_16_bit_extreme(reduction, x):
            x = _round_to_16_bits(x)
    return x


def _round_to_16_bits(x: Array) -> Array:
    """Round to the 16-bit dtype: XLA:GPU reduces in float32 and would store float32 in between."""
    limits = jnp.finfo(x.dtype)
    return lax.reduce_precision(x, limits.nexp, limits.nmant)


def sum_transpose(g: Array, geometry: Geometry) -> Array:
    """Return for each element the sum of the values of all windows that contain it."""
    by_axis = functools.partial(_transpose_by_axis, placed=geometry.placed)
    if not _shifts_rows(g.shape, geometry):
        return by_axis(g)
    on_tpu = functools.partial(_transpose_shifted_rows, geometry=geometry)
    return by_platform(g, tpu=on_tpu, default=by_axis)


def _transpose_by_axis(g: Array, placed: Sequence[tuple[Axis, int]]) -> Array:
    for axis, position in placed:
        g = reduce_window.sum_transpose(g, Geometry((axis,), (position,)))
    return g


def _shifts_rows(shape: Sequence[Any], geometry: Geometry) -> bool:
    """Return whether TPU adds the elements of each row from shifted arrays."""
    if not tiles.has_pooled_axis(shape, geometry):
        return False
    is_short = max(geometry.kernel) <= tuning.LONGEST_SHIFTED_ON_TPU
    return is_short and geometry.axes[-1].stride == 1


def _sum_shifted_rows(x: Array, geometry: Geometry) -> Array:
    *others, (axis, position) = geometry.placed
    lows = [axis.pad_low - t * axis.dilation for t in range(axis.kernel)]
    return _reduce_by_axis(_sum_shifted(x, position, lows, axis.out), others, SUM)


def _transpose_shifted_rows(g: Array, geometry: Geometry) -> Array:
    *others, (axis, position) = geometry.placed
    lows = [t * axis.dilation - axis.pad_low for t in range(axis.kernel)]
    return _transpose_by_axis(_sum_shifted(g, position, lows, axis.size), others)


def _sum_shifted(x: Array, position: int, lows: Sequence[int], length: int) -> Array:
    """Return the sum of the arrays that begin with each number of zeros, all of one length."""
    shifted = (pad(x, position, low, length - x.shape[position] - low) for low in lows)
    return functools.reduce(lax.add, shifted)
