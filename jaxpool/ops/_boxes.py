"""Shared parts of the box pools: layouts, boxes and their images, and the elements of bins."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._errors import counted, message, shown
from .._geometry import layout as layouts
from .._geometry.arguments import check_length, entries_of, integer, is_sequence
from .._lowerings import tuning
from .._lowerings.boxes import Boxes, SampledElements, zero_unless
from .._numerics import regions
from .._numerics.checks import is_real
from .._numerics.indices import clip_to_int32
from ..reductions import accumulator
from ._parameters import check_positive

_MAX_BINS = 2**10


def canonical_output(output_size: Any, spatial_scale: Any, data_format: Any) -> dict[str, Any]:
    """Return the options that all box pools have, checked."""
    check_positive("spatial_scale", spatial_scale, static=True)
    return {
        "output_size": _sizes(output_size),
        "spatial_scale": float(spatial_scale),
        "data_format": _layout(data_format),
    }


def _sizes(output_size: Any) -> tuple[int, int]:
    if is_sequence(output_size):
        check_length("output_size", output_size, 2)
        sizes = entries_of("output_size", output_size)
    else:
        sizes = (output_size, output_size)
    rows, columns = (integer("output_size", size, 1) for size in sizes)
    if max(rows, columns) > _MAX_BINS:
        raise ValueError(
            message(
                f"$output_size contains {max(rows, columns)}.",
                f"This is the number of bins per axis; at most {_MAX_BINS} are allowed.",
                "Give a smaller number, such as 7.",
            )
        )
    return rows, columns


def _layout(data_format: Any) -> str:
    layout = layouts.check(data_format)
    if layouts.is_explicit(layout) and {*layout} - {*"NC"} != {*"HW"}:
        raise ValueError(_not_planar_message(layout))
    return layout


def _not_planar_message(layout: str) -> str:
    return message(
        f"$data_format = {shown(layout)} does not have H and W as its pooled axes.",
        "A box has a position and a size along H and W.",
        'Give for example "NHWC", "NCHW", "HW" or "channels_first".',
    )


# --- layouts --------------------------------------------------------------------------------------


class Images(NamedTuple):
    """An array as ``[image, row, column, channel]``, and the layout of the result.

    Attributes:
      array: the array.
      letters: the layout of the result in letters, with N for the boxes.
      batch: whether the array had batch axes.
    """

    array: Array
    letters: str
    batch: bool


def to_images(x: Array, data_format: str) -> Images:
    """Return ``x`` as images; several batch axes become one, in row-major order."""
    layouts.pooled_axes(data_format, 2, x.shape)  # raises if the rank does not fit
    leading = x.ndim - 3
    letters = {"channels_last": "HWC", "channels_first": "CHW"}.get(data_format, data_format)
    if not layouts.is_explicit(data_format) and leading:
        x = x.reshape(math.prod(x.shape[:leading]), *x.shape[leading:])
        letters = "N" + letters
    axes = [letter for letter in "NHWC" if letter in letters]
    array = x.transpose([letters.index(letter) for letter in axes])
    if "N" not in letters:
        array = array[None]
    if "C" not in letters:
        array = array[..., None]
    result_letters = letters if "N" in letters else "N" + letters
    return Images(array, result_letters, "N" in letters)


def to_layout(y: Array, letters: str) -> Array:
    """Return ``y[box, row, column, channel]`` in the layout ``letters``."""
    y = y if "C" in letters else y[..., 0]
    current = "NHWC" if "C" in letters else "NHW"
    return y.transpose([current.index(letter) for letter in letters])


# --- boxes ----------------------------------------------------------------------------------------


class Corners(NamedTuple):
    """Boxes in the coordinates of elements; every array has the shape ``[box]``.

    Attributes:
      image: the number of the image of each box, in int32.
      image_exists: whether that image exists.
      top, left, bottom, right: the ends of each box.
    """

    image: Array
    image_exists: Array
    top: Array
    left: Array
    bottom: Array
    right: Array


def box_arrays(boxes: Any, batch_index: Any) -> tuple[Any, Any]:
    """Return the boxes and their image numbers; raise for a list of an array for each image.

    64-bit integers are clipped to int32: JAX would wrap them to the number of another image.
    """
    if type(boxes) in (list, tuple) and any(getattr(entry, "ndim", 0) == 2 for entry in boxes):
        raise TypeError(
            message(
                f"$boxes is a {type(boxes).__name__} of {counted(len(boxes), 'array')}.",
                "The boxes of all images are one array.",
                "Give jnp.concatenate(boxes), and as $batch_index "
                "np.repeat(np.arange(len(boxes)), [len(b) for b in boxes]).",
            )
        )
    return clip_to_int32(boxes), clip_to_int32(batch_index)


def to_corners(boxes: Any, batch_index: Any, images: Images, spatial_scale: float) -> Corners:
    """Return the boxes, checked, scaled, and in the accumulator dtype of the images."""
    dtype = accumulator(images.array.dtype)
    boxes, numbers = _boxes_and_numbers(boxes, batch_index, images.batch)
    count = images.array.shape[0]
    image_exists = (numbers >= 0) & (numbers < count)
    image = jnp.where(image_exists, numbers, 0).astype(jnp.int32)
    ends = lax.stop_gradient(boxes).astype(dtype) * jnp.asarray(spatial_scale, dtype)
    left, top, right, bottom = (ends[:, n] for n in range(4))
    return Corners(image, image_exists, top, left, bottom, right)


def _boxes_and_numbers(boxes: Any, batch_index: Any, batch: bool) -> tuple[Array, Array]:
    """Return boxes of four coordinates, and the image number of each, or raise."""
    boxes = jnp.asarray(boxes)
    _check_boxes(boxes, batch_index, batch)
    if not batch:
        return boxes, jnp.zeros(boxes.shape[:1], jnp.int32)
    if batch_index is None:
        return boxes[:, 1:], _as_int32(boxes[:, 0])
    numbers = jnp.asarray(batch_index)
    _check_numbers(numbers, boxes)
    return boxes, _as_int32(numbers)


def _as_int32(numbers: Array) -> Array:
    """Return image numbers truncated to int32, -1 for NaN and numbers that are out of range.

    They are compared with the number of images afterwards, which could wrap in a smaller dtype.
    """
    if jnp.issubdtype(numbers.dtype, jnp.floating):
        numbers = numbers.astype(accumulator(numbers.dtype))  # which represents the limit
    elif numbers.dtype.itemsize < 4:
        return numbers.astype(jnp.int32)
    fits = (numbers >= 0) & (numbers < 2**30)
    return jnp.where(fits, numbers, -1).astype(jnp.int32)


def _check_boxes(boxes: Array, batch_index: Any, batch: bool) -> None:
    if not is_real(boxes.dtype):
        raise TypeError(
            message(
                f"$boxes has dtype {boxes.dtype}.",
                "Boxes are coordinates, x1, y1, x2 and y2.",
                "Give an array of floats.",
            )
        )
    if not batch:
        entries, meaning = 4, "The array has no image axis: a box has x1, y1, x2 and y2."
    elif batch_index is None:
        entries = 5
        meaning = "Without $batch_index a box has the index of its image, x1, y1, x2 and y2."
    else:
        entries, meaning = 4, "With $batch_index a box has x1, y1, x2 and y2."
    _check_entries(boxes, entries, meaning)
    if not batch and batch_index is not None:
        raise ValueError(
            message(
                "$batch_index is given, but the array has no image axis.",
                "All boxes refer to the single image.",
                "Leave it out, or give an array with an image axis.",
            )
        )


def _check_entries(boxes: Array, entries: int, meaning: str) -> None:
    """Raise unless each box has this number of entries, whose ``meaning`` is part of the error."""
    if boxes.ndim == 2 and boxes.shape[1] == entries:
        return
    advice = f"Give an array of shape (boxes, {entries})"
    if entries == 5 and boxes.shape[-1:] == (4,):
        advice += ", or the image index of each box as $batch_index"
        if boxes.ndim == 3:  # an array of boxes for each image
            numbers = f"jnp.repeat(jnp.arange({boxes.shape[0]}), {boxes.shape[1]})"
            advice += f", here boxes.reshape(-1, 4) and {numbers}"
    raise ValueError(message(f"$boxes has shape {boxes.shape}.", meaning, f"{advice}."))


def _check_numbers(numbers: Array, boxes: Array) -> None:
    if numbers.shape != boxes.shape[:1] or not jnp.issubdtype(numbers.dtype, jnp.integer):
        raise (TypeError if numbers.shape == boxes.shape[:1] else ValueError)(
            message(
                f"$batch_index is {numbers.dtype}{list(numbers.shape)}.",
                f"There are {boxes.shape[0]} boxes, and each needs the index of its image.",
                f"Give integers of shape {boxes.shape[:1]}.",
            )
        )


# --- bins -----------------------------------------------------------------------------------------


def sample_bins(
    ends: Corners,
    images: Images,
    bins: tuple[int, int],
    ratio: int,
    aligned: bool,
) -> tuple[Boxes, SampledElements | None]:
    """Return the weights of the samples in each bin, and the elements next to each sample.

    The second result is None unless each bin has few samples.

    Args:
      ends: the boxes.
      images: the images.
      bins: bins along each axis.
      ratio: samples of a bin along each axis, or 0 for an adaptive number.
      aligned: whether element ``i`` is at ``i + 1/2``; otherwise boxes have a minimum size of 1.
    """
    offset, has_few = 0.5 if aligned else 0, 0 < ratio <= tuning.MAX_SAMPLES_GATHERED

    def axis_samples(
        first: Array, last: Array, bins: int, length: int
    ) -> tuple[Array, tuple[Array, Array] | None]:
        first, last = first - offset, last - offset
        size = last - first if aligned else jnp.maximum(last - first, 1)
        axis = first, size, bins, length, ratio
        return regions.sample_weights(*axis), regions.sampled_elements(*axis) if has_few else None

    height, width = images.array.shape[1:3]
    rows, row_samples = axis_samples(ends.top, ends.bottom, bins[0], height)
    columns, column_samples = axis_samples(ends.left, ends.right, bins[1], width)
    boxes = Boxes(ends.image, _zero_without_image(rows, ends.image_exists), columns)
    if row_samples is None or column_samples is None:
        return boxes, None
    number, weight = row_samples
    weight = _zero_without_image(weight, ends.image_exists)
    return boxes, SampledElements(number, weight, *column_samples)


def integer_bins(
    ends: Corners, bins: tuple[int, int], lengths: tuple[int, ...], last: int
) -> Boxes:
    """Return whether each bin contains each element, for boxes with ends rounded to integers.

    ``last`` is 1 if a box contains the element at its last end, else 0.
    """

    def axis_bins(first: Array, end: Array, bins: int, length: int) -> Array:
        first, end = regions.rounded(first), regions.rounded(end)
        size = jnp.where(end == -np.inf, 0, jnp.maximum(end - first + last, 1))
        return regions.integer_bins(first, size, bins, length)

    rows = axis_bins(ends.top, ends.bottom, bins[0], lengths[0])
    columns = axis_bins(ends.left, ends.right, bins[1], lengths[1])
    return Boxes(ends.image, _zero_without_image(rows, ends.image_exists), columns)


def without_last_element(read: Array) -> Array:
    """Return ``read`` with the last element removed from every bin."""
    length = read.shape[-1]
    return read & (lax.broadcasted_iota(jnp.int32, (1, 1, length), 2) < length - 1)


def mean_weights(read: Array) -> Array:
    """Return the weights of the mean over the elements that each bin reads."""
    count = read.sum(-1, keepdims=True)
    return read / jnp.where(count == 0, 1, count)


def _zero_without_image(weights: Array, image_exists: Array) -> Array:
    """Return the weights of bins, 0 for boxes whose image does not exist."""
    return zero_unless(image_exists[:, None, None], weights)
