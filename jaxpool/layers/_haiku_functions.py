"""Maxima, averages, norms and unpooling with the axes of Haiku; adaptive and global pools."""

from collections.abc import Sequence

from jax import Array
from jax.typing import ArrayLike, DTypeLike

import jaxpool

from .._errors import public
from ._common import Padding, PerAxis, Rounding
from ._haiku_axes import call, call_global


@public
def max_pool(
    value: ArrayLike,
    window_shape: PerAxis,
    strides: PerAxis,
    padding: Padding = "VALID",
    channel_axis: int | None = -1,
    *,
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Array:
    """Maximum over sliding windows, as ``hk.max_pool`` and :func:`jaxpool.max_pool`.

    Args:
      value: array to pool.
      window_shape, strides: an int, or one for each of the last axes of ``value``.
      padding: "SAME", "VALID" or what :func:`jaxpool.max_pool` takes, an entry for each axis.
      channel_axis: the axis that is not pooled, or None.
      dilations, rounding, where, implementation: as in :func:`jaxpool.max_pool`.
    """
    return call(jaxpool.max_pool, **locals())


@public
def min_pool(
    value: ArrayLike,
    window_shape: PerAxis,
    strides: PerAxis,
    padding: Padding = "VALID",
    channel_axis: int | None = -1,
    *,
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Array:
    """Minimum over sliding windows, :func:`jaxpool.min_pool`; arguments as :func:`max_pool`."""
    return call(jaxpool.min_pool, **locals())


@public
def avg_pool(
    value: ArrayLike,
    window_shape: PerAxis,
    strides: PerAxis,
    padding: Padding = "VALID",
    channel_axis: int | None = -1,
    *,
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
    implementation: str = "auto",
    count_include_pad: bool = False,
    divisor_override: int | None = None,
) -> Array:
    """Average over sliding windows, as ``hk.avg_pool`` and :func:`jaxpool.avg_pool`.

    Args:
      value, window_shape, strides, padding, channel_axis: as in :func:`max_pool`.
      count_include_pad: False, as in Haiku: padding does not count.
      dilations, rounding, where, implementation, divisor_override: as in :func:`jaxpool.avg_pool`.
    """
    return call(jaxpool.avg_pool, **locals())


@public
def lp_pool(
    value: ArrayLike,
    window_shape: PerAxis,
    strides: PerAxis,
    padding: Padding = "VALID",
    channel_axis: int | None = -1,
    *,
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
    implementation: str = "auto",
    p: float = 2,
) -> Array:
    """Lp norm, :func:`jaxpool.lp_pool`; other arguments as :func:`max_pool`."""
    return call(jaxpool.lp_pool, **locals())


@public
def gem_pool(
    value: ArrayLike,
    window_shape: PerAxis,
    strides: PerAxis,
    padding: Padding = "VALID",
    channel_axis: int | None = -1,
    *,
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
    implementation: str = "auto",
    p: float | ArrayLike = 3.0,
    eps: float = 1e-6,
) -> Array:
    """Generalised mean, :func:`jaxpool.gem_pool`; other arguments as :func:`max_pool`."""
    return call(jaxpool.gem_pool, **locals())


@public
def max_pool_with_argmax(
    value: ArrayLike,
    window_shape: PerAxis,
    strides: PerAxis,
    padding: Padding = "VALID",
    channel_axis: int | None = -1,
    *,
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
    implementation: str = "auto",
    index_space: str | int = "spatial",
    index_dtype: DTypeLike | None = None,
) -> tuple[Array, Array]:
    """Maximum and its index, :func:`jaxpool.max_pool_with_argmax`; see :func:`max_pool`."""
    return call(jaxpool.max_pool_with_argmax, **locals())


@public
def max_unpool(
    value: ArrayLike,
    indices: ArrayLike,
    output_shape: PerAxis,
    channel_axis: int | None = -1,
    *,
    index_space: str | int = "spatial",
    window_shape: PerAxis | None = None,
    strides: PerAxis | None = None,
    padding: Padding = "VALID",
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
) -> Array:
    """Maxima back at their indices, :func:`jaxpool.max_unpool`.

    Args:
      value, indices: of :func:`max_pool_with_argmax`.
      output_shape: an int, or one for each of the last axes of the value that was pooled.
      channel_axis: the axis that was not pooled, or None.
      index_space, window_shape, strides, padding, dilations, rounding: of the pooling.
    """
    return call(jaxpool.max_unpool, **locals())


@public
def adaptive_avg_pool(
    value: ArrayLike,
    output_size: int | Sequence[int | None],
    channel_axis: int | None = -1,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Average over ``output_size`` windows, :func:`jaxpool.adaptive_avg_pool`."""
    return call(jaxpool.adaptive_avg_pool, **locals())


@public
def adaptive_max_pool(
    value: ArrayLike,
    output_size: int | Sequence[int | None],
    channel_axis: int | None = -1,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Maximum over ``output_size`` windows, :func:`jaxpool.adaptive_max_pool`."""
    return call(jaxpool.adaptive_max_pool, **locals())


@public
def global_avg_pool(
    value: ArrayLike,
    channel_axis: int | None = -1,
    *,
    keepdims: bool = True,
    where: ArrayLike | None = None,
) -> Array:
    """Average over all axes but the first and the channels, :func:`jaxpool.global_avg_pool`."""
    return call_global(jaxpool.global_avg_pool, **locals())


@public
def global_max_pool(
    value: ArrayLike,
    channel_axis: int | None = -1,
    *,
    keepdims: bool = True,
    where: ArrayLike | None = None,
) -> Array:
    """Maximum over all axes but the first and the channels, :func:`jaxpool.global_max_pool`."""
    return call_global(jaxpool.global_max_pool, **locals())
