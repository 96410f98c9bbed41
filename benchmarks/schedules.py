"""Cycles of a TPU kernel, read from the schedule that the compiler writes out.

A kernel is a list of bundles, instructions that issue in one cycle, and of loops around them. The
bundles are exact. The trips of a loop are read from the constant that its exit test compares with;
a loop without one counts once, so the sum is an estimate from below.
"""

import re
from collections.abc import Iterable
from pathlib import Path

_BUNDLE = re.compile(r"^\s*0x[0-9a-f]+\s+(?:[A-Z]+)?\s*:\s*(>*)\s*\{(.*)")
_TRIPS = re.compile(r"scmp\.ge\.s32\.totalorder %\w+, (\d+) /\* loop exit test")
_NOT_KERNELS = ("schedule-analysis", "-<", "-TLP-")


def cycles(folder: Path) -> int:
    """Cycles of all kernels whose schedules were written to a folder."""
    schedules = (
        path
        for path in folder.glob("*final_bundles.txt")
        if not any(word in path.name for word in _NOT_KERNELS)
    )
    return sum(_of_kernel(path.read_text().splitlines()) for path in schedules)


def _of_kernel(lines: Iterable[str]) -> int:
    """Bundles times the trips of the loops around them; ">" marks the depth of a loop."""
    counts, trips = [0], [1]
    for line in lines:
        found = _BUNDLE.match(line)
        if not found:
            continue
        # A delay slot bears no mark: it belongs where it stands.
        depth = len(counts) - 1 if found[2].startswith("}") else len(found[1])
        _close(counts, trips, depth)
        while len(counts) - 1 < depth:
            counts.append(0)
            trips.append(1)
        counts[-1] += 1
        last = _TRIPS.search(line)
        if last:
            trips[-1] = int(last[1])
    _close(counts, trips, 0)
    return counts[0]


def _close(counts: list[int], trips: list[int], depth: int) -> None:
    """Add the loops deeper than ``depth`` to those around them."""
    while len(counts) - 1 > depth:
        inner, times = counts.pop(), trips.pop()
        counts[-1] += inner * times
