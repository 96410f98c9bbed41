"""Arrays whose sharding is part of their type: on a mesh with explicit axes (``jax.make_mesh``).

There JAX wants every operation to say how its result is sharded. Inside an op the compiler decides,
as it does for meshes with automatic axes, and only the results say it: an axis of a result is
sharded as that axis of the array, where their lengths allow it.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
from jax import Array


def with_explicit_axes(body: Callable[..., Any], x: Array, *arrays: Any) -> Any:
    """Return ``body(x, *arrays)``, of results sharded like ``x`` if its type says how."""
    sharding = getattr(jax.typeof(x), "sharding", None)
    if sharding is None or jax.sharding.AxisType.Explicit not in sharding.mesh.axis_types:
        return body(x, *arrays)
    plain = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (x, *arrays))
    results = jax.eval_shape(body, *plain)
    out = jax.tree.map(lambda y: _sharding_of(y.shape, x.shape, sharding), results)
    return jax.sharding.auto_axes(body, out_sharding=out)(x, *arrays)


def _sharding_of(shape: tuple[int, ...], given: tuple[int, ...], sharding: Any) -> Any:
    """The sharding of a result of ``shape``, made from an array of the shape ``given``."""
    spec = []
    for size, before, names in zip(shape, given, sharding.spec, strict=False):
        if size != before and len(shape) != len(given):
            break  # an axis was dropped, and the later ones have other places
        names = names if isinstance(names, tuple) else (names,) if names else ()
        shards = math.prod(sharding.mesh.shape[name] for name in names)
        spec.append(names if names and size % shards == 0 else None)
    spec += [None] * (len(shape) - len(spec))
    return jax.NamedSharding(sharding.mesh, jax.P(*spec))
