"""Pooling layers for Equinox: modules for one example, channels first; batch by ``jax.vmap``.

The fields of a layer are the static settings of its op, except ``data_format``. ``where`` is an
argument of the call. ``key`` is accepted and ignored, as in every layer of Equinox, except in
:class:`StochasticPool` and :class:`FractionalMaxPool`, which use it.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike, DTypeLike

import jaxpool

from .._errors import message, naming_errors, shown
from .._geometry.arguments import is_sequence
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
    show_types_of_layers,
    stochastic,
)

try:
    import equinox as eqx
except ModuleNotFoundError as error:
    raise not_installed("equinox", "equinox", error) from None

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


_static = partial(eqx.field, static=True, converter=hashable)


class _Layer(eqx.Module):
    op: ClassVar[Callable[..., Any]]

    def _call(self, x: Any, *arrays: Any, sizes: tuple[str, Any], **options: Any) -> Any:
        """Call the op; ``sizes``: name and value of an argument with an entry per pooled axis."""
        with naming_errors(type(self).__name__, data_format="x", deterministic="inference"):
            _check_example(jnp.shape(x), *sizes)
            return self._run(x, *arrays, **options)

    def _run(self, *arrays: Any, **options: Any) -> Any:
        return self.op(*arrays, data_format="channels_first", **settings(self), **options)


def _check_example(shape: tuple[int, ...], name: str, sizes: Any) -> None:
    """Raise unless ``shape`` is an axis of channels followed by nonempty pooled axes."""
    if not is_sequence(sizes):
        raise TypeError(
            message(
                f"${name} = {shown(sizes)} does not say how many axes are pooled.",
                "The layer accepts one example: an axis of channels, then the pooled axes.",
                f"Give one entry for each, for example {(sizes, sizes)}.",
            )
        )
    pooled = shape[len(shape) - len(sizes) :]
    if len(shape) != len(sizes) + 1 or 0 in pooled:
        raise ValueError(
            message(
                f"an example of shape {shape} cannot be pooled over {len(sizes)} axes.",
                "An example has an axis of channels, then the pooled axes, none of which is empty.",
                "Add an axis of channels, x[None]; map over a batch with jax.vmap.",
            )
        )


class _Sliding(_Layer):
    window_shape: PerAxis = eqx.field(static=True, converter=hashable)
    strides: PerAxis = eqx.field(static=True, converter=hashable)
    padding: Padding = _static(default="VALID")
    _: KW_ONLY
    dilations: PerAxis = _static(default=1)
    rounding: Rounding = _static(default="floor")

    def __call__(
        self, x: ArrayLike, *, where: ArrayLike | None = None, key: Array | None = None
    ) -> Any:
        return self._call(x, sizes=("window_shape", self.window_shape), where=where)


class _Windowed(_Sliding):
    _: KW_ONLY
    implementation: str = _static(default="auto")


class _Adaptive(_Layer):
    output_size: int | Sequence[int | None] = eqx.field(static=True, converter=hashable)

    def __call__(
        self, x: ArrayLike, *, where: ArrayLike | None = None, key: Array | None = None
    ) -> Any:
        return self._call(x, sizes=("output_size", self.output_size), where=where)


class _Global(_Layer):
    _: KW_ONLY
    keepdims: bool = _static(default=True)

    def __call__(
        self, x: ArrayLike, *, where: ArrayLike | None = None, key: Array | None = None
    ) -> Any:
        with naming_errors(type(self).__name__, data_format="x"):
            _check_example(jnp.shape(x), "x", jnp.shape(x)[1:] or (1,))
            batch = jnp.asarray(x)[None]  # the op needs a batch axis
            return self._run(batch, where=where)[0]


class MaxPool(_Windowed):
    """:func:`jaxpool.max_pool` as a layer."""

    op = staticmethod(jaxpool.max_pool)


class MinPool(_Windowed):
    """:func:`jaxpool.min_pool` as a layer."""

    op = staticmethod(jaxpool.min_pool)


class AvgPool(_Windowed):
    """:func:`jaxpool.avg_pool` as a layer."""

    op = staticmethod(jaxpool.avg_pool)
    _: KW_ONLY
    count_include_pad: bool = _static(default=True)
    divisor_override: int | None = _static(default=None)


class LpPool(_Windowed):
    """:func:`jaxpool.lp_pool` as a layer."""

    op = staticmethod(jaxpool.lp_pool)
    _: KW_ONLY
    p: float = _static(default=2)


class GeMPool(_Windowed):
    """:func:`jaxpool.gem_pool` as a layer that learns its exponent, the array ``p``.

    Attributes:
      p: the exponent. The argument is its initial value: a number, or an array that broadcasts to
        ``x`` with length 1 on the pooled axes, such as one number per channel.
    """

    op = staticmethod(jaxpool.gem_pool)
    p: Array = eqx.field(default=3.0, converter=exponent, kw_only=True)
    _: KW_ONLY
    eps: float = _static(default=1e-6)


class MaxPoolWithArgmax(_Windowed):
    """:func:`jaxpool.max_pool_with_argmax` as a layer: returns (values, indices)."""

    op = staticmethod(jaxpool.max_pool_with_argmax)
    _: KW_ONLY
    index_space: str | int = _static(default="spatial")
    index_dtype: DTypeLike | None = _static(default=None)


class MaxUnpool(_Layer):
    """:func:`jaxpool.max_unpool` as a layer, after a :class:`MaxPoolWithArgmax`."""

    op = staticmethod(jaxpool.max_unpool)
    _: KW_ONLY
    index_space: str | int = _static(default="spatial")
    window_shape: PerAxis | None = _static(default=None)
    strides: PerAxis | None = _static(default=None)
    padding: Padding = _static(default="VALID")
    dilations: PerAxis = _static(default=1)
    rounding: Rounding = _static(default="floor")

    def __call__(
        self, y: ArrayLike, indices: ArrayLike, output_shape: PerAxis, *, key: Array | None = None
    ) -> Array:
        return self._call(y, indices, output_shape, sizes=("output_shape", output_shape))


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


class BlurPool(_Sliding):
    """:func:`jaxpool.blur_pool` as a layer."""

    op = staticmethod(jaxpool.blur_pool)
    _: KW_ONLY
    mode: str = _static(default="reflect")


class MaxBlurPool(_Sliding):
    """:func:`jaxpool.max_blur_pool` as a layer."""

    op = staticmethod(jaxpool.max_blur_pool)
    _: KW_ONLY
    blur_shape: PerAxis = _static(default=3)
    mode: str = _static(default="reflect")


class StdPool(_Sliding):
    """:func:`jaxpool.std_pool` as a layer."""

    op = staticmethod(jaxpool.std_pool)
    _: KW_ONLY
    correction: int = _static(default=0)


class QuantilePool(_Sliding):
    """:func:`jaxpool.quantile_pool` as a layer."""

    op = staticmethod(jaxpool.quantile_pool)
    _: KW_ONLY
    q: float = eqx.field(static=True, converter=hashable)
    method: str = _static(default="linear")


class MedianPool(_Sliding):
    """:func:`jaxpool.median_pool` as a layer."""

    op = staticmethod(jaxpool.median_pool)


class LogSumExpPool(_Windowed):
    """:func:`jaxpool.logsumexp_pool` as a layer."""

    op = staticmethod(jaxpool.logsumexp_pool)
    _: KW_ONLY
    temperature: float = _static(default=1.0)


class SoftPool(_Windowed):
    """:func:`jaxpool.soft_pool` as a layer."""

    op = staticmethod(jaxpool.soft_pool)


class MinPoolWithArgmin(_Windowed):
    """:func:`jaxpool.min_pool_with_argmin` as a layer: returns (values, indices)."""

    op = staticmethod(jaxpool.min_pool_with_argmin)
    _: KW_ONLY
    index_space: str | int = _static(default="spatial")
    index_dtype: DTypeLike | None = _static(default=None)


class StochasticPool(_Sliding):
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


class FractionalMaxPool(_Layer):
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
