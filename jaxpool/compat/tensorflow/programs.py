"""The compiled programs of TensorFlow's functions."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from ..._numerics import indices
from ..._numerics.divisors import counts
from ...ops._dispatch import Configuration
from ...ops._op import Op, for_symbolic_sizes
from ...ops.average import sum_pool
from ...ops.max import max_pool, max_pool_with_argmax
from .._compiled import compiled
from .._scans import max_of_numbers, max_with_offsets_from_first, over_windows


@compiled("config")
def max_values(x: Array, *, config: Configuration) -> Array:
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return for_symbolic_sizes(_MAX_WITHOUT_NAN, config, {})(x, None)
    return over_windows(max_pool, x, config)


@compiled("config", "dtype", "space")
def max_values_with_indices(
    x: Array, *, config: Configuration, dtype: np.dtype | None, space: int
) -> tuple[Array, Array]:
    options = {"index_space": space, "index_dtype": dtype}
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return for_symbolic_sizes(_MAX_FROM_FIRST, config, {"space": options})(x, None)
    return over_windows(max_pool_with_argmax, x, config, **options)


@compiled("config", "low", "high")
def quantised_average(x: Array, *, config: Configuration, low: int, high: int) -> Array:
    return for_symbolic_sizes(_QUANTISED_AVERAGE, config, {"low": low, "high": high})(x, None)


# --- ops ------------------------------------------------------------------------------------------


def _quantised_average(
    x: Array, where: Any, *, config: Configuration, low: int, high: int
) -> Array:
    total = over_windows(sum_pool, x.astype(jnp.int32), config, where=where).astype(jnp.int32)
    count = counts(config.geometry(x.shape), where, include_pad=False)
    count = count if where is None else jnp.maximum(count, 1)
    count = jnp.broadcast_to(jnp.asarray(count, total.dtype), total.shape)
    magnitude = (jnp.abs(total) + count // 2) // count
    return jnp.clip(jnp.sign(total) * magnitude, low, high).astype(x.dtype)


_MAX_WITHOUT_NAN = Op("max_pool", max_of_numbers)
_MAX_FROM_FIRST = Op("max_pool_with_argmax", max_with_offsets_from_first, convert=indices.convert)
_QUANTISED_AVERAGE = Op("tflite_average_pool_2d", _quantised_average)
