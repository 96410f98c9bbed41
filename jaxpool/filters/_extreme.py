"""Maxima and minima over neighbourhoods: rectangles, footprints, and weighted taps.

*Rectangles* are pooling windows. In some modes an extension repeats only elements that the window
already contains (``nearest``; ``reflect`` and ``mirror`` if the window is centred). Such an axis is
padded by the identity instead of extended, with the same result.

*Footprints* are unions of boxes (:mod:`._cover`).

*Structures*: ``y[i] = max over t of (x[i + t] + s[t])``. Let ``t(i)`` be the first tap that
attains the maximum. Then ``dy[i] = dx[i + t(i)] + ds[t(i)]`` is linear; its transpose adds the
cotangent to one element and to one tap. The taps are processed sequentially, so no array of all
taps is materialised.

Source: Serra 1982, "Image analysis and mathematical morphology", for the definitions.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._autodiff import rules
from .._autodiff.rules import selection
from .._lowerings import tuning
from .._lowerings.parts.argreduce import ValueOffset, prefers_first, prefers_later
from .._lowerings.parts.axis_slicing import pad, tree_reduce
from .._lowerings.parts.every_tap import Fold
from .._lowerings.parts.float_order import to_native_dtype
from .._lowerings.plan import plan_for
from ..reductions import MIN, Reduction, accumulator, identity_array
from ._arguments import Extent, Neighborhood
from ._boundary import extend
from ._casts import cast_as_numpy
from ._cover import Box, cover
from ._gather import gather_taps, gather_weights
from ._windows import (
    Taps,
    crop,
    may_be_short,
    pad_symbolic_axes,
    window_geometry,
)

Operands = tuple[Array, Array | None]
"""An extended array, and the weights of the taps or None."""


def extreme(x: Array, neighborhood: Neighborhood, reduction: Reduction) -> Array:
    """Return the maximum or minimum over the neighbourhood of every element; differentiable."""
    extents = tuple(extent for extent in neighborhood.extents if extent.size > 1)
    if not x.size or not extents:
        return x
    if neighborhood.footprint is None:
        return _over_rectangle(x, extents, neighborhood.cval, reduction)
    boxes = cover(neighborhood.footprint)
    extended = extend(x, neighborhood.extents, neighborhood.cval)
    native, reduction = to_native_dtype(extended, reduction)
    if len(boxes) > tuning.MAX_TAPS_UNROLLED and len(boxes) > neighborhood.footprint.taps // 2:
        y = _over_taps(native, None, Taps.of(neighborhood, x.shape), reduction)
    else:
        y = _over_boxes(native, neighborhood.extents, boxes, x.shape, reduction)
    return y.astype(x.dtype)


# --- rectangles and boxes -------------------------------------------------------------------------


def _over_rectangle(
    x: Array, extents: Sequence[Extent], cval: float, reduction: Reduction
) -> Array:
    padded = [extent for extent in extents if _is_extension_redundant(extent)]
    extended = extend(x, [extent for extent in extents if extent not in padded], cval)
    identity = identity_array(reduction, x.dtype)
    padding = [(extent.low, extent.high) if extent in padded else (0, 0) for extent in extents]
    for n, extent in enumerate(extents):
        if any(padding[n]) and may_be_short(x.shape[extent.position], extent):
            extended = pad(extended, extent.position, *padding[n], identity)
            padding[n] = (0, 0)
    extended = pad_symbolic_axes(extended, extents, identity)
    geometry = window_geometry(extended.shape, extents, padding)
    y = rules.extreme(extended, None, plan_for(geometry, reduction, extended.dtype))
    return crop(y, extents, x.shape)


def _is_extension_redundant(extent: Extent) -> bool:
    """Return whether every extended element that a window reads repeats an element of that window.

    Under "reflect" the element ``k`` places after the last one repeats the element ``k - 1`` places
    before the last one. A window reaches equally far backward and forward, or one place less, so a
    window that reads the former contains the latter.
    """
    uneven = abs(extent.low - extent.high)
    return extent.mode == "nearest" or uneven <= {"reflect": 1, "mirror": 0}.get(extent.mode, -1)


def _over_boxes(
    extended: Array,
    extents: Sequence[Extent],
    boxes: Sequence[Box],
    shape: Sequence[int],
    reduction: Reduction,
) -> Array:
    """Return the extreme over a union of boxes; differentiable.

    Boxes of the same size are slices of one array of extremes. Ties go to the first box.
    """
    sizes = list(dict.fromkeys(box.size for box in boxes))
    numbers_by_size = [[n for n, box in enumerate(boxes) if box.size == size] for size in sizes]
    starts = np.asarray([box.start for box in boxes], np.int32)
    taps_by_size = [Taps(extents, starts[numbers], shape, numbers) for numbers in numbers_by_size]
    in_order = functools.partial(_in_order, taps_by_size)
    gather = functools.partial(_gather_boxes, taps_by_size)

    def reduce(extremes: tuple[Array, ...]) -> Array:
        return tree_reduce(reduction.combine, in_order(extremes))

    def argreduce(extremes: tuple[Array, ...]) -> ValueOffset:
        numbered = enumerate(in_order(extremes))
        pairs = [(value, jnp.full(value.shape, np.int32(number))) for number, value in numbered]
        return functools.reduce(prefers_later(reduction, False), pairs)

    extremes = tuple(_box_extreme(extended, extents, size, reduction) for size in sizes)
    return reduce(extremes) if len(boxes) == 1 else selection(reduce, argreduce, gather, extremes)


def _in_order(taps_by_size: Sequence[Taps], extremes: tuple[Array, ...]) -> list[Array]:
    """Return the extremes of each box, in the order of the boxes."""
    by_number: dict[int, Array] = {}
    for values, corners in zip(extremes, taps_by_size, strict=True):
        by_number |= zip(corners.numbers.tolist(), corners.each_tap(values), strict=True)
    return [by_number[number] for number in sorted(by_number)]


def _gather_boxes(
    taps_by_size: Sequence[Taps], extremes: tuple[Array, ...], first: Array, value: Array
) -> Array:
    """Return the extreme of the box that each number in ``first`` names."""
    value = lax.stop_gradient(value)
    zero = jnp.zeros_like(value)
    terms = [
        gather_taps(a, first, corners, zero)
        for a, corners in zip(extremes, taps_by_size, strict=True)
    ]
    return tree_reduce(lax.add, [value, *terms])


def _box_extreme(
    extended: Array, extents: Sequence[Extent], size: Sequence[int], reduction: Reduction
) -> Array:
    """Return the extreme of a box at every position, and at surplus positions of symbolic axes."""
    box_extents = [
        Extent(extent.position, count, 0, "constant")
        for extent, count in zip(extents, size, strict=True)
        if count > 1
    ]
    if not box_extents:
        return extended
    extended = pad_symbolic_axes(extended, box_extents, identity_array(reduction, extended.dtype))
    geometry = window_geometry(extended.shape, box_extents)
    return rules.extreme(extended, None, plan_for(geometry, reduction, extended.dtype))


# --- sequential taps ------------------------------------------------------------------------------


def weighted_extreme(
    x: Array, structure: Array, neighborhood: Neighborhood, reduction: Reduction
) -> Array:
    """Return the maximum of ``x[i + t] + structure[t]``, or the minimum of the differences.

    The reduction decides which. The result is differentiable in both arrays. Floats are added in
    the accumulator dtype of ``x``. For integers the structure is truncated to integers, and sums
    wrap in the dtype of ``x``, as in NumPy.
    """
    if not x.ndim:  # linear maps need an axis
        return weighted_extreme(x[None], structure, neighborhood, reduction)[0]
    if not x.size:
        return x
    taps = Taps.of(neighborhood, x.shape)
    extended = extend(x, neighborhood.extents, neighborhood.cval)
    extended = extended.astype(np.int32 if x.dtype == jnp.bool_ else accumulator(x.dtype))
    weights = jnp.atleast_1d(structure[tuple(taps.offsets.T)])  # without axes there is one tap
    weights = cast_as_numpy(weights, extended.dtype)
    weights = -weights if reduction is MIN else weights
    y = _over_taps(extended, weights, taps, reduction)
    return y != 0 if x.dtype == jnp.bool_ else y.astype(x.dtype)


def _over_taps(extended: Array, weights: Array | None, taps: Taps, reduction: Reduction) -> Array:
    """Return the extreme over the taps, processed sequentially; differentiable in both arrays."""
    reduce = functools.partial(_reduce_taps, taps, reduction)
    argreduce = functools.partial(_argreduce_taps, taps, reduction)
    gather = functools.partial(_gather_elements_and_weights, taps)
    return selection(reduce, argreduce, gather, (extended, weights))


def _reduce_taps(taps: Taps, reduction: Reduction, operands: Operands) -> Array:
    extended, weights = operands
    weighted = functools.partial(_weighted, taps, weights)
    start = identity_array(reduction, extended.dtype)
    return taps.reduce(Fold(weighted, start, reduction.combine), extended)


def _argreduce_taps(taps: Taps, reduction: Reduction, operands: Operands) -> ValueOffset:
    extended, weights = operands

    def value_and_number(number: Any, element: Array) -> ValueOffset:
        value = _weighted(taps, weights, number, element)
        return value, jnp.broadcast_to(jnp.asarray(number, np.int32), value.shape)

    # If no element is preferred to the identity, all equal it, and tap 0 is the first.
    start = identity_array(reduction, extended.dtype), np.int32(0)
    combine, unordered = prefers_later(reduction, False), prefers_first(reduction)
    return taps.reduce(Fold(value_and_number, start, combine, unordered), extended)


def _weighted(taps: Taps, weights: Array | None, number: Any, element: Array) -> Array:
    """Return the element at the tap ``number``, plus the weight of the tap."""
    if weights is None:
        return element
    weight = weights[number]
    if len(taps) == 1:  # or XLA simplifies the opening (x - s) + s, which rounds twice, to x
        weight = jnp.where(element == element, weight, element)
    return element + weight


def _gather_elements_and_weights(
    taps: Taps, operands: Operands, numbers: Array, value: Array
) -> Array:
    """Return the sum of the element and of the weight at the taps ``numbers``."""
    extended, weights = operands
    y = gather_taps(extended, numbers, taps, value)
    if weights is None:
        return y
    return y + gather_weights(weights, numbers, taps, jnp.zeros_like(value))
