"""The element of a given rank in every window.

Rectangles are windows of pooling. In footprints, let ``t(i)`` be the first tap of the
window of ``i`` that has the value of the rank. Where it is locally constant, ``y[i] = x[i + t(i)]``
and ``dy[i] = dx[i + t(i)]``. Few taps are sorted by comparators, element by element of whole
arrays; of many the element is found by its bits, see ``_lowerings.ranks.radix_select``.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._autodiff.rules import selection
from .._lowerings import tuning
from .._lowerings.parts.argreduce import same
from .._lowerings.parts.every_tap import Fold
from .._lowerings.parts.float_order import from_sort_keys, sort_keys
from .._lowerings.ranks import radix_select
from .._lowerings.ranks.sorting_network import sorted_lanes
from .._xla.materialize import materialize
from ..ops import rank as rank_
from ..reductions import MAX, MIN, accumulator
from ._arguments import Neighborhood
from ._boundary import extend
from ._extreme import extreme
from ._read import read
from ._windows import Taps, cut, offsets_of, rectangle, with_room


def ranked(x: Array, hood: Neighborhood, rank: int) -> Array:
    """Return the element number ``rank``, from 0 up, of every neighbourhood; differentiable."""
    taps = Taps(hood.extents, offsets_of(hood), x.shape)
    if rank in (0, len(taps) - 1):
        return extreme(x, hood, MIN if rank == 0 else MAX)
    if not x.size:
        return x
    extended = extend(x, hood.extents, hood.cval)
    if hood.footprint is None:
        long = [extent for extent in hood.extents if extent.size > 1]
        extended = with_room(extended, long, np.zeros((), x.dtype))
        y = rank_.ranked(extended, None, rectangle(extended.shape, long), rank)
        return cut(y, long, x.shape)
    # XLA:CPU would widen and round narrow floats at every comparison.
    wide = extended.astype(accumulator(np.dtype(x.dtype)))
    return _of_footprint(wide, taps, rank).astype(x.dtype)


def _of_footprint(extended: Array, taps: Taps, rank: int) -> Array:
    def reduce(extended: Array) -> Array:
        if len(taps) <= tuning.MOST_IN_NETWORK:
            return sorted_lanes(list(taps.each(extended)))[rank]
        places, with_nan = jnp.full(taps.shape, rank), jnp.issubdtype(extended.dtype, jnp.floating)
        key = radix_select.kth(sort_keys(extended), with_nan, taps.reads(), places)
        return from_sort_keys(key, extended.dtype)

    def argreduce(extended: Array) -> tuple[Array, Array]:
        (extended,) = materialize(extended)  # XLA could compute it twice, and round it twice
        (y,) = materialize(reduce(extended))
        return y, _first_equal(extended, y, taps)

    return selection(reduce, argreduce, lambda x, first, y: read(x, first, taps, y), extended)


def _first_equal(extended: Array, y: Array, taps: Taps) -> Array:
    last = np.int32(len(taps))

    def number(number: Any, element: Array, y: Array) -> Array:
        return jnp.where(same(element, y), number, last)

    return taps.reduce(Fold(number, last, lax.min), (extended,), (y,))
