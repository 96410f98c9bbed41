"""Any function of a window, by loops: for ops that the oracle of ``jaxpool.testing`` lacks.

The loops walk along the axes, as the oracle does. A function accepts the real elements of a window
as a list of Python numbers, in row-major order.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxpool.testing import window_starts

Pairs = Sequence[tuple[int, int]]


def elements_of_windows(
    x: np.ndarray,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Pairs,
    dilations: Sequence[int],
    rounding: str = "floor",
) -> tuple[tuple[int, ...], Iterator[tuple[tuple[int, ...], list[tuple[int, ...]]]]]:
    """Return the output's shape, and for each output the positions of its real elements.

    The layout is channels_last: the axes before the last one are pooled.
    """
    first = x.ndim - 1 - len(kernel)
    starts = [
        window_starts(size, taps, stride, low, high, dilation, rounding)
        for size, taps, stride, (low, high), dilation in zip(
            x.shape[first:-1], kernel, strides, padding, dilations, strict=True
        )
    ]
    shape = (*x.shape[:first], *map(len, starts), x.shape[-1])

    def walk() -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
        for out in np.ndindex(*shape):
            lines = [
                [
                    q
                    for q in range(axis[o], axis[o] + taps * dilation, dilation)
                    if 0 <= q < x.shape[first + n]
                ]
                for n, (axis, o, taps, dilation) in enumerate(
                    zip(starts, out[first:-1], kernel, dilations, strict=True)
                )
            ]
            places = itertools.product(*lines)
            yield out, [(*out[:first], *place, out[-1]) for place in places]

    return shape, walk()


def over_windows(
    function: Callable[[list[Any]], Any], x: np.ndarray, where: Any = None, **window: Any
) -> np.ndarray:
    """Return ``function`` of the real elements of every window that ``where`` does not mask.

    Args:
      function: of a list of numbers, which may be empty.
      x: array, channels last.
      where: mask that broadcasts to ``x``.
      window: as in :func:`elements_of_windows`.
    """
    mask = np.broadcast_to(True if where is None else where, x.shape)
    shape, walk = elements_of_windows(x, **window)
    y = np.empty(shape)
    for out, places in walk:
        y[out] = function([x[place].item() for place in places if mask[place]])
    return y
