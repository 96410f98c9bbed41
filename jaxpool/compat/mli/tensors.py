"""Arguments of MLI's kernels: fixed-point tensors and the configuration of windows."""

import functools
import math
from dataclasses import dataclass, fields
from typing import Any

import jax
import numpy as np
from jax import Array

from ..._errors import public_constructor
from ..._geometry.arguments import integer


class MliError(ValueError):
    """Raised if a condition of a kernel is not met.

    Attributes:
      status: the library's name of the error, such as "MLI_STATUS_BAD_FUNC_CFG".
      what: the condition.
    """

    def __init__(self, status: str, what: str):
        super().__init__(f"{status}: {what}")
        self.status, self.what = status, what


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["data"], meta_fields=["frac_bits"]
)
@public_constructor
@dataclass(frozen=True, eq=False)
class FxTensor:
    """Fixed-point numbers ``data * 2^-frac_bits``, a pytree with one array.

    Attributes:
      data: int8 (fx8) or int16 (fx16) array.
      frac_bits: number of fractional bits.
    """

    data: Array | np.ndarray
    frac_bits: int

    def __post_init__(self) -> None:
        _canonicalize(self, "frac_bits")


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["data"],
    meta_fields=["zero_point", "scale", "scale_frac_bits"],
)
@public_constructor
@dataclass(frozen=True, eq=False)
class SaTensor:
    """Numbers ``(data - zero_point) * scale * 2^-scale_frac_bits``, a pytree with one array.

    Attributes:
      data: int8 array.
      zero_point: int16.
      scale: positive int16.
      scale_frac_bits: number of fractional bits of the scale.
    """

    data: Array | np.ndarray
    zero_point: int
    scale: int
    scale_frac_bits: int

    def __post_init__(self) -> None:
        _canonicalize(self, "zero_point", "scale", "scale_frac_bits")


_BITS = {"frac_bits": 8, "zero_point": 16, "scale": 16, "scale_frac_bits": 8}
"""The bits of each parameter of a tensor, which has a sign."""


def parameter(name: str, value: Any) -> int:
    """Return a parameter of a tensor as a Python integer, which does not wrap, or raise."""
    number, bits = integer(name, value, -math.inf), _BITS[name.removeprefix("out_")]
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise MliError("MLI_STATUS_BAD_TENSOR", f"{name} is {number}, not a number of {bits} bits")
    return number


def _canonicalize(tensor: Any, *names: str) -> None:
    """Convert parameters of ``tensor`` to Python integers, or raise."""
    for name in names:
        object.__setattr__(tensor, name, parameter(name, getattr(tensor, name)))


@public_constructor
@dataclass(frozen=True)
class PoolConfig:
    """The structure ``mli_pool_cfg``: eight numbers from 0 to 255.

    Attributes:
      kernel_width, kernel_height: taps.
      stride_width, stride_height: elements between windows, at least 1.
      padding_left, padding_right, padding_top, padding_bottom: less than the kernel.
    """

    kernel_width: int
    kernel_height: int
    stride_width: int = 1
    stride_height: int = 1
    padding_left: int = 0
    padding_right: int = 0
    padding_top: int = 0
    padding_bottom: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = integer(field.name, getattr(self, field.name), -math.inf)
            if not 0 <= value <= 255:
                raise MliError(
                    "MLI_STATUS_BAD_FUNC_CFG", f"{field.name} is {value}, not a number of 8 bits"
                )
            object.__setattr__(self, field.name, value)


def pads_of(cfg: PoolConfig) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the pads of height and width."""
    return (cfg.padding_top, cfg.padding_bottom), (cfg.padding_left, cfg.padding_right)
