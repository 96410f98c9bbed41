"""A footprint as a union of boxes, for idempotent reductions such as the maximum.

The maximum over a union is the maximum of the maxima over its parts, which may overlap. The cost of
the maximum over a box grows with the log of its size. The cheapest of these covers is used:

* *runs*, one cover for each axis: every run of neighbouring taps along the axis is a box;
* *boxes*: candidates are built from the runs along the last axis. The lines that contain a run form
  a footprint with one axis fewer, whose candidates are found recursively. The candidate that adds
  the most taps is chosen until all taps are covered (Johnson's greedy cover).

Runs suit discs and random footprints, boxes suit crosses, frames and letters.

Source: Johnson 1974, "Approximation algorithms for combinatorial problems", for the greedy cover;
Soille 2004, "Morphological image analysis", 3.8, for decomposed structuring elements.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ._static import Footprint

MAX_CANDIDATES = 256
"""Largest number of candidates for which the greedy cover is tried.

It bounds the time of the search, which runs while tracing. A footprint with more candidates is
irregular, and runs suit it better.
"""


class Box(NamedTuple):
    """A box of taps.

    Attributes:
      start: first corner, in taps of the window.
      size: length along each axis, in taps.
    """

    start: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def slices(self) -> tuple[slice, ...]:
        return tuple(slice(a, a + n) for a, n in zip(self.start, self.size, strict=True))


@functools.lru_cache(maxsize=256)
def cover(footprint: Footprint) -> tuple[Box, ...]:
    """Return boxes whose union is the footprint: the cheapest cover of those tried."""
    mask = footprint.mask
    covers = [_run_boxes(mask, axis) for axis in range(mask.ndim)]
    candidates = _candidates(mask)
    if len(candidates) <= MAX_CANDIDATES:
        covers.append(_greedy_cover(mask, candidates))
    return tuple(min(covers, key=cost))


def cost(boxes: Sequence[Box]) -> int:
    """Return the estimated number of elementwise maxima: one per box, and the log of each size."""
    steps = sum((n - 1).bit_length() for size in {box.size for box in boxes} for n in size)
    return len(boxes) + steps


def _run_boxes(mask: np.ndarray, axis: int) -> list[Box]:
    """Return each run of neighbouring taps along ``axis`` as a box."""
    lines = np.moveaxis(mask, axis, -1)
    boxes = []
    for index in np.ndindex(lines.shape[:-1]):
        for start, end in _runs(lines[index]):
            corner = (*index[:axis], start, *index[axis:])
            size = (*(1,) * axis, end - start, *(1,) * (mask.ndim - 1 - axis))
            boxes.append(Box(corner, size))
    return boxes


def _runs(line: np.ndarray) -> list[tuple[int, int]]:
    """Return the runs of True in a boolean array of one axis, as (start, end)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], line, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _candidates(mask: np.ndarray) -> list[Box]:
    """Return boxes inside the footprint that together contain every tap."""
    if mask.ndim == 0:
        return [Box((), ())]
    if mask.ndim == 1:
        return [Box((a,), (b - a,)) for a, b in _runs(mask)]
    lines = mask.reshape(-1, mask.shape[-1])
    boxes = []
    for a, b in sorted({run for line in np.unique(lines, axis=0) for run in _runs(line)}):
        inner = _candidates(np.asarray(mask[..., a:b].all(-1)))
        boxes += [Box((*box.start, a), (*box.size, b - a)) for box in inner]
    return boxes


def _greedy_cover(mask: np.ndarray, candidates: Sequence[Box]) -> list[Box]:
    missing, chosen = mask.copy(), []
    while missing.any():
        best = max(candidates, key=lambda box: int(missing[box.slices].sum()))
        missing[best.slices] = False
        chosen.append(best)
    return chosen
