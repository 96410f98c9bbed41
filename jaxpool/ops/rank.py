"""Order statistics of windows: medians and ranks.

Let ``p(o)`` be the first element of window ``o`` that has the value of the wanted rank. Where it is
locally constant, ``y[o] = x[p(o)]`` and ``dy[o] = dx[p(o)]``, as for a maximum. But windows that
share an element need not agree on it, so each has a cotangent of its own.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .._autodiff.gather import gather, weighted_gather
from .._autodiff.rules import selection
from .._errors import message, public
from .._geometry.arguments import integer
from .._geometry.resolve import Geometry
from .._geometry.window import Padding, Rounding
from .._lowerings.parts.argreduce import ValueOffset
from .._lowerings.parts.axis_slicing import broadcast_along
from .._lowerings.parts.window_counts import elements_per_window
from .._lowerings.ranks import ranks
from .._numerics.checks import check_real, check_where
from .._numerics.divisors import window_sum
from ..reductions import MAX, MIN, accumulator, identity_array
from ._dispatch import Configuration, Op, WindowArguments, call

Which = int | str | tuple[int, ...]
"""A rank; "low" or "high", the middle element and the one above it if two are in the middle; or
the place among 0, 1, 2 .. elements."""


@public
def median_pool(
    x: ArrayLike,
    window_shape: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Padding = "VALID",
    *,
    dilations: int | Sequence[int] = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Median over sliding windows.

    ``y[.., o, ..] = median over t of x[.., o * stride - pad_low + t * dilation, ..]`` of the
    elements inside ``x``: the middle one in order, of an even number the mean of the middle two.

    Args:
      x: array of any real dtype, or anything ``jnp.asarray`` accepts; not bool.
      window_shape, strides, padding, dilations, rounding, data_format: as in :func:`max_pool`.
      where: boolean mask that broadcasts to ``x``; elements where it is False are ignored.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
      The mean of two integers is exact and rounded half to even.
    Derivatives: forward and reverse mode, any order. The tangent follows the middle element, or
      half each of the middle two; of equal elements the first in row-major order. Second
      derivatives are zero.
    Edge cases: padding, overhang and masked elements do not count. NaN in a window gives NaN. A
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
    window_shape: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Padding = "VALID",
    *,
    dilations: int | Sequence[int] = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """The element of a given rank over sliding windows.

    ``y[.., o, ..]`` is the entry number ``rank`` of the elements of a window inside ``x``,
    ``x[.., o * stride - pad_low + t * dilation, ..]``, in ascending order: 0 is the minimum, -1 the
    maximum.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      rank: from 0 for the smallest, or from -1 for the largest downwards; less than the taps of a
        window.
      window_shape, strides, padding, dilations, rounding, data_format, where: as in
        :func:`median_pool`.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
    Derivatives: forward and reverse mode, any order. The tangent follows the element, of equal
      elements the first in row-major order; second derivatives are zero.
    Edge cases: padding, overhang and masked elements do not count. In a window of fewer elements
      than the rank needs it is the last of them in its direction: the largest for a rank from 0 on,
      the smallest for a negative one. NaN in a window gives NaN, at every rank. A window without
      elements gives the highest value of the dtype for a rank from 0 on (as :func:`min_pool`), the
      lowest for a negative one (as :func:`max_pool`), and no gradient.
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
    if isinstance(counts, np.ndarray) and np.all(counts % 2 == 1):
        y = ranked(x, valid, geometry, "low")
    else:
        y = between(x, valid, geometry, ("low", "high"), lambda _: 0.5, _middle)
    return _unless_empty(y, counts, np.zeros((), x.dtype))


def _middle(a: Array, b: Array, _: Any) -> Array:
    """The mean of ``a`` and ``b``, without overflow.

    Not ``a / 2 + b / 2``, which XLA turns into ``(a + b) / 2``.
    """
    if jnp.issubdtype(a.dtype, jnp.integer):
        differ, one = a ^ b, np.ones((), a.dtype)
        # Of uint4 and uint2 NumPy, and so ``>>``, does not know that they have no sign.
        unsigned = jnp.issubdtype(a.dtype, jnp.unsignedinteger)
        half = (lax.shift_right_logical if unsigned else lax.shift_right_arithmetic)(differ, one)
        below, odd = (a & b) + half, differ & one
        return below + (below & odd)
    wide = accumulator(a.dtype)
    low, high, half = a.astype(wide), b.astype(wide), np.asarray(0.5, wide)
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
    identity = identity_array(MIN if rank >= 0 else MAX, np.dtype(x.dtype))
    return _unless_empty(y, element_counts(x, valid, geometry), identity)


def _unless_empty(y: Array, counts: Any, identity: np.ndarray) -> Array:
    if isinstance(counts, np.ndarray) and counts.all():
        return y
    return jnp.where(counts == 0, identity, y)


def element_counts(x: Array, valid: Array | None, geometry: Geometry) -> Any:
    """Elements of each window; a NumPy array if known before tracing. Of the rank of ``x``."""
    if valid is not None:
        return window_sum(valid.astype(jnp.int32), geometry)
    if not all(isinstance(length, int) for length in geometry.out_shape):
        counts = elements_per_window(geometry, include_pad=False)
        return np.full((1,) * x.ndim, counts) if isinstance(counts, int) else counts
    counts = np.ones((1,) * x.ndim, np.int32)
    for axis, position in geometry.placed:
        found = axis.counts(include_pad=False)
        each = found[:1] if len(set(found)) == 1 else found
        counts = counts * broadcast_along(each, position, x.ndim)
    return counts.astype(np.int32)


def ranked(x: Array, valid: Array | None, geometry: Geometry, which: Which) -> Array:
    """The element of a rank in every window; anything in windows without an element."""

    def place(x: Array, valid: Array | None) -> Any:
        return _place(which, element_counts(x, valid, geometry), geometry.taps)

    def reduce(x: Array, valid: Array | None) -> Array:
        return ranks.ranked(x, valid, geometry, place(x, valid))[0]

    def argreduce(x: Array, valid: Array | None) -> ValueOffset:
        return ranks.argranked(x, valid, geometry, place(x, valid))[0]

    def read(x: Array, offsets: Array, value: Array) -> Array:
        return gather(x, offsets, geometry, value, any_offset=True)

    # XLA:CPU would widen and round narrow floats at every comparison.
    wide = x.astype(accumulator(x.dtype))
    return selection(reduce, argreduce, read, wide, valid).astype(x.dtype)


def between(
    x: Array,
    valid: Array | None,
    geometry: Geometry,
    which: tuple[Which, Which],
    share: Callable[[Any], Any],
    mean: Callable[[Array, Array, Any], Array],
) -> Array:
    """A weighted mean of two elements of a rank; anything in windows without an element.

    One linear map reads both, so that its transpose adds the second to the first.

    Args:
      x, valid, geometry: the array, its elements that are there, and the windows.
      which: the ranks.
      share: the weight of the second, from the elements of each window.
      mean: of the two elements, and of the share.
    """

    def places_of(x: Array, valid: Array | None) -> tuple[Any, list[Any]]:
        counts = element_counts(x, valid, geometry)
        return counts, [_place(rank, counts, geometry.taps) for rank in which]

    def reduce(x: Array, valid: Array | None) -> Array:
        counts, places = places_of(x, valid)
        low, high = ranks.ranked(x, valid, geometry, *places)
        return mean(low, high, share(counts))

    def argreduce(x: Array, valid: Array | None) -> tuple[Array, Any]:
        counts, places = places_of(x, valid)
        (low, first), (high, second) = ranks.argranked(x, valid, geometry, *places)
        return mean(low, high, share(counts)), ((first, second), share(counts))

    def read(x: Array, found: Any, value: Array) -> Array:
        offsets, share = found
        return weighted_gather(x, offsets, (1 - share, share), geometry, value)

    wide = x.astype(accumulator(x.dtype))
    return selection(reduce, argreduce, read, wide, valid).astype(x.dtype)


def _place(which: Which, counts: Any, taps: int) -> Any:
    """Where the element of a rank lies among the sorted elements of its window."""
    if isinstance(which, tuple):
        places = np.asarray(which, np.int32)
        return places[counts] if isinstance(counts, np.ndarray) else jnp.asarray(places)[counts]
    if isinstance(which, int):
        place = (counts - 1).clip(None, which) if which >= 0 else counts + which
    else:
        place = (counts - 1) // 2 if which == "low" else counts // 2
    return place.clip(0, taps - 1)


_MEDIAN_POOL = Op("median_pool", _median)
_RANK_POOL = Op("rank_pool", _rank, _canonical_rank)
