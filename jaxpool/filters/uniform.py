"""Mean filters."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .._errors import public
from .._xla.materialize import materialize
from ..reductions import accumulator
from ._arguments import Extent, Neighborhood
from ._boundary import extend
from ._call import call_filter, filter_op
from ._mean import mean
from ._windows import cut, rectangle, with_room


@public
def uniform_filter(
    x: ArrayLike,
    size: int | Sequence[int] = 3,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Array:
    """Mean over the neighbourhood of every element.

    ``y[i] = (sum over t of x[i + t]) / count``, ``t`` running over a window of ``size`` taps; along
    one axis after the other, each rounded to the dtype of ``x``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      size, mode, cval, origin, axes: as in :func:`maximum_filter`; the axes are taken in the order
        in which they are named.
    Returns:
      Array of the shape and dtype of ``x``. Along each axis a mean is computed to more digits than
      its dtype has and rounded once: of floats to nearest, of integers towards zero. Narrow floats
      are rounded after the last axis alone.
    Derivatives: linear; forward and reverse, any order. Integers have none.
    Edge cases: NaN and infinities propagate in the windows that hold them (in scipy.ndimage also to
      those after). Where a sum exceeds the range of the dtype, the mean may be infinite. An empty
      array gives an empty result.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`.
    References: scipy.ndimage ``uniform_filter``; Knuth, The Art of Computer Programming, 4.2.2, for
      the sums.
    Example:
      >>> uniform_filter(jnp.array([1.0, 5.0, 3.0, 1.0]), 3)
      Array([2.3333333, 3.       , 3.       , 1.6666666], dtype=float32)
      >>> uniform_filter(jnp.array([1, 5, 3, 1]), 3, mode="constant")
      Array([2, 3, 3, 1], dtype=int32)
    """
    return call_filter(_UNIFORM, x, size, None, mode, cval, origin, axes)


@public
def uniform_filter1d(
    x: ArrayLike,
    size: int,
    axis: int = -1,
    *,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Array:
    """Mean over the neighbourhood of every element along one axis.

    ``y[i] = (sum over t of x[i + t]) / size``, ``t`` running over a window of ``size`` taps along
    ``axis``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      size: taps of the window, >= 1.
      axis: the axis that is filtered.
      mode, cval, origin: as in :func:`maximum_filter`.
    Returns:
      Array of the shape and dtype of ``x``, rounded as in :func:`uniform_filter`.
    Derivatives: as :func:`uniform_filter`.
    Edge cases: as :func:`uniform_filter`.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`.
    References: scipy.ndimage ``uniform_filter1d``.
    Example:
      >>> uniform_filter1d(jnp.array([[1.0, 2.0], [3.0, 6.0]]), 2, axis=0, mode="wrap")
      Array([[2., 4.],
             [2., 4.]], dtype=float32)
    """
    return call_filter(_UNIFORM, x, size, None, mode, cval, origin, axis)


def _uniform(x: Array, hood: Neighborhood, own: Any, other: Any) -> Array:
    if not x.size:
        return x
    y = x.astype(accumulator(x.dtype)) if jnp.issubdtype(x.dtype, jnp.floating) else x
    for number, extent in enumerate(e for e in hood.extents if e.size > 1):
        if number:  # or each of its ends would be computed once more, to extend it
            (y,) = materialize(y)
        y = _along(y, extent, hood.cval)
    return y.astype(x.dtype)


def _along(x: Array, extent: Extent, cval: float) -> Array:
    extended = with_room(extend(x, [extent], cval), [extent], np.zeros((), x.dtype))
    return cut(mean(extended, rectangle(extended.shape, [extent])), [extent], x.shape)


_UNIFORM = filter_op("uniform_filter", _uniform)
