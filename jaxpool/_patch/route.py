"""How a call of a patched library finds its pool: jaxpool's, or the library's own."""

import functools
import importlib
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..compat import equinox, flax, haiku, keras
from .swap import Function

_REFUSED = (TypeError, ValueError, NotImplementedError)

THEIRS: dict[str, Function] = {}
"""The libraries' own functions by full name, kept for the calls that jaxpool refuses."""


def run(name: str, *arguments: Any) -> Any:
    """Pool by jaxpool or, where it refuses, by the library's own code."""
    try:
        return _OURS[name](*arguments)
    except _REFUSED:
        return THEIRS[name](*arguments)


# --- pools of jaxpool, in the words of the libraries ----------------------------------------------


def _known_pool(inputs: Any, init: Any, reduce_fn: Any, *window: Any) -> Any:
    """Maxima, minima and sums; a function of one's own stays with the library."""
    if reduce_fn not in (lax.max, lax.min, lax.add, jnp.maximum, jnp.minimum, jnp.add):
        raise NotImplementedError("a reduction of the caller's own")
    return flax.pool(inputs, init, reduce_fn, *window)


_EXTREMES = {lax.max: (-math.inf, equinox.max_pool), lax.min: (math.inf, equinox.min_pool)}


def _extreme_layer(layer: Any, x: Any) -> Any:
    """Equinox's general ``Pool`` that is a maximum or a minimum."""
    init, function = _EXTREMES.get(layer.operation, (None, None))
    if function is None or not isinstance(layer.init, float) or layer.init != init:
        raise NotImplementedError("an operation of the caller's own")
    return function(x, layer)


def _average_layer(layer: Any, x: Any) -> Any:
    return equinox.avg_pool(x, layer)


def _adaptive_layer(layer: Any, x: Any) -> Any:
    """Equinox's general ``AdaptivePool`` that is an average or a maximum."""
    for operation, function in _PIECES:
        if layer.operation is operation:
            return function(x, layer)
    raise NotImplementedError("an operation of the caller's own")


_PIECES = (jnp.mean, equinox.adaptive_avg_pool), (jnp.max, equinox.adaptive_max_pool)


def _of_keras(function: Function, inputs: Any, *arguments: Any) -> Any:
    """A function of arrays; symbolic tensors, from which Keras builds models, are the library's."""
    if not isinstance(inputs, Array | np.ndarray):
        raise NotImplementedError("no array")
    *settings, data_format = arguments
    config = importlib.import_module("keras.config")
    return function(inputs, *settings, data_format or config.image_data_format())


AVERAGES = tuple(f"equinox.nn.AvgPool{count}d" for count in (1, 2, 3))

_OURS: dict[str, Function] = {
    "flax.linen.pooling.max_pool": flax.max_pool,
    "flax.linen.pooling.min_pool": flax.min_pool,
    "flax.linen.pooling.avg_pool": flax.avg_pool,
    "flax.linen.pooling.pool": _known_pool,
    "haiku.max_pool": haiku.max_pool,
    "haiku.avg_pool": haiku.avg_pool,
    "equinox.nn.Pool": _extreme_layer,
    **dict.fromkeys(AVERAGES, _average_layer),
    "equinox.nn.AdaptivePool": _adaptive_layer,
    **{f"keras.ops.{n}": functools.partial(_of_keras, getattr(keras, n)) for n in keras.__all__},
}
