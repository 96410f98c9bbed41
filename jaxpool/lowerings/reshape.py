"""Windows side by side: split each axis into windows and their cells, and reduce the cells.

For axes with ``stride == kernel`` or a single window, without dilation. A window that covers an
axis is the plain reduction of that axis.

XLA:CPU reduces several axes at once mostly one number after the other, and drops NaN from large
reductions of floats (jaxlib 0.10.2 and 0.12). Where windows are short it is up to ten times as fast
to combine slices, along one axis after the other, in long loops over the others.
"""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
from jax import Array, lax

from .._fence import computed_once
from .._reductions import Reduction, identity_array
from .._window import Geometry
from ._cut import pad
from ._order import in_integers, is_float_extreme, reduce_cells

_FEWEST_IN_ARRAY = 2**20
"""Cells of an array from which slices pay: smaller ones are done before the second pass starts."""

_FEWEST_IN_PASS = 4
_MOST_IN_PASS = 32
"""Cells of a window along each axis between which slices pay."""


def why_not(geometry: Geometry, reduction: Reduction, dtype: object) -> str | None:
    """Return why this lowering declines, or None."""
    for axis in geometry.axes:
        if axis.dilation > 1 and axis.kernel > 1:
            return "taps with gaps between them do not lie side by side"
        if axis.out > 1 and axis.stride != axis.kernel:
            return f"windows of {axis.kernel} cells at stride {axis.stride} do not lie side by side"
    return None


def run(x: Array, geometry: Geometry, reduction: Reduction) -> Array:
    """Return the reduction of every window."""
    init = identity_array(reduction, x.dtype)
    shape, windowed = list(x.shape), {}
    for axis, position in zip(geometry.axes, geometry.positions, strict=True):
        x = pad(x, position, axis.pad_low, axis.reach, init)
        windowed[x.ndim + position] = (axis.out, axis.kernel)
    split: list[int] = []
    cells: list[int] = []
    for dimension, size in enumerate(shape):
        if dimension in windowed:
            cells.append(len(split) + 1)
            split.extend(windowed[dimension])
        else:
            split.append(size)
    return reduce_axes(x.reshape(split), tuple(cells), reduction)


def reduce_axes(x: Array, axes: tuple[int, ...], reduction: Reduction) -> Array:
    """Return the reduction over whole axes, given in order; for CPU."""
    extreme = is_float_extreme(reduction, x.dtype)
    if extreme and x.dtype.itemsize < 4:
        return in_integers(lambda keys, order: reduce_axes(keys, axes, order), x, reduction)
    if _has_passes(x, axes, reduction):
        return _in_passes(x, axes, lambda cells: reduce_cells(reduction, cells))
    plain = lambda x: _at_once(x, axes, reduction)  # noqa: E731
    return _with_nan(plain, x, axes, reduction) if extreme else plain(x)


def _has_passes(x: Array, axes: tuple[int, ...], reduction: Reduction) -> bool:
    lengths = [x.shape[axis] for axis in axes]
    if not all(isinstance(size, int) for size in (x.size, *lengths)):
        return False
    large = x.size >= _FEWEST_IN_ARRAY and min(lengths) >= _FEWEST_IN_PASS
    along_rows = reduction.combine is lax.add and x.ndim - 1 not in axes
    pays = along_rows or reduction.wins is not None
    return large and max(lengths) <= _MOST_IN_PASS and pays


def _in_passes(
    x: Array, axes: tuple[int, ...], combine: Callable[[Sequence[Array]], Array]
) -> Array:
    for axis in axes:
        x = combine([lax.slice_in_dim(x, n, n + 1, axis=axis) for n in range(x.shape[axis])])
        if axis != axes[-1]:
            (x,) = computed_once(x)
    return lax.squeeze(x, axes)


def _with_nan(
    plain: Callable[[Array], Array], x: Array, axes: tuple[int, ...], reduction: Reduction
) -> Array:
    """``plain(x)`` of floats, made again in integers if there may be a NaN.

    Integers cost several times the reduction, but without a NaN the sum is a NaN only where
    infinities of both signs meet.
    """

    def in_order(x: Array) -> Array:
        return in_integers(lambda keys, order: _at_once(keys, axes, order), x, reduction)

    total = lax.reduce_sum(x, axes)
    return lax.cond(jnp.any(total != total), in_order, plain, x)


def _at_once(x: Array, axes: tuple[int, ...], reduction: Reduction) -> Array:
    return lax.reduce(x, identity_array(reduction, x.dtype), reduction.combine, axes)
