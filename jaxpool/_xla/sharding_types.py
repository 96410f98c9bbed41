"""Arrays whose sharding is part of their type.

For JAX 0.10 to 0.12. On a mesh with explicit axes (``jax.make_mesh``) JAX wants every operation to
say how its result is sharded. Inside an op the compiler decides, as it does for meshes with
automatic axes, and only the results say it: an axis of a result is sharded as that axis of the
array, where their lengths allow it.

Inside ``jax.shard_map`` a type says over which axes of the mesh an array varies. An op takes its
arrays as varying over the same axes.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax


def with_sharding_types(body: Callable[..., Any], *arrays: Any) -> Any:
    """Return ``body(*arrays)``, of results sharded like the first array if its type says how."""
    arrays = varying_alike(arrays)
    x = arrays[0]
    sharding = getattr(jax.typeof(x), "sharding", None)
    if sharding is None or jax.sharding.AxisType.Explicit not in sharding.mesh.axis_types:
        return body(*arrays)
    whole = jax.NamedSharding(sharding.mesh, jax.P())
    results = jax.eval_shape(jax.sharding.auto_axes(body, out_sharding=whole), *arrays)
    out = jax.tree.map(lambda y: _sharding_of(y.shape, x.shape, sharding), results)
    return jax.sharding.auto_axes(body, out_sharding=out)(*arrays)


def _sharding_of(shape: tuple[int, ...], given: tuple[int, ...], sharding: Any) -> Any:
    """The sharding of a result of ``shape``, made from an array of the shape ``given``."""
    spec = []
    for size, before, names in zip(shape, given, sharding.spec, strict=False):
        if size != before and len(shape) != len(given):
            break  # an axis was dropped, and the later ones moved
        names = names if isinstance(names, tuple) else (names,) if names else ()
        shards = math.prod(sharding.mesh.shape[name] for name in names)
        spec.append(names if names and size % shards == 0 else None)
    spec += [None] * (len(shape) - len(spec))
    return jax.NamedSharding(sharding.mesh, jax.P(*spec))


def varying_alike(arrays: Any) -> Any:
    """Return the arrays, all as varying over the axes over which any of them varies."""
    every = frozenset().union(*map(varying, jax.tree.leaves(arrays)))
    return jax.tree.map(lambda a: _varying_over(a, every - varying(a)), arrays)


def varying_zeros(shape: tuple[int, ...], dtype: Any, arrays: Any) -> Array:
    """Return zeros that vary over the axes over which any of the arrays varies."""
    return varying_alike((jnp.zeros(shape, dtype), arrays))[0]


def _varying_over(a: Array, axes: frozenset[str]) -> Array:
    return lax.pcast(a, tuple(sorted(axes)), to="varying") if axes else a


def varying(a: Any) -> frozenset[str]:
    """Return the axes of the mesh over which an array varies, inside ``jax.shard_map``."""
    return getattr(_manual_axes(a), "varying", frozenset())


def like(x: Array, shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    """Return the type of an array that varies over the mesh as ``x`` does."""
    return jax.ShapeDtypeStruct(shape, dtype, manual_axis_type=_manual_axes(x))


def _manual_axes(a: Any) -> Any:
    """What the type of an array says of manual axes; not all types do."""
    return getattr(jax.typeof(a), "mat", None)
