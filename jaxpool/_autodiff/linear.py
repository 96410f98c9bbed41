"""Linear maps with a written transpose that every JAX transformation preserves.

JAX can batch a written transpose, and differentiate it any number of times in both modes, only if
it is the transpose of a linear solve (``lax.custom_linear_solve``) of a square system. So a linear
map is expressed as the solution operator

    (t, y) -> (0, forward(t)),    with the transpose    (t, y) -> (transpose(y), 0).

One array contains both halves, ``t`` and ``y``, and XLA removes the packing. A map of several
arrays packs each of them separately, because XLA would not remove a stack.

Known results. If ``forward(x)`` is already known, for example as the maxima that a gather at the
argmax would return, the result is written as

    value + zero(x),    zero(x) = 0,    d zero = forward(dx).

The half of ``y`` then contains a mark: ones for the argument ``x``, and zeros for its tangents,
since the tangent of a constant is zero. ``zero`` returns 0 where the mark is one, and ``forward``
elsewhere. XLA knows the mark, so it neither computes ``forward(x)`` nor adds the zero. No rule of
``jax.custom_jvp`` is involved, so no rule can be lost (:mod:`jaxpool._xla.lost_rules`).

Bilinear maps. A bilinear map is linear in ``t`` and is also differentiable in the arrays that it
closes over. JAX derives these derivatives from the matrix of the system, so the matrix must contain
the map. The system is

    (t, y) -> (t, y - forward(t)),    with the inverse    (t, y) -> (t, y + forward(t)).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._xla.materialize import materialize
from .._xla.nan_constant import hide_infinities
from .._xla.select import select
from .._xla.sharding_types import varying_axes, varying_zeros

Map = Callable[[Any], Any]
"""A map from one array to one array, or from a tuple to a tuple of the same length."""


def is_differentiable(x: Any) -> bool:
    """Return whether all arrays in ``x`` have differentiable dtypes, not integers or bool."""
    return all(jnp.issubdtype(array.dtype, jnp.inexact) for array in jax.tree.leaves(x))


def linear_map(
    forward: Map,
    transpose: Map,
    t: Any,
    out_shape: tuple[int, ...],
    value: Any = None,
) -> Any:
    """Return ``forward(t)``, where JAX uses ``transpose`` and does not transpose ``forward``.

    Args:
      forward: linear map from arrays like ``t`` to arrays of ``out_shape``, of the same dtype.
      transpose: the transpose of ``forward``.
      t: the argument: an array, or a tuple of arrays of one shape and dtype.
      out_shape: shape of the result, with the same number of axes as ``t``.
      value: ``forward(t)`` if it is known. The result has the dtype of ``value``, which may differ
        from that of ``t``. Derivatives of ``value`` itself are ignored.
    """
    shape = jax.tree.leaves(t)[0].shape
    known = value is not None
    if known and 0 in (*shape, *out_shape):
        return lax.stop_gradient(value)
    if _is_solvable(forward, transpose, t, out_shape):
        y = _solve(forward, transpose, t, out_shape, known)
    else:
        y = forward(t)
        y = jax.tree.map(tangent_only, y) if known else y
    if not known:
        return y
    value = lax.stop_gradient(value)
    return jax.tree.map(lambda a, b: a + b.astype(a.dtype), value, y)


def bilinear_map(forward: Map, transpose: Map, t: Array, out_shape: tuple[int, ...]) -> Array:
    """Return ``forward(t)`` as :func:`linear_map` does, differentiable in closed-over arrays too.

    JAX derives the derivatives in the closed-over arrays from ``forward`` itself.
    """
    if not _is_solvable(forward, transpose, t, out_shape):
        return forward(t)
    packing = _Packing(t.shape, out_shape)

    def system(packed: Array, sign: int) -> Array:
        x, y = packing.unpack(packed, 0), packing.unpack(packed, 1)
        return packing.pack_both(x, y + sign * forward(x))

    def transposed_system(packed: Array) -> Array:
        x, y = packing.unpack(packed, 0), packing.unpack(packed, 1)
        return packing.pack_both(x + transpose(y), y)

    solution = lax.custom_linear_solve(
        lambda packed: system(packed, -1),
        packing.pack(t, 0),
        lambda _, packed: system(packed, 1),
        lambda _, packed: transposed_system(packed),
    )
    return packing.unpack(jnp.asarray(solution), 1)


def tangent_only(x: Array) -> Array:
    """Return zeros whose tangent is that of ``x``."""
    return linear_map(_identity_map, _identity_map, x, x.shape, jnp.zeros_like(x))


def relative(x: Array) -> Array:
    """Return ones with the derivatives of ``x / c``, where ``c`` is the value of ``x``.

    JAX's derivatives of a logarithm or a quotient contain powers of ``1 / x``, which may leave the
    range of the dtype. Those of a logarithm of ``relative(x)``, or of a quotient by it, do not.
    """
    return 1 + tangent_only(hide_infinities(x) / lax.stop_gradient(x))


def with_materialized_cotangent(x: Array) -> Array:
    """Return ``x``, whose cotangent CPU stores instead of recomputing it for every reader."""
    return linear_map(_identity_map, materialize, x, x.shape)


def _identity_map(t: Array) -> Array:
    return t


class _Packing(NamedTuple):
    """Arrays whose first half contains an argument and whose second half contains a result."""

    shape: tuple[int, ...]
    out_shape: tuple[int, ...]

    def pack(self, arrays: Any, half: int, others: int = 0) -> Any:
        """Return arrays packed into one half, with ``others`` everywhere else."""
        return jax.tree.map(
            lambda a: self._padded(a, (half, 1 - half), np.asarray(others, a.dtype)), arrays
        )

    def pack_both(self, x: Array, y: Array) -> Array:
        """Return one array with ``x`` in the first half and ``y`` in the second."""
        zero = np.zeros((), x.dtype)
        return lax.concatenate([self._padded(a, (0, 0), zero) for a in (x, y)], 0)

    def unpack(self, packed: Any, half: int) -> Any:
        """Return the arrays of one half."""
        shape = (self.shape, self.out_shape)[half]
        starts, ends = (half, *(0 for _ in shape)), (half + 1, *shape)
        return jax.tree.map(lambda a: lax.slice(a, starts, ends).reshape(shape), packed)

    def _padded(self, a: Array, halves: tuple[int, int], value: np.ndarray) -> Array:
        lengths = map(_common_length, self.shape, self.out_shape)
        config = [(0, length - size, 0) for length, size in zip(lengths, a.shape, strict=True)]
        return lax.pad(a[None], value, [(*halves, 0), *config])


def _solve(forward: Map, transpose: Map, t: Any, out_shape: tuple[int, ...], known: bool) -> Any:
    """Return ``forward(t)``; with a known value, return 0 for ``t`` and ``forward`` of tangents."""
    packing = _Packing(jax.tree.leaves(t)[0].shape, out_shape)

    def marked_forward(packed: Any) -> Any:
        y = forward(packing.unpack(packed, 0))
        return jax.tree.map(zero_where_marked, packing.unpack(packed, 1), y) if known else y

    def zero_where_marked(mark: Array, y: Array) -> Array:
        # Compare every element: a single mark of a sharded array would be sent to all devices.
        return select(lax.eq(mark, np.ones((), mark.dtype)), np.zeros((), y.dtype), y)

    solution = lax.custom_linear_solve(
        lambda packed: packed,
        packing.pack(t, 0, others=int(known)),
        lambda _, packed: packing.pack(marked_forward(packed), 1),
        lambda _, packed: packing.pack(transpose(packing.unpack(packed, 1)), 0),
    )
    return packing.unpack(jax.tree.map(jnp.asarray, solution), 1)


def _is_solvable(forward: Map, transpose: Map, t: Any, out_shape: tuple[int, ...]) -> bool:
    """Return whether JAX gives all arrays of a linear solve the right types.

    Where ``t`` varies over mesh axes, inside ``jax.shard_map``, all arrays that the maps close over
    must vary over the same axes. Constants vary over none, and JAX (0.10.2 and 0.12) gives them the
    wrong types in a linear solve. Without the solve, JAX derives a transpose from ``forward``.
    """
    mesh_axes, *others = map(varying_axes, jax.tree.leaves(t))
    if not any((mesh_axes, *others)):
        return True
    y = jax.tree.map(lambda a: varying_zeros(out_shape, a.dtype, a), t)
    consts = jax.make_jaxpr(forward)(t).consts + jax.make_jaxpr(transpose)(y).consts
    return all(varying_axes(const) == mesh_axes for const in consts)


def _common_length(a: int, b: int) -> int:
    """Return the larger length, or the sum of symbolic lengths that cannot be compared."""
    try:
        return max(a, b)
    except Exception:  # not every JAX has a public name for this error
        return a + b
