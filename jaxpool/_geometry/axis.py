"""The windows along one pooled axis, in Python integers.

Let ``L`` be the length of the axis, ``K, S, D`` the kernel, stride and dilation, and ``PB, PE`` the
declared padding. Tap ``t`` of window ``o`` reads position ``q = o * S - PB + t * D``. Position
``q`` is an element if ``0 <= q < L``, declared padding if ``-PB <= q < 0`` or ``L <= q < L + PE``,
and overhang if ``q >= L + PE``.

Source: Dumoulin and Visin 2016, arXiv:1603.07285, section 5.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

INT32_MAX = 2**31 - 1
"""Taps, elements and indices are counted in int32."""


def cdiv(a: int, b: int) -> int:
    """Return ``ceil(a / b)``, computed exactly."""
    return -((-a) // b)


class Segment(NamedTuple):
    """Windows ``first <= o < last``; exactly the taps ``low <= t < high`` of each read elements."""

    first: int
    last: int
    low: int
    high: int


@dataclass(frozen=True)
class Axis:
    """The finished geometry of one pooled axis: integers, counted in elements of the input.

    Attributes:
      size: length of the axis.
      kernel: number of taps.
      stride: distance between the starts of neighbouring windows.
      dilation: distance between neighbouring taps.
      pad_low: declared padding before the first element.
      pad_high: declared padding after the last element.
      overhang: elements by which the last window extends past the declared padding (ceil roundings
        only).
      out: number of windows.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    pad_low: int
    pad_high: int
    overhang: int
    out: int

    @property
    def span(self) -> int:
        """Number of positions from the first to the last tap of a window, both included."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def overshoot(self) -> int:
        """Elements by which the last window extends past the end of the axis; can be negative."""
        return self.start(self.out - 1) + self.span - self.size

    @property
    def groups(self) -> int:
        """Number of groups of ``stride`` elements that cover the axis."""
        return cdiv(self.size, self.stride)

    def compact(self) -> "Axis":
        """Return an axis with the same windows, with stride and dilation canonicalised.

        A stride or dilation longer than the padded axis has no effect, but a program could grow
        with it or overflow the integers of XLA, so both are clipped to the padded length. The
        stride of a single window has no effect either; it becomes at least the span, so that the
        windows are non-overlapping.
        """
        padded = self.size + self.pad_low + self.pad_high
        dilation = min(self.dilation, padded) if self.kernel > 1 else 1
        axis = replace(self, stride=min(self.stride, padded), dilation=dilation)
        if axis.out == 1:
            axis = replace(axis, stride=max(axis.stride, axis.span))
        if axis == self:
            return axis
        return replace(axis, overhang=max(0, axis.overshoot - axis.pad_high))

    def start(self, window: int) -> int:
        """Return the position of the first tap of ``window``; it is negative in the low padding."""
        return window * self.stride - self.pad_low

    def taps_inside(self, window: int) -> tuple[int, int]:
        """Return the range ``(low, high)`` of the taps ``low <= t < high`` that read elements."""
        start = self.start(window)
        low = min(self.kernel, max(cdiv(-start, self.dilation), 0))
        high = min(self.kernel, max(cdiv(self.size - start, self.dilation), low))
        return low, high

    def segments(self) -> tuple[Segment, ...]:
        """Return all windows in order, as segments of windows with equal ``taps_inside``."""
        inner_first = min(cdiv(self.pad_low, self.stride), self.out)
        inner_last = (self.size - self.span + self.pad_low) // self.stride + 1
        inner_last = max(min(inner_last, self.out), inner_first)
        segments: list[Segment] = []
        for first, last in self._runs(inner_first, inner_last):
            low, high = self.taps_inside(first)
            if segments and (low, high) == segments[-1][2:]:
                segments[-1] = segments[-1]._replace(last=last)
            else:
                segments.append(Segment(first, last, low, high))
        return tuple(segments)

    def _runs(self, inner_first: int, inner_last: int) -> Iterator[tuple[int, int]]:
        """Yield each window at the borders as one run, and all windows inside the axis as one."""
        yield from ((o, o + 1) for o in range(inner_first))
        if inner_first < inner_last:
            yield inner_first, inner_last
        for after in range(self.out - inner_last):
            yield inner_last + after, inner_last + after + 1

    def counts(self, include_pad: bool) -> tuple[int, ...]:
        """Return the number of taps of each window that count in an average.

        Args:
          include_pad: whether to count declared padding as well. Overhang never counts.
        """
        runs = self.count_runs(include_pad)
        return tuple(count for length, count in runs for _ in range(length))

    def count_runs(self, include_pad: bool) -> list[tuple[int, int]]:
        """Return :meth:`counts`, run-length encoded as (windows, count)."""
        if not include_pad:
            return [(last - first, high - low) for first, last, low, high in self.segments()]
        end = self.size + self.pad_high
        full = min(max((end - self.span + self.pad_low) // self.stride + 1, 0), self.out)
        overhanging = (full + after for after in range(self.out - full))
        partial_counts = (cdiv(end - self.start(o), self.dilation) for o in overhanging)
        full_run = [(full, self.kernel)] if full else []
        return full_run + [(1, max(count, 0)) for count in partial_counts]

    @property
    def has_empty_window(self) -> bool:
        """Whether some window contains no element."""
        return any(segment.low == segment.high for segment in self.segments())
