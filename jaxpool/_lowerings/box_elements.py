"""Maxima over the bins of boxes on CPU, which reads only the elements of each box.

Every bin has a range of rows and a range of columns. For each box, a loop reads one element of all
bins at a time, in row-major order. The loop has as many steps as the largest bin has elements; in
the last steps, a smaller bin reads its last elements again, which changes no maximum. Run time is
proportional to the area of boxes, not of images.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._xla.sharding_types import varying_zeros
from ..reductions import MAX, Reduction, identity_array
from .boxes import Boxes, zero_unless
from .parts.axis_slicing import iota
from .parts.float_order import is_float_extreme, reduce_in_integers, sort_keys, to_native_dtype


class _Place(NamedTuple):
    """The row and the column of an element of every bin; both broadcast to the result."""

    row: Array
    column: Array


def maxima(x: Array, boxes: Boxes) -> Array:
    """Return the maximum of every bin, ``[box, bin, bin, channel]``, 0 where it is empty."""

    def reduce(x: Array, reduction: Reduction) -> Array:
        return lax.map(lambda box: _maximum(x, box, reduction), boxes)

    y = reduce_in_integers(reduce, x, MAX) if is_float_extreme(MAX, x) else reduce(x, MAX)
    return zero_unless(_has_element(boxes), y)


def select_at_maxima(t: Array, x: Array, boxes: Boxes) -> Array:
    """Return ``t`` at the argmax of ``x`` in every bin, 0 for an empty bin."""
    keys = _argmax_keys(x)

    def select(box: Boxes) -> Array:
        row, column = _argmax(keys, box)
        selected = t.at[box.image, row, column, _channels(t)].get(mode="promise_in_bounds")
        return zero_unless(_has_element(box), selected)

    return lax.map(select, boxes)


def select_at_maxima_transpose(g: Array, x: Array, boxes: Boxes) -> Array:
    """Return the transpose of :func:`select_at_maxima`, by a scatter box by box."""
    keys = _argmax_keys(x)

    def step(sums: Array, operands: tuple[Array, Boxes]) -> tuple[Array, None]:
        g, box = operands
        row, column = _argmax(keys, box)
        selected = sums.at[box.image, row, column, _channels(x)]
        return selected.add(zero_unless(_has_element(box), g), mode="promise_in_bounds"), None

    return lax.scan(step, varying_zeros(x.shape, g.dtype, (x, g, boxes)), (g, boxes))[0]


def _maximum(x: Array, box: Boxes, reduction: Reduction) -> Array:
    """Return the maximum of every bin; of an empty bin, some element."""

    def step(y: Array, place: _Place) -> Array:
        return reduction.combine(y, _read(x, box, place))

    return _fold(step, _full(identity_array(reduction, x.dtype), x, box), box)


def _argmax(keys: Array, box: Boxes) -> _Place:
    """Return the place of the first maximum of every bin; of an empty bin, some place."""

    def step(state: tuple[Array, _Place], place: _Place) -> tuple[Array, _Place]:
        largest, argmax = state
        key = _read(keys, box, place)
        is_larger = key > largest
        row = jnp.where(is_larger, place.row[..., None], argmax.row)
        column = jnp.where(is_larger, place.column[..., None], argmax.column)
        return jnp.maximum(key, largest), _Place(row, column)

    smallest = np.iinfo(keys.dtype).min  # no element has this key
    zeros = _full(np.zeros((), np.int32), keys, box)
    initial = _full(np.asarray(smallest, keys.dtype), keys, box), _Place(zeros, zeros)
    return _fold(step, initial, box)[1]


def _fold(step: Callable[[Any, _Place], Any], initial: Any, box: Boxes) -> Any:
    """Return the last state of ``step(state, place)`` over all places of the bins of a box."""
    (row, last_row, height), (column, last_column, width) = map(_ranges, (box.rows, box.columns))

    def body(loop: tuple[Array, Array, Any]) -> tuple[Array, Array, Any]:
        a, b, state = loop
        place = _Place(
            jnp.minimum(row + a, last_row)[:, None], jnp.minimum(column + b, last_column)[None]
        )
        is_last = b + 1 == width
        following = jnp.where(is_last, a + 1, a), jnp.where(is_last, 0, b + 1)
        return *following, step(state, place)

    zero = varying_zeros((), np.int32, box)
    return lax.while_loop(lambda loop: loop[0] < height, body, (zero, zero, initial))[2]


def _ranges(is_read: Array) -> tuple[Array, Array, Array]:
    """Return the first and the last element of every bin, and the length of the longest, or 1."""
    length = is_read.shape[1]
    index = iota(length, 1, 2, np.int32)
    first = lax.reduce_min(jnp.where(is_read, index, length - 1), (1,))
    last = lax.reduce_max(jnp.where(is_read, index, 0), (1,))
    longest = jnp.maximum(last - first, 0).max() + 1
    return first, jnp.maximum(first, last), longest


def _read(x: Array, box: Boxes, place: _Place) -> Array:
    """Return the elements of the image of ``box`` at one place in every bin."""
    return x.at[box.image, place.row, place.column].get(mode="promise_in_bounds")


def _full(value: np.ndarray, x: Array, box: Boxes) -> Array:
    """Return an array of the shape of the result for a box, filled with ``value``."""
    shape = box.rows.shape[0], box.columns.shape[0], x.shape[-1]
    return varying_zeros(shape, value.dtype, (x, box)) + value


def _has_element(box: Boxes) -> Array:
    """Return whether every bin of a box, or of several, has an element, ``[bin, bin, 1]``."""
    return box.rows.any(-1)[..., :, None, None] & box.columns.any(-1)[..., None, :, None]


def _channels(x: Array) -> Array:
    return iota(x.shape[-1], 0, 1, np.int32)


def _argmax_keys(x: Array) -> Array:
    """Return integers in the order of ``x``, NaN the greatest."""
    return sort_keys(to_native_dtype(x, MAX)[0])
