"""The windows along one pooled axis, in Python integers.

Let ``L`` be the length of the axis, ``K, S, D`` the kernel, stride and dilation, ``PB, PE`` the
declared padding. Tap ``t`` of window ``o`` reads position ``q = o * S - PB + t * D``. That is an
element where ``0 <= q < L``, declared padding where ``-PB <= q < L + PE``, and overhang where
``q >= L + PE``.

Source: Dumoulin and Visin 2016, arXiv:1603.07285, section 5.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple


def cdiv(a: int, b: int) -> int:
    """Return ``a / b`` rounded up, exactly."""
    return -((-a) // b)


class Segment(NamedTuple):
    """Windows ``first <= o < last``; the taps ``low <= t < high`` of each read elements."""

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
      overhang: how far the last window reaches past the declared padding (ceil roundings only).
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
        """Distance from the first to the last tap of a window, both included."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def reach(self) -> int:
        """How far the last window reaches past the end of the axis; can be negative."""
        return self.start(self.out - 1) + self.span - self.size

    @property
    def groups(self) -> int:
        """Groups of ``stride`` elements that cover the axis."""
        return cdiv(self.size, self.stride)

    def compact(self) -> "Axis":
        """The same windows, with a stride and a dilation that say no more than they must.

        One longer than the padded axis has no effect. Programs would grow with a stride that skips
        an axis, or count past the integers of XLA. The stride of a single window has no effect
        either: it is no shorter than the window, which overlaps no other.
        """
        padded = self.size + self.pad_low + self.pad_high
        dilation = min(self.dilation, padded) if self.kernel > 1 else 1
        made = replace(self, stride=min(self.stride, padded), dilation=dilation)
        if made.out == 1:
            made = replace(made, stride=max(made.stride, made.span))
        return made if made == self else replace(made, overhang=max(0, made.reach - made.pad_high))

    def start(self, window: int) -> int:
        """Position of the first tap of ``window``; negative inside the low padding."""
        return window * self.stride - self.pad_low

    def taps_inside(self, window: int) -> tuple[int, int]:
        """The taps ``low <= t < high`` of ``window`` that read an element."""
        start = self.start(window)
        low = min(self.kernel, max(cdiv(-start, self.dilation), 0))
        high = min(self.kernel, max(cdiv(self.size - start, self.dilation), low))
        return low, high

    def segments(self) -> tuple[Segment, ...]:
        """All windows in order; neighbours with the same taps inside the axis form one segment."""
        inner_first = min(cdiv(self.pad_low, self.stride), self.out)
        inner_last = (self.size - self.span + self.pad_low) // self.stride + 1
        inner_last = max(min(inner_last, self.out), inner_first)
        runs: list[Segment] = []
        for first, last in self._runs(inner_first, inner_last):
            low, high = self.taps_inside(first)
            if runs and (low, high) == runs[-1][2:]:
                runs[-1] = runs[-1]._replace(last=last)
            else:
                runs.append(Segment(first, last, low, high))
        return tuple(runs)

    def _runs(self, inner_first: int, inner_last: int) -> Iterator[tuple[int, int]]:
        """Windows at the borders one by one, the windows wholly inside the axis as one run."""
        yield from ((o, o + 1) for o in range(inner_first))
        if inner_first < inner_last:
            yield inner_first, inner_last
        for after in range(self.out - inner_last):
            yield inner_last + after, inner_last + after + 1

    def counts(self, include_pad: bool) -> tuple[int, ...]:
        """Taps of each window that count in an average.

        Args:
          include_pad: count declared padding as well as elements. Overhang never counts.
        """
        runs = self.count_runs(include_pad)
        return tuple(count for length, count in runs for _ in range(length))

    def count_runs(self, include_pad: bool) -> list[tuple[int, int]]:
        """As :meth:`counts`, in runs of one count: (windows, count) of each."""
        if not include_pad:
            return [(last - first, high - low) for first, last, low, high in self.segments()]
        end = self.size + self.pad_high
        whole = min(max((end - self.span + self.pad_low) // self.stride + 1, 0), self.out)
        last = (whole + after for after in range(self.out - whole))
        fewer = (cdiv(end - self.start(o), self.dilation) for o in last)
        inner = [(whole, self.kernel)] if whole else []
        return inner + [(1, max(count, 0)) for count in fewer]

    @property
    def has_empty_window(self) -> bool:
        """Whether some window holds no element."""
        return any(run.low == run.high for run in self.segments())
