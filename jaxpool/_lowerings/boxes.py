"""Functions of every box and its image, and the sums and maxima of the bins of one box.

Each box ``k`` reads one image ``x[n]``. Its bins are the products of rows and of columns, so that
both sums and maxima go along the columns, then along the rows. With a weight for each bin and row,
``A``, and for each bin and column, ``B``, the sums are

    y[k, p, q, c] = sum over h, w of A[k, p, h] B[k, q, w] x[n, h, w, c],
    dx[n, h, w, c] = sum over k of n, p, q of A[k, p, h] B[k, q, w] dy[k, p, q, c].

Position-sensitive sums read another channel for every bin, ``c * P * Q + p * Q + q`` for ``c``.

Maxima. Let ``w[h, q, c]`` be the column of the first maximum of row ``h`` in the columns of ``q``,
and ``h[p, q, c]`` the first row of ``p`` with the maximum of the bin. That is the first maximum in
row-major order, and its tangent is a sum of products of comparisons, as is the transpose.

On CPU boxes take turns: the image of one box stays in the cache. GPU and TPU would run every step
of such a loop for itself, so there a step takes as many boxes as a bound on the memory allows, each
with a copy of its image. A sum of which boxes read a small part of their images gathers it instead.

Sums over the boxes of an image leave out those of other images by a mask, so that no step has a
scatter. (A product with a matrix of zeros and ones would carry a NaN from one image to all.) No
array has both boxes and images.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._geometry.axis import cdiv
from .._xla.by_platform import by_platform
from .._xla.materialize import materialize
from .._xla.sharding_types import varying_zeros
from ..reductions import MAX, identity_array
from . import tuning
from .parts.argreduce import same


class Boxes(NamedTuple):
    """What the bins of boxes read; an array has one entry for each box.

    Attributes:
      image: numbers of the images, in int32.
      rows: of each bin and row its weight in a sum, or whether it is read.
      columns: the same of columns.
    """

    image: Array
    rows: Array
    columns: Array


class Near(NamedTuple):
    """What the bins of boxes read in a sum, element by element; an entry for each box and bin.

    Attributes:
      rows: numbers of rows, in int32.
      of_rows: the weight of each.
      columns, of_columns: the same of columns.
    """

    rows: Array
    of_rows: Array
    columns: Array
    of_columns: Array


OfBox = Callable[[Array, Boxes], Array]
"""Of an array and one box."""


def each(one: OfBox, x: Array, boxes: Boxes, near: Near | None = None) -> Array:
    """Return ``one(image, box)`` of the image of every box in ``x``.

    Args:
      one: the function.
      x: the images.
      boxes: what it is given of each box.
      near: if it is a sum of few elements, these.
    """
    count = _at_once(x, boxes)

    def in_turn(x: Array, boxes: Boxes, _: Near | None) -> Array:
        return _each_in_turn(one, x, boxes)

    def at_once(x: Array, boxes: Boxes, _: Near | None) -> Array:
        return _each_at_once(one, x, boxes, count)

    def gathered(x: Array, boxes: Boxes, near: Near) -> Array:
        return _gathered(x, boxes.image, near)

    dense = at_once if count > 1 else in_turn
    share = _share(x, near)
    gpu = gathered if share >= 1 else dense
    tpu = gathered if share >= tuning.LEAST_SHARE_GATHERED_ON_TPU else dense
    return by_platform({"cpu": in_turn, "gpu": gpu, "tpu": tpu}, x, boxes, near)


def added(one: OfBox, g: Array, boxes: Boxes, images: Array) -> Array:
    """Return the sum over boxes of ``one(g of the box, box)``, an image like one of ``images``."""
    count = _at_once(images, boxes)
    in_turn = lambda g, boxes: _added_in_turn(one, g, boxes, images.shape)  # noqa: E731
    at_once = lambda g, boxes: _added_at_once(one, g, boxes, images.shape, count)  # noqa: E731
    others = at_once if count > 1 else in_turn
    return by_platform({"cpu": in_turn, "gpu": others, "tpu": others}, g, boxes)


def image(x: Array, number: Array) -> Array:
    """Return one image of an array of them."""
    return lax.dynamic_index_in_dim(x, number, keepdims=False)


def _at_once(x: Array, boxes: Boxes) -> int:
    """How many boxes one step takes."""
    sizes = (*x.shape[1:], boxes.image.shape[0])
    if not all(isinstance(size, int) for size in sizes):
        return 1  # symbolic sizes
    bytes_of_image = math.prod(x.shape[1:]) * x.dtype.itemsize
    return min(boxes.image.shape[0], tuning.MOST_BYTES_OF_BOXES // max(1, bytes_of_image))


def _share(x: Array, near: Near | None) -> float:
    """How many times as many elements an image has as a box reads; 0 if that is not known."""
    sizes = x.shape[1:3]
    if near is None or not all(isinstance(size, int) for size in sizes):
        return 0
    return math.prod(sizes) / math.prod(near.rows.shape[1:] + near.columns.shape[1:])


# --- one after the other --------------------------------------------------------------------------


def _each_in_turn(one: OfBox, x: Array, boxes: Boxes) -> Array:
    return lax.map(lambda box: one(image(x, box.image), box), boxes)


def _added_in_turn(one: OfBox, g: Array, boxes: Boxes, shape: tuple[int, ...]) -> Array:
    def step(total: Array, of_box: tuple[Array, Boxes]) -> tuple[Array, None]:
        g, box = of_box
        sum_ = image(total, box.image) + one(g, box)
        return lax.dynamic_update_index_in_dim(total, sum_, box.image, 0), None

    return lax.scan(step, varying_zeros(shape, g.dtype, (g, boxes)), (g, boxes))[0]


# --- many at once ---------------------------------------------------------------------------------


def _each_at_once(one: OfBox, x: Array, boxes: Boxes, count: int) -> Array:
    def step(boxes: Boxes) -> Array:
        if x.shape[0] == 1:
            return jax.vmap(lambda box: one(x[0], box))(boxes)
        return jax.vmap(lambda box: one(image(x, box.image), box))(boxes)

    number = boxes.image.shape[0]
    if count == number:
        return step(boxes)
    y = lax.map(step, _steps(boxes, count))
    return y.reshape(-1, *y.shape[2:])[:number]


def _gathered(x: Array, images: Array, near: Near) -> Array:
    """The sums of all boxes, an element of every bin after the other."""
    total = None
    number = images[:, None, None]
    pairs = itertools.product(range(near.rows.shape[2]), range(near.columns.shape[2]))
    for a, b in pairs:
        row, column = near.rows[:, :, None, a], near.columns[:, None, :, b]
        weight = near.of_rows[:, :, None, a] * near.of_columns[:, None, :, b]
        read = x.at[number, row, column].get(mode="promise_in_bounds")
        term = weight[..., None] * read
        total = term if total is None else total + term
    assert total is not None, "a bin has a sample"
    return total


def _added_at_once(one: OfBox, g: Array, boxes: Boxes, shape: tuple[int, ...], count: int) -> Array:
    numbers = lax.iota(jnp.int32, shape[0])

    def step(total: Array, of_boxes: tuple[Array, Boxes]) -> tuple[Array, None]:
        g, boxes = of_boxes
        parts = jax.vmap(one)(g, boxes)
        of_image = (numbers[:, None] == boxes.image[None])[..., None, None, None]
        return total + jnp.where(of_image, parts, jnp.zeros((), g.dtype)).sum(1), None

    total = varying_zeros(shape, g.dtype, (g, boxes))
    if count == boxes.image.shape[0]:
        return step(total, (g, boxes))[0]
    return lax.scan(step, total, _steps((g, boxes), count))[0]


def _steps(boxes: Any, count: int) -> Any:
    """The boxes in steps; zeros, which read and add nothing, fill up the last one."""

    def of(a: Array) -> Array:
        steps = cdiv(a.shape[0], count)
        padding = [(0, steps * count - a.shape[0]), *[(0, 0)] * (a.ndim - 1)]
        return jnp.pad(a, padding).reshape(steps, count, *a.shape[1:])

    return jax.tree.map(of, boxes)


# --- sums of one box ------------------------------------------------------------------------------


def sum_of(image: Array, box: Boxes) -> Array:
    """Return the weighted sum of every bin, ``[bin, bin, channel]``."""
    return _dot("qw,pwc->pqc", box.columns, _dot("ph,hwc->pwc", box.rows, image))


def sum_transpose(g: Array, box: Boxes) -> Array:
    """Return the transpose of :func:`sum_of`."""
    return _dot("ph,pwc->hwc", box.rows, _dot("qw,pqc->pwc", box.columns, g))


def sum_by_place(image: Array, box: Boxes) -> Array:
    """As :func:`sum_of`, of a channel of its own for every bin."""
    bins = box.rows.shape[0], box.columns.shape[0]
    each = image.reshape(*image.shape[:2], image.shape[2] // (bins[0] * bins[1]), *bins)
    return _dot("qw,wcpq->pqc", box.columns, _dot("ph,hwcpq->wcpq", box.rows, each))


def sum_by_place_transpose(g: Array, box: Boxes) -> Array:
    """Return the transpose of :func:`sum_by_place`."""
    spread = _dot("ph,qw,pqc->hwcpq", box.rows, box.columns, g)
    return spread.reshape(*spread.shape[:2], -1)


def _dot(subscripts: str, *arrays: Array) -> Array:
    return jnp.einsum(subscripts, *arrays, precision=lax.Precision.HIGHEST)


# --- maxima of one box ----------------------------------------------------------------------------


def maximum_of(image: Array, box: Boxes) -> Array:
    """Return the maximum of every bin, 0 where it is empty."""
    _, y = _largest(image, box)
    there = box.rows.any(1)[:, None, None] & box.columns.any(1)[None, :, None]
    return jnp.where(there, y, jnp.zeros((), y.dtype))


def at_maximum(t: Array, image: Array, box: Boxes) -> Array:
    """Return ``t`` where the image has the maximum of every bin, 0 where that is empty."""
    row, column = _places(image, box)
    at = _is(column, 2, image.shape[1])
    in_rows = jnp.where(at, t[:, None], jnp.zeros((), t.dtype)).sum(2)
    return jnp.where(_is(row, 1, image.shape[0]), in_rows, jnp.zeros((), t.dtype)).sum(1)


def at_maximum_transpose(g: Array, image: Array, box: Boxes) -> Array:
    """Return the transpose of :func:`at_maximum`."""
    row, column = _places(image, box)
    here = _is(row, 1, image.shape[0])
    (in_rows,) = materialize(jnp.where(here, g[:, None], jnp.zeros((), g.dtype)).sum(0))
    at = _is(column, 2, image.shape[1])
    return jnp.where(at, in_rows[:, :, None], jnp.zeros((), g.dtype)).sum(1)


def _largest(image: Array, box: Boxes) -> tuple[Array, Array]:
    """The largest of each row in the columns of a bin, and the largest of each bin."""
    lowest = identity_array(MAX, np.dtype(image.dtype))
    of_rows = jnp.where(box.columns[None, :, :, None], image[:, None], lowest).max(2)
    (of_rows,) = materialize(of_rows)
    return of_rows, jnp.where(box.rows[:, :, None, None], of_rows[None], lowest).max(1)


def _places(image: Array, box: Boxes) -> tuple[Array, Array]:
    """The row of the maximum of each bin, and the column of that of each row and bin."""
    of_rows, y = _largest(image, box)
    column = _first(image[:, None], of_rows[:, :, None], box.columns[None, :, :, None], 2)
    row = _first(of_rows[None], y[:, None], box.rows[:, :, None, None], 1)
    row, column = materialize(row, column)
    return row, column


def _first(x: Array, largest: Array, read: Array, axis: int) -> Array:
    """The first place along ``axis`` that is read and holds the largest; its length if none is."""
    found = read & same(x, largest)
    length = found.shape[axis]
    places = lax.broadcasted_iota(jnp.int32, found.shape, axis)
    return jnp.where(found, places, length).min(axis)


def _is(places: Array, axis: int, length: int) -> Array:
    """Whether an entry of a new axis is the place, which is its length for none."""
    places = jnp.expand_dims(places, axis)
    shape = tuple(length if a == axis else n for a, n in enumerate(places.shape))
    return places == lax.broadcasted_iota(jnp.int32, shape, axis)
