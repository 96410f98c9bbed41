"""Faster maxima and minima of floats on CPU, where the NaN rule of ``lax.max`` costs more than max.

There are two ways to avoid the NaN rule:

* A tree of plain comparisons and selects, which may lose a NaN, and a second tree that computes
  whether any element is NaN. The compiler merges the tests ``a != a`` and ``b != b`` of two
  elements into one comparison.
* Order-preserving integers, the *keys*. If the lower bits of negative floats are flipped, floats
  compare as the integers of the same width. Every NaN becomes the extreme integer, whose bits are
  again a NaN. This also keeps 16-bit floats in 16-bit lanes, where XLA otherwise widens them to 32
  bits. And XLA:CPU drops NaN from some library reductions of floats, but not from integers (jaxlib
  0.10.2 and 0.12).
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._xla.by_platform import by_platform
from ..._xla.nan_constant import nan_at
from ..._xla.select import select
from ...reductions import MAX, MAX_LAST_NAN, MIN, Reduction, byte_dtype, identity_array
from .argreduce import ValueOffset, sentinel
from .axis_slicing import tree_reduce


def is_float_extreme(reduction: Reduction, x: Any) -> bool:
    """Return whether ``reduction`` is a maximum or minimum of floats of 16, 32 or 64 bits."""
    if reduction.extremum is None:
        return False
    return jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize in (2, 4, 8)


def is_16_bit_extreme(reduction: Reduction, x: Any) -> bool:
    """Return whether ``reduction`` is a maximum or minimum of 16-bit floats.

    XLA:CPU would widen and round these in every operation.
    """
    return is_float_extreme(reduction, x) and x.dtype.itemsize == 2


def to_native_dtype(x: Any, reduction: Reduction) -> tuple[Any, Reduction]:
    """Convert to a wider dtype if XLA:CPU emulates the dtype of ``x``; extremes are the same."""
    if reduction.extremum is None or x.dtype == np.bool_:
        return x, reduction
    is_small_float = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize == 1
    native_dtype = np.dtype(np.float32) if is_small_float else byte_dtype(x.dtype)
    if native_dtype == x.dtype:
        return x, reduction
    identity = identity_array(reduction, x.dtype).astype(native_dtype)
    return x.astype(native_dtype), dataclasses.replace(reduction, identity=identity)


def reduce_slices(reduction: Reduction, slices: Sequence[Any]) -> Any:
    """Combine arrays, or pytrees of arrays, in a balanced tree."""
    if len(slices) == 1 or not is_float_extreme(reduction, slices[0]):
        return tree_reduce(reduction.combine, slices)
    prefers = lax.gt if reduction.extremum == "max" else lax.lt
    extreme = tree_reduce(lambda a, b: lax.select(prefers(a, b), a, b), slices)
    any_nan = tree_reduce(lax.bitwise_or, [lax.ne(x, x) for x in slices])
    return select(any_nan, nan_at(any_nan, extreme), extreme)


def reduce_in_integers(
    reduce: Callable[[Array, Reduction], Array], x: Array, reduction: Reduction
) -> Array:
    """Return ``reduce(x, reduction)`` of a float maximum or minimum, computed on its keys."""
    key_reduction = dataclasses.replace(
        _key_extreme(reduction), identity=_identity_key(reduction, x.dtype)
    )
    return from_sort_keys(reduce(_float_keys(x, reduction), key_reduction), x.dtype)


def reduce_in_integers_on_cpu(
    reduce: Callable[[Any, Reduction], Any], x: Any, reduction: Reduction
) -> Any:
    """Return ``reduce(x, reduction)``, computed on keys on CPU if it is a float extreme."""
    if not is_float_extreme(reduction, x):
        return reduce(x, reduction)
    on_floats = lambda x: reduce(x, reduction)  # noqa: E731
    on_keys = lambda x: reduce_in_integers(reduce, x, reduction)  # noqa: E731
    return by_platform(x, cpu=on_keys, default=on_floats)


def argreduce_in_integers(
    argreduce: Callable[[Array, Reduction], ValueOffset],
    x: Array,
    valid: Array | None,
    reduction: Reduction,
) -> ValueOffset:
    """Return ``argreduce(x, reduction)`` of the ``valid`` elements, computed on keys.

    Elements that are not ``valid`` get a key that loses to all others, see
    :func:`has_losing_key`, so no mask has to be combined. ``argreduce`` sets the sentinel of
    windows that contain only padding. A resulting zero has lost its sign: to make -0.0 and 0.0 tie
    only where they are compared takes up to three times as long.
    """
    keys, extreme = argmax_keys(x, valid, reduction)
    pair = argreduce(keys, extreme)
    return from_argmax_keys(pair, x.dtype, reduction, may_be_empty=valid is not None)


def argmax_keys(x: Array, valid: Array | None, reduction: Reduction) -> tuple[Array, Reduction]:
    """Return the keys of the ``valid`` elements, and the maximum or minimum of keys.

    The identity of the latter loses to the keys of all elements; those not ``valid`` have this key.
    """
    if is_float_extreme(reduction, x):
        keys = _with_one_zero(_float_keys(x, reduction))
    else:
        keys = x.astype(jnp.int32)
    extreme = dataclasses.replace(_key_extreme(reduction), identity=_losing_key(reduction, x.dtype))
    if valid is not None:
        keys = jnp.where(valid, keys, identity_array(extreme, keys.dtype))
    return keys, extreme


def from_argmax_keys(
    pair: ValueOffset, dtype: np.dtype, reduction: Reduction, may_be_empty: bool
) -> ValueOffset:
    """Return values and offsets of windows from their keys and offsets.

    ``may_be_empty``: whether to set the sentinel of windows without a valid element.
    """
    keys, offsets = pair
    empty = keys == _losing_key(reduction, dtype)
    # As a float, the losing key would be NaN.
    values = from_sort_keys(jnp.where(empty, _identity_key(reduction, dtype), keys), dtype)
    return values, jnp.where(empty, sentinel(offsets.dtype), offsets) if may_be_empty else offsets


def sort_keys(x: Array) -> Array:
    """Return integers in the order of ``x``, with -0.0 equal to 0.0, and NaN the greatest."""
    x, _ = to_native_dtype(x, MAX)
    if jnp.issubdtype(x.dtype, jnp.floating):
        return _with_one_zero(_float_keys(x, MAX))
    return x.astype(np.uint8) if x.dtype == np.bool_ else x


def has_losing_key(reduction: Reduction, x: Array) -> bool:
    """Return whether some key loses to every value, as :func:`argreduce_in_integers` needs."""
    if jnp.issubdtype(x.dtype, jnp.floating):
        return is_float_extreme(reduction, x)
    return reduction.extremum is not None and x.dtype.itemsize < 4


def _losing_key(reduction: Reduction, dtype: np.dtype) -> np.ndarray:
    """Return a key that loses to the keys of all elements of ``dtype``."""
    identity = _identity_key(reduction, dtype)
    step = np.asarray(-1 if reduction.extremum == "max" else 1, identity.dtype)
    return np.asarray(identity + step, identity.dtype)


def _identity_key(reduction: Reduction, dtype: np.dtype) -> np.ndarray:
    """Return the key of the identity of a maximum or minimum."""
    identity = identity_array(reduction, dtype)
    if jnp.issubdtype(dtype, jnp.floating):
        return _flip(identity.view(f"int{8 * dtype.itemsize}"))
    return identity.astype(np.int32)


def _with_one_zero(keys: Array) -> Array:
    """Replace the key of -0.0 by that of 0.0, so that the two tie."""
    return jnp.where(keys == -1, np.zeros((), keys.dtype), keys)


def from_sort_keys(keys: Array, dtype: np.dtype) -> Array:
    """Return the values of ``dtype`` whose keys these are."""
    if jnp.issubdtype(dtype, jnp.floating):
        return lax.bitcast_convert_type(_flip(keys), dtype)
    return keys.astype(dtype)


def takes_last_nan(reduction: Reduction) -> bool:
    """Return whether the argmax of several NaN is the last of them."""
    return reduction.comparator is MAX_LAST_NAN.comparator


def _key_extreme(reduction: Reduction) -> Reduction:
    """Return the maximum or minimum of keys that has the same preference as ``reduction``."""
    if takes_last_nan(reduction):
        return dataclasses.replace(MAX, comparator=_greater_or_largest)
    return MAX if reduction.extremum == "max" else MIN


def _greater_or_largest(b: Array, a: Array) -> Array:
    """Return whether ``b`` is preferred to an earlier ``a``; the key of NaN is, even to itself."""
    return (b > a) | (b == np.iinfo(b.dtype).max)


def _float_keys(x: Array, reduction: Reduction) -> Array:
    """Return the keys of floats, NaN as the integer that ``reduction`` prefers.

    NaN is found by its bits: XLA:CPU (jaxlib 0.12) does not vectorise a loop that compares bfloat16
    on a machine without instructions for bfloat16. Maxima would take 5 to 50 times as long.
    """
    integers = np.dtype(f"int{8 * x.dtype.itemsize}")
    limits, infinity = np.iinfo(integers), np.asarray(np.inf, x.dtype).view(integers)
    bits = lax.bitcast_convert_type(x, integers)
    is_nan = (bits & np.asarray(limits.max, integers)) > infinity
    nan = limits.max if reduction.extremum == "max" else limits.min
    return jnp.where(is_nan, np.asarray(nan, integers), _flip(bits))


def _flip(bits: Any) -> Any:
    """Flip the lower bits of negative numbers: maps the bits of floats to keys, and back."""
    limits = np.iinfo(bits.dtype)
    return bits ^ ((bits >> (limits.bits - 1)) & np.asarray(limits.max, bits.dtype))
