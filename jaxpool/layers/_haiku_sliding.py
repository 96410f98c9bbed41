"""Pools over sliding windows, with the axis conventions of Haiku."""

from jax import Array
from jax.typing import ArrayLike, DTypeLike

import jaxpool

from .._errors import public
from ._common import IndexSpace, Method, Padding, PadMode, PerAxis, Rounding, stochastic
from ._haiku_axes import call


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
    """Return the maximum over sliding windows, as ``hk.max_pool`` and :func:`jaxpool.max_pool`.

    Args:
      value: array to pool.
      window_shape, strides: an int, or one for each of the last axes of ``value``.
      padding: "SAME", "VALID" or as in :func:`jaxpool.max_pool`, with an entry for each axis.
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
    """Return the minimum over sliding windows, as :func:`jaxpool.min_pool`.

    Other arguments as in :func:`max_pool`.
    """
    return call(jaxpool.min_pool, **locals())


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
    index_space: IndexSpace = "spatial",
    index_dtype: DTypeLike | None = None,
) -> tuple[Array, Array]:
    """Return the maximum and its index, as :func:`jaxpool.max_pool_with_argmax`.

    Other arguments as in :func:`max_pool`. Spatial indices also count channels between pooled axes.
    """
    return call(jaxpool.max_pool_with_argmax, **locals())


@public
def min_pool_with_argmin(
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
    index_space: IndexSpace = "spatial",
    index_dtype: DTypeLike | None = None,
) -> tuple[Array, Array]:
    """Return the minimum and its index, as :func:`jaxpool.min_pool_with_argmin`.

    Other arguments as in :func:`max_pool_with_argmax`.
    """
    return call(jaxpool.min_pool_with_argmin, **locals())


@public
def avg_pool(
    value: ArrayLike,
    window_shape: PerAxis,
    strides: PerAxis,
    padding: Padding = "VALID",
    channel_axis: int | None = -1,
    *,
    count_include_pad: bool = False,
    divisor_override: int | None = None,
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Array:
    """Return the average over sliding windows, as ``hk.avg_pool`` and :func:`jaxpool.avg_pool`.

    Args:
      value, window_shape, strides, padding, channel_axis: as in :func:`max_pool`.
      count_include_pad: whether padding counts; default False, as in Haiku.
      divisor_override, dilations, rounding, where, implementation: as in :func:`jaxpool.avg_pool`.
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
    p: float = 2,
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Array:
    """Return the Lp norm, as :func:`jaxpool.lp_pool`; see :func:`max_pool`."""
    return call(jaxpool.lp_pool, **locals())


@public
def gem_pool(
    value: ArrayLike,
    window_shape: PerAxis,
    strides: PerAxis,
    padding: Padding = "VALID",
    channel_axis: int | None = -1,
    *,
    p: float | ArrayLike = 3.0,
    eps: float = 1e-6,
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Array:
    """Return the generalised mean, as :func:`jaxpool.gem_pool`; see :func:`max_pool`."""
    return call(jaxpool.gem_pool, **locals())


@public
def blur_pool(
    value: ArrayLike,
    window_shape: PerAxis,
    strides: PerAxis,
    padding: Padding = "VALID",
    channel_axis: int | None = -1,
    *,
    mode: PadMode = "reflect",
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
) -> Array:
    """Return the binomial blur, as :func:`jaxpool.blur_pool`; see :func:`max_pool`."""
    return call(jaxpool.blur_pool, **locals())


@public
def max_blur_pool(
    value: ArrayLike,
    window_shape: PerAxis,
    strides: PerAxis,
    padding: Padding = "VALID",
    channel_axis: int | None = -1,
    *,
    blur_shape: PerAxis = 3,
    mode: PadMode = "reflect",
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
) -> Array:
    """Return the blurred maximum, as :func:`jaxpool.max_blur_pool`; see :func:`max_pool`."""
    return call(jaxpool.max_blur_pool, **locals())


@public
def std_pool(
    value: ArrayLike,
    window_shape: PerAxis,
    strides: PerAxis,
    padding: Padding = "VALID",
    channel_axis: int | None = -1,
    *,
    correction: int = 0,
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
) -> Array:
    """Return the standard deviation, as :func:`jaxpool.std_pool`; see :func:`max_pool`."""
    return call(jaxpool.std_pool, **locals())


@public
def quantile_pool(
    value: ArrayLike,
    window_shape: PerAxis,
    strides: PerAxis,
    padding: Padding = "VALID",
    channel_axis: int | None = -1,
    *,
    q: float,
    method: Method = "linear",
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
) -> Array:
    """Return a quantile, as :func:`jaxpool.quantile_pool`; see :func:`max_pool`."""
    return call(jaxpool.quantile_pool, **locals())


@public
def median_pool(
    value: ArrayLike,
    window_shape: PerAxis,
    strides: PerAxis,
    padding: Padding = "VALID",
    channel_axis: int | None = -1,
    *,
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
) -> Array:
    """Return the median, as :func:`jaxpool.median_pool`; see :func:`max_pool`."""
    return call(jaxpool.median_pool, **locals())


@public
def logsumexp_pool(
    value: ArrayLike,
    window_shape: PerAxis,
    strides: PerAxis,
    padding: Padding = "VALID",
    channel_axis: int | None = -1,
    *,
    temperature: float = 1.0,
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Array:
    """Return the smooth maximum, as :func:`jaxpool.logsumexp_pool`; see :func:`max_pool`."""
    return call(jaxpool.logsumexp_pool, **locals())


@public
def soft_pool(
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
    """Return the softmax-weighted average, as :func:`jaxpool.soft_pool`; see :func:`max_pool`."""
    return call(jaxpool.soft_pool, **locals())


@public
def stochastic_pool(
    key: ArrayLike | None,
    value: ArrayLike,
    window_shape: PerAxis,
    strides: PerAxis,
    padding: Padding = "VALID",
    channel_axis: int | None = -1,
    *,
    deterministic: bool = False,
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
) -> Array:
    """Return a random element, as :func:`jaxpool.stochastic_pool`; see :func:`max_pool`."""
    return call(stochastic, **locals())
