"""Functions of windows and of elements over all pooled axes jointly, for XLA:GPU and XLA:TPU.

:func:`over_windows` computes a function of the elements of every window, such as a sum of weighted
elements. :func:`over_elements`, the direction of a transpose, computes a function of the windows
that contain each element. Both shift their inputs, once for each offset, by the pads of
:mod:`.grid`, and apply the function to the shifted arrays. XLA makes one kernel of the shifts and
the function, as long as the shifts read operands of the kernel. A function of single elements is
therefore recomputed for every window that contains the element. In return neither its values nor
any intermediate result between two axes is stored.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry
from . import grid, phase_sums
from .axis_slicing import each_tap, pooled_first

Arrays = tuple[Array, ...]


def over_windows(
    total: Callable[[list[Any], list[Array | None]], Arrays],
    arrays: Any,
    values: Any,
    geometry: Geometry,
    dtype: np.dtype | None = None,
) -> Arrays:
    """Return ``total`` of the elements of every window.

    Args:
      total: ``total(elements, masks)``, with a list entry for each offset, in row-major order. The
        masks tell elements from padding; None means no padding. All arrays, the results too, have
        the pooled axes first.
      arrays: a pytree of arrays with the full length of the pooled axes, or length 1.
      values: a pytree of scalars, the values of padding.
      geometry: the windows.
      dtype: a float dtype that represents the floats of ``arrays`` exactly. They are read in it.
    """
    leaves, tree = jax.tree.flatten(arrays)
    order, inverse, major = pooled_first(geometry, leaves[0].ndim)
    moved = [_cast_floats(jnp.transpose(a, order), dtype) for a in leaves]
    padding = [np.asarray(v, a.dtype) for v, a in zip(jax.tree.leaves(values), moved, strict=True)]
    columns = [_each_offset(*pair, major) for pair in zip(moved, padding, strict=True)]
    elements, masks = [], []
    for tap, row in zip(each_tap(geometry), zip(*columns, strict=True), strict=True):
        parts = [a.astype(leaf.dtype) for a, leaf in zip(row, leaves, strict=True)]
        shape: Any = jnp.broadcast_shapes(*(a.shape for a in parts))
        elements.append(jax.tree.unflatten(tree, parts))
        masks.append(grid.in_bounds_mask(tap, major, shape))
    return tuple(jnp.transpose(result, inverse) for result in total(elements, masks))


def each_offset(x: Array, geometry: Geometry, value: np.ndarray) -> list[Array]:
    """Return the elements of all windows for each offset, as :func:`.axis_slicing.each_offset`."""
    order, inverse, major = pooled_first(geometry, x.ndim)
    return [jnp.transpose(a, inverse) for a in _each_offset(jnp.transpose(x, order), value, major)]


def _each_offset(a: Array, value: np.ndarray, geometry: Geometry) -> list[Array]:
    """Return the elements at each offset, pooled axes first; an array of length 1 as it is."""
    if not _is_pooled(a, geometry):
        return [a] * geometry.taps
    return grid.each_offset(a, geometry, value)


def _cast_floats(a: Array, dtype: np.dtype | None) -> Array:
    """Cast floats back to the dtype in which they were stored: the kernel then reads that array."""
    should_cast = dtype is not None and jnp.issubdtype(a.dtype, jnp.floating)
    return a.astype(dtype) if should_cast else a


def _is_pooled(a: Array, geometry: Geometry) -> bool:
    """Return whether an array has the full length of the pooled axes, rather than length 1."""
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
    """Return ``total`` of each element and of the windows that contain it.

    Args:
      total: ``total(windows, elements, terms)``. ``windows`` and ``terms`` have an entry for each
        offset; a term says which offset that is. Where no window reads the element at the offset,
        the arrays have their identities. All arrays, the results too, have the pooled axes first,
        each followed by its phase axis, see :mod:`.grid`.
      windows: arrays of the windows.
      identities: a number for each of these.
      elements: a pytree of arrays with the full length of the pooled axes, or length 1.
      geometry: the windows.
      on_tpu: whether to fix the layouts: XLA:TPU does not store several results as it stores one.
      dtype: a float dtype that represents the floats of ``windows`` exactly. They are read in it.
    """
    order, inverse, major = pooled_first(geometry, windows[0].ndim)
    pooled, strided = len(major.axes), major.is_strided
    moved = [_cast_floats(jnp.transpose(a, order), dtype) for a in windows]
    if on_tpu and strided:  # or XLA would recompute them, from slices that are stored
        moved = lax.optimization_barrier(moved)
    moved = [grid.materialize_row_major(a, pooled) for a in moved] if on_tpu else moved
    (step,) = phase_sums.steps_of(major, geometry.taps)
    phase_terms = [(phase, term) for phase, terms in step.terms.items() for term in terms]
    shift_functions = [
        grid.shift_into_phase(step.geometry, phase, term.shift) for phase, term in phase_terms
    ]
    pairs = [(a, np.asarray(value, a.dtype)) for a, value in zip(moved, identities, strict=True)]
    split = jax.tree.map(lambda a: _split(jnp.transpose(a, order), major), elements)
    shifted = [
        tuple(shift_windows(*pair).astype(a.dtype) for pair, a in zip(pairs, windows, strict=True))
        for shift_windows in shift_functions
    ]
    results = total(shifted, split, [term for _, term in phase_terms])
    if on_tpu and strided:
        results = tuple(grid.materialize_row_major(result, 2 * pooled) for result in results)
    merged = (grid.merge_phases(result, major, len(order), False) for result in results)
    return tuple(jnp.transpose(result, inverse) for result in merged)


def _split(a: Array, geometry: Geometry) -> Array:
    """Split an array of elements into groups and phases; length 1 stays length 1."""
    if _is_pooled(a, geometry):
        return grid.split_into_phases(a, geometry)
    return jnp.expand_dims(a, grid.phase_axis_indices(geometry.positions, a.ndim))
