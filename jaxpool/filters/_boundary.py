"""How an axis goes on past its ends: a constant, or a border of ``_lowerings.parts.borders``."""

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array

from .._errors import message
from .._lowerings.parts.axis_slicing import pad
from .._lowerings.parts.borders import extended
from ._arguments import Extent


def extend(x: Array, extents: Sequence[Extent], cval: float) -> Array:
    """Return ``x``, longer on each axis by the neighbourhoods of its first and last element."""
    for extent in extents:
        if extent.size > 1:
            x = _extended(x, extent, cval)
    return x


def _extended(x: Array, extent: Extent, cval: float) -> Array:
    position, low, high = extent.position, extent.low, extent.high
    if extent.mode == "constant":
        return pad(x, position, low, high, value_of(cval, np.dtype(x.dtype)))
    return extended(x, position, low, high, extent.mode)


def value_of(cval: float, dtype: np.dtype) -> np.ndarray:
    """Return ``cval`` in a dtype; of integers, cut towards zero and to their range."""
    if jnp.issubdtype(dtype, jnp.floating):
        with np.errstate(over="ignore"):
            return np.asarray(cval, dtype)
    if dtype == np.bool_:
        return np.asarray(bool(cval))
    if math.isnan(cval):
        raise ValueError(
            message(
                "$cval = nan is no integer.",
                f"The array has dtype {dtype}, which has no NaN.",
                "Give a number, or convert the array first.",
            )
        )
    limits = jnp.iinfo(dtype)
    inside = limits.min <= cval <= limits.max
    return np.asarray(int(cval) if inside else limits.max if cval > 0 else limits.min, dtype)
