"""The text of an axis: its windows, what they read, and the elements that no window reads."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from .._geometry.axis import Axis

_SHOWN = 3
"""Windows listed at each end of an axis."""
_LONGEST_LISTED = 2**24
"""Elements of the longest axis that is searched for elements that no window reads."""


def row(head: str, text: str) -> str:
    """Return a line of the page, its head in a column of its own."""
    return f"  {head:14} {text}".rstrip()


def axis_lines(axis: Axis, number: int) -> Iterator[str]:
    """Yield the lines of an axis: its windows, what they read, and what no window reads."""
    overhang = f", {axis.overhang} past it" if axis.overhang else ""
    yield row(
        f"axis {number}",
        f"{axis.size} elements, padding ({axis.pad_low}, {axis.pad_high}){overhang}: "
        f"{axis.out} windows over {axis.span} elements each",
    )
    shown_windows = sorted({*range(min(_SHOWN, axis.out)), *range(max(axis.out - 1, 0), axis.out)})
    reads = (f"{o}: {_elements(axis, o)}" for o in shown_windows)
    yield row("", "reads " + "; ".join(reads))
    unread = unread_elements(axis) if axis.size <= _LONGEST_LISTED else []
    if unread:
        yield row("", f"never read: {_in_ranges(unread)}")


def _elements(axis: Axis, window: int) -> str:
    """The first and the last real element that a window reads, and how many it reads."""
    low, high = axis.taps_inside(window)
    if low == high:
        return "no element"
    first, last = (axis.start(window) + offset * axis.dilation for offset in (low, high - 1))
    many = f"elements {first} to {last}" + _step(axis.dilation)
    return f"element {first}" if first == last else many


def _step(dilation: int) -> str:
    return "" if dilation == 1 else f" by {dilation}"


def unread_elements(axis: Axis) -> list[int]:
    """The elements of an axis that no window reads."""
    read = np.zeros(axis.size, bool)
    for first, last, low, high in axis.segments():
        start, windows = axis.start(first), last - first
        if high - low < windows:  # the shorter loop, over offsets or over windows
            for offset in range(low, high):
                q = start + offset * axis.dilation
                read[q : q + windows * axis.stride : axis.stride] = True
        else:
            for q in range(start, start + windows * axis.stride, axis.stride):
                read[q + low * axis.dilation : q + high * axis.dilation : axis.dilation] = True
    return np.flatnonzero(~read).tolist()


def in_runs(runs: Sequence[tuple[int, int]]) -> str:
    """Counts of neighbouring windows, equal ones together: ``2, 3 x 54, 2``."""
    together = (
        (count, sum(windows for windows, _ in group))
        for count, group in itertools.groupby(runs, key=lambda run: run[1])
    )
    return ", ".join(str(count) if n == 1 else f"{count} x {n}" for count, n in together)


def _in_ranges(at: Sequence[int]) -> str:
    """Runs of neighbours, the first and the last few of them."""
    breaks = [i for i in range(1, len(at)) if at[i] != at[i - 1] + 1]
    runs = itertools.pairwise([0, *breaks, len(at)])
    words = [f"{at[a]}" if b == a + 1 else f"{at[a]} to {at[b - 1]}" for a, b in runs]
    if len(words) > 2 * _SHOWN:
        words = [*words[:_SHOWN], "..", *words[-_SHOWN:]]
    return ", ".join(words)
