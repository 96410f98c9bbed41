"""Reading windows at their offsets, a linear map, and its transpose.

Along one axis, with ``p[o] = o * stride - pad_low + offset[o] * dilation``,

    gather(t)[o] = t[p[o]],    scatter(g)[i] = sum over {o: p[o] = i} of g[o],

and a window whose offset is the sentinel reads 0 and gives nothing. The plan says which
implementation computes both.

The offsets of a maximum agree: of two windows that hold each other's argmax, both have the same.
Implementations may count on that. Offsets that a caller made, or that were drawn at random, do not
agree (``any_offset``).
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
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
    any_offset: bool = False,
) -> Array:
    """Return the element of ``t`` at the offset of every window; linear in ``t``.

    Args:
      t: the array.
      offsets: of each window, row-major in the window.
      geometry: the windows.
      value: the result, if it is known.
      any_offset: whether offsets may be others than the argmax of every window.
    """
    dtype = np.dtype(t.dtype)
    forward, transpose = (
        choice_of(verb, geometry, dtype, any_offset=any_offset) for verb in ("gather", "scatter")
    )
    return gather_by(forward, transpose, t, offsets, value)


def gather_by(
    forward: Choice, transpose: Choice, t: Array, offsets: Array, value: Array | None = None
) -> Array:
    """:func:`gather` by the implementations that were chosen for "gather" and for "scatter"."""
    dtype = np.dtype(t.dtype)
    read = linear_map(
        lambda t: forward(t, offsets),
        lambda g: transpose(g, offsets, dtype=dtype),
        t.astype(accumulator(dtype)),
        offsets.shape,
        value,
    )
    return read.astype(dtype)


def weighted_gather(
    t: Array,
    offsets: Sequence[Array],
    weights: Sequence[Any],
    geometry: Geometry,
    value: Array,
) -> Array:
    """Return the weighted sum of the elements of ``t`` at any offsets of every window.

    Args:
      t: the array, of a wide dtype.
      offsets: of each window, row-major in the window; as many as there are ``weights``.
      weights: numbers or arrays that broadcast to the result.
      geometry: the windows.
      value: the result.
    """
    dtype = np.dtype(t.dtype)
    read = choice_of("gather", geometry, dtype, any_offset=True)
    write = functools.partial(scatter, geometry=geometry, any_offset=True)

    def forward(t: Array) -> Array:
        found = (read(t, o) * jnp.asarray(w, dtype) for o, w in zip(offsets, weights, strict=True))
        return functools.reduce(lax.add, found)

    def transpose(g: Array) -> Array:
        def add(total: Array, each: tuple[Array, Array]) -> tuple[Array, None]:
            offset, weight = each
            return total + write(g * weight, offset), None

        each = jnp.stack(offsets), jnp.stack([jnp.asarray(w, dtype) for w in weights])
        start = varying_zeros(t.shape, dtype, (g, each))
        return lax.scan(add, start, each)[0]  # one after the other, or both would be held at once

    return linear_map(forward, transpose, t, offsets[0].shape, value)


def scatter(
    g: Array,
    offsets: Array,
    geometry: Geometry,
    *,
    any_offset: bool = False,
) -> Array:
    """Return the sum, for each element, of the values of the windows whose offset names it.

    Args:
      g: values of the windows.
      offsets, geometry, any_offset: as in :func:`gather`.
    """
    dtype = np.dtype(g.dtype)
    choice = choice_of("scatter", geometry, dtype, any_offset=any_offset)
    return choice(g, offsets, dtype=dtype)
