"""Maximum and minimum filters."""

import functools
from collections.abc import Sequence
from typing import Any

from jax import Array
from jax.typing import ArrayLike

from .._errors import public
from .._geometry.arguments import Integers
from ..reductions import MAX, MIN
from ._arguments import Mode
from ._call import FilterArguments, call_filter, filter_op, single_axis
from ._extreme import extreme


@public
def maximum_filter(
    x: ArrayLike,
    size: Integers | None = None,
    footprint: Any = None,
    *,
    mode: Mode | Sequence[Mode] = "reflect",
    cval: float = 0.0,
    origin: Integers = 0,
    axes: Integers | None = None,
) -> Array:
    """Return the maximum over the neighbourhood of every element.

    ``y[i] = max over t of x[i + t]``, where ``t`` runs over a window of ``size`` taps, or over the
    True entries of ``footprint``; ``mode`` defines ``x`` outside its bounds.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      size: number of taps of the window, >= 1: an int, or one for each filtered axis.
      footprint: static boolean array with an axis for each filtered axis, instead of ``size``.
      mode: a mode, or one for each filtered axis: "reflect" (repeats the last element:
        d c b a | a b c d | d c b a), "mirror" (does not repeat it: d c b | a b c d | c b a),
        "nearest", "wrap" or "constant". "grid-mirror", "grid-wrap" and "grid-constant" are other
        names of "reflect", "wrap" and "constant".
      cval: the value outside ``x`` under "constant". For integers it is truncated towards zero and
        clipped to the range of the dtype.
      origin: number of elements by which the window is shifted towards lower indices: an int, or
        one for each filtered axis.
      axes: the filtered axes, an int or several; default all. The others are batch axes.
    Returns:
      Array of the shape and dtype of ``x``.
    Derivatives: forward and reverse, any order. The tangent follows one maximum of the window;
      second derivatives are zero. Reverse mode uses no scatter, so it is deterministic on every
      backend.
    Edge cases: NaN in a window gives NaN. The sign of a zero result is unspecified. An empty array
      gives an empty result.
    Raises:
      TypeError: an argument has the wrong type, or ``x`` is complex.
      ValueError: an argument is out of range, has the wrong length or does not fit ``x``.
    References: scipy.ndimage ``maximum_filter``; van Herk 1992 and Gil and Werman 1993 for cost
      that does not grow with the window.
    Example:
      >>> x = jnp.array([1.0, 5.0, 2.0, 3.0])
      >>> maximum_filter(x, 3)
      Array([5., 5., 5., 3.], dtype=float32)
      >>> maximum_filter(x, footprint=[True, False, True], mode="constant")
      Array([5., 2., 5., 2.], dtype=float32)
      >>> jax.grad(lambda x: maximum_filter(x, 3).sum())(x)
      Array([0., 3., 0., 1.], dtype=float32)
    """
    arguments = FilterArguments(size, footprint, mode, cval, origin, axes)
    return call_filter(_MAXIMUM, x, arguments)


@public
def minimum_filter(
    x: ArrayLike,
    size: Integers | None = None,
    footprint: Any = None,
    *,
    mode: Mode | Sequence[Mode] = "reflect",
    cval: float = 0.0,
    origin: Integers = 0,
    axes: Integers | None = None,
) -> Array:
    """Return the minimum over the neighbourhood of every element.

    ``y[i] = min over t of x[i + t]``, where ``t`` runs over a window of ``size`` taps, or over the
    True entries of ``footprint``; ``mode`` defines ``x`` outside its bounds.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      size, footprint, mode, cval, origin, axes: as in :func:`maximum_filter`.
    Returns:
      Array of the shape and dtype of ``x``.
    Derivatives: as :func:`maximum_filter`, following one minimum.
    Edge cases: NaN in a window gives NaN. The sign of a zero result is unspecified. An empty array
      gives an empty result.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`.
    References: scipy.ndimage ``minimum_filter``.
    Example:
      >>> minimum_filter(jnp.array([[3, 1, 2], [6, 5, 4]]), 3, axes=1)
      Array([[1, 1, 1],
             [5, 4, 4]], dtype=int32)
    """
    arguments = FilterArguments(size, footprint, mode, cval, origin, axes)
    return call_filter(_MINIMUM, x, arguments)


@public(axes="axis")
def maximum_filter1d(
    x: ArrayLike,
    size: int,
    axis: int = -1,
    *,
    mode: Mode = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Array:
    """Return the maximum over the neighbourhood of every element along one axis.

    ``y[i] = max over t of x[i + t]``, where ``t`` runs over ``size`` taps along ``axis``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      size: number of taps of the window, >= 1.
      axis: the filtered axis.
      mode, cval, origin: as in :func:`maximum_filter`.
    Returns:
      Array of the shape and dtype of ``x``.
    Derivatives: as :func:`maximum_filter`.
    Edge cases: as :func:`maximum_filter`.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`.
    References: scipy.ndimage ``maximum_filter1d``.
    Example:
      >>> maximum_filter1d(jnp.array([1, 5, 2, 3]), 3, origin=1)
      Array([5, 5, 5, 5], dtype=int32)
    """
    return call_filter(_MAXIMUM, x, single_axis(size, mode, cval, origin, axis))


@public(axes="axis")
def minimum_filter1d(
    x: ArrayLike,
    size: int,
    axis: int = -1,
    *,
    mode: Mode = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Array:
    """Return the minimum over the neighbourhood of every element along one axis.

    ``y[i] = min over t of x[i + t]``, where ``t`` runs over ``size`` taps along ``axis``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      size: number of taps of the window, >= 1.
      axis: the filtered axis.
      mode, cval, origin: as in :func:`maximum_filter`.
    Returns:
      Array of the shape and dtype of ``x``.
    Derivatives: as :func:`minimum_filter`.
    Edge cases: as :func:`minimum_filter`.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`.
    References: scipy.ndimage ``minimum_filter1d``.
    Example:
      >>> minimum_filter1d(jnp.array([4, 5, 2, 3]), 3)
      Array([4, 2, 2, 2], dtype=int32)
    """
    return call_filter(_MINIMUM, x, single_axis(size, mode, cval, origin, axis))


_MAXIMUM = filter_op("maximum_filter", functools.partial(extreme, reduction=MAX))
_MINIMUM = filter_op("minimum_filter", functools.partial(extreme, reduction=MIN))
