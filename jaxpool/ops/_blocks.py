"""Sums and maxima over windows side by side: blocks, each of which may be a whole axis.

An axis of ``out * length`` cells is split into ``(out, length)``, and the lengths are reduced by
plain reductions over all pooled axes at once. The way back is one comparison for each cell.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._errors import message
from .._fence import computed_once
from .._linear import with_transpose
from .._reductions import MAX, SUM, Reduction, accumulator, identity_array
from ..lowerings._cut import empty, numbers
from ..lowerings.reshape import reduce_axes

_NOWHERE = 2**31 - 1
_MOST_UNROLLED = 64


class Blocks(NamedTuple):
    """Blocks of an array.

    Attributes:
      positions: the array axes that are cut, negative.
      lengths: cells of a block along each of them.
      last_nan: among the NaN of a block the last one counts as its largest cell, not the first.
    """

    positions: tuple[int, ...]
    lengths: tuple[int, ...]
    last_nan: bool = False

    def split_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return ``shape`` with every axis that is cut as two, blocks and cells."""
        cuts = dict(zip(self.positions, self.lengths, strict=True))
        split: list[int] = []
        for position, size in zip(range(-len(shape), 0), shape, strict=True):
            split += [size // cuts[position], cuts[position]] if position in cuts else [size]
        return tuple(split)

    def cell_axes(self, rank: int) -> tuple[int, ...]:
        """The axes of the cells in the split shape of an array of ``rank`` axes."""
        return tuple(rank + p + n + 1 for n, p in enumerate(sorted(self.positions)))

    def taps(self, rank: int) -> Array:
        """The number of every cell in its block, row-major, in the rank of the split shape."""
        places = dict(zip(sorted(self.positions), self.cell_axes(rank), strict=True))
        taps = jnp.zeros((1,) * (rank + len(self.positions)), jnp.int32)
        for position, length in zip(self.positions, self.lengths, strict=True):
            taps = taps * length + numbers(length, places[position], taps.ndim, jnp.int32)
        return taps

    @property
    def are_unrolled(self) -> bool:
        """Whether blocks are few cells, and not along the contiguous axis."""
        known = all(isinstance(length, int) for length in self.lengths)
        plain = not self.last_nan and -1 not in self.positions
        return known and plain and math.prod(self.lengths) <= _MOST_UNROLLED

    @property
    def tap_dtype(self) -> np.dtype:
        """uint8 while every tap and the mark of none fit, else int32, also if that is unknown."""
        known = all(isinstance(length, int) for length in self.lengths)
        return np.dtype(np.uint8 if known and math.prod(self.lengths) <= 255 else np.int32)


def check_not_empty(op: str, shape: Sequence[int], positions: Sequence[int]) -> None:
    """Raise if a pooled axis has no cell."""
    for index, position in enumerate(positions):
        if shape[position] < 1:
            raise ValueError(
                message(
                    op,
                    f"pooled axis {index} has size 0.",
                    "A window needs at least one cell on every pooled axis; only batch and channel "
                    "axes may be empty.",
                    "Check the shape and `data_format`.",
                )
            )


def total(x: Array, blocks: Blocks) -> Array:
    """Return the sum of every block."""
    shape = x.shape
    there = lambda x: _reduced(x, blocks, SUM, lax.reduce_sum)  # noqa: E731
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return there(x)

    def back(g: Array) -> Array:
        (g,) = computed_once(g)  # it may come from the sum, which each cell would take again
        return jnp.broadcast_to(_over_cells(g, blocks), blocks.split_shape(shape)).reshape(shape)

    return with_transpose(there, back, x, jax.eval_shape(there, x).shape)


def _reduced(x: Array, blocks: Blocks, reduction: Reduction, plain: Callable[..., Array]) -> Array:
    """``plain(cells, axes)`` of the cells of each block, or what is faster and exact on CPU."""
    axes = blocks.cell_axes(x.ndim)
    return lax.platform_dependent(
        _split(x, blocks),
        cpu=lambda cells: reduce_axes(cells, axes, reduction),
        default=lambda cells: plain(cells, axes),
    )


def largest(x: Array, valid: Array | None, blocks: Blocks) -> Array:
    """Return the largest of the ``valid`` cells of every block; differentiable."""
    rule = _largest if jnp.issubdtype(x.dtype, jnp.inexact) else _largest.fun
    return rule(x, valid, blocks)


# ``y[b] = x[p(b)]`` with ``p`` the first maximum of block ``b``, so ``dy[b] = dx[p(b)]``: linear in
# ``dx``. Its transpose gives cell ``i`` of block ``b`` the cotangent of ``b`` if ``p(b) = i``.


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _largest(x: Array, valid: Array | None, blocks: Blocks) -> Array:
    return _reduced(_filled(x, valid), blocks, MAX, lax.reduce_max)


@_largest.defjvp
def _largest_jvp(blocks: Blocks, primals, tangents):
    (x, valid), (t, _) = primals, tangents
    (values,) = computed_once(_largest(x, valid, blocks))
    return values, _read(t, _taps(x, valid, values, blocks), blocks)


def _filled(x: Array, valid: Array | None) -> Array:
    return x if valid is None else jnp.where(valid, x, identity_array(MAX, np.dtype(x.dtype)))


def _split(x: Array, blocks: Blocks) -> Array:
    return x.reshape(blocks.split_shape(x.shape))


def _over_cells(y: Array, blocks: Blocks) -> Array:
    """One value per block, in the rank of the split shape."""
    return jnp.expand_dims(y, blocks.cell_axes(y.ndim))


def _taps(x: Array, valid: Array | None, values: Array, blocks: Blocks) -> Array:
    """The cell of each block that holds its largest value, or the mark of none."""
    cells = _split(x, blocks)
    hit = (cells == _over_cells(values, blocks)) | (cells != cells)
    if valid is not None:
        hit = hit & _split(valid, blocks)
    narrow = blocks.tap_dtype
    if blocks.are_unrolled:
        return _first(hit, blocks, narrow)
    numbers, last = blocks.taps(x.ndim), math.prod(blocks.lengths) - 1
    if blocks.last_nan:  # counted backwards, the last one is the first
        numbers = jnp.where(cells != cells, last - numbers, numbers)
    taps = jnp.where(hit, numbers, _NOWHERE)
    taps = lax.reduce_min(taps, blocks.cell_axes(x.ndim))
    if blocks.last_nan:
        taps = jnp.where((values != values) & (taps != _NOWHERE), last - taps, taps)
    return jnp.where(taps == _NOWHERE, empty(narrow), taps.astype(narrow))


def _first(hit: Array, blocks: Blocks, dtype: np.dtype) -> Array:
    """The first cell of each block that was hit, cell by cell: reductions of numbers are slow."""
    rank = hit.ndim - len(blocks.positions)
    axes = dict(zip(sorted(blocks.positions), blocks.cell_axes(rank), strict=True))
    found: Any = empty(dtype)
    places = list(itertools.product(*map(range, blocks.lengths)))
    for number, place in reversed(list(enumerate(places))):
        cell = hit
        for position, index in zip(blocks.positions, place, strict=True):
            cell = lax.slice_in_dim(cell, index, index + 1, axis=axes[position])
        cell = lax.squeeze(cell, blocks.cell_axes(rank))
        found = jnp.where(cell, np.asarray(number, dtype), found)
    return found


def _read(t: Array, taps: Array, blocks: Blocks) -> Array:
    """Return the entry of ``t`` at the tap of every block, 0 where there is none."""
    cell_axes = blocks.cell_axes(t.ndim)

    def hit(taps: Array) -> Array:
        return _over_cells(taps, blocks) == blocks.taps(t.ndim).astype(taps.dtype)

    def there(t: Array) -> Array:
        cells = jnp.where(hit(taps), _split(t, blocks), np.zeros((), t.dtype))
        return lax.reduce_sum(cells, cell_axes)

    def back(g: Array) -> Array:
        g, finished = computed_once(g, taps)
        sent = jnp.where(hit(finished), _over_cells(g, blocks), np.zeros((), g.dtype))
        return sent.reshape(t.shape)

    wide = t.astype(accumulator(t.dtype))
    return with_transpose(there, back, wide, taps.shape).astype(t.dtype)
