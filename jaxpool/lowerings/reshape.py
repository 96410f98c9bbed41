"""Windows side by side: split each axis into windows and their cells, and reduce the cells.

For axes with ``stride == kernel`` or a single window, without dilation. A window that covers an
axis is the plain reduction of that axis.
"""

from jax import Array, lax

from .._reductions import Reduction, identity_array
from .._window import Geometry
from ._cut import pad
from ._order import in_integers, is_float_extreme


def why_not(geometry: Geometry, reduction: Reduction, dtype: object) -> str | None:
    """Return why this lowering declines, or None."""
    for axis in geometry.axes:
        if axis.dilation > 1 and axis.kernel > 1:
            return "taps with gaps between them do not lie side by side"
        if axis.out > 1 and axis.stride != axis.kernel:
            return f"windows of {axis.kernel} cells at stride {axis.stride} do not lie side by side"
    return None


def run(x: Array, geometry: Geometry, reduction: Reduction) -> Array:
    """Return the reduction of every window."""
    if is_float_extreme(reduction, x.dtype):
        return in_integers(lambda k, order: run(k, geometry, order), x, reduction)
    init = identity_array(reduction, x.dtype)
    shape, windowed = list(x.shape), {}
    for axis, position in zip(geometry.axes, geometry.positions, strict=True):
        x = pad(x, position, axis.pad_low, axis.reach, init)
        windowed[x.ndim + position] = (axis.out, axis.kernel)
    split: list[int] = []
    cells: list[int] = []
    for dimension, size in enumerate(shape):
        if dimension in windowed:
            cells.append(len(split) + 1)
            split.extend(windowed[dimension])
        else:
            split.append(size)
    return lax.reduce(x.reshape(split), init, reduction.combine, cells)
