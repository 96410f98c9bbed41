"""Pooling layers for Flax Linen: dataclass modules, channels last.

The fields of a layer are the settings of its op; ``where`` is an argument of the call. Every layer
has a ``KW_ONLY``, even with no field after it, because Flax appends ``parent`` and ``name`` there.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar

from jax import Array
from jax.typing import ArrayLike, DTypeLike

import jaxpool

from .._errors import message, naming_errors
from .._errors.missing_names import getter, of_layers
from ._common import (
    IndexSpace,
    Method,
    OutputSize,
    Padding,
    PadMode,
    PerAxis,
    Rounding,
    exponent,
    fractional,
    name_errors_of_layers,
    not_installed,
    settings,
    stochastic,
)

try:
    from flax import linen as nn
    from flax.errors import InvalidRngError
except ModuleNotFoundError as error:
    raise not_installed("linen", "flax", error) from None

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


class _Layer(nn.Module):
    op: ClassVar[Callable[..., Any]]

    def _call(self, *arrays: Any, **options: Any) -> Any:
        return self.op(*arrays, **{**settings(self), **options})

    def _key(self) -> Array:
        with naming_errors(type(self).__name__):
            try:
                return self.make_rng("pooling")
            except InvalidRngError:
                raise ValueError(
                    message(
                        "no key is given for the collection `pooling`.",
                        "The layer draws from it in each call.",
                        'Give for example rngs={"pooling": jax.random.key(0)} to init and apply.',
                    )
                ) from None


class _Pool(_Layer):
    def __call__(self, x: ArrayLike, *, where: ArrayLike | None = None) -> Array:
        return self._call(x, where=where)


class _Sliding(_Pool):
    window_shape: PerAxis
    strides: PerAxis
    padding: Padding = "VALID"
    _: KW_ONLY
    dilations: PerAxis = 1
    rounding: Rounding = "floor"
    data_format: str = "channels_last"


class _Windowed(_Sliding):
    _: KW_ONLY
    implementation: str = "auto"


class _Indexed(_Windowed):
    _: KW_ONLY
    index_space: IndexSpace = "spatial"
    index_dtype: DTypeLike | None = None

    def __call__(self, x: ArrayLike, *, where: ArrayLike | None = None) -> tuple[Array, Array]:
        return self._call(x, where=where)


class _Adaptive(_Pool):
    output_size: OutputSize
    _: KW_ONLY
    data_format: str = "channels_last"


class _Global(_Pool):
    _: KW_ONLY
    data_format: str = "channels_last"
    keepdims: bool = True


class MaxPool(_Windowed):
    """:func:`jaxpool.max_pool` as a layer."""

    op = staticmethod(jaxpool.max_pool)
    _: KW_ONLY


class MinPool(_Windowed):
    """:func:`jaxpool.min_pool` as a layer."""

    op = staticmethod(jaxpool.min_pool)
    _: KW_ONLY


class AvgPool(_Windowed):
    """:func:`jaxpool.avg_pool` as a layer."""

    op = staticmethod(jaxpool.avg_pool)
    _: KW_ONLY
    count_include_pad: bool = True
    divisor_override: int | None = None


class LpPool(_Windowed):
    """:func:`jaxpool.lp_pool` as a layer."""

    op = staticmethod(jaxpool.lp_pool)
    _: KW_ONLY
    p: float = 2


class GeMPool(_Windowed):
    """:func:`jaxpool.gem_pool` as a layer that learns its exponent, the parameter ``p``.

    Attributes:
      p: the initial value: a number, or nested tuples that broadcast to ``x`` with length 1 on the
        pooled axes, such as one number per channel.
    """

    op = staticmethod(jaxpool.gem_pool)
    _: KW_ONLY
    p: float | Sequence[Any] | ArrayLike = 3.0
    eps: float = 1e-6

    @nn.compact
    def __call__(self, x: ArrayLike, *, where: ArrayLike | None = None) -> Array:
        p = self.param("p", lambda key: exponent(self.p))
        return self._call(x, where=where, p=p)


class MaxPoolWithArgmax(_Indexed):
    """:func:`jaxpool.max_pool_with_argmax` as a layer: returns (values, indices)."""

    op = staticmethod(jaxpool.max_pool_with_argmax)
    _: KW_ONLY


class MaxUnpool(_Layer):
    """:func:`jaxpool.max_unpool` as a layer, after a :class:`MaxPoolWithArgmax`."""

    op = staticmethod(jaxpool.max_unpool)
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


class AdaptiveAvgPool(_Adaptive):
    """:func:`jaxpool.adaptive_avg_pool` as a layer."""

    op = staticmethod(jaxpool.adaptive_avg_pool)
    _: KW_ONLY


class AdaptiveMaxPool(_Adaptive):
    """:func:`jaxpool.adaptive_max_pool` as a layer."""

    op = staticmethod(jaxpool.adaptive_max_pool)
    _: KW_ONLY


class GlobalAvgPool(_Global):
    """:func:`jaxpool.global_avg_pool` as a layer."""

    op = staticmethod(jaxpool.global_avg_pool)
    _: KW_ONLY


class GlobalMaxPool(_Global):
    """:func:`jaxpool.global_max_pool` as a layer."""

    op = staticmethod(jaxpool.global_max_pool)
    _: KW_ONLY


class BlurPool(_Sliding):
    """:func:`jaxpool.blur_pool` as a layer."""

    op = staticmethod(jaxpool.blur_pool)
    _: KW_ONLY
    mode: PadMode = "reflect"


class MaxBlurPool(_Sliding):
    """:func:`jaxpool.max_blur_pool` as a layer."""

    op = staticmethod(jaxpool.max_blur_pool)
    _: KW_ONLY
    blur_shape: PerAxis = 3
    mode: PadMode = "reflect"


class StdPool(_Sliding):
    """:func:`jaxpool.std_pool` as a layer."""

    op = staticmethod(jaxpool.std_pool)
    _: KW_ONLY
    correction: int = 0


class QuantilePool(_Sliding):
    """:func:`jaxpool.quantile_pool` as a layer."""

    op = staticmethod(jaxpool.quantile_pool)
    _: KW_ONLY
    q: float
    method: Method = "linear"


class MedianPool(_Sliding):
    """:func:`jaxpool.median_pool` as a layer."""

    op = staticmethod(jaxpool.median_pool)
    _: KW_ONLY


class LogSumExpPool(_Windowed):
    """:func:`jaxpool.logsumexp_pool` as a layer."""

    op = staticmethod(jaxpool.logsumexp_pool)
    _: KW_ONLY
    temperature: float = 1.0


class SoftPool(_Windowed):
    """:func:`jaxpool.soft_pool` as a layer."""

    op = staticmethod(jaxpool.soft_pool)
    _: KW_ONLY


class MinPoolWithArgmin(_Indexed):
    """:func:`jaxpool.min_pool_with_argmin` as a layer: returns (values, indices)."""

    op = staticmethod(jaxpool.min_pool_with_argmin)
    _: KW_ONLY


class StochasticPool(_Sliding):
    """:func:`jaxpool.stochastic_pool` as a layer, with a key of the collection "pooling".

    The argument ``deterministic`` of a call overrides that of the layer.
    """

    op = staticmethod(stochastic)
    _: KW_ONLY
    deterministic: bool = False

    def __call__(
        self,
        x: ArrayLike,
        *,
        where: ArrayLike | None = None,
        deterministic: bool | None = None,
    ) -> Array:
        is_deterministic = self.deterministic if deterministic is None else deterministic
        key = None if is_deterministic else self._key()
        return self._call(x, where=where, key=key, deterministic=is_deterministic)


class FractionalMaxPool(_Layer):
    """:func:`jaxpool.fractional_max_pool` as a layer, with a key of the collection "pooling".

    A call with ``samples`` draws no key.
    """

    op = staticmethod(fractional)
    window_shape: PerAxis
    output_size: PerAxis
    _: KW_ONLY
    data_format: str = "channels_last"

    def __call__(
        self, x: ArrayLike, *, where: ArrayLike | None = None, samples: ArrayLike | None = None
    ) -> Array:
        key = self._key() if samples is None else None
        return self._call(x, where=where, key=key, samples=samples)


name_errors_of_layers(globals())
