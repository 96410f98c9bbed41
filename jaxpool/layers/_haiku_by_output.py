"""Adaptive, fractional and global pools and unpooling, whose output size is fixed, for Haiku."""

from jax import Array
from jax.typing import ArrayLike

import jaxpool

from .._errors import public
from ._common import IndexSpace, OutputSize, Padding, PerAxis, Rounding, fractional
from ._haiku_axes import call, call_global


@public
def adaptive_avg_pool(
    value: ArrayLike,
    output_size: OutputSize,
    channel_axis: int | None = -1,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Return the average over ``output_size`` windows, as :func:`jaxpool.adaptive_avg_pool`."""
    return call(jaxpool.adaptive_avg_pool, **locals())


@public
def adaptive_max_pool(
    value: ArrayLike,
    output_size: OutputSize,
    channel_axis: int | None = -1,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Return the maximum over ``output_size`` windows, as :func:`jaxpool.adaptive_max_pool`."""
    return call(jaxpool.adaptive_max_pool, **locals())


@public
def fractional_max_pool(
    key: ArrayLike | None,
    value: ArrayLike,
    window_shape: PerAxis,
    output_size: PerAxis,
    channel_axis: int | None = -1,
    *,
    samples: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the maximum over windows at random positions, as :func:`jaxpool.fractional_max_pool`.

    Args:
      key, samples, where: as in :func:`jaxpool.fractional_max_pool`.
      value, window_shape, channel_axis: as in :func:`max_pool`.
      output_size: an int, or one for each of the last axes of ``value``, with None for an axis that
        is not pooled.
    """
    return call(fractional, **locals())


@public
def global_avg_pool(
    value: ArrayLike,
    channel_axis: int | None = -1,
    *,
    keepdims: bool = True,
    where: ArrayLike | None = None,
) -> Array:
    """Return the average over all axes except the first and the channels.

    See :func:`jaxpool.global_avg_pool`.
    """
    return call_global(jaxpool.global_avg_pool, **locals())


@public
def global_max_pool(
    value: ArrayLike,
    channel_axis: int | None = -1,
    *,
    keepdims: bool = True,
    where: ArrayLike | None = None,
) -> Array:
    """Return the maximum over all axes except the first and the channels.

    See :func:`jaxpool.global_max_pool`.
    """
    return call_global(jaxpool.global_max_pool, **locals())


@public
def max_unpool(
    value: ArrayLike,
    indices: ArrayLike,
    output_shape: PerAxis,
    channel_axis: int | None = -1,
    *,
    index_space: IndexSpace = "spatial",
    window_shape: PerAxis | None = None,
    strides: PerAxis | None = None,
    padding: Padding = "VALID",
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
) -> Array:
    """Return an array with each maximum at its index, as :func:`jaxpool.max_unpool`.

    Args:
      value, indices: the results of :func:`max_pool_with_argmax`.
      output_shape: an int, or one for each of the last axes of the array that was pooled. Without
        a sequence as ``window_shape``, a first axis of unchanged length is not pooled.
      channel_axis: the axis that was not pooled, or None.
      index_space, window_shape, strides, padding, dilations, rounding: arguments of the pooling.
    """
    return call(jaxpool.max_unpool, **locals())
