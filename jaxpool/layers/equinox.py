"""Pooling layers for Equinox: modules for one example, channels first; ``jax.vmap`` a batch.

The fields of a layer are the settings of its op but ``data_format``; they are static. ``where`` is
an argument of the call. ``key`` is accepted and ignored, as by every layer of Equinox.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

import jaxpool

from ._common import exponent, hashable, not_installed, settings

try:
    import equinox as eqx
except ModuleNotFoundError as error:
    raise not_installed("equinox", "equinox", error) from None

_static = partial(eqx.field, static=True, converter=hashable)
_keyword = partial(_static, kw_only=True)


class _Layer(eqx.Module):
    op: ClassVar[Callable[..., Any]]

    def _call(self, *arrays: Any, **words: Any) -> Any:
        return self.op(*arrays, data_format="channels_first", **settings(self), **words)


class _Pool(_Layer):
    def __call__(
        self, x: ArrayLike, *, where: ArrayLike | None = None, key: Array | None = None
    ) -> Any:
        return self._call(x, where=where)


class _Windowed(_Pool):
    window_shape: Any = _static()
    strides: Any = _static()
    padding: Any = _static(default="VALID")
    dilations: Any = _keyword(default=1)
    rounding: str = _keyword(default="floor")
    lowering: str = _keyword(default="auto")


class _Adaptive(_Pool):
    output_size: Any = _static()


class _Global(_Pool):
    keepdims: bool = _keyword(default=True)

    def _call(self, *arrays: Any, **words: Any) -> Any:
        """The global ops look for a batch axis."""
        (x,) = arrays
        return super()._call(jnp.asarray(x)[None], **words)[0]


class MaxPool(_Windowed):
    """:func:`jaxpool.max_pool` as a layer."""

    op = staticmethod(jaxpool.max_pool)


class MinPool(_Windowed):
    """:func:`jaxpool.min_pool` as a layer."""

    op = staticmethod(jaxpool.min_pool)


class AvgPool(_Windowed):
    """:func:`jaxpool.avg_pool` as a layer."""

    op = staticmethod(jaxpool.avg_pool)
    count_include_pad: bool = _keyword(default=True)
    divisor_override: int | None = _keyword(default=None)


class LpPool(_Windowed):
    """:func:`jaxpool.lp_pool` as a layer."""

    op = staticmethod(jaxpool.lp_pool)
    p: float = _keyword(default=2)


class GeMPool(_Windowed):
    """:func:`jaxpool.gem_pool` as a layer that learns its exponent, the array ``p``.

    Attributes:
      p: the exponent. The argument is its initial value: a number, or an array that broadcasts to
        ``x`` with length 1 on the pooled axes, such as one number per channel.
    """

    op = staticmethod(jaxpool.gem_pool)
    p: Array = eqx.field(default=3.0, converter=exponent, kw_only=True)
    eps: float = _keyword(default=1e-6)


class MaxPoolWithArgmax(_Windowed):
    """:func:`jaxpool.max_pool_with_argmax` as a layer: returns (values, indices)."""

    op = staticmethod(jaxpool.max_pool_with_argmax)
    index_space: str | int = _keyword(default="spatial")
    index_dtype: Any = _keyword(default=None)


class MaxUnpool(_Layer):
    """:func:`jaxpool.max_unpool` as a layer, the way back from :class:`MaxPoolWithArgmax`."""

    op = staticmethod(jaxpool.max_unpool)
    index_space: str | int = _keyword(default="spatial")
    window_shape: Any = _keyword(default=None)
    strides: Any = _keyword(default=None)
    padding: Any = _keyword(default="VALID")
    dilations: Any = _keyword(default=1)
    rounding: str = _keyword(default="floor")

    def __call__(
        self, y: ArrayLike, indices: ArrayLike, output_shape: Any, *, key: Array | None = None
    ) -> Array:
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
