"""Sums of short rows as sums of shifted arrays, where XLA:TPU puts columns along tiles.

XLA:TPU stores few images with columns along the tiles of its registers, see :mod:`.tiles`. Along
them, ``lax.reduce_window`` takes most of the time. So the sums of short rows add shifted arrays
there, one padding per element, and the sums along the other axes are part of the same kernel. By
the figures of the compiler for v5e, 3x3 averages on 12 images of 56x56x128 in bfloat16 then take
47 us with their gradient instead of 355, and 5x5 averages in float32 47 us instead of 235. Where
the batch is along tiles, 5x5 would take up to 1.35 times as long in bfloat16.

A single image in 32 bits has rows along tiles in a network, but alone it may have channels only.
Then 3x3 averages of 28x28x192 take 10 us instead of 4, between convolutions 3.1 instead of 5.4.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from jax import Array, lax

from ..._geometry.resolve import Geometry
from .. import tuning
from ..request import Operation
from . import tiles
from .axis_slicing import pad


def with_rows_shifted(
    compute: Callable[..., Any], operation: Operation, geometry: Geometry, shape: Sequence[Any]
) -> Callable[..., Any]:
    """Return ``compute``, after sums of shifted arrays along the last axis if they are faster.

    Args:
      compute: a function ``compute(x, geometry=geometry)`` that sums windows, or its transpose.
      operation: "reduce" or "sum_transpose".
      geometry: the windows.
      shape: the shape of the array.
    """
    if not are_shifted(geometry, shape):
        return compute
    *others, (axis, position) = geometry.placed
    taps = [axis.pad_low - t * axis.dilation for t in range(axis.kernel)]
    is_transpose = operation == "sum_transpose"
    lows, length = ([-low for low in taps], axis.size) if is_transpose else (taps, axis.out)
    columns = Geometry(*map(tuple, zip(*others, strict=True)))
    return lambda x: compute(_sum_shifted(x, position, lows, length), geometry=columns)


def are_shifted(geometry: Geometry, shape: Sequence[Any]) -> bool:
    """Return whether sums of windows of an array, or their transpose, add shifted arrays."""
    *others, last = geometry.kernel
    has_rows = last > 1 and max(others, default=1) > 1
    is_short = max(geometry.kernel) <= tuning.LONGEST_SHIFTED_ON_TPU
    is_dense = geometry.axes[-1].stride == 1
    return has_rows and is_short and is_dense and tiles.has_pooled_axis(shape, geometry)


def _sum_shifted(x: Array, position: int, lows: Sequence[int], length: int) -> Array:
    """Return the sum of the arrays that begin with each number of zeros, all of one length."""
    shifted = (pad(x, position, low, length - x.shape[position] - low) for low in lows)
    return functools.reduce(lax.add, shifted)
