"""Arguments of ONNX's operators, checked as in the standard and ONNX Runtime."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from ..._errors import counted, message, shown
from ..._geometry.arguments import is_sequence, length_of
from ..._geometry.window import CEIL_OR_ONE
from ...ops._dispatch import WindowArguments
from .. import _checks

AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def array(x: Any) -> Array:
    axes, why = "batch, channels and the pooled axes", "Only the batch axis may be empty."
    return _checks.pooled_array("x", x, (3, 4, 5), axes, 1, why)


def quantised_array(x: Any, channels_last: Any) -> Array:
    x = array(x)
    if binary("channels_last", channels_last):
        x = jnp.moveaxis(x, -1, 1)
    if x.dtype not in (jnp.int8, jnp.uint8):
        raise TypeError(
            message(
                f"$x has dtype {x.dtype}.",
                "Quantised numbers are int8 or uint8.",
                "Use average_pool for floats.",
            )
        )
    return x


def check_scalars(**numbers: Any) -> tuple[Any, ...]:
    """Return scales and zero points, or raise if one of them has several elements."""
    for name, number in numbers.items():
        if number is not None and jnp.size(number) != 1:
            raise ValueError(
                message(
                    f"${name} has shape {jnp.shape(number)}.",
                    "The operator has one scale and one zero point for all channels.",
                    "Give a scalar.",
                )
            )
    return tuple(numbers.values())


def check_float(x: Array) -> None:
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(
            message(
                f"$x has dtype {x.dtype}.",
                "The operator takes floating-point numbers.",
                "Use qlinear_average_pool for quantised integers, or jaxpool.avg_pool.",
            )
        )


def binary(name: str, value: Any) -> int:
    if isinstance(value, (bool, int, np.integer)) and value in (0, 1):
        return int(value)
    raise ValueError(
        message(f"${name} = {shown(value)} is out of range.", "It is 0 or 1.", "Give 0 or 1.")
    )


def per_axis(name: str, value: Any, count: int) -> tuple[int, ...]:
    return (1,) * count if value is None else _checks.one_per_axis(name, value, count)


def pads_of(pads: Any, count: int) -> tuple[tuple[int, int], ...]:
    if pads is None:
        return ((0, 0),) * count
    if not is_sequence(pads) or length_of(pads) != 2 * count:
        is_tuple = is_sequence(pads)
        fault = f"has {counted(length_of(pads), 'entry')}" if is_tuple else "is not a sequence"
        by_name = ", or the name as $auto_pad" if isinstance(pads, str) else ""
        text = message(
            f"$pads = {shown(pads)} {fault}.",
            f"It lists the begins of the {counted(count, 'pooled axis')}, then the ends.",
            f"Give {2 * count} integers{by_name}.",
        )
        raise ValueError(text) if is_tuple else TypeError(text)
    both = _checks.ints("pads", pads, 2 * count, 0)
    return tuple(zip(both[:count], both[count:], strict=True))


def windows(x: Any, *settings: Any) -> tuple[Array, WindowArguments]:
    """Return the array and its windows; ``settings`` are those of :func:`windows_over`."""
    x = array(x)
    return x, WindowArguments(*windows_over(x.shape[2:], *settings), data_format="channels_first")


def windows_over(
    sizes: Sequence[int], kernel_shape: Any, strides: Any = None, pads: Any = None,
    dilations: Any = None, auto_pad: Any = "NOTSET", ceil_mode: Any = 0,
) -> _checks.Windows:  # fmt: skip
    """Return window, strides, padding, dilations and rounding over axes of ``sizes``."""
    count = len(sizes)
    kernel = _checks.one_per_axis("kernel_shape", kernel_shape, count)
    steps = per_axis("strides", strides, count)
    spacing = per_axis("dilations", dilations, count)
    ceil = binary("ceil_mode", ceil_mode)
    padding: Any = pads_of(pads, count)
    automatic = _checks.one_of("auto_pad", auto_pad, AUTO_PADS)
    if automatic == "NOTSET":
        check_pads(kernel, padding)
    elif any(map(any, padding)):
        raise ValueError(
            message(
                f"$pads = {shown(pads)} and $auto_pad = {automatic!r} are both given.",
                "The ONNX standard says that pads cannot be used simultaneously with auto_pad.",
                'Leave one of them out, or give auto_pad="NOTSET".',
            )
        )
    else:
        padding = automatic
    _checks.check_windows_fit("kernel_shape", sizes, kernel, steps, spacing, padding, bool(ceil))
    return kernel, steps, padding, spacing, CEIL_OR_ONE if ceil else "floor"


def check_pads(kernel: Sequence[int], pads: Sequence[tuple[int, int]]) -> None:
    """Raise unless the pads of every axis are smaller than the kernel."""
    for axis, (k, ends) in enumerate(zip(kernel, pads, strict=True)):
        if max(ends) >= k:
            raise ValueError(
                message(
                    f"$pads = {ends} of pooled axis {axis} are not smaller than the kernel.",
                    f"$kernel_shape is {k} on that axis; ONNX Runtime refuses such pads.",
                    "Pad the array itself, or use jaxpool's own op, which has no such limit.",
                )
            )
