"""Pools of regions: each box, whose coordinates may be traced, is divided into bins."""

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from .._autodiff import boxes as maps
from .._errors import counted, message, public
from .._geometry.arguments import Integers, as_bool, integer
from .._lowerings.boxes import Boxes, SampledElements
from .._numerics import regions
from .._numerics.checks import check_float
from ..reductions import accumulator
from ._boxes import (
    Corners,
    Images,
    box_arrays,
    canonical_output,
    integer_bins,
    mean_weights,
    sample_bins,
    to_corners,
    to_images,
    to_layout,
    without_last_element,
)
from ._dispatch import Op, call

_MAX_SAMPLES = 2**10


@public
def roi_align(
    x: ArrayLike,
    boxes: ArrayLike,
    output_size: Integers,
    *,
    batch_index: ArrayLike | None = None,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
    data_format: str = "channels_last",
) -> Array:
    """Return the mean of linearly interpolated samples in every bin of boxes.

    ``y[k, p, q, c] = (sum over s, t of x(u[s], v[t])) / (S * T)`` over the ``S * T`` samples of bin
    ``(p, q)`` of box ``k``. Here ``u[s] = top + p * b + (s + 1/2) * b / S``, where ``b`` is the
    height of a bin; ``v`` is defined likewise. ``x(u, v)`` interpolates between the four nearest
    elements of the image of the box. Up to one element outside the image it is the value at the
    border, further outside it is 0.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      boxes: array of shape (boxes, 5): number of the image, x1, y1, x2, y2, where x is along W. It
        may be traced. With ``batch_index``, or if ``x`` has no batch axis, the shape is (boxes, 4),
        without the number.
      output_size: bins along H and W; an int applies to both.
      batch_index: integers of shape (boxes,), the image of each box; several batch axes are counted
        in row-major order. Boxes of an image that does not exist give 0, so -1 can pad an array of
        boxes.
      spatial_scale: factor that converts the coordinates of boxes to elements of ``x``.
      sampling_ratio: samples per bin along each axis; -1 for the length of the bin, rounded up.
      aligned: whether element ``i`` is at coordinate ``i + 1/2``, which is correct. If False, it is
        at ``i``, and boxes are at least one element large.
      data_format: as in :func:`max_pool`; H and W are pooled.
    Returns:
      Array of the dtype of ``x``, with boxes in place of images and bins in place of H and W.
      Low-precision floats are added in float32 and rounded once. The program does not depend on the
      coordinates of boxes. With ``sampling_ratio`` 1 or 2, CPU reads only the elements next to the
      samples, and so do GPU and TPU if images are large relative to the samples of a box. CPU reads
      only the elements of a box if the result for a box has 512 elements or more. Otherwise, each
      box costs two matrix products over a full image, which are ``H * W * C * output_size``
      multiplications. In addition to the result, memory then holds one image, on GPU and TPU as
      many images as fit into 64 MiB.
    Derivatives: linear in ``x``; forward and reverse mode, any order. There is no derivative in
      ``boxes``, as in torchvision. Where CPU reads only a part of an image, the transpose adds to
      the same elements, by scatters in a fixed order. Otherwise, it is two matrix products for each
      box, on GPU and TPU for any ``sampling_ratio``, and a cotangent that is not finite reaches the
      full image.
    Edge cases: results are exact for boxes of any size and any distance from the image. A bin
      without samples gives 0; with ``aligned`` and ``sampling_ratio=-1`` a box of zero or negative
      size has such bins. Samples at NaN give 0. NaN and infinities in ``x`` affect only the bins
      that read them.
    Raises:
      TypeError: the dtype of ``x`` is not floating-point, ``boxes`` are not real numbers, or a
        setting is not an integer. ValueError: a setting is out of range, or shapes do not fit.
    References: He et al. 2017 (arXiv:1703.06870), section 3; torchvision ``roi_align``.
    Example:
      >>> x = jnp.arange(16.0).reshape(1, 4, 4, 1)
      >>> boxes = jnp.array([[0, 0.0, 0.0, 4.0, 2.0]])
      >>> jaxpool.roi_align(x, boxes, (1, 2), aligned=True)[0, :, :, 0]
      Array([[2.5, 4.5]], dtype=float32)
    """
    return call(
        _ROI_ALIGN, x, box_arrays(boxes, batch_index), output_size=output_size,
        spatial_scale=spatial_scale, sampling_ratio=sampling_ratio, aligned=aligned,
        data_format=data_format,
    )  # fmt: skip


@public
def roi_pool(
    x: ArrayLike,
    boxes: ArrayLike,
    output_size: Integers,
    *,
    batch_index: ArrayLike | None = None,
    spatial_scale: float = 1.0,
    data_format: str = "channels_last",
) -> Array:
    """Return the maximum of every bin of boxes, whose ends are rounded to integers.

    ``y[k, p, q, c] = max of x[n, h, w, c]`` over the rows
    ``top + floor(p * b) <= h < top + ceil((p + 1) * b)``, and likewise over columns ``w``. The ends
    of box ``k`` are rounded, halves away from zero, and the box contains the elements at both ends;
    ``b`` is its height divided by the number of bins.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      boxes, output_size, batch_index, spatial_scale, data_format: as in :func:`roi_align`.
    Returns:
      Array of the dtype of ``x``, with boxes in place of images and bins in place of H and W. The
      program does not depend on the coordinates of boxes. CPU reads only the elements of a box if
      the result for a box has 512 elements or more. Otherwise, and on GPU and TPU, each box costs
      ``H * W * C`` comparisons for every column of bins.
    Derivatives: in ``x``, forward and reverse mode, any order. The tangent is that of the first
      maximum, in row-major order of the bin; second derivatives are zero. There is no derivative in
      ``boxes``. The transpose has no scatter, except where CPU reads only the elements of a box, in
      a fixed order.
    Edge cases: boxes are at least one element large, even if an end is before the start. A bin
      outside ``x``, or of a box with NaN or infinite coordinates, gives 0 and no gradient. NaN in a
      bin gives NaN, and a bin of only -inf gives -inf (torchvision ignores both).
    Raises:
      TypeError, ValueError: as :func:`roi_align`.
    References: Girshick 2015 (arXiv:1504.08083), section 2.1; torchvision ``roi_pool``.
    Example:
      >>> x = jnp.arange(16.0).reshape(1, 4, 4, 1)
      >>> jaxpool.roi_pool(x, jnp.array([[0, 0.0, 0.0, 3.0, 1.0]]), (1, 2))[0, :, :, 0]
      Array([[5., 7.]], dtype=float32)
    """
    return call(
        _ROI_POOL, x, box_arrays(boxes, batch_index), output_size=output_size,
        spatial_scale=spatial_scale, data_format=data_format,
    )  # fmt: skip


@public
def ps_roi_align(
    x: ArrayLike,
    boxes: ArrayLike,
    output_size: Integers,
    *,
    batch_index: ArrayLike | None = None,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    data_format: str = "channels_last",
) -> Array:
    """Return the mean of samples in every bin of boxes, with a separate input channel for each bin.

    ``y[k, p, q, c]`` is the result of :func:`roi_align` with ``aligned=True`` at bin ``(p, q)`` in
    channel ``(c * P + p) * Q + q`` of ``x``, for ``P * Q`` bins.

    Args:
      x: array of a floating-point dtype whose number of channels is a multiple of ``P * Q``, or
        anything ``jnp.asarray`` accepts.
      boxes, output_size, batch_index, spatial_scale, sampling_ratio, data_format: as in
        :func:`roi_align`.
    Returns:
      Array of the dtype of ``x``, with boxes in place of images, bins in place of H and W, and
      ``P * Q`` times fewer channels. CPU reads only the elements of a box if the result for a
      box has 512 elements or more. Otherwise, a box costs one multiplication per element of its
      image.
    Derivatives: as :func:`roi_align`.
    Edge cases: as :func:`roi_align`; a bin without samples gives 0 (NaN in torchvision).
    Raises:
      TypeError, ValueError: as :func:`roi_align`; ValueError also if the number of channels is not
        a multiple of ``P * Q``.
    References: Li et al. 2017 (arXiv:1711.07264), section 3; torchvision ``ps_roi_align``.
    Example:
      >>> x = jnp.stack([jnp.zeros((4, 4)), jnp.ones((4, 4))], -1)[None]
      >>> jaxpool.ps_roi_align(x, jnp.array([[0, 0.0, 0.0, 4.0, 2.0]]), (1, 2))[0, :, :, 0]
      Array([[0., 1.]], dtype=float32)
    """
    return call(
        _PS_ROI_ALIGN, x, box_arrays(boxes, batch_index), output_size=output_size,
        spatial_scale=spatial_scale, sampling_ratio=sampling_ratio, data_format=data_format,
    )  # fmt: skip


@public
def ps_roi_pool(
    x: ArrayLike,
    boxes: ArrayLike,
    output_size: Integers,
    *,
    batch_index: ArrayLike | None = None,
    spatial_scale: float = 1.0,
    data_format: str = "channels_last",
) -> Array:
    """Return the mean of every bin of boxes, with a separate input channel for each bin.

    ``y[k, p, q, c]`` is the mean of ``x[n, h, w, (c * P + p) * Q + q]`` over the elements of bin
    ``(p, q)`` of ``P * Q`` bins. Bins are those of :func:`roi_pool`, except that a box does not
    contain the elements at its bottom and right ends, and no bin reads the last row and column of
    ``x`` (torchvision).

    Args:
      x: array of a floating-point dtype whose number of channels is a multiple of ``P * Q``, or
        anything ``jnp.asarray`` accepts.
      boxes, output_size, batch_index, spatial_scale, data_format: as in :func:`roi_align`.
    Returns:
      Array of the dtype of ``x``, with boxes in place of images, bins in place of H and W, and
      ``P * Q`` times fewer channels. Low-precision floats are added in float32 and rounded once.
    Derivatives: as :func:`roi_align`. torchvision does not read the last row and column either, but
      its backward pass gives them a part of the cotangent.
    Edge cases: as :func:`roi_pool`; NaN and infinities in ``x`` affect only the bins that read
      them.
    Raises:
      TypeError, ValueError: as :func:`ps_roi_align`.
    References: Dai et al. 2016 (arXiv:1605.06409), section 3; torchvision ``ps_roi_pool``.
    Example:
      >>> x = jnp.stack([jnp.zeros((4, 4)), jnp.ones((4, 4))], -1)[None]
      >>> jaxpool.ps_roi_pool(x, jnp.array([[0, 0.0, 0.0, 3.0, 3.0]]), (1, 2))[0, :, :, 0]
      Array([[0., 1.]], dtype=float32)
    """
    return call(
        _PS_ROI_POOL, x, box_arrays(boxes, batch_index), output_size=output_size,
        spatial_scale=spatial_scale, data_format=data_format,
    )  # fmt: skip


# --- bodies ---------------------------------------------------------------------------------------


def _align(
    x: Array, boxes: Any, batch_index: Any, *, output_size: tuple[int, int], spatial_scale: float,
    data_format: str, sampling_ratio: int, aligned: bool,
) -> Array:  # fmt: skip
    images, ends = _images_and_corners(x, boxes, batch_index, spatial_scale, data_format)
    box_weights, samples = sample_bins(ends, images, output_size, sampling_ratio, aligned)
    return _weighted_sums(images, box_weights, samples=samples)


def _position_sensitive_align(
    x: Array, boxes: Any, batch_index: Any, *, output_size: tuple[int, int], spatial_scale: float,
    data_format: str, sampling_ratio: int,
) -> Array:  # fmt: skip
    images, ends = _images_and_corners(x, boxes, batch_index, spatial_scale, data_format)
    _check_channels(images.array, output_size)
    box_weights, _ = sample_bins(ends, images, output_size, sampling_ratio, aligned=True)
    return _weighted_sums(images, box_weights, position_sensitive=True)


def _pool(
    x: Array, boxes: Any, batch_index: Any, *, output_size: tuple[int, int], spatial_scale: float,
    data_format: str,
) -> Array:  # fmt: skip
    images, ends = _images_and_corners(x, boxes, batch_index, spatial_scale, data_format)
    box_weights = integer_bins(ends, output_size, images.array.shape[1:3], last=1)
    if 0 in images.array.shape:
        return _zeros(images, box_weights)
    return to_layout(maps.maxima(images.array, box_weights), images.letters)


def _position_sensitive_pool(
    x: Array, boxes: Any, batch_index: Any, *, output_size: tuple[int, int], spatial_scale: float,
    data_format: str,
) -> Array:  # fmt: skip
    images, ends = _images_and_corners(x, boxes, batch_index, spatial_scale, data_format)
    _check_channels(images.array, output_size)
    box_weights = integer_bins(ends, output_size, images.array.shape[1:3], last=0)
    dtype = accumulator(images.array.dtype)
    rows, columns = (
        mean_weights(without_last_element(a).astype(dtype))
        for a in (box_weights.rows, box_weights.columns)
    )
    return _weighted_sums(images, Boxes(box_weights.image, rows, columns), position_sensitive=True)


def _images_and_corners(
    x: Array, boxes: Any, batch_index: Any, spatial_scale: float, data_format: str
) -> tuple[Images, Corners]:
    check_float(x)
    images = to_images(x, data_format)
    return images, to_corners(boxes, batch_index, images, spatial_scale)


def _weighted_sums(
    images: Images,
    box_weights: Boxes,
    position_sensitive: bool = False,
    samples: SampledElements | None = None,
) -> Array:
    if 0 in (x := images.array).shape:
        return _zeros(images, box_weights, position_sensitive)
    y = regions.weighted(x.astype(accumulator(x.dtype)), box_weights, position_sensitive, samples)
    return to_layout(y.astype(x.dtype), images.letters)


def _zeros(images: Images, box_weights: Boxes, position_sensitive: bool = False) -> Array:
    """Return the result for an array without elements."""
    bins = box_weights.rows.shape[1], box_weights.columns.shape[1]
    channels = images.array.shape[-1] // (bins[0] * bins[1] if position_sensitive else 1)
    y = jnp.zeros((box_weights.rows.shape[0], *bins, channels), images.array.dtype)
    return to_layout(y, images.letters)


def _check_channels(array: Array, bins: tuple[int, int]) -> None:
    channels, bin_count = array.shape[-1], bins[0] * bins[1]
    if channels % bin_count != 0:
        raise ValueError(
            message(
                f"the array has {counted(channels, 'channel')}.",
                f"Each of {bins[0]} * {bins[1]} bins reads separate channels.",
                f"Give a multiple of {bin_count} channels, or other bins.",
            )
        )


def _canonical_ratio(
    output_size: Any, spatial_scale: Any, data_format: Any, sampling_ratio: Any
) -> dict[str, Any]:
    ratio = integer("sampling_ratio", sampling_ratio, -1)
    if ratio > _MAX_SAMPLES:
        raise ValueError(
            message(
                f"$sampling_ratio = {ratio} is out of range.",
                f"A bin has at most {_MAX_SAMPLES} samples along an axis.",
                "Give a smaller number, or -1 for a number that depends on the size of the bin.",
            )
        )
    shared = canonical_output(output_size, spatial_scale, data_format)
    return {**shared, "sampling_ratio": max(ratio, 0)}


def _canonical_align(*, aligned: Any, **others: Any) -> dict[str, Any]:
    meaning = "It determines whether element i is at i + 1/2."
    return {**_canonical_ratio(**others), "aligned": as_bool("aligned", aligned, meaning)}


_ARRAYS = ("boxes", "batch_index")
_ROI_ALIGN = Op("roi_align", _align, _canonical_align, _ARRAYS)
_ROI_POOL = Op("roi_pool", _pool, canonical_output, _ARRAYS)
_PS_ROI_ALIGN = Op("ps_roi_align", _position_sensitive_align, _canonical_ratio, _ARRAYS)
_PS_ROI_POOL = Op("ps_roi_pool", _position_sensitive_pool, canonical_output, _ARRAYS)
