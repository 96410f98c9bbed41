"""Conversion of numbers and footprints to static, hashable data."""

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._errors import message, shown
from .._geometry.arguments import check_finite
from .._numerics.checks import real_number


@dataclass(frozen=True)
class Footprint:
    """A hashable boolean array, True at the taps that belong to the window.

    Attributes:
      shape: shape of the window.
      bits: elements of the array, row-major, one byte each.
    """

    shape: tuple[int, ...]
    bits: bytes

    @property
    def mask(self) -> np.ndarray:
        """The footprint as a boolean array."""
        return np.frombuffer(self.bits, bool).reshape(self.shape)

    @property
    def taps(self) -> int:
        """Number of taps that belong to the window."""
        return int(self.mask.sum())


_LARGEST = int(sys.float_info.max)


def number(name: str, value: Any) -> float:
    """Return ``value`` as a static Python number; beyond the range of float64, an infinity.

    Raises:
      TypeError: ``value`` is not a Python or NumPy real number; the message names ``name``.
    """
    python_number = real_number(name, value, or_bool=True)
    if python_number != python_number:
        return math.nan  # a single NaN object, which compares equal to itself inside a tuple
    if abs(python_number) > _LARGEST:
        return math.inf if python_number > 0 else -math.inf
    return python_number or 0.0  # -0.0 equals 0.0 as a key of a cache


def footprint_of(name: str, value: Any) -> Footprint:
    """Return an array of truth values as a :class:`Footprint`; errors mention ``name``."""
    try:
        check_finite(value)
        mask = np.asarray(value).astype(bool)
    except Exception as error:  # whatever the object's own conversion raises
        reason = shown(str(error).partition("\n")[0])
        raise TypeError(
            message(
                f"${name} = {shown(value)} is not an array of truth values.",
                f"Its type is {type(value).__name__}; a {name} is static: {reason}.",
                "Give a NumPy array or nested lists; it may not be a traced array.",
            )
        ) from None
    if not mask.any():
        raise ValueError(
            message(
                f"${name} contains no True.",
                f"It has shape {mask.shape}; a window needs at least one element.",
                "Give at least one True.",
            )
        )
    return hashable(mask)


def hashable(mask: np.ndarray) -> Footprint:
    """Return a boolean array as a :class:`Footprint`."""
    return Footprint(mask.shape, np.ascontiguousarray(mask).tobytes())
