"""Arguments of OpenVINO's operations, checked as in OpenVINO."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import Array

from ..._geometry.arguments import is_sequence, length_of
from ...ops._dispatch import WindowArguments
from .. import _checks

NEW_ROUNDINGS = ("floor", "ceil", "ceil_torch")
OLD_ROUNDINGS = ("floor", "ceil")
_AUTO_PADS = ("explicit", "valid", "same_upper", "same_lower")
_INDEX_TYPES = ("i64", "i32")


def array(data: Any, first: int) -> Array:
    """Return ``data`` as an array, whose axes from ``first`` on may not be empty."""
    axes = "batch, channels and the pooled axes"
    why = "Only the batch axis may be empty." if first else "No axis may be empty."
    return _checks.pooled_array("data", data, (3, 4, 5), axes, first, why)


def adaptive(data: Any, output_shape: Any) -> tuple[Array, tuple[int, ...]]:
    x = array(data, 1)
    sizes = _checks.one_per_axis("output_shape", output_shape, x.ndim - 2, -1)
    return x, tuple(max(size, 0) for size in sizes)


def index_type(index_element_type: Any, counted: Sequence[int]) -> np.dtype:
    """Return the dtype of indices that count axes of the lengths ``counted``."""
    name = _checks.one_of("index_element_type", index_element_type, _INDEX_TYPES, ignore_case=True)
    return np.dtype(np.int32) if name == "i32" else _checks.index_dtype(counted)


def windows(
    data: Any, settings: tuple[Any, ...], roundings: Sequence[str]
) -> tuple[Array, WindowArguments]:
    """Return the array and its windows; ``settings`` is that of :func:`windows_over`."""
    x = array(data, 0)
    canonical = windows_over(x.shape[2:], settings, roundings)
    return x, WindowArguments(*canonical, data_format="channels_first")


def windows_over(
    sizes: Sequence[int], settings: tuple[Any, ...], roundings: Sequence[str]
) -> _checks.Windows:
    """Return window, strides, padding, dilations and rounding over axes of ``sizes``.

    ``settings`` contains strides, dilations, pads_begin, pads_end, kernel_shape, rounding_type and
    auto_pad.
    """
    strides, dilations, pads_begin, pads_end, kernel_shape, rounding_type, auto_pad = settings
    count = len(sizes)

    def per_axis(name: str, value: Any, least: int = 1) -> tuple[int, ...]:
        return _checks.one_per_axis(name, value, count, least)

    def per_axis_or(default: int, name: str, value: Any) -> tuple[int, ...]:
        is_empty = is_sequence(value) and not length_of(value)
        return (default,) * count if is_empty else per_axis(name, value, default)

    kernel, steps = per_axis("kernel_shape", kernel_shape), per_axis("strides", strides)
    spacing = per_axis_or(1, "dilations", () if dilations is None else dilations)
    begin = per_axis_or(0, "pads_begin", pads_begin)
    end = per_axis_or(0, "pads_end", pads_end)
    rounding = _checks.one_of("rounding_type", rounding_type, roundings, ignore_case=True)
    auto_pad = "explicit" if auto_pad is None else auto_pad
    automatic = _checks.one_of("auto_pad", auto_pad, _AUTO_PADS, ignore_case=True)
    padding = tuple(zip(begin, end, strict=True)) if automatic == "explicit" else automatic
    _checks.check_windows_fit("kernel_shape", sizes, kernel, steps, spacing, padding)
    return kernel, steps, padding, spacing, rounding
