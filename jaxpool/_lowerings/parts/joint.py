"""All axes at once: what windows read and what elements receive, for XLA:GPU and XLA:TPU.

Both make one kernel of shifted arrays and of what is computed from them, as long as the shifts are
those of operands of the kernel. So a function of elements is computed of each shifted array, anew
for each window that holds an element, and neither its values nor what lies between two axes is
stored. Every shift is a padding, see :mod:`.grid`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry
from . import grid, phase_sums
from .axis_slicing import each_place, pooled_first

Arrays = tuple[Array, ...]


def over_windows(
    total: Callable[[list[Any], list[Array | None]], Arrays],
    arrays: Any,
    values: Any,
    geometry: Geometry,
    dtype: np.dtype | None = None,
) -> Arrays:
    """Return what is computed of the elements of every window.

    Args:
      total: from the elements at each offset, row-major, and from where they are elements and no
        padding, None for everywhere, to the results. All have the pooled axes first.
      arrays: a pytree of arrays, as long as the pooled axes or of length 1 there.
      values: what padding is, a pytree of scalars.
      geometry: the windows.
      dtype: of floats that hold those in the arrays exactly, which are then read as such.
    """
    leaves, tree = jax.tree.flatten(arrays)
    order, back, major = pooled_first(geometry, leaves[0].ndim)
    moved = [_narrowed(jnp.transpose(a, order), dtype) for a in leaves]
    padding = [np.asarray(v, a.dtype) for v, a in zip(jax.tree.leaves(values), moved, strict=True)]
    columns = [_reads(*pair, major) for pair in zip(moved, padding, strict=True)]
    parts, inside = [], []
    for place, row in zip(each_place(geometry), zip(*columns, strict=True), strict=True):
        elements = [a.astype(leaf.dtype) for a, leaf in zip(row, leaves, strict=True)]
        shape: Any = jnp.broadcast_shapes(*(a.shape for a in elements))
        parts.append(jax.tree.unflatten(tree, elements))
        inside.append(grid.inside(place, major, shape))
    return tuple(jnp.transpose(result, back) for result in total(parts, inside))


def each_offset(x: Array, geometry: Geometry, value: np.ndarray) -> list[Array]:
    """The element of every window at each offset, as :func:`.axis_slicing.each_offset`."""
    order, back, major = pooled_first(geometry, x.ndim)
    return [jnp.transpose(a, back) for a in _reads(jnp.transpose(x, order), value, major)]


def _reads(a: Array, value: np.ndarray, geometry: Geometry) -> list[Array]:
    """The elements at each offset, pooled axes first; of one entry for all, that entry."""
    if not _is_pooled(a, geometry):
        return [a] * geometry.taps
    return grid.each_offset(a, geometry, value)


def _narrowed(a: Array, dtype: np.dtype | None) -> Array:
    """Floats as they were before they were widened: the kernel reads what is stored."""
    is_wide = dtype is not None and jnp.issubdtype(a.dtype, jnp.floating)
    return a.astype(dtype) if is_wide else a


def _is_pooled(a: Array, geometry: Geometry) -> bool:
    """Whether an array is as long as the pooled axes, not one entry for all of them."""
    return all(a.shape[position] == axis.size for axis, position in geometry.placed)


def over_elements(
    total: Callable[..., Arrays],
    windows: Arrays,
    identities: Sequence[float],
    elements: Any,
    geometry: Geometry,
    on_tpu: bool,
    dtype: np.dtype | None = None,
) -> Arrays:
    """Return for each element what is computed of it and of the windows that hold it.

    Args:
      total: from arrays of the windows at each offset, from the elements and from the terms that
        say which offset it is, to results. All arrays have the pooled axes first. Where no window
        holds an element at that offset, there are identities.
      windows: arrays of the windows.
      identities: of each of these, a number.
      elements: a pytree of arrays, as long as the pooled axes or of length 1 there.
      geometry: the windows.
      on_tpu: whether several results need to be told to lie in memory as one does.
      dtype: of floats that hold those of the windows exactly, which are then read as such.
    """
    order, back, major = pooled_first(geometry, windows[0].ndim)
    pooled, strided = len(major.axes), major.is_strided
    moved = [_narrowed(jnp.transpose(a, order), dtype) for a in windows]
    if on_tpu and strided:  # or what makes them is computed anew, of slices that are stored
        moved = lax.optimization_barrier(moved)
    moved = [grid.stored(a, pooled) for a in moved] if on_tpu else moved
    (step,) = phase_sums.steps_of(major, geometry.taps)
    placed = [(phase, term) for phase, terms in step.terms.items() for term in terms]
    reads = [grid.put(step.geometry, phase, term.shift) for phase, term in placed]
    pairs = [(a, np.asarray(value, a.dtype)) for a, value in zip(moved, identities, strict=True)]
    split = jax.tree.map(lambda a: _on_grid(jnp.transpose(a, order), major), elements)
    given = [
        tuple(read(*pair).astype(a.dtype) for pair, a in zip(pairs, windows, strict=True))
        for read in reads
    ]
    results = total(given, split, [term for _, term in placed])
    if on_tpu and strided:
        results = tuple(grid.stored(result, 2 * pooled) for result in results)
    merged = (grid.merged(result, major, len(order), False) for result in results)
    return tuple(jnp.transpose(result, back) for result in merged)


def _on_grid(a: Array, geometry: Geometry) -> Array:
    """An array of elements split into groups and phases; one entry for all of them stays one."""
    if _is_pooled(a, geometry):
        return grid.split(a, geometry, np.zeros((), a.dtype))
    return jnp.expand_dims(a, grid.step_axes(geometry.positions, a.ndim))
