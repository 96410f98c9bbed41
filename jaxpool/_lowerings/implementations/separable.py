"""Reduce by ``lax.reduce_window`` along one axis after another, the last axis first.

The reduction of a window is the reduction over its rows of the reductions of each row. XLA:GPU and
XLA:TPU read every element of a window for each result, so this reads the sum of the lengths instead
of their product, but stores the intermediate results. The transpose of a sum separates likewise.
"""

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from ..._geometry.resolve import Geometry
from ...reductions import Reduction
from .. import tuning
from ..parts.float_order import is_16_bit_extreme
from ..request import READ_ONCE, Request
from . import reduce_window
from .reduce_window import argreduce as argreduce
from .reduce_window import unsupported_reason as unsupported_reason


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
    for axis, position in geometry.placed[::-1]:
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
    for axis, position in geometry.placed:
        g = reduce_window.sum_transpose(g, Geometry((axis,), (position,)))
    return g
