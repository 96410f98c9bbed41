"""Differentiable sums and maxima over the bins of boxes."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from .._geometry.resolve import is_at_least
from .._lowerings import box_bins, box_elements
from .._lowerings.boxes import (
    Boxes,
    BoxFunction,
    SampledElements,
    image,
    map_boxes,
    scatter_sums,
    sum_over_boxes,
    visits_elements,
)
from ..reductions import accumulator
from .linear import linear_map
from .rules import selection


class _SumMaps(NamedTuple):
    """A sum of every bin of one box and its transpose, and both for all boxes on CPU."""

    sum_of_box: BoxFunction
    transpose_of_box: BoxFunction
    sums_on_cpu: BoxFunction
    transpose_on_cpu: Callable[[Array, Boxes, tuple[int, ...]], Array]


_SUMS = _SumMaps(
    box_bins.sum_of, box_bins.sum_transpose, box_elements.sums, box_elements.sums_transpose
)
_POSITION_SENSITIVE_SUMS = _SumMaps(
    box_bins.position_sensitive_sum,
    box_bins.position_sensitive_sum_transpose,
    box_elements.position_sensitive_sums,
    box_elements.position_sensitive_sums_transpose,
)


def sums(x: Array, boxes: Boxes, samples: SampledElements | None = None) -> Array:
    """Return the weighted sum of every bin, ``[box, row bin, column bin, channel]``.

    Differentiable in ``x``. ``samples`` are the few elements that each bin reads, if known.
    """
    return _linear_sums(x, boxes, _SUMS, x.shape[-1], samples)


def position_sensitive_sums(x: Array, boxes: Boxes) -> Array:
    """Return :func:`sums`, except that every bin reads a different channel of ``x``."""
    channels = x.shape[-1] // math.prod(boxes.bins)
    return _linear_sums(x, boxes, _POSITION_SENSITIVE_SUMS, channels)


def _linear_sums(
    x: Array,
    boxes: Boxes,
    maps: _SumMaps,
    channels: int,
    samples: SampledElements | None = None,
) -> Array:
    """Return the sums of all bins as a linear map of ``x`` with the given transpose."""
    out_shape = (boxes.rows.shape[0], *boxes.bins, channels)
    sums_on_cpu = transpose_on_cpu = None
    if samples is not None:
        transpose_on_cpu = lambda g, boxes: scatter_sums(g, boxes.image, samples, x.shape)  # noqa: E731
    elif visits_elements(x, boxes, channels):
        sums_on_cpu = maps.sums_on_cpu
        transpose_on_cpu = lambda g, boxes: maps.transpose_on_cpu(g, boxes, x.shape)  # noqa: E731

    def forward(t: Array) -> Array:
        return map_boxes(maps.sum_of_box, t, boxes, samples, sums_on_cpu)

    def transpose(g: Array) -> Array:
        return sum_over_boxes(maps.transpose_of_box, g, boxes, x, transpose_on_cpu)

    return _flat_linear_map(forward, transpose, x, out_shape)


def maxima(x: Array, boxes: Boxes) -> Array:
    """Return the maximum of every bin, 0 for an empty bin; differentiable in ``x``."""

    def reduce(x: Array, *boxes: Array) -> Array:
        on_cpu = box_elements.maxima if visits_elements(x, Boxes(*boxes), x.shape[-1]) else None
        return map_boxes(box_bins.maximum_of, x, Boxes(*boxes), None, on_cpu)

    def argreduce(x: Array, *boxes: Array) -> tuple[Array, tuple[Array, ...]]:
        return reduce(x, *boxes), (x, *boxes)

    def gather(t: Array, residuals: tuple[Array, ...], value: Array) -> Array:
        return _gather(t, residuals[0], Boxes(*residuals[1:]), value)

    return selection(reduce, argreduce, gather, x, *boxes)


def _gather(t: Array, x: Array, boxes: Boxes, value: Array) -> Array:
    """Return ``t`` at the maxima of ``x`` in every bin; ``value`` is the result for ``t = x``."""
    visits = visits_elements(x, boxes, x.shape[-1])

    def gather_from_box(stacked: Array, box: Boxes) -> Array:
        tangent, primal = jnp.split(stacked, 2, axis=-1)
        return box_bins.select_at_maximum(tangent, primal, box)

    def forward(t: Array) -> Array:
        def gather_on_cpu(_: Array, boxes: Boxes) -> Array:
            return box_elements.select_at_maxima(t, x, boxes)

        stacked = jnp.concatenate([t, x.astype(t.dtype)], -1)
        return map_boxes(gather_from_box, stacked, boxes, None, gather_on_cpu if visits else None)

    def scatter_to_image(g: Array, box: Boxes) -> Array:
        return box_bins.select_at_maximum_transpose(g, image(x, box.image), box)

    def scatter_on_cpu(g: Array, boxes: Boxes) -> Array:
        return box_elements.select_at_maxima_transpose(g, x, boxes)

    def transpose(g: Array) -> Array:
        return sum_over_boxes(scatter_to_image, g, boxes, x, scatter_on_cpu if visits else None)

    widened = t.astype(accumulator(t.dtype))  # many boxes may share an element
    return _flat_linear_map(forward, transpose, widened, value.shape, value)


def _flat_linear_map(
    forward: Callable[[Array], Array],
    transpose: Callable[[Array], Array],
    x: Array,
    shape: tuple[int, ...],
    value: Array | None = None,
) -> Array:
    """Return :func:`linear_map` of the flattened arrays.

    The square system of a linear map pads every axis to the longer of argument and result. With a
    single axis, the system is only as long as the longer of the two arrays. JAX cannot flatten an
    array of symbolic sizes if it cannot prove that their product is not negative.
    """
    if not is_at_least(x.size, 0):
        return linear_map(forward, transpose, x, shape, value)
    flat = None if value is None else value.reshape(-1)
    y = linear_map(
        lambda t: forward(t.reshape(x.shape)).reshape(-1),
        lambda g: transpose(g.reshape(shape)).reshape(-1),
        x.reshape(-1),
        (math.prod(shape),),
        flat,
    )
    return y.reshape(shape)
