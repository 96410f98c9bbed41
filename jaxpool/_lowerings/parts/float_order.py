"""Faster maxima and minima of floats on CPU, where the NaN rule of ``lax.max`` costs more than max.

* A tree of bare selects beside a tree that asks whether any element is NaN: the compiler merges the
  comparisons of two elements with themselves into one.
* Order-preserving integers: with the lower bits of negative floats flipped, floats compare as
  integers of their width. Every NaN becomes the extreme integer, whose bits are again a NaN. This
  also keeps 16-bit floats in 16-bit lanes, where XLA otherwise widens them to 32 bits. And XLA:CPU
  drops NaN from some library reductions of floats, but not from integers (jaxlib 0.10.2 and 0.12).
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._xla.by_platform import by_platform
from ..._xla.select import select
from ...reductions import MAX, MAX_LAST_NAN, MIN, Reduction, identity_array
from .argreduce import ValueOffset, sentinel
from .axis_slicing import tree_reduce


def is_float_extreme(reduction: Reduction, x: Any) -> bool:
    """Whether ``reduction`` takes the largest or smallest of floats that have integers as wide."""
    if reduction.extremum is None:
        return False
    return jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize in (2, 4, 8)


def is_narrow_extreme(reduction: Reduction, x: Any) -> bool:
    """:func:`is_float_extreme` of 16-bit floats, which XLA:CPU would widen and round every time."""
    return is_float_extreme(reduction, x) and x.dtype.itemsize == 2


def widened(x: Any, reduction: Reduction) -> tuple[Any, Reduction]:
    """Return both in a dtype that XLA:CPU does not emulate, in which extremes are the same."""
    if reduction.extremum is None or x.dtype == np.bool_:
        return x, reduction
    floating = jnp.issubdtype(x.dtype, jnp.floating)
    if floating and x.dtype.itemsize == 1:
        wide = np.dtype(np.float32)
    elif not floating and jnp.iinfo(x.dtype).bits < 8:
        wide = np.dtype(np.int8 if jnp.iinfo(x.dtype).min else np.uint8)
    else:
        return x, reduction
    identity = identity_array(reduction, x.dtype).astype(wide)
    return x.astype(wide), dataclasses.replace(reduction, identity=lambda dtype: identity)


def reduce_slices(reduction: Reduction, slices: Sequence[Any]) -> Any:
    """Return the combination of arrays, or of pytrees, in a balanced tree."""
    if len(slices) == 1 or not is_float_extreme(reduction, slices[0]):
        return tree_reduce(reduction.combine, slices)
    prefers = lax.gt if reduction.extremum == "max" else lax.lt
    extreme = tree_reduce(lambda a, b: lax.select(prefers(a, b), a, b), slices)
    any_nan = tree_reduce(lax.bitwise_or, [lax.ne(x, x) for x in slices])
    return select(any_nan, np.asarray(np.nan, extreme.dtype), extreme)


def reduce_in_integers(
    reduce: Callable[[Array, Reduction], Array], x: Array, reduction: Reduction
) -> Array:
    """Return ``reduce(x, reduction)`` of a float extreme, in order-preserving integers."""
    identity = _flip(_bits(identity_array(reduction, x.dtype)))
    order = dataclasses.replace(_integer_extreme(reduction), identity=lambda dtype: identity)
    return from_sort_keys(reduce(_ordered(x, reduction), order), x.dtype)


def reduce_in_integers_on_cpu(
    reduce: Callable[[Any, Reduction], Any], x: Any, reduction: Reduction
) -> Any:
    """Return ``reduce(x, reduction)``, on CPU in integers where it is a float extreme."""
    if not is_float_extreme(reduction, x):
        return reduce(x, reduction)
    plain = lambda x: reduce(x, reduction)  # noqa: E731
    in_integers = lambda x: reduce_in_integers(reduce, x, reduction)  # noqa: E731
    return by_platform({"cpu": in_integers, "gpu": plain, "tpu": plain}, x)


def argreduce_in_integers(
    argreduce: Callable[[Array, Reduction], ValueOffset],
    x: Array,
    valid: Array | None,
    reduction: Reduction,
) -> ValueOffset:
    """Return ``argreduce(x, reduction)`` of the elements that are ``valid``, in integers.

    The integers are in the order of the values, see :func:`has_sentinel_value`. Elements that are
    not ``valid`` are an integer below all others, so no mask has to be combined. ``argreduce``
    itself sets the sentinel of windows that lie on padding alone. A zero has lost its sign: to let
    -0.0 and 0.0 tie only where they are compared takes up to three times as long.
    """
    keys, order, invalid = _to_order(x, reduction)
    if valid is not None:
        keys = jnp.where(valid, keys, invalid)
    keys, offsets = argreduce(keys, order)
    empty = keys == invalid
    values = jnp.where(empty, identity_array(reduction, x.dtype), from_sort_keys(keys, x.dtype))
    return values, offsets if valid is None else jnp.where(empty, sentinel(offsets.dtype), offsets)


def sort_keys(x: Array) -> Array:
    """Return integers in the order of ``x``: -0.0 and 0.0 are one, NaN is the greatest."""
    if jnp.issubdtype(x.dtype, jnp.floating):
        return _with_one_zero(_ordered(x, MAX))
    x, _ = widened(x, MAX)
    return x.astype(np.uint8) if x.dtype == np.bool_ else x


def has_sentinel_value(reduction: Reduction, x: Array) -> bool:
    """Whether some integer loses to every value, which :func:`argreduce_in_integers` needs."""
    if jnp.issubdtype(x.dtype, jnp.floating):
        return is_float_extreme(reduction, x)
    return reduction.extremum is not None and x.dtype.itemsize < 4


def _to_order(x: Array, reduction: Reduction) -> tuple[Array, Reduction, np.ndarray]:
    """Return ``x`` as integers in its order, their extreme, and an integer that loses to all.

    The integer that loses to all is the identity of the extreme.
    """
    if is_float_extreme(reduction, x):
        keys, last = _ordered(x, reduction), _flip(_bits(identity_array(reduction, x.dtype)))
        keys = _with_one_zero(keys)
    else:
        keys, last = x.astype(jnp.int32), identity_array(reduction, x.dtype).astype(np.int32)
    step = -1 if reduction.extremum == "max" else 1
    invalid = np.asarray(last + np.asarray(step, keys.dtype), keys.dtype)
    order = dataclasses.replace(_integer_extreme(reduction), identity=lambda dtype: invalid)
    return keys, order, invalid


def _with_one_zero(keys: Array) -> Array:
    """The integers of floats, with 0.0 in place of -0.0: the two tie."""
    return jnp.where(keys == -1, np.zeros((), keys.dtype), keys)


def from_sort_keys(keys: Array, dtype: np.dtype) -> Array:
    """Return the values of an array of ``dtype`` that ``keys`` stand for."""
    if jnp.issubdtype(dtype, jnp.floating):
        return lax.bitcast_convert_type(_flip(keys), dtype)
    return keys.astype(dtype)


def takes_last_nan(reduction: Reduction) -> bool:
    """Whether of several NaN the argmax is the last."""
    return reduction.comparator is MAX_LAST_NAN.comparator


def _integer_extreme(reduction: Reduction) -> Reduction:
    if takes_last_nan(reduction):
        return dataclasses.replace(MAX, comparator=_greater_or_largest)
    return MAX if reduction.extremum == "max" else MIN


def _greater_or_largest(b: Array, a: Array) -> Array:
    """``b`` over an earlier ``a``: the largest integer, which stands for NaN, even over itself."""
    return (b > a) | (b == np.iinfo(b.dtype).max)


def _bits(x: np.ndarray) -> np.ndarray:
    return x.view(f"int{8 * x.dtype.itemsize}")


def _ordered(x: Array, reduction: Reduction) -> Array:
    integers = np.dtype(f"int{8 * x.dtype.itemsize}")
    limits = np.iinfo(integers)
    nan = np.asarray(limits.max if reduction.extremum == "max" else limits.min, integers)
    return jnp.where(x != x, nan, _flip(lax.bitcast_convert_type(x, integers)))


def _flip(bits: Any) -> Any:
    """Flip the lower bits of negatives: floats' bits to order and back."""
    limits = np.iinfo(bits.dtype)
    return bits ^ ((bits >> (limits.bits - 1)) & np.asarray(limits.max, bits.dtype))
