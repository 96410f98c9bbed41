"""Pools of regions: the bins of boxes that are known when the program runs."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from .._autodiff import boxes as maps
from .._errors import counted, message, public
from .._geometry.arguments import flag, integer
from .._lowerings.boxes import Boxes, Near
from .._numerics import regions
from .._numerics.checks import check_float
from ..reductions import accumulator
from ._boxes import (
    Corners,
    Images,
    all_but_last,
    as_asked,
    canonical_output,
    corners,
    images,
    means,
    numbers,
    samples,
    whole,
)
from ._dispatch import Op, call

_MOST_SAMPLES = 2**10


@public
def roi_align(
    x: ArrayLike,
    boxes: ArrayLike,
    output_size: int | Sequence[int],
    *,
    batch_index: ArrayLike | None = None,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
    data_format: str = "channels_last",
) -> Array:
    """Mean of samples of every bin of boxes, linearly interpolated.

    ``y[k, p, q, c] = (sum over s, t of x(u[s], v[t])) / (S * T)`` over ``S`` times ``T`` samples of
    bin ``(p, q)`` of box ``k``, ``u[s] = top + p * b + (s + 1/2) * b / S`` with ``b`` the height of
    a bin, and ``v`` likewise; ``x(u, v)`` interpolates between the four nearest elements of the
    image of the box. Up to one element outside it is that at the border, and beyond it is 0.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      boxes: array of shape (boxes, 5): number of the image, x1, y1, x2, y2, where x is along W. It
        may be traced. Of shape (boxes, 4), without the number, with ``batch_index`` or where ``x``
        has no axis of images.
      output_size: bins along H and W, an int for both.
      batch_index: integers of shape (boxes,), the image of each box; several batch axes are counted
        in row-major order. The boxes of an image that is not there give 0, such as those of -1 that
        fill up an array of boxes.
      spatial_scale: what a coordinate is multiplied by, to count elements of ``x``.
      sampling_ratio: samples of a bin along each axis; -1 for as many as the bin is long, rounded
        up.
      aligned: whether element ``i`` is at ``i + 1/2``, which is right. With False it is at ``i``,
        and boxes are at least one element large.
      data_format: as in :func:`max_pool`, H and W pooled.
    Returns:
      Array of the dtype of ``x``: boxes in place of images, bins in place of H and W. Low-precision
      floats are added in float32 and rounded once. Time and program do not depend on the boxes:
      each costs two matrix products over a whole image, H * W * C * output_size multiplications;
      memory that of one image besides the result, on GPU and TPU that of as many as fit into 64
      MiB. With ``sampling_ratio`` 1 or 2, and images that are large beside a box, GPU and TPU
      gather the elements instead; the transpose is two matrix products all the same.
    Derivatives: linear in ``x``; forward and reverse mode, any order, without any scatter. Boxes
      have none, as in torchvision.
    Edge cases: any box is exact, however large or far outside. A bin without a sample gives 0: one
      of a box without size, or a negative one, with ``aligned`` and adaptive samples. Samples at
      NaN give 0. NaN and infinities in ``x`` stay in the bins that read them.
    Raises:
      TypeError: ``x`` does not hold floats, ``boxes`` no numbers, or a setting is not an integer.
      ValueError: a setting is out of range, or shapes do not fit.
    References: He et al. 2017 (arXiv:1703.06870), section 3; torchvision ``roi_align``.
    Example:
      >>> x = jnp.arange(16.0).reshape(1, 4, 4, 1)
      >>> boxes = jnp.array([[0, 0.0, 0.0, 4.0, 2.0]])
      >>> jaxpool.roi_align(x, boxes, (1, 2), aligned=True)[0, :, :, 0]
      Array([[2.5, 4.5]], dtype=float32)
    """
    return call(
        _ROI_ALIGN, x, (boxes, numbers(batch_index)), output_size=output_size,
        spatial_scale=spatial_scale, sampling_ratio=sampling_ratio, aligned=aligned,
        data_format=data_format,
    )  # fmt: skip


@public
def roi_pool(
    x: ArrayLike,
    boxes: ArrayLike,
    output_size: int | Sequence[int],
    *,
    batch_index: ArrayLike | None = None,
    spatial_scale: float = 1.0,
    data_format: str = "channels_last",
) -> Array:
    """Maximum of every bin of boxes of whole elements.

    ``y[k, p, q, c] = max of x[n, h, w, c]`` over
    ``top + floor(p * b) <= h < top + ceil((p + 1) * b)`` and columns ``w`` likewise. The ends of
    box ``k`` are rounded, halves away from zero, and both belong to it; ``b`` is its height over
    the number of bins.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      boxes, output_size, batch_index, spatial_scale, data_format: as in :func:`roi_align`.
    Returns:
      Array of the dtype of ``x``: boxes in place of images, bins in place of H and W. Time and
      program do not depend on the boxes: each costs H * W * C comparisons for every column of bins.
    Derivatives: in ``x``, forward and reverse mode, any order. The tangent follows the first
      maximum in row-major order of the bin; second derivatives are zero. No scatter. Boxes have
      none.
    Edge cases: boxes are at least one element large, also where an end is before the beginning. A
      bin outside ``x``, or of a box with NaN or infinity, gives 0 and no gradient. NaN in a bin
      gives NaN, and -inf alone -inf (torchvision ignores both).
    Raises:
      TypeError, ValueError: as :func:`roi_align`.
    References: Girshick 2015 (arXiv:1504.08083), section 2.1; torchvision ``roi_pool``.
    Example:
      >>> x = jnp.arange(16.0).reshape(1, 4, 4, 1)
      >>> jaxpool.roi_pool(x, jnp.array([[0, 0.0, 0.0, 3.0, 1.0]]), (1, 2))[0, :, :, 0]
      Array([[5., 7.]], dtype=float32)
    """
    return call(
        _ROI_POOL, x, (boxes, numbers(batch_index)), output_size=output_size,
        spatial_scale=spatial_scale, data_format=data_format,
    )  # fmt: skip


@public
def ps_roi_align(
    x: ArrayLike,
    boxes: ArrayLike,
    output_size: int | Sequence[int],
    *,
    batch_index: ArrayLike | None = None,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    data_format: str = "channels_last",
) -> Array:
    """Mean of samples of every bin of boxes, each bin from a channel of its own.

    ``y[k, p, q, c]`` is that of :func:`roi_align` with ``aligned=True`` in channel
    ``(c * P + p) * Q + q`` of ``x``, for ``P`` times ``Q`` bins.

    Args:
      x: array of a floating-point dtype whose channels are a multiple of ``P * Q``, or anything
        ``jnp.asarray`` accepts.
      boxes, output_size, batch_index, spatial_scale, sampling_ratio, data_format: as in
        :func:`roi_align`.
    Returns:
      Array of the dtype of ``x``: boxes in place of images, bins in place of H and W, and ``P * Q``
      times fewer channels. A box costs one multiplication per element of its image.
    Derivatives: as :func:`roi_align`.
    Edge cases: as :func:`roi_align`; a bin without a sample gives 0 (NaN in torchvision).
    Raises:
      TypeError, ValueError: as :func:`roi_align`; ValueError also if the channels are no multiple.
    References: Dai et al. 2016 (arXiv:1605.06409), section 3; torchvision ``ps_roi_align``.
    Example:
      >>> x = jnp.stack([jnp.zeros((4, 4)), jnp.ones((4, 4))], -1)[None]
      >>> jaxpool.ps_roi_align(x, jnp.array([[0, 0.0, 0.0, 4.0, 2.0]]), (1, 2))[0, :, :, 0]
      Array([[0., 1.]], dtype=float32)
    """
    return call(
        _PS_ROI_ALIGN, x, (boxes, numbers(batch_index)), output_size=output_size,
        spatial_scale=spatial_scale, sampling_ratio=sampling_ratio, data_format=data_format,
    )  # fmt: skip


@public
def ps_roi_pool(
    x: ArrayLike,
    boxes: ArrayLike,
    output_size: int | Sequence[int],
    *,
    batch_index: ArrayLike | None = None,
    spatial_scale: float = 1.0,
    data_format: str = "channels_last",
) -> Array:
    """Mean of every bin of boxes of whole elements, each bin from a channel of its own.

    ``y[k, p, q, c]`` is the mean of ``x[n, h, w, (c * P + p) * Q + q]`` over the elements of bin
    ``(p, q)`` of ``P`` times ``Q``: as in :func:`roi_pool`, but the last end does not belong to the
    box, and the last row and column of ``x`` are read by none (torchvision).

    Args:
      x: array of a floating-point dtype whose channels are a multiple of ``P * Q``, or anything
        ``jnp.asarray`` accepts.
      boxes, output_size, batch_index, spatial_scale, data_format: as in :func:`roi_align`.
    Returns:
      Array of the dtype of ``x``: boxes in place of images, bins in place of H and W, and ``P * Q``
      times fewer channels. Low-precision floats are added in float32 and rounded once.
    Derivatives: linear in ``x``; forward and reverse mode, any order, without any scatter. Boxes
      have none. torchvision's, unlike its values, share a cotangent with the last row and column
      too.
    Edge cases: as :func:`roi_pool`; NaN and infinities in ``x`` stay in the bins that read them.
    Raises:
      TypeError, ValueError: as :func:`ps_roi_align`.
    References: Dai et al. 2016 (arXiv:1605.06409), section 3; torchvision ``ps_roi_pool``.
    Example:
      >>> x = jnp.stack([jnp.zeros((4, 4)), jnp.ones((4, 4))], -1)[None]
      >>> jaxpool.ps_roi_pool(x, jnp.array([[0, 0.0, 0.0, 3.0, 3.0]]), (1, 2))[0, :, :, 0]
      Array([[0., 1.]], dtype=float32)
    """
    return call(
        _PS_ROI_POOL, x, (boxes, numbers(batch_index)), output_size=output_size,
        spatial_scale=spatial_scale, data_format=data_format,
    )  # fmt: skip


# --- bodies ---------------------------------------------------------------------------------------


def _align(
    x: Array, boxes: Any, batch_index: Any, *, output_size: tuple[int, int], spatial_scale: float,
    data_format: str, sampling_ratio: int, aligned: bool,
) -> Array:  # fmt: skip
    found, ends = _read(x, boxes, batch_index, spatial_scale, data_format)
    half, least = (0.5, None) if aligned else (0, 1)
    read, near = samples(ends, found, output_size, sampling_ratio, half, least)
    return _weighted(found, read, near=near)


def _align_by_place(
    x: Array, boxes: Any, batch_index: Any, *, output_size: tuple[int, int], spatial_scale: float,
    data_format: str, sampling_ratio: int,
) -> Array:  # fmt: skip
    found, ends = _read(x, boxes, batch_index, spatial_scale, data_format)
    _check_channels(found.array, output_size)
    read, _ = samples(ends, found, output_size, sampling_ratio, 0.5, None)
    return _weighted(found, read, by_place=True)


def _pool(
    x: Array, boxes: Any, batch_index: Any, *, output_size: tuple[int, int], spatial_scale: float,
    data_format: str,
) -> Array:  # fmt: skip
    found, ends = _read(x, boxes, batch_index, spatial_scale, data_format)
    read = whole(ends, output_size, found.array.shape[1:3], last=1)
    if 0 in found.array.shape:
        return _zeros(found, read)
    return as_asked(maps.maxima(found.array, read), found.letters)


def _pool_by_place(
    x: Array, boxes: Any, batch_index: Any, *, output_size: tuple[int, int], spatial_scale: float,
    data_format: str,
) -> Array:  # fmt: skip
    found, ends = _read(x, boxes, batch_index, spatial_scale, data_format)
    _check_channels(found.array, output_size)
    read = whole(ends, output_size, found.array.shape[1:3], last=0)
    dtype = accumulator(found.array.dtype)
    rows, columns = (means(all_but_last(a).astype(dtype)) for a in (read.rows, read.columns))
    return _weighted(found, Boxes(read.image, rows, columns), by_place=True)


def _read(
    x: Array, boxes: Any, batch_index: Any, spatial_scale: float, data_format: str
) -> tuple[Images, Corners]:
    check_float(x)
    found = images(x, data_format)
    return found, corners(boxes, batch_index, found, spatial_scale)


def _weighted(
    found: Images, read: Boxes, by_place: bool = False, near: Near | None = None
) -> Array:
    if 0 in (x := found.array).shape:
        return _zeros(found, read, by_place)
    y = regions.weighted(x.astype(accumulator(x.dtype)), read, by_place, near)
    return as_asked(y.astype(x.dtype), found.letters)


def _zeros(found: Images, read: Boxes, by_place: bool = False) -> Array:
    """The result of an array without elements."""
    bins = read.rows.shape[1], read.columns.shape[1]
    channels = found.array.shape[-1] // (bins[0] * bins[1] if by_place else 1)
    y = jnp.zeros((read.rows.shape[0], *bins, channels), found.array.dtype)
    return as_asked(y, found.letters)


def _check_channels(array: Array, bins: tuple[int, int]) -> None:
    channels, each = array.shape[-1], bins[0] * bins[1]
    if channels % each != 0:
        raise ValueError(
            message(
                f"the array has {counted(channels, 'channel')}.",
                f"Each of {bins[0]} * {bins[1]} bins reads channels of its own.",
                f"Give a multiple of {each} channels, or other bins.",
            )
        )


def _canonical_ratio(
    output_size: Any, spatial_scale: Any, data_format: Any, sampling_ratio: Any
) -> dict[str, Any]:
    ratio = integer("sampling_ratio", sampling_ratio, -1)
    if ratio > _MOST_SAMPLES:
        raise ValueError(
            message(
                f"$sampling_ratio = {ratio} is out of range.",
                f"A bin has at most {_MOST_SAMPLES} samples along an axis.",
                "Give a smaller number, or -1 for as many as it is long.",
            )
        )
    shared = canonical_output(output_size, spatial_scale, data_format)
    return {**shared, "sampling_ratio": max(ratio, 0)}


def _canonical_align(*, aligned: Any, **others: Any) -> dict[str, Any]:
    meaning = "It says whether element i is at i + 1/2."
    return {**_canonical_ratio(**others), "aligned": flag("aligned", aligned, meaning)}


_ARRAYS = ("boxes", "batch_index")
_ROI_ALIGN = Op("roi_align", _align, _canonical_align, _ARRAYS)
_ROI_POOL = Op("roi_pool", _pool, canonical_output, _ARRAYS)
_PS_ROI_ALIGN = Op("ps_roi_align", _align_by_place, _canonical_ratio, _ARRAYS)
_PS_ROI_POOL = Op("ps_roi_pool", _pool_by_place, canonical_output, _ARRAYS)
