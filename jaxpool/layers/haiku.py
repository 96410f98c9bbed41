"""Pooling for Haiku: functions and modules, drop-in for ``hk.max_pool`` and ``hk.MaxPool``.

Settings of one entry for each axis are spelled as in Haiku: the entries are those of the last axes
of the value; axes before them are batch axes, as is a first axis with window 1. The entry of
``channel_axis`` leaves that axis alone: 1 as window, stride or dilation, 0 as padding, None as
output size, its own length in an output shape. An int as window stands for every axis but the first
and the channels, any other int for the pooled axes. ``channel_axis`` None leaves no axis out. All
else is as in the ops, but that averages do not count padding, as in Haiku.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

import jaxpool

from .._arguments import is_sequence
from .._errors import message, shown
from ._common import exponent, not_installed, settings

try:
    import haiku as hk
except ModuleNotFoundError as error:
    raise not_installed("haiku", "haiku", error) from None

_keyword = partial(dataclasses.field, kw_only=True)
_module = dataclasses.dataclass(eq=False, repr=False)

# --- from Haiku's words to jaxpool's --------------------------------------------------------------

_ALONE = {"window_shape": 1, "strides": 1, "dilations": 1, "padding": 0, "output_size": None}
"""Settings of one entry for each axis, and the entry that leaves an axis alone."""
_SIZES = ("window_shape", "output_size", "output_shape")
"""Settings that say which axes are pooled."""


def _call(
    op: Callable[..., Any], arrays: Sequence[Any], channel_axis: int | None, words: dict[str, Any]
) -> Any:
    """Call ``op``; the entries of the first of the ``words`` say which axes are pooled."""
    shape = jnp.shape(arrays[0])
    channel = _channel(op.__name__, shape, channel_axis)
    pooled = [axis for axis in _from_first(shape, *next(iter(words.items()))) if axis != channel]
    found = {
        word: _entries(op.__name__, shape, pooled, word, setting) for word, setting in words.items()
    }
    return op(*arrays, data_format=_layout(op.__name__, shape, channel, pooled), **found)


def _channel(op: str, shape: tuple[int, ...], channel_axis: int | None) -> int | None:
    """The channel axis, counted from the front."""
    if channel_axis is None:
        return None
    if -len(shape) <= channel_axis < len(shape):
        return channel_axis % len(shape)
    raise ValueError(
        message(
            op,
            f"`channel_axis` = {channel_axis} is no axis of the value.",
            f"The value has shape {shape}.",
            "Give the axis of the channels, or None.",
        )
    )


def _alone(word: str, shape: tuple[int, ...], axis: int) -> Any:
    """The entry that leaves an axis alone."""
    return shape[axis] if word == "output_shape" else _ALONE[word]


def _from_first(shape: tuple[int, ...], word: str, setting: Any) -> range:
    """The axes from the first pooled one on, channels included."""
    if not is_sequence(setting):
        return range(1, len(shape))
    start = len(shape) - len(setting)
    batch = start == 0 and setting[0] == _alone(word, shape, 0)
    return range(start + batch, len(shape))


def _entries(op: str, shape: tuple[int, ...], pooled: list[int], word: str, setting: Any) -> Any:
    """The entries of the pooled axes, of a setting that has an entry for each axis."""
    if not is_sequence(setting):
        spread = word in _SIZES and setting is not None
        return (setting,) * len(pooled) if spread else setting
    if word not in (*_ALONE, *_SIZES):
        return setting
    given = dict(enumerate(setting, start=len(shape) - len(setting)))
    for axis in given.keys() - set(pooled):
        if np.any(np.not_equal(given[axis], _alone(word, shape, axis))):
            raise ValueError(
                message(
                    op,
                    f"`{word}` = {shown(setting)} has {given[axis]} for axis {axis}.",
                    f"The value has shape {shape}; its pooled axes are {pooled}.",
                    f"Give {_alone(word, shape, axis)} for that axis, or another `channel_axis`.",
                )
            )
    return tuple(given.get(axis, _alone(word, shape, axis)) for axis in pooled)


def _layout(op: str, shape: tuple[int, ...], channel: int | None, pooled: list[int]) -> str:
    """The layout of a windowed op, to which an axis that is not pooled is a batch axis."""
    if channel == len(shape) - 1:
        return "channels_last"
    if channel is not None and pooled and channel > pooled[0]:
        raise ValueError(
            message(
                op,
                f"`channel_axis` = {channel} stands between pooled axes.",
                f"The value has shape {shape}; its pooled axes are {pooled}.",
                "Move the channels before them or to the end.",
            )
        )
    return "DHW"[-len(shape) :] if pooled[:1] == [0] else "channels_first"


# --- functions ------------------------------------------------------------------------------------


def _named(function: Callable[..., Any], op: Callable[..., Any]) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = op.__name__
    function.__doc__ = f":func:`jaxpool.{op.__name__}` in the words of Haiku; see the module."
    return function


def _windowed(op: Callable[..., Any], **defaults: Any) -> Callable[..., Any]:
    def function(
        value: ArrayLike,
        window_shape: Any,
        strides: Any,
        padding: Any = "VALID",
        channel_axis: int | None = -1,
        **words: Any,
    ) -> Any:
        window = {"window_shape": window_shape, "strides": strides, "padding": padding}
        return _call(op, [value], channel_axis, {**window, **defaults, **words})

    return _named(function, op)


def _adaptive(op: Callable[..., Any]) -> Callable[..., Any]:
    def function(
        value: ArrayLike, output_size: Any, channel_axis: int | None = -1, **words: Any
    ) -> Any:
        return _call(op, [value], channel_axis, {"output_size": output_size, **words})

    return _named(function, op)


def _global(op: Callable[..., Any]) -> Callable[..., Any]:
    def function(value: ArrayLike, channel_axis: int | None = -1, **words: Any) -> Any:
        rank = jnp.ndim(value)
        channel = _channel(op.__name__, jnp.shape(value), channel_axis)
        spatial = sorted({*range(1, rank)} - {channel})
        letters = {0: "N", channel: "C", **dict(zip(reversed(spatial), "WHD", strict=False))}
        layout = "".join(letters.get(axis, "") for axis in range(rank))
        return op(value, data_format=layout, **words)

    return _named(function, op)


max_pool = _windowed(jaxpool.max_pool)
min_pool = _windowed(jaxpool.min_pool)
avg_pool = _windowed(jaxpool.avg_pool, count_include_pad=False)
lp_pool = _windowed(jaxpool.lp_pool)
gem_pool = _windowed(jaxpool.gem_pool)
max_pool_with_argmax = _windowed(jaxpool.max_pool_with_argmax)
adaptive_avg_pool = _adaptive(jaxpool.adaptive_avg_pool)
adaptive_max_pool = _adaptive(jaxpool.adaptive_max_pool)
global_avg_pool = _global(jaxpool.global_avg_pool)
global_max_pool = _global(jaxpool.global_max_pool)


def max_unpool(
    value: ArrayLike,
    indices: ArrayLike,
    output_shape: Any,
    channel_axis: int | None = -1,
    **words: Any,
) -> Array:
    """:func:`jaxpool.max_unpool` in the words of Haiku; see the module."""
    words = {"output_shape": output_shape, **words}
    return _call(jaxpool.max_unpool, [value, indices], channel_axis, words)


# --- modules --------------------------------------------------------------------------------------


class _Layer(hk.Module):
    function: ClassVar[Callable[..., Any]]

    def _call(self, *arrays: Any, **words: Any) -> Any:
        return self.function(*arrays, **{**settings(self, besides=("name",)), **words})


class _Pool(_Layer):
    def __call__(self, value: ArrayLike, *, where: ArrayLike | None = None) -> Any:
        return self._call(value, where=where)


@_module
class _Windowed(_Pool):
    window_shape: Any
    strides: Any
    padding: Any = "VALID"
    channel_axis: int | None = -1
    dilations: Any = _keyword(default=1)
    rounding: str = _keyword(default="floor")
    lowering: str = _keyword(default="auto")
    name: str | None = _keyword(default=None)


@_module
class _Adaptive(_Pool):
    output_size: Any
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
    p: Any = _keyword(default=3.0)
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
    """:func:`max_unpool` as a module, the way back from :class:`MaxPoolWithArgmax`."""

    function = staticmethod(max_unpool)
    channel_axis: int | None = -1
    index_space: str | int = _keyword(default="spatial")
    window_shape: Any = _keyword(default=None)
    strides: Any = _keyword(default=None)
    padding: Any = _keyword(default="VALID")
    dilations: Any = _keyword(default=1)
    rounding: str = _keyword(default="floor")
    name: str | None = _keyword(default=None)

    def __call__(self, value: ArrayLike, indices: ArrayLike, output_shape: Any) -> Array:
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
