"""How a function of the bins of one box is applied to every box, and how boxes are summed.

CPU processes boxes sequentially: the image of a box stays in cache. On GPU and TPU, every iteration
of such a loop would run separately, so each step processes as many boxes as a bound on memory
allows, each with a copy of its image. If each bin has few samples, CPU gathers the elements around
them, and the transpose scatters to these, one box after the other, in a fixed order. GPU and TPU
gather if boxes read a small part of their images. Otherwise, CPU also reads only the elements of
each box, in :mod:`.box_elements`, if a step reads enough of them.

The other transposes sum over the boxes of each image. On GPU and TPU a mask excludes the boxes of
other images, so that no step has a scatter. (A product with a matrix of zeros and ones would
propagate a NaN from one image to all.) No array has both a box axis and an image axis.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from .._geometry.axis import cdiv
from .._geometry.resolve import is_at_least, is_static
from .._xla.by_platform import by_platform
from .._xla.sharding_types import varying_zeros
from . import tuning


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

    @property
    def bins(self) -> tuple[int, int]:
        """The number of bins along rows and columns."""
        return self.rows.shape[-2], self.columns.shape[-2]


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
"""A function of an array and one box, or all boxes."""


def map_boxes(
    function: BoxFunction,
    x: Array,
    boxes: Boxes,
    samples: SampledElements | None,
    on_cpu: BoxFunction | None,
) -> Array:
    """Return ``function(image, box)`` for every box and its image in ``x``.

    Args:
      function: the function of an image and a box.
      x: the images.
      boxes: the boxes.
      samples: if ``function`` is a sum of few elements, these elements.
      on_cpu: a function of ``x`` and ``boxes`` with the same result, for CPU.
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
    if on_cpu is not None:
        cpu = lambda x, boxes, _: on_cpu(x, boxes)  # noqa: E731
    else:
        cpu = sequential if samples is None else gathered
    gpu = gathered if ratio >= 1 else dense
    tpu = gathered if ratio >= tuning.MIN_RATIO_GATHERED_ON_TPU else dense
    return by_platform(x, boxes, samples, cpu=cpu, tpu=tpu, default=gpu)


def sum_over_boxes(
    function: BoxFunction,
    g: Array,
    boxes: Boxes,
    images: Array,
    on_cpu: BoxFunction | None,
) -> Array:
    """Return, for each image, the sum of ``function(g of the box, box)`` over its boxes.

    The result has the shape of ``images``. ``on_cpu`` is a function of ``g`` and ``boxes`` with the
    same result, for CPU.
    """
    count, shape = _boxes_per_step(images, boxes), images.shape

    def sequential(g: Array, boxes: Boxes) -> Array:
        return _add_sequentially(function, g, boxes, shape)

    def batched(g: Array, boxes: Boxes) -> Array:
        return _add_in_steps(function, g, boxes, shape, count)

    return by_platform(
        g, boxes, cpu=on_cpu or sequential, default=batched if count > 1 else sequential
    )


def has_elements(x: Array) -> bool:
    """Return whether images are known to have elements, as a gather needs."""
    return all(is_at_least(length, 1) for length in x.shape[:3])


def visits_elements(x: Array, boxes: Boxes, channels: int) -> bool:
    """Return whether CPU visits the elements of each box, for results of ``channels``."""
    read_at_once = math.prod(boxes.bins) * channels
    return has_elements(x) and is_at_least(read_at_once, tuning.MIN_READ_AT_ONCE)


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


def zero_unless(mask: Array, x: Array) -> Array:
    """Return ``x`` with zeros where ``mask`` is False."""
    return jnp.where(mask, x, jnp.zeros((), x.dtype))


def bin_has_element(boxes: Boxes) -> Array:
    """Return whether every bin of a box, or of several, has an element, ``[bin, bin, 1]``."""
    return boxes.rows.any(-1)[..., :, None, None] & boxes.columns.any(-1)[..., None, :, None]


def shape_by_bin(shape: tuple[int, ...], bins: tuple[int, int]) -> tuple[int, ...]:
    """Return the shape of images with their channels divided into channels and bins."""
    return *shape[:-1], shape[-1] // math.prod(bins), *bins


def scaled(weight: Array, x: Array) -> Array:
    """Return ``weight * x``, 0 where the weight is 0, even if ``x`` is not finite."""
    return zero_unless(weight > 0, weight * x)


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


def _add_in_steps(
    function: BoxFunction, g: Array, boxes: Boxes, shape: tuple[int, ...], count: int
) -> Array:
    """Return :func:`sum_over_boxes` in steps of ``count`` boxes."""
    image_indices = lax.iota(jnp.int32, shape[0])

    def step(total: Array, operands: tuple[Array, Boxes]) -> tuple[Array, None]:
        g, boxes = operands
        contributions = jax.vmap(function)(g, boxes)
        of_image = (image_indices[:, None] == boxes.image[None])[..., None, None, None]
        return total + zero_unless(of_image, contributions).sum(1), None

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


# --- few samples in a bin -------------------------------------------------------------------------


def _gather_sums(x: Array, images: Array, samples: SampledElements) -> Array:
    """Return the sums of all boxes, by adding one gathered element of every bin at a time."""
    total = None
    image_index = images[:, None, None]
    pairs = itertools.product(range(samples.rows.shape[2]), range(samples.columns.shape[2]))
    for a, b in pairs:
        row, column = samples.rows[:, :, None, a], samples.columns[:, None, :, b]
        weight = samples.row_weights[:, :, None, a] * samples.column_weights[:, None, :, b]
        elements = x.at[image_index, row, column].get(mode="promise_in_bounds")
        term = scaled(weight[..., None], elements)
        total = term if total is None else total + term
    assert total is not None, "a bin has a sample"
    return total


def scatter_sums(
    g: Array, images: Array, samples: SampledElements, shape: tuple[int, ...]
) -> Array:
    """Return the transpose of :func:`_gather_sums`, by adding to the elements of one box a time."""

    def step(sums: Array, operands: tuple[Array, Array, SampledElements]) -> tuple[Array, None]:
        g, image_index, box = operands
        in_rows = scaled(box.row_weights[:, :, None, None], g[:, None])
        terms = scaled(box.column_weights[None, None, ..., None], in_rows[:, :, :, None])
        places = sums.at[image_index, box.rows[:, :, None, None], box.columns[None, None]]
        return places.add(terms, mode="promise_in_bounds"), None

    return lax.scan(step, varying_zeros(shape, g.dtype, (g, images)), (g, images, samples))[0]
