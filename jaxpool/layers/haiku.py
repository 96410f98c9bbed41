"""Pooling for Haiku: functions and modules, drop-in for ``hk.max_pool`` and ``hk.MaxPool``.

Arguments are written as in Haiku, with an entry for each of the last axes of the value. The entry
of ``channel_axis`` leaves that axis alone: 1 as window, stride or dilation, 0 as padding, None as
output size, its own length in an output shape. A window that names the axis with another entry
pools it, as in Haiku. ``channel_axis`` None leaves no axis out. All else is as in the ops, but that
averages do not count padding, as in Haiku.

What differs from Haiku: an int as stride stands for the pooled axes alone, where Haiku thins every
axis but the first and the channels, also one that the window leaves alone.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from jax import Array
from jax.typing import ArrayLike

from ._common import (
    Padding,
    PerAxis,
    Rounding,
    exponent,
    name_errors_of_layers,
    not_installed,
    settings,
)
from ._haiku_functions import adaptive_avg_pool as adaptive_avg_pool
from ._haiku_functions import adaptive_max_pool as adaptive_max_pool
from ._haiku_functions import avg_pool as avg_pool
from ._haiku_functions import gem_pool as gem_pool
from ._haiku_functions import global_avg_pool as global_avg_pool
from ._haiku_functions import global_max_pool as global_max_pool
from ._haiku_functions import lp_pool as lp_pool
from ._haiku_functions import max_pool as max_pool
from ._haiku_functions import max_pool_with_argmax as max_pool_with_argmax
from ._haiku_functions import max_unpool as max_unpool
from ._haiku_functions import min_pool as min_pool
from ._haiku_further import blur_pool as blur_pool
from ._haiku_further import fractional_max_pool as fractional_max_pool
from ._haiku_further import logsumexp_pool as logsumexp_pool
from ._haiku_further import max_blur_pool as max_blur_pool
from ._haiku_further import median_pool as median_pool
from ._haiku_further import min_pool_with_argmin as min_pool_with_argmin
from ._haiku_further import quantile_pool as quantile_pool
from ._haiku_further import soft_pool as soft_pool
from ._haiku_further import std_pool as std_pool
from ._haiku_further import stochastic_pool as stochastic_pool

try:
    import haiku as hk
except ModuleNotFoundError as error:
    raise not_installed("haiku", "haiku", error) from None

__all__ = [
    "AdaptiveAvgPool",
    "AdaptiveMaxPool",
    "AvgPool",
    "BlurPool",
    "FractionalMaxPool",
    "GeMPool",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "LogSumExpPool",
    "LpPool",
    "MaxBlurPool",
    "MaxPool",
    "MaxPoolWithArgmax",
    "MaxUnpool",
    "MedianPool",
    "MinPool",
    "MinPoolWithArgmin",
    "QuantilePool",
    "SoftPool",
    "StdPool",
    "StochasticPool",
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "avg_pool",
    "blur_pool",
    "fractional_max_pool",
    "gem_pool",
    "global_avg_pool",
    "global_max_pool",
    "logsumexp_pool",
    "lp_pool",
    "max_blur_pool",
    "max_pool",
    "max_pool_with_argmax",
    "max_unpool",
    "median_pool",
    "min_pool",
    "min_pool_with_argmin",
    "quantile_pool",
    "soft_pool",
    "std_pool",
    "stochastic_pool",
]


def __dir__() -> list[str]:
    return list(__all__)


_keyword = partial(dataclasses.field, kw_only=True)
_module = dataclasses.dataclass(eq=False, repr=False)


class _Layer(hk.Module):
    function: ClassVar[Callable[..., Any]]

    def _call(self, *arrays: Any, **options: Any) -> Any:
        return self.function(*arrays, **{**settings(self, besides=("name",)), **options})


class _Pool(_Layer):
    def __call__(self, value: ArrayLike, *, where: ArrayLike | None = None) -> Any:
        return self._call(value, where=where)


@_module
class _Sliding(_Pool):
    window_shape: PerAxis
    strides: PerAxis
    padding: Padding = "VALID"
    channel_axis: int | None = -1
    dilations: PerAxis = _keyword(default=1)
    rounding: Rounding = _keyword(default="floor")
    name: str | None = _keyword(default=None)


@_module
class _Windowed(_Sliding):
    implementation: str = _keyword(default="auto")


@_module
class _Adaptive(_Pool):
    output_size: int | Sequence[int | None]
    channel_axis: int | None = -1
    name: str | None = _keyword(default=None)


@_module
class _Global(_Pool):
    channel_axis: int | None = -1
    keepdims: bool = _keyword(default=True)
    name: str | None = _keyword(default=None)


class MaxPool(_Windowed):
    """:func:`max_pool` as a module."""

    function = staticmethod(max_pool)


class MinPool(_Windowed):
    """:func:`min_pool` as a module."""

    function = staticmethod(min_pool)


@_module
class AvgPool(_Windowed):
    """:func:`avg_pool` as a module."""

    function = staticmethod(avg_pool)
    count_include_pad: bool = _keyword(default=False)
    divisor_override: int | None = _keyword(default=None)


@_module
class LpPool(_Windowed):
    """:func:`lp_pool` as a module."""

    function = staticmethod(lp_pool)
    p: float = _keyword(default=2)


@_module
class GeMPool(_Windowed):
    """:func:`gem_pool` as a module that learns its exponent, the parameter ``p``.

    Attributes:
      p: its initial value: a number, or an array that broadcasts to the value with length 1 on the
        pooled axes, such as one number per channel.
    """

    function = staticmethod(gem_pool)
    p: float | Sequence[Any] | ArrayLike = _keyword(default=3.0)
    eps: float = _keyword(default=1e-6)
    name: str | None = _keyword(default="gem_pool")

    def __call__(self, value: ArrayLike, *, where: ArrayLike | None = None) -> Array:
        start = exponent(self.p)
        p = hk.get_parameter("p", start.shape, start.dtype, lambda shape, dtype: start)
        return self._call(value, where=where, p=p)


@_module
class MaxPoolWithArgmax(_Windowed):
    """:func:`max_pool_with_argmax` as a module: returns (values, indices)."""

    function = staticmethod(max_pool_with_argmax)
    index_space: str | int = _keyword(default="spatial")
    index_dtype: Any = _keyword(default=None)


@_module
class MaxUnpool(_Layer):
    """:func:`max_unpool` as a module, after a :class:`MaxPoolWithArgmax`."""

    function = staticmethod(max_unpool)
    channel_axis: int | None = -1
    index_space: str | int = _keyword(default="spatial")
    window_shape: PerAxis | None = _keyword(default=None)
    strides: PerAxis | None = _keyword(default=None)
    padding: Padding = _keyword(default="VALID")
    dilations: PerAxis = _keyword(default=1)
    rounding: Rounding = _keyword(default="floor")
    name: str | None = _keyword(default=None)

    def __call__(self, value: ArrayLike, indices: ArrayLike, output_shape: PerAxis) -> Array:
        return self._call(value, indices, output_shape)


class AdaptiveAvgPool(_Adaptive):
    """:func:`adaptive_avg_pool` as a module."""

    function = staticmethod(adaptive_avg_pool)


class AdaptiveMaxPool(_Adaptive):
    """:func:`adaptive_max_pool` as a module."""

    function = staticmethod(adaptive_max_pool)


class GlobalAvgPool(_Global):
    """:func:`global_avg_pool` as a module."""

    function = staticmethod(global_avg_pool)


class GlobalMaxPool(_Global):
    """:func:`global_max_pool` as a module."""

    function = staticmethod(global_max_pool)


@_module
class BlurPool(_Sliding):
    """:func:`blur_pool` as a module."""

    function = staticmethod(blur_pool)
    mode: str = _keyword(default="reflect")


@_module
class MaxBlurPool(_Sliding):
    """:func:`max_blur_pool` as a module."""

    function = staticmethod(max_blur_pool)
    blur_shape: PerAxis = _keyword(default=3)
    mode: str = _keyword(default="reflect")


@_module
class StdPool(_Sliding):
    """:func:`std_pool` as a module."""

    function = staticmethod(std_pool)
    correction: int = _keyword(default=0)


@_module
class QuantilePool(_Sliding):
    """:func:`quantile_pool` as a module."""

    function = staticmethod(quantile_pool)
    q: float = _keyword()
    method: str = _keyword(default="linear")


class MedianPool(_Sliding):
    """:func:`median_pool` as a module."""

    function = staticmethod(median_pool)


@_module
class LogSumExpPool(_Windowed):
    """:func:`logsumexp_pool` as a module."""

    function = staticmethod(logsumexp_pool)
    temperature: float = _keyword(default=1.0)


class SoftPool(_Windowed):
    """:func:`soft_pool` as a module."""

    function = staticmethod(soft_pool)


@_module
class MinPoolWithArgmin(_Windowed):
    """:func:`min_pool_with_argmin` as a module: returns (values, indices)."""

    function = staticmethod(min_pool_with_argmin)
    index_space: str | int = _keyword(default="spatial")
    index_dtype: Any = _keyword(default=None)


@_module
class StochasticPool(_Sliding):
    """:func:`stochastic_pool` as a module, with a key of ``hk.next_rng_key``.

    A call may be given ``deterministic``, which then goes before that of the module.
    """

    function = staticmethod(stochastic_pool)
    deterministic: bool = _keyword(default=False)

    def __call__(
        self, value: ArrayLike, *, where: ArrayLike | None = None, deterministic: bool | None = None
    ) -> Array:
        expected = self.deterministic if deterministic is None else deterministic
        key = None if expected else hk.next_rng_key()
        return self._call(key, value, where=where, deterministic=expected)


@_module
class FractionalMaxPool(_Layer):
    """:func:`fractional_max_pool` as a module, with a key of ``hk.next_rng_key``."""

    function = staticmethod(fractional_max_pool)
    window_shape: PerAxis
    output_size: PerAxis
    channel_axis: int | None = -1
    name: str | None = _keyword(default=None)

    def __call__(self, value: ArrayLike, *, where: Any = None, samples: Any = None) -> Array:
        key = hk.next_rng_key() if samples is None else None
        return self._call(key, value, where=where, samples=samples)


name_errors_of_layers(globals())
