"""Pooling layers for Equinox: modules for one example, channels first; batch by ``jax.vmap``.

The fields of a layer are the static settings of its op, except ``data_format``. ``where`` is an
argument of the call. ``key`` is accepted and ignored, as in every layer of Equinox, except in
:class:`StochasticPool` and :class:`FractionalMaxPool`, which use it.
"""

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING

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
    fractional,
    hashable,
    name_errors_of_layers,
    show_types_of_layers,
    stochastic,
)
from ._equinox_bases import Adaptive, Global, Indexed, Layer, Sliding, Windowed, eqx, static

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
]


def __dir__() -> list[str]:
    return list(__all__)


if not TYPE_CHECKING:  # or a type checker would accept every name
    __getattr__ = getter(__name__, of_layers, __all__, jaxpool.__all__)


class MaxPool(Windowed):
    """:func:`jaxpool.max_pool` as a layer."""

    op = staticmethod(jaxpool.max_pool)


class MinPool(Windowed):
    """:func:`jaxpool.min_pool` as a layer."""

    op = staticmethod(jaxpool.min_pool)


class AvgPool(Windowed):
    """:func:`jaxpool.avg_pool` as a layer."""

    op = staticmethod(jaxpool.avg_pool)
    _: KW_ONLY
    count_include_pad: bool = static(default=True)
    divisor_override: int | None = static(default=None)


class LpPool(Windowed):
    """:func:`jaxpool.lp_pool` as a layer."""

    op = staticmethod(jaxpool.lp_pool)
    _: KW_ONLY
    p: float = static(default=2)


class GeMPool(Windowed):
    """:func:`jaxpool.gem_pool` as a layer that learns its exponent, the array ``p``.

    Attributes:
      p: the exponent. The argument is its initial value: a number, or an array that broadcasts to
        ``x`` with length 1 on the pooled axes, such as one number per channel.
    """

    op = staticmethod(jaxpool.gem_pool)
    p: Array = eqx.field(default=3.0, converter=exponent, kw_only=True)
    _: KW_ONLY
    eps: float = static(default=1e-6)


class MaxPoolWithArgmax(Indexed):
    """:func:`jaxpool.max_pool_with_argmax` as a layer: returns (values, indices)."""

    op = staticmethod(jaxpool.max_pool_with_argmax)


class MaxUnpool(Layer):
    """:func:`jaxpool.max_unpool` as a layer, after a :class:`MaxPoolWithArgmax`."""

    op = staticmethod(jaxpool.max_unpool)
    _: KW_ONLY
    index_space: IndexSpace = static(default="spatial")
    window_shape: PerAxis | None = static(default=None)
    strides: PerAxis | None = static(default=None)
    padding: Padding = static(default="VALID")
    dilations: PerAxis = static(default=1)
    rounding: Rounding = static(default="floor")

    def __call__(
        self, y: ArrayLike, indices: ArrayLike, output_shape: PerAxis, *, key: Array | None = None
    ) -> Array:
        return self._call(y, indices, output_shape, sizes=("output_shape", output_shape))


class AdaptiveAvgPool(Adaptive):
    """:func:`jaxpool.adaptive_avg_pool` as a layer."""

    op = staticmethod(jaxpool.adaptive_avg_pool)


class AdaptiveMaxPool(Adaptive):
    """:func:`jaxpool.adaptive_max_pool` as a layer."""

    op = staticmethod(jaxpool.adaptive_max_pool)


class GlobalAvgPool(Global):
    """:func:`jaxpool.global_avg_pool` as a layer."""

    op = staticmethod(jaxpool.global_avg_pool)


class GlobalMaxPool(Global):
    """:func:`jaxpool.global_max_pool` as a layer."""

    op = staticmethod(jaxpool.global_max_pool)


class BlurPool(Sliding):
    """:func:`jaxpool.blur_pool` as a layer."""

    op = staticmethod(jaxpool.blur_pool)
    _: KW_ONLY
    mode: PadMode = static(default="reflect")


class MaxBlurPool(Sliding):
    """:func:`jaxpool.max_blur_pool` as a layer."""

    op = staticmethod(jaxpool.max_blur_pool)
    _: KW_ONLY
    blur_shape: PerAxis = static(default=3)
    mode: PadMode = static(default="reflect")


class StdPool(Sliding):
    """:func:`jaxpool.std_pool` as a layer."""

    op = staticmethod(jaxpool.std_pool)
    _: KW_ONLY
    correction: int = static(default=0)


class QuantilePool(Sliding):
    """:func:`jaxpool.quantile_pool` as a layer."""

    op = staticmethod(jaxpool.quantile_pool)
    _: KW_ONLY
    q: float = eqx.field(static=True, converter=hashable)
    method: Method = static(default="linear")


class MedianPool(Sliding):
    """:func:`jaxpool.median_pool` as a layer."""

    op = staticmethod(jaxpool.median_pool)


class LogSumExpPool(Windowed):
    """:func:`jaxpool.logsumexp_pool` as a layer."""

    op = staticmethod(jaxpool.logsumexp_pool)
    _: KW_ONLY
    temperature: float = static(default=1.0)


class SoftPool(Windowed):
    """:func:`jaxpool.soft_pool` as a layer."""

    op = staticmethod(jaxpool.soft_pool)


class MinPoolWithArgmin(Indexed):
    """:func:`jaxpool.min_pool_with_argmin` as a layer: returns (values, indices)."""

    op = staticmethod(jaxpool.min_pool_with_argmin)


class StochasticPool(Sliding):
    """:func:`jaxpool.stochastic_pool` as a layer, with the ``key`` of the call.

    Attributes:
      inference: whether to return the expectation, ``deterministic`` of the op. It is changed by
        ``eqx.nn.inference_mode`` and overridden by the argument of a call.
    """

    op = staticmethod(stochastic)
    inference: bool = eqx.field(default=False, kw_only=True)

    def __call__(
        self,
        x: ArrayLike,
        *,
        where: ArrayLike | None = None,
        key: Array | None = None,
        inference: bool | None = None,
    ) -> Array:
        is_deterministic = self.inference if inference is None else inference
        sizes, op_key = ("window_shape", self.window_shape), None if is_deterministic else key
        return self._call(x, sizes=sizes, where=where, key=op_key, deterministic=is_deterministic)


class FractionalMaxPool(Layer):
    """:func:`jaxpool.fractional_max_pool` as a layer, with ``key`` or ``samples`` of a call."""

    op = staticmethod(fractional)
    window_shape: PerAxis = eqx.field(static=True, converter=hashable)
    output_size: PerAxis = eqx.field(static=True, converter=hashable)

    def __call__(
        self,
        x: ArrayLike,
        *,
        where: ArrayLike | None = None,
        key: Array | None = None,
        samples: ArrayLike | None = None,
    ) -> Array:
        sizes, op_key = ("window_shape", self.window_shape), key if samples is None else None
        return self._call(x, sizes=sizes, where=where, key=op_key, samples=samples)


show_types_of_layers(globals())
name_errors_of_layers(globals())
