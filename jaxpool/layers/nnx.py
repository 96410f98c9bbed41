"""Pooling layers for Flax NNX: modules, channels last.

The arguments of a layer are the settings of its op, stored as static attributes; ``where`` is an
argument of the call.
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
    fractional,
    module,
    name_errors_of_layers,
    stochastic,
)
from ._nnx_bases import Adaptive, Global, Indexed, Layer, Random, Sliding, Windowed, nnx, static

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

    op = static(jaxpool.max_pool)


class MinPool(Windowed):
    """:func:`jaxpool.min_pool` as a layer."""

    op = static(jaxpool.min_pool)


@module
class AvgPool(Windowed):
    """:func:`jaxpool.avg_pool` as a layer."""

    op = static(jaxpool.avg_pool)
    _: KW_ONLY
    count_include_pad: bool = True
    divisor_override: int | None = None


@module
class LpPool(Windowed):
    """:func:`jaxpool.lp_pool` as a layer."""

    op = static(jaxpool.lp_pool)
    _: KW_ONLY
    p: float = 2


@module
class GeMPool(Windowed):
    """:func:`jaxpool.gem_pool` as a layer that learns its exponent, the ``nnx.Param`` ``p``.

    Attributes:
      p: the exponent. The argument is its initial value: a number, or an array that broadcasts to
        ``x`` with length 1 on the pooled axes, such as one number per channel.
    """

    op = static(jaxpool.gem_pool)
    _: KW_ONLY
    p: Any = 3.0
    eps: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        self.p = nnx.data(nnx.Param(exponent(self.p)))

    def __call__(self, x: ArrayLike, *, where: ArrayLike | None = None) -> Array:
        return self._call(x, where=where, p=self.p[...])


# The field is the parameter, but the argument is its initial value.
GeMPool.__init__.__annotations__["p"] = float | Sequence[Any] | ArrayLike


@module
class MaxPoolWithArgmax(Indexed):
    """:func:`jaxpool.max_pool_with_argmax` as a layer: returns (values, indices)."""

    op = static(jaxpool.max_pool_with_argmax)


@module
class MaxUnpool(Layer):
    """:func:`jaxpool.max_unpool` as a layer, after a :class:`MaxPoolWithArgmax`."""

    op = static(jaxpool.max_unpool)
    _: KW_ONLY
    index_space: IndexSpace = "spatial"
    data_format: str = "channels_last"
    window_shape: PerAxis | None = None
    strides: PerAxis | None = None
    padding: Padding = "VALID"
    dilations: PerAxis = 1
    rounding: Rounding = "floor"

    def __call__(self, y: ArrayLike, indices: ArrayLike, output_shape: PerAxis) -> Array:
        return self._call(y, indices, output_shape)


class AdaptiveAvgPool(Adaptive):
    """:func:`jaxpool.adaptive_avg_pool` as a layer."""

    op = static(jaxpool.adaptive_avg_pool)


class AdaptiveMaxPool(Adaptive):
    """:func:`jaxpool.adaptive_max_pool` as a layer."""

    op = static(jaxpool.adaptive_max_pool)


class GlobalAvgPool(Global):
    """:func:`jaxpool.global_avg_pool` as a layer."""

    op = static(jaxpool.global_avg_pool)


class GlobalMaxPool(Global):
    """:func:`jaxpool.global_max_pool` as a layer."""

    op = static(jaxpool.global_max_pool)


@module
class BlurPool(Sliding):
    """:func:`jaxpool.blur_pool` as a layer."""

    op = static(jaxpool.blur_pool)
    _: KW_ONLY
    mode: PadMode = "reflect"


@module
class MaxBlurPool(Sliding):
    """:func:`jaxpool.max_blur_pool` as a layer."""

    op = static(jaxpool.max_blur_pool)
    _: KW_ONLY
    blur_shape: PerAxis = 3
    mode: PadMode = "reflect"


@module
class StdPool(Sliding):
    """:func:`jaxpool.std_pool` as a layer."""

    op = static(jaxpool.std_pool)
    _: KW_ONLY
    correction: int = 0


@module
class QuantilePool(Sliding):
    """:func:`jaxpool.quantile_pool` as a layer."""

    op = static(jaxpool.quantile_pool)
    _: KW_ONLY
    q: float
    method: Method = "linear"


class MedianPool(Sliding):
    """:func:`jaxpool.median_pool` as a layer."""

    op = static(jaxpool.median_pool)


@module
class LogSumExpPool(Windowed):
    """:func:`jaxpool.logsumexp_pool` as a layer."""

    op = static(jaxpool.logsumexp_pool)
    _: KW_ONLY
    temperature: float = 1.0


class SoftPool(Windowed):
    """:func:`jaxpool.soft_pool` as a layer."""

    op = static(jaxpool.soft_pool)


@module
class MinPoolWithArgmin(Indexed):
    """:func:`jaxpool.min_pool_with_argmin` as a layer: returns (values, indices)."""

    op = static(jaxpool.min_pool_with_argmin)


@module
class StochasticPool(Sliding, Random):
    """:func:`jaxpool.stochastic_pool` as a layer, with keys of the stream "pooling".

    The arguments ``deterministic`` and ``rngs`` of a call override those of the layer, and
    ``nnx.view`` sets ``deterministic``.

    Attributes:
      rngs: the stream, forked from the ``nnx.Rngs`` in the argument; None without it.
    """

    op = static(stochastic)
    _: KW_ONLY
    deterministic: bool = False

    def __call__(
        self,
        x: ArrayLike,
        *,
        where: ArrayLike | None = None,
        deterministic: bool | None = None,
        rngs: nnx.Rngs | nnx.RngStream | Array | None = None,
    ) -> Array:
        is_deterministic = self.deterministic if deterministic is None else deterministic
        key = self._key(not is_deterministic, rngs)
        return self._call(x, where=where, key=key, deterministic=is_deterministic)

    def set_view(self, deterministic: bool | None = None) -> None:
        """Set ``deterministic``; called by ``nnx.view``.

        Args:
          deterministic: if True, the layer computes the expected value and draws no key.
        """
        if deterministic is not None:
            self.deterministic = deterministic


@module
class FractionalMaxPool(Random):
    """:func:`jaxpool.fractional_max_pool` as a layer, with keys of the stream "pooling".

    The argument ``rngs`` of a call overrides that of the layer. A call with ``samples`` draws no
    key.

    Attributes:
      rngs: the stream, forked from the ``nnx.Rngs`` in the argument.
    """

    op = static(fractional)
    window_shape: PerAxis
    output_size: PerAxis
    _: KW_ONLY
    data_format: str = "channels_last"

    def __call__(
        self,
        x: ArrayLike,
        *,
        where: ArrayLike | None = None,
        samples: ArrayLike | None = None,
        rngs: nnx.Rngs | nnx.RngStream | Array | None = None,
    ) -> Array:
        key = self._key(samples is None, rngs)
        return self._call(x, where=where, key=key, samples=samples)


name_errors_of_layers(globals())
