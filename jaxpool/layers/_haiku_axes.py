"""Conversion of Haiku's arguments, which have an entry for each axis, to those of the ops.

The entries of a sequence apply to the last axes of the value. The axes before them are batch axes,
and so is a first axis with window 1. An int as window applies to every axis except the first and
the channels; any other int applies to the pooled axes. A neutral entry leaves ``channel_axis``
unpooled: 1 as window, stride or dilation, 0 as padding, None as output size, the length of the axis
in an output shape. A window or stride with another entry pools the channels as well.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import counted, message, renaming_arguments, shown
from .._geometry.arguments import integer, is_sequence, length_of
from .._numerics.indices import check_space, counted_axes

_NEUTRAL = {
    "window_shape": 1, "strides": 1, "dilations": 1, "blur_shape": 1, "padding": 0,
    "output_size": None,
}  # fmt: skip
"""The neutral entry of each argument that has an entry for each axis."""
_SIZES = ("output_shape", "window_shape", "output_size")
"""Arguments that determine the pooled axes: a sequence of windows, else the first of a function."""


def call(op: Callable[..., Any], *, value: Any, channel_axis: int | None, **arguments: Any) -> Any:
    """Call ``op`` with the arguments of a Haiku function, which passes its ``locals()``."""
    shape = jnp.shape(value)
    channel = _channel_position(shape, channel_axis)
    given = [name for name in _SIZES if name in arguments]
    sizes = "window_shape" if is_sequence(arguments.get("window_shape")) else given[0]
    first_pooled = _first_pooled(shape, sizes, arguments[sizes])
    single = None  # a pooled axis whose windows have one element
    if channel is not None and _pools_channels(shape, channel, first_pooled, arguments):
        single = channel if _is_neutral_on(channel, shape, "window_shape", arguments) else None
        channel = None
    pooled = [axis for axis in range(first_pooled, len(shape)) if axis != channel]
    _check_pooled(shape, pooled, channel_axis)
    arguments |= {
        name: _pooled_entries(shape, pooled, single, name, entries)
        for name, entries in arguments.items()
        if name in _NEUTRAL or name == "output_shape"
    }
    layout = _layout(shape, channel, pooled)
    if pooled[:1] == [0] and layout == "channels_first":  # which needs an axis before them
        return _call_on_all_axes(op, value, arguments)
    with renaming_arguments(data_format="channel_axis"):
        return op(value, data_format=layout, **arguments)


def _call_on_all_axes(op: Callable[..., Any], value: Any, arguments: dict[str, Any]) -> Any:
    """Call ``op`` on a value without an axis for channels, by adding an axis before all others."""
    space = check_space(arguments.get("index_space", "spatial"))
    if not isinstance(space, str):
        arguments = {**arguments, "index_space": counted_axes(space, (), jnp.ndim(value))[0]}
    if "indices" in arguments:
        arguments = {**arguments, "indices": jnp.asarray(arguments["indices"])[None]}
    result = op(jnp.asarray(value)[None], data_format="channels_first", **arguments)
    return jax.tree.map(lambda y: y[0], result)


def call_global(
    op: Callable[..., Any], value: Any, channel_axis: int | None, **options: Any
) -> Any:
    shape, rank = jnp.shape(value), jnp.ndim(value)
    channel = _channel_position(shape, channel_axis)
    spatial = sorted({*range(1, rank)} - {channel})
    _check_pooled(shape, spatial, channel_axis)
    if not channel:  # only the first axis is kept, with or without channels
        return _call_on_all_axes(op, value, options)
    words = {1: "channels_first", rank - 1: "channels_last"}
    with renaming_arguments(data_format="channel_axis"):
        return op(value, data_format=words.get(channel) or _letters(shape, channel), **options)


def _letters(shape: tuple[int, ...], channel: int) -> str:
    """Return the layout of a value whose channels are between other axes, in letters."""
    if len(shape) > 5:
        raise ValueError(
            message(
                f"$channel_axis = {channel} is between pooled axes.",
                f"The value has shape {shape}; more than three of its axes are pooled.",
                "Move the channels before them or to the end.",
            )
        )
    spatial = "DHW"[5 - len(shape) :]
    return f"N{spatial[: channel - 1]}C{spatial[channel - 1 :]}"


def _check_pooled(shape: tuple[int, ...], pooled: list[int], channel_axis: int | None) -> None:
    """Raise unless an axis is pooled."""
    if not pooled:
        raise ValueError(
            message(
                f"no axis of the value is pooled with $channel_axis = {channel_axis}.",
                f"The value has shape {shape}; its batch and channel axes are not pooled.",
                "Give a value with more axes, or another $channel_axis.",
            )
        )


def _channel_position(shape: tuple[int, ...], channel_axis: int | None) -> int | None:
    """Return the channel axis as a nonnegative number, or None."""
    if channel_axis is None:
        return None
    axis = integer("channel_axis", channel_axis, -math.inf)
    if -len(shape) <= axis < len(shape):
        return axis % len(shape)
    raise ValueError(
        message(
            f"$channel_axis = {axis} is not an axis of the value.",
            f"The value has shape {shape}.",
            "Give the axis of the channels, or None.",
        )
    )


def _neutral_entry(name: str, shape: tuple[int, ...], axis: int) -> Any:
    """Return the entry that leaves an axis unpooled."""
    return shape[axis] if name == "output_shape" else _NEUTRAL[name]


def _is_neutral(name: str, shape: tuple[int, ...], axis: int, entry: Any) -> bool:
    try:
        return not np.any(np.not_equal(entry, _neutral_entry(name, shape, axis)))
    except (TypeError, ValueError):  # the op says what the entry should be
        return False


def _first_pooled(shape: tuple[int, ...], name: str, sizes: Any) -> int:
    """Return the first pooled axis, which may be the channel axis."""
    if not is_sequence(sizes):
        return 1
    start = _first_axis(shape, name, sizes)
    return start + (start == 0 and sizes[0] == _neutral_entry(name, shape, 0))


def _pools_channels(
    shape: tuple[int, ...], channel: int, first_pooled: int, arguments: Mapping[str, Any]
) -> bool:
    """Return whether the op pools the channel axis as well, if only with windows of one element.

    As in Haiku, a sequence of windows pools the axis if its entry or the stride is not neutral.
    Channels between pooled axes are pooled, because in the layouts of the ops they are before or
    after these.
    """
    if channel < first_pooled or "strides" not in arguments:
        return False
    if channel not in (first_pooled, len(shape) - 1):
        return True
    return is_sequence(arguments["window_shape"]) and any(
        not _is_neutral_on(channel, shape, name, arguments) for name in ("window_shape", "strides")
    )


def _is_neutral_on(
    axis: int, shape: tuple[int, ...], name: str, arguments: Mapping[str, Any]
) -> bool:
    """Return whether an argument leaves an axis unpooled; a single value does."""
    by_axis = _entries_by_axis(shape, name, arguments[name])
    return axis not in by_axis or _is_neutral(name, shape, axis, by_axis[axis])


def _entries_by_axis(shape: tuple[int, ...], name: str, value: Any) -> dict[int, Any]:
    """Return the entries of a sequence by axis; an int or a string has none."""
    if not is_sequence(value):
        return {}
    return dict(enumerate(value, start=_first_axis(shape, name, value)))


def _first_axis(shape: tuple[int, ...], name: str, entries: Any) -> int:
    """Return the axis of the first entry of a sequence, which may not have more than axes."""
    first = len(shape) - length_of(entries)
    if first < 0:
        raise ValueError(
            message(
                f"${name} = {shown(entries)} has {counted(length_of(entries), 'entry')}.",
                f"The value has shape {shape}.",
                "Give at most one entry per axis, those of the last axes.",
            )
        )
    return first


def _pooled_entries(
    shape: tuple[int, ...], pooled: list[int], single: int | None, name: str, value: Any
) -> Any:
    """Return the entries of the pooled axes, in order; raise if another entry is not neutral.

    A single value does not apply to the axis ``single``.
    """
    if not is_sequence(value):
        is_word = value is None or isinstance(value, str)
        leaves_single = single is None or _is_neutral(name, shape, single, value)
        if is_word or (leaves_single and name not in _SIZES):
            return value
        return tuple(
            _neutral_entry(name, shape, axis) if axis == single else value for axis in pooled
        )
    by_axis = _entries_by_axis(shape, name, value)
    for axis in by_axis.keys() - set(pooled):
        if not _is_neutral(name, shape, axis, by_axis[axis]):
            raise ValueError(
                message(
                    f"${name} = {shown(value)} has {by_axis[axis]} for axis {axis}.",
                    f"The entries are for the last axes; the value has shape {shape}, and its "
                    f"pooled axes are {pooled}.",
                    f"Give {_correction(name, shape, axis, value)}, or another $channel_axis.",
                )
            )
    return tuple(by_axis.get(axis, _neutral_entry(name, shape, axis)) for axis in pooled)


def _correction(name: str, shape: tuple[int, ...], axis: int, value: Any) -> str:
    """Return what to give in place of a sequence whose entry for an unpooled axis is not neutral.

    A sequence with an entry for each axis between the batch and the channels, at most, lacks the
    entry for the channels.
    """
    neutral = _neutral_entry(name, shape, axis)
    if axis == len(shape) - 1 and len(value) <= len(shape) - 2:
        return f"${name} = {shown((*value, neutral))}, with an entry for the channels"
    return f"{neutral} for that axis"


def _layout(shape: tuple[int, ...], channel: int | None, pooled: list[int]) -> str:
    """Return the layout for a windowed op, which treats axes that are not pooled as batch axes."""
    if channel == len(shape) - 1:
        return "channels_last"
    if channel is not None and pooled and channel > pooled[0]:
        raise ValueError(
            message(
                f"$channel_axis = {channel} is between pooled axes.",
                f"The value has shape {shape}; its pooled axes are {pooled}.",
                "Move the channels before them or to the end.",
            )
        )
    return "channels_first"
