"""Which axes XLA:TPU puts along the tiles of its registers.

The two minor axes of a layout are padded to tiles. XLA:TPU chooses the layout that pads least,
unless an operation next to it requires another.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

from ..._geometry.axis import cdiv
from ..._geometry.resolve import Geometry, is_static

_SUBLANES, _LANES = 8, 128
"""Lengths of a tile, to which XLA:TPU pads the two minor axes of a layout."""


def has_pooled_axes_major(shape: Sequence[Any], geometry: Geometry) -> bool:
    """Return whether a layout with the pooled axes major pads less than all others."""
    major, minor = _least_sizes(shape, geometry)
    return major < minor < math.inf


def has_pooled_axis(shape: Sequence[Any], geometry: Geometry) -> bool:
    """Return whether a layout with a pooled axis along tiles pads less than all others.

    The answer is no if fewer than two axes are not pooled: :func:`jax.vmap` may add a batch.
    """
    major, minor = _least_sizes(shape, geometry)
    return minor < major and len(shape) - len(geometry.axes) >= 2


def _least_sizes(shape: Sequence[Any], geometry: Geometry) -> tuple[float, float]:
    """Return the least padded size in layouts with the pooled axes major, and in all others.

    It is infinite without such a layout, and with symbolic lengths.
    """
    sizes: dict[bool, list[float]] = {True: [math.inf], False: [math.inf]}
    if is_static(shape):
        pooled = {len(shape) + position for position in geometry.positions}
        for minor in itertools.permutations((axis for axis, n in enumerate(shape) if n > 1), 2):
            sizes[pooled.isdisjoint(minor)].append(_padded_size(shape, *minor))
    return min(sizes[True]), min(sizes[False])


def _padded_size(shape: Sequence[int], sublanes: int, lanes: int) -> int:
    """Return the elements of an array whose axes ``sublanes`` and ``lanes`` are padded to tiles."""
    padded = list(shape)
    for axis, tile in ((sublanes, _SUBLANES), (lanes, _LANES)):
        padded[axis] = cdiv(shape[axis], tile) * tile
    return math.prod(padded)
