"""Bins of boxes along an axis: the elements that they read, with their weights, and sums of bins.

An axis has ``L`` elements, and a box has ``P`` bins along it. Element ``i`` has the coordinate
``i``. A box begins at ``start`` and has the length ``size``; both have one entry for each box.

Samples. Bin ``p`` has ``g`` samples, at the coordinates

    u = start + p * b + (s + 1/2) * b / g,   b = size / P,   s = 0 .. g - 1.

A sample interpolates linearly between two elements. From -1 to 0 and from L - 1 to L, a sample is
the element at that end of the axis, and further outside it is 0. So element ``i`` has the weight
``sum over s of max(0, 1 - |u - i|) / g``, with ``u`` clipped to the axis.

``g`` is an argument, or ``ceil(b)``. In the second case, if there are two samples or more, they are
more than half an element apart. So at most four samples are less than 1 away from an element,
however large the box is. Only ``_NEIGHBOURING_SAMPLES`` samples are computed for each element:
these four, and a margin for rounding errors in the number of the first one.

Source: He et al. 2017 (arXiv:1703.06870), section 3; torchvision ``roi_align`` and ``roi_pool``.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._autodiff import boxes as maps
from .._autodiff.linear import tangent_only
from .._lowerings.boxes import Boxes, SampledElements, has_elements, visits_elements
from .._lowerings.parts.axis_slicing import iota
from .._xla.by_platform import by_platform
from .._xla.nan_constant import nan_where
from .._xla.opaque_divisor import opaque_divisor
from .quotient import rounded_quotient

_NEIGHBOURING_SAMPLES = 7


def sample_weights(start: Array, size: Array, bins: int, length: int, ratio: int) -> Array:
    """Return the weight of every element in every bin, ``[box, bin, element]``.

    Args:
      start, size: of each box.
      bins: of each box.
      length: elements of the axis.
      ratio: samples of each bin, or 0 for the length of the bin, rounded up.
    """
    start, step = start[:, None, None, None], _quotient(size, bins)[:, None, None, None]
    samples = jnp.ceil(step) if ratio == 0 else jnp.full_like(step, ratio)
    divisor = jnp.where(samples > 0, samples, 1)
    first = start + _iota(bins, 1, step) * step
    element = _iota(length, 2, step)
    if ratio:
        sample = _iota(ratio, 3, step)
    else:
        nonzero_step = jnp.where(step == 0, 1, step)  # a bin of size 0 has no samples
        first_sample = jnp.floor((element - 1 - first) * divisor / nonzero_step - 0.5) - 1
        sample = jnp.clip(first_sample, 0, divisor - 1) + _iota(_NEIGHBOURING_SAMPLES, 3, step)
    coordinate, is_counted = _sample_coordinates(first, sample, step, divisor, length)
    weight = jnp.maximum(0, 1 - jnp.abs(coordinate - element))
    return jnp.where(is_counted & (sample < samples), weight, 0).sum(3) / divisor[..., 0]


def _sample_coordinates(
    first: Array, sample: Array, step: Array, samples: Array, length: int
) -> tuple[Array, Array]:
    """Return the coordinates of samples of bins that begin at ``first``, and whether they count."""
    coordinate = first + _quotient((sample + 0.5) * step, samples)
    return jnp.clip(coordinate, 0, length - 1), (coordinate >= -1) & (coordinate <= length)


def sampled_elements(
    start: Array, size: Array, bins: int, length: int, ratio: int
) -> tuple[Array, Array]:
    """Return the two elements around each sample of every bin, and their weights.

    Args:
      start, size, bins, length, ratio: as in :func:`sample_weights`, with ``ratio`` at least 1.
    Returns:
      Indices of elements and weights, ``[box, bin, 2 * ratio]``: two for each sample.
    """
    start, step = start[:, None, None], _quotient(size, bins)[:, None, None]
    first = start + _iota(bins, 1, step) * step
    sample, samples = _iota(ratio, 2, step), jnp.full_like(step, ratio)
    coordinate, is_counted = _sample_coordinates(first, sample, step, samples, length)
    coordinate = jnp.where(is_counted, coordinate, 0)
    low = jnp.floor(coordinate)
    high = jnp.minimum(low + 1, length - 1)
    pairs = ((low, 1 - (coordinate - low)), (high, coordinate - low))
    number, weight = (jnp.concatenate(parts, 2) for parts in zip(*pairs, strict=True))
    both_counted = jnp.concatenate([is_counted, is_counted], 2)
    # float32 cannot represent every index above 2**24.
    number = jnp.minimum(number.astype(jnp.int32), length - 1)
    return number, jnp.where(both_counted, weight, 0) / ratio


def integer_bins(start: Array, size: Array, bins: int, length: int) -> Array:
    """Return whether each bin reads each element without interpolation, ``[box, bin, element]``.

    With ``b = size / P``, bin ``p`` reads the elements from ``start + floor(p * b)`` to below
    ``start + ceil((p + 1) * b)``. Neighbouring bins may have one element in common.
    """
    start, step = start[:, None, None], _quotient(size, bins)[:, None, None]
    number, element = _iota(bins, 1, step), _iota(length, 2, step)
    low, high = start + jnp.floor(number * step), start + jnp.ceil((number + 1) * step)
    return (low <= element) & (element < high)


def _quotient(a: Array, b: Array | int) -> Array:
    """Return the correctly rounded ``a / b``: its last bit decides if a sample at an end counts."""
    return rounded_quotient(a, opaque_divisor(b, a))


def _iota(length: int, axis: int, like: Array) -> Array:
    """Return 0, 1, 2, ... along an axis, to broadcast to the rank of ``like``."""
    return iota(length, axis, like.ndim, like.dtype)


def rounded(coordinate: Array) -> Array:
    """Return the nearest integer, halves away from zero."""
    return lax.round(coordinate, lax.RoundingMethod.AWAY_FROM_ZERO)


def weighted(
    x: Array, boxes: Boxes, position_sensitive: bool = False, samples: SampledElements | None = None
) -> Array:
    """Return weighted sums of bins, where NaN and infinities affect only the bins that read them.

    Sums over full images have weight 0 for most elements, and 0 times infinity is NaN. So elements
    that are not finite are replaced by 0, and are added afterwards if there are any. CPU may read
    only the elements of each box.
    """
    channels = x.shape[-1] // (math.prod(boxes.bins) if position_sensitive else 1)

    def of_elements(x: Array, boxes: Boxes, samples: SampledElements | None) -> Array:
        return _sums(x, boxes, position_sensitive, samples)

    def over_images(x: Array, boxes: Boxes, samples: SampledElements | None) -> Array:
        return _weighted_where_finite(x, boxes, position_sensitive, samples)

    if not has_elements(x):
        return over_images(x, boxes, None)
    visits = samples is not None or visits_elements(x, boxes, channels)
    cpu = of_elements if visits else over_images
    return by_platform(x, boxes, samples, cpu=cpu, default=over_images)


def _sums(
    x: Array, boxes: Boxes, position_sensitive: bool, samples: SampledElements | None = None
) -> Array:
    if position_sensitive:
        return maps.position_sensitive_sums(x, boxes)
    return maps.sums(x, boxes, samples)


def _weighted_where_finite(
    x: Array, boxes: Boxes, position_sensitive: bool, samples: SampledElements | None
) -> Array:
    """Return :func:`weighted` from an array without infinities, and then add these."""
    zero = jnp.zeros((), x.dtype)
    finite = lax.is_finite(x)
    primal = lax.stop_gradient(x)
    is_read = Boxes(
        boxes.image, _ones_where_positive(boxes.rows), _ones_where_positive(boxes.columns)
    )

    def is_read_where(mask: Array) -> Array:
        return _sums(mask.astype(x.dtype), is_read, position_sensitive) > 0

    def non_finite_sums() -> Array:
        high, low = (
            jnp.where(is_read_where(primal == value), np.asarray(value, x.dtype), zero)
            for value in (np.inf, -np.inf)
        )
        return nan_where(is_read_where(primal != primal), high + low)

    clean = jnp.where(finite, primal, zero) + tangent_only(x)
    y = _sums(clean, boxes, position_sensitive, samples)
    return y + lax.cond(finite.all(), lambda: jnp.zeros_like(y), non_finite_sums)


def _ones_where_positive(weights: Array) -> Array:
    return (weights > 0).astype(weights.dtype)
