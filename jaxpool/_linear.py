"""A linear map with a written transpose, for every transformation of JAX."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ._mesh import varying


def rule_for(x: Array, rule: Any) -> Callable[..., Any]:
    """Return ``rule``, or its bare function for an array of integers, which has no derivative."""
    return rule if jnp.issubdtype(x.dtype, jnp.inexact) else rule.fun


def with_transpose(
    forward: Callable[[Array], Array],
    transpose: Callable[[Array], Array],
    t: Array,
    out_shape: tuple[int, ...],
) -> Array:
    """Return ``forward(t)``, whose transpose JAX takes from ``transpose`` and not from ``forward``.

    JAX lets a written transpose be batched and differentiated any number of times, in both modes,
    only as that of a linear solve of a square system. So the map rides in the operator
    ``(t, y) -> (0, forward(t))``, whose transpose is ``(t, y) -> (transpose(y), 0)``: both halves
    lie in one array, and XLA removes the packing.

    Args:
      forward: linear map from arrays like ``t`` to arrays of ``out_shape``, of the same dtype.
      transpose: its transpose.
      t: the argument.
      out_shape: shape of the result; as many axes as ``t``.
    """
    if varying(t) and not _varies_as_a_whole(forward, transpose, t, out_shape):
        return forward(t)
    box = tuple(map(_room, t.shape, out_shape))
    zero = np.zeros((), t.dtype)

    def put(a: Array, half: int) -> Array:
        config = [(0, whole - part, 0) for whole, part in zip(box, a.shape, strict=True)]
        return lax.pad(a[None], zero, [(half, 1 - half, 0), *config])

    def take(both: Array, half: int, shape: tuple[int, ...]) -> Array:
        starts = (half, *(0 for _ in shape))
        ends = (half + 1, *shape)
        return lax.slice(both, starts, ends).reshape(shape)

    solved = lax.custom_linear_solve(
        lambda both: both,
        put(t, 0),
        lambda _, both: put(forward(take(both, 0, t.shape)), 1),
        lambda _, both: put(transpose(take(both, 1, out_shape)), 0),
    )
    return take(jnp.asarray(solved), 1, out_shape)


def _varies_as_a_whole(
    forward: Callable[[Array], Array],
    transpose: Callable[[Array], Array],
    t: Array,
    out_shape: tuple[int, ...],
) -> bool:
    """Whether all that the maps close over varies over the mesh as ``t`` does.

    Constants do not. Inside ``jax.shard_map`` JAX (0.10.2 and 0.12) gives them the wrong types in a
    linear solve; without one it finds a transpose by itself.
    """
    y = jax.ShapeDtypeStruct(out_shape, t.dtype)
    consts = jax.make_jaxpr(forward)(t).consts + jax.make_jaxpr(transpose)(y).consts
    return all(varying(const) == varying(t) for const in consts)


def _room(a: int, b: int) -> int:
    """A length for both: the larger, or the sum of symbolic lengths that cannot be compared."""
    try:
        return max(a, b)
    except Exception:  # the name of the error is not JAX's everywhere
        return a + b
