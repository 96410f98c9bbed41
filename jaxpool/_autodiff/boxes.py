"""Sums and maxima over the bins of boxes, with their derivatives; no transpose has a scatter."""

import math
from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from .._lowerings import boxes as lowered
from .._lowerings.boxes import Boxes, Near, OfBox, added, each, image
from .linear import linear_map
from .rules import selection


def sums(x: Array, boxes: Boxes, near: Near | None = None) -> Array:
    """Return the weighted sum of every bin, ``[box, bin, bin, channel]``; differentiable in x."""
    return _mapped(x, boxes, lowered.sum_of, lowered.sum_transpose, x.shape[-1], near)


def sums_by_place(x: Array, boxes: Boxes) -> Array:
    """As :func:`sums`, of a channel of its own for every bin."""
    bins = boxes.rows.shape[1] * boxes.columns.shape[1]
    maps = lowered.sum_by_place, lowered.sum_by_place_transpose
    return _mapped(x, boxes, *maps, x.shape[-1] // bins)


def _mapped(
    x: Array,
    boxes: Boxes,
    one: OfBox,
    transposed: OfBox,
    channels: int,
    near: Near | None = None,
) -> Array:
    full = (*boxes.rows.shape[:2], boxes.columns.shape[1], channels)

    def forward(t: Array) -> Array:
        return each(one, t.reshape(x.shape), boxes, near).reshape(-1)

    def transpose(g: Array) -> Array:
        return added(transposed, g.reshape(full), boxes, x).reshape(-1)

    return _flat_map(forward, transpose, x, full)


def maxima(x: Array, boxes: Boxes) -> Array:
    """Return the maximum of every bin, 0 where it is empty; differentiable in x."""

    def reduce(x: Array, *boxes: Array) -> Array:
        return each(lowered.maximum_of, x, Boxes(*boxes))

    def argreduce(x: Array, *boxes: Array) -> tuple[Array, tuple[Array, ...]]:
        return reduce(x, *boxes), (x, *boxes)

    def gather(t: Array, found: tuple[Array, ...], value: Array) -> Array:
        return _gather(t, found[0], Boxes(*found[1:]), value)

    return selection(reduce, argreduce, gather, x, *boxes)


def _gather(t: Array, x: Array, boxes: Boxes, value: Array) -> Array:
    """``t`` where ``x`` has its maxima; ``value`` is that of ``x``."""

    def of_box(both: Array, box: Boxes) -> Array:
        own, whole = jnp.split(both, 2, axis=-1)
        return lowered.at_maximum(own, whole, box)

    def forward(t: Array) -> Array:
        return each(of_box, jnp.concatenate([t.reshape(x.shape), x], -1), boxes).reshape(-1)

    def back(g: Array, box: Boxes) -> Array:
        return lowered.at_maximum_transpose(g, image(x, box.image), box)

    def transpose(g: Array) -> Array:
        return added(back, g.reshape(value.shape), boxes, x).reshape(-1)

    return _flat_map(forward, transpose, t, value.shape, value)


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
