"""Gather one tap of every window, a linear map, and its transpose.

Let ``n[i]`` be the number of a tap of window ``i``, and ``s[n]`` the offset of tap ``n``. Then

    gather(t)[i] = t[i + s[n[i]]],    transpose(g)[j] = sum over {i: i + s[n[i]] = j} of g[i].

The weights of these taps are ``w[n[i]]``, with the transpose ``sum over {i: n[i] = n} of g[i]``.
Both transposes process the taps sequentially, so no array of all taps is materialised.
"""

import jax.numpy as jnp
from jax import Array, lax

from .._autodiff.linear import linear_map
from .._lowerings.parts.every_tap import sum_at_tap
from ..reductions import accumulator
from ._windows import Taps


def gather_taps(extended: Array, numbers: Array, taps: Taps, value: Array) -> Array:
    """Return the element of window ``i`` at tap ``numbers[i]``; ``value`` is the known result."""

    def forward(t: Array) -> Array:
        return taps.reduce(sum_at_tap(t.dtype), t, (numbers,))

    def transpose(g: Array) -> Array:
        return taps.scatter_add(numbers, g, extended.shape)

    widened = extended.astype(accumulator(extended.dtype))  # many windows may share an element
    return linear_map(forward, transpose, widened, numbers.shape, value)


def gather_weights(weights: Array, numbers: Array, taps: Taps, value: Array) -> Array:
    """Return the weight of tap ``numbers[i]`` for window ``i``; ``value`` is the known result."""
    # The weights lie along an axis that is filtered: any other axis may be sharded.
    weight_axis = [extent.position for extent in taps.extents if extent.size > 1][:1]
    column = [len(weights) if n in weight_axis else 1 for n in range(-numbers.ndim, 0)]

    def forward(t: Array) -> Array:
        return t.reshape(-1)[numbers]

    def transpose(g: Array) -> Array:
        total = lambda number: jnp.where(numbers == number, g, jnp.zeros_like(g)).sum()  # noqa: E731
        return lax.map(total, lax.iota(numbers.dtype, len(weights))).reshape(column)

    return linear_map(forward, transpose, weights.reshape(column), numbers.shape, value)
