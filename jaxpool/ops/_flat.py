"""Values to the cells that flat indices name.

Let source ``s`` hold the value ``y[s]`` and name the cell ``c[s]``. With ``w[i]`` the last source,
row-major, that names cell ``i``,

    out[i] = y[w[i]],  0 where no source names the cell,
    d out[i] = dy[w[i]].

Anywhere. ``w`` is a maximum of source numbers, scattered to the cells they name: integers, and a
maximum, so the order in which a device runs through them does not matter. Both the map and its
transpose are then gathers: of values by ``w``, and of cotangents by ``c`` where ``w[c[s]] == s``.

In blocks. Indices mostly come from windows side by side. If every source names a cell of its own
block, then no two name the same, and the map is that of tap numbers, without a scatter. On CPU,
which scatters one number after the other, the indices are looked at and take that way if they can.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .. import _indices
from .._batching import any_in_batch
from .._cut import numbers
from .._errors import message
from .._fence import computed_once
from .._linear import rule_for, with_transpose
from .._pick import empty, tap_dtype
from .._window import Axis, Geometry, cdiv
from ._taps import read, send

INT32_MAX = 2**31 - 1

_MOST_TAPS = 16
"""Cells of a block up to which indices are compared with each of them."""

_ELSEWHERE = 254
"""The tap of a source that names a cell of another block."""


class Target(NamedTuple):
    """What is written to.

    Attributes:
      shape: of the result.
      axes: the axes that an index counts, in array order, negative.
      blocks: a window side by side for each source, to which its index may keep; or None.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    blocks: Geometry | None

    @property
    def size(self) -> int:
        """Cells that an index counts."""
        return math.prod(self.shape[axis] for axis in self.axes)

    @property
    def strides(self) -> dict[int, int]:
        """For each axis that is counted, what a step along it adds to an index."""
        after = [self.shape[axis] for axis in self.axes]
        return {axis: math.prod(after[n + 1 :]) for n, axis in enumerate(self.axes)}


def target(
    op: str,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    sources: tuple[int, ...],
    positions: tuple[int, ...],
) -> Target:
    """Return the target for sources of the shape ``sources`` that were pooled along ``positions``.

    Raise ValueError if int32 cannot count its cells or the sources.
    """
    blocks = None
    if all(isinstance(shape[axis], int) for axis in axes):
        counted = tuple(position for position in positions if position in axes)
        blocks = _blocks_of(counted, shape, sources)
    found = Target(shape, axes, blocks)
    _check_size(op, found.size)
    _check_size(op, math.prod(sources[axis] for axis in axes))
    return found


def _check_size(op: str, cells: int) -> None:
    if not _indices.is_at_most(op, cells, INT32_MAX, "indices may not fit int32"):
        raise ValueError(
            message(
                op,
                f"an index would count {cells} cells.",
                f"Cells are counted in int32, up to {INT32_MAX}.",
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
    return geometry if 1 < geometry.taps <= _MOST_TAPS else None


def write(y: Array, indices: Array, target: Target) -> Array:
    """Return zeros with ``y[s]`` at ``indices[s]``; the last write wins, none goes outside.

    Differentiable in ``y``.
    """
    return rule_for(y, _write)(y, indices, target)


def inside(indices: Array, limit: int) -> Array:
    """Return where an index is in ``[0, limit)``."""
    if indices.dtype.itemsize < 4:  # the limit may be larger than the dtype holds
        indices = indices.astype(jnp.int32)
    return (indices >= 0) & (indices < jnp.asarray(limit, indices.dtype))


def _cells(indices: Array, target: Target) -> Array:
    """Indices in int32, -1 for those outside."""
    return jnp.where(inside(indices, target.size), indices.astype(jnp.int32), -1)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _write(y: Array, indices: Array, target: Target) -> Array:
    y, indices = _finished(y, indices, target)

    def anywhere(cells: Array) -> Array:
        values, named = (_planes(a, target.axes) for a in (y, cells))
        return _result(_take(values, _writer(named, target.size), 0), target)

    return _either(indices, target, functools.partial(send, y), anywhere)


@_write.defjvp
def _write_jvp(target: Target, primals, tangents):
    y, indices = _finished(primals[0], primals[1], target)

    def in_blocks(taps: Array, blocks: Geometry) -> tuple[Array, Array]:
        return send(y, taps, blocks), _cells(indices, target)

    def anywhere(cells: Array) -> tuple[Array, Array]:
        values, named = (_planes(a, target.axes) for a in (y, cells))
        writer = _writer(named, target.size)
        source = lax.broadcasted_iota(jnp.int32, named.shape, 1)
        alone = jnp.where(_take(writer, named, -1) == source, named, -1)
        return _result(_take(values, writer, 0), target), _whole(alone, cells.shape, target.axes)

    out, alone = _either(indices, target, in_blocks, anywhere)
    there, back = (functools.partial(f, alone=alone, target=target) for f in (_write_alone, _read))
    return out, with_transpose(there, back, tangents[0], target.shape)


def _write_alone(values: Array, alone: Array, target: Target) -> Array:
    """:func:`write` where no two sources name one cell; linear in the values."""

    def anywhere(cells: Array) -> Array:
        planes, named = (_planes(a, target.axes) for a in (values, cells))
        return _result(_put(planes, named, target.size), target)

    return _either(alone, target, functools.partial(send, values), anywhere)


def _read(g: Array, alone: Array, target: Target) -> Array:
    """Return ``g`` at the cell of each source, the transpose."""

    def anywhere(cells: Array) -> Array:
        planes, named = (_planes(a, target.axes) for a in (g, cells))
        return _whole(_take(planes, named, 0), cells.shape, target.axes)

    return _either(alone, target, functools.partial(read, g), anywhere)


def _finished(y: Array, indices: Array, target: Target) -> tuple[Array, ...]:
    """Both, not as the pooling that they may come from, to be done anew for every cell read.

    A choice at run time finishes them by itself.
    """
    return (y, indices) if target.blocks is not None else computed_once(y, indices)


def _result(planes: Array, target: Target) -> Array:
    return _whole(planes, target.shape, target.axes)


# --- in blocks: as by tap numbers -----------------------------------------------------------------


def _either(
    indices: Array,
    target: Target,
    in_blocks: Callable[[Array, Geometry], Any],
    anywhere: Callable[[Array], Any],
) -> Any:
    """On CPU go by the taps of the blocks if every index keeps to its own, else by the cells."""
    blocks, by_cells = target.blocks, lambda indices: anywhere(_cells(indices, target))
    if blocks is None:
        return by_cells(indices)

    def look(indices: Array) -> Any:
        (taps,) = computed_once(_taps(_cells(indices, target), target, blocks))
        by_taps = lambda _: in_blocks(taps, blocks)  # noqa: E731
        return lax.cond(any_in_batch(taps == _ELSEWHERE), by_cells, by_taps, indices)

    return lax.platform_dependent(indices, cpu=look, default=by_cells)


def _taps(cells: Array, target: Target, blocks: Geometry) -> Array:
    """The cell of its block that each source names, the mark of none, or ``_ELSEWHERE``."""
    strides = target.strides
    axes = dict(zip(blocks.positions, blocks.axes, strict=True))
    first = jnp.zeros((), jnp.int32)
    for axis, stride in strides.items():
        step = axes[axis].stride if axis in axes else 1
        place = numbers(cells.shape[axis], axis, cells.ndim, jnp.int32) * step
        first = first + place * stride
    ahead, dtype = cells - first, tap_dtype(blocks)
    taps = jnp.where(cells < 0, empty(dtype), np.asarray(_ELSEWHERE, dtype))
    for number, tap in enumerate(itertools.product(*map(range, blocks.kernel))):
        hit = ahead == sum(k * strides[p] for k, p in zip(tap, blocks.positions, strict=True))
        for k, (position, axis) in zip(tap, axes.items(), strict=True):
            if axis.overhang:
                start = numbers(axis.out, position, cells.ndim, jnp.int32) * axis.stride
                hit = hit & (start + k < axis.size)
        taps = jnp.where(hit, np.asarray(number, dtype), taps)
    return taps


# --- anywhere: a maximum of source numbers, and gathers -------------------------------------------


def _planes(a: Array, axes: tuple[int, ...]) -> Array:
    """Return ``a`` as ``[before, counted, after]``, with the axes that an index counts made one."""
    together = _together(axes)
    a = jnp.moveaxis(a, axes, together)
    first, end = together[0] % a.ndim, together[-1] % a.ndim + 1
    parts = a.shape[:first], a.shape[first:end], a.shape[end:]
    return a.reshape([math.prod(part) for part in parts])


def _whole(planes: Array, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """Return the array of ``shape`` whose planes these are."""
    together = _together(axes)
    moved = jax.eval_shape(lambda: jnp.moveaxis(jnp.zeros(shape), axes, together)).shape
    return jnp.moveaxis(planes.reshape(moved), together, axes)


def _together(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Where the axes go to be neighbours."""
    adjacent = all(b == a + 1 for a, b in itertools.pairwise(axes))
    return axes if adjacent else tuple(range(-len(axes), 0))


def _writer(cells: Array, size: int) -> Array:
    """For each cell ``[b, i, c]``, the last source ``s`` of the plane that names it, or -1."""

    def plane(source: Array, cells: Array, size: int) -> Array:
        return jnp.full(size, -1, jnp.int32).at[_or_past(cells, size)].max(source, mode="drop")

    return _scattered(plane, lax.broadcasted_iota(jnp.int32, cells.shape, 1), cells, size)


def _put(values: Array, cells: Array, size: int) -> Array:
    """``out[b, cells[b, s, c], c] = values[b, s, c]``; no two cells of a plane are equal."""

    def plane(values: Array, cells: Array, size: int) -> Array:
        return jnp.zeros(size, values.dtype).at[_or_past(cells, size)].set(values, mode="drop")

    return _scattered(plane, values, cells, size)


def _or_past(cells: Array, size: int) -> Array:
    """Cells, and for -1 a cell past the end, which is dropped; JAX would wrap a negative one."""
    return jnp.where(cells < 0, size, cells)


def _scattered(plane: Callable[..., Array], values: Array, cells: Array, size: int) -> Array:
    """Run ``plane(values, cells, size)``, which makes planes of ``size`` cells."""
    before, _, after = cells.shape
    total = before * size * after
    return _by_planes(
        lambda v, c: plane(v.ravel(), _flat(c, size), total).reshape(before, size, after),
        functools.partial(plane, size=size),
        values,
        cells,
        total,
    )


def _take(values: Array, index: Array, none: int) -> Array:
    """``values[b, index[b, i, c], c]``, and ``none`` where the index is -1."""

    def plane(values: Array, index: Array) -> Array:
        taken = values.at[jnp.maximum(index, 0)].get(mode="clip")
        return jnp.where(index < 0, np.asarray(none, values.dtype), taken)

    return _by_planes(
        lambda v, i: plane(v.ravel(), _flat(i, v.shape[1])).reshape(i.shape),
        plane,
        values,
        index,
        values.size,
    )


def _flat(index: Array, size: int) -> Array:
    """``index`` into planes of ``size`` cells as an index into all of them at once; -1 stays."""
    b, c = (lax.broadcasted_iota(jnp.int32, index.shape, axis) for axis in (0, 2))
    return jnp.where(index < 0, -1, (b * size + index) * index.shape[2] + c).ravel()


def _by_planes(
    at_once: Callable[..., Array],
    plane: Callable[..., Array],
    values: Array,
    index: Array,
    total: int,
) -> Array:
    """Run over the planes ``[b, :, c]``: on CPU all at once, which is quicker there.

    Elsewhere as a batch, which keeps a plane on the device that holds it.
    """
    batch = jax.vmap(jax.vmap(plane, 1, 1))
    sizes = (total, values.size, index.size)
    if any(not isinstance(size, int) or size > INT32_MAX for size in sizes):
        return batch(values, index)
    return lax.platform_dependent(values, index, cpu=at_once, default=batch)
