"""Pooling for Haiku: functions and modules, drop-in for ``hk.max_pool`` and ``hk.MaxPool``.

As in Haiku, a sequence has an entry for each of the last axes of the value. The usual entry for
``channel_axis`` leaves that axis unpooled: 1 as window, stride or dilation, 0 as padding, None as
output size, the length of the axis in an output shape. A window or stride with another entry pools
that axis, as in Haiku. With ``channel_axis`` None, no axis is excluded. All else is as in the ops,
except that averages do not count padding, as in Haiku.

Differences from Haiku, all of which :mod:`jaxpool.compat.haiku` does as Haiku:

* an int as stride applies to the axes for which the window has an entry, but for unpooled channels;
  Haiku applies it to every axis except the first and the channels;
* a stride of an axis for which the window has no entry, a value of which no axis is pooled, and a
  window that does not fit are errors.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

from jax import Array
from jax.typing import ArrayLike

import jaxpool

from .._errors.missing_names import getter, of_layers
from ._common import (
    IndexSpace,
    Method,
    Padding,
    PadMode,
    PerAxis,
    Rounding,
    exponent,
    module,
    name_errors_of_layers,
)
from ._haiku_bases import Adaptive, Global, Indexed, Layer, Sliding, Windowed, hk
from ._haiku_by_output import adaptive_avg_pool as adaptive_avg_pool
from ._haiku_by_output import adaptive_max_pool as adaptive_max_pool
from ._haiku_by_output import fractional_max_pool as fractional_max_pool
from ._haiku_by_output import global_avg_pool as global_avg_pool
from ._haiku_by_output import global_max_pool as global_max_pool
from ._haiku_by_output import max_unpool as max_unpool
from ._haiku_sliding import avg_pool as avg_pool
from ._haiku_sliding import blur_pool as blur_pool
from ._haiku_sliding import gem_pool as gem_pool
from ._haiku_sliding import logsumexp_pool as logsumexp_pool
from ._haiku_sliding import lp_pool as lp_pool
from ._haiku_sliding import max_blur_pool as max_blur_pool
from ._haiku_sliding import max_pool as max_pool
from ._haiku_sliding import max_pool_with_argmax as max_pool_with_argmax
from ._haiku_sliding import median_pool as median_pool
from ._haiku_sliding import min_pool as min_pool
from ._haiku_sliding import min_pool_with_argmin as min_pool_with_argmin
from ._haiku_sliding import quantile_pool as quantile_pool
from ._haiku_sliding import soft_pool as soft_pool
from ._haiku_sliding import std_pool as std_pool
from ._haiku_sliding import stochastic_pool as stochastic_pool

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


if not TYPE_CHECKING:  # or a type checker would accept every name
    __getattr__ = getter(__name__, of_layers, __all__, jaxpool.__all__)


class MaxPool(Windowed):
    """:func:`max_pool` as a module."""

    function = staticmethod(max_pool)


class MinPool(Windowed):
    """:func:`min_pool` as a module."""

    function = staticmethod(min_pool)


@module
class AvgPool(Windowed):
    """:func:`avg_pool` as a module."""

    function = staticmethod(avg_pool)
    _: KW_ONLY
    count_include_pad: bool = False
    divisor_override: int | None = None


@module
class LpPool(Windowed):
    """:func:`lp_pool` as a module."""

    function = staticmethod(lp_pool)
    _: KW_ONLY
    p: float = 2


@module
class GeMPool(Windowed):
    """:func:`gem_pool` as a module that learns its exponent, the parameter ``p``.

    Attributes:
      p: the initial value: a number, or an array that broadcasts to the value with length 1 on the
        pooled axes, such as one number per channel.
    """

    function = staticmethod(gem_pool)
    _: KW_ONLY
    p: float | Sequence[Any] | ArrayLike = 3.0
    eps: float = 1e-6
    name: str | None = "gem_pool"

    def __call__(self, value: ArrayLike, *, where: ArrayLike | None = None) -> Array:
        initial = exponent(self.p)
        p = hk.get_parameter("p", initial.shape, initial.dtype, lambda shape, dtype: initial)
        return self._call(value, where=where, p=p)


@module
class MaxPoolWithArgmax(Indexed):
    """:func:`max_pool_with_argmax` as a module: returns (values, indices)."""

    function = staticmethod(max_pool_with_argmax)


@module
class MaxUnpool(Layer):
    """:func:`max_unpool` as a module, after a :class:`MaxPoolWithArgmax`."""

    function = staticmethod(max_unpool)
    channel_axis: int | None = -1
    _: KW_ONLY
    index_space: IndexSpace = "spatial"
    window_shape: PerAxis | None = None
    strides: PerAxis | None = None
    padding: Padding = "VALID"
    dilations: PerAxis = 1
    rounding: Rounding = "floor"
    name: str | None = None

    def __call__(self, value: ArrayLike, indices: ArrayLike, output_shape: PerAxis) -> Array:
        return self._call(value, indices, output_shape)


class AdaptiveAvgPool(Adaptive):
    """:func:`adaptive_avg_pool` as a module."""

    function = staticmethod(adaptive_avg_pool)


class AdaptiveMaxPool(Adaptive):
    """:func:`adaptive_max_pool` as a module."""

    function = staticmethod(adaptive_max_pool)


class GlobalAvgPool(Global):
    """:func:`global_avg_pool` as a module."""

    function = staticmethod(global_avg_pool)


class GlobalMaxPool(Global):
    """:func:`global_max_pool` as a module."""

    function = staticmethod(global_max_pool)


@module
class BlurPool(Sliding):
    """:func:`blur_pool` as a module."""

    function = staticmethod(blur_pool)
    _: KW_ONLY
    mode: PadMode = "reflect"


@module
class MaxBlurPool(Sliding):
    """:func:`max_blur_pool` as a module."""

    function = staticmethod(max_blur_pool)
    _: KW_ONLY
    blur_shape: PerAxis = 3
    mode: PadMode = "reflect"


@module
class StdPool(Sliding):
    """:func:`std_pool` as a module."""

    function = staticmethod(std_pool)
    _: KW_ONLY
    correction: int = 0


@module
class QuantilePool(Sliding):
    """:func:`quantile_pool` as a module."""

    function = staticmethod(quantile_pool)
    _: KW_ONLY
    q: float
    method: Method = "linear"


class MedianPool(Sliding):
    """:func:`median_pool` as a module."""

    function = staticmethod(median_pool)


@module
class LogSumExpPool(Windowed):
    """:func:`logsumexp_pool` as a module."""

    function = staticmethod(logsumexp_pool)
    _: KW_ONLY
    temperature: float = 1.0


class SoftPool(Windowed):
    """:func:`soft_pool` as a module."""

    function = staticmethod(soft_pool)


@module
class MinPoolWithArgmin(Indexed):
    """:func:`min_pool_with_argmin` as a module: returns (values, indices)."""

    function = staticmethod(min_pool_with_argmin)


@module
class StochasticPool(Sliding):
    """:func:`stochastic_pool` as a module, with a key of ``hk.next_rng_key``.

    The argument ``deterministic`` of a call overrides that of the module.
    """

    function = staticmethod(stochastic_pool)
    _: KW_ONLY
    deterministic: bool = False

    def __call__(
        self, value: ArrayLike, *, where: ArrayLike | None = None, deterministic: bool | None = None
    ) -> Array:
        is_deterministic = self.deterministic if deterministic is None else deterministic
        key = None if is_deterministic else hk.next_rng_key()
        return self._call(key, value, where=where, deterministic=is_deterministic)


@module
class FractionalMaxPool(Layer):
    """:func:`fractional_max_pool` as a module, with a key of ``hk.next_rng_key``."""

    function = staticmethod(fractional_max_pool)
    window_shape: PerAxis
    output_size: PerAxis
    channel_axis: int | None = -1
    _: KW_ONLY
    name: str | None = None

    def __call__(
        self, value: ArrayLike, *, where: ArrayLike | None = None, samples: ArrayLike | None = None
    ) -> Array:
        key = hk.next_rng_key() if samples is None else None
        return self._call(key, value, where=where, samples=samples)


name_errors_of_layers(globals())
