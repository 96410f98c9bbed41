"""Blurs, statistics, ranks, smooth maxima and random pools with the axes of Haiku."""

from jax import Array
from jax.typing import ArrayLike, DTypeLike

import jaxpool

from .._errors import public
from ._common import Padding, PerAxis, Rounding, fractional, stochastic
from ._haiku_axes import call


@public
def blur_pool(
    value: ArrayLike,
    window_shape: PerAxis,
    strides: PerAxis,
    padding: Padding = "VALID",
    channel_axis: int | None = -1,
    *,
    mode: str = "reflect",
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
) -> Array:
    """Binomial blur, :func:`jaxpool.blur_pool`; other arguments as :func:`max_pool`."""
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
    mode: str = "reflect",
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
) -> Array:
    """Maximum and a binomial blur, :func:`jaxpool.max_blur_pool`; see :func:`max_pool`."""
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
    """Standard deviation, :func:`jaxpool.std_pool`; other arguments as :func:`max_pool`."""
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
    method: str = "linear",
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
) -> Array:
    """A quantile, :func:`jaxpool.quantile_pool`; other arguments as :func:`max_pool`."""
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
    """Median, :func:`jaxpool.median_pool`; other arguments as :func:`max_pool`."""
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
    """Smooth maximum, :func:`jaxpool.logsumexp_pool`; other arguments as :func:`max_pool`."""
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
    """Softmax-weighted average, :func:`jaxpool.soft_pool`; other arguments as :func:`max_pool`."""
    return call(jaxpool.soft_pool, **locals())


@public
def min_pool_with_argmin(
    value: ArrayLike,
    window_shape: PerAxis,
    strides: PerAxis,
    padding: Padding = "VALID",
    channel_axis: int | None = -1,
    *,
    index_space: str | int = "spatial",
    index_dtype: DTypeLike | None = None,
    dilations: PerAxis = 1,
    rounding: Rounding = "floor",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> tuple[Array, Array]:
    """Minimum and its index, :func:`jaxpool.min_pool_with_argmin`; see :func:`max_pool`."""
    return call(jaxpool.min_pool_with_argmin, **locals())


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
    """A random element, :func:`jaxpool.stochastic_pool`; other arguments as :func:`max_pool`."""
    return call(stochastic, **locals())


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
    """Maximum over windows at random places, :func:`jaxpool.fractional_max_pool`.

    Args:
      key, samples, where: as in :func:`jaxpool.fractional_max_pool`.
      value, window_shape, channel_axis: as in :func:`max_pool`.
      output_size: an int, or one for each of the last axes of ``value``, None for an axis that is
        not pooled.
    """
    return call(fractional, **locals())
