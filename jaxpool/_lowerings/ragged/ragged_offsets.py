"""Offsets in windows of several lengths.

A row-major offset has no meaning where windows differ in length: its radix would differ from window
to window. Here the offset along each axis has bits of its own, enough for the longest window, the
first axis highest:

    offset = offset[0] << shift[0] | offset[1] << shift[1] | ...

Offsets of one window are ordered as row-major ones are, and the offset along an axis is a shift and
a mask. The sentinel of a window without an element is the largest number, to which no offset adds a
bit and which loses every minimum.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array

from ..._errors import message
from ..._geometry.ragged import RaggedAxis
from ...reductions import MIN, identity_array
from ..parts.axis_slicing import broadcast_along


def bits_below(axes: Sequence[RaggedAxis]) -> list[int]:
    """Return where the bits of each axis begin."""
    bits = [_bits(axis) for axis in axes]
    return [sum(bits[n + 1 :]) for n in range(len(axes))]


def _bits(axis: RaggedAxis) -> int:
    return (axis.longest - 1).bit_length()


def last_offset(axes: Sequence[RaggedAxis]) -> int:
    """Return the last offset of the longest windows; see :func:`is_countable`."""
    return sum((a.longest - 1) << shift for a, shift in zip(axes, bits_below(axes), strict=True))


def is_countable(axes: Sequence[RaggedAxis]) -> bool:
    """Whether int32 holds every offset and the sentinel."""
    return last_offset(axes) < np.iinfo(np.int32).max


def check_countable(axes: Sequence[RaggedAxis]) -> None:
    """Raise ValueError unless the offsets of these windows can be counted."""
    if not is_countable(axes):
        lengths = " x ".join(str(axis.longest) for axis in axes)
        raise ValueError(
            message(
                f"the argmax in windows of {lengths} elements does not fit its code.",
                "Derivatives and indices hold the argmax in 31 bits, some for each axis.",
                "Pool the last axes first and the others in a second call; its indices then "
                "count elements of the first result.",
            )
        )


def offset_dtype(axes: Sequence[RaggedAxis]) -> np.dtype:
    """Return uint8 if every offset and the sentinel fit, else int32."""
    return np.dtype(np.uint8 if last_offset(axes) < 255 else np.int32)


def sentinel(offsets: Array) -> np.ndarray:
    """Return the offset of a window without an element."""
    return identity_array(MIN, offsets.dtype)


def offset_along(offsets: Array, axis: RaggedAxis, shift: int) -> Array:
    """Return the offsets along one axis."""
    mask = np.asarray((1 << _bits(axis)) - 1, offsets.dtype)
    return (offsets >> np.asarray(shift, offsets.dtype)) & mask


def coordinate(offsets: Array, position: int, axis: RaggedAxis, shift: int) -> Array:
    """Return the element of the axis that each offset names."""
    starts = broadcast_along(np.array(axis.starts, np.int32), position, offsets.ndim)
    return offset_along(offsets, axis, shift).astype(jnp.int32) + starts


def coordinates(
    offsets: Array, positions: Sequence[int], axes: Sequence[RaggedAxis]
) -> dict[int, Array]:
    """Return, for each of the axes, the element that each offset names."""
    along = zip(positions, axes, bits_below(axes), strict=True)
    return {position: coordinate(offsets, position, axis, n) for position, axis, n in along}
