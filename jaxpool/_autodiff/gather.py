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

import numpy as np
from jax import Array

from .._geometry.resolve import Geometry
from .._lowerings.plan import choice_of
from ..reductions import accumulator
from .linear import linear_map


def gather(
    t: Array,
    offsets: Array,
    geometry: Geometry,
    value: Array | None = None,
    *,
    implementation: str = "auto",
    any_offset: bool = False,
) -> Array:
    """Return the element of ``t`` at the offset of every window; linear in ``t``.

    Args:
      t: the array.
      offsets: of each window, row-major in the window.
      geometry: the windows.
      value: the result, if it is known.
      implementation: as in :func:`plan_for`.
      any_offset: whether offsets may be others than the argmax of every window.
    """
    dtype = np.dtype(t.dtype)
    forward = choice_of("gather", geometry, dtype, implementation, any_offset)
    transpose = functools.partial(
        scatter,
        offsets=offsets,
        geometry=geometry,
        dtype=dtype,
        implementation=implementation,
        any_offset=any_offset,
    )
    wide = t.astype(accumulator(dtype))
    read = linear_map(lambda t: forward(t, offsets), transpose, wide, offsets.shape, value)
    return read.astype(dtype)


def scatter(
    g: Array,
    offsets: Array,
    geometry: Geometry,
    *,
    dtype: np.dtype | None = None,
    implementation: str = "auto",
    any_offset: bool = False,
) -> Array:
    """Return the sum, for each element, of the values of the windows whose offset names it.

    Args:
      g: values of the windows.
      offsets, geometry, implementation, any_offset: as in :func:`gather`.
      dtype: of the array that was read, if ``g`` is wider.
    """
    dtype = np.dtype(g.dtype) if dtype is None else dtype
    choice = choice_of("scatter", geometry, dtype, implementation, any_offset)
    return choice(g, offsets, dtype=dtype)
