"""Pooling layers for Flax NNX: modules, channels last.

The arguments of a layer are the settings of its op, which it holds as static attributes; ``where``
is an argument of the call.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from jax import Array
from jax.typing import ArrayLike

import jaxpool

from ._common import (
    Padding,
    PerAxis,
    Rounding,
    exponent,
    fractional,
    hashable,
    name_errors_of_layers,
    not_installed,
    settings,
    stochastic,
)

try:
    from flax import nnx
except ModuleNotFoundError as error:
    raise not_installed("nnx", "flax", error) from None

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


_keyword = partial(dataclasses.field, kw_only=True)
_module = dataclasses.dataclass(eq=False, repr=False)


class _Layer(nnx.Module):
    op: ClassVar[Callable[..., Any]]

    def __post_init__(self) -> None:
        for name, value in settings(self, besides=("rngs",)).items():
            setattr(self, name, hashable(value))

    def _call(self, *arrays: Any, **options: Any) -> Any:
        return self.op(*arrays, **{**settings(self, besides=("rngs",)), **options})


class _Pool(_Layer):
    def __call__(self, x: ArrayLike, *, where: ArrayLike | None = None) -> Any:
        return self._call(x, where=where)


@_module
class _Sliding(_Pool):
    window_shape: PerAxis
    strides: PerAxis
    padding: Padding = "VALID"
    dilations: PerAxis = _keyword(default=1)
    rounding: Rounding = _keyword(default="floor")
    data_format: str = _keyword(default="channels_last")


@_module
class _Windowed(_Sliding):
    implementation: str = _keyword(default="auto")


@_module
class _Adaptive(_Pool):
    output_size: int | Sequence[int | None]
    data_format: str = _keyword(default="channels_last")


@_module
class _Global(_Pool):
    data_format: str = _keyword(default="channels_last")
    keepdims: bool = _keyword(default=True)


class MaxPool(_Windowed):
    """:func:`jaxpool.max_pool` as a layer."""

    op = staticmethod(jaxpool.max_pool)


class MinPool(_Windowed):
    """:func:`jaxpool.min_pool` as a layer."""

    op = staticmethod(jaxpool.min_pool)


@_module
class AvgPool(_Windowed):
    """:func:`jaxpool.avg_pool` as a layer."""

    op = staticmethod(jaxpool.avg_pool)
    count_include_pad: bool = _keyword(default=True)
    divisor_override: int | None = _keyword(default=None)


@_module
class LpPool(_Windowed):
    """:func:`jaxpool.lp_pool` as a layer."""

    op = staticmethod(jaxpool.lp_pool)
    p: float = _keyword(default=2)


@_module
class GeMPool(_Windowed):
    """:func:`jaxpool.gem_pool` as a layer that learns its exponent, the ``nnx.Param`` ``p``.

    Attributes:
      p: the exponent. The argument is its initial value: a number, or an array that broadcasts to
        ``x`` with length 1 on the pooled axes, such as one number per channel.
    """

    op = staticmethod(jaxpool.gem_pool)
    p: Any = _keyword(default=3.0)
    eps: float = _keyword(default=1e-6)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.p = nnx.data(nnx.Param(exponent(self.p)))

    def __call__(self, x: ArrayLike, *, where: ArrayLike | None = None) -> Array:
        return self._call(x, where=where, p=self.p[...])


@_module
class MaxPoolWithArgmax(_Windowed):
    """:func:`jaxpool.max_pool_with_argmax` as a layer: returns (values, indices)."""

    op = staticmethod(jaxpool.max_pool_with_argmax)
    index_space: str | int = _keyword(default="spatial")
    index_dtype: Any = _keyword(default=None)


@_module
class MaxUnpool(_Layer):
    """:func:`jaxpool.max_unpool` as a layer, after a :class:`MaxPoolWithArgmax`."""

    op = staticmethod(jaxpool.max_unpool)
    index_space: str | int = _keyword(default="spatial")
    data_format: str = _keyword(default="channels_last")
    window_shape: PerAxis | None = _keyword(default=None)
    strides: PerAxis | None = _keyword(default=None)
    padding: Padding = _keyword(default="VALID")
    dilations: PerAxis = _keyword(default=1)
    rounding: Rounding = _keyword(default="floor")

    def __call__(self, y: ArrayLike, indices: ArrayLike, output_shape: PerAxis) -> Array:
        return self._call(y, indices, output_shape)


class AdaptiveAvgPool(_Adaptive):
    """:func:`jaxpool.adaptive_avg_pool` as a layer."""

    op = staticmethod(jaxpool.adaptive_avg_pool)


class AdaptiveMaxPool(_Adaptive):
    """:func:`jaxpool.adaptive_max_pool` as a layer."""

    op = staticmethod(jaxpool.adaptive_max_pool)


class GlobalAvgPool(_Global):
    """:func:`jaxpool.global_avg_pool` as a layer."""

    op = staticmethod(jaxpool.global_avg_pool)


class GlobalMaxPool(_Global):
    """:func:`jaxpool.global_max_pool` as a layer."""

    op = staticmethod(jaxpool.global_max_pool)


@_module
class BlurPool(_Sliding):
    """:func:`jaxpool.blur_pool` as a layer."""

    op = staticmethod(jaxpool.blur_pool)
    mode: str = _keyword(default="reflect")


@_module
class MaxBlurPool(_Sliding):
    """:func:`jaxpool.max_blur_pool` as a layer."""

    op = staticmethod(jaxpool.max_blur_pool)
    blur_shape: PerAxis = _keyword(default=3)
    mode: str = _keyword(default="reflect")


@_module
class StdPool(_Sliding):
    """:func:`jaxpool.std_pool` as a layer."""

    op = staticmethod(jaxpool.std_pool)
    correction: int = _keyword(default=0)


@_module
class QuantilePool(_Sliding):
    """:func:`jaxpool.quantile_pool` as a layer."""

    op = staticmethod(jaxpool.quantile_pool)
    q: float = _keyword()
    method: str = _keyword(default="linear")


class MedianPool(_Sliding):
    """:func:`jaxpool.median_pool` as a layer."""

    op = staticmethod(jaxpool.median_pool)


@_module
class LogSumExpPool(_Windowed):
    """:func:`jaxpool.logsumexp_pool` as a layer."""

    op = staticmethod(jaxpool.logsumexp_pool)
    temperature: float = _keyword(default=1.0)


class SoftPool(_Windowed):
    """:func:`jaxpool.soft_pool` as a layer."""

    op = staticmethod(jaxpool.soft_pool)


@_module
class MinPoolWithArgmin(_Windowed):
    """:func:`jaxpool.min_pool_with_argmin` as a layer: returns (values, indices)."""

    op = staticmethod(jaxpool.min_pool_with_argmin)
    index_space: str | int = _keyword(default="spatial")
    index_dtype: Any = _keyword(default=None)


@_module
class _Random(_Layer):
    """A layer that draws from a stream."""

    rngs: Any = _keyword(default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rngs = nnx.data(self.rngs and self.rngs["pooling"].fork())

    def _key(self, needed: bool) -> Any:
        return self.rngs() if needed and self.rngs is not None else None


@_module
class StochasticPool(_Sliding, _Random):
    """:func:`jaxpool.stochastic_pool` as a layer, with keys of the stream "pooling".

    A call may be given ``deterministic``, which then goes before that of the layer.

    Attributes:
      rngs: the stream, forked from the ``nnx.Rngs`` that is given; None if ``deterministic``.
    """

    op = staticmethod(stochastic)
    deterministic: bool = _keyword(default=False)

    def __call__(
        self,
        x: ArrayLike,
        *,
        where: ArrayLike | None = None,
        deterministic: bool | None = None,
    ) -> Array:
        expected = self.deterministic if deterministic is None else deterministic
        return self._call(x, where=where, key=self._key(not expected), deterministic=expected)


@_module
class FractionalMaxPool(_Random):
    """:func:`jaxpool.fractional_max_pool` as a layer, with keys of the stream "pooling".

    A call may be given ``samples``, which then stand for the key.

    Attributes:
      rngs: the stream, forked from the ``nnx.Rngs`` that is given.
    """

    op = staticmethod(fractional)
    window_shape: PerAxis
    output_size: PerAxis
    data_format: str = _keyword(default="channels_last")

    def __call__(
        self, x: ArrayLike, *, where: ArrayLike | None = None, samples: ArrayLike | None = None
    ) -> Array:
        return self._call(x, where=where, key=self._key(samples is None), samples=samples)


name_errors_of_layers(globals())
