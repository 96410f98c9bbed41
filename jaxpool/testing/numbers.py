"""Sums, averages and extremes of Python numbers, with the rules of a given dtype."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from .geometry import Position, WindowTaps


def is_float(dtype: Any) -> bool:
    """Return whether ``dtype`` is a float, by its name, as the kinds of ml_dtypes tell nothing."""
    return np.dtype(dtype).name.startswith(("float", "bfloat"))


def is_nan(number: Any) -> bool:
    return number != number


def argmax(numbers: np.ndarray, elements: list[tuple[int, Position]], op: str) -> Any:
    """Return the (offset, position) of the first NaN, or else of the first extreme.

    The result is None if there are no elements.
    """
    best = None
    for tap, position in elements:
        if best is None:
            best = tap, position
            continue
        new, old = numbers[position], numbers[best[1]]
        better = new > old if op == "max" else new < old
        if not is_nan(old) and (is_nan(new) or better):
            best = tap, position
    return best


def identity(op: str, dtype: Any) -> Any:
    """Return the result of an empty window: the lowest value for max, the highest for min."""
    if np.dtype(dtype) == np.bool_:
        return op == "min"
    return limits(dtype)[0 if op == "max" else 1]


def limits(dtype: Any) -> tuple[Any, Any]:
    """Return the lowest and the highest number of a dtype, infinity if there is one."""
    if not is_float(dtype):
        low, bits = _integer(dtype)
        return low, low + (1 << bits) - 1
    if np.dtype(dtype).itemsize > 1:
        return -math.inf, math.inf
    numbers = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)  # all there are
    return np.nanmin(numbers), np.nanmax(numbers)


def _integer(dtype: Any) -> tuple[int, int]:
    """Return the lowest number of a dtype of integers, and the number of bits."""
    kind, _, bits = np.dtype(dtype).name.partition("int")
    return 0 if kind == "u" else -(1 << int(bits) - 1), int(bits)


def accumulator(dtype: Any) -> Callable[[Any], Any]:
    """Return the type in which ``dtype`` is summed: int, or a float of at least 32 bits."""
    if not is_float(dtype):
        return int
    return np.float64 if np.dtype(dtype).itemsize == 8 else np.float32


def sum_dtype(dtype: np.dtype) -> np.dtype:
    """Return the result dtype of a sum: that of ``jnp.sum`` without 64-bit types."""
    if is_float(dtype) or dtype.itemsize >= 4:
        return dtype
    return np.dtype(np.uint32 if dtype.name.startswith("u") else np.int32)


def wrapped(number: int, dtype: Any) -> int:
    low, bits = _integer(dtype)
    return (number - low) % (1 << bits) + low


def _saturated(number: int, dtype: Any) -> int:
    low, high = limits(dtype)
    return min(max(number, low), high)


def divisor(
    window: WindowTaps,
    elements: list[tuple[int, Position]],
    count_include_pad: bool,
    divisor_override: int | None,
) -> int:
    if divisor_override is not None:
        return divisor_override
    return len(elements) + (window.padded if count_include_pad else 0)


def average(total: Any, divisor: int, dtype: np.dtype) -> Any:
    if divisor == 0:
        return 0
    if not is_float(dtype):
        return _saturated(round(Fraction(total, divisor)), dtype)  # Python rounds half to even
    return (total / accumulator(dtype)(divisor)).astype(dtype)
