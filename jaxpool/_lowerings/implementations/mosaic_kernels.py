"""Pallas kernels for TPU: extremes with offsets, and the transpose of a gather at such offsets.

Arrays are (rows, columns, batch, channels). On a TPU the batch is then on sublanes and the channels
are on lanes, so a shift or a stride along rows and columns is only an address. A block is one row
of a few images and channels. The innermost axis of the grid runs over rows, and the rows that later
steps need again stay in scratch, so every array passes through main memory once.

Let ``i`` count grid steps from the first step that writes. In step ``i`` of the forward kernel,
scratch contains the rows

    i * stride - pad_low + r,    0 <= r < span,

of which the last ``min(stride, span)`` are new. Rows and columns outside the array are the identity
in scratch. If a window reduces to the identity, all its elements equal it, and its offset is that
of its first element inside the array, or the sentinel: numbers computed from ``i`` and the column.

Step ``i`` of the transpose writes the elements ``i * stride + r`` with ``0 <= r < stride``. Offset
``t`` of window ``o`` reads such an element if

    o = i + (r + pad_low - t * dilation) / stride,

which is an integer for the offsets of one phase. Scratch contains the windows of all these ``o``.
If there is no such window, the offset in scratch is the sentinel, which matches no element.
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
from ..parts.window_counts import first_valid_offset

_SENTINEL = 255
_LANES = 128


class Tile(NamedTuple):
    """The part of the batch and of the channels that is in one block."""

    images: int
    channels: int


def tile_of(shape: tuple[int, ...], dtype: np.dtype) -> Tile:
    """Return a tile of full registers if ``shape`` allows: 8 sublanes of 32 bits, 128 lanes."""
    images, channels = shape[2:]
    sublanes = 32 // dtype.itemsize
    sublanes = sublanes if images % sublanes == 0 else 8
    return Tile(min(images, sublanes), min(channels, _LANES))


# --- forward --------------------------------------------------------------------------------------


def rows_per_step(rows: Axis) -> int:
    """Return the number of rows that a step reads."""
    return min(rows.stride, rows.span)


def extremes(
    x: Array,
    rows: Axis,
    columns: Axis,
    reduction: Reduction,
    with_offsets: bool,
    interpret: bool,
) -> tuple[Array, ...]:
    """Return the extreme of every window and, if requested, its offset.

    Args:
      x: float32 or bfloat16, (rows, columns, batch, channels).
      rows, columns: the windows along these axes.
      reduction: a maximum or minimum.
      with_offsets: whether to return offsets, in uint8.
      interpret: whether to interpret the kernel, which needs no TPU.
    """
    tile, new_rows = tile_of(x.shape, x.dtype), rows_per_step(rows)
    first = rows.span - new_rows  # the index in scratch of the first new row
    warmup = cdiv(first, rows.stride)  # steps that only fill scratch
    block = (1, columns.size, *tile)
    out = (1, columns.out, *tile)

    def block_index(r: int) -> Callable[..., Any]:
        row = lambda i: (i - warmup) * rows.stride - rows.pad_low + first + r  # noqa: E731
        return lambda n, c, i: (jnp.clip(row(i), 0, rows.size - 1), 0, n, c)

    dtypes = (x.dtype, jnp.uint8) if with_offsets else (x.dtype,)
    shape = (rows.out, columns.out, *x.shape[2:])
    body = functools.partial(_extremes_body, rows=rows, columns=columns, reduction=reduction)
    width = (columns.out - 1) * columns.stride + columns.span
    call = pl.pallas_call(
        body,
        grid=_grid(x.shape, tile, warmup + rows.out),
        in_specs=[pl.BlockSpec(block, block_index(r)) for r in range(new_rows)],
        out_specs=[_output_spec(out, warmup)] * len(dtypes),
        out_shape=[like(x, shape, dtype) for dtype in dtypes],
        scratch_shapes=[pltpu.VMEM((rows.span, width, *tile), x.dtype)],
        compiler_params=_PARAMETERS,
        interpret=interpret,
        name="max_pool",
    )
    return tuple(call(*[x] * new_rows))


def _extremes_body(*refs: Any, rows: Axis, columns: Axis, reduction: Reduction) -> None:
    new_rows, comparator = rows_per_step(rows), reduction.comparator
    assert comparator is not None
    inputs, outputs, scratch = refs[:new_rows], refs[new_rows:-1], refs[-1]
    identity = float(identity_array(reduction, scratch.dtype))
    warmup = cdiv(rows.span - new_rows, rows.stride)
    step = pl.program_id(2) - warmup

    @pl.when(step == -warmup)
    def _() -> None:
        for r in range(rows.span):
            scratch[r] = jnp.full(scratch.shape[1:], identity, scratch.dtype)

    _load_rows(scratch, inputs, step, rows, columns, identity)

    def compute_window(column: Any) -> tuple[Array, ...]:
        taps = list(_taps(scratch, rows, columns, column))
        if len(outputs) == 1:
            prefer = lambda a, b: jnp.where(comparator(b, a), b, a)  # noqa: E731
            return (tree_reduce(prefer, [element for element, _ in taps]).astype(scratch.dtype),)
        pairs = [(tap, jnp.full(tap.shape, offset, jnp.int32)) for tap, offset in taps]
        value, offset = reduce_pairs(pairs, reduction, may_be_empty=False)
        if rows.pad_low or columns.pad_low or rows.has_empty_window or columns.has_empty_window:
            first_offset = _first_offset(rows, columns, step, column)
            offset = jnp.where(value == identity, first_offset, offset)
        return value.astype(scratch.dtype), offset.astype(jnp.uint8)

    def store(column: Any, results: tuple[Array, ...]) -> None:
        for ref, result in zip(outputs, results, strict=True):
            ref[0, column] = result

    @pl.when(step >= 0)
    def _() -> None:
        _unrolled_loop(columns.out, compute_window, store, rows.kernel * columns.kernel)


def _load_rows(
    scratch: Any, inputs: Sequence[Any], step: Array, rows: Axis, columns: Axis, identity: float
) -> None:
    """Shift the rows in scratch by one stride, and append the new rows."""
    first = rows.span - len(inputs)
    for r in range(first):
        scratch[r] = scratch[r + rows.stride]
    count = max(0, min(columns.size, scratch.shape[1] - columns.pad_low))
    columns_in_scratch = slice(columns.pad_low, columns.pad_low + count)
    for r, block in enumerate(inputs if count else ()):
        row = step * rows.stride - rows.pad_low + first + r
        in_bounds = (row >= 0) & (row < rows.size)

        @pl.when(in_bounds)
        def _(r: int = r, block: Any = block) -> None:
            scratch[first + r, columns_in_scratch] = block[0, :count]

        @pl.when(~in_bounds)
        def _(r: int = r) -> None:
            scratch[first + r] = jnp.full(scratch.shape[1:], identity, scratch.dtype)


def _taps(scratch: Any, rows: Axis, columns: Axis, column: Any) -> Iterator[tuple[Array, int]]:
    """Yield the elements of a window in row-major order, each with its offset."""
    offsets = itertools.product(range(rows.kernel), range(columns.kernel))
    for offset, (t, u) in enumerate(offsets):
        position = column * columns.stride + u * columns.dilation
        yield scratch[t * rows.dilation, position].astype(jnp.float32), offset


def _first_offset(rows: Axis, columns: Axis, row: Any, column: Any) -> Any:
    """Return the first offset at which a window reads an element, or the sentinel."""
    t, has_row = _first_tap(rows, row)
    u, has_column = _first_tap(columns, column)
    return jnp.where(has_row & has_column, t * columns.kernel + u, _SENTINEL)


def _first_tap(axis: Axis, window: Any) -> tuple[Any, Any]:
    """Return the first tap of a window inside the axis, and whether there is such a tap."""
    start = window * axis.stride - axis.pad_low
    tap = first_valid_offset(axis, start)
    return tap, (tap < axis.kernel) & (start + tap * axis.dilation < axis.size)


# --- transpose ------------------------------------------------------------------------------------


def taps_of(axis: Axis) -> list[list[tuple[int, int]]]:
    """Return, for each phase of an axis, the pairs of a window, less the group, and its tap."""
    taps = offsets_by_phase(axis, range(axis.kernel))
    rows = (taps.get(phase, {}) for phase in range(axis.stride))
    return [[(-shift, tap) for shift, tap in row.items()] for row in rows]


def window_range(axis: Axis) -> range:
    """Return the range of the windows, less the group, that read elements of a group."""
    windows = [window for phase in taps_of(axis) for window, _ in phase]
    return range(min(windows), max(windows) + 1)


def scatter(g: Array, offsets: Array, rows: Axis, columns: Axis, interpret: bool) -> Array:
    """Return, for each element, the sum of the values of the windows whose offset selects it.

    Args:
      g: the values of the windows, float32 or bfloat16, (rows, columns, batch, channels).
      offsets: the window offsets, row-major, in uint8.
      rows, columns: the windows along these axes.
      interpret: whether to interpret the kernel, which needs no TPU.
    """
    tile, row_windows = tile_of(g.shape, g.dtype), window_range(rows)
    warmup, column_windows = len(row_windows) - 1, window_range(columns)
    low = max(0, -column_windows[0])  # columns of scratch before the first window
    width = low + max(columns.out, columns.groups + column_windows[-1])
    window_row = lambda n, c, i: (jnp.clip(i - warmup + row_windows[-1], 0, rows.out - 1), 0, n, c)  # noqa: E731
    body = functools.partial(_scatter_body, rows=rows, columns=columns, low=low)
    return pl.pallas_call(
        body,
        grid=_grid(g.shape, tile, warmup + rows.groups),
        in_specs=[pl.BlockSpec((1, columns.out, *tile), window_row)] * 2,
        out_specs=_output_spec((rows.stride, columns.size, *tile), warmup),
        out_shape=like(g, (rows.size, columns.size, *g.shape[2:]), g.dtype),
        scratch_shapes=[
            pltpu.VMEM((len(row_windows), width, *tile), dtype) for dtype in (g.dtype, jnp.uint8)
        ],
        compiler_params=_PARAMETERS,
        interpret=interpret,
        name="max_pool_transpose",
    )(g, offsets)


def _scatter_body(*refs: Any, rows: Axis, columns: Axis, low: int) -> None:
    g, offsets, out, g_vmem, offset_vmem = refs
    windows = window_range(rows)
    step = pl.program_id(2) - (len(windows) - 1)

    @pl.when(step == 1 - len(windows))
    def _() -> None:
        for r in range(len(windows)):
            offset_vmem[r] = jnp.full(offset_vmem.shape[1:], _SENTINEL, jnp.uint8)

    _load_windows(
        g_vmem, offset_vmem, g, offsets, step + windows[-1], rows, slice(low, low + columns.out)
    )

    sum_group = functools.partial(_sum_group, g_vmem, offset_vmem, rows, columns, low)

    def store(group: Any, sums: dict[tuple[int, int], Array]) -> None:
        for (r, c), elements in sums.items():
            out[r, group * columns.stride + c] = elements

    @pl.when(step >= 0)
    def _() -> None:
        groups, remainder = divmod(columns.size, columns.stride)
        sum_full_group = functools.partial(sum_group, columns.stride)
        _unrolled_loop(groups, sum_full_group, store, rows.kernel * columns.kernel)
        if remainder:
            store(groups, sum_group(remainder, groups))


def _sum_group(
    g_vmem: Any, offset_vmem: Any, rows: Axis, columns: Axis, low: int, phases: int, group: Any
) -> dict[tuple[int, int], Array]:
    """Return the elements of the first ``phases`` of a group of columns, keyed by row and phase."""
    first = window_range(rows)[0]

    @functools.lru_cache(maxsize=256)
    def load(o: int, w: int) -> ValueOffset:
        return _read_window(g_vmem, offset_vmem, o - first, group + low + w)

    sums = {}
    targets = itertools.product(enumerate(taps_of(rows)), enumerate(taps_of(columns)[:phases]))
    for (r, over_rows), (c, over_columns) in targets:
        taps = itertools.product(over_rows, over_columns)
        terms = [_select_value(load(o, w), t * columns.kernel + u) for (o, t), (w, u) in taps]
        dx = tree_reduce(lax.add, terms) if terms else jnp.zeros(g_vmem.shape[2:], jnp.float32)
        sums[r, c] = dx.astype(g_vmem.dtype)
    return sums


def _load_windows(
    g_vmem: Any, offset_vmem: Any, g: Any, offsets: Any, window: Array, rows: Axis, columns: slice
) -> None:
    """Shift the rows of windows in scratch by one, and append row ``window``."""
    last = g_vmem.shape[0] - 1
    for r in range(last):
        g_vmem[r], offset_vmem[r] = g_vmem[r + 1], offset_vmem[r + 1]
    in_bounds = (window >= 0) & (window < rows.out)

    @pl.when(in_bounds)
    def _() -> None:
        g_vmem[last, columns], offset_vmem[last, columns] = g[0], offsets[0]

    @pl.when(~in_bounds)
    def _() -> None:
        offset_vmem[last] = jnp.full(offset_vmem.shape[1:], _SENTINEL, jnp.uint8)


def _read_window(g_vmem: Any, offset_vmem: Any, row: int, column: Any) -> ValueOffset:
    """Return the value and the offset of one window of each image and channel, in 32 bits."""
    return g_vmem[row, column].astype(jnp.float32), offset_vmem[row, column].astype(jnp.int32)


def _select_value(window: ValueOffset, offset: int) -> Array:
    """Return the value of a window if ``offset`` is its offset, otherwise 0."""
    value, window_offset = window
    return jnp.where(window_offset == offset, value, 0.0)


# --- both -----------------------------------------------------------------------------------------

_PARAMETERS = pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary"))


def _grid(shape: tuple[int, ...], tile: Tile, steps: int) -> tuple[int, int, int]:
    images, channels = (cdiv(size, part) for size, part in zip(shape[2:], tile, strict=True))
    return images, channels, steps


def _output_spec(block: tuple[int, ...], warmup: int) -> pl.BlockSpec:
    """Return blocks of rows in order; the warmup steps stay at the first block."""
    return pl.BlockSpec(block, lambda n, c, i: (jnp.maximum(i - warmup, 0), 0, n, c))


def _unrolled_loop(
    count: int, compute: Callable[[Any], Any], store: Callable[[Any, Any], None], taps: int
) -> None:
    """Store ``compute(n)`` for every ``n``, several at a time: a store is a barrier to loads."""
    unroll = max(1, min(count, tuning.MAX_IN_LOOP_BODY // taps))

    def run_block(first: Any, length: int) -> None:
        results = [compute(first + n) for n in range(length)]
        for n, result in enumerate(results):
            store(first + n, result)

    lax.fori_loop(0, count // unroll, lambda n, _: (run_block(n * unroll, unroll), _)[1], 0)
    run_block(count // unroll * unroll, count % unroll)
