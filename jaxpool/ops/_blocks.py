"""Sums and maxima over windows side by side: blocks, each of which may be a whole axis.

An axis of ``out * length`` cells is split into ``(out, length)``, and the lengths are reduced as
:mod:`jaxpool.lowerings.reshape` does. The way back is one comparison for each cell.
"""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._errors import message
from .._fence import computed_once
from .._linear import with_transpose
from .._reductions import MAX, MAX_LAST_NAN, SUM, accumulator, identity_array
from ..lowerings.reshape import cell_axes, cell_numbers, reduce_axes, winners


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
        return cell_axes(self.positions, rank)

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
    there = lambda x: reduce_axes(_split(x, blocks), blocks.cell_axes(x.ndim), SUM)  # noqa: E731
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return there(x)

    def back(g: Array) -> Array:
        (g,) = computed_once(g)  # it may come from the sum, which each cell would take again
        return jnp.broadcast_to(_over_cells(g, blocks), blocks.split_shape(shape)).reshape(shape)

    return with_transpose(there, back, x, jax.eval_shape(there, x).shape)


def largest(x: Array, valid: Array | None, blocks: Blocks) -> Array:
    """Return the largest of the ``valid`` cells of every block; differentiable."""
    rule = _largest if jnp.issubdtype(x.dtype, jnp.inexact) else _largest.fun
    return rule(x, valid, blocks)


# ``y[b] = x[p(b)]`` with ``p`` the first maximum of block ``b``, so ``dy[b] = dx[p(b)]``: linear in
# ``dx``. Its transpose gives cell ``i`` of block ``b`` the cotangent of ``b`` if ``p(b) = i``.


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _largest(x: Array, valid: Array | None, blocks: Blocks) -> Array:
    cells = _split(_filled(x, valid), blocks)
    return reduce_axes(cells, blocks.cell_axes(x.ndim), MAX)


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
    present = None if valid is None else _split(valid, blocks)
    rule = MAX_LAST_NAN if blocks.last_nan else MAX
    axes = blocks.cell_axes(x.ndim)
    return winners(_split(x, blocks), present, values, axes, rule, blocks.tap_dtype)


def _read(t: Array, taps: Array, blocks: Blocks) -> Array:
    """Return the entry of ``t`` at the tap of every block, 0 where there is none."""
    axes = blocks.cell_axes(t.ndim)

    def hit(taps: Array) -> Array:
        cells = cell_numbers(blocks.split_shape(t.shape), axes, taps.dtype)
        return _over_cells(taps, blocks) == cells

    def there(t: Array) -> Array:
        cells = jnp.where(hit(taps), _split(t, blocks), np.zeros((), t.dtype))
        return reduce_axes(cells, axes, SUM)

    def back(g: Array) -> Array:
        g, finished = computed_once(g, taps)
        sent = jnp.where(hit(finished), _over_cells(g, blocks), np.zeros((), g.dtype))
        return sent.reshape(t.shape)

    wide = t.astype(accumulator(t.dtype))
    return with_transpose(there, back, wide, taps.shape).astype(t.dtype)
