"""The compiled programs of TensorFlow's functions."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..._numerics import indices
from ..._numerics.divisors import counts
from ..._xla.sharding_types import with_sharding_types
from ...ops._dispatch import Configuration
from ...ops._op import Op, for_symbolic_sizes
from ...ops.average import sum_pool
from ...ops.max import max_pool, max_pool_with_argmax
from .._scans import max_of_numbers, max_with_offsets_from_first, over_windows


@functools.partial(jax.jit, static_argnums=1)
def max_values(x: Array, config: Configuration) -> Array:
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return _run(_MAX_WITHOUT_NAN, config, {}, x)
    return over_windows(max_pool, x, config)


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def max_values_with_indices(
    x: Array, config: Configuration, dtype: np.dtype | None, space: int
) -> tuple[Array, Array]:
    options = {"index_space": space, "index_dtype": dtype}
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return _run(_MAX_FROM_FIRST, config, {"space": options}, x)
    return over_windows(max_pool_with_argmax, x, config, **options)


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def quantised_average(x: Array, config: Configuration, low: int, high: int) -> Array:
    return _run(_QUANTISED_AVERAGE, config, {"low": low, "high": high}, x)


def _run(op: Op, config: Configuration, options: dict[str, Any], x: Array) -> Any:
    """Return the result of ``op``, also for sizes that are symbolic and shardings in types."""
    return with_sharding_types(for_symbolic_sizes(op, config, options), x, None)


# --- ops ------------------------------------------------------------------------------------------


def _quantised_average(
    x: Array, where: Any, *, config: Configuration, low: int, high: int
) -> Array:
    total = over_windows(sum_pool, x.astype(jnp.int32), config, where=where)
    count = counts(config.geometry(x.shape), where, include_pad=False)
    count = count if where is None else jnp.maximum(count, 1)
    count = jnp.broadcast_to(jnp.asarray(count, total.dtype), total.shape)
    magnitude = (jnp.abs(total) + count // 2) // count
    return jnp.clip(jnp.sign(total) * magnitude, low, high).astype(x.dtype)


_MAX_WITHOUT_NAN = Op("max_pool", max_of_numbers)
_MAX_FROM_FIRST = Op("max_pool_with_argmax", max_with_offsets_from_first, convert=indices.convert)
_QUANTISED_AVERAGE = Op("tflite_average_pool_2d", _quantised_average)
