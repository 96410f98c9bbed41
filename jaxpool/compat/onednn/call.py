"""Arguments of the primitive, checked as in oneDNN."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, export

from ..._errors import shown
from ..._geometry.arguments import entries_of, integer, is_sequence, per_axis
from ..._geometry.layout import pooled_axes, with_lengths
from ..._geometry.resolve import Geometry, check_at_least
from ..._lowerings.parts.argreduce import offset_dtype
from ...ops._dispatch import Configuration, WindowArguments, configure
from .._cached import cached
from .formats import TAGS, check_rank, default_tag, spatial_count, status_error

ALGORITHMS = ("max", "avg_include_padding", "avg_exclude_padding")

_FLOATS = ("float32", "bfloat16", "float16")
_INTEGERS = ("int8", "uint8", "int32")
_CONVERSIONS = {("int8", "uint8"), ("uint8", "int8"), ("int8", "float32"), ("float32", "int8")}


class Call(NamedTuple):
    """A call in canonical form.

    Attributes:
      alg_kind: the reduction of a window.
      settings: the window, and the layout of the array, in which blocks of channels are channels.
      crop: number of elements that a negative ``padding_r`` crops from the end of each spatial
        axis. If all are cropped, every window is in padding, and a single element that is never
        selected replaces the axis.
    """

    alg_kind: str
    settings: Configuration
    crop: tuple[int, ...]

    def geometry(self, shape: tuple[int, ...]) -> Geometry:
        """Return the windows over an array whose shape before cropping is ``shape``."""
        positions = self.positions(shape)
        cropped = [max(shape[p] - n, 1) for p, n in zip(positions, self.crop, strict=True)]
        return self.settings.geometry(with_lengths(shape, positions, cropped))

    def positions(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the spatial axes of an array of ``shape``."""
        return pooled_axes(self.settings.data_format, len(self.crop), shape)


@cached
def canonical_call(
    shape: tuple[int, ...], alg_kind: str, window_arguments: tuple[Any, ...], tag: str | None
) -> Call:
    if not isinstance(alg_kind, str) or alg_kind not in ALGORITHMS:
        raise status_error(
            f"$alg_kind = {shown(alg_kind)} is not an algorithm.",
            f"They are {', '.join(ALGORITHMS)}.",
            "Give one of them.",
        )
    tag = default_tag(shape) if tag is None or (isinstance(tag, str) and tag == "any") else tag
    count = spatial_count(tag)
    check_rank(shape, tag)
    kernel, strides, dilation, padding_l, padding_r = window_arguments
    kernel = per_axis("kernel", kernel, count)
    strides = per_axis("strides", strides, count)
    dilations = tuple(d + 1 for d in per_axis("dilation", dilation, count, least=0))
    low = per_axis("padding_l", padding_l, count, least=0)
    high = per_axis("padding_r", padding_r, count, least=-math.inf)
    data_format = "channels_first" if TAGS[tag] == "channels_first" else "channels_last"
    sizes = [shape[position] for position in pooled_axes(data_format, count, shape)]
    axes = zip(sizes, kernel, strides, dilations, low, high, strict=True)
    pads_and_crops = [_pads_and_crop(alg_kind, axis, *row) for axis, row in enumerate(axes)]
    windows = WindowArguments(
        kernel, strides, [pads for pads, _ in pads_and_crops], dilations, data_format=data_format
    )
    return Call(alg_kind, configure(windows), tuple(crop for _, crop in pads_and_crops))


def _pads_and_crop(
    alg_kind: str, axis: int, size: Any, k: int, s: int, d: int, before: int, after: int
) -> tuple[tuple[int, int], int]:
    """Return the padding of a spatial axis and the elements cropped from its end, or raise."""
    span = (k - 1) * d + 1
    if not isinstance(size, int):
        size = _min_size(axis, size, span, before, after)
    if after < -s:
        raise status_error(
            f"$padding_r = {after} of spatial axis {axis} crops more than a stride.",
            f"The stride is {s}.",
            "Crop the array before the call.",
        )
    slack = size + before + after - span
    if slack <= -s:
        raise status_error(
            f"$kernel = {k} does not fit spatial axis {axis}.",
            f"It spans {span} elements, but the axis has {size} + padding ({before}, {after}).",
            "Use a smaller kernel or dilation, or more padding.",
        )
    if alg_kind == "avg_exclude_padding":
        _check_overlap(axis, size, span, d, before, after)
    # Division truncates, so a window that exceeds the axis by less than a stride is one window.
    after -= min(slack, 0)
    is_hidden = -after >= size  # no window reaches the array
    return (before + size + after - 1, 0) if is_hidden else (before, max(after, 0)), max(-after, 0)


def _min_size(axis: int, size: Any, span: int, before: int, after: int) -> int:
    """Return the lower bound that a symbolic size needs, above which the rules do not change."""
    min_size = max(span - before - after, 1 - after, 1)
    check_at_least(
        f"pooled axis {axis}", size, min_size,
        f"A kernel spans {span} elements, with padding ({before}, {after}); oneDNN's result "
        "for a kernel that does not fit depends on the size.",
    )  # fmt: skip
    return min_size


def source_shape(shape: Any) -> tuple[Any, ...]:
    """Return the shape of `$src`, whose sizes may be symbolic in an export."""
    if not is_sequence(shape):
        raise status_error(
            f"$src_shape = {shown(shape)} is not a shape.",
            "It has an entry for each axis of $src.",
            "Give src.shape.",
        )
    return tuple(
        size if export.is_symbolic_dim(size) else integer("src_shape", size, 0)
        for size in entries_of("src_shape", shape)
    )


def _check_overlap(axis: int, size: int, span: int, dilation: int, before: int, after: int) -> None:
    if span <= max(before, after) or dilation - 1 >= size:
        raise status_error(
            f"a window may contain no element of spatial axis {axis}.",
            f"It spans {span} elements at dilation {dilation - 1}, over {size} with padding "
            f"({before}, {after}).",
            "Excluding padding would divide by 0; pad or dilate less.",
        )


def result_dtype(src: Array, dst_dtype: Any) -> np.dtype:
    try:
        dtype = src.dtype if dst_dtype is None else jnp.dtype(dst_dtype)
    except TypeError:
        raise status_error(
            f"$dst_dtype = {shown(dst_dtype)} is not a dtype.",
            "It is the dtype of the result.",
            "Give for example jnp.float32, or None for that of $src.",
        ) from None
    known = src.dtype == dtype and dtype.name in _FLOATS + _INTEGERS
    if not known and (src.dtype.name, dtype.name) not in _CONVERSIONS:
        raise status_error(
            f"pooling of {src.dtype} to {dtype} is not supported.",
            "Pooling supports f32, bf16, f16, s8, u8 and s32, and s8 to u8 or f32, u8 to s8, f32 "
            "to s8.",
            "Convert the array.",
            status="unimplemented",
        )
    return np.dtype(dtype)


def check_backward(diff_dst: Array, workspace: Any, call: Call, src_shape: tuple[int, ...]) -> None:
    if diff_dst.dtype.name not in _FLOATS:
        raise status_error(
            f"$diff_dst has dtype {diff_dst.dtype}.",
            "Backward is defined for f32, bf16 and f16.",
            "Integers have no gradient.",
            status="unimplemented",
        )
    geometry = call.geometry(src_shape)
    expected = geometry.full_shape(src_shape)
    if diff_dst.shape != expected:
        raise status_error(
            f"$diff_dst has shape {diff_dst.shape}.",
            f"A source of shape {src_shape} gives {expected}.",
            "Give the settings of the forward call.",
        )
    dtype = offset_dtype(geometry)
    received = None if workspace is None else (jnp.shape(workspace), jnp.asarray(workspace).dtype)
    if call.alg_kind == "max" and received != (expected, dtype):
        raise status_error(
            "$workspace is not that of the forward call.",
            f"For these settings it has shape {expected} and dtype {dtype}, not {received}.",
            "Give the workspace that forward_training returned.",
        )
