"""The gather of one element of every window, a linear map, and its transpose, a scatter.

Along one axis, window ``o`` reads ``p[o] = o * stride - pad_low + offset[o] * dilation``:

    gather(t)[o] = t[p[o]],    scatter(g)[i] = sum over {o: p[o] = i} of g[o].

A window whose offset is the sentinel reads 0 and adds nothing to the scatter. The plan chooses the
implementation of both.

The offsets of an argmax are consistent: if two windows contain each other's argmax, they have the
same argmax. Implementations may rely on this, but only if ``any_offset`` is False. Offsets that
come from a caller, or that are drawn at random, need not be consistent.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from .._geometry.resolve import Geometry
from .._lowerings.plan import Choice, choice_of
from .._xla.sharding_types import varying_zeros
from ..reductions import accumulator
from .linear import linear_map


def gather(
    t: Array,
    offsets: Array,
    geometry: Geometry,
    value: Array | None = None,
    *,
    any_offset: bool = True,
) -> Array:
    """Return the element of ``t`` at the offset of every window; linear in ``t``.

    Args:
      t: the array.
      offsets: the window offset of the element that each window reads, or the sentinel.
      geometry: the windows.
      value: the result, if it is known.
      any_offset: whether offsets may differ from the argmax of their windows.
    """
    dtype = t.dtype
    forward, transpose = (
        choice_of(name, geometry, dtype, any_offset=any_offset) for name in ("gather", "scatter")
    )
    return gather_by(forward, transpose, t, offsets, value)


def gather_by(
    forward: Choice, transpose: Choice, t: Array, offsets: Array, value: Array | None = None
) -> Array:
    """Return :func:`gather` by the implementations chosen for "gather" and for "scatter"."""
    dtype = t.dtype
    result = linear_map(
        lambda t: forward(t, offsets),
        lambda g: transpose(g, offsets, dtype=dtype),
        t.astype(accumulator(dtype)),
        offsets.shape,
        value,
    )
    return result.astype(dtype)


def weighted_gather(
    t: Array,
    offsets: Sequence[Array],
    weights: Sequence[Any],
    geometry: Geometry,
    value: Array,
) -> Array:
    """Return, for every window, the weighted sum of the elements of ``t`` at several offsets.

    Args:
      t: the array, in an accumulator dtype.
      offsets: arrays of window offsets, one for each of ``weights``; any offsets are allowed.
      weights: numbers or arrays that broadcast to the result.
      geometry: the windows.
      value: the result, which is known.
    """
    dtype = t.dtype
    gather_elements = choice_of("gather", geometry, dtype, any_offset=True)

    def forward(t: Array) -> Array:
        terms = (
            gather_elements(t, o) * jnp.asarray(w, dtype)
            for o, w in zip(offsets, weights, strict=True)
        )
        return functools.reduce(lax.add, terms)

    def transpose(g: Array) -> Array:
        def add(total: Array, pair: tuple[Array, Array]) -> tuple[Array, None]:
            offset, weight = pair
            return total + scatter(g * weight, offset, geometry), None

        pairs = jnp.stack(offsets), jnp.stack([jnp.asarray(w, dtype) for w in weights])
        start = varying_zeros(t.shape, dtype, (g, pairs))
        # Without the loop, the results of all scatters would be in memory at the same time.
        return lax.scan(add, start, pairs)[0]

    return linear_map(forward, transpose, t, offsets[0].shape, value)


def scatter(g: Array, offsets: Array, geometry: Geometry) -> Array:
    """Return, for each element, the sum of the values of the windows whose offset points to it.

    Args:
      g: one value for each window.
      offsets, geometry: as in :func:`gather`; any offsets are allowed.
    """
    dtype = g.dtype
    choice = choice_of("scatter", geometry, dtype, any_offset=True)
    return choice(g, offsets, dtype=dtype)
