"""Windows side by side: split each axis into windows and their cells, and reduce the cells.

For axes with ``stride == kernel`` or a single window, without dilation. A window that covers an
axis is the plain reduction of that axis.

XLA:CPU reduces several axes at once mostly one number after the other, and drops NaN from large
reductions of floats (jaxlib 0.10.2 and 0.12). Where windows are short it is up to ten times as fast
to combine slices, along one axis after the other, in long loops over the others.
"""

import functools
import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._batching import any_in_batch
from .._cut import numbers, pad, padding_of
from .._fence import computed_once
from .._pick import Pick, empty, tap_dtype
from .._reductions import MAX_LAST_NAN, MIN, Reduction, identity_array
from .._window import Geometry
from ._order import in_integers, reduce_cells, widened

_MOST_IN_ROWS, _MOST_BETWEEN_ROWS = 16, 128
"""Cells of a window along an axis up to which slices pay for extremes: if windows lie along the
contiguous axis, and if not."""

_MOST_OF_SUMS_IN_ROWS = 14
"""Cells of a window up to which slices pay for sums along the contiguous axis, of several windows;
a plane whose rows are each one window is a single run of cells."""

_LOWEST_IN_ROWS = 4
"""Cells of a window along the other axes from which winners are looked for in whole rows: what is
sought is then stored for each cell of a row."""

_FEWEST_OF_SUMS, _MOST_OF_SUMS, _FEWEST_IN_ARRAY = 7, 32, 2**20
"""Cells of a window along the other axes, and of the array, between which slices pay for sums."""


def why_not(
    geometry: Geometry, reduction: Reduction, dtype: object, winners: bool = False
) -> str | None:
    """Return why this lowering declines, or None."""
    for axis in geometry.axes:
        if axis.dilation > 1 and axis.kernel > 1:
            return "taps with gaps between them do not lie side by side"
        if axis.out > 1 and axis.stride != axis.kernel:
            return f"windows of {axis.kernel} cells at stride {axis.stride} do not lie side by side"
    return None


def run(x: Array, geometry: Geometry, reduction: Reduction) -> Array:
    """Return the reduction of every window."""
    cells, axes = _split(x, geometry, identity_array(reduction, x.dtype))
    return reduce_axes(cells, axes, reduction)


def select(x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction) -> Pick:
    """Return the winner of every window and the number of its tap, row-major in the window."""
    cells, axes = _split(x, geometry, identity_array(reduction, x.dtype))
    present = None
    if valid is not None or any(any(padding_of(axis)) for axis in geometry.axes):
        present = jnp.ones(x.shape, bool) if valid is None else valid
        present, _ = _split(present, geometry, np.zeros((), bool))
    (values,) = computed_once(reduce_axes(cells, axes, reduction))
    return values, winners(cells, present, values, axes, reduction, tap_dtype(geometry))


def _split(x: Array, geometry: Geometry, fill: np.ndarray) -> tuple[Array, tuple[int, ...]]:
    """Cut every axis in two, windows and their cells; return also the axes of the cells."""
    split: list[tuple[int, ...]] = [(size,) for size in x.shape]
    for axis, position in geometry.placed:
        x = pad(x, position, axis.pad_low, axis.reach, fill)
        split[position] = (axis.out, axis.kernel)
    cells = x.reshape([size for sizes in split for size in sizes])
    return cells, cell_axes(geometry.positions, x.ndim)


def cell_axes(positions: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The axes of the cells, once the axes at negative ``positions`` of ``rank`` are cut in two."""
    return tuple(rank + p + sum(other <= p for other in positions) for p in positions)


def cell_numbers(shape: Sequence[int], axes: tuple[int, ...], dtype: np.dtype) -> Array:
    """The number of every cell in its window, row-major over ``axes`` as they are given."""
    found = jnp.zeros((1,) * len(shape), dtype)
    for axis in axes:
        found = found * shape[axis] + numbers(shape[axis], axis - len(shape), len(shape), dtype)
    return found


def winners(
    cells: Array,
    present: Array | None,
    values: Array,
    axes: tuple[int, ...],
    reduction: Reduction,
    dtype: np.dtype,
) -> Array:
    """Return the number, row-major over ``axes``, of the cell that won.

    Args:
      cells: what was reduced over ``axes``.
      present: which cells may win, or None if all may.
      values: the results.
      axes: in the order in which they count.
      reduction: a maximum or minimum.
      dtype: of the numbers; the largest, or -1, marks that no cell is present.
    """
    order, count = cell_numbers(cells.shape, axes, dtype), math.prod(cells.shape[a] for a in axes)
    last_nan = reduction.beats is MAX_LAST_NAN.beats
    if last_nan:  # counted backwards, the last one is the first
        order = jnp.where(cells != cells, count - 1 - order, order)
    by_rows = not last_nan and _has_rows(cells.shape, axes)
    find = _first_by_rows if by_rows else _first
    found = find(cells, present, jnp.expand_dims(values, axes), order, axes)
    none = identity_array(MIN, dtype)
    if last_nan:
        found = jnp.where((values != values) & (found != none), count - 1 - found, found)
    return jnp.where(found == none, empty(dtype), found)


def _first(
    cells: Array, present: Array | None, sought: Array, order: Array, axes: tuple[int, ...]
) -> Array:
    """Return the least ``order`` of the cells that are ``sought`` or NaN."""
    hit = (cells == sought) | (cells != cells)
    if present is not None:
        hit = hit & present
    none = identity_array(MIN, order.dtype)
    return reduce_axes(jnp.where(hit, order, none), axes, MIN)


def _has_rows(shape: Sequence[int], axes: tuple[int, ...]) -> bool:
    """Whether windows lie along the contiguous axis, and are high enough to look there by rows."""
    height = math.prod(shape[axis] for axis in axes if axis != len(shape) - 1)
    return len(shape) - 1 in axes and shape[-2] != 1 and height >= _LOWEST_IN_ROWS


def _first_by_rows(
    cells: Array, present: Array | None, sought: Array, order: Array, axes: tuple[int, ...]
) -> Array:
    """:func:`_first`, in loops as long as a row and not as a window."""
    row = cells.shape[-2:]
    cells, sought, order = (_whole_rows(a, row) for a in (cells, sought, order))
    present = None if present is None else _whole_rows(present, row)
    (sought,) = computed_once(sought)
    others = tuple(axis for axis in axes if axis < cells.ndim)
    (found,) = computed_once(_first(cells, present, sought, order, others))
    return reduce_axes(found.reshape(*found.shape[:-1], *row), (found.ndim,), MIN)


def _whole_rows(a: Array, row: Sequence[int]) -> Array:
    """Return ``a`` with its last axes, windows and their cells, as one of whole rows."""
    whole = jnp.broadcast_to(a, (*a.shape[:-2], *row))
    return whole.reshape(*a.shape[:-2], math.prod(row))


def reduce_axes(x: Array, axes: tuple[int, ...], reduction: Reduction) -> Array:
    """Return the reduction over whole axes, in any order."""
    on_cpu, elsewhere = (
        functools.partial(way, axes=tuple(sorted(axes)), reduction=reduction)
        for way in (_on_cpu, _at_once)
    )
    return lax.platform_dependent(x, cpu=on_cpu, default=elsewhere)


def _on_cpu(x: Array, axes: tuple[int, ...], reduction: Reduction) -> Array:
    wide, order = widened(x, reduction)
    if wide is not x:
        return _on_cpu(wide, axes, order).astype(x.dtype)
    extreme = reduction.wins is not None and jnp.issubdtype(x.dtype, jnp.floating)
    if extreme and x.dtype.itemsize == 2:
        return in_integers(lambda keys, order: _on_cpu(keys, axes, order), x, reduction)
    if _has_passes(x, axes, reduction):
        return _in_passes(x, axes, lambda cells: reduce_cells(reduction, cells))
    return (_with_nan if extreme else _at_once)(x, axes, reduction)


def _has_passes(x: Array, axes: tuple[int, ...], reduction: Reduction) -> bool:
    lengths = [x.shape[axis] for axis in axes]
    if not all(isinstance(length, int) for length in lengths):
        return False
    contiguous = x.ndim - 1 in axes
    if reduction.wins is not None:
        return max(lengths) <= (_MOST_IN_ROWS if contiguous else _MOST_BETWEEN_ROWS)
    if reduction.combine is not lax.add:
        return False
    if contiguous:
        return x.shape[-2] != 1 and max(lengths) <= _MOST_OF_SUMS_IN_ROWS
    large = isinstance(x.size, int) and x.size >= _FEWEST_IN_ARRAY
    return large and _FEWEST_OF_SUMS <= min(lengths) and max(lengths) <= _MOST_OF_SUMS


def _in_passes(
    x: Array, axes: tuple[int, ...], combine: Callable[[Sequence[Array]], Array]
) -> Array:
    """Reduce the cells of one axis after the other.

    The contiguous axis comes last; till then its windows and their cells are whole rows.
    """
    *others, last = axes
    row, in_rows = x.shape[-2:], last == x.ndim - 1
    x = x.reshape(*x.shape[:-2], math.prod(row)) if in_rows else x
    for axis in others:
        (x,) = computed_once(_pass(x, axis, combine))
    x = x.reshape(*x.shape[:-1], *row) if in_rows else x
    return lax.squeeze(_pass(x, last, combine), axes)


def _pass(x: Array, axis: int, combine: Callable[[Sequence[Array]], Array]) -> Array:
    return combine([lax.slice_in_dim(x, n, n + 1, axis=axis) for n in range(x.shape[axis])])


def _with_nan(x: Array, axes: tuple[int, ...], reduction: Reduction) -> Array:
    """Reduce floats at once, and again in integers if there may be a NaN.

    Integers cost several times the reduction, but without a NaN the sum is a NaN only where
    infinities of both signs meet.
    """

    def in_order(x: Array) -> Array:
        return in_integers(lambda keys, order: _at_once(keys, axes, order), x, reduction)

    total = lax.reduce_sum(x, axes)
    plain = functools.partial(_at_once, axes=axes, reduction=reduction)
    return lax.cond(any_in_batch(total != total), in_order, plain, x)


def _at_once(x: Array, axes: tuple[int, ...], reduction: Reduction) -> Array:
    return lax.reduce(x, identity_array(reduction, x.dtype), reduction.combine, axes)
