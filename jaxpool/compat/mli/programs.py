"""Shared code of MLI's kernels: the conditions of the library, and the compiled programs."""

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import jax.numpy as jnp
import numpy as np
from jax import Array

from ..._errors import message, shown
from ..._geometry.resolve import Geometry, check_known, geometry
from ..._lowerings.parts.axis_slicing import reshape_along
from ...ops.average import sum_pool
from ...ops.max import max_pool
from .._averages import saturate
from .._checks import ints
from .._compiled import compiled
from .arithmetic import reciprocal, requantisation, round_shift_32, round_shift_64
from .tensors import FxTensor, MliError, PoolConfig, SaTensor, pads_of, parameter

Rounding = Literal["up", "convergent"]
ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)


class Element(NamedTuple):
    """The operand type of a kernel: the kind of tensor, and the dtype of its elements."""

    tensor: type
    dtype: np.dtype


FX8, FX16 = Element(FxTensor, np.dtype(np.int8)), Element(FxTensor, np.dtype(np.int16))
SA8 = Element(SaTensor, np.dtype(np.int8))

# --- conditions -----------------------------------------------------------------------------------


def check_arguments(
    x: Any, cfg: Any, element: Element, layout: str, out_shape: tuple[int, int] | None
) -> tuple[Array, tuple[int, int]]:
    """Return the checked data, and the height and width of the result, or raise."""
    data = _checked_data(x, element)
    height, width = largest = _largest_size(data, cfg, layout)
    if out_shape is not None:
        height, width = ints("out_shape", out_shape, 2, -math.inf, int_for_all=False)
    if not (0 < height <= largest[0] and 0 < width <= largest[1]):
        raise _bad_config(f"an output of {height}x{width}, where {largest} fit")
    return data, (height, width)


def _checked_data(x: Any, element: Element) -> Array:
    if not isinstance(x, element.tensor):
        fault = "TYPE_MISMATCH" if isinstance(x, (FxTensor, SaTensor)) else "BAD_TENSOR"
        what = f"x is of type {type(x).__name__}, not {element.tensor.__name__}"
        raise MliError(f"MLI_STATUS_{fault}", what)
    if not hasattr(x.data, "dtype") or not hasattr(x.data, "shape"):
        raise MliError(
            "MLI_STATUS_BAD_TENSOR", f"data is not an array but of type {type(x.data).__name__}"
        )
    if x.data.dtype != element.dtype:
        raise MliError(
            "MLI_STATUS_TYPE_MISMATCH", f"elements are {x.data.dtype}, not {element.dtype}"
        )
    if len(x.data.shape) != 3:
        raise MliError("MLI_STATUS_SHAPE_MISMATCH", f"the rank is {len(x.data.shape)}, not 3")
    if 0 in x.data.shape:
        raise MliError("MLI_STATUS_BAD_TENSOR", f"the shape {x.data.shape} has a zero")
    return jnp.asarray(x.data)


def _largest_size(data: Array, cfg: Any, layout: str) -> tuple[int, int]:
    """Return height and width of the result with all windows that fit the padded input."""
    if not isinstance(cfg, PoolConfig):
        raise _bad_config("cfg is not a PoolConfig")
    if min(cfg.stride_height, cfg.stride_width) < 1:
        raise _bad_config("a stride is 0")
    first = layout.index("H")
    rows, columns = _axes(cfg)
    return _output_size(data.shape[first], *rows), _output_size(data.shape[first + 1], *columns)


def _output_size(size: int, kernel: int, stride: int, pads: tuple[int, int]) -> int:
    if max(pads) >= kernel:
        raise _bad_config(f"padding {pads} is not less than the kernel, {kernel}")
    return (size + sum(pads) - kernel) // stride + 1


def _bad_config(what: str) -> MliError:
    return MliError("MLI_STATUS_BAD_FUNC_CFG", what)


def _axes(cfg: PoolConfig) -> tuple[tuple[int, int, tuple[int, int]], ...]:
    """Return kernel, stride and pads for height and for width."""
    rows, columns = pads_of(cfg)
    return (
        (cfg.kernel_height, cfg.stride_height, rows),
        (cfg.kernel_width, cfg.stride_width, columns),
    )


def check_rounding(rounding: Any) -> None:
    if not isinstance(rounding, str) or rounding not in ROUNDINGS:
        raise ValueError(
            message(
                f"$rounding = {shown(rounding)} is not supported.",
                f"MLI is built with one of {', '.join(ROUNDINGS)}.",
                "Give the rounding mode of your build.",
            )
        )


# --- programs -------------------------------------------------------------------------------------


def maximum(x: Any, cfg: Any, element: Element, layout: str, out_shape: Any) -> Array:
    data, size = check_arguments(x, cfg, element, layout, out_shape)
    return _max_values(data, cfg=cfg, layout=layout, size=size)


def average_fx(
    x: Any, cfg: Any, element: Element, layout: str, rounding: Any, out_shape: Any, bits: Any
) -> FxTensor:
    data, size = check_arguments(x, cfg, element, layout, out_shape)
    check_rounding(rounding)
    bits = x.frac_bits if bits is None else parameter("out_frac_bits", bits)
    shift = x.frac_bits - bits
    y = _average(data, cfg=cfg, layout=layout, size=size, mode=rounding, bits=shift)
    return FxTensor(y, bits)


def _window(cfg: PoolConfig) -> tuple[Any, ...]:
    """Return kernel, strides and padding as arguments of the ops."""
    return tuple(zip(*_axes(cfg), strict=True))


def _crop_to_size(y: Array, layout: str, size: tuple[int, int]) -> Array:
    first = layout.index("H")
    return y[(slice(None),) * first + tuple(slice(0, length) for length in size)]


@compiled("cfg", "layout", "size")
def _max_values(data: Array, *, cfg: PoolConfig, layout: str, size: tuple[int, int]) -> Array:
    return _crop_to_size(max_pool(data, *_window(cfg), data_format=layout), layout, size)


@compiled("cfg", "layout", "size", "mode", "bits")
def _average(
    data: Array, *, cfg: PoolConfig, layout: str, size: tuple[int, int], mode: str, bits: int
) -> Array:
    total, counts = _sums_and_counts(data, cfg, layout)

    def factor_and_shift(m: int) -> tuple[int, int]:
        mul, h = reciprocal(m)
        return mul, h + bits

    mul, shift = _map_counts(factor_and_shift, counts)
    if data.dtype == jnp.int16:
        y = round_shift_64(total, mul, shift, mode)
    else:
        y = round_shift_32(total * mul, shift, mode)
    return _crop_to_size(saturate(y, data.dtype), layout, size)


@compiled("cfg", "size", "mode", "source", "target")
def average_sa8(
    data: Array,
    *,
    cfg: PoolConfig,
    size: tuple[int, int],
    mode: str,
    source: tuple[int, int, int],
    target: tuple[int, int, int],
) -> Array:
    total, counts = _sums_and_counts(data, cfg, "HWC")
    requantise = functools.partial(requantisation, source=source, target=target, mode=mode)
    mul, shift, start = _map_counts(requantise, counts)
    y = round_shift_32(total * mul + start, shift, mode)
    return _crop_to_size(saturate(y, data.dtype), "HWC", size)


def _sums_and_counts(data: Array, cfg: PoolConfig, layout: str) -> tuple[Array, np.ndarray]:
    """Return the sum of every window, which fits int32, and the number of its elements."""
    total = sum_pool(data.astype(jnp.int32), *_window(cfg), data_format=layout).astype(jnp.int32)
    first = layout.index("H")
    sizes = data.shape[first : first + 2]
    check_known(sizes)
    windows: Geometry = geometry(sizes, *_window(cfg))
    height, width = (axis.counts(include_pad=False) for axis in windows.axes)
    return total, reshape_along(height, first, 3) * reshape_along(width, first + 1, 3)


def _map_counts(function: Callable[[int], tuple[int, ...]], counts: np.ndarray) -> np.ndarray:
    """Return the results of ``function`` for every count, in int32, the first result first."""
    distinct, inverse = np.unique(counts, return_inverse=True)
    results = np.array([function(int(m)) for m in distinct], np.int32)
    return results.T[:, inverse.reshape(counts.shape)]
