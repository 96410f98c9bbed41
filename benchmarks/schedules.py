"""Counts the cycles of a TPU kernel in the schedule that the compiler writes.

A kernel is a list of bundles, each with the instructions that issue in one cycle, and of loops
around them. The numbers of bundles are exact. The trip count of a loop is the constant that its
exit test compares with; a loop without a constant counts once, so the sum is a lower bound.
"""

import re
from collections.abc import Iterable
from pathlib import Path

_BUNDLE = re.compile(r"^\s*0x[0-9a-f]+\s+(?:[A-Z]+)?\s*:\s*(>*)\s*\{(.*)")
_TRIPS = re.compile(r"scmp\.ge\.s32\.totalorder %\w+, (\d+) /\* loop exit test")
_NOT_KERNELS = ("schedule-analysis", "-<", "-TLP-")


def cycles(folder: Path) -> int:
    """Return the cycles of all kernels whose schedules are in a folder."""
    schedules = (
        path
        for path in folder.glob("*final_bundles.txt")
        if not any(part in path.name for part in _NOT_KERNELS)
    )
    return sum(_kernel_cycles(path.read_text().splitlines()) for path in schedules)


def _kernel_cycles(lines: Iterable[str]) -> int:
    """Return the bundles times the trip counts of the loops around them.

    The number of ">" marks of a line is its loop depth.
    """
    counts, trips = [0], [1]
    for line in lines:
        match = _BUNDLE.match(line)
        if not match:
            continue
        # A delay slot has no mark: its depth is that of the line before.
        depth = len(counts) - 1 if match[2].startswith("}") else len(match[1])
        _close_loops(counts, trips, depth)
        while len(counts) - 1 < depth:
            counts.append(0)
            trips.append(1)
        counts[-1] += 1
        exit_test = _TRIPS.search(line)
        if exit_test:
            trips[-1] = int(exit_test[1])
    _close_loops(counts, trips, 0)
    return counts[0]


def _close_loops(counts: list[int], trips: list[int], depth: int) -> None:
    """Add the loops deeper than ``depth`` to the loops that contain them."""
    while len(counts) - 1 > depth:
        inner, times = counts.pop(), trips.pop()
        counts[-1] += inner * times
