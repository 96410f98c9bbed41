"""Sums over windows with a weight for every offset: one kernel on GPU and TPU.

    y[o] = sum over t of W[t, o] x[o * stride - pad_low + t * dilation]

with ``W[t, o]`` the product of one number for each pooled axis, 0 where that is no element. The
numbers of most windows are the same; in those that reach over a border the weight of padding is
added to the element of the window that the padding repeats. So no array is padded first.

The transpose gives each element the sum of ``W[t, o] g[o]`` over the windows that hold it.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from .._geometry.axis import Axis
from .._geometry.resolve import Geometry
from .._lowerings import joint, tuning
from .._lowerings.axis_slicing import broadcast_along, tree_reduce
from .._lowerings.phase_sums import Term, groups

Table = np.ndarray
"""The weights of an axis, one row for each offset, one column for each window."""


def tables_of(
    geometry: Geometry, weights: Sequence[np.ndarray], mode: str
) -> tuple[Table, ...] | None:
    """Return the weights of all axes, or None where padding repeats elements of other windows.

    Args:
      geometry: the windows.
      weights: of each axis, one number for each offset.
      mode: how ``numpy.pad`` fills the padding; "constant" is zeros.
    """
    found = [_table(*pair, mode) for pair in zip(geometry.axes, weights, strict=True)]
    known = tuple(table for table in found if table is not None)
    return known if len(known) == len(found) else None


def _table(axis: Axis, weights: np.ndarray, mode: str) -> Table | None:
    if not isinstance(axis.size, int):
        return None
    sources, found = _sources(axis, mode), np.zeros((axis.kernel, axis.out))
    for offset, window in np.ndindex(found.shape):
        source = sources[window * axis.stride + offset * axis.dilation]
        if source < 0:
            continue
        place, left = divmod(source + axis.pad_low - window * axis.stride, axis.dilation)
        if left or not 0 <= place < axis.kernel:
            return None
        found[place, window] += weights[offset]
    return found


def _sources(axis: Axis, mode: Any) -> np.ndarray:
    """The element that stands at every place of the padded axis, -1 where there is none."""
    low, high = axis.pad_low, axis.pad_high
    padded = {"constant": {"constant_values": -1}}.get(mode, {})
    sources = np.pad(np.arange(axis.size), (low, high), mode, **padded)
    return np.pad(sources, (0, max(0, axis.overhang)), constant_values=-1)


def sums(
    x: Array, geometry: Geometry, tables: tuple[Table, ...], dtype: np.dtype, on_tpu: bool
) -> Array:
    """Return the weighted sum of every window.

    Args:
      x: the array, whose numbers are numbers of ``dtype``.
      geometry, tables: the windows and their weights.
      dtype: in which the array is read.
      on_tpu: whether this is for a TPU.
    """
    for step in _steps(geometry, tables, on_tpu):
        x, dtype = _sums(x, *step, dtype), x.dtype
    return x


def _steps(
    geometry: Geometry, tables: tuple[Table, ...], on_tpu: bool
) -> list[tuple[Geometry, tuple[Table, ...]]]:
    """All axes at once, or one after the other if windows are large."""
    if geometry.taps <= (tuning.MOST_WEIGHTED_ON_TPU if on_tpu else tuning.MOST_TERMS_ON_GPU):
        return [(geometry, tables)]
    steps = []
    for index, (axis, table) in enumerate(zip(geometry.axes, tables, strict=True)):
        # The other axes stay pooled axes of one element, so that all steps have one layout.
        before = [_unpooled(other.out) for other in geometry.axes[:index]]
        behind = [_unpooled(other.size) for other in geometry.axes[index + 1 :]]
        axes, ones = (*before, axis, *behind), [np.ones((1, a.size)) for a in (*before, *behind)]
        step_tables = (*ones[:index], table, *ones[index:])
        steps.append((Geometry(axes, geometry.positions), step_tables))
    return steps


def _unpooled(size: int) -> Axis:
    return Axis(size, 1, 1, 1, 0, 0, 0, size)


def _sums(x: Array, geometry: Geometry, tables: tuple[Table, ...], dtype: np.dtype) -> Array:
    def total(elements: list[Array], inside: list[Array | None]) -> tuple[Array]:
        del inside  # where there is no element, the array holds zeros
        places = np.ndindex(geometry.kernel)
        terms = [_times(a, p, tables) for a, p in zip(elements, places, strict=True)]
        return (tree_reduce(jnp.add, terms),)

    return joint.over_windows(total, x, 0, geometry, dtype)[0]


def _times(a: Array, place: tuple[int, ...], tables: tuple[Table, ...]) -> Array:
    """The elements at one offset, times the weights of their windows; pooled axes first."""
    for position, (weights, offset) in enumerate(zip(tables, place, strict=True)):
        a = a * _along(weights[offset], position, a)
    return a


def _along(numbers: np.ndarray, position: int, like: Array) -> Array | np.ndarray:
    """Numbers along an axis; one for all where they do not differ."""
    numbers = numbers.astype(like.dtype)
    if (numbers == numbers[0]).all():
        return numbers[0]
    return jnp.asarray(broadcast_along(numbers, position, like.ndim))


def scatter(
    g: Array, geometry: Geometry, tables: tuple[Table, ...], dtype: np.dtype, on_tpu: bool
) -> Array:
    """Return for each element the weighted sum of the windows that hold it, as :func:`sums`."""
    for step in _steps(geometry, tables, on_tpu)[::-1]:
        g, dtype = _scatter(g, *step, dtype, on_tpu), g.dtype
    return g


def _scatter(
    g: Array, geometry: Geometry, tables: tuple[Table, ...], dtype: np.dtype, on_tpu: bool
) -> Array:
    strided = any(axis.stride > 1 for axis in geometry.axes)

    def total(windows: list[tuple[Array]], x: None, terms: list[Term]) -> tuple[Array]:
        del x
        pairs = zip(windows, terms, strict=True)
        return (tree_reduce(jnp.add, [weighted(g, term) for (g,), term in pairs]),)

    def weighted(g: Array, term: Term) -> Array:
        place = np.unravel_index(term.low, geometry.kernel)
        for index, axis in enumerate(geometry.axes):
            numbers = _of_groups(tables[index][place[index]], axis, term.shift[index])
            g = g * _along(numbers, 2 * index, g)
        return g

    return joint.over_elements(total, (g,), (0,), None, geometry, on_tpu and strided, dtype)[0]


def _of_groups(numbers: np.ndarray, axis: Axis, shift: int) -> np.ndarray:
    """The number of the window that gives to each group, that of some window where none does."""
    windows = np.arange(groups(axis)) + shift
    return numbers[np.clip(windows, 0, axis.out - 1)]
