"""The element of a given rank in every window, by its bits from the highest down.

Let ``c(t)`` be how many elements of a window are less than ``t``. The element at place ``k`` of the
sorted window is the greatest ``t`` with ``c(t) <= k``. Among integers of ``b`` bits, ``b`` counts
find it: a bit is set if no more than ``k`` elements are less than what the bit would make. Floats
are integers of the same order (:mod:`..parts.float_order`).

Neither the program nor the memory grows with the window: beside the array there are an integer and
a count for each window. Every element of every window is read ``b`` times.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._xla.sharding_types import varying_alike
from ..parts.every_tap import Fold, Reads, reduce_taps
from ..parts.window_counts import short_dtype


def kth(keys: Array, with_nan: bool, reads: Reads, places: Array) -> Array:
    """Return the integer at a place of the sorted integers of every window.

    Args:
      keys: integers, of floats those of :func:`..parts.float_order.sort_keys`.
      with_nan: whether the greatest integer stands for NaN, and is the result if a window has it.
      reads: the windows.
      places: of the wanted elements, from 0, less than the taps; of the shape of the result.
    """
    dtype = short_dtype(reads.taps)
    places = places.astype(dtype)
    keys, places = varying_alike((keys, places))
    limits = jnp.iinfo(keys.dtype)

    def count_less(bounds: Array) -> Array:
        def is_less(_: Array, element: Array, bound: Array) -> Array:
            return (element < bound).astype(dtype)

        fold = Fold(is_less, np.zeros((), dtype), lax.add)
        return reduce_taps(reads, fold, (keys,), (bounds,))

    def with_bit(state: tuple[Array, Array]) -> tuple[Array, Array]:
        bit, found = state
        bounds = found ^ jnp.left_shift(jnp.ones((), keys.dtype), bit.astype(keys.dtype))
        return bit - 1, jnp.where(count_less(bounds) <= places, bounds, found)

    if with_nan:  # a window that holds one is asked for its last element
        has_nan = count_less(jnp.full(places.shape, limits.max, keys.dtype)) < reads.taps
        places = jnp.where(has_nan, np.asarray(reads.taps - 1, dtype), places)
    # JAX takes a scan, which a fori_loop is, apart while it differentiates, and would store the
    # elements at every offset, which do not change from bit to bit. A while_loop stays whole.
    least = jnp.full_like(places, limits.min, keys.dtype)
    start = jnp.asarray(limits.bits - 1, jnp.int32), least
    _, found = lax.while_loop(lambda state: state[0] >= 0, with_bit, start)
    return found
