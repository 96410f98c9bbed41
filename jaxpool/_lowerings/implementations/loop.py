"""Reading and writing windows at any offsets, one element of the window after the other.

A loop at run time: the program does not grow with the window, cost does. It is for long windows
that overlap and whose offsets are no argmax: two windows that share an element may then disagree
about it, and no two can be taken together as in :mod:`..parts.offset_levels`.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry
from ..._xla.sharding_types import varying_alike, varying_zeros
from .. import tuning
from ..parts.axis_slicing import lax_padding, pad_all, slice_axis
from ..parts.phases import stretch
from ..request import Request

State = TypeVar("State")


def unsupported_reason(request: Request) -> str | None:
    """Return None: any offsets of any windows can be read and written."""
    return None


def gather(x: Array, offsets: Array, geometry: Geometry) -> Array:
    """Return the element of ``x`` at the offset of every window, 0 for the sentinel."""

    def step(offset: Array, element: Array, found: Array) -> Array:
        return jnp.where(offsets == offset.astype(offsets.dtype), element, found)

    return walk(x, geometry, step, jnp.zeros(offsets.shape, x.dtype))


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return the sum, for each element, of the values of the windows whose offset names it."""
    zero = np.zeros((), g.dtype)
    shape, padding = list(g.shape), [(0, 0, 0)] * g.ndim
    for axis, position in geometry.placed:
        low, high = lax_padding(axis)
        shape[position], padding[position] = low + axis.size + high, (-low, -high, 0)

    def body(offset: Array, total: Array) -> Array:
        offset = jnp.asarray(offset)  # an int under jax.disable_jit
        given = jnp.where(offsets == offset.astype(offsets.dtype), g, zero)
        for axis, position in geometry.placed:
            given = stretch(given, axis, position)
        starts = _starts(offset, geometry, g.ndim)
        here = lax.dynamic_slice(total, starts, given.shape)
        return lax.dynamic_update_slice(total, here + given, starts)

    start = varying_zeros(tuple(shape), g.dtype, (g, offsets))
    return lax.pad(lax.fori_loop(0, geometry.taps, body, start), zero, padding)


def walk(
    x: Array, geometry: Geometry, step: Callable[[Array, Array, State], State], state: State
) -> State:
    """Return ``step(offset, elements at that offset, state)`` over all offsets, row-major.

    Elements of padding are 0.
    """
    return walk_padded(pad_all(x, geometry, np.zeros((), x.dtype)), geometry, step, state)


def walk_padded(
    padded: Any, geometry: Geometry, step: Callable[[Array, Any, State], State], state: State
) -> State:
    """:func:`walk` of an array with its padding, or of several of one shape, as a pytree.

    The loop is unrolled for small windows.
    """

    def body(offset: Array, state: State) -> State:
        offset = jnp.asarray(offset)  # an int under jax.disable_jit
        elements = jax.tree.map(lambda a: _elements(a, offset, geometry), padded)
        return step(offset, elements, state)

    few = geometry.taps <= tuning.MOST_SLICED_OFFSETS
    padded, state = varying_alike((padded, state))
    return lax.fori_loop(0, geometry.taps, body, state, unroll=few or tuning.OFFSETS_AT_ONCE)


def _elements(padded: Array, offset: Array, geometry: Geometry) -> Array:
    """The elements of ``padded`` at one offset of every window."""
    sizes = list(padded.shape)
    for axis, position in geometry.placed:
        sizes[position] = (axis.out - 1) * axis.stride + 1
    elements = lax.dynamic_slice(padded, _starts(offset, geometry, padded.ndim), sizes)
    for axis, position in geometry.placed:
        elements = slice_axis(elements, position, 0, axis.out, axis.stride)
    return elements


def _starts(offset: Array, geometry: Geometry, rank: int) -> list[Array]:
    """Where the elements at one offset begin on each axis of a padded array."""
    starts = [jnp.zeros((), offset.dtype)] * rank
    for (axis, position), digit in zip(
        geometry.placed, digits(offset, geometry.kernel), strict=True
    ):
        starts[position] = digit * np.asarray(axis.dilation, offset.dtype)
    return starts


def digits(offsets: Array, kernel: tuple[int, ...]) -> list[Array]:
    """Return the offset along each pooled axis, of row-major offsets."""
    found = []
    for count in reversed(kernel):
        found.append(offsets % np.asarray(count, offsets.dtype))
        offsets = offsets // np.asarray(count, offsets.dtype)
    return found[::-1]
