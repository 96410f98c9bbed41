"""Extension of an axis past its ends, by a constant or by ``_lowerings.parts.borders``."""

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array

from .._errors import message
from .._lowerings.parts.axis_slicing import pad
from .._lowerings.parts.borders import extend_axis
from ._arguments import Extent


def extend(x: Array, extents: Sequence[Extent], cval: float) -> Array:
    """Return ``x`` extended by ``low`` and ``high`` elements along the axis of every extent."""
    for extent in extents:
        position, low, high = extent.position, extent.low, extent.high
        if extent.size == 1:
            continue
        if extent.mode == "constant":
            x = pad(x, position, low, high, _cast_cval(cval, x.dtype))
        else:
            x = extend_axis(x, position, low, high, extent.mode)
    return x


def _cast_cval(cval: float, dtype: np.dtype) -> np.ndarray:
    """Return ``cval`` as ``dtype``; for integers, truncated towards zero and clipped to range."""
    if jnp.issubdtype(dtype, jnp.floating):
        with np.errstate(over="ignore"):
            return np.asarray(float(cval), dtype)
    if dtype == np.bool_:
        return np.asarray(bool(cval))
    if math.isnan(cval):
        raise ValueError(
            message(
                "$cval = nan is not an integer.",
                f"The array has dtype {dtype}, which has no NaN.",
                "Give a number, or convert the array first.",
            )
        )
    limits = jnp.iinfo(dtype)
    in_range = limits.min <= cval <= limits.max
    return np.asarray(int(cval) if in_range else limits.max if cval > 0 else limits.min, dtype)
