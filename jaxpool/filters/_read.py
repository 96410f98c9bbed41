"""Reading every window at one of its taps, a linear map, and its transpose.

With ``n[i]`` the number of a tap of window ``i``, and ``start[n]`` where that tap lies,

    read(t)[i] = t[i + start[n[i]]],    transpose(g)[j] = sum over {i: i + start[n[i]] = j} of g[i].

Weights of the taps are read likewise: ``w[n[i]]``, with the transpose ``sum over {i: n[i] = n} of
g[i]``. Both transposes take one tap after the other, so that no array of all taps is made.
"""

import jax.numpy as jnp
from jax import Array, lax

from .._autodiff.linear import linear_map
from .._lowerings.parts.every_tap import sum_of_named
from ._windows import Taps


def read(extended: Array, numbers: Array, taps: Taps, value: Array) -> Array:
    """Return the element of every window at the tap of that number, whose ``value`` is known."""

    def forward(t: Array) -> Array:
        return taps.reduce(sum_of_named(t.dtype), (t,), (numbers,))

    def transpose(g: Array) -> Array:
        return taps.add_up(numbers, g, extended.shape)

    return linear_map(forward, transpose, extended, numbers.shape, value)


def read_weights(weights: Array, numbers: Array, taps: Taps, value: Array) -> Array:
    """Return the weight of the tap of that number in every window, whose ``value`` is known."""
    # Along an axis of several taps: one that no window goes along may be spread over devices.
    long = [extent.position for extent in taps.extents if extent.size > 1][:1]
    column = [len(weights) if n in long else 1 for n in range(-numbers.ndim, 0)]

    def forward(t: Array) -> Array:
        return t.reshape(-1)[numbers]

    def transpose(g: Array) -> Array:
        total = lambda number: jnp.where(numbers == number, g, jnp.zeros_like(g)).sum()  # noqa: E731
        return lax.map(total, lax.iota(numbers.dtype, len(weights))).reshape(column)

    return linear_map(forward, transpose, weights.reshape(column), numbers.shape, value)
