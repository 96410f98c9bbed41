"""Sums, averages and extremes of Python numbers, with the rules of a given dtype."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from .geometry import Position, WindowTaps


def is_float(dtype: Any) -> bool:
    """Return whether ``dtype`` is a float, including the ml_dtypes floats without a NumPy kind."""
    return np.dtype(dtype).kind not in "biu"


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
    if is_float(dtype):
        return -math.inf if op == "max" else math.inf
    limits = np.iinfo(dtype)
    return limits.min if op == "max" else limits.max


def accumulator(dtype: Any) -> Callable[[Any], Any]:
    """Return the type in which ``dtype`` is summed: int, or a float of at least 32 bits."""
    if not is_float(dtype):
        return int
    return np.float64 if np.dtype(dtype).itemsize == 8 else np.float32


def sum_dtype(dtype: np.dtype) -> np.dtype:
    """Return the result dtype of a sum: that of ``jnp.sum`` without 64-bit types."""
    if is_float(dtype) or dtype.itemsize >= 4:
        return dtype
    return np.dtype(np.uint32 if dtype.kind == "u" else np.int32)


def wrapped(number: int, dtype: Any) -> int:
    limits = np.iinfo(dtype)
    return (number - int(limits.min)) % (1 << limits.bits) + int(limits.min)


def _saturated(number: int, dtype: Any) -> int:
    limits = np.iinfo(dtype)
    return min(max(number, int(limits.min)), int(limits.max))


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
