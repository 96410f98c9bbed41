"""Windows, determined by stepping along the axes and counting taps, in Python integers."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

Position = tuple[int, ...]


def window_starts(
    size: int,
    kernel: int,
    stride: int,
    low: int,
    high: int,
    dilation: int = 1,
    rounding: str = "floor",
) -> list[int]:
    """Return the first tap of every window of one axis, as a position; negative in low padding.

    Rounding "floor" keeps every window that ends inside the padded axis. "ceil" adds one window if
    elements are left over. "ceil_torch" is "ceil" without the last window if that starts after the
    last element.
    """
    taps = range(0, kernel * dilation, dilation)
    end = size + high
    start = -low
    starts = []
    while start + taps[-1] < end:
        starts.append(start)
        start += stride
    if not starts:
        raise ValueError(f"{kernel} taps at dilation {dilation} do not fit {size} + {low} + {high}")
    elements_left_over = starts[-1] + taps[-1] + 1 < end
    if rounding != "floor" and elements_left_over:
        starts.append(start)
    if rounding == "ceil_torch" and starts[-1] >= size:
        starts.pop()
    return starts


def same_padding(
    size: int, kernel: int, stride: int, dilation: int = 1, word: str = "SAME"
) -> tuple[int, int]:
    """Return the padding for one window per ``stride`` elements; an odd total puts more at the end.

    With ``word`` "SAME_LOWER", more goes to the start.
    """
    last_start = range(0, size, stride)[-1]
    last_tap = last_start + (kernel - 1) * dilation
    total = max(last_tap + 1 - size, 0)
    smaller, larger = total // 2, total - total // 2
    return (larger, smaller) if word.upper() == "SAME_LOWER" else (smaller, larger)


class WindowTaps(NamedTuple):
    """One window over all pooled axes.

    Attributes:
      output: position of the result of the window.
      elements: (offset, position) of each tap that reads an element; offsets count taps row-major.
      padded: number of taps on declared padding.
    """

    output: Position
    elements: list[tuple[int, Position]]
    padded: int


def per_axis(value: Any, count: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (Sequence, np.ndarray)) else (value,) * count


def _padding_pairs(
    padding: Any, sizes: Position, kernel: Position, strides: Position, dilations: Position
) -> list[tuple[int, int]]:
    if isinstance(padding, str):
        if padding.upper() == "VALID":
            return [(0, 0)] * len(sizes)
        rows = zip(sizes, kernel, strides, dilations, strict=True)
        return [same_padding(*row, word=padding) for row in rows]
    ends = (per_axis(entry, 2) for entry in per_axis(padding, len(sizes)))
    return [(low, high) for low, high in ends]


def windows_over(
    sizes: Position, kernel: Position, strides: Any, padding: Any, dilations: Any, rounding: str
) -> tuple[Position, list[WindowTaps]]:
    """Return the shape of the output, and all windows."""
    strides, dilations = per_axis(strides, len(sizes)), per_axis(dilations, len(sizes))
    pads = _padding_pairs(padding, sizes, kernel, strides, dilations)
    starts = [
        window_starts(size, taps, stride, low, high, dilation, rounding)
        for size, taps, stride, (low, high), dilation in zip(
            sizes, kernel, strides, pads, dilations, strict=True
        )
    ]
    ends = tuple(size + high for size, (_, high) in zip(sizes, pads, strict=True))
    windows = []
    for output in itertools.product(*(range(len(axis)) for axis in starts)):
        first_tap = tuple(axis[o] for axis, o in zip(starts, output, strict=True))
        windows.append(_window(output, first_tap, kernel, dilations, sizes, ends))
    return tuple(len(axis) for axis in starts), windows


def _window(
    output: Position,
    first_tap: Position,
    kernel: Position,
    dilations: Position,
    sizes: Position,
    ends: Position,
) -> WindowTaps:
    elements, padded = [], 0
    for number, tap in enumerate(itertools.product(*map(range, kernel))):
        position = tuple(s + t * d for s, t, d in zip(first_tap, tap, dilations, strict=True))
        if all(0 <= q < size for q, size in zip(position, sizes, strict=True)):
            elements.append((number, position))
        elif all(q < end for q, end in zip(position, ends, strict=True)):
            padded += 1
    return WindowTaps(output, elements, padded)
