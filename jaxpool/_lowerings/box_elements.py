"""Sums and maxima over the bins of boxes on CPU, which reads only the elements of each box.

The elements of a bin are in a range of rows and a range of columns. For each box, a loop visits one
element of all bins at a time, in row-major order. The loop has as many steps as the largest bin has
elements; in other steps, a smaller bin visits its last row or column again, which changes no
maximum, and has the weight 0 in a sum. Run time is proportional to the area of boxes, not of
images. CPU does so if a step reads enough elements, see :func:`.boxes.visits_elements`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._xla.sharding_types import varying_zeros
from ..reductions import MAX, Reduction, identity_array
from .boxes import Boxes, bin_has_element, scaled, shape_by_bin, zero_unless
from .parts.axis_slicing import iota
from .parts.float_order import is_float_extreme, reduce_in_integers, sort_keys


class _Place(NamedTuple):
    """One element of every bin.

    Attributes:
      row, column: its indices, which broadcast to ``[bin, bin]``.
      is_new: whether the bin has not visited the element before.
    """

    row: Array
    column: Array
    is_new: Array


_Index = Callable[[Boxes, _Place], tuple[Any, ...]]
"""A function that returns the index of the elements of a box at a place."""


# --- sums -----------------------------------------------------------------------------------------


def sums(x: Array, boxes: Boxes) -> Array:
    """Return the weighted sum of every bin, ``[box, bin, bin, channel]``."""
    return _sums(x, boxes, _index)


def sums_transpose(g: Array, boxes: Boxes, shape: tuple[int, ...]) -> Array:
    """Return the transpose of :func:`sums`, for images of ``shape``."""
    return _sums_transpose(g, boxes, shape, _index)


def position_sensitive_sums(x: Array, boxes: Boxes) -> Array:
    """Return :func:`sums` where every bin reads a separate channel."""
    return _sums(x.reshape(shape_by_bin(x.shape, boxes.bins)), boxes, _index_by_bin)


def position_sensitive_sums_transpose(g: Array, boxes: Boxes, shape: tuple[int, ...]) -> Array:
    """Return the transpose of :func:`position_sensitive_sums`, for images of ``shape``."""
    return _sums_transpose(g, boxes, shape_by_bin(shape, boxes.bins), _index_by_bin).reshape(shape)


def _sums(x: Array, boxes: Boxes, index: _Index) -> Array:
    def sum_of(box: Boxes) -> Array:
        def step(total: Array, place: _Place) -> Array:
            elements = x.at[index(box, place)].get(mode="promise_in_bounds")
            return total + scaled(_weight(box, place), elements)

        return _fold(step, _full(np.zeros((), x.dtype), x, box), box)

    return lax.map(sum_of, boxes)


def _sums_transpose(g: Array, boxes: Boxes, shape: tuple[int, ...], index: _Index) -> Array:
    def add_box(image_sums: Array, operands: tuple[Array, Boxes]) -> tuple[Array, None]:
        g, box = operands

        def step(image_sums: Array, place: _Place) -> Array:
            terms = scaled(_weight(box, place), g)
            return image_sums.at[index(box, place)].add(terms, mode="promise_in_bounds")

        return _fold(step, image_sums, box), None

    return lax.scan(add_box, varying_zeros(shape, g.dtype, (g, boxes)), (g, boxes))[0]


def _weight(box: Boxes, place: _Place) -> Array:
    """Return the weights of the elements at a place, 0 if they were visited before."""
    bins = (iota(weights.shape[0], 0, 1, np.int32) for weights in (box.rows, box.columns))
    rows, columns = (
        weights.at[number, index.ravel()].get(mode="promise_in_bounds")
        for weights, number, index in zip((box.rows, box.columns), bins, place[:2], strict=True)
    )
    return zero_unless(place.is_new, rows[:, None] * columns[None])[..., None]


def _index(box: Boxes, place: _Place) -> tuple[Any, ...]:
    """Return the index of all channels of an element."""
    return box.image, place.row, place.column


def _index_by_bin(box: Boxes, place: _Place) -> tuple[Any, ...]:
    """Return the index of the channels of each bin, in images of :func:`shape_by_bin`."""
    bins = (iota(length, axis, 2, np.int32) for axis, length in enumerate(box.bins))
    return *_index(box, place), slice(None), *bins


# --- maxima ---------------------------------------------------------------------------------------


def maxima(x: Array, boxes: Boxes) -> Array:
    """Return the maximum of every bin, ``[box, bin, bin, channel]``, 0 where it is empty."""

    def reduce(x: Array, reduction: Reduction) -> Array:
        return lax.map(lambda box: _maximum(x, box, reduction), boxes)

    y = reduce_in_integers(reduce, x, MAX) if is_float_extreme(MAX, x) else reduce(x, MAX)
    return zero_unless(bin_has_element(boxes), y)


def select_at_maxima(t: Array, x: Array, boxes: Boxes) -> Array:
    """Return ``t`` at the argmax of ``x`` in every bin, 0 for an empty bin."""
    keys = sort_keys(x)

    def select(box: Boxes) -> Array:
        selected = t.at[_argmax(keys, box)].get(mode="promise_in_bounds")
        return zero_unless(bin_has_element(box), selected)

    return lax.map(select, boxes)


def select_at_maxima_transpose(g: Array, x: Array, boxes: Boxes) -> Array:
    """Return the transpose of :func:`select_at_maxima`, by a scatter box by box."""
    keys = sort_keys(x)

    def add_box(image_sums: Array, operands: tuple[Array, Boxes]) -> tuple[Array, None]:
        g, box = operands
        terms = zero_unless(bin_has_element(box), g)
        return image_sums.at[_argmax(keys, box)].add(terms, mode="promise_in_bounds"), None

    return lax.scan(add_box, varying_zeros(x.shape, g.dtype, (x, g, boxes)), (g, boxes))[0]


def _maximum(x: Array, box: Boxes, reduction: Reduction) -> Array:
    """Return the maximum of every bin; of an empty bin, some element."""

    def step(y: Array, place: _Place) -> Array:
        return reduction.combine(y, x.at[_index(box, place)].get(mode="promise_in_bounds"))

    return _fold(step, _full(identity_array(reduction, x.dtype), x, box), box)


def _argmax(keys: Array, box: Boxes) -> tuple[Array, ...]:
    """Return the index of the first maximum in every bin and channel; of an empty bin, any."""

    def step(state: tuple[Array, ...], place: _Place) -> tuple[Array, ...]:
        largest, row, column = state
        key = keys.at[_index(box, place)].get(mode="promise_in_bounds")
        is_larger = key > largest
        row = jnp.where(is_larger, place.row[..., None], row)
        column = jnp.where(is_larger, place.column[..., None], column)
        return jnp.maximum(key, largest), row, column

    smallest = np.asarray(np.iinfo(keys.dtype).min, keys.dtype)  # no element has this key
    zeros = _full(np.zeros((), np.int32), keys, box)
    _, row, column = _fold(step, (_full(smallest, keys, box), zeros, zeros), box)
    return box.image, row, column, iota(keys.shape[-1], 0, 1, np.int32)


# --- the elements of a box ------------------------------------------------------------------------


def _fold(step: Callable[[Any, _Place], Any], initial: Any, box: Boxes) -> Any:
    """Return the last state of ``step(state, place)`` over all places of the bins of a box."""
    (row, last_row, height), (column, last_column, width) = map(_ranges, (box.rows, box.columns))

    def body(loop: tuple[Array, Array, Any]) -> tuple[Array, Array, Any]:
        a, b, state = loop
        place = _Place(
            jnp.minimum(row + a, last_row)[:, None],
            jnp.minimum(column + b, last_column)[None],
            (row + a <= last_row)[:, None] & (column + b <= last_column)[None],
        )
        is_last = b + 1 >= width
        following = jnp.where(is_last, a + 1, a), jnp.where(is_last, 0, b + 1)
        return *following, step(state, place)

    zero = varying_zeros((), np.int32, box)
    return lax.while_loop(lambda loop: loop[0] < height, body, (zero, zero, initial))[2]


def _ranges(weights: Array) -> tuple[Array, Array, Array]:
    """Return the first and the last element of every bin, and the length of the longest."""
    is_read, length = weights.astype(bool), weights.shape[1]
    index = iota(length, 1, 2, np.int32)
    first = lax.reduce_min(jnp.where(is_read, index, length - 1), (1,))
    last = lax.reduce_max(jnp.where(is_read, index, 0), (1,))
    longest = _largest_of_batch(jnp.maximum(last - first + 1, 0).max())
    return first, jnp.maximum(first, last), longest


@jax.custom_batching.custom_vmap
def _largest_of_batch(length: Array) -> Array:
    """Return ``length``; the largest in a batch of ``jax.vmap``, so the batch has one loop.

    Otherwise, every step of the loop would copy the state of every example.
    """
    return length


@_largest_of_batch.def_vmap
def _(axis_size: int, in_batched: list[bool], lengths: Array) -> tuple[Array, bool]:
    return _largest_of_batch(lengths.max()), False


def _full(value: np.ndarray, x: Array, box: Boxes) -> Array:
    """Return an array of the shape of the result for a box, filled with ``value``."""
    return varying_zeros((*box.bins, x.shape[3]), value.dtype, (x, box)) + value
