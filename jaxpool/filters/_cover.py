"""A footprint as a union of boxes, for reductions in which an element may count twice.

A maximum over a union is the maximum of the maxima over its parts, which may overlap, and the
maximum over a box costs the log of its size. Two covers are tried, and the cheaper one is taken:

* *runs*: along one axis, every stretch of neighbouring taps is a box;
* *boxes*: a maximal run stands on every place of the other axes that holds it; these places are a
  footprint of one axis less, and are covered in the same way. Of all these boxes, the one that adds
  the most taps is taken until none is missing (Johnson's greedy cover).

Runs suit discs and random footprints, boxes suit crosses, frames and letters.

Source: Johnson 1974, "Approximation algorithms for combinatorial problems", for the greedy cover;
Soille 2004, "Morphological image analysis", 3.8, for decomposed structuring elements.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ._static import Footprint

MOST_CANDIDATES = 256
"""Boxes up to which the greedy cover is tried."""


class Box(NamedTuple):
    """A box of taps.

    Attributes:
      start: its first corner, in taps of the window.
      size: its length on each axis.
    """

    start: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def slices(self) -> tuple[slice, ...]:
        return tuple(slice(a, a + n) for a, n in zip(self.start, self.size, strict=True))


@functools.lru_cache(maxsize=256)
def cover(footprint: Footprint) -> tuple[Box, ...]:
    """Return boxes whose union is the footprint, at the least cost that was found."""
    mask = footprint.mask
    covers = [_runs(mask, axis) for axis in range(mask.ndim)]
    candidates = _maximal(mask)
    if len(candidates) <= MOST_CANDIDATES:
        covers.append(_greedy(mask, candidates))
    return tuple(min(covers, key=cost))


def cost(boxes: Sequence[Box]) -> int:
    """Maxima of two arrays that a cover takes: one for each box, and the log of each size."""
    steps = sum((n - 1).bit_length() for size in {box.size for box in boxes} for n in size)
    return len(boxes) + steps


def _runs(mask: np.ndarray, axis: int) -> list[Box]:
    """Each stretch of neighbouring taps along an axis."""
    along = np.moveaxis(mask, axis, -1)
    boxes = []
    for place in np.ndindex(along.shape[:-1]):
        for start, end in _stretches(along[place]):
            corner = (*place[:axis], start, *place[axis:])
            size = (*(1,) * axis, end - start, *(1,) * (mask.ndim - 1 - axis))
            boxes.append(Box(corner, size))
    return boxes


def _stretches(line: np.ndarray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], line, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _maximal(mask: np.ndarray) -> list[Box]:
    """Boxes inside the footprint, among them one around every tap."""
    if mask.ndim == 0:
        return [Box((), ())]
    if mask.ndim == 1:
        return [Box((a,), (b - a,)) for a, b in _stretches(mask)]
    lines = mask.reshape(-1, mask.shape[-1])
    found = []
    for a, b in sorted({run for line in np.unique(lines, axis=0) for run in _stretches(line)}):
        inner = _maximal(np.asarray(mask[..., a:b].all(-1)))
        found += [Box((*box.start, a), (*box.size, b - a)) for box in inner]
    return found


def _greedy(mask: np.ndarray, candidates: Sequence[Box]) -> list[Box]:
    missing, chosen = mask.copy(), []
    while missing.any():
        best = max(candidates, key=lambda box: int(missing[box.slices].sum()))
        missing[best.slices] = False
        chosen.append(best)
    return chosen
