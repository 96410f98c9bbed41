"""Median, percentile and rank filters."""

from collections.abc import Sequence
from typing import Any

from jax import Array
from jax.typing import ArrayLike

from .._errors import message, public
from .._geometry.arguments import integer
from ._arguments import LARGEST_ORIGIN, Neighborhood
from ._call import call_filter, filter_op
from ._ranks import ranked
from ._static import number


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
    return ranked(x, hood, value % taps)


_RANK = filter_op("rank_filter", _rank)
