"""Median, percentile and rank filters.

Rectangles are pooling windows. For a footprint, let ``t(i)`` be the first tap of window ``i`` whose
value equals the result. Where ``t(i)`` is locally constant, ``y[i] = x[i + t(i)]`` and
``dy[i] = dx[i + t(i)]``. A few taps are sorted by a network of elementwise comparators. For more
taps the result is found by its bits, see ``_lowerings.ranks.radix_select``.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .._autodiff.rules import selection
from .._errors import message, public
from .._geometry.arguments import Integers, integer
from .._lowerings import tuning
from .._lowerings.parts.argreduce import equal_or_both_nan
from .._lowerings.parts.every_tap import Fold
from .._lowerings.parts.float_order import from_sort_keys, sort_keys
from .._lowerings.ranks import radix_select
from .._lowerings.ranks.sorting_network import sorted_lanes
from .._xla.materialize import materialize
from ..ops import rank as rank_
from ..reductions import MAX, MIN, accumulator
from ._arguments import LARGEST_ORIGIN, Mode, Neighborhood
from ._boundary import extend
from ._call import FilterArguments, call_filter, filter_op
from ._extreme import extreme
from ._gather import gather_taps
from ._static import number
from ._windows import Taps, crop, pad_symbolic_axes, window_geometry


@public
def rank_filter(
    x: ArrayLike,
    rank: int,
    size: Integers | None = None,
    footprint: Any = None,
    *,
    mode: Mode | Sequence[Mode] = "reflect",
    cval: float = 0.0,
    origin: Integers = 0,
    axes: Integers | None = None,
) -> Array:
    """Return the element of a given rank in the neighbourhood of every element.

    ``y[i]`` is entry number ``rank`` of the elements ``x[i + t]`` in ascending order, where ``t``
    runs over a window of ``size`` taps, or over the True entries of ``footprint``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      rank: counts up from 0 for the smallest element, or down from -1 for the largest.
      size, footprint, mode, cval, origin, axes: as in :func:`maximum_filter`.
    Returns:
      Array of the shape and dtype of ``x``.
    Derivatives: forward and reverse, any order. The tangent follows the first tap with the value
      of the result (any such tap for the lowest and highest rank over a footprint); second
      derivatives are zero.
    Edge cases: NaN in a window gives NaN, at every rank. An empty array gives an empty result.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`; ValueError also if ``rank`` is out of range.
    References: scipy.ndimage ``rank_filter``.
    Example:
      >>> rank_filter(jnp.array([5, 1, 4, 2]), 1, 3)
      Array([5, 4, 2, 2], dtype=int32)
    """
    options = "rank", integer("rank", rank, -LARGEST_ORIGIN)
    arguments = FilterArguments(size, footprint, mode, cval, origin, axes)
    return call_filter(_RANK, x, arguments, *options)


@public
def median_filter(
    x: ArrayLike,
    size: Integers | None = None,
    footprint: Any = None,
    *,
    mode: Mode | Sequence[Mode] = "reflect",
    cval: float = 0.0,
    origin: Integers = 0,
    axes: Integers | None = None,
) -> Array:
    """Return the median of the neighbourhood of every element.

    ``y[i] = median over t of x[i + t]``. The median of an even number of elements is the larger of
    the middle two, so every result is an element of ``x`` (:func:`jaxpool.median_pool` returns the
    mean of the two).

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
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
    arguments = FilterArguments(size, footprint, mode, cval, origin, axes)
    return call_filter(_RANK, x, arguments, "percentile", 50)


@public
def percentile_filter(
    x: ArrayLike,
    percentile: float,
    size: Integers | None = None,
    footprint: Any = None,
    *,
    mode: Mode | Sequence[Mode] = "reflect",
    cval: float = 0.0,
    origin: Integers = 0,
    axes: Integers | None = None,
) -> Array:
    """Return a percentile of the neighbourhood of every element, without interpolation.

    ``y[i]`` is entry number ``floor(count * percentile / 100)`` of the ``count`` elements
    ``x[i + t]`` in ascending order; for percentile 100 it is the last entry.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
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
    options = "percentile", _checked_percentile(percentile)
    arguments = FilterArguments(size, footprint, mode, cval, origin, axes)
    return call_filter(_RANK, x, arguments, *options)


def _checked_percentile(value: Any) -> float:
    signed = number("percentile", value)
    percentile = signed + 100.0 if signed < 0 else signed
    if 0 <= percentile <= 100:
        return percentile
    raise ValueError(
        message(
            f"$percentile = {signed} is out of range.",
            "Percentiles go from 0 for the smallest element to 100 for the largest.",
            "Give a number in this range, or a negative number, which counts down from 100.",
        )
    )


def _rank(x: Array, neighborhood: Neighborhood, kind: str, value: Any) -> Array:
    taps = int(neighborhood.mask.sum())
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
    return _select_rank(x, neighborhood, value % taps)


def _select_rank(x: Array, neighborhood: Neighborhood, rank: int) -> Array:
    """Return the element number ``rank``, from 0 up, of every neighbourhood; differentiable."""
    taps = Taps.of(neighborhood, x.shape)
    if rank in (0, len(taps) - 1):
        return extreme(x, neighborhood, MIN if rank == 0 else MAX)
    if not x.size:
        return x
    extended = extend(x, neighborhood.extents, neighborhood.cval)
    if neighborhood.footprint is None:
        extents = [extent for extent in neighborhood.extents if extent.size > 1]
        extended = pad_symbolic_axes(extended, extents, np.zeros((), x.dtype))
        y = rank_.ranked(extended, None, window_geometry(extended.shape, extents), rank)
        return crop(y, extents, x.shape)
    # XLA:CPU would convert low-precision floats back and forth at every comparison.
    in_accumulator = extended.astype(accumulator(x.dtype))
    return _select_over_footprint(in_accumulator, taps, rank).astype(x.dtype)


def _select_over_footprint(extended: Array, taps: Taps, rank: int) -> Array:
    def reduce(extended: Array) -> Array:
        if len(taps) <= tuning.MAX_IN_NETWORK:
            return sorted_lanes(list(taps.each_tap(extended)))[rank]
        ranks, has_nan = jnp.full(taps.shape, rank), jnp.issubdtype(extended.dtype, jnp.floating)
        key = radix_select.kth(sort_keys(extended), has_nan, taps.reads(), ranks)
        return from_sort_keys(key, extended.dtype)

    def argreduce(extended: Array) -> tuple[Array, Array]:
        extended = materialize(extended)  # XLA could compute it twice, with different roundings
        y = materialize(reduce(extended))
        if len(taps) <= tuning.MAX_IN_NETWORK:
            return y, _first_equal_tap(extended, y, taps)
        # Integers need no comparison for NaN; XLA:GPU would store what two comparisons read.
        return y, _first_equal_tap(sort_keys(extended), sort_keys(y), taps)

    return selection(
        reduce, argreduce, lambda x, first, y: gather_taps(x, first, taps, y), extended
    )


def _first_equal_tap(extended: Array, y: Array, taps: Taps) -> Array:
    none_equal = np.int32(len(taps))

    def number_if_equal(number: Any, element: Array, y: Array) -> Array:
        return jnp.where(equal_or_both_nan(element, y), number, none_equal)

    return taps.reduce(Fold(number_if_equal, none_equal, lax.min), extended, (y,))


_RANK = filter_op("rank_filter", _rank)
