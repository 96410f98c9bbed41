"""The text for an axis: its windows, the elements that they read, and those that none reads."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from .._geometry.axis import Axis

_SHOWN = 3
"""Windows listed at the start of an axis, and ranges of unread elements listed at each end."""
_MAX_SEARCHED = 2**24
"""Length of the longest axis that is searched for elements that no window reads."""


def row(head: str, text: str) -> str:
    """Return a line of text with its head in a left column."""
    return f"  {head:14} {text}".rstrip()


def axis_lines(axis: Axis, number: int) -> Iterator[str]:
    """Yield the lines for an axis: its windows, the elements that they read, and those unread."""
    overhang = f", overhang {axis.overhang}" if axis.overhang else ""
    yield row(
        f"axis {number}",
        f"{axis.size} elements, padding ({axis.pad_low}, {axis.pad_high}){overhang}: "
        f"{axis.out} windows over {axis.span} elements each",
    )
    shown_windows = sorted({*range(min(_SHOWN, axis.out)), *range(max(axis.out - 1, 0), axis.out)})
    reads = (f"{o}: {_elements_read(axis, o)}" for o in shown_windows)
    yield row("", "reads " + "; ".join(reads))
    if axis.size <= _MAX_SEARCHED and len(unread := unread_elements(axis)):
        yield row("", f"never read: {_in_ranges(unread)}")


def _elements_read(axis: Axis, window: int) -> str:
    """Return the range of the elements that a window reads, as text."""
    low, high = axis.taps_inside(window)
    if low == high:
        return "no element"
    first, last = (axis.start(window) + tap * axis.dilation for tap in (low, high - 1))
    several = f"elements {first} to {last}" + _step(axis.dilation)
    return f"element {first}" if first == last else several


def _step(dilation: int) -> str:
    return "" if dilation == 1 else f" by {dilation}"


def unread_elements(axis: Axis) -> np.ndarray:
    """Return the numbers of the elements of an axis that no window reads."""
    read = np.zeros(axis.size, bool)
    for first, last, low, high in axis.segments():
        start, windows = axis.start(first), last - first
        if high - low < windows:  # loop over taps or over windows, whichever are fewer
            for tap in range(low, high):
                q = start + tap * axis.dilation
                read[q : q + windows * axis.stride : axis.stride] = True
        else:
            for q in range(start, start + windows * axis.stride, axis.stride):
                read[q + low * axis.dilation : q + high * axis.dilation : axis.dilation] = True
    return np.flatnonzero(~read)


def in_runs(runs: Sequence[tuple[int, int]]) -> str:
    """Return runs of (windows, count) as text, with equal neighbours merged: ``2, 3 x 54, 2``."""
    merged = (
        (count, sum(windows for windows, _ in group))
        for count, group in itertools.groupby(runs, key=lambda run: run[1])
    )
    return ", ".join(str(count) if n == 1 else f"{count} x {n}" for count, n in merged)


def _in_ranges(numbers: np.ndarray) -> str:
    """Return ascending numbers as text, in ranges, of which the middle ones may be omitted."""
    breaks = np.flatnonzero(np.diff(numbers) != 1)
    firsts = numbers[np.concatenate([[0], breaks + 1])]
    lasts = numbers[np.concatenate([breaks, [-1]])]

    def several(part: slice) -> list[str]:
        ends = zip(firsts[part], lasts[part], strict=True)
        return [f"{first}" if first == last else f"{first} to {last}" for first, last in ends]

    if len(firsts) <= 2 * _SHOWN:
        return ", ".join(several(slice(None)))
    return ", ".join([*several(slice(_SHOWN)), "..", *several(slice(-_SHOWN, None))])
