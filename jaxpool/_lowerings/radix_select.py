"""The element of a given rank in every window, by its bits from the highest down.

Let ``c(t)`` be how many elements of a window are less than ``t``. The element at place ``k`` of the
sorted window is the greatest ``t`` with ``c(t) <= k``. Among integers of ``b`` bits, ``b`` counts
find it: a bit is set if no more than ``k`` elements are less than what the bit would make. Floats
are integers of the same order (:mod:`.float_order`).

Neither the program nor the memory grows with the window: beside the array there are an integer and
a count for each window. Every element of every window is read ``b`` times.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from .._xla.sharding_types import varying_alike
from .float_order import from_sort_keys, sort_keys

Walk = Callable[[Callable[[Any, Array, Any], Any], Any, Array], Any]
"""``walk(step, state, x)`` takes ``state = step(number, elements, state)`` over all offsets of
windows of ``x``, with the elements that all windows have at the offset of that number."""


def kth(x: Array, walk: Walk, taps: int, places: Array) -> Array:
    """Return the elements at places of the sorted elements of every window; NaN, if there is one.

    Args:
      x: the array.
      walk: how elements of windows are read.
      taps: elements of a window.
      places: of wanted elements, from 0: int32 ``[wanted, windows..]``.
    """
    keys, places = varying_alike((sort_keys(x), places))
    dtype, limits = keys.dtype, jnp.iinfo(keys.dtype)

    def count_less(bounds: Array) -> Array:
        def step(_: Any, elements: Array, counts: Array) -> Array:
            return counts + (elements < bounds).astype(counts.dtype)

        return walk(step, jnp.zeros_like(places), keys)

    def with_bit(n: Any, found: Array) -> Array:
        shift = jnp.asarray(limits.bits - 1 - n, dtype)
        bounds = found ^ jnp.left_shift(jnp.ones((), dtype), shift)
        return jnp.where(count_less(bounds) <= places, bounds, found)

    if jnp.issubdtype(x.dtype, jnp.floating):
        # NaN is the greatest integer, so a window that holds one is asked for its last element.
        has_nan = count_less(jnp.full(places.shape, limits.max, dtype)) < taps
        places = jnp.where(has_nan, taps - 1, places)
    least = jnp.full_like(places, limits.min, dtype)
    return from_sort_keys(lax.fori_loop(0, limits.bits, with_bit, least), x.dtype)
