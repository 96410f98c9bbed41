"""Mean filters."""

from collections.abc import Sequence

import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .._errors import public
from .._geometry.arguments import Integers
from .._xla.materialize import materialize
from ..reductions import accumulator
from ._arguments import Extent, Mode, Neighborhood
from ._boundary import extend
from ._call import FilterArguments, call_filter, filter_op, single_axis
from ._mean import mean
from ._windows import crop, pad_symbolic_axes, window_geometry


@public
def uniform_filter(
    x: ArrayLike,
    size: Integers = 3,
    *,
    mode: Mode | Sequence[Mode] = "reflect",
    cval: float = 0.0,
    origin: Integers = 0,
    axes: Integers | None = None,
) -> Array:
    """Return the mean over the neighbourhood of every element.

    ``y[i] = (sum over t of x[i + t]) / count``, where ``t`` runs over a window of ``size`` taps.
    The axes are averaged sequentially, each mean rounded to the dtype of ``x``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      size, mode, cval, origin, axes: as in :func:`maximum_filter`; the axes are averaged in the
        order in which they are listed.
    Returns:
      Array of the shape and dtype of ``x``. Each mean along an axis is computed in higher
      precision than its dtype and rounded once: floats to nearest, integers towards zero.
      Low-precision floats are rounded only after the last axis.
    Derivatives: linear; forward and reverse, any order. Integers have no derivative.
    Edge cases: NaN and infinities propagate only to the windows that contain them (in scipy.ndimage
      also to later windows). If a sum overflows its dtype, the mean may be infinite. An empty array
      gives an empty result.
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
    arguments = FilterArguments(size, None, mode, cval, origin, axes)
    return call_filter(_UNIFORM, x, arguments)


@public(axes="axis")
def uniform_filter1d(
    x: ArrayLike,
    size: int,
    axis: int = -1,
    *,
    mode: Mode = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Array:
    """Return the mean over the neighbourhood of every element along one axis.

    ``y[i] = (sum over t of x[i + t]) / size``, where ``t`` runs over ``size`` taps along ``axis``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      size: number of taps of the window, >= 1.
      axis: the filtered axis.
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
    return call_filter(_UNIFORM, x, single_axis(size, mode, cval, origin, axis))


def _uniform(x: Array, neighborhood: Neighborhood) -> Array:
    if not x.size:
        return x
    y = x.astype(accumulator(x.dtype))
    for number, extent in enumerate(e for e in neighborhood.extents if e.size > 1):
        if number:  # or the extension below would recompute its ends
            y = materialize(y)
        y = _axis_mean(y, extent, neighborhood.cval)
    return y.astype(x.dtype)


def _axis_mean(x: Array, extent: Extent, cval: float) -> Array:
    extended = pad_symbolic_axes(extend(x, [extent], cval), [extent], np.zeros((), x.dtype))
    return crop(mean(extended, window_geometry(extended.shape, [extent])), [extent], x.shape)


_UNIFORM = filter_op("uniform_filter", _uniform)
