"""Arrays whose sharding is part of their type.

For JAX 0.10 to 0.12. On a mesh with explicit axes (``jax.make_mesh``), JAX requires every operation
to specify the sharding of its result. Inside an op the compiler decides, as for meshes with
automatic axes, and only the results of the op have a specified sharding: each axis of a result is
sharded like the same axis of the array, if its length allows this.

Inside ``jax.shard_map``, the type of an array contains the mesh axes over which the array varies.
An op casts its arrays to vary over the same axes.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax


def with_sharding_types(body: Callable[..., Any], *arrays: Any) -> Any:
    """Return ``body(*arrays)``, sharded like the first array if shardings are in types."""
    arrays = unify_varying_axes(arrays)
    x = arrays[0]
    types = [jax.typeof(a).sharding for a in jax.tree.leaves(arrays)]
    meshes = [sharding.mesh for sharding in types if _explicit_axes(sharding.mesh)]
    if not meshes:
        return body(*arrays)
    # Without jax.set_mesh, an array that is not sharded has no mesh in its type.
    mesh, axes = meshes[0], _explicit_axes(meshes[0])
    sharding = jax.NamedSharding(mesh, types[0].spec)
    # Inside jax.shard_map, other axes of the mesh are manual, and remain so.
    on_auto_axes = functools.partial(jax.sharding.auto_axes, body, axes=axes)
    replicated = jax.NamedSharding(mesh, jax.P())
    results = jax.eval_shape(on_auto_axes(out_sharding=replicated), *arrays)
    out = jax.tree.map(lambda y: _sharding_of(y.shape, x.shape, sharding), results)
    return on_auto_axes(out_sharding=out)(*arrays)


def _explicit_axes(mesh: Any) -> tuple[str, ...]:
    axes = zip(mesh.axis_names, mesh.axis_types, strict=True)
    return tuple(name for name, kind in axes if kind == jax.sharding.AxisType.Explicit)


def _sharding_of(shape: tuple[int, ...], operand_shape: tuple[int, ...], sharding: Any) -> Any:
    """Return the sharding of a result of ``shape`` of an operand with ``sharding``."""
    spec = []
    for size, operand_size, names in zip(shape, operand_shape, sharding.spec, strict=False):
        is_resized = size != operand_size
        if is_resized and len(shape) < len(operand_shape):
            break  # an axis was removed, and the later axes moved
        if is_resized and len(shape) > len(operand_shape):
            names = None  # an axis was added, maybe before this one
        names = names if isinstance(names, tuple) else (names,) if names else ()
        shards = math.prod(sharding.mesh.shape[name] for name in names)
        spec.append(names if names and size % shards == 0 else None)
    spec += [None] * (len(shape) - len(spec))
    return jax.NamedSharding(sharding.mesh, jax.P(*spec))


def squeeze(x: Array, positions: tuple[int, ...]) -> Array:
    """Remove axes of length 1, which may be sharded over an axis of the mesh that has one device.

    The derivative of ``jnp.squeeze`` would have another type than the array.
    """
    sharding = jax.typeof(x).sharding
    removed = {position % x.ndim for position in positions}
    names = tuple(sharding.spec)
    remaining = tuple(None if axis in removed else name for axis, name in enumerate(names))
    if remaining != names:
        x = jax.sharding.reshard(x, jax.NamedSharding(sharding.mesh, jax.P(*remaining)))
    return jnp.squeeze(x, positions)


def unify_varying_axes(arrays: Any) -> Any:
    """Return the arrays, each cast to vary over the mesh axes over which any of them varies."""
    every = frozenset().union(*map(varying_axes, jax.tree.leaves(arrays)))
    return jax.tree.map(lambda a: _varying_over(a, every - varying_axes(a)), arrays)


def varying_zeros(shape: tuple[int, ...], dtype: Any, arrays: Any) -> Array:
    """Return zeros that vary over the mesh axes over which any of the arrays varies."""
    return unify_varying_axes((jnp.zeros(shape, dtype), arrays))[0]


def _varying_over(a: Array, axes: frozenset[str]) -> Array:
    return lax.pcast(a, tuple(sorted(axes)), to="varying") if axes else a


def varying_axes(a: Any) -> frozenset[str]:
    """Return the mesh axes over which an array varies inside ``jax.shard_map``."""
    return getattr(_manual_axes(a), "varying", frozenset())


def like(x: Array, shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    """Return the type of an array that varies over the same mesh axes as ``x``."""
    return jax.ShapeDtypeStruct(shape, dtype, manual_axis_type=_manual_axes(x))


def _manual_axes(a: Any) -> Any:
    """Return the manual axes in the type of an array, or None if the type has none."""
    return getattr(jax.typeof(a), "mat", None)
