"""What the bins of boxes read of an image."""

import jax.numpy as jnp
from jax import Array, lax

from .._lowerings import tuning
from .._lowerings.many_boxes import Boxes, Near
from .._numerics import regions
from ._boxes import Corners, Images, of_known


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
    rows = of_known(rows, ends.known)
    if near_rows is None or near_columns is None:
        return Boxes(ends.image, rows, columns), None
    number, weight = near_rows
    near = Near(number, of_known(weight, ends.known), *near_columns)
    return Boxes(ends.image, rows, columns), near


def whole(ends: Corners, bins: tuple[int, int], lengths: tuple[int, ...], last: int) -> Boxes:
    """What bins of whole elements read; ``last`` is 1 if the last end belongs to a box."""

    def along(first: Array, end: Array, bins: int, length: int) -> Array:
        first, end = regions.rounded(first), regions.rounded(end)
        return regions.whole_bins(first, jnp.maximum(end - first + last, 1), bins, length)

    rows = along(ends.top, ends.bottom, bins[0], lengths[0])
    columns = along(ends.left, ends.right, bins[1], lengths[1])
    return Boxes(ends.image, of_known(rows, ends.known), columns)


def all_but_last(read: Array) -> Array:
    """What bins read, but for the last element."""
    length = read.shape[-1]
    return read & (lax.broadcasted_iota(jnp.int32, (1, 1, length), 2) < length - 1)


def means(read: Array) -> Array:
    """Weights of means."""
    count = read.sum(-1, keepdims=True)
    return read / jnp.where(count == 0, 1, count)
