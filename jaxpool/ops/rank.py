"""Order statistics of windows: medians and ranks.

Let ``p(o)`` be the position of the first element of window ``o`` whose value has the given rank.
Then ``y[o] = x[p(o)]``, and where ``p`` is locally constant ``dy[o] = dx[p(o)]``, as for a maximum.
Unlike maxima, overlapping windows can select any of their elements: if one selects a shared
element, another may select a smaller or larger one. So the gather and its transpose accept any
window offset.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .._autodiff.gather import gather, weighted_gather
from .._autodiff.rules import selection
from .._errors import message, public
from .._geometry.arguments import Integers, integer
from .._geometry.resolve import Geometry
from .._geometry.window import Padding, Rounding
from .._lowerings.parts.argreduce import ValueOffset
from .._lowerings.parts.window_counts import NumberPerWindow, distinct_counts
from .._lowerings.ranks import ranks
from .._numerics import divisors
from .._numerics.checks import check_real, check_where
from .._xla.nan_constant import checked_at_the_end
from ..reductions import MAX, MIN, accumulator, identity_array
from ._dispatch import Configuration, Op, WindowArguments, call

RankSpec = int | str | np.ndarray
"""The element that a window selects: a rank; "low" or "high", the lower or upper of the middle two
elements, which are the same if the number is odd; or an array with the position in sorted order for
windows of 0, 1, 2, ... elements."""


@public
def median_pool(
    x: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Return the median over sliding windows.

    ``y[.., o, ..] = median over t of x[.., o * stride - pad_low + t * dilation, ..]`` over the
    elements inside ``x``: the middle element in sorted order, or the mean of the middle two if
    their number is even.

    Args:
      x: array of any real dtype, or anything ``jnp.asarray`` accepts; not bool.
      window_shape, strides, padding, dilations, rounding, data_format: as in :func:`max_pool`.
      where: boolean mask that broadcasts to ``x``; elements where it is False are ignored.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
      The mean of two integers is exact and rounded half to even.
    Derivatives: forward and reverse mode, any order. The tangent is that of the middle element, or
      the mean of those of the middle two; among equal elements it is that of the first in row-major
      order. Second derivatives are zero.
    Edge cases: padding, overhang and masked elements are ignored. NaN in a window gives NaN. A
      window without elements gives 0 and no gradient.
    Raises:
      TypeError, ValueError: as :func:`max_pool`; TypeError also for bool.
    References: Tukey 1977, "Exploratory data analysis", chapter 7.
    Example:
      >>> x = jnp.array([[1.0], [9.0], [2.0], [3.0]])
      >>> jaxpool.median_pool(x, (3,), 1, 1)[:, 0]
      Array([5. , 2. , 3. , 2.5], dtype=float32)
    """
    windows = WindowArguments(window_shape, strides, padding, dilations, rounding, data_format)
    return call(_MEDIAN_POOL, x, (where,), windows)


@public
def rank_pool(
    x: ArrayLike,
    rank: int,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Return the element of a given rank over sliding windows.

    ``y[.., o, ..]`` is entry ``rank`` of the elements
    ``x[.., o * stride - pad_low + t * dilation, ..]`` of a window inside ``x``, sorted in ascending
    order: 0 is the minimum, -1 the maximum.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      rank: counted upwards from 0, the smallest element, or downwards from -1, the largest; with
        ``n`` taps per window, from ``-n`` to ``n - 1``.
      window_shape, strides, padding, dilations, rounding, data_format, where: as in
        :func:`median_pool`.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
    Derivatives: forward and reverse mode, any order. The tangent is that of the element; among
      equal elements, that of the first in row-major order. Second derivatives are zero.
    Edge cases: padding, overhang and masked elements are ignored. If a window has fewer elements
      than the rank requires, the result is the largest element for a nonnegative rank and the
      smallest for a negative one. NaN in a window gives NaN at every rank. A window without
      elements gives the highest value of the dtype for a nonnegative rank (as :func:`min_pool`),
      the lowest for a negative one (as :func:`max_pool`), and no gradient.
    Raises:
      TypeError, ValueError: as :func:`max_pool`; ValueError also if ``rank`` is out of range.
    References: scipy.ndimage ``rank_filter``.
    Example:
      >>> x = jnp.array([[5], [1], [4], [2]])
      >>> jaxpool.rank_pool(x, 1, (3,), 1)[:, 0], jaxpool.rank_pool(x, -1, (3,), 1)[:, 0]
      (Array([4, 2], dtype=int32), Array([5, 4], dtype=int32))
    """
    windows = WindowArguments(window_shape, strides, padding, dilations, rounding, data_format)
    return call(_RANK_POOL, x, (where,), windows, rank=rank)


def _median(x: Array, where: Any, *, config: Configuration) -> Array:
    check_real(x)
    if x.dtype == jnp.bool_:
        raise TypeError(
            message(
                "the array is boolean.",
                "The median of an even number of booleans can be a half.",
                "Convert it first, for example x.astype(jnp.float32), or use rank_pool.",
            )
        )
    valid = check_where(where, x.shape)
    geometry = config.geometry(x.shape)
    counts = element_counts(x, valid, geometry)
    if counts.distinct is not None and np.all(counts.distinct % 2 == 1):
        y = ranked(x, valid, geometry, "low")
    else:
        y = between(x, valid, geometry, ("low", "high"), lambda _: 0.5, _midpoint)
    return _unless_empty(y, counts, np.zeros((), x.dtype))


def _midpoint(a: Array, b: Array, _: Any) -> Array:
    """Return the mean of ``a`` and ``b`` without overflow.

    XLA would simplify ``a / 2 + b / 2`` to ``(a + b) / 2``, which can overflow.
    """
    if jnp.issubdtype(a.dtype, jnp.integer):
        differing, one = a ^ b, np.ones((), a.dtype)
        # NumPy, and hence ``>>``, does not recognise uint4 and uint2 as unsigned.
        unsigned = jnp.issubdtype(a.dtype, jnp.unsignedinteger)
        half = (lax.shift_right_logical if unsigned else lax.shift_right_arithmetic)(differing, one)
        floor, remainder = (a & b) + half, differing & one
        return floor + (floor & remainder)
    accum_dtype = accumulator(a.dtype)
    low, high, half = a.astype(accum_dtype), b.astype(accum_dtype), np.asarray(0.5, accum_dtype)
    mean, gap = (low + high) * half, high - low
    overflows = (lax.abs(mean) == np.inf) & lax.is_finite(gap)
    return jnp.where(overflows, low + gap * half, mean).astype(a.dtype)


def _canonical_rank(rank: Any) -> dict[str, int]:
    return {"rank": integer("rank", rank, -(2**31))}


def _rank(x: Array, where: Any, *, config: Configuration, rank: int) -> Array:
    check_real(x)
    geometry = config.geometry(x.shape)
    taps = geometry.taps
    if not -taps <= rank < taps:
        raise ValueError(
            message(
                f"$rank = {rank} is out of range.",
                f"A window has {taps} taps, so ranks are {-taps} to {taps - 1}.",
                "Give 0 for the smallest element, -1 for the largest.",
            )
        )
    valid = check_where(where, x.shape)
    y = ranked(x, valid, geometry, rank)
    identity = identity_array(MIN if rank >= 0 else MAX, x.dtype)
    return _unless_empty(y, element_counts(x, valid, geometry), identity)


def _unless_empty(y: Array, counts: NumberPerWindow, identity: np.ndarray) -> Array:
    if counts.distinct is not None and counts.distinct.all():
        return y
    return jnp.where(counts.array == 0, identity, y)


def element_counts(x: Array, valid: Array | None, geometry: Geometry) -> NumberPerWindow:
    """Return the number of elements of each window, in an array of the rank of ``x``."""
    count = divisors.counts(geometry, valid, include_pad=False)
    array = np.asarray(count, np.int32) if isinstance(count, int) else count
    array = array.reshape((1,) * (x.ndim - array.ndim) + array.shape)
    return NumberPerWindow(array, distinct_counts(geometry) if valid is None else None)


def ranked(x: Array, valid: Array | None, geometry: Geometry, spec: RankSpec) -> Array:
    """Return the selected element of every window; undefined in windows without elements."""

    def sorted_positions(x: Array, valid: Array | None) -> NumberPerWindow:
        return _sorted_positions(spec, element_counts(x, valid, geometry), geometry.taps)

    def reduce(x: Array, valid: Array | None) -> Array:
        return ranks.ranked(x, valid, geometry, sorted_positions(x, valid))[0]

    def argreduce(x: Array, valid: Array | None) -> ValueOffset:
        return ranks.argranked(x, valid, geometry, sorted_positions(x, valid))[0]

    def gather_selected(x: Array, offsets: Array, value: Array) -> Array:
        return gather(x, offsets, geometry, value)

    # XLA:CPU would convert low-precision floats to float32 and back at every comparison.
    promoted = x.astype(accumulator(x.dtype))
    return selection(reduce, argreduce, gather_selected, promoted, valid).astype(x.dtype)


def between(
    x: Array,
    valid: Array | None,
    geometry: Geometry,
    specs: tuple[RankSpec, RankSpec],
    weight_of: Callable[[NumberPerWindow], Any],
    mean: Callable[[Array, Array, Any], Array],
) -> Array:
    """Return a mean of two selected elements per window; undefined in windows without elements.

    A single linear map gathers both, so that its transpose adds the cotangents of both elements.

    Args:
      x, valid, geometry: the array, the mask of its valid elements, and the windows.
      specs: the two elements.
      weight_of: returns the weight of the second element, given the element counts of windows.
      mean: returns the mean, given the two elements and the weight of the second.
    """

    def weight_and_positions(x: Array, valid: Array | None) -> tuple[Any, list[NumberPerWindow]]:
        counts = element_counts(x, valid, geometry)
        return weight_of(counts), [_sorted_positions(spec, counts, geometry.taps) for spec in specs]

    def reduce(x: Array, valid: Array | None) -> Array:
        weight, positions = weight_and_positions(x, valid)
        low, high = ranks.ranked(x, valid, geometry, *positions)
        return mean(low, high, weight)

    def argreduce(x: Array, valid: Array | None) -> tuple[Array, Any]:
        weight, positions = weight_and_positions(x, valid)
        (low, first), (high, second) = ranks.argranked(x, valid, geometry, *positions)
        return mean(low, high, weight), ((first, second), weight)

    def gather_selected(x: Array, selected: Any, value: Array) -> Array:
        offsets, weight = selected
        return weighted_gather(x, offsets, (1 - weight, weight), geometry, value)

    mean = checked_at_the_end(mean)
    promoted = x.astype(accumulator(x.dtype))
    return selection(reduce, argreduce, gather_selected, promoted, valid).astype(x.dtype)


def _sorted_positions(spec: RankSpec, counts: NumberPerWindow, taps: int) -> NumberPerWindow:
    """Return the position of the selected element among the sorted elements of each window."""
    if isinstance(spec, np.ndarray):
        return counts.entries_of(spec)
    return counts.map(functools.partial(_sorted_position, spec, taps))


def _sorted_position(spec: int | str, taps: int, counts: Any) -> Any:
    if isinstance(spec, int):
        position = (counts - 1).clip(None, spec) if spec >= 0 else counts + spec
    else:
        position = (counts - 1) // 2 if spec == "low" else counts // 2
    return position.clip(0, taps - 1)


_MEDIAN_POOL = Op("median_pool", _median)
_RANK_POOL = Op("rank_pool", _rank, _canonical_rank)
