"""One function of every box and its image: one box after the other, or many at once.

On CPU boxes take turns: the image of one box stays in the cache. GPU and TPU would run every step
of such a loop for itself, so there a step takes as many boxes as a bound on the memory allows, each
with a copy of its image. A sum of which boxes read a small part of their images gathers it instead.

Sums over the boxes of an image leave out those of other images by a mask, so that no step has a
scatter. (A product with a matrix of zeros and ones would carry a NaN from one image to all.)
"""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from .._geometry.axis import cdiv
from .._xla.by_platform import by_platform
from .._xla.sharding_types import varying_zeros
from . import tuning


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
