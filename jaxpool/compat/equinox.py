"""Equinox's pooling layers, with its names and arguments, for one example, channels first.

``from jaxpool.compat.equinox import MaxPool2d`` replaces ``eqx.nn.MaxPool2d``. A layer is a pytree
without leaves, like Equinox's: it can be used in ``eqx.nn.Sequential`` and in the fields of an
``eqx.Module``; ``jax.vmap`` adds the batch. This module does not import Equinox.

The rules are those of Equinox 0.13.8: strides default to 1, an average always divides by the number
of taps, and an adaptive pool divides an axis of ``L`` elements into ``n`` pieces that do not
overlap, first ``L % n`` pieces of ``L // n + 1`` elements, then pieces of ``L // n``.

Differences: low-precision floats and integers are added without loss; the gradient of a maximum
goes to the first maximum, never to padding; padding may exceed the window; ``use_ceil`` keeps a
partial last window also where Equinox rejects the padding that this window needs; complex numbers
are an error.

Source: Equinox 0.13.8, ``equinox/nn/_pool.py``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex

import jax.numpy as jnp
from jax import Array
from jax.tree_util import register_static
from jax.typing import ArrayLike

from .._errors import counted, message, naming_errors, public_constructor, shown
from .._errors.missing_names import getter, of_front_end
from .._geometry.arguments import Integers, as_bool, integer, is_sequence
from .._geometry.resolve import check_known, is_static
from .._geometry.window import Pairs, Window
from ..ops.adaptive import adaptive_avg_pool as _global_avg
from ..ops.adaptive import adaptive_max_pool as _global_max
from ..ops.average import avg_pool as _avg_pool
from ..ops.max import max_pool as _max_pool
from ..ops.max import min_pool as _min_pool
from ._checks import array, as_floats, check_integer_padding
from ._fitting import pool_or_empty

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
]


def __dir__() -> list[str]:
    return list(__all__)


if not TYPE_CHECKING:  # or a type checker would accept every name
    __getattr__ = getter(__name__, of_front_end, __all__)


_NAMES = {"window_shape": "kernel_size", "strides": "stride"}


# --- the functions of the layers ------------------------------------------------------------------


def layer_max(layer: Any, x: Array) -> Array:
    """Return the maximum over the windows of a layer, either Equinox's or one of this module."""
    return _over_windows(_max_pool, layer, x)


def layer_min(layer: Any, x: Array) -> Array:
    """Return the minimum over the windows of a layer."""
    return _over_windows(_min_pool, layer, x)


def layer_avg(layer: Any, x: Array) -> Array:
    """Return the average over the windows of a layer; the divisor is the number of all taps."""
    divisor = math.prod(Window(layer.kernel_size, layer.stride).kernel)
    return _over_windows(_avg_pool, layer, as_floats("x", x), divisor_override=divisor)


def _over_windows(op: Callable[..., Array], layer: Any, x: ArrayLike, **settings: Any) -> Array:
    x = array("x", x)
    _check_rank(x, layer.num_spatial_dims)
    padding = tuple(map(tuple, layer.padding))
    sizes, window = x.shape[1:], Window(layer.kernel_size, layer.stride)
    settings["data_format"] = "channels_first"
    if is_static(sizes):
        if layer.use_ceil:
            padding = _padding_with_last_window(sizes, window, padding)
        return pool_or_empty(op, x, 1, window.kernel, window.strides, padding, **settings)
    rounding = "ceil" if layer.use_ceil else "floor"
    return op(x, window.kernel, window.strides, padding, rounding=rounding, **settings)


def _padding_with_last_window(sizes: tuple[int, ...], window: Window, padding: Pairs) -> Pairs:
    """Return Equinox's padding with ``use_ceil``: one stride more if a last window needs it."""
    axes = zip(sizes, window.kernel, window.strides, padding, strict=True)
    return tuple((p, q + (s if (n + p + q - k) % s else 0)) for n, k, s, (p, q) in axes)


def _check_rank(x: Array, count: int) -> None:
    if x.ndim != count + 1:
        raise ValueError(
            message(
                f"the array has {counted(x.ndim, 'axis')}.",
                f"Its shape is {x.shape}; the layer pools {count} axes after the channels.",
                "Give one example, channels first, and make the batch with jax.vmap.",
            )
        )


# --- layers over sliding windows ------------------------------------------------------------------


class _Layer:
    num_spatial_dims: ClassVar[int]
    function: ClassVar[Callable[[Any, Array], Array]]

    def __call__(self, x: ArrayLike, *, key: Array | None = None) -> Array:
        """Pool ``x`` of shape (channels, axes..); ``key`` is ignored, as by Equinox."""
        with naming_errors(type(self).__name__, **_NAMES):
            return type(self).function(self, array("x", x))


@dataclass(frozen=True)
class _Pool(_Layer):
    """Layer with Equinox's fields: one entry per pooled axis, padding in pairs."""

    kernel_size: Integers
    stride: Integers = 1
    padding: SupportsIndex | Sequence[Integers] = 0
    use_ceil: bool = False

    def __post_init__(self) -> None:
        count = self.num_spatial_dims
        kernel = _per_axis("kernel_size", self.kernel_size, count)
        window = Window(kernel, _per_axis("stride", self.stride, count))
        object.__setattr__(self, "kernel_size", window.kernel)
        object.__setattr__(self, "stride", window.strides)
        check_integer_padding(self.padding, accepts_pairs=True)
        pads = _per_axis("padding", self.padding, count)
        object.__setattr__(self, "padding", tuple(map(_pair, pads)))
        as_bool("use_ceil", self.use_ceil)


def _pair(pad: Any) -> tuple[int, int]:
    """Return the pads of both ends of an axis."""
    ends = tuple(pad) if is_sequence(pad) else (pad, pad)
    if len(ends) != 2:
        raise ValueError(
            message(
                f"$padding contains {shown(pad)}, which has {counted(len(ends), 'entry')}.",
                "The padding of an axis is one integer for both ends, or a pair of integers.",
                "Give (low, high) for each pooled axis.",
            )
        )
    low, high = (integer("padding", end, -math.inf) for end in ends)
    return low, high


def _per_axis(name: str, setting: Any, count: int) -> tuple[Any, ...]:
    entries = tuple(setting) if is_sequence(setting) else (setting,) * count
    if len(entries) != count:
        raise ValueError(
            message(
                f"${name} = {shown(setting)} has {counted(len(entries), 'entry')}.",
                f"The layer pools {counted(count, 'axis')}.",
                "Give one integer, or one per pooled axis.",
            )
        )
    return entries


@register_static
class MaxPool1d(_Pool):
    """Maximum over sliding windows of one axis, as ``eqx.nn.MaxPool1d``."""

    num_spatial_dims = 1
    function = layer_max


@register_static
class MaxPool2d(_Pool):
    """Maximum over sliding windows of two axes, as ``eqx.nn.MaxPool2d``."""

    num_spatial_dims = 2
    function = layer_max


@register_static
class MaxPool3d(_Pool):
    """Maximum over sliding windows of three axes, as ``eqx.nn.MaxPool3d``."""

    num_spatial_dims = 3
    function = layer_max


@register_static
class AvgPool1d(_Pool):
    """Average over sliding windows of one axis, as ``eqx.nn.AvgPool1d``."""

    num_spatial_dims = 1
    function = layer_avg


@register_static
class AvgPool2d(_Pool):
    """Average over sliding windows of two axes, as ``eqx.nn.AvgPool2d``."""

    num_spatial_dims = 2
    function = layer_avg


@register_static
class AvgPool3d(_Pool):
    """Average over sliding windows of three axes, as ``eqx.nn.AvgPool3d``."""

    num_spatial_dims = 3
    function = layer_avg


# --- adaptive layers ------------------------------------------------------------------------------


def layer_adaptive_avg(layer: Any, x: Array) -> Array:
    """Return the average of each piece; the ``target_shape`` of a layer is the number of pieces."""
    return _over_pieces(_avg_pool, _global_avg, layer, as_floats("x", x))


def layer_adaptive_max(layer: Any, x: Array) -> Array:
    """Return the maximum of each piece; the ``target_shape`` of a layer is the number of pieces."""
    return _over_pieces(_max_pool, _global_max, layer, x)


def _over_pieces(
    op: Callable[..., Array], global_op: Callable[..., Array], layer: Any, x: Array
) -> Array:
    """Return ``op`` over each piece; ``global_op`` pools full axes, also of symbolic length."""
    target = _piece_counts(layer.target_shape)
    _check_rank(x, len(target))
    if any(count != 1 for count in target):
        check_known(x.shape[1:])
    for size, count in zip(x.shape[1:], target, strict=True):
        if count < 1 or (isinstance(size, int) and count > size):
            raise ValueError(
                message(
                    f"$target_shape = {shown(target)} asks for {count} pieces of {size} elements.",
                    "Equinox cuts an axis into pieces of one element or more.",
                    "Use jaxpool.adaptive_avg_pool or adaptive_max_pool, where windows overlap.",
                )
            )
    if not is_static(x.shape[1:]):
        return global_op(x, target, data_format="channels_first")
    return _pool_pieces(op, x, target)


def _pool_pieces(op: Callable[..., Array], x: Array, target: tuple[int, ...]) -> Array:
    """Return ``op`` over each piece: a tiled pool for each part of an axis with equal pieces."""
    sizes = x.shape[1:]
    axis = next((a for a, n in enumerate(target) if sizes[a] % n), None)
    if axis is None:
        window = tuple(size // n for size, n in zip(sizes, target, strict=True))
        return op(x, window, window, data_format="channels_first")
    longer_pieces = sizes[axis] % target[axis]
    split_at = longer_pieces * (sizes[axis] // target[axis] + 1)
    head, tail = jnp.split(x, [split_at], axis + 1)
    counts = longer_pieces, target[axis] - longer_pieces
    parts = [
        _pool_pieces(op, part, (*target[:axis], count, *target[axis + 1 :]))
        for part, count in zip((head, tail), counts, strict=True)
    ]
    return jnp.concatenate(parts, axis + 1)


def _piece_counts(target_shape: Sequence[Any]) -> tuple[int, ...]:
    return tuple(integer("target_shape", count, -math.inf) for count in target_shape)


@dataclass(frozen=True)
class _Adaptive(_Layer):
    target_shape: Integers

    def __post_init__(self) -> None:
        entries = _per_axis("target_shape", self.target_shape, self.num_spatial_dims)
        object.__setattr__(self, "target_shape", _piece_counts(entries))


@register_static
class AdaptiveAvgPool1d(_Adaptive):
    """Average of each piece of one axis, as ``eqx.nn.AdaptiveAvgPool1d``."""

    num_spatial_dims = 1
    function = layer_adaptive_avg


@register_static
class AdaptiveAvgPool2d(_Adaptive):
    """Average of each piece of two axes, as ``eqx.nn.AdaptiveAvgPool2d``."""

    num_spatial_dims = 2
    function = layer_adaptive_avg


@register_static
class AdaptiveAvgPool3d(_Adaptive):
    """Average of each piece of three axes, as ``eqx.nn.AdaptiveAvgPool3d``."""

    num_spatial_dims = 3
    function = layer_adaptive_avg


@register_static
class AdaptiveMaxPool1d(_Adaptive):
    """Maximum of each piece of one axis, as ``eqx.nn.AdaptiveMaxPool1d``."""

    num_spatial_dims = 1
    function = layer_adaptive_max


@register_static
class AdaptiveMaxPool2d(_Adaptive):
    """Maximum of each piece of two axes, as ``eqx.nn.AdaptiveMaxPool2d``."""

    num_spatial_dims = 2
    function = layer_adaptive_max


@register_static
class AdaptiveMaxPool3d(_Adaptive):
    """Maximum of each piece of three axes, as ``eqx.nn.AdaptiveMaxPool3d``."""

    num_spatial_dims = 3
    function = layer_adaptive_max


for _name in __all__:
    public_constructor(globals()[_name], **_NAMES)
