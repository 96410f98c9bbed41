"""Values and offsets by one reduction of pairs, each element with a one-byte code of its place.

``lax.reduce_window`` of pairs (value, code) reads an array once, which is what XLA:TPU does best. A
pair needs to know which of two elements comes first, and the result needs to say where it was. Let
an axis have spans ``k_a`` (elements from the first to the last of a window) and let

    place(i) = sum over axes of i_a * w_a,    w_a = product of the spans of the axes after a.

Elements of one window then differ in ``place`` by less than the product of the spans, and the
earlier one, row-major, has the smaller place. So as long as that product is at most 64, the code
``place mod 128`` orders the elements of any window: ``b`` comes before ``a`` where bit 6 of
``code(b) - code(a)`` is set. Without dilation ``place(i)`` less that of the window's start is the
offset. Padding, and elements that are masked, have the code 255 and lose to every element.

A reduction promises no order, and this one needs none. The pooled axes are made major, as XLA:TPU
keeps them in a network, see :mod:`.phase_pads`. Source: the order is that of serial numbers,
RFC 1982.
"""

import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry
from ...reductions import Reduction, identity_array
from ..parts.argreduce import ValueOffset
from ..parts.axis_slicing import pooled_first
from ..request import Request
from .reduce_window import configuration

MOST_PLACES = 64
_CODES = np.uint8(127)
_NONE = np.uint8(255)


def unsupported_reason(request: Request) -> str | None:
    """Return why place codes do not compute what is asked, or None."""
    places = math.prod(axis.span for axis in request.geometry.axes)
    if places > MOST_PLACES:
        return f"windows extend over {places} elements; a byte orders up to {MOST_PLACES}"
    return None


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the offset of its argmax, row-major."""
    order, back, major = pooled_first(geometry, x.ndim)
    x = jnp.transpose(x, order)
    codes = _place(major, x.shape, lambda axis, i: i) & _CODES
    if valid is not None:
        codes = jnp.where(jnp.transpose(valid, order), codes, _NONE)
    values, codes = lax.reduce_window(
        (x, codes),
        (identity_array(reduction, x.dtype), _NONE),
        _preferred(reduction),
        **configuration(major, x.ndim),
    )
    return jnp.transpose(values, back), jnp.transpose(_offsets(codes, major), back)


def _place(geometry: Geometry, shape: Sequence[int], at: Callable[[Axis, Array], Array]) -> Array:
    """The place of ``at(axis, i)`` for the entries ``i`` of an array of this shape, mod 256.

    Numbers are made in the shape of the array, or a kernel of its own would make a table of them.
    """
    place, weight = jnp.zeros(shape, jnp.int32), 1
    for axis, position in geometry.placed[::-1]:
        entries = lax.broadcasted_iota(jnp.int32, shape, len(shape) + position)
        place = place + at(axis, entries) * weight
        weight *= axis.span
    return place.astype(jnp.uint8)


def _preferred(reduction: Reduction) -> Callable[[ValueOffset, ValueOffset], ValueOffset]:
    """Return the function that prefers the better of two pairs, of equals the earlier one.

    The pair that a reduction starts from has the code 255 as well, so that is always asked for.
    """
    comparator = reduction.comparator
    assert comparator is not None

    def combine(a: ValueOffset, b: ValueOffset) -> ValueOffset:
        later = (b[1] - a[1]) & np.uint8(64) == 0
        take = jnp.where(later, comparator(b[0], a[0]), ~comparator(a[0], b[0]))
        take = (b[1] != _NONE) & (take | (a[1] == _NONE))
        return jnp.where(take, b[0], a[0]), jnp.where(take, b[1], a[1])

    return combine


def _offsets(codes: Array, geometry: Geometry) -> Array:
    """The offsets that codes stand for; 255, of a window without an element, stays."""
    start = _place(geometry, codes.shape, lambda axis, o: o * axis.stride - axis.pad_low)
    steps = (codes - start) & _CODES
    if any(axis.dilation > 1 for axis in geometry.axes):
        steps = _without_gaps(steps, geometry)
    return jnp.where(codes == _NONE, _NONE, steps)


def _without_gaps(steps: Array, geometry: Geometry) -> Array:
    """The offsets of elements so many steps from the start of a dilated window."""
    offset, weight = jnp.zeros_like(steps), 1
    for axis in geometry.axes[::-1]:
        offset = offset + steps % np.uint8(axis.span) // np.uint8(axis.dilation) * np.uint8(weight)
        steps, weight = steps // np.uint8(axis.span), weight * axis.kernel
    return offset
