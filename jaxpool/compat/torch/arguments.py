"""Arguments of PyTorch's functions, checked as in PyTorch."""

from collections.abc import Sequence
from typing import Any, SupportsIndex

from jax import Array

from ..._errors import message
from ..._geometry.arguments import Integers, as_bool, is_sequence
from ..._geometry.window import CEIL_OR_ONE
from ...ops._dispatch import WindowArguments
from .. import _checks

Sizes = Integers
"""One number for all pooled axes, or one for each pooled axis."""

OutputSize = SupportsIndex | None | Sequence[SupportsIndex | None]
"""Number of windows on each axis; None keeps the length of the axis."""


def array(count: int, input: Any, first: int | None = None) -> Array:
    """Return ``input``, with ``count`` pooled axes, as an array.

    Args:
      first: first axis that may not be empty, nor may the axes after it; default the channels.
    """
    axes = "channels and the pooled axes, with or without a batch axis"
    why = "PyTorch accepts no such empty axis."
    first = -count - 1 if first is None else first
    return _checks.pooled_array("input", input, (count + 1, count + 2), axes, first, why)


def sizes(name: str, value: Any, count: int, least: int = 1) -> tuple[int, ...]:
    """Return ``count`` integers, from an int, or from a sequence of one or ``count`` integers."""
    if is_sequence(value) and len(value) == 1:
        value = value[0]
    return _checks.ints(name, value, count, least)


def windows(
    x: Array,
    count: int,
    kernel_size: Any,
    stride: Any,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: Any = False,
) -> WindowArguments:
    """Return sliding windows over the last ``count`` axes of ``x``."""
    kernel = sizes("kernel_size", kernel_size, count)
    omitted = stride is None or (is_sequence(stride) and not len(stride))
    strides = kernel if omitted else sizes("stride", stride, count)
    _checks.check_integer_padding(padding, accepts_pairs=False)
    pads = sizes("padding", padding, count, 0)
    dilations = sizes("dilation", dilation, count)
    ceil = as_bool("ceil_mode", ceil_mode)
    _check_pads(pads, kernel)
    pairs = tuple((p, p) for p in pads)
    _checks.check_windows_fit(
        "kernel_size", x.shape[-count:], kernel, strides, dilations, pairs, ceil
    )
    rounding = CEIL_OR_ONE if ceil else "floor"
    return WindowArguments(kernel, strides, pairs, dilations, rounding, "channels_first")


def _check_pads(pads: tuple[int, ...], kernel: tuple[int, ...]) -> None:
    for pad, taps in zip(pads, kernel, strict=True):
        if pad > taps // 2:
            raise ValueError(
                message(
                    f"$padding = {pad} is more than half of $kernel_size = {taps}.",
                    "PyTorch allows at most half of the window.",
                    "Pad the array itself, or use jaxpool's own op, which has no such limit.",
                )
            )


def check_unpadded_axes(x: Array, kernel: tuple[int, ...]) -> None:
    """Raise if a 3-D window exceeds the axis without padding, as in PyTorch's 3-D average."""
    if len(kernel) < 3:
        return
    for axis, (taps, size) in enumerate(zip(kernel, x.shape[-3:], strict=True)):
        if isinstance(size, int) and taps > size:
            raise ValueError(
                message(
                    f"$kernel_size = {taps} does not fit pooled axis {axis}.",
                    f"The axis has {size} elements, without the padding that PyTorch ignores here.",
                    "Use a smaller window, or pad the array itself.",
                )
            )
