"""Linear maps with a written transpose, which every transformation of JAX keeps.

JAX lets a written transpose be batched, and differentiated any number of times in both modes, only
as that of a linear solve of a square system. So a map is the solution operator

    (t, y) -> (0, forward(t)),    with the transpose    (t, y) -> (transpose(y), 0).

Both halves lie in one array, and XLA removes the packing. A map of several arrays at once has as
many of them: XLA would not remove a stack.

A known result. Where ``forward(x)`` is known, for example as the maximum that ``x`` is read at, it
is written as

    value + zero(x),    zero(x) = 0,    d zero = forward(dx).

The packing marks the argument ``x`` by ones in the half of ``y``. Tangents are marked by zeros
there, since a constant has a tangent of zeros. ``zero`` is 0 where the mark is one, else
``forward``; XLA knows the mark, and neither computes ``forward(x)`` nor adds the zero. No rule of
``jax.custom_jvp`` is involved, so none can be lost (:mod:`jaxpool._xla.lost_rules`).

A bilinear map is linear in ``t`` for arrays that it closes over, and has derivatives by these too.
JAX finds those by the matrix of the system, so the matrix must hold the map: it is

    (t, y) -> (t, y - forward(t)),    with the inverse    (t, y) -> (t, y + forward(t)).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._xla.select import select
from .._xla.sharding_types import varying, varying_zeros

Map = Callable[[Any], Any]
"""From an array to an array, or from a tuple to a tuple of as many."""


def is_differentiable(x: Any) -> bool:
    """Whether arrays like those in ``x`` have derivatives: integers and bool have none."""
    return all(jnp.issubdtype(array.dtype, jnp.inexact) for array in jax.tree.leaves(x))


def linear_map(
    forward: Map,
    transpose: Map,
    t: Any,
    out_shape: tuple[int, ...],
    value: Any = None,
) -> Any:
    """Return ``forward(t)``, whose transpose JAX takes from ``transpose`` and not from ``forward``.

    Args:
      forward: linear map from arrays like ``t`` to arrays of ``out_shape``, of the same dtype.
      transpose: its transpose.
      t: the argument: an array, or a tuple of arrays of one shape and dtype.
      out_shape: shape of the result; as many axes as ``t``.
      value: ``forward(t)`` if it is known, also in another dtype, which the result then has.
        Derivatives of ``value`` itself are ignored.
    """
    shape = jax.tree.leaves(t)[0].shape
    known = value is not None
    if known and 0 in (*shape, *out_shape):
        return lax.stop_gradient(value)
    if _varies(t) and not _varies_as_a_whole(forward, transpose, t, out_shape):
        y = forward(t)
        y = jax.tree.map(tangent_only, y) if known else y
    else:
        y = _solved(forward, transpose, t, out_shape, known)
    if not known:
        return y
    value = lax.stop_gradient(value)
    return jax.tree.map(lambda a, b: a + b.astype(a.dtype), value, y)


def bilinear_map(forward: Map, transpose: Map, t: Array, out_shape: tuple[int, ...]) -> Array:
    """Return ``forward(t)`` as :func:`linear_map` does, differentiable in what the map closes over.

    JAX finds the derivatives by these arrays from ``forward`` itself.
    """
    if _varies(t) and not _varies_as_a_whole(forward, transpose, t, out_shape):
        return forward(t)
    box = _Box(t.shape, out_shape)

    def system(both: Array, sign: int) -> Array:
        x, y = box.take(both, 0), box.take(both, 1)
        return box.pair(x, y + sign * forward(x))

    def transposed(both: Array) -> Array:
        x, y = box.take(both, 0), box.take(both, 1)
        return box.pair(x + transpose(y), y)

    solved = lax.custom_linear_solve(
        lambda both: system(both, -1),
        box.put(t, 0),
        lambda _, both: system(both, 1),
        lambda _, both: transposed(both),
    )
    return box.take(jnp.asarray(solved), 1)


def tangent_only(x: Array) -> Array:
    """Return zeros whose tangent is that of ``x``."""
    return linear_map(_itself, _itself, x, x.shape, jnp.zeros_like(x))


def _itself(t: Array) -> Array:
    return t


class _Box(NamedTuple):
    """Arrays that hold an argument in their first half and a result in their second."""

    shape: tuple[int, ...]
    out_shape: tuple[int, ...]

    def put(self, arrays: Any, half: int, others: int = 0) -> Any:
        """Arrays in one half, and ``others`` everywhere else."""
        return jax.tree.map(
            lambda a: self._padded(a, (half, 1 - half), np.asarray(others, a.dtype)), arrays
        )

    def pair(self, x: Array, y: Array) -> Array:
        """An array in either half."""
        zero = np.zeros((), x.dtype)
        return lax.concatenate([self._padded(a, (0, 0), zero) for a in (x, y)], 0)

    def take(self, both: Any, half: int) -> Any:
        """The arrays of one half."""
        shape = (self.shape, self.out_shape)[half]
        starts, ends = (half, *(0 for _ in shape)), (half + 1, *shape)
        return jax.tree.map(lambda a: lax.slice(a, starts, ends).reshape(shape), both)

    def _padded(self, a: Array, halves: tuple[int, int], value: np.ndarray) -> Array:
        rooms = map(_room, self.shape, self.out_shape)
        config = [(0, room - part, 0) for room, part in zip(rooms, a.shape, strict=True)]
        return lax.pad(a[None], value, [(*halves, 0), *config])


def _solved(forward: Map, transpose: Map, t: Any, out_shape: tuple[int, ...], known: bool) -> Any:
    """Return ``forward(t)``, or 0 in its place where ``t`` is the argument of a known result."""
    box = _Box(jax.tree.leaves(t)[0].shape, out_shape)

    def mapped(both: Any) -> Any:
        y = forward(box.take(both, 0))
        return jax.tree.map(unmarked, box.take(both, 1), y) if known else y

    def unmarked(mark: Array, y: Array) -> Array:
        # Of every element: one number of a sharded array would have to be sent to all devices.
        return select(lax.eq(mark, np.ones((), mark.dtype)), np.zeros((), y.dtype), y)

    solved = lax.custom_linear_solve(
        lambda both: both,
        box.put(t, 0, others=int(known)),
        lambda _, both: box.put(mapped(both), 1),
        lambda _, both: box.put(transpose(box.take(both, 1)), 0),
    )
    return box.take(jax.tree.map(jnp.asarray, solved), 1)


def _varies(t: Any) -> bool:
    return any(varying(a) for a in jax.tree.leaves(t))


def _varies_as_a_whole(forward: Map, transpose: Map, t: Any, out_shape: tuple[int, ...]) -> bool:
    """Whether all that the maps close over varies over the mesh as ``t`` does.

    Constants do not. Inside ``jax.shard_map`` JAX (0.10.2 and 0.12) gives them the wrong types in a
    linear solve; without one it finds a transpose by itself.
    """
    y = jax.tree.map(lambda a: varying_zeros(out_shape, a.dtype, a), t)
    consts = jax.make_jaxpr(forward)(t).consts + jax.make_jaxpr(transpose)(y).consts
    over = varying(jax.tree.leaves(t)[0])
    return all(varying(const) == over for const in consts)


def _room(a: int, b: int) -> int:
    """A length for both: the larger, or the sum of symbolic lengths that cannot be compared."""
    try:
        return max(a, b)
    except Exception:  # the name of the error is not JAX's everywhere
        return a + b
