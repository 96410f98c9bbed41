"""Maxima and minima over neighbourhoods: rectangles, footprints, and weighted taps.

*Rectangles* are windows of pooling. A mode whose new elements are all in the window
already (``nearest``; ``reflect`` and ``mirror`` about a centred window) needs no extended array:
padding by the identity gives the same.

*Footprints* are unions of boxes (:mod:`._cover`).

*Structures*: ``y[i] = max over t of (x[i + t] + s[t])``. With ``t(i)`` the first tap that attains
it, ``dy[i] = dx[i + t(i)] + ds[t(i)]``, which is linear; its transpose adds a cotangent to one
element and to one tap. One tap after the other is taken, so that no array of all taps is made.

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
from .._xla.materialize import materialize
from ..reductions import Reduction, accumulator, identity_array
from ._arguments import Extent, Neighborhood
from ._boundary import extend
from ._cover import Box, cover
from ._read import read, read_weights
from ._windows import Taps, cut, may_be_short, offsets_of, plan_of, rectangle, with_room

Operands = tuple[Array, Array | None]
"""An extended array, and the weights of the taps."""


def extreme(x: Array, hood: Neighborhood, reduction: Reduction) -> Array:
    """Return the maximum or minimum over the neighbourhood of every element; differentiable."""
    extents = tuple(extent for extent in hood.extents if extent.size > 1)
    if not x.size or not extents:
        return x
    if hood.footprint is None:
        return _over_rectangle(x, extents, hood.cval, reduction)
    boxes = cover(hood.footprint)
    extended = extend(x, hood.extents, hood.cval)
    if len(boxes) > tuning.MOST_TAPS_UNROLLED and len(boxes) > hood.footprint.taps // 2:
        return _over_taps(extended, None, Taps(hood.extents, offsets_of(hood), x.shape), reduction)
    return _over_boxes(extended, hood.extents, boxes, x.shape, reduction)


# --- rectangles and boxes -------------------------------------------------------------------------


def _over_rectangle(
    x: Array, extents: Sequence[Extent], cval: float, reduction: Reduction
) -> Array:
    inside = [_adds_nothing(extent) for extent in extents]
    outside = [e for e, skip in zip(extents, inside, strict=True) if not skip]
    extended, nothing = extend(x, outside, cval), identity_array(reduction, np.dtype(x.dtype))
    padding = [(e.low, e.high) if skip else (0, 0) for e, skip in zip(extents, inside, strict=True)]
    for n, extent in enumerate(extents):
        if any(padding[n]) and may_be_short(x.shape[extent.position], extent):
            extended = pad(extended, extent.position, *padding[n], nothing)
            padding[n] = (0, 0)
    extended = with_room(extended, extents, nothing)
    geometry = rectangle(extended.shape, extents, padding)
    y = rules.extreme(extended, None, plan_of(extended, geometry, reduction))
    return cut(y, extents, x.shape)


def _adds_nothing(extent: Extent) -> bool:
    """Whether the elements past an end are, for every window, elements that it holds anyway.

    An element ``k`` past the end is, under "reflect", element ``k - 1`` before it; the window of an
    element reaches as far back as forward, or one less, and so holds it.
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
    """The extreme of several boxes, of which those of one size are made once; differentiable.

    Ties go to the first box.
    """
    sizes = list(dict.fromkeys(box.size for box in boxes))
    numbers = [[n for n, box in enumerate(boxes) if box.size == size] for size in sizes]
    starts = np.asarray([box.start for box in boxes], np.int32)
    taps = [Taps(extents, starts[own], shape, own) for own in numbers]

    def parts(made: tuple[Array, ...]) -> list[Array]:
        found: dict[int, Array] = {}
        for array, own in zip(made, taps, strict=True):
            found |= zip(own.numbers.tolist(), own.each(array), strict=True)
        return [found[number] for number in range(len(boxes))]

    def reduce(made: tuple[Array, ...]) -> Array:
        return tree_reduce(reduction.combine, parts(made))

    def argreduce(made: tuple[Array, ...]) -> ValueOffset:
        numbered = enumerate(parts(made))
        pairs = [(part, jnp.full(part.shape, np.int32(number))) for number, part in numbered]
        return functools.reduce(prefers_later(reduction, False), pairs)

    def gather(made: tuple[Array, ...], first: Array, value: Array) -> Array:
        value = lax.stop_gradient(value)
        zero = jnp.zeros_like(value)
        terms = [read(a, first, own, zero) for a, own in zip(made, taps, strict=True)]
        return tree_reduce(lax.add, [value, *terms])

    made = tuple(_boxes_of(extended, extents, size, reduction) for size in sizes)
    return reduce(made) if len(boxes) == 1 else selection(reduce, argreduce, gather, made)


def _boxes_of(
    extended: Array, extents: Sequence[Extent], size: Sequence[int], reduction: Reduction
) -> Array:
    """The extreme of the box of one size at every place, and at more of symbolic axes."""
    long = [
        Extent(extent.position, count, 0, "constant")
        for extent, count in zip(extents, size, strict=True)
        if count > 1
    ]
    if not long:
        return extended
    extended = with_room(extended, long, identity_array(reduction, np.dtype(extended.dtype)))
    geometry = rectangle(extended.shape, long)
    return rules.extreme(extended, None, plan_of(extended, geometry, reduction))


# --- taps one by one ------------------------------------------------------------------------------


def weighted_extreme(x: Array, structure: Array, hood: Neighborhood, reduction: Reduction) -> Array:
    """Return the extreme of ``x[i + t] + structure[t]`` over the taps; differentiable in both.

    Floats are added in their accumulator. Of integers the structure is cut to integers, and a sum
    wraps in their dtype, as in NumPy.
    """
    if not x.ndim:  # linear maps have an axis
        return weighted_extreme(x[None], structure, hood, reduction)[0]
    if not x.size:
        return x
    offsets = offsets_of(hood)
    extended = extend(x, hood.extents, hood.cval)
    if x.dtype == jnp.bool_:
        extended = extended.astype(np.int32)
    elif jnp.issubdtype(x.dtype, jnp.floating):
        extended = extended.astype(accumulator(np.dtype(x.dtype)))
    taps = Taps(hood.extents, offsets, x.shape)
    weights = jnp.atleast_1d(structure[tuple(offsets.T)])  # without axes there is one tap
    weights = _in_dtype(weights, np.dtype(extended.dtype))
    if len(offsets) == 1:  # or XLA would make x of the opening (x - s) + s, which rounds twice
        (weights,) = materialize(weights)
    y = _over_taps(extended, weights, taps, reduction)
    return y != 0 if x.dtype == jnp.bool_ else y.astype(x.dtype)


def _in_dtype(weights: Array, dtype: np.dtype) -> Array:
    """Weights of a structure in a dtype; floats become integers that wrap, as in NumPy."""
    to_integers = jnp.issubdtype(weights.dtype, jnp.floating) and jnp.issubdtype(dtype, jnp.integer)
    if to_integers and jnp.issubdtype(dtype, jnp.unsignedinteger):
        size = jnp.abs(weights).astype(np.uint64 if dtype.itemsize == 8 else np.uint32)
        weights = jnp.where(weights < 0, 0 - size, size)
    elif to_integers:
        weights = weights.astype(np.int64 if dtype.itemsize == 8 else np.int32)
    return weights.astype(dtype)


def _over_taps(extended: Array, weights: Array | None, taps: Taps, reduction: Reduction) -> Array:
    """The extreme over the taps, one after the other; differentiable in both arrays."""

    def term(weights: Array | None, number: Any, element: Array) -> Array:
        return element if weights is None else element + weights[number]

    def reduce(operands: Operands) -> Array:
        extended, weights = operands
        own = functools.partial(term, weights)
        start = identity_array(reduction, np.dtype(extended.dtype))
        return taps.reduce(Fold(own, start, reduction.combine), (extended,))

    def argreduce(operands: Operands) -> ValueOffset:
        extended, weights = operands

        def pair(number: Any, element: Array) -> ValueOffset:
            value = term(weights, number, element)
            return value, jnp.broadcast_to(jnp.asarray(number, np.int32), value.shape)

        # Where no element is preferred to the identity every one is it, and tap 0 the first.
        start = identity_array(reduction, np.dtype(extended.dtype)), np.int32(0)
        combine, unordered = prefers_later(reduction, False), prefers_first(reduction)
        return taps.reduce(Fold(pair, start, combine, unordered), (extended,))

    def gather(operands: Operands, numbers: Array, value: Array) -> Array:
        extended, weights = operands
        y = read(extended, numbers, taps, value)
        if weights is None:
            return y
        return y + read_weights(weights, numbers, taps, jnp.zeros_like(value))

    return selection(reduce, argreduce, gather, (extended, weights))
