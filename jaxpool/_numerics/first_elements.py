"""First elements of windows, and the valid elements that replace masked ones."""

from dataclasses import replace

import jax.numpy as jnp
from jax import Array

from .._geometry.axis import Axis, cdiv
from .._geometry.resolve import Geometry
from .._lowerings.implementations import doubling
from .._lowerings.parts.axis_slicing import concatenate, pad, slice_axis
from .._lowerings.parts.borders import repeated
from ..reductions import Reduction
from .divisors import zero_where_masked

Arrays = tuple[Array, ...]


def first_elements(
    x: Array, axis: Axis, position: int, first: int, count: int, stride: int = 1
) -> Array:
    """Return the first element of windows that start at ``first + k * stride``, ``k < count``.

    Before the axis, this is the element at the start modulo the dilation. After the axis, it is 0.
    """
    repeats = cdiv(max(-first, 0), axis.dilation)
    if repeats:
        period = pad(x, position, 0, axis.dilation - x.shape[position])
        x = concatenate([repeated(period, position, repeats), x], position)
        first += repeats * axis.dilation
    missing = max(0, first + (count - 1) * stride + 1 - x.shape[position])
    return slice_axis(pad(x, position, 0, missing), position, first, count, stride)


def backfilled(x: Array, valid: Array | None, geometry: Geometry) -> Array:
    """Return ``x`` where each masked element is the first valid one of a window from there on."""
    if valid is None:
        return x
    axes = tuple(
        replace(axis, stride=1, pad_high=axis.span - 1, out=axis.size) for axis in geometry.axes
    )
    masks_and_values = jnp.broadcast_to(valid, x.shape), zero_where_masked(x, valid)
    return doubling.reduce(masks_and_values, Geometry(axes, geometry.positions), _FIRST_VALID)[1]


def _first_valid(p: Arrays, q: Arrays) -> Arrays:
    (valid_p, a_p), (valid_q, a_q) = p, q
    return valid_p | valid_q, jnp.where(valid_p, a_p, a_q)


_FIRST_VALID = Reduction("first", _first_valid, (0, 0), idempotent=True)
