"""Values to the elements that flat indices name.

Let source ``s`` hold the value ``y[s]`` and name the element ``c[s]``. With ``w[i]`` the last
source, row-major, that names element ``i``,

    out[i] = y[w[i]],  0 where no source names the element,
    d out[i] = dy[w[i]].

Anywhere. ``w`` is a maximum of source numbers, see ``_lowerings.parts.flat_gather``. The map and
its transpose are then gathers: of values by ``w``, and of cotangents by ``c`` where
``w[c[s]] == s``.

In blocks. Indices mostly come from tiled windows. If every source names an element of its own
block, then no two name the same, and the map is a scatter by window offsets, which needs no scatter
of XLA. On CPU, which scatters one number after the other, the indices are looked at, and this way
is taken if it can be.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._errors import message
from .._geometry.axis import Axis, cdiv
from .._geometry.resolve import Geometry, is_at_most
from .._lowerings import tuning
from .._lowerings.parts.argreduce import offset_dtype, sentinel
from .._lowerings.parts.axis_slicing import each_place, iota
from .._lowerings.parts.flat_gather import INT32_MAX, array_of, planes_of, take, writer
from .._xla.any_in_batch import any_in_batch
from .._xla.by_platform import by_platform
from .._xla.materialize import materialize
from .gather import gather, scatter
from .linear import linear_map
from .rules import selection

_ELSEWHERE = 254
"""The offset of a source that names an element of another block."""


class Target(NamedTuple):
    """What is written to.

    Attributes:
      shape: of the result.
      axes: the axes that an index counts, in array order, negative.
      blocks: a tiled window for each source, in which its index may lie; or None.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    blocks: Geometry | None

    @property
    def size(self) -> int:
        """Elements that an index counts."""
        return math.prod(self.shape[axis] for axis in self.axes)

    @property
    def strides(self) -> dict[int, int]:
        """For each axis that is counted, what a step along it adds to an index."""
        after = [self.shape[axis] for axis in self.axes]
        return {axis: math.prod(after[n + 1 :]) for n, axis in enumerate(self.axes)}


def target(
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    sources: tuple[int, ...],
    positions: tuple[int, ...],
) -> Target:
    """Return the target for sources of the shape ``sources`` that were pooled along ``positions``.

    Raise ValueError if int32 cannot count its elements or the sources.
    """
    blocks = None
    if all(isinstance(shape[axis], int) for axis in axes):
        counted = tuple(position for position in positions if position in axes)
        blocks = _blocks_of(counted, shape, sources)
    found = Target(shape, axes, blocks)
    _check_size(found.size)
    _check_size(math.prod(sources[axis] for axis in axes))
    return found


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
    """One block a source; the last one may be cut short, or leave a rest."""
    axes = []
    for position in positions:
        size, out = shape[position], sources[position]
        length = cdiv(2 * size - out, 2 * out) if out else 0
        if length < 1 or (out - 1) * length >= size:
            return None
        axes.append(Axis(size, length, length, 1, 0, 0, max(0, out * length - size), out))
    geometry = Geometry(tuple(axes), positions)
    return geometry if 1 < geometry.taps <= tuning.MOST_COMPARED_IN_BLOCK else None


def write(y: Array, indices: Array, target: Target) -> Array:
    """Return zeros with ``y[s]`` at ``indices[s]``; the last write stays, none goes outside.

    Differentiable in ``y``.
    """
    if y.dtype == jnp.bool_:
        return write(y.astype(jnp.uint8), indices, target).astype(y.dtype)
    reduce, argreduce = (functools.partial(f, target=target) for f in (_write, _write_and_find))

    def move(y: Array, last: Array, value: Array) -> Array:
        forward, transpose = (
            functools.partial(f, indices=last, target=target) for f in (_write, _read)
        )
        return linear_map(forward, transpose, y, target.shape, value)

    return selection(reduce, argreduce, move, y, indices)  # pyright: ignore


def inside(indices: Array, limit: int) -> Array:
    """Return where an index is in ``[0, limit)``."""
    if indices.dtype.itemsize < 4:  # the limit may be larger than the dtype holds
        indices = indices.astype(jnp.int32)
    return (indices >= 0) & (indices < jnp.asarray(limit, indices.dtype))


def checked(indices: Array, target: Target) -> Array:
    """Indices in int32, -1 for those outside."""
    return jnp.where(inside(indices, target.size), indices.astype(jnp.int32), -1)


def _write(y: Array, indices: Array, target: Target) -> Array:
    y, indices = _materialized(y, indices, target)

    def anywhere(index: Array) -> Array:
        values, named = (planes_of(a, target.axes) for a in (y, index))
        return _result(take(values, writer(named, target.size), 0), target)

    return _either(indices, target, functools.partial(_scatter, y), anywhere)


def _write_and_find(y: Array, indices: Array, target: Target) -> tuple[Array, Array]:
    """The result, and the indices of the last sources of their elements, -1 for other sources."""
    y, indices = _materialized(y, indices, target)

    def in_blocks(offsets: Array, blocks: Geometry) -> tuple[Array, Array]:
        return _scatter(y, offsets, blocks), checked(indices, target)

    def anywhere(index: Array) -> tuple[Array, Array]:
        values, named = (planes_of(a, target.axes) for a in (y, index))
        last_source = writer(named, target.size)
        source = lax.broadcasted_iota(jnp.int32, named.shape, 1)
        last = jnp.where(take(last_source, named, -1) == source, named, -1)
        result = _result(take(values, last_source, 0), target)
        return result, array_of(last, index.shape, target.axes)

    return _either(indices, target, in_blocks, anywhere)


def _read(g: Array, indices: Array, target: Target) -> Array:
    """Return ``g`` at the element of each source: the transpose, if no two name the same."""

    def anywhere(index: Array) -> Array:
        planes, named = (planes_of(a, target.axes) for a in (g, index))
        return array_of(take(planes, named, 0), index.shape, target.axes)

    return _either(indices, target, functools.partial(_gather, g), anywhere)


_gather, _scatter = (functools.partial(f, any_offset=True) for f in (gather, scatter))


def _materialized(y: Array, indices: Array, target: Target) -> tuple[Array, ...]:
    """Both, so that the pooling that they may come from is not computed anew for every element.

    A choice at run time stores them by itself.
    """
    return (y, indices) if target.blocks is not None else materialize(y, indices)


def _result(planes: Array, target: Target) -> Array:
    return array_of(planes, target.shape, target.axes)


# --- in blocks, or anywhere -----------------------------------------------------------------------


def _either(
    indices: Array,
    target: Target,
    in_blocks: Callable[[Array, Geometry], Any],
    anywhere: Callable[[Array], Any],
) -> Any:
    """On CPU go by offsets in the blocks if every index keeps to its own, else by indices."""
    blocks, by_index = target.blocks, lambda indices: anywhere(checked(indices, target))
    if blocks is None:
        return by_index(indices)

    def look(indices: Array) -> Any:
        (offsets,) = materialize(_offsets(checked(indices, target), target, blocks))
        by_offset = lambda _: in_blocks(offsets, blocks)  # noqa: E731
        return lax.cond(any_in_batch(offsets == _ELSEWHERE), by_index, by_offset, indices)

    return by_platform({"cpu": look, "gpu": by_index, "tpu": by_index}, indices)


def _offsets(indices: Array, target: Target, blocks: Geometry) -> Array:
    """Which element of its block each source names, the sentinel, or ``_ELSEWHERE``."""
    strides = target.strides
    axes = dict(zip(blocks.positions, blocks.axes, strict=True))
    first = jnp.zeros((), jnp.int32)
    for axis, stride in strides.items():
        step = axes[axis].stride if axis in axes else 1
        coordinate = iota(indices.shape[axis], axis, indices.ndim, jnp.int32) * step
        first = first + coordinate * stride
    ahead, dtype = indices - first, offset_dtype(blocks)
    offsets = jnp.where(indices < 0, sentinel(dtype), np.asarray(_ELSEWHERE, dtype))
    for number, tap in enumerate(each_place(blocks)):
        hit = ahead == sum(k * strides[p] for k, p in zip(tap, blocks.positions, strict=True))
        for k, (position, axis) in zip(tap, axes.items(), strict=True):
            if axis.overhang:
                start = iota(axis.out, position, indices.ndim, jnp.int32) * axis.stride
                hit = hit & (start + k < axis.size)
        offsets = jnp.where(hit, np.asarray(number, dtype), offsets)
    return offsets
