"""Sums and maxima over the bins of boxes.

Each box ``k`` reads one image ``x[n]``. Its bins are the products of rows and of columns, so that
both sums and maxima go along the columns, then along the rows.

Sums. With a weight for each bin and row, ``A``, and for each bin and column, ``B``,

    y[k, p, q, c] = sum over h, w of A[k, p, h] B[k, q, w] x[n, h, w, c],
    dx[n, h, w, c] = sum over k of n, p, q of A[k, p, h] B[k, q, w] dy[k, p, q, c].

Position-sensitive sums read another channel for every bin, ``c * P * Q + p * Q + q`` for ``c``.

Maxima. Let ``w[h, q, c]`` be the column of the first maximum of row ``h`` in the columns of ``q``,
and ``h[p, q, c]`` the first row of ``p`` with the maximum of the bin. That is the first maximum in
row-major order, and its tangent is a sum of products of comparisons, as is the transpose.

No array has both boxes and images, and no transpose has a scatter.
"""

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._lowerings.many_boxes import Boxes, Near, added, each, image
from .._lowerings.parts.argreduce import same
from .._xla.materialize import materialize
from ..reductions import MAX, identity_array
from .linear import linear_map
from .rules import selection

OneBox = Callable[[Array, Array, Array], Array]
"""Of an array, the rows and the columns of one box."""


def sums(x: Array, boxes: Boxes, near: Near | None = None) -> Array:
    """Return the weighted sum of every bin, ``[box, bin, bin, channel]``; differentiable in x."""
    return _mapped(x, boxes, _sum, _sum_transpose, x.shape[-1], near)


def sums_by_place(x: Array, boxes: Boxes) -> Array:
    """As :func:`sums`, of a channel of its own for every bin."""
    bins = boxes.rows.shape[1] * boxes.columns.shape[1]
    return _mapped(x, boxes, _sum_by_place, _sum_by_place_transpose, x.shape[-1] // bins)


def maxima(x: Array, boxes: Boxes) -> Array:
    """Return the maximum of every bin, 0 where it is empty; differentiable in x."""

    def reduce(x: Array, *boxes: Array) -> Array:
        one = lambda x, box: _maximum(x, box.rows, box.columns)  # noqa: E731
        return each(one, x, Boxes(*boxes))

    def argreduce(x: Array, *boxes: Array) -> tuple[Array, tuple[Array, ...]]:
        return reduce(x, *boxes), (x, *boxes)

    def gather(t: Array, found: tuple[Array, ...], value: Array) -> Array:
        return _gather(t, found[0], Boxes(*found[1:]), value)

    return selection(reduce, argreduce, gather, x, *boxes)


# --- all boxes ------------------------------------------------------------------------------------


def _mapped(
    x: Array,
    boxes: Boxes,
    one: OneBox,
    transposed: OneBox,
    channels: int,
    near: Near | None = None,
) -> Array:
    full = (*boxes.rows.shape[:2], boxes.columns.shape[1], channels)

    def forward(t: Array) -> Array:
        of_box = lambda t, box: one(t, box.rows, box.columns)  # noqa: E731
        return each(of_box, t.reshape(x.shape), boxes, near).reshape(-1)

    def transpose(g: Array) -> Array:
        back = lambda g, box: transposed(g, box.rows, box.columns)  # noqa: E731
        return added(back, g.reshape(full), boxes, x).reshape(-1)

    return _flat_map(forward, transpose, x, full)


def _flat_map(
    forward: Callable[[Array], Array],
    transpose: Callable[[Array], Array],
    x: Array,
    shape: tuple[int, ...],
    value: Array | None = None,
) -> Array:
    """The linear map of arrays of one axis: that of its square system is as long as the longer."""
    flat = None if value is None else value.reshape(-1)
    size = (math.prod(shape),)
    return linear_map(forward, transpose, x.reshape(-1), size, flat).reshape(shape)


def _dot(subscripts: str, *arrays: Array) -> Array:
    return jnp.einsum(subscripts, *arrays, precision=lax.Precision.HIGHEST)


# --- sums of one box ------------------------------------------------------------------------------


def _sum(image: Array, rows: Array, columns: Array) -> Array:
    return _dot("qw,pwc->pqc", columns, _dot("ph,hwc->pwc", rows, image))


def _sum_transpose(g: Array, rows: Array, columns: Array) -> Array:
    return _dot("ph,pwc->hwc", rows, _dot("qw,pqc->pwc", columns, g))


def _sum_by_place(image: Array, rows: Array, columns: Array) -> Array:
    bins = rows.shape[0], columns.shape[0]
    each = image.reshape(*image.shape[:2], image.shape[2] // (bins[0] * bins[1]), *bins)
    return _dot("qw,wcpq->pqc", columns, _dot("ph,hwcpq->wcpq", rows, each))


def _sum_by_place_transpose(g: Array, rows: Array, columns: Array) -> Array:
    spread = _dot("ph,qw,pqc->hwcpq", rows, columns, g)
    return spread.reshape(*spread.shape[:2], -1)


# --- maxima of one box ----------------------------------------------------------------------------


def _maximum(image: Array, rows: Array, columns: Array) -> Array:
    _, y = _largest(image, rows, columns)
    there = rows.any(1)[:, None, None] & columns.any(1)[None, :, None]
    return jnp.where(there, y, jnp.zeros((), y.dtype))


def _largest(image: Array, rows: Array, columns: Array) -> tuple[Array, Array]:
    """The largest of each row in the columns of a bin, and the largest of each bin."""
    lowest = identity_array(MAX, np.dtype(image.dtype))
    of_rows = jnp.where(columns[None, :, :, None], image[:, None], lowest).max(2)
    (of_rows,) = materialize(of_rows)
    return of_rows, jnp.where(rows[:, :, None, None], of_rows[None], lowest).max(1)


def _places(image: Array, rows: Array, columns: Array) -> tuple[Array, Array]:
    """The row of the maximum of each bin, and the column of that of each row and bin."""
    of_rows, y = _largest(image, rows, columns)
    column = _first(image[:, None], of_rows[:, :, None], columns[None, :, :, None], 2)
    row, column = materialize(_first(of_rows[None], y[:, None], rows[:, :, None, None], 1), column)
    return row, column


def _first(x: Array, largest: Array, read: Array, axis: int) -> Array:
    """The first place along ``axis`` that is read and holds the largest; its length if none is."""
    found = read & same(x, largest)
    length = found.shape[axis]
    places = lax.broadcasted_iota(jnp.int32, found.shape, axis)
    return jnp.where(found, places, length).min(axis)


def _gather(t: Array, x: Array, boxes: Boxes, value: Array) -> Array:
    """``t`` where ``x`` has its maxima; ``value`` is that of ``x``."""

    def of_box(both: Array, box: Boxes) -> Array:
        own, whole = jnp.split(both, 2, axis=-1)
        row, column = _places(whole, box.rows, box.columns)
        at = _is(column, 2, whole.shape[1])
        in_rows = jnp.where(at, own[:, None], jnp.zeros((), t.dtype)).sum(2)
        return jnp.where(_is(row, 1, whole.shape[0]), in_rows, jnp.zeros((), t.dtype)).sum(1)

    def forward(t: Array) -> Array:
        return each(of_box, jnp.concatenate([t.reshape(x.shape), x], -1), boxes).reshape(-1)

    def back(g: Array, box: Boxes) -> Array:
        whole = image(x, box.image)
        row, column = _places(whole, box.rows, box.columns)
        here = _is(row, 1, whole.shape[0])
        (in_rows,) = materialize(jnp.where(here, g[:, None], jnp.zeros((), g.dtype)).sum(0))
        at = _is(column, 2, whole.shape[1])
        return jnp.where(at, in_rows[:, :, None], jnp.zeros((), g.dtype)).sum(1)

    def transpose(g: Array) -> Array:
        return added(back, g.reshape(value.shape), boxes, x).reshape(-1)

    return _flat_map(forward, transpose, t, value.shape, value)


def _is(places: Array, axis: int, length: int) -> Array:
    """Whether an entry of a new axis is the place, which is its length for none."""
    places = jnp.expand_dims(places, axis)
    shape = tuple(length if a == axis else n for a, n in enumerate(places.shape))
    return places == lax.broadcasted_iota(jnp.int32, shape, axis)
