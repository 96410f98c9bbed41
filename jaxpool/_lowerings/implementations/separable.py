"""``lax.reduce_window`` along one axis after the other, the last one first.

A reduction over a window is one over its rows of the reductions over each row. XLA:GPU and XLA:TPU
read every element of a window for each result, so this reads the sum of the lengths and not their
product, and stores what lies between. The transpose of a sum separates likewise.
"""

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from ..._geometry.resolve import Geometry
from ...reductions import Reduction
from .. import tuning
from ..parts.float_order import is_narrow_extreme
from ..request import Request
from . import reduce_window
from .reduce_window import argreduce as argreduce


def unsupported_reason(request: Request) -> str | None:
    """Return None: every reduction is one along one axis after the other."""
    return None


def slower_reason(request: Request) -> str | None:
    """Return why the plan prefers all axes at once, or None."""
    geometry, reduction, on_tpu = request.geometry, request.reduction, request.platform == "tpu"
    least = tuning.LEAST_SEPARATED_ON_TPU if on_tpu else _least_on_gpu(request)
    if on_tpu and reduction is not None and reduction.idempotent:
        return "an idempotent reduction takes all axes at once, or windows of windows"
    if geometry.is_non_overlapping:
        return "windows do not overlap, so each element is read once"
    if sum(count > 1 for count in geometry.kernel) < 2:
        return "windows extend along one axis"
    if geometry.taps < least:
        return f"windows of {geometry.taps} elements; one axis after the other pays from {least}"
    return None


def _least_on_gpu(request: Request) -> int:
    """Elements from which one axis after the other pays on GPU.

    Arrays of short numbers have more of them for the same bytes, and the transpose of strided sums
    reads windows that are zeros but for one element in each stride.
    """
    sparse = request.verb == "sum_transpose" and request.geometry.is_strided
    if sparse or request.dtype.itemsize < 4:
        return tuning.LEAST_NARROW_SEPARATED_ON_GPU
    return tuning.LEAST_SEPARATED_ON_GPU


def reduce(x: Any, geometry: Geometry, reduction: Reduction) -> Any:
    """Return the reduction of every window."""
    for axis, position in geometry.placed[::-1]:
        x = reduce_window.reduce(x, Geometry((axis,), (position,)), reduction)
        if is_narrow_extreme(reduction, x):
            x = _as_narrow(x)
    return x


def _as_narrow(x: Array) -> Array:
    """The same 16-bit floats: XLA:GPU reduces in float32, and would store float32 in between."""
    limits = jnp.finfo(x.dtype)
    return lax.reduce_precision(x, limits.nexp, limits.nmant)


def sum_transpose(g: Array, geometry: Geometry) -> Array:
    """Return for each element the sum of the values of all windows that hold it."""
    for axis, position in geometry.placed:
        g = reduce_window.sum_transpose(g, Geometry((axis,), (position,)))
    return g
