"""What the pools of boxes share: layouts, boxes with the image of each, and what bins read."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._errors import message, shown
from .._geometry import layout as layouts
from .._geometry.arguments import check_length, entries_of, integer, is_sequence
from .._lowerings import tuning
from .._lowerings.boxes import Boxes, Near
from .._numerics import regions
from ..reductions import accumulator
from ._parameters import check_positive

_MOST_BINS = 2**10


def canonical_output(output_size: Any, spatial_scale: Any, data_format: Any) -> dict[str, Any]:
    """Return what all pools of boxes have, checked."""
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
    if max(rows, columns) > _MOST_BINS:
        raise ValueError(
            message(
                f"$output_size holds {max(rows, columns)}.",
                f"Every box has so many bins along an axis; there are at most {_MOST_BINS}.",
                "Give a smaller number, such as 7.",
            )
        )
    return rows, columns


def _layout(data_format: Any) -> str:
    layout = layouts.check(data_format)
    if layouts.is_explicit(layout) and {*layout} - {*"NC"} != {*"HW"}:
        raise ValueError(_not_planar(layout))
    return layout


def _not_planar(layout: str) -> str:
    return message(
        f"$data_format = {shown(layout)} does not have H and W as its pooled axes.",
        "A box has a place and a size along H and W.",
        'Give for example "NHWC", "NCHW", "HW" or "channels_first".',
    )


# --- layouts --------------------------------------------------------------------------------------


class Images(NamedTuple):
    """An array as ``[image, row, column, channel]``, and the letters of the result.

    Attributes:
      array: the array.
      letters: of the result, N for the boxes.
      batch: whether the array had axes of images.
    """

    array: Array
    letters: str
    batch: bool


def images(x: Array, data_format: str) -> Images:
    """Return ``x`` as images; several batch axes are one, in row-major order."""
    layouts.pooled_axes(data_format, 2, x.shape)  # raises if the rank does not fit
    leading = x.ndim - 3
    letters = {"channels_last": "HWC", "channels_first": "CHW"}.get(data_format, data_format)
    if not layouts.is_explicit(data_format) and leading:
        x = x.reshape(math.prod(x.shape[:leading]), *x.shape[leading:])
        letters = "N" + letters
    wanted = [letter for letter in "NHWC" if letter in letters]
    array = x.transpose([letters.index(letter) for letter in wanted])
    if "N" not in letters:
        array = array[None]
    if "C" not in letters:
        array = array[..., None]
    own = letters if "N" in letters else "N" + letters
    return Images(array, own, "N" in letters)


def as_asked(y: Array, letters: str) -> Array:
    """Return ``y[box, row, column, channel]`` in the layout of these letters."""
    y = y if "C" in letters else y[..., 0]
    made = "NHWC" if "C" in letters else "NHW"
    return y.transpose([made.index(letter) for letter in letters])


# --- boxes ----------------------------------------------------------------------------------------


class Corners(NamedTuple):
    """Boxes in the coordinates of the elements, ``[box]`` each.

    Attributes:
      image: number of the image, in int32.
      known: whether there is such an image.
      top, left, bottom, right: the ends.
    """

    image: Array
    known: Array
    top: Array
    left: Array
    bottom: Array
    right: Array


def numbers(batch_index: Any) -> Any:
    """Numbers of images; -1 for those of 64 bits that JAX would wrap to the number of another."""
    if not isinstance(batch_index, np.ndarray) or batch_index.dtype not in ("int64", "uint64"):
        return batch_index
    inside = (batch_index >= 0) & (batch_index < 2**30)
    return np.where(inside, batch_index.astype(np.int64), -1)


def corners(boxes: Any, batch_index: Any, found: Images, spatial_scale: float) -> Corners:
    """Return the boxes, checked, in the dtype that they are computed in."""
    dtype = accumulator(np.dtype(found.array.dtype))
    boxes, numbers = _numbered(boxes, batch_index, found.batch)
    count = found.array.shape[0]
    known = (numbers >= 0) & (numbers < count)
    image = jnp.where(known, numbers, 0).astype(jnp.int32)
    ends = lax.stop_gradient(boxes).astype(dtype) * jnp.asarray(spatial_scale, dtype)
    left, top, right, bottom = (ends[:, n] for n in range(4))
    return Corners(image, known, top, left, bottom, right)


def _numbered(boxes: Any, batch_index: Any, batch: bool) -> tuple[Array, Array]:
    """Boxes of four numbers, and the number of the image of each."""
    boxes = jnp.asarray(boxes)
    _check_boxes(boxes, batch_index, batch)
    if not batch:
        return boxes, jnp.zeros(boxes.shape[:1], jnp.int32)
    if batch_index is None:
        return boxes[:, 1:], _truncated(boxes[:, 0])
    numbers = jnp.asarray(batch_index)
    _check_numbers(numbers, boxes)
    return boxes, _truncated(numbers)


def _truncated(numbers: Array) -> Array:
    """Integers in int32, -1 for what is none or does not fit.

    Not compared in a dtype of their own, in which a number of images may wrap.
    """
    if not jnp.issubdtype(numbers.dtype, jnp.floating) and numbers.dtype.itemsize < 4:
        return numbers.astype(jnp.int32)
    inside = (numbers >= 0) & (numbers < 2**30)
    return jnp.where(inside, numbers, -1).astype(jnp.int32)


def _check_boxes(boxes: Array, batch_index: Any, batch: bool) -> None:
    real = jnp.issubdtype(boxes.dtype, jnp.floating) or jnp.issubdtype(boxes.dtype, jnp.integer)
    if not real:
        raise TypeError(
            message(
                f"$boxes has dtype {boxes.dtype}.",
                "Boxes are coordinates, x1, y1, x2 and y2.",
                "Give an array of floats.",
            )
        )
    entries = 5 if batch and batch_index is None else 4
    if boxes.ndim != 2 or boxes.shape[1] != entries:
        if not batch:
            meaning = "The array has no axis of images: a box has x1, y1, x2 and y2."
        elif batch_index is None:
            meaning = "Without $batch_index a box has the number of its image, x1, y1, x2 and y2."
        else:
            meaning = "With $batch_index a box has x1, y1, x2 and y2."
        advice = f"Give an array of shape (boxes, {entries})"
        if entries == 5 and boxes.shape[-1:] == (4,):
            advice += ", or the number of the image of each box as $batch_index"
        raise ValueError(message(f"$boxes has shape {boxes.shape}.", meaning, f"{advice}."))
    if not batch and batch_index is not None:
        raise ValueError(
            message(
                "$batch_index is given, but the array has no axis of images.",
                "All boxes are of the one image that there is.",
                "Leave it out, or give an array with an axis of images.",
            )
        )


def _check_numbers(numbers: Array, boxes: Array) -> None:
    if numbers.shape != boxes.shape[:1] or not jnp.issubdtype(numbers.dtype, jnp.integer):
        raise (TypeError if numbers.shape == boxes.shape[:1] else ValueError)(
            message(
                f"$batch_index is {numbers.dtype}{list(numbers.shape)}.",
                f"There are {boxes.shape[0]} boxes, and each has the number of an image.",
                f"Give integers of shape {boxes.shape[:1]}.",
            )
        )


# --- bins -----------------------------------------------------------------------------------------


def samples(
    ends: Corners, found: Images, bins: tuple[int, int], ratio: int, half: float, least: int | None
) -> tuple[Boxes, Near | None]:
    """The weights of samples, of boxes moved by half an element and ``least`` long.

    Of a few samples in each bin also the elements that they lie between.
    """

    def along(
        first: Array, last: Array, bins: int, length: int
    ) -> tuple[Array, tuple[Array, Array] | None]:
        first, last = first - half, last - half
        size = last - first if least is None else jnp.maximum(last - first, least)
        weights = regions.sample_weights(first, size, bins, length, ratio)
        is_near = 0 < ratio <= tuning.MOST_SAMPLES_GATHERED
        return weights, regions.near_samples(first, size, bins, length, ratio) if is_near else None

    height, width = found.array.shape[1:3]
    rows, near_rows = along(ends.top, ends.bottom, bins[0], height)
    columns, near_columns = along(ends.left, ends.right, bins[1], width)
    rows = _of_known(rows, ends.known)
    if near_rows is None or near_columns is None:
        return Boxes(ends.image, rows, columns), None
    number, weight = near_rows
    near = Near(number, _of_known(weight, ends.known), *near_columns)
    return Boxes(ends.image, rows, columns), near


def whole(ends: Corners, bins: tuple[int, int], lengths: tuple[int, ...], last: int) -> Boxes:
    """What bins of whole elements read; ``last`` is 1 if the last end belongs to a box."""

    def along(first: Array, end: Array, bins: int, length: int) -> Array:
        first, end = regions.rounded(first), regions.rounded(end)
        size = jnp.where(end == -np.inf, 0, jnp.maximum(end - first + last, 1))
        return regions.whole_bins(first, size, bins, length)

    rows = along(ends.top, ends.bottom, bins[0], lengths[0])
    columns = along(ends.left, ends.right, bins[1], lengths[1])
    return Boxes(ends.image, _of_known(rows, ends.known), columns)


def all_but_last(read: Array) -> Array:
    """What bins read, but for the last element."""
    length = read.shape[-1]
    return read & (lax.broadcasted_iota(jnp.int32, (1, 1, length), 2) < length - 1)


def means(read: Array) -> Array:
    """Weights of means."""
    count = read.sum(-1, keepdims=True)
    return read / jnp.where(count == 0, 1, count)


def _of_known(weights: Array, known: Array) -> Array:
    """Return what bins read along an axis: nothing, if there is no such image."""
    return jnp.where(known[:, None, None], weights, jnp.zeros((), weights.dtype))
