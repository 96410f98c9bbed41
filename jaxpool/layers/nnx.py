"""Pooling layers for Flax NNX: modules, channels last.

The arguments of a layer are the settings of its op, which it holds as static attributes; ``where``
is an argument of the call.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from jax import Array
from jax.typing import ArrayLike

import jaxpool

from ._common import exponent, hashable, not_installed, settings

try:
    from flax import nnx
except ModuleNotFoundError as error:
    raise not_installed("nnx", "flax", error) from None

_keyword = partial(dataclasses.field, kw_only=True)
_module = dataclasses.dataclass(eq=False, repr=False)


class _Layer(nnx.Module):
    op: ClassVar[Callable[..., Any]]

    def __post_init__(self) -> None:
        for name, value in settings(self).items():
            setattr(self, name, hashable(value))

    def _call(self, *arrays: Any, **words: Any) -> Any:
        return self.op(*arrays, **{**settings(self), **words})


class _Pool(_Layer):
    def __call__(self, x: ArrayLike, *, where: ArrayLike | None = None) -> Any:
        return self._call(x, where=where)


@_module
class _Windowed(_Pool):
    window_shape: Any
    strides: Any
    padding: Any = "VALID"
    dilations: Any = _keyword(default=1)
    rounding: str = _keyword(default="floor")
    data_format: str = _keyword(default="channels_last")
    lowering: str = _keyword(default="auto")


@_module
class _Adaptive(_Pool):
    output_size: Any
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
    """:func:`jaxpool.max_unpool` as a layer, the way back from :class:`MaxPoolWithArgmax`."""

    op = staticmethod(jaxpool.max_unpool)
    index_space: str | int = _keyword(default="spatial")
    data_format: str = _keyword(default="channels_last")
    window_shape: Any = _keyword(default=None)
    strides: Any = _keyword(default=None)
    padding: Any = _keyword(default="VALID")
    dilations: Any = _keyword(default=1)
    rounding: str = _keyword(default="floor")

    def __call__(self, y: ArrayLike, indices: ArrayLike, output_shape: Any) -> Array:
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
