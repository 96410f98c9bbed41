"""Sums and maxima over the bins of boxes, and how a function is applied to every box.

Box ``k`` reads one image ``x[n]``. It is divided into ``P`` by ``Q`` bins; bin ``(p, q)`` is the
product of a set of rows and a set of columns. Sums and maxima are therefore computed along one of
the two axes, then along the other.

Sums. With weights ``A[k, p, h]`` of the rows and ``B[k, q, w]`` of the columns, the sums and their
transpose are

    y[k, p, q, c] = sum over h, w of A[k, p, h] B[k, q, w] x[n, h, w, c],
    dx[n, h, w, c] = sum over p, q and the boxes k that read image n of
                     A[k, p, h] B[k, q, w] dy[k, p, q, c].

Position-sensitive sums read a separate channel for every bin: channel ``c * P * Q + p * Q + q``
for channel ``c`` of the result.

Maxima. Let ``w[h, q, c]`` be the first column with the maximum of row ``h`` over the columns of
``q``, and ``h[p, q, c]`` the first row of ``p`` with the maximum of the bin. Row ``h`` and its
column ``w`` are the first maximum of the bin in row-major order. The tangent selects the element at
that place by a sum over products of comparisons with the indices, and so does its transpose.

CPU processes boxes sequentially: the image of a box stays in cache. On GPU and TPU, every iteration
of such a loop would run separately, so each step processes as many boxes as a bound on memory
allows, each with a copy of its image. If boxes read a small part of their images, sums gather it.

The transposes sum over the boxes of each image. A mask excludes the boxes of other images, so that
no step has a scatter. (A product with a matrix of zeros and ones would propagate a NaN from one
image to all.) No array has both a box axis and an image axis.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from .._geometry.axis import cdiv
from .._geometry.resolve import is_static
from .._xla.by_platform import by_platform
from .._xla.materialize import materialize
from .._xla.sharding_types import varying_zeros
from ..reductions import MAX, Reduction, identity_array
from . import tuning
from .parts.argreduce import equal_or_both_nan
from .parts.float_order import reduce_in_integers_on_cpu


class Boxes(NamedTuple):
    """The rows and columns that the bins of boxes read; each array has an entry for each box.

    Attributes:
      image: the index of the image, int32.
      rows: for each bin and row, the weight of the row in a sum, or for a maximum a mask.
      columns: the same for columns.
    """

    image: Array
    rows: Array
    columns: Array


class SampledElements(NamedTuple):
    """The few elements that bins read in a sum; each array has an entry for each box and bin.

    Attributes:
      rows: the indices of the rows, int32.
      row_weights: the weight of each row.
      columns, column_weights: the same for columns.
    """

    rows: Array
    row_weights: Array
    columns: Array
    column_weights: Array


BoxFunction = Callable[[Array, Boxes], Array]
"""A function of an array and one box."""


def map_boxes(
    function: BoxFunction, x: Array, boxes: Boxes, samples: SampledElements | None = None
) -> Array:
    """Return ``function(image, box)`` for every box and its image in ``x``.

    Args:
      function: the function of an image and a box.
      x: the images.
      boxes: the boxes.
      samples: if ``function`` is a sum of few elements, these elements.
    """
    count = _boxes_per_step(x, boxes)

    def sequential(x: Array, boxes: Boxes, _: SampledElements | None) -> Array:
        return _each_sequentially(function, x, boxes)

    def batched(x: Array, boxes: Boxes, _: SampledElements | None) -> Array:
        return _each_in_steps(function, x, boxes, count)

    def gathered(x: Array, boxes: Boxes, samples: SampledElements) -> Array:
        return _gather_sums(x, boxes.image, samples)

    dense = batched if count > 1 else sequential
    ratio = _size_ratio(x, samples)
    gpu = gathered if ratio >= 1 else dense
    tpu = gathered if ratio >= tuning.MIN_RATIO_GATHERED_ON_TPU else dense
    return by_platform(x, boxes, samples, cpu=sequential, tpu=tpu, default=gpu)


def sum_over_boxes(function: BoxFunction, g: Array, boxes: Boxes, images: Array) -> Array:
    """Return, for each image, the sum of ``function(g of the box, box)`` over its boxes.

    The result has the shape of ``images``.
    """
    count = _boxes_per_step(images, boxes)
    sequential = lambda g, boxes: _add_sequentially(function, g, boxes, images.shape)  # noqa: E731
    batched = lambda g, boxes: _add_in_steps(function, g, boxes, images.shape, count)  # noqa: E731
    return by_platform(g, boxes, cpu=sequential, default=batched if count > 1 else sequential)


def image(x: Array, number: Array) -> Array:
    """Return image ``number`` of an array of images."""
    return lax.dynamic_index_in_dim(x, number, keepdims=False)


def _boxes_per_step(x: Array, boxes: Boxes) -> int:
    """Return how many boxes one step processes; 1 if sizes are symbolic."""
    sizes = (*x.shape[1:], boxes.image.shape[0])
    if not is_static(sizes):
        return 1
    bytes_of_image = math.prod(x.shape[1:]) * x.dtype.itemsize
    return min(boxes.image.shape[0], tuning.MAX_BYTES_OF_BOXES // max(1, bytes_of_image))


def _size_ratio(x: Array, samples: SampledElements | None) -> float:
    """Return the elements of an image divided by those that a box reads; 0 if not known."""
    sizes = x.shape[1:3]
    if samples is None or not is_static(sizes):
        return 0
    return math.prod(sizes) / math.prod(samples.rows.shape[1:] + samples.columns.shape[1:])


# --- sequentially ---------------------------------------------------------------------------------


def _each_sequentially(function: BoxFunction, x: Array, boxes: Boxes) -> Array:
    return lax.map(lambda box: function(image(x, box.image), box), boxes)


def _add_sequentially(
    function: BoxFunction, g: Array, boxes: Boxes, shape: tuple[int, ...]
) -> Array:
    def step(sums: Array, operands: tuple[Array, Boxes]) -> tuple[Array, None]:
        g, box = operands
        updated = image(sums, box.image) + function(g, box)
        return lax.dynamic_update_index_in_dim(sums, updated, box.image, 0), None

    return lax.scan(step, varying_zeros(shape, g.dtype, (g, boxes)), (g, boxes))[0]


# --- several boxes in a step ----------------------------------------------------------------------


def _each_in_steps(function: BoxFunction, x: Array, boxes: Boxes, count: int) -> Array:
    """Return :func:`map_boxes` in steps of ``count`` boxes."""

    def step(boxes: Boxes) -> Array:
        if x.shape[0] == 1:
            return jax.vmap(lambda box: function(x[0], box))(boxes)
        return jax.vmap(lambda box: function(image(x, box.image), box))(boxes)

    number = boxes.image.shape[0]
    if count == number:
        return step(boxes)
    y = lax.map(step, _split_into_steps(boxes, count))
    return y.reshape(-1, *y.shape[2:])[:number]


def _gather_sums(x: Array, images: Array, samples: SampledElements) -> Array:
    """Return the sums of all boxes, by adding one gathered element of every bin at a time."""
    total = None
    image_index = images[:, None, None]
    pairs = itertools.product(range(samples.rows.shape[2]), range(samples.columns.shape[2]))
    for a, b in pairs:
        row, column = samples.rows[:, :, None, a], samples.columns[:, None, :, b]
        weight = samples.row_weights[:, :, None, a] * samples.column_weights[:, None, :, b]
        elements = x.at[image_index, row, column].get(mode="promise_in_bounds")
        term = weight[..., None] * elements
        total = term if total is None else total + term
    assert total is not None, "a bin has a sample"
    return total


def _add_in_steps(
    function: BoxFunction, g: Array, boxes: Boxes, shape: tuple[int, ...], count: int
) -> Array:
    """Return :func:`sum_over_boxes` in steps of ``count`` boxes."""
    image_indices = lax.iota(jnp.int32, shape[0])

    def step(total: Array, operands: tuple[Array, Boxes]) -> tuple[Array, None]:
        g, boxes = operands
        contributions = jax.vmap(function)(g, boxes)
        of_image = (image_indices[:, None] == boxes.image[None])[..., None, None, None]
        return total + _zero_unless(of_image, contributions).sum(1), None

    total = varying_zeros(shape, g.dtype, (g, boxes))
    if count == boxes.image.shape[0]:
        return step(total, (g, boxes))[0]
    return lax.scan(step, total, _split_into_steps((g, boxes), count))[0]


def _split_into_steps(boxes: Any, count: int) -> Any:
    """Split the box axis into steps of ``count``; boxes of zeros, which add 0, fill up the last."""

    def split(a: Array) -> Array:
        steps = cdiv(a.shape[0], count)
        padding = [(0, steps * count - a.shape[0]), *[(0, 0)] * (a.ndim - 1)]
        return jnp.pad(a, padding).reshape(steps, count, *a.shape[1:])

    return jax.tree.map(split, boxes)


# --- sums of one box ------------------------------------------------------------------------------


def sum_of(image: Array, box: Boxes) -> Array:
    """Return the weighted sum of every bin, ``[bin, bin, channel]``."""
    return _dot("qw,pwc->pqc", box.columns, _dot("ph,hwc->pwc", box.rows, image))


def sum_transpose(g: Array, box: Boxes) -> Array:
    """Return the transpose of :func:`sum_of`."""
    return _dot("ph,pwc->hwc", box.rows, _dot("qw,pqc->pwc", box.columns, g))


def position_sensitive_sum(image: Array, box: Boxes) -> Array:
    """Return :func:`sum_of` where every bin reads a separate channel."""
    bins = box.rows.shape[0], box.columns.shape[0]
    by_bin = image.reshape(*image.shape[:2], image.shape[2] // (bins[0] * bins[1]), *bins)
    return _dot("qw,wcpq->pqc", box.columns, _dot("ph,hwcpq->wcpq", box.rows, by_bin))


def position_sensitive_sum_transpose(g: Array, box: Boxes) -> Array:
    """Return the transpose of :func:`position_sensitive_sum`."""
    spread = _dot("ph,qw,pqc->hwcpq", box.rows, box.columns, g)
    return spread.reshape(*spread.shape[:2], -1)


def _dot(subscripts: str, *arrays: Array) -> Array:
    return jnp.einsum(subscripts, *arrays, precision=lax.Precision.HIGHEST)


# --- maxima of one box ----------------------------------------------------------------------------


def maximum_of(image: Array, box: Boxes) -> Array:
    """Return the maximum of every bin, 0 where it is empty."""
    _, y = _maxima(image, box)
    has_element = box.rows.any(1)[:, None, None] & box.columns.any(1)[None, :, None]
    return _zero_unless(has_element, y)


def select_at_maximum(t: Array, image: Array, box: Boxes) -> Array:
    """Return ``t`` at the argmax of the image in every bin, 0 for an empty bin."""
    row, column = _argmax(image, box)
    is_column = _one_hot(column, 2, image.shape[1])
    in_rows = _zero_unless(is_column, t[:, None]).sum(2)
    return _zero_unless(_one_hot(row, 1, image.shape[0]), in_rows).sum(1)


def select_at_maximum_transpose(g: Array, image: Array, box: Boxes) -> Array:
    """Return the transpose of :func:`select_at_maximum`."""
    row, column = _argmax(image, box)
    is_row = _one_hot(row, 1, image.shape[0])
    in_rows = materialize(_zero_unless(is_row, g[:, None]).sum(0))
    is_column = _one_hot(column, 2, image.shape[1])
    return _zero_unless(is_column, in_rows[:, :, None]).sum(1)


def _zero_unless(mask: Array, x: Array) -> Array:
    """Return ``x`` with zeros where ``mask`` is False."""
    return jnp.where(mask, x, jnp.zeros((), x.dtype))


def _maxima(image: Array, box: Boxes) -> tuple[Array, Array]:
    """Return the maximum of each row over the columns of each bin, and that of each bin."""
    row_maxima = materialize(_maximum(image[:, None], box.columns[None, :, :, None], 2))
    return row_maxima, _maximum(row_maxima[None], box.rows[:, :, None, None], 1)


def _maximum(x: Array, mask: Array, axis: int) -> Array:
    """Return the maximum along ``axis`` of the elements where ``mask`` is True."""

    def reduce(x: Array, reduction: Reduction) -> Array:
        elements = jnp.where(mask, x, identity_array(reduction, x.dtype))
        return lax.reduce_max(elements, (axis,))  # unlike jnp.max, of any symbolic size

    return reduce_in_integers_on_cpu(reduce, x, MAX)


def _argmax(image: Array, box: Boxes) -> tuple[Array, Array]:
    """Return the row of the argmax of each bin, and the column of that of each row and bin."""
    row_maxima, y = _maxima(image, box)
    column = _first_maximum(
        image[:, None], row_maxima[:, :, None], box.columns[None, :, :, None], 2
    )
    row = _first_maximum(row_maxima[None], y[:, None], box.rows[:, :, None, None], 1)
    return materialize((row, column))


def _first_maximum(x: Array, largest: Array, mask: Array, axis: int) -> Array:
    """Return the first index along ``axis`` that is read and equals the maximum, or its length."""
    is_maximum = mask & equal_or_both_nan(x, largest)
    length = is_maximum.shape[axis]
    places = lax.broadcasted_iota(jnp.int32, is_maximum.shape, axis)
    return lax.reduce_min(jnp.where(is_maximum, places, length), (axis,))


def _one_hot(places: Array, axis: int, length: int) -> Array:
    """Return a one-hot mask of ``places`` along a new axis; a place of ``length`` matches none."""
    places = jnp.expand_dims(places, axis)
    shape = tuple(length if a == axis else n for a, n in enumerate(places.shape))
    return places == lax.broadcasted_iota(jnp.int32, shape, axis)
