"""Median, percentile and rank filters.

Rectangles are windows of pooling. In footprints, let ``t(i)`` be the first tap of the
window of ``i`` that has the value of the rank. Where it is locally constant, ``y[i] = x[i + t(i)]``
and ``dy[i] = dx[i + t(i)]``. Few taps are sorted by comparators, element by element of whole
arrays; of many the element is found by its bits, see ``_lowerings.ranks.radix_select``.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .._autodiff.rules import selection
from .._errors import message, public
from .._geometry.arguments import integer
from .._lowerings import tuning
from .._lowerings.parts.argreduce import same
from .._lowerings.parts.every_tap import Fold
from .._lowerings.parts.float_order import from_sort_keys, sort_keys
from .._lowerings.ranks import radix_select
from .._lowerings.ranks.sorting_network import sorted_lanes
from .._xla.materialize import materialize
from ..ops import rank as rank_
from ..reductions import MAX, MIN, accumulator
from ._arguments import LARGEST_ORIGIN, Neighborhood
from ._boundary import extend
from ._call import call_filter, filter_op
from ._extreme import extreme
from ._read import read
from ._static import number
from ._windows import Taps, cut, offsets_of, rectangle, with_room


@public
def rank_filter(
    x: ArrayLike,
    rank: int,
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Array:
    """The element of a given rank in the neighbourhood of every element.

    ``y[i]`` is entry number ``rank`` of the elements ``x[i + t]`` in ascending order, ``t`` running
    over a window of ``size`` taps, or over the places where ``footprint`` is True.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      rank: from 0 for the smallest, or from -1 for the largest downwards.
      size, footprint, mode, cval, origin, axes: as in :func:`maximum_filter`.
    Returns:
      Array of the shape and dtype of ``x``.
    Derivatives: forward and reverse, any order. The tangent follows the first tap that holds the
      value, of the lowest and the highest rank over a footprint any one; second derivatives are
      zero.
    Edge cases: NaN in a window gives NaN, at every rank. An empty array gives an empty result.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`; ValueError also if ``rank`` is out of range.
    References: scipy.ndimage ``rank_filter``.
    Example:
      >>> rank_filter(jnp.array([5, 1, 4, 2]), 1, 3)
      Array([5, 4, 2, 2], dtype=int32)
    """
    own = "rank", integer("rank", rank, -LARGEST_ORIGIN)
    return call_filter(_RANK, x, size, footprint, mode, cval, origin, axes, *own)


@public
def median_filter(
    x: ArrayLike,
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Array:
    """Median of the neighbourhood of every element.

    ``y[i] = median over t of x[i + t]``; of an even number of elements the larger of the middle
    two, so that every result is an element of ``x`` (:func:`jaxpool.median_pool` takes their mean).

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      size, footprint, mode, cval, origin, axes: as in :func:`maximum_filter`.
    Returns:
      Array of the shape and dtype of ``x``.
    Derivatives: as :func:`rank_filter`.
    Edge cases: as :func:`rank_filter`.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`.
    References: Tukey 1977, "Exploratory data analysis", chapter 7; scipy.ndimage ``median_filter``.
    Example:
      >>> median_filter(jnp.array([1.0, 9.0, 2.0, 3.0]), 3)
      Array([1., 2., 3., 3.], dtype=float32)
    """
    return call_filter(_RANK, x, size, footprint, mode, cval, origin, axes, "percentile", 50)


@public
def percentile_filter(
    x: ArrayLike,
    percentile: float,
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Array:
    """A percentile of the neighbourhood of every element, without interpolation.

    ``y[i]`` is entry number ``floor(count * percentile / 100)`` of the ``count`` elements
    ``x[i + t]`` in ascending order, at 100 the last.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      percentile: a number from 0 to 100; a negative one counts down from 100.
      size, footprint, mode, cval, origin, axes: as in :func:`maximum_filter`.
    Returns:
      Array of the shape and dtype of ``x``.
    Derivatives: as :func:`rank_filter`.
    Edge cases: as :func:`rank_filter`.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`; ValueError also if ``percentile`` is out of
        range.
    References: scipy.ndimage ``percentile_filter``.
    Example:
      >>> percentile_filter(jnp.array([1.0, 9.0, 2.0, 3.0, 4.0]), 25, 5, mode="nearest")
      Array([1., 1., 2., 3., 3.], dtype=float32)
    """
    own = "percentile", _percentile(percentile)
    return call_filter(_RANK, x, size, footprint, mode, cval, origin, axes, *own)


def _percentile(value: Any) -> float:
    given = number("percentile", value)
    percentile = given + 100.0 if given < 0 else given
    if 0 <= percentile <= 100:
        return percentile
    raise ValueError(
        message(
            f"$percentile = {given} is out of range.",
            "Percentiles go from 0 for the smallest element to 100 for the largest.",
            "Give one of them, or a negative number that counts down from 100.",
        )
    )


def _rank(x: Array, hood: Neighborhood, own: tuple[str, Any], other: Any) -> Array:
    kind, value = own
    taps = int(hood.mask.sum())
    if kind == "percentile":
        value = min(int(float(taps) * value / 100.0), taps - 1)
    if not -taps <= value < taps:
        raise ValueError(
            message(
                f"$rank = {value} is out of range.",
                f"A window has {taps} elements, so ranks are {-taps} to {taps - 1}.",
                "Give 0 for the smallest element, -1 for the largest.",
            )
        )
    return _ranked(x, hood, value % taps)


def _ranked(x: Array, hood: Neighborhood, rank: int) -> Array:
    """Return the element number ``rank``, from 0 up, of every neighbourhood; differentiable."""
    taps = Taps(hood.extents, offsets_of(hood), x.shape)
    if rank in (0, len(taps) - 1):
        return extreme(x, hood, MIN if rank == 0 else MAX)
    if not x.size:
        return x
    extended = extend(x, hood.extents, hood.cval)
    if hood.footprint is None:
        long = [extent for extent in hood.extents if extent.size > 1]
        extended = with_room(extended, long, np.zeros((), x.dtype))
        y = rank_.ranked(extended, None, rectangle(extended.shape, long), rank)
        return cut(y, long, x.shape)
    # XLA:CPU would widen and round narrow floats at every comparison.
    wide = extended.astype(accumulator(np.dtype(x.dtype)))
    return _of_footprint(wide, taps, rank).astype(x.dtype)


def _of_footprint(extended: Array, taps: Taps, rank: int) -> Array:
    def reduce(extended: Array) -> Array:
        if len(taps) <= tuning.MOST_IN_NETWORK:
            return sorted_lanes(list(taps.each(extended)))[rank]
        places, with_nan = jnp.full(taps.shape, rank), jnp.issubdtype(extended.dtype, jnp.floating)
        key = radix_select.kth(sort_keys(extended), with_nan, taps.reads(), places)
        return from_sort_keys(key, extended.dtype)

    def argreduce(extended: Array) -> tuple[Array, Array]:
        (extended,) = materialize(extended)  # XLA could compute it twice, and round it twice
        (y,) = materialize(reduce(extended))
        return y, _first_equal(extended, y, taps)

    return selection(reduce, argreduce, lambda x, first, y: read(x, first, taps, y), extended)


def _first_equal(extended: Array, y: Array, taps: Taps) -> Array:
    last = np.int32(len(taps))

    def if_equal(number: Any, element: Array, y: Array) -> Array:
        return jnp.where(same(element, y), number, last)

    return taps.reduce(Fold(if_equal, last, lax.min), (extended,), (y,))


_RANK = filter_op("rank_filter", _rank)
