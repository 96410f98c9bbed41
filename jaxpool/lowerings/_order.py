"""Faster ways to an extreme on CPU, where the NaN rule of ``lax.max`` costs more than the max.

* A tree of bare selects beside a tree that asks whether any cell is NaN: the compiler merges the
  questions of two cells into one comparison.
* Order-preserving integers: with the lower bits of negative floats flipped, floats compare as
  integers of their width. Every NaN is put at the winning end, whose bits are again a NaN. This
  also keeps 16-bit floats in 16-bit lanes, where XLA otherwise widens them to 32 bits.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._cut import tree
from .._pick import Pick, empty
from .._reductions import MAX, MAX_LAST_NAN, MIN, Reduction, identity_array


def is_float_extreme(reduction: Reduction, dtype: np.dtype) -> bool:
    """Whether ``reduction`` takes the largest or smallest of floats that have integers as wide."""
    wide_enough = dtype.itemsize in (2, 4, 8)
    return reduction.wins is not None and jnp.issubdtype(dtype, jnp.floating) and wide_enough


def is_narrow_extreme(reduction: Reduction, dtype: np.dtype) -> bool:
    """:func:`is_float_extreme` of 16-bit floats, which XLA:CPU would widen and round every time."""
    return dtype.itemsize == 2 and is_float_extreme(reduction, dtype)


def widened(x: Array, reduction: Reduction) -> tuple[Array, Reduction]:
    """Return both in a dtype that XLA:CPU does not emulate, in which extremes are the same."""
    floating = jnp.issubdtype(x.dtype, jnp.floating)
    if reduction.wins is None or x.dtype == np.bool_:
        return x, reduction
    if floating and x.dtype.itemsize == 1:
        wide = np.dtype(np.float32)
    elif not floating and jnp.iinfo(x.dtype).bits < 8:
        wide = np.dtype(np.int8 if jnp.iinfo(x.dtype).min else np.uint8)
    else:
        return x, reduction
    worst = identity_array(reduction, x.dtype).astype(wide)
    return x.astype(wide), dataclasses.replace(reduction, identity=lambda dtype: worst)


def reduce_cells(reduction: Reduction, cells: Sequence[Array]) -> Array:
    """Combine arrays of cells in a balanced tree."""
    if len(cells) == 1 or not is_float_extreme(reduction, cells[0].dtype):
        return tree(reduction.combine, cells)
    prefers = lax.gt if reduction.wins == "largest" else lax.lt
    best = tree(lambda a, b: jnp.where(prefers(a, b), a, b), cells)
    any_nan = tree(lax.bitwise_or, [cell != cell for cell in cells])
    return jnp.where(any_nan, np.asarray(np.nan, best.dtype), best)


def in_integers(run: Callable[[Array, Reduction], Array], x: Array, reduction: Reduction) -> Array:
    """Return ``run(x, reduction)`` of a float extreme, computed in order-preserving integers."""
    empty = _flip(_bits(identity_array(reduction, x.dtype)))
    order = dataclasses.replace(_integer_extreme(reduction), identity=lambda dtype: empty)
    return _from_order(run(_ordered(x, reduction), order), x.dtype)


def pick_in_order(
    pick: Callable[[Array, Reduction], Pick], x: Array, valid: Array | None, reduction: Reduction
) -> Pick:
    """Return ``pick(x, reduction)`` of the cells that are ``valid``, computed in integers.

    The integers are in the order of the values, see :func:`has_room`. Cells that are not there are
    the identity, which loses to all, so nothing else has to be asked about them. ``pick`` itself
    marks windows that lie on padding alone. A zero has lost its sign: to let -0.0 and 0.0 tie only
    where they are compared takes up to three times as long.
    """
    keys, order, absent = _to_order(x, reduction)
    if valid is not None:
        keys = jnp.where(valid, keys, absent)
    keys, taps = pick(keys, order)
    none = keys == absent
    values = jnp.where(none, identity_array(reduction, x.dtype), _from_order(keys, x.dtype))
    return values, taps if valid is None else jnp.where(none, empty(taps.dtype), taps)


def has_room(reduction: Reduction, dtype: np.dtype) -> bool:
    """Whether some integer loses to every value, which :func:`pick_in_order` needs."""
    if jnp.issubdtype(dtype, jnp.floating):
        return is_float_extreme(reduction, dtype)
    return reduction.wins is not None and dtype.itemsize < 4


def _to_order(x: Array, reduction: Reduction) -> tuple[Array, Reduction, np.ndarray]:
    """Return ``x`` as integers in its order, the extreme of them, and an integer that never wins.

    The integer that never wins is the identity of the extreme.
    """
    if is_float_extreme(reduction, x.dtype):
        keys, worst = _ordered(x, reduction), _flip(_bits(identity_array(reduction, x.dtype)))
        keys = jnp.where(keys == -1, np.zeros((), keys.dtype), keys)  # -0.0, a tie with 0.0
    else:
        keys, worst = x.astype(jnp.int32), identity_array(reduction, x.dtype).astype(np.int32)
    step = -1 if reduction.wins == "largest" else 1
    absent = np.asarray(worst + np.asarray(step, keys.dtype), keys.dtype)
    order = dataclasses.replace(_integer_extreme(reduction), identity=lambda dtype: absent)
    return keys, order, absent


def _from_order(keys: Array, dtype: np.dtype) -> Array:
    """Return the values that ``keys`` stand for."""
    if jnp.issubdtype(dtype, jnp.floating):
        return lax.bitcast_convert_type(_flip(keys), dtype)
    return keys.astype(dtype)


def _integer_extreme(reduction: Reduction) -> Reduction:
    if reduction.beats is MAX_LAST_NAN.beats:
        return dataclasses.replace(MAX, beats=_greater_or_largest)
    return MAX if reduction.wins == "largest" else MIN


def _greater_or_largest(b: Array, a: Array) -> Array:
    """``b`` over an earlier ``a``: the largest integer, which stands for NaN, beats itself."""
    return (b > a) | (b == np.iinfo(b.dtype).max)


def _bits(x: np.ndarray) -> np.ndarray:
    return x.view(f"int{8 * x.dtype.itemsize}")


def _ordered(x: Array, reduction: Reduction) -> Array:
    integers = np.dtype(f"int{8 * x.dtype.itemsize}")
    limits = np.iinfo(integers)
    winning = np.asarray(limits.max if reduction.wins == "largest" else limits.min, integers)
    return jnp.where(x != x, winning, _flip(lax.bitcast_convert_type(x, integers)))


def _flip(bits: Any) -> Any:
    """Flip the lower bits of negatives: floats' bits to order and back."""
    limits = np.iinfo(bits.dtype)
    return bits ^ ((bits >> (limits.bits - 1)) & np.asarray(limits.max, bits.dtype))
