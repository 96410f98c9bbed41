"""Writing values at flat indices, and its derivative.

Source ``s`` has the value ``y[s]`` and the flat index ``c[s]``. If several sources have the same
index, the last one in row-major order wins. With ``w[i]`` the last source of index ``i``,

    out[i] = y[w[i]],  or 0 if no source has the index i,
    d out[i] = dy[w[i]].

By index. ``w`` is a maximum of source numbers, see ``_lowerings.parts.flat_gather``. Both the map
and its transpose are then gathers. The map gathers values at ``w``. The transpose gathers
cotangents at ``c`` for the sources with ``w[c[s]] == s``.

In blocks. Most indices come from tiled windows. The block of a source is the tiled window that it
was pooled from. If every index lies in the block of its source, no two indices are equal, and the
map is a scatter by window offsets, which needs no XLA scatter. XLA:CPU scatters numbers
sequentially, so on CPU the program checks the indices at run time and uses the blocks if it can.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._errors import message
from .._geometry.axis import INT32_MAX, Axis, cdiv
from .._geometry.resolve import Geometry, is_at_most, is_static
from .._lowerings import tuning
from .._lowerings.parts.argreduce import offset_dtype, sentinel
from .._lowerings.parts.axis_slicing import each_tap, iota
from .._lowerings.parts.flat_gather import (
    from_planes,
    last_writer,
    take_from_planes,
    to_planes,
)
from .._xla.any_in_batch import any_in_batch
from .._xla.by_platform import by_platform
from .._xla.materialize import materialize
from .gather import gather, scatter
from .linear import linear_map
from .rules import selection

_OUTSIDE_BLOCK = 254
"""The offset of a source whose index lies outside its block."""


class Target(NamedTuple):
    """The array that is written to, and how indices count its elements.

    Attributes:
      shape: shape of the result.
      axes: the axes that an index counts, in array order, negative.
      blocks: one tiled window for each source, where its index is expected; None if the shapes
        suggest no blocks.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    blocks: Geometry | None

    @property
    def lengths(self) -> list[int]:
        """The lengths of the counted axes."""
        return [self.shape[axis] for axis in self.axes]

    @property
    def size(self) -> int:
        """The number of elements that an index counts."""
        return math.prod(self.lengths)

    @property
    def strides(self) -> dict[int, int]:
        """The increment of an index for one step along each counted axis."""
        return {axis: math.prod(self.lengths[n + 1 :]) for n, axis in enumerate(self.axes)}


def target(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    sources: tuple[int, ...],
    positions: tuple[int, ...],
) -> Target:
    """Return the target for sources of shape ``sources`` that were pooled along ``positions``.

    Raise ValueError if int32 cannot count the elements of the target or the sources.
    """
    blocks = None
    if is_static([shape[axis] for axis in axes]):
        counted = tuple(position for position in positions if position in axes)
        blocks = _blocks_of(counted, shape, sources)
    result = Target(shape, axes, blocks)
    _check_size(result.size)
    _check_size(math.prod(sources[axis] for axis in axes))
    return result


def _check_size(count: int) -> None:
    if not is_at_most(count, INT32_MAX, "indices may not fit int32"):
        raise ValueError(
            message(
                f"an index would count {count} elements.",
                f"Elements are counted in int32, up to {INT32_MAX}.",
                'Unpool parts of the batch, or count fewer axes, as "spatial" does.',
            )
        )


def _blocks_of(
    positions: tuple[int, ...], shape: tuple[int, ...], sources: tuple[int, ...]
) -> Geometry | None:
    """Return tiled windows, one for each source, or None if there are none of a suitable size.

    The last window of an axis may overhang the axis, or leave a remainder of it uncovered.
    """
    axes = []
    for position in positions:
        size, out = shape[position], sources[position]
        length = cdiv(2 * size - out, 2 * out) if out else 0
        if length < 1 or (out - 1) * length >= size:
            return None
        axes.append(Axis(size, length, length, 1, 0, 0, max(0, out * length - size), out))
    geometry = Geometry(tuple(axes), positions)
    return geometry if 1 < geometry.taps <= tuning.MAX_COMPARED_IN_BLOCK else None


def write(y: Array, indices: Array, target: Target) -> Array:
    """Return zeros with ``y[s]`` written at ``indices[s]``; differentiable in ``y``.

    The last write to an element wins. Indices outside the target are ignored.
    """
    if y.dtype == jnp.bool_:
        return write(y.astype(jnp.uint8), indices, target).astype(y.dtype)
    reduce, argreduce = (
        functools.partial(f, target=target) for f in (_write, _write_with_last_indices)
    )

    def write_last(y: Array, last_indices: Array, value: Array) -> Array:
        forward, transpose = (
            functools.partial(f, indices=last_indices, target=target) for f in (_write, _read)
        )
        return linear_map(forward, transpose, y, target.shape, value)

    return selection(reduce, argreduce, write_last, y, indices)  # pyright: ignore


def in_bounds(indices: Array, limit: int) -> Array:
    """Return whether each index is in ``[0, limit)``."""
    if indices.dtype.itemsize < 4:  # the limit may not fit the dtype
        indices = indices.astype(jnp.int32)
    return (indices >= 0) & (indices < jnp.asarray(limit, indices.dtype))


def checked(indices: Array, target: Target) -> Array:
    """Return the indices in int32, with -1 in place of those outside the target."""
    return jnp.where(in_bounds(indices, target.size), indices.astype(jnp.int32), -1)


def _write(y: Array, indices: Array, target: Target) -> Array:
    y, indices = _materialized_unless_blocked(y, indices, target)

    def by_index(index: Array) -> Array:
        values, index_planes = (to_planes(a, target.axes) for a in (y, index))
        written = take_from_planes(values, last_writer(index_planes, target.size), 0)
        return from_planes(written, target.shape, target.axes)

    return _in_blocks_if_possible(indices, target, functools.partial(scatter, y), by_index)


def _write_with_last_indices(y: Array, indices: Array, target: Target) -> tuple[Array, Array]:
    """Return the result, and the indices with -1 for every source that a later one overwrites."""
    y, indices = _materialized_unless_blocked(y, indices, target)

    def in_blocks(offsets: Array, blocks: Geometry) -> tuple[Array, Array]:
        return scatter(y, offsets, blocks), checked(indices, target)

    def by_index(index: Array) -> tuple[Array, Array]:
        values, index_planes = (to_planes(a, target.axes) for a in (y, index))
        last_source = last_writer(index_planes, target.size)
        source = lax.broadcasted_iota(jnp.int32, index_planes.shape, 1)
        last_indices = jnp.where(
            take_from_planes(last_source, index_planes, -1) == source, index_planes, -1
        )
        written = take_from_planes(values, last_source, 0)
        result = from_planes(written, target.shape, target.axes)
        return result, from_planes(last_indices, index.shape, target.axes)

    return _in_blocks_if_possible(indices, target, in_blocks, by_index)


def _read(g: Array, indices: Array, target: Target) -> Array:
    """Return ``g`` at the index of each source: the transpose, if no two indices are equal."""

    def by_index(index: Array) -> Array:
        planes, index_planes = (to_planes(a, target.axes) for a in (g, index))
        return from_planes(take_from_planes(planes, index_planes, 0), index.shape, target.axes)

    return _in_blocks_if_possible(indices, target, functools.partial(gather, g), by_index)


def _materialized_unless_blocked(y: Array, indices: Array, target: Target) -> tuple[Array, ...]:
    """Return both arrays, materialised unless there are blocks.

    Otherwise XLA would recompute the pooling that may have produced them for every element. With
    blocks, the choice at run time stores them anyway.
    """
    return (y, indices) if target.blocks is not None else materialize((y, indices))


# --- in blocks, or by index -----------------------------------------------------------------------


def _in_blocks_if_possible(
    indices: Array,
    target: Target,
    in_blocks: Callable[[Array, Geometry], Any],
    by_index: Callable[[Array], Any],
) -> Any:
    """Return ``in_blocks(...)`` on CPU if every index lies in its block, else ``by_index(...)``."""
    blocks, by_checked_index = target.blocks, lambda indices: by_index(checked(indices, target))
    if blocks is None:
        return by_checked_index(indices)

    def chosen_at_run_time(indices: Array) -> Any:
        offsets = materialize(_offsets_in_blocks(checked(indices, target), target, blocks))
        by_offset = lambda _: in_blocks(offsets, blocks)  # noqa: E731
        return lax.cond(
            any_in_batch(offsets == _OUTSIDE_BLOCK), by_checked_index, by_offset, indices
        )

    return by_platform(indices, cpu=chosen_at_run_time, default=by_checked_index)


def _offsets_in_blocks(indices: Array, target: Target, blocks: Geometry) -> Array:
    """Return the offset of each index in its block; the sentinel for -1, or ``_OUTSIDE_BLOCK``."""
    strides = target.strides
    axes = dict(zip(blocks.positions, blocks.axes, strict=True))
    first_index = jnp.zeros((), jnp.int32)
    for axis, stride in strides.items():
        step = axes[axis].stride if axis in axes else 1
        coordinate = iota(indices.shape[axis], axis, indices.ndim, jnp.int32) * step
        first_index = first_index + coordinate * stride
    relative_index, dtype = indices - first_index, offset_dtype(blocks)
    offsets = jnp.where(indices < 0, sentinel(dtype), np.asarray(_OUTSIDE_BLOCK, dtype))
    for tap_number, tap in enumerate(each_tap(blocks)):
        matches = relative_index == sum(
            k * strides[p] for k, p in zip(tap, blocks.positions, strict=True)
        )
        for k, (position, axis) in zip(tap, axes.items(), strict=True):
            if axis.overhang:
                start = iota(axis.out, position, indices.ndim, jnp.int32) * axis.stride
                matches = matches & (start + k < axis.size)
        offsets = jnp.where(matches, np.asarray(tap_number, dtype), offsets)
    return offsets
