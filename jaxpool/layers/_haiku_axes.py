"""From axes as Haiku counts them to the layouts of the ops.

An argument with an entry for each axis has those of the last axes of the value; axes before them
are batch axes, as is a first axis with window 1. An int as window stands for every axis but the
first and the channels, another int for the pooled axes. What is written for ``channel_axis`` leaves
that axis alone: 1 as window, stride or dilation, 0 as padding, None as output size, its own length
in an output shape. A window that names the axis, with another entry, pools it too.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import message, renamed, shown
from .._geometry.arguments import is_sequence

_ALONE = {
    "window_shape": 1, "strides": 1, "dilations": 1, "blur_shape": 1, "padding": 0,
    "output_size": None,
}  # fmt: skip
"""Arguments with an entry for each axis, and the entry that leaves an axis alone."""
_SIZES = ("output_shape", "window_shape", "output_size")
"""Arguments that say which axes are pooled; the first that a function has does."""


def call(op: Callable[..., Any], *, value: Any, channel_axis: int | None, **given: Any) -> Any:
    """Call ``op`` with the arguments of a function of Haiku, which hands over its ``locals()``."""
    shape = jnp.shape(value)
    channel = _channel(shape, channel_axis)
    sizes = next(name for name in _SIZES if name in given)
    first = _first_pooled(shape, sizes, given[sizes])
    if _pools_channels(shape, channel, first, given):
        channel = None
    pooled = [axis for axis in range(first, len(shape)) if axis != channel]
    given |= {
        name: _entries(shape, pooled, name, entries)
        for name, entries in given.items()
        if name in _ALONE or name == "output_shape"
    }
    layout = _layout(shape, channel, pooled)
    if pooled[:1] == [0] and layout == "channels_first":  # which has an axis before the pooled ones
        return _call_on_all_axes(op, value, given)
    with renamed(data_format="channel_axis"):
        return op(value, data_format=layout, **given)


def _call_on_all_axes(op: Callable[..., Any], value: Any, given: dict[str, Any]) -> Any:
    space = given.get("index_space")
    if isinstance(space, int) and space >= 0:
        given = {**given, "index_space": space - jnp.ndim(value)}
    if "indices" in given:
        given = {**given, "indices": jnp.asarray(given["indices"])[None]}
    result = op(jnp.asarray(value)[None], data_format="channels_first", **given)
    return jax.tree.map(lambda y: y[0], result)


def call_global(
    op: Callable[..., Any], value: Any, channel_axis: int | None, **options: Any
) -> Any:
    rank = jnp.ndim(value)
    channel = _channel(jnp.shape(value), channel_axis)
    spatial = sorted({*range(1, rank)} - {channel})
    letters = {0: "N", channel: "C", **dict(zip(reversed(spatial), "WHD", strict=False))}
    layout = "".join(letters.get(axis, "") for axis in range(rank))
    with renamed(data_format="channel_axis"):
        return op(value, data_format=layout, **options)


def _channel(shape: tuple[int, ...], channel_axis: int | None) -> int | None:
    """The channel axis, counted from the front."""
    if channel_axis is None:
        return None
    if -len(shape) <= channel_axis < len(shape):
        return channel_axis % len(shape)
    raise ValueError(
        message(
            f"$channel_axis = {channel_axis} is no axis of the value.",
            f"The value has shape {shape}.",
            "Give the axis of the channels, or None.",
        )
    )


def _alone(name: str, shape: tuple[int, ...], axis: int) -> Any:
    """The entry that leaves an axis alone."""
    return shape[axis] if name == "output_shape" else _ALONE[name]


def _is_alone(name: str, shape: tuple[int, ...], axis: int, entry: Any) -> bool:
    return not np.any(np.not_equal(entry, _alone(name, shape, axis)))


def _first_pooled(shape: tuple[int, ...], name: str, sizes: Any) -> int:
    """The first pooled axis, channels included."""
    if not is_sequence(sizes):
        return 1
    start = len(shape) - len(sizes)
    return start + (start == 0 and sizes[0] == _alone(name, shape, 0))


def _pools_channels(
    shape: tuple[int, ...], channel: int | None, first: int, axes: Mapping[str, Any]
) -> bool:
    """Whether a window with an entry for each axis makes the channels one of the pooled axes.

    Haiku then asks for no channels at all, so they may lie between other pooled axes.
    """
    if channel is None or channel < first or not is_sequence(axes.get("window_shape")):
        return False
    if channel not in (first, len(shape) - 1):
        return True
    given = ((name, _given(shape, axes.get(name))) for name in ("window_shape", "strides"))
    return any(
        channel in entries and not _is_alone(name, shape, channel, entries[channel])
        for name, entries in given
    )


def _given(shape: tuple[int, ...], value: Any) -> dict[int, Any]:
    """The entries of an argument by axis; none of an int or a word."""
    if not is_sequence(value):
        return {}
    return dict(enumerate(value, start=len(shape) - len(value)))


def _entries(shape: tuple[int, ...], pooled: list[int], name: str, value: Any) -> Any:
    """The entries of the pooled axes, of an argument that has an entry for each axis."""
    if not is_sequence(value):
        spread = name in _SIZES and value is not None
        return (value,) * len(pooled) if spread else value
    given = _given(shape, value)
    for axis in given.keys() - set(pooled):
        if not _is_alone(name, shape, axis, given[axis]):
            raise ValueError(
                message(
                    f"${name} = {shown(value)} has {given[axis]} for axis {axis}.",
                    f"The value has shape {shape}; its pooled axes are {pooled}.",
                    f"Give {_alone(name, shape, axis)} for that axis, or another $channel_axis.",
                )
            )
    return tuple(given.get(axis, _alone(name, shape, axis)) for axis in pooled)


def _layout(shape: tuple[int, ...], channel: int | None, pooled: list[int]) -> str:
    """The layout of a windowed op, to which an axis that is not pooled is a batch axis."""
    if channel == len(shape) - 1:
        return "channels_last"
    if channel is not None and pooled and channel > pooled[0]:
        raise ValueError(
            message(
                f"$channel_axis = {channel} stands between pooled axes.",
                f"The value has shape {shape}; its pooled axes are {pooled}.",
                "Move the channels before them or to the end.",
            )
        )
    return "channels_first"
