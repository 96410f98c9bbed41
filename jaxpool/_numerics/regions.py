"""The bins of boxes: the elements and weights that they read along an axis, and sums of these.

An axis has ``L`` elements and a box of it ``P`` bins. Coordinates are those of elements, ``i`` for
element ``i``. A box is from ``start`` on and ``size`` long; an argument with an entry for each box.

Samples. Bin ``p`` has ``g`` of them, at

    u = start + p * b + (s + 1/2) * b / g,   b = size / P,   s = 0 .. g - 1,

linearly interpolated between two elements; from -1 to 0 and from L - 1 to L it is the element at
that end, and beyond 0. So element ``i`` has the weight ``sum over s of max(0, 1 - |u - i|) / g``.

``g`` is given, or ``ceil(b)``. Samples are then more than half an element apart if there are two of
them, so that no more than four lie within one element of an element, however large the box, and
these few are looked at. They are ``_NEAR``, with room for the rounding of the first of them.

Source: He et al. 2017 (arXiv:1703.06870), section 3; torchvision ``roi_align`` and ``roi_pool``.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._autodiff import boxes as maps
from .._lowerings.boxes import Boxes, Near
from .._lowerings.parts.axis_slicing import iota

_NEAR = 7


def sample_weights(start: Array, size: Array, bins: int, length: int, ratio: int) -> Array:
    """Return the weight of every element in every bin, ``[box, bin, element]``.

    Args:
      start, size: of each box.
      bins: of each box.
      length: elements of the axis.
      ratio: samples of each bin, or 0 for as many as the bin is long, rounded up.
    """
    start, step = start[:, None, None, None], _quotient(size, bins)[:, None, None, None]
    samples = jnp.ceil(step) if ratio == 0 else jnp.full_like(step, ratio)
    divisor = jnp.where(samples > 0, samples, 1)
    first = start + _count(bins, 1, step) * step
    element = _count(length, 2, step)
    if ratio:
        sample = _count(ratio, 3, step)
    else:
        longer = jnp.where(step == 0, 1, step)  # of a bin without size no sample counts
        before = jnp.floor((element - 1 - first) * divisor / longer - 0.5) - 1
        sample = jnp.clip(before, 0, divisor - 1) + _count(_NEAR, 3, step)
    at, counts = _sample_at(first, sample, step, divisor, length)
    near = jnp.maximum(0, 1 - jnp.abs(at - element))
    return jnp.where(counts & (sample < samples), near, 0).sum(3) / divisor[..., 0]


def _sample_at(
    first: Array, sample: Array, step: Array, samples: Array, length: int
) -> tuple[Array, Array]:
    """Where samples of bins that begin at ``first`` lie on the axis, and which of them count."""
    at = first + _quotient((sample + 0.5) * step, samples)
    return jnp.clip(at, 0, length - 1), (at >= -1) & (at <= length)


def near_samples(
    start: Array, size: Array, bins: int, length: int, ratio: int
) -> tuple[Array, Array]:
    """Return the elements that the samples of every bin lie between, and their weights.

    Args:
      start, size, bins, length, ratio: as in :func:`sample_weights`, but ``ratio`` at least 1.
    Returns:
      Numbers of elements and weights, ``[box, bin, element]``, two of each sample.
    """
    start, step = start[:, None, None], _quotient(size, bins)[:, None, None]
    first = start + _count(bins, 1, step) * step
    sample, samples = _count(ratio, 2, step), jnp.full_like(step, ratio)
    at, counts = _sample_at(first, sample, step, samples, length)
    at = jnp.where(counts, at, 0)
    low = jnp.floor(at)
    high = jnp.minimum(low + 1, length - 1)
    pairs = ((low, 1 - (at - low)), (high, at - low))
    number, weight = (jnp.concatenate(parts, 2) for parts in zip(*pairs, strict=True))
    counted = jnp.concatenate([counts, counts], 2)
    # Past 2**24 elements not every number is a float32.
    number = jnp.minimum(number.astype(jnp.int32), length - 1)
    return number, jnp.where(counted, weight, 0) / ratio


def whole_bins(start: Array, size: Array, bins: int, length: int) -> Array:
    """Return whether a bin of whole elements reads an element, ``[box, bin, element]``.

    Bin ``p`` reads those from ``start + floor(p * b)`` on that are below ``start + ceil((p + 1) *
    b)``, ``b = size / P``. Neighbours may share one.
    """
    start, step = start[:, None, None], _quotient(size, bins)[:, None, None]
    number, element = _count(bins, 1, step), _count(length, 2, step)
    low, high = start + jnp.floor(number * step), start + jnp.ceil((number + 1) * step)
    return (low <= element) & (element < high)


def _quotient(a: Array, b: Array | int) -> Array:
    """``a / b`` to the last digit, which decides whether a sample at an end counts.

    XLA:CPU multiplies by the inverse of a divisor that is one number for a loop, so it is chosen
    for every element.
    """
    return a / jnp.where(a == a, jnp.asarray(b, a.dtype), a)


def _count(length: int, axis: int, like: Array) -> Array:
    """0, 1, 2, ... along an axis."""
    return iota(length, axis, like.ndim, like.dtype)


def rounded(coordinate: Array) -> Array:
    """Return the nearest integer, halves away from zero."""
    return lax.round(coordinate, lax.RoundingMethod.AWAY_FROM_ZERO)


def weighted(x: Array, boxes: Boxes, by_place: bool = False, near: Near | None = None) -> Array:
    """Return weighted sums of bins, where what is not finite stays in the bins that read it.

    The sums run over whole images, with weights of 0 for most elements, and 0 times infinity is
    NaN. So what is not finite is left out and added afterwards, if there is any.
    """
    total = maps.sums_by_place if by_place else maps.sums
    zero = jnp.zeros((), x.dtype)
    finite = lax.is_finite(x)
    known = lax.stop_gradient(x)
    read = Boxes(boxes.image, _one_if(boxes.rows), _one_if(boxes.columns))

    def others() -> Array:
        parts = ((known == np.inf, np.inf), (known == -np.inf, -np.inf), (known != known, np.nan))
        found = [
            jnp.where(total(is_one.astype(x.dtype), read) > 0, jnp.asarray(value, x.dtype), zero)
            for is_one, value in parts
        ]
        return found[0] + found[1] + found[2]

    clean = jnp.where(finite, x, zero)
    y = total(clean, boxes) if near is None else maps.sums(clean, boxes, near)
    return y + lax.cond(finite.all(), lambda: jnp.zeros_like(y), others)


def _one_if(weights: Array) -> Array:
    return (weights > 0).astype(weights.dtype)
