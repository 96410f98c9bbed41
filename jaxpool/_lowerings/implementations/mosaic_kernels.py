"""Two kernels in Pallas for TPU: extremes with their offsets, and the transpose of reading there.

Arrays are (rows, columns, batch, channels): on a TPU a batch lies on sublanes and channels on
lanes, so that a shift or a stride along rows and columns is an address. A block is one row of a few
images and channels. The grid runs over rows innermost, and the rows that later steps need once more
stay in scratch: every array goes through main memory once.

With ``i`` counted from the first step that writes, step ``i`` of the forward kernel holds the rows

    i * stride - pad_low + r,    0 <= r < span,

in scratch, of which the last ``min(stride, span)`` are new. Rows and columns outside the array are
the identity there. Where a window is equal to the identity, all its elements are, and its offset is
that of the first element inside the array: numbers of ``i`` and of the column, as the sentinel is.

Step ``i`` of the transpose writes the elements ``i * stride + r`` with ``0 <= r < stride``. Offset
``t`` of window ``o`` reads such an element where

    o = i + (r + pad_low - t * dilation) / stride,

which is an integer for the offsets of one phase. It holds the windows of all those ``o`` in
scratch. Where there is no window, the offset there is the sentinel, which no element has.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from ..._geometry.axis import Axis, cdiv
from ..._xla.sharding_types import like
from ...reductions import Reduction, identity_array
from .. import tuning
from ..parts.argreduce import ValueOffset, reduce_pairs
from ..parts.axis_slicing import tree_reduce
from ..parts.phases import offsets_by_phase
from ..parts.window_counts import first_inside

_SENTINEL = 255
_LANES = 128


class Tile(NamedTuple):
    """The part of the batch and of the channels that one block holds."""

    images: int
    channels: int


def tile_of(shape: tuple[int, ...], dtype: np.dtype) -> Tile:
    """Whole registers, where the array has as many: 8 sublanes of 32 bits, 128 lanes."""
    images, channels = shape[2:]
    sublanes = 32 // dtype.itemsize
    sublanes = sublanes if images % sublanes == 0 else 8
    return Tile(min(images, sublanes), min(channels, _LANES))


# --- forward --------------------------------------------------------------------------------------


def new_rows(rows: Axis) -> int:
    """Rows that a step reads."""
    return min(rows.stride, rows.span)


def extremes(
    x: Array,
    rows: Axis,
    columns: Axis,
    reduction: Reduction,
    with_offsets: bool,
    interpret: bool,
) -> tuple[Array, ...]:
    """Return the extreme of every window and, if asked, its offset.

    Args:
      x: float32 or bfloat16, (rows, columns, batch, channels).
      rows, columns: the windows.
      reduction: a maximum or minimum.
      with_offsets: whether offsets are asked for.
      interpret: without a TPU.
    """
    tile, new = tile_of(x.shape, np.dtype(x.dtype)), new_rows(rows)
    first = rows.span - new  # of the new rows in scratch
    early = cdiv(first, rows.stride)  # steps that only fill it
    block = (1, columns.size, *tile)
    out = (1, columns.out, *tile)

    def place(r: int) -> Callable[..., Any]:
        row = lambda i: (i - early) * rows.stride - rows.pad_low + first + r  # noqa: E731
        return lambda n, c, i: (jnp.clip(row(i), 0, rows.size - 1), 0, n, c)

    dtypes = (x.dtype, jnp.uint8) if with_offsets else (x.dtype,)
    shape = (rows.out, columns.out, *x.shape[2:])
    body = functools.partial(_extremes_body, rows=rows, columns=columns, reduction=reduction)
    width = (columns.out - 1) * columns.stride + columns.span
    call = pl.pallas_call(
        body,
        grid=_grid(x.shape, tile, early + rows.out),
        in_specs=[pl.BlockSpec(block, place(r)) for r in range(new)],
        out_specs=[_written(out, early)] * len(dtypes),
        out_shape=[like(x, shape, dtype) for dtype in dtypes],
        scratch_shapes=[pltpu.VMEM((rows.span, width, *tile), x.dtype)],
        compiler_params=_PARAMETERS,
        interpret=interpret,
        name="max_pool",
    )
    return tuple(call(*[x] * new))


def _extremes_body(*refs: Any, rows: Axis, columns: Axis, reduction: Reduction) -> None:
    new, comparator = new_rows(rows), reduction.comparator
    assert comparator is not None
    read, written, held = refs[:new], refs[new:-1], refs[-1]
    identity = float(identity_array(reduction, held.dtype))
    early = cdiv(rows.span - new, rows.stride)
    step = pl.program_id(2) - early

    @pl.when(step == -early)
    def _() -> None:
        for r in range(rows.span):
            held[r] = jnp.full(held.shape[1:], identity, held.dtype)

    _hold_rows(held, read, step, rows, columns, identity)

    def window(column: Any) -> tuple[Array, ...]:
        taps = list(_taps(held, rows, columns, column))
        if len(written) == 1:
            prefer = lambda a, b: jnp.where(comparator(b, a), b, a)  # noqa: E731
            return (tree_reduce(prefer, [element for element, _ in taps]).astype(held.dtype),)
        pairs = [(tap, jnp.full(tap.shape, offset, jnp.int32)) for tap, offset in taps]
        value, offset = reduce_pairs(pairs, reduction, may_be_empty=False)
        if rows.pad_low or columns.pad_low or rows.has_empty_window or columns.has_empty_window:
            lowest = _first_inside(rows, columns, step, column)
            offset = jnp.where(value == identity, lowest, offset)
        return value.astype(held.dtype), offset.astype(jnp.uint8)

    def write(column: Any, results: tuple[Array, ...]) -> None:
        for ref, result in zip(written, results, strict=True):
            ref[0, column] = result

    @pl.when(step >= 0)
    def _() -> None:
        _for_each(columns.out, window, write, rows.kernel * columns.kernel)


def _hold_rows(
    held: Any, read: Sequence[Any], step: Array, rows: Axis, columns: Axis, identity: float
) -> None:
    """Move the rows in scratch on by a stride, and put the new ones behind them."""
    first = rows.span - len(read)
    for r in range(first):
        held[r] = held[r + rows.stride]
    inside = max(0, min(columns.size, held.shape[1] - columns.pad_low))
    span = slice(columns.pad_low, columns.pad_low + inside)
    for r, block in enumerate(read if inside else ()):
        row = step * rows.stride - rows.pad_low + first + r
        there = (row >= 0) & (row < rows.size)

        @pl.when(there)
        def _(r: int = r, block: Any = block) -> None:
            held[first + r, span] = block[0, :inside]

        @pl.when(~there)
        def _(r: int = r) -> None:
            held[first + r] = jnp.full(held.shape[1:], identity, held.dtype)


def _taps(held: Any, rows: Axis, columns: Axis, column: Any) -> Iterator[tuple[Array, int]]:
    """The elements of a window in order, each with its offset."""
    offsets = itertools.product(range(rows.kernel), range(columns.kernel))
    for offset, (t, u) in enumerate(offsets):
        at = column * columns.stride + u * columns.dilation
        yield held[t * rows.dilation, at].astype(jnp.float32), offset


def _first_inside(rows: Axis, columns: Axis, row: Any, column: Any) -> Any:
    """The first offset of a window that reads an element, the sentinel if none does."""
    t, some_row = _first_tap(rows, row)
    u, some_column = _first_tap(columns, column)
    return jnp.where(some_row & some_column, t * columns.kernel + u, _SENTINEL)


def _first_tap(axis: Axis, window: Any) -> tuple[Any, Any]:
    start = window * axis.stride - axis.pad_low
    tap = first_inside(axis, start)
    return tap, (tap < axis.kernel) & (start + tap * axis.dilation < axis.size)


# --- transpose ------------------------------------------------------------------------------------


def holders(axis: Axis) -> list[list[tuple[int, int]]]:
    """For each phase of an axis, the offsets that read its elements, each with ``o - i``."""
    found = offsets_by_phase(axis, range(axis.kernel))
    return [found.get(phase, []) for phase in range(axis.stride)]


def shifts(axis: Axis) -> range:
    """The range of ``o - i`` over all phases."""
    every = [shift for phase in holders(axis) for _, shift in phase]
    return range(min(every), max(every) + 1)


def scatter(g: Array, offsets: Array, rows: Axis, columns: Axis, interpret: bool) -> Array:
    """Return the sum, for each element, of the values of the windows whose offset names it.

    Args:
      g: values of the windows, float32 or bfloat16, (rows, columns, batch, channels).
      offsets: of the windows, row-major, uint8.
      rows, columns: the windows.
      interpret: without a TPU.
    """
    tile, reach = tile_of(g.shape, np.dtype(g.dtype)), shifts(rows)
    early, beside = len(reach) - 1, shifts(columns)
    low = max(0, -beside[0])  # columns before the first window
    width = low + max(columns.out, columns.groups + beside[-1])
    window_row = lambda n, c, i: (jnp.clip(i - early + reach[-1], 0, rows.out - 1), 0, n, c)  # noqa: E731
    body = functools.partial(_scatter_body, rows=rows, columns=columns, low=low)
    return pl.pallas_call(
        body,
        grid=_grid(g.shape, tile, early + rows.groups),
        in_specs=[pl.BlockSpec((1, columns.out, *tile), window_row)] * 2,
        out_specs=_written((rows.stride, columns.size, *tile), early),
        out_shape=like(g, (rows.size, columns.size, *g.shape[2:]), g.dtype),
        scratch_shapes=[
            pltpu.VMEM((len(reach), width, *tile), dtype) for dtype in (g.dtype, jnp.uint8)
        ],
        compiler_params=_PARAMETERS,
        interpret=interpret,
        name="max_pool_transpose",
    )(g, offsets)


def _scatter_body(*refs: Any, rows: Axis, columns: Axis, low: int) -> None:
    given, offsets, out, held, named = refs
    reach = shifts(rows)
    step = pl.program_id(2) - (len(reach) - 1)

    @pl.when(step == 1 - len(reach))
    def _() -> None:
        for r in range(len(reach)):
            named[r] = jnp.full(named.shape[1:], _SENTINEL, jnp.uint8)

    _hold_windows(
        held, named, given, offsets, step + reach[-1], rows, slice(low, low + columns.out)
    )

    def group(number: Any, phases: int = columns.stride) -> dict[tuple[int, int], Array]:
        """The elements of one group of columns, by row and phase."""

        @functools.lru_cache(maxsize=256)
        def read(o: int, w: int) -> ValueOffset:
            return _window(held, named, o - reach[0], number + low + w)

        found = {}
        every = itertools.product(enumerate(holders(rows)), enumerate(holders(columns)[:phases]))
        for (r, over_rows), (c, over_columns) in every:
            taps = itertools.product(over_rows, over_columns)
            hits = [_hit(read(o, w), t * columns.kernel + u) for (t, o), (u, w) in taps]
            total = tree_reduce(lax.add, hits) if hits else jnp.zeros(held.shape[2:], jnp.float32)
            found[r, c] = total.astype(out.dtype)
        return found

    def write(number: Any, found: dict[tuple[int, int], Array]) -> None:
        for (r, c), elements in found.items():
            out[r, number * columns.stride + c] = elements

    @pl.when(step >= 0)
    def _() -> None:
        groups, rest = divmod(columns.size, columns.stride)
        _for_each(groups, group, write, rows.kernel * columns.kernel)
        if rest:
            write(groups, group(groups, rest))


def _hold_windows(
    held: Any, named: Any, given: Any, offsets: Any, window: Array, rows: Axis, span: slice
) -> None:
    """Move the rows of windows in scratch on by one, and put ``window`` behind them."""
    last = held.shape[0] - 1
    for r in range(last):
        held[r], named[r] = held[r + 1], named[r + 1]
    there = (window >= 0) & (window < rows.out)

    @pl.when(there)
    def _() -> None:
        held[last, span], named[last, span] = given[0], offsets[0]

    @pl.when(~there)
    def _() -> None:
        named[last] = jnp.full(named.shape[1:], _SENTINEL, jnp.uint8)


def _window(held: Any, named: Any, row: int, column: Any) -> ValueOffset:
    return held[row, column].astype(jnp.float32), named[row, column].astype(jnp.int32)


def _hit(window: ValueOffset, offset: int) -> Array:
    """The value of a window whose offset is that one, else 0."""
    value, named = window
    return jnp.where(named == offset, value, 0.0)


# --- both -----------------------------------------------------------------------------------------

_PARAMETERS = pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary"))


def _grid(shape: tuple[int, ...], tile: Tile, steps: int) -> tuple[int, int, int]:
    images, channels = (cdiv(size, part) for size, part in zip(shape[2:], tile, strict=True))
    return images, channels, steps


def _written(block: tuple[int, ...], early: int) -> pl.BlockSpec:
    """Blocks of rows in order; the steps before the first that writes stay at the first."""
    return pl.BlockSpec(block, lambda n, c, i: (jnp.maximum(i - early, 0), 0, n, c))


def _for_each(
    count: int, compute: Callable[[Any], Any], write: Callable[[Any, Any], None], elements: int
) -> None:
    """``write(n, compute(n))`` for every ``n``, some at once: a store is a barrier to loads."""
    at_once = max(1, min(count, tuning.MOST_IN_LOOP_BODY // elements))

    def some(first: Any, length: int) -> None:
        results = [compute(first + n) for n in range(length)]
        for n, result in enumerate(results):
            write(first + n, result)

    lax.fori_loop(0, count // at_once, lambda n, _: (some(n * at_once, at_once), _)[1], 0)
    some(count // at_once * at_once, count % at_once)
