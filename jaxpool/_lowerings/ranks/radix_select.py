"""The element at a given index of every sorted window, found bit by bit.

Let ``c(t)`` be the number of elements of a window that are less than ``t``. The element at index
``k`` of the sorted window is the greatest ``t`` with ``c(t) <= k``. Since ``c`` is monotonic, this
``t`` is built from its highest bit down: a bit is set if ``c`` of the integer with that bit is at
most ``k``. An integer of ``b`` bits takes ``b`` counts. Floats are mapped to integers in the same
order (:mod:`..parts.float_order`).

Neither the program nor the memory grows with the window: in addition to the array, there are an
integer and a count for each window. Every element of every window is read ``b`` times.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._xla.sharding_types import unify_varying_axes
from ..parts.every_tap import Fold, Reads, reduce_taps
from ..parts.window_counts import smallest_index_dtype


def kth(keys: Array, with_nan: bool, reads: Reads, places: Array) -> Array:
    """Return, for every window, the integer at a given index of its sorted integers.

    Args:
      keys: integers; for floats, those of :func:`..parts.float_order.sort_keys`.
      with_nan: whether the greatest integer represents NaN, and is the result if a window has it.
      reads: the windows.
      places: the indices, from 0 to less than the number of taps, in the shape of the result.
    """
    dtype = smallest_index_dtype(reads.taps)
    places = places.astype(dtype)
    keys, places = unify_varying_axes((keys, places))
    limits = jnp.iinfo(keys.dtype)

    def count_less(bounds: Array) -> Array:
        def is_less(_: Array, element: Array, bound: Array) -> Array:
            return (element < bound).astype(dtype)

        fold = Fold(is_less, np.zeros((), dtype), lax.add)
        return reduce_taps(reads, fold, keys, (bounds,))

    def test_bit(state: tuple[Array, Array]) -> tuple[Array, Array]:
        bit, result = state
        bounds = result ^ jnp.left_shift(jnp.ones((), keys.dtype), bit.astype(keys.dtype))
        return bit - 1, jnp.where(count_less(bounds) <= places, bounds, result)

    if with_nan:  # in a window that contains a NaN, the last element is wanted
        has_nan = count_less(jnp.full(places.shape, limits.max, keys.dtype)) < reads.taps
        places = jnp.where(has_nan, np.asarray(reads.taps - 1, dtype), places)
    # A while_loop, not a fori_loop, which is a scan: JAX splits the body of a scan while it
    # differentiates, and would store the elements at every offset, which are the same for all bits.
    # JAX does not split a while_loop.
    lowest = jnp.full_like(places, limits.min, keys.dtype)
    start = jnp.asarray(limits.bits - 1, jnp.int32), lowest
    _, result = lax.while_loop(lambda state: state[0] >= 0, test_bit, start)
    return result
