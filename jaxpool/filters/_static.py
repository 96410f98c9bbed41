"""Numbers and footprints as static data."""

import math
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._errors import message, shown
from .._geometry.arguments import check_finite


@dataclass(frozen=True)
class Footprint:
    """Which elements of a window belong to it: a boolean array that can be hashed.

    Attributes:
      shape: shape of the window.
      bits: its elements, row-major, one byte each.
    """

    shape: tuple[int, ...]
    bits: bytes

    @property
    def mask(self) -> np.ndarray:
        """The boolean array."""
        return np.frombuffer(self.bits, bool).reshape(self.shape)

    @property
    def taps(self) -> int:
        """How many elements belong to the window."""
        return int(self.mask.sum())


_LARGEST = int(sys.float_info.max)


def number(name: str, value: Any) -> float:
    """Return a static real number, or raise in the caller's words."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, (int, float)):
        if plain != plain:
            return math.nan  # which is equal to itself as the same object
        if abs(plain) > _LARGEST:
            return math.inf if plain > 0 else -math.inf
        return plain
    raise TypeError(
        message(
            f"${name} = {shown(value)} is not a real number.",
            f"Its type is {type(value).__name__}; settings of a filter are static.",
            "Give a Python or NumPy number.",
        )
    )


def footprint_of(name: str, value: Any) -> Footprint:
    """Return an array of truth values as a :class:`Footprint`, or raise in the caller's words."""
    try:
        check_finite(value)
        mask = np.asarray(value).astype(bool)
    except Exception as error:  # whatever the object's own conversion raises
        raise TypeError(
            message(
                f"${name} = {shown(value)} is not an array of truth values.",
                f"Its type is {type(value).__name__}; a {name} is static: {str(error)[:80]!r}.",
                "Give a NumPy array or nested lists; it may not be a traced array.",
            )
        ) from None
    if not mask.any():
        raise ValueError(
            message(
                f"${name} holds no True.",
                f"It has shape {mask.shape}; a window needs at least one element.",
                "Give at least one True.",
            )
        )
    return hashable(mask)


def hashable(mask: np.ndarray) -> Footprint:
    """Return a boolean array as a :class:`Footprint`."""
    return Footprint(mask.shape, np.ascontiguousarray(mask).tobytes())
