"""Packed offsets in windows of different lengths.

A row-major offset would need the lengths of its window to be decoded, which differ from window to
window. A packed offset gives the offset along each axis a fixed range of bits, enough for the
longest window, the first axis highest:

    offset = offset[0] << shift[0] | offset[1] << shift[1] | ...

Packed offsets of one window have the same order as row-major offsets. The offset along an axis is
read by a shift and a mask. The sentinel of a window without an element is the largest integer of
the dtype: the bits of all axes are set already, so that adding an offset does not change it, and it
loses every minimum.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array

from ..._errors import message
from ..._geometry.ragged import RaggedAxis
from ...reductions import MIN, identity_array
from ..parts.axis_slicing import reshape_along


def bits_below(axes: Sequence[RaggedAxis]) -> list[int]:
    """Return, for each axis, the number of bits below its own: the shift of its offset."""
    bits = [_bits(axis) for axis in axes]
    return [sum(bits[n + 1 :]) for n in range(len(axes))]


def _bits(axis: RaggedAxis) -> int:
    """Return how many bits the offset along an axis needs."""
    return (axis.longest - 1).bit_length()


def last_offset(axes: Sequence[RaggedAxis]) -> int:
    """Return the packed offset of the last element of the longest windows."""
    return sum((a.longest - 1) << shift for a, shift in zip(axes, bits_below(axes), strict=True))


def is_countable(axes: Sequence[RaggedAxis]) -> bool:
    """Return whether int32 can represent every packed offset and the sentinel."""
    return last_offset(axes) < np.iinfo(np.int32).max


def check_countable(axes: Sequence[RaggedAxis]) -> None:
    """Raise ValueError unless :func:`is_countable`."""
    if not is_countable(axes):
        lengths = " x ".join(str(axis.longest) for axis in axes)
        raise ValueError(
            message(
                f"the argmax in windows of {lengths} elements cannot be encoded.",
                "Derivatives and indices encode the argmax in 31 bits, divided among the axes.",
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


def unpack_offset(offsets: Array, axis: RaggedAxis, shift: int) -> Array:
    """Return the offsets along one axis from packed offsets; ``shift`` is that of the axis."""
    mask = np.asarray((1 << _bits(axis)) - 1, offsets.dtype)
    return (offsets >> np.asarray(shift, offsets.dtype)) & mask


def coordinate(offsets: Array, position: int, axis: RaggedAxis, shift: int) -> Array:
    """Return the index of the element along one axis that each packed offset names."""
    starts = reshape_along(np.array(axis.starts, np.int32), position, offsets.ndim)
    return unpack_offset(offsets, axis, shift).astype(jnp.int32) + starts


def coordinates(
    offsets: Array, positions: Sequence[int], axes: Sequence[RaggedAxis]
) -> dict[int, Array]:
    """Return, by position, the index along each axis of the element that each offset names."""
    placed_axes = zip(positions, axes, bits_below(axes), strict=True)
    return {position: coordinate(offsets, position, axis, n) for position, axis, n in placed_axes}
