"""Gather and scatter at any window offsets, by a loop over the taps of a window.

Let ``offset[o]`` be the offset of window ``o``, and ``p(o, t)`` the element that its tap ``t``
reads. Then

    gather(x)[o] = sum over t of x[p(o, t)] where offset[o] = t,
    scatter(g)[i] = sum over o and t of g[o] where offset[o] = t and p(o, t) = i.

The size of the program does not grow with the window, but the cost does (:mod:`..parts.every_tap`).
This is for long windows that overlap and have offsets that are not those of an argmax. Two windows
that contain an element may then disagree about it, so :mod:`..parts.offset_levels`, which treats
windows jointly, does not apply.
"""

import numpy as np
from jax import Array

from ..._geometry.resolve import Geometry
from ..._xla.materialize import materialize
from ..parts.axis_slicing import input_shape, pad_to_windows
from ..parts.every_tap import (
    Reads,
    pad_for_scatter,
    reads_of,
    reduce_taps,
    sum_at_tap,
    sum_named_taps,
)
from ..parts.phases import transpose_padding
from ..request import Request


def unsupported_reason(request: Request) -> str | None:
    """Return None: any offsets of any windows are supported."""
    return None


def gather(x: Array, offsets: Array, geometry: Geometry) -> Array:
    """Return the element of ``x`` at the offset of every window, 0 for the sentinel."""
    padded = pad_to_windows(x, geometry)
    fold, reads = sum_at_tap(x.dtype), reads_of(geometry, offsets.shape)
    return reduce_taps(reads, fold, padded, (offsets,))


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return, for each element, the sum of the values of the windows whose offset selects it."""
    margins = {position: transpose_padding(axis) for axis, position in geometry.placed}
    g, offsets = materialize((g, offsets))  # or XLA:CPU pads g while offsets are still computed
    windows = pad_for_scatter(g, offsets, margins)
    forward = reads_of(geometry, input_shape(g.shape, geometry))

    def shifts(indices: Array) -> list[Array]:
        ends = [axis.span - 1 for axis in geometry.axes]
        return [end - shift for end, shift in zip(ends, forward.shifts(indices), strict=True)]

    unit_strides = (1,) * len(geometry.axes)
    transposed_reads = Reads(geometry.positions, forward.shape, unit_strides, geometry.taps, shifts)
    return sum_named_taps(transposed_reads, *windows)
