"""Reduce blocks of elements, and then windows of whole blocks: for long windows at long strides.

Let ``g`` be the greatest common divisor of the kernel ``K`` and the stride ``S``. A window consists
of ``K / g`` blocks of ``g`` elements, and the next window begins ``S / g`` blocks later:

    b[i] = combine over j of x[i * g - pad_low + j],    y[o] = combine over t of b[o * S / g + t].

Blocks do not overlap, so each element is read once, and windows read an array that is ``g`` times
shorter. The transpose of a sum repeats, for each element of a block, the sum of the windows that
contain the block.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry
from ..._xla.by_platform import by_platform
from ..._xla.materialize import materialize
from ...reductions import Reduction
from .. import tuning
from ..parts.argreduce import (
    ValueOffset,
    add_offset,
    offset_dtype,
    reduce_unordered_pairs,
    sentinel,
    unravel_offsets,
)
from ..parts.axis_slicing import each_tap, elements_at
from ..request import READ_ONCE, Platform, Request
from . import axis_by_axis, broadcast_steps, doubling, reduce_window, tiled


def unsupported_reason(request: Request) -> str | None:
    """Return why windows do not consist of blocks, or None."""
    if any(axis.dilation > 1 and axis.kernel > 1 for axis in request.geometry.axes):
        return "a dilated window does not consist of blocks"
    if all(_block_length(axis) == 1 for axis in request.geometry.axes):
        return "windows and strides have no common divisor"
    if request.operation != "argreduce":
        return None
    if request.reduction is not None and request.reduction.extremum is None:
        return "a selection other than a maximum or minimum"
    blocks = math.prod(axis.kernel // _block_length(axis) for axis in request.geometry.axes)
    limit = tuning.MAX_SLICED_OFFSETS
    return f"windows of {blocks} blocks; at most {limit} are compared" if blocks > limit else None


def slower_reason(request: Request) -> str | None:
    """Return why the plan prefers another implementation, or None."""
    if request.geometry.is_non_overlapping:
        return READ_ONCE
    if request.operation == "argreduce" and request.platform == "gpu" and request.row_kernel == 1:
        return "no window extends along rows; chains of selects are faster"
    lengths = [_block_length(axis) for axis in request.geometry.axes if axis.out > 1]
    longest = max(lengths, default=1)
    shortest = _min_block(request)
    if longest < shortest:
        return f"blocks of {longest} elements; they are faster from {shortest}"
    return None


def _min_block(request: Request) -> int:
    """Return the number of elements from which blocks are faster."""
    if request.operation == "sum_transpose":
        return tuning.MIN_BLOCK_TRANSPOSED
    selects = request.reduction is not None and request.reduction.extremum is not None
    if request.platform == "cpu" and selects and request.row_kernel > 1:
        return tuning.MIN_ROW_REDUCED
    return tuning.MIN_BLOCK


def reduce(x: Any, geometry: Geometry, reduction: Reduction) -> Any:
    """Return the reduction of every window."""
    on_cpu, elsewhere = (
        functools.partial(_reduce, geometry=geometry, reduction=reduction, platform=platform)
        for platform in ("cpu", "gpu")
    )
    return by_platform(x, cpu=on_cpu, default=elsewhere)


def _reduce(x: Any, geometry: Geometry, reduction: Reduction, platform: Platform) -> Any:
    tiles, windows = _tiles_and_windows(geometry)
    dtype = jax.tree.leaves(x)[0].dtype
    request = Request("reduce", tiles, reduction, dtype, False, platform)
    is_slower_tiled = platform == "cpu" and tiled.slower_reason(request) is not None
    blocks = materialize((reduce_window if is_slower_tiled else tiled).reduce(x, tiles, reduction))
    few = windows.taps <= tuning.MAX_BLOCKS_OF_WINDOW
    return (reduce_window if few else doubling).reduce(blocks, windows, reduction)


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the offset of its argmax, row-major.

    Along several axes, the offsets of consecutive blocks are not in order, so they are compared.
    """
    tiles, windows = _tiles_and_windows(geometry)
    values, offsets = tiled.argreduce(x, valid, tiles, reduction)
    blocks = values, _window_offsets(offsets, tiles, geometry)
    units = [math.prod(geometry.kernel[n + 1 :]) for n in range(len(geometry.axes))]
    pairs = []
    for tap in each_tap(windows):
        steps = zip(tap, tiles.kernel, units, strict=True)
        offset = sum(block * length * unit for block, length, unit in steps)
        pairs.append(add_offset(elements_at(blocks, tap, windows), offset, may_be_empty=True))
    return reduce_unordered_pairs(pairs, reduction)


def _window_offsets(offsets: Array, tiles: Geometry, geometry: Geometry) -> Array:
    """Return offsets in blocks as offsets of the first block of a window; sentinels remain."""
    dtype, total = offset_dtype(geometry), jnp.zeros(offsets.shape, jnp.int32)
    digits = unravel_offsets(offsets.astype(jnp.int32), tiles.kernel)
    for digit, count in zip(digits, geometry.kernel, strict=True):
        total = total * count + digit
    is_empty = offsets == sentinel(offsets.dtype)
    return jnp.where(is_empty, sentinel(dtype), total.astype(dtype))


def sum_transpose(g: Array, geometry: Geometry) -> Array:
    """Return for each element the sum of the values of all windows that contain it."""
    tiles, windows = _tiles_and_windows(geometry)
    few = windows.taps <= tuning.MAX_BLOCKS_OF_WINDOW
    totals = (reduce_window if few else axis_by_axis).sum_transpose(g, windows)
    return broadcast_steps.sum_transpose(materialize(totals), tiles)


def _block_length(axis: Axis) -> int:
    return math.gcd(axis.kernel, axis.stride)


def _tiles_and_windows(geometry: Geometry) -> tuple[Geometry, Geometry]:
    """Return the geometries of the blocks of elements, and of the windows of blocks."""
    tiles, windows = zip(*map(_tile_and_window, geometry.axes), strict=True)
    return Geometry(tiles, geometry.positions), Geometry(windows, geometry.positions)


def _tile_and_window(axis: Axis) -> tuple[Axis, Axis]:
    length = _block_length(axis)
    kernel, stride = axis.kernel // length, axis.stride // length
    blocks = (axis.out - 1) * stride + kernel
    pads = axis.pad_low, axis.pad_high, axis.overhang
    return Axis(axis.size, length, length, 1, *pads, blocks), Axis(
        blocks, kernel, stride, 1, 0, 0, 0, axis.out
    )
