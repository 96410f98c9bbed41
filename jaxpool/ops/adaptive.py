"""Adaptive pooling: the caller gives the number of windows, and the windows divide the axis.

If all windows have the same length and stride, they are pooled as in fixed pooling, unless they are
long and overlap. All other windows are pooled by :mod:`jaxpool._autodiff.ragged`.
:mod:`._partition` defines the windows.
"""

import math
from collections.abc import Sequence
from typing import Any, SupportsIndex

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from .._autodiff import ragged, rules
from .._autodiff.planes import Planes, plane_maximum
from .._errors import public
from .._numerics import indices as _indices
from .._numerics import integer_mean
from .._numerics.checks import check_real, check_where
from .._numerics.divisors import average, check_averageable, zero_where_masked
from .._numerics.indices import IndexSpace
from ..reductions import MAX, Reduction
from ._dispatch import Op, call
from ._partition import Sizes, canonical_sizes, canonical_with_indices, partition, spatial_axes
from .global_ import maximum_with_indices
from .global_sums import average_of


@public
def adaptive_avg_pool(
    x: ArrayLike,
    output_size: SupportsIndex | Sequence[SupportsIndex | None],
    *,
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Return the average over a given number of windows per axis.

    Window ``i`` of ``O`` over an axis of ``L`` elements averages
    ``x[.., i * L // O : ceil((i + 1) * L / O), ..]``, with bounds computed in exact integers. If
    ``O`` does not divide ``L``, neighbouring windows may overlap by one element. If ``O > L``,
    elements are repeated.

    Args:
      x: array of any real dtype, or anything ``jnp.asarray`` accepts; not bool.
      output_size: windows per pooled axis, >= 0; its length is the number of pooled axes. None
        leaves an axis unchanged. With a ``data_format`` in letters, an int applies to all pooled
        axes.
      data_format: as in :func:`max_pool`.
      where: boolean mask that broadcasts to ``x``; elements where it is False are neither added nor
        counted.
    Returns:
      Array of the dtype of ``x``. Pooled axes have the lengths ``output_size``; other axes are
      unchanged. Low-precision floats are added and divided in float32 and rounded once. Integer
      averages are exact, because the sum does not wrap; they are rounded half to even.
    Derivatives: linear; forward and reverse mode, any order. They use no scatter, except inside
      ``jax.shard_map`` if the windows differ in length or stride. Integers have no derivative.
    Edge cases: a window without elements gives 0. NaN and infinities propagate within their
      windows. An output size of 0 gives an empty result.
    Raises:
      TypeError: ``output_size`` has entries other than integers and None, or ``x`` is complex or
        bool. ValueError: ``output_size`` is negative or has the wrong length, or a pooled axis is
        empty.
    References: PyTorch ``adaptive_avg_pool2d``; OpenVINO AdaptiveAvgPool-8.
    Example:
      >>> x = jnp.arange(1.0, 8.0)
      >>> jaxpool.adaptive_avg_pool(x, 3, data_format="W")
      Array([2., 4., 6.], dtype=float32)
      >>> jaxpool.adaptive_avg_pool(jnp.zeros((8, 224, 200, 3)), (7, None)).shape
      (8, 7, 200, 3)
    """
    options = {"output_size": output_size, "data_format": data_format}
    return call(ADAPTIVE_AVG_POOL, x, (where,), **options)


@public
def adaptive_max_pool(
    x: ArrayLike,
    output_size: SupportsIndex | Sequence[SupportsIndex | None],
    *,
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Return the maximum over a given number of windows per axis.

    Window ``i`` of ``O`` over an axis of ``L`` elements returns the maximum of
    ``x[.., i * L // O : ceil((i + 1) * L / O), ..]``, with bounds computed in exact integers.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      output_size, data_format: as in :func:`adaptive_avg_pool`.
      where: boolean mask that broadcasts to ``x``; elements where it is False are ignored.
    Returns:
      Array of the dtype of ``x``. Pooled axes have the lengths ``output_size``; other axes are
      unchanged.
    Derivatives: forward and reverse mode, any order. The tangent is that of the first maximum, in
      row-major order of the window; second derivatives are zero. Reverse mode has no scatter, so it
      is deterministic on every backend, except inside ``jax.shard_map`` if the windows differ in
      length or stride.
    Edge cases: NaN in a window gives NaN. A window without elements (only ``where`` can remove all)
      gives the lowest value of the dtype and no gradient. An output size of 0 gives an empty
      result.
    Raises:
      TypeError, ValueError: as :func:`adaptive_avg_pool`, except that bool is allowed; ValueError
        also if a derivative is taken and the product of the window lengths is so large that the
        argmax does not fit 31 bits.
    References: PyTorch ``adaptive_max_pool2d``; OpenVINO AdaptiveMaxPool-8.
    Example:
      >>> jaxpool.adaptive_max_pool(jnp.array([3, 1, 2, 5, 4]), 3, data_format="W")
      Array([3, 5, 5], dtype=int32)
    """
    options = {"output_size": output_size, "data_format": data_format}
    return call(ADAPTIVE_MAX_POOL, x, (where,), **options)


@public
def adaptive_max_pool_with_argmax(
    x: ArrayLike,
    output_size: SupportsIndex | Sequence[SupportsIndex | None],
    *,
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    index_space: IndexSpace = "spatial",
    index_dtype: DTypeLike | None = None,
) -> tuple[Array, Array]:
    """Return the maximum over a given number of windows per axis, and its index.

    The values are those of :func:`adaptive_max_pool`. ``indices`` has the position of the first
    maximum of ``x[.., i * L // O : ceil((i + 1) * L / O), ..]`` in ``x``, in row-major order.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      output_size, data_format, where: as in :func:`adaptive_max_pool`.
      index_space: "spatial", flat over the pooled axes of ``x`` (PyTorch, OpenVINO), or an int axis
        ``a``, flat over all axes of ``x`` from ``a`` on. "window" is not available, because the
        windows have no common shape.
      index_dtype: an integer dtype; default int32.
    Returns:
      (values, indices), both of the shape of :func:`adaptive_max_pool`'s result. An axis whose size
      is None is not pooled, but a "spatial" index counts it, at its place in ``x``.
    Derivatives: values as :func:`adaptive_max_pool`; indices have no tangent (float0).
    Edge cases: if the value is NaN, the index is that of the first NaN in the window. A window
      without elements has index -1.
    Raises:
      TypeError, ValueError: as :func:`adaptive_max_pool`, even if no derivative is taken;
        ValueError also if an index would not fit ``index_dtype``.
    References: PyTorch ``adaptive_max_pool2d``; OpenVINO AdaptiveMaxPool-8.
    Example:
      >>> x = jnp.array([3.0, 1.0, 2.0, 5.0, 4.0])
      >>> jaxpool.adaptive_max_pool_with_argmax(x, 3, data_format="W")[1]
      Array([0, 3, 3], dtype=int32)
    """
    options = {"output_size": output_size, "data_format": data_format}
    space = {"index_space": index_space, "index_dtype": index_dtype}
    return call(ADAPTIVE_MAX_POOL_WITH_ARGMAX, x, (where,), **options, **space)


def symbolic_planes(x: Array, output_size: Sizes, data_format: str) -> Planes | None:
    """Return the planes, if each window covers its full pooled axis and some length is unknown.

    Return None for all other windows.
    """
    positions = spatial_axes(x.shape, output_size, data_format)
    pooled = tuple(p for p, n in zip(positions, output_size, strict=True) if n is not None)
    planes = Planes(pooled, tuple(x.shape[position] for position in pooled))
    covers_axes = all(n == 1 for n in output_size if n is not None)
    return planes if covers_axes and pooled and not planes.are_known else None


# --- averages ------------------------------------------------------------------------------------


def average_pool(
    x: Array,
    where: Any,
    *,
    output_size: Sizes,
    data_format: str,
    rounding: integer_mean.Rounding = "half_even",
) -> Array:
    """Compute :func:`adaptive_avg_pool`."""
    check_averageable(x)
    valid, planes = check_where(where, x.shape), symbolic_planes(x, output_size, data_format)
    if planes is not None:
        return average_of(x, valid, planes, rounding)
    windows = partition(x.shape, output_size, data_format)
    if 0 in output_size:
        return jnp.zeros(windows.out_shape(x.shape), x.dtype)
    counted = windows.lengths(x.ndim) if valid is None else windows.total(valid.astype(jnp.int32))
    largest = math.prod(axis.longest for axis in windows.axes)
    return average(zero_where_masked(x, valid), windows.total, counted, largest, rounding)


# --- maxima --------------------------------------------------------------------------------------


def max_pool(
    x: Array, where: Any, *, output_size: Sizes, data_format: str, maximum: Reduction = MAX
) -> Array:
    """Compute :func:`adaptive_max_pool`."""
    check_real(x)
    valid, planes = check_where(where, x.shape), symbolic_planes(x, output_size, data_format)
    if planes is not None:
        return plane_maximum(x, valid, planes, maximum)
    windows = partition(x.shape, output_size, data_format)
    if 0 in output_size:
        return jnp.zeros(windows.out_shape(x.shape), x.dtype)
    plan = windows.plan(maximum, x.dtype)
    if plan is not None:
        return rules.extreme(x, valid, plan)
    return ragged.ragged_maximum(x, valid, windows, maximum)


def max_pool_with_argmax(
    x: Array,
    where: Any,
    *,
    output_size: Sizes,
    data_format: str,
    index_space: IndexSpace,
    index_dtype: np.dtype | None,
    maximum: Reduction = MAX,
) -> tuple[Array, Array]:
    """Compute :func:`adaptive_max_pool_with_argmax`."""
    check_real(x)
    valid, planes = check_where(where, x.shape), symbolic_planes(x, output_size, data_format)
    space: tuple[IndexSpace, np.dtype | None] = (index_space, index_dtype)
    spatial = spatial_axes(x.shape, output_size, data_format)
    if planes is not None:
        return maximum_with_indices(x, valid, planes, *space, maximum, spatial)
    windows = partition(x.shape, output_size, data_format)
    masked = valid is not None
    if 0 in output_size:
        out = windows.out_shape(x.shape)
        ragged_offsets = jnp.zeros(out, jnp.int32)
        index = windows.indices(ragged_offsets, x.shape, *space, masked, spatial)
        return jnp.zeros(out, x.dtype), index
    plan = windows.plan(maximum, x.dtype)
    if plan is not None:
        values, offsets = rules.extreme_with_offsets(x, valid, plan)
        geometry = plan.geometry
        return values, _indices.convert(offsets, x.shape, geometry, *space, masked, spatial)
    values, ragged_offsets = ragged.ragged_maximum_with_offsets(x, valid, windows, maximum)
    return values, windows.indices(ragged_offsets, x.shape, *space, masked, spatial)


ADAPTIVE_AVG_POOL = Op("adaptive_avg_pool", average_pool, canonical_sizes)
ADAPTIVE_MAX_POOL = Op("adaptive_max_pool", max_pool, canonical_sizes)
ADAPTIVE_MAX_POOL_WITH_ARGMAX = Op(
    "adaptive_max_pool_with_argmax", max_pool_with_argmax, canonical_with_indices
)
