"""Unpooling by window offsets, as in the backward pass of max pooling, without a scatter.

Values go to the argmax as cotangents do; the transpose is the gather of that rule. A window stays
out where a later window names its element: window ``o + d`` names the element of tap ``t`` of
window ``o`` by tap ``t - d * stride / dilation``, so a comparison of offsets finds it.

A flat index whose window is known is an offset, unless it names an element outside its window.
Whether one does is asked at run time; if so, all are written as flat indices.
"""

import functools
import itertools
from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._autodiff import flat_index
from .._autodiff.gather import gather, scatter
from .._autodiff.linear import linear_map
from .._geometry.axis import Axis
from .._geometry.resolve import Geometry
from .._lowerings.parts.argreduce import offset_dtype, sentinel
from .._lowerings.parts.axis_slicing import pad
from .._lowerings.parts.every_tap import digits
from .._lowerings.tuning import MOST_SLICED_OFFSETS
from .._xla.any_in_batch import any_in_batch

_MOST_TAPS = min(MOST_SLICED_OFFSETS, 127)  # offsets of overlapping windows are int8 below


def put_at_offsets(y: Array, indices: Array, shape: tuple[int, ...], geometry: Geometry) -> Array:
    """Return zeros with ``y`` at window offsets of windows over a result of ``shape``.

    An offset outside the window is dropped.
    """
    offsets = jnp.where(flat_index.inside(indices, geometry.taps), indices.astype(jnp.int32), -1)
    if not _needs_no_scatter(geometry):
        positions = geometry.positions
        target = flat_index.target(shape, positions, y.shape, positions)
        return flat_index.write(y, _flat_indices(offsets, geometry), target)
    return _put(y, offsets.astype(offset_dtype(geometry)), shape, geometry)


def put_at_indices(
    y: Array, indices: Array, target: flat_index.Target, geometry: Geometry
) -> Array:
    """Return :func:`flat_index.write`, by window offsets if every index is in its own window."""
    known = all(isinstance(target.shape[axis], int) for axis in target.axes)
    if not known or not _needs_no_scatter(geometry):
        return flat_index.write(y, indices, target)
    offsets, elsewhere = _offsets(flat_index.checked(indices, target), target, geometry)
    return lax.cond(
        any_in_batch(elsewhere),
        lambda y, indices, _: flat_index.write(y, indices, target),
        lambda y, _, offsets: _put(y, offsets, target.shape, geometry),
        *(y, indices, offsets),
    )


def _needs_no_scatter(geometry: Geometry) -> bool:
    return geometry.is_non_overlapping or geometry.taps <= _MOST_TAPS


def _put(y: Array, offsets: Array, shape: tuple[int, ...], geometry: Geometry) -> Array:
    offsets = _last_writers(offsets, geometry)
    forward, transpose = (
        functools.partial(f, offsets=offsets, geometry=geometry, any_offset=True)
        for f in (scatter, gather)
    )
    if jnp.issubdtype(y.dtype, jnp.inexact):
        return linear_map(forward, transpose, y, shape)
    return forward(y.astype(jnp.uint8) if y.dtype == jnp.bool_ else y).astype(y.dtype)


def _last_writers(offsets: Array, geometry: Geometry) -> Array:
    """The offsets, the sentinel for a window whose element a later window names."""
    shifts = list(_shifts(geometry))
    if not shifts:
        return offsets
    overwritten = _overwritten(offsets, geometry, shifts)
    # A branch keeps XLA from comparing the windows anew wherever an offset is read.
    some = any_in_batch(overwritten)
    return lax.cond(
        some, lambda: jnp.where(overwritten, sentinel(offsets.dtype), offsets), lambda: offsets
    )


Shift = tuple[tuple[int, int], ...]
"""Per pooled axis: distance to a later window, and of a shared element to its start."""


def _shifts(geometry: Geometry) -> Iterator[Shift]:
    """Every way in which a later window, row-major, can share an element with a window."""
    for shift in itertools.product(*map(_axis_shifts, geometry.axes)):
        if tuple(windows for windows, _ in shift) > (0,) * len(shift):
            yield shift


def _axis_shifts(axis: Axis) -> Iterator[tuple[int, int]]:
    most = min((axis.span - 1) // axis.stride, axis.out - 1)
    for windows in range(-most, most + 1):
        taps, rest = divmod(windows * axis.stride, axis.dilation)
        if not rest:
            yield windows, taps


def _overwritten(offsets: Array, geometry: Geometry, shifts: list[Shift]) -> Array:
    """Whether a later window names the element that a window names."""
    offsets = offsets.astype(jnp.int8)  # -1 is the sentinel
    on_axes = digits(offsets, geometry.kernel)
    overwritten = jnp.zeros(offsets.shape, bool)
    for shift in shifts:
        later, wanted, reads = offsets, jnp.zeros((), jnp.int8), offsets >= 0
        for axis, position, digit, (windows, nearer) in zip(
            geometry.axes, geometry.positions, on_axes, shift, strict=True
        ):
            later = pad(later, position, -windows, windows, sentinel(offsets.dtype))
            tap = digit - np.int8(nearer)
            reads = reads & (tap >= 0) & (tap < axis.kernel)
            wanted = wanted * np.int8(axis.kernel) + tap
        overwritten = overwritten | (reads & (later == wanted))
    return overwritten


def _offsets(indices: Array, target: flat_index.Target, geometry: Geometry) -> tuple[Array, Array]:
    """Offsets of flat indices, the sentinel for -1, and where an index is outside its window."""
    axes = {position % indices.ndim: axis for axis, position in geometry.placed}
    offsets, inside, step = jnp.zeros((), jnp.int32), indices >= 0, 1
    rest = indices
    for position in (axis % indices.ndim for axis in reversed(target.axes)):
        size, axis = target.shape[position], axes.get(position)
        place, rest = rest % np.int32(size), rest // np.int32(size)
        source = lax.broadcasted_iota(jnp.int32, indices.shape, position)
        if axis is None:
            inside = inside & (place == source)
            continue
        ahead = place - (source * np.int32(axis.stride) - np.int32(axis.pad_low))
        inside = inside & (ahead >= 0) & (ahead < axis.span) & (ahead % axis.dilation == 0)
        offsets, step = offsets + ahead // axis.dilation * step, step * axis.kernel
    dtype = offset_dtype(geometry)
    offsets = jnp.where(inside, offsets.astype(dtype), sentinel(dtype))
    return offsets, (indices >= 0) & ~inside


def _flat_indices(offsets: Array, geometry: Geometry) -> Array:
    """Offsets as indices, flat over the pooled axes; -1 for the sentinel and for padding."""
    element, real = jnp.zeros((), jnp.int32), offsets >= 0
    on_axes = digits(offsets, geometry.kernel)
    for axis, position, digit in zip(geometry.axes, geometry.positions, on_axes, strict=True):
        window = lax.broadcasted_iota(jnp.int32, offsets.shape, offsets.ndim + position)
        place = window * axis.stride - axis.pad_low + digit * axis.dilation
        real = real & (place >= 0) & (place < axis.size)
        element = element * axis.size + place
    return jnp.where(real, element, -1)
