"""Routing of calls of a patched library to jaxpool or, if jaxpool rejects them, to the library."""

import functools
import importlib
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..compat import equinox, flax, haiku, keras
from .swap import Function

_REJECTED = (TypeError, ValueError, NotImplementedError)

ORIGINALS: dict[str, Function] = {}
"""The original functions of the libraries by full name, for the calls that jaxpool rejects."""


def run(name: str, *arguments: Any) -> Any:
    """Call the pool of jaxpool or, if it rejects the arguments, the original function."""
    try:
        return _REPLACEMENTS[name](*arguments)
    except _REJECTED:
        return ORIGINALS[name](*arguments)


# --- pools of jaxpool, with the interface of the libraries ----------------------------------------


def _reduction_pool(inputs: Any, init: Any, reduce_fn: Any, *window: Any) -> Any:
    """Pool by maximum, minimum or sum; reject other functions, which the library then runs."""
    if reduce_fn not in (lax.max, lax.min, lax.add, jnp.maximum, jnp.minimum, jnp.add):
        raise NotImplementedError("a user-defined reduction")
    return flax.pool(inputs, init, reduce_fn, *window)


_EXTREMES = {lax.max: (-math.inf, equinox.layer_max), lax.min: (math.inf, equinox.layer_min)}


def _extreme_layer(layer: Any, x: Any) -> Any:
    """Run Equinox's general ``Pool`` if its operation is a maximum or a minimum."""
    init, function = _EXTREMES.get(layer.operation, (None, None))
    if function is None or not isinstance(layer.init, float) or layer.init != init:
        raise NotImplementedError("a user-defined operation")
    return function(layer, x)


def _adaptive_layer(layer: Any, x: Any) -> Any:
    """Run Equinox's general ``AdaptivePool`` if its operation is an average or a maximum."""
    for operation, function in _ADAPTIVE_POOLS:
        if layer.operation is operation:
            return function(layer, x)
    raise NotImplementedError("a user-defined operation")


_ADAPTIVE_POOLS = (jnp.mean, equinox.layer_adaptive_avg), (jnp.max, equinox.layer_adaptive_max)


def _keras_pool(function: Function, inputs: Any, *arguments: Any) -> Any:
    """Pool an array; reject the symbolic tensors from which Keras builds models."""
    if not isinstance(inputs, Array | np.ndarray):
        raise NotImplementedError("no array")
    *settings, data_format = arguments
    config = importlib.import_module("keras.config")
    return function(inputs, *settings, data_format or config.image_data_format())


AVERAGES = tuple(f"equinox.nn.AvgPool{count}d" for count in (1, 2, 3))

_REPLACEMENTS: dict[str, Function] = {
    "flax.linen.pooling.max_pool": flax.max_pool,
    "flax.linen.pooling.min_pool": flax.min_pool,
    "flax.linen.pooling.avg_pool": flax.avg_pool,
    "flax.linen.pooling.pool": _reduction_pool,
    "haiku.max_pool": haiku.max_pool,
    "haiku.avg_pool": haiku.avg_pool,
    "equinox.nn.Pool": _extreme_layer,
    **dict.fromkeys(AVERAGES, equinox.layer_avg),
    "equinox.nn.AdaptivePool": _adaptive_layer,
    **{f"keras.ops.{n}": functools.partial(_keras_pool, getattr(keras, n)) for n in keras.__all__},
}
