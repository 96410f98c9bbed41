"""Functions of pools and arrays that the benchmarks share."""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import jaxpool
from jaxpool._lowerings.implementations import reduce_window
from jaxpool.testing import NamedCase


def geometry_of(case: NamedCase, layout: str = "NHWC") -> jaxpool.Geometry:
    """Return the geometry of a case over an array in a layout."""
    settings = {k: v for k, v in case.settings.items() if k != "count_include_pad"}
    axes = jaxpool.geometry(case.shape[1:-1], **settings).axes
    last = -1 if layout == "NHWC" else 0
    return jaxpool.Geometry(axes, tuple(range(last - len(axes), last)))


def reduce_window_settings(case: NamedCase, layout: str = "NHWC") -> dict[str, Any]:
    """Return the settings of ``lax.reduce_window`` for a case over an array in a layout."""
    return reduce_window.lax_settings(geometry_of(case, layout), len(case.shape))


def with_gradient(pool: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a function of an array and a cotangent: the values, and the cotangent of the array."""

    def both(x: Any, cotangent: Any) -> Any:
        y, pullback = jax.vjp(pool, x)
        return y, pullback(cotangent)[0]

    return both


def distinct_numbers(shape: tuple[int, ...]) -> np.ndarray:
    """Return an array without ties, for which systems have different rules."""
    numbers = np.random.default_rng(0).permutation(math.prod(shape))
    return numbers.astype(np.float32).reshape(shape)
