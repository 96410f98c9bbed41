"""Windows of any start and length along an axis, in Python integers.

Window ``o`` of an axis of ``n`` elements holds ``start[o] <= i < start[o] + length[o]``. Adaptive
pooling shares ``n`` elements out to ``m`` windows,

    start[o] = floor(o * n / m),    end[o] = ceil((o + 1) * n / m),

so neighbours overlap by at most one element, and lengths differ by at most one.

Source: PyTorch ``adaptive_avg_pool2d``, start and end index.
"""

import itertools
from bisect import bisect_right
from typing import NamedTuple

from .axis import Axis, cdiv


class RaggedAxis(NamedTuple):
    """Windows along one axis.

    Attributes:
      size: length of the axis.
      starts: first element of each window.
      lengths: elements of each window, >= 1.
    """

    size: int
    starts: tuple[int, ...]
    lengths: tuple[int, ...]

    @property
    def longest(self) -> int:
        """Elements of the longest window."""
        return max(self.lengths, default=1)

    def sliding(self) -> Axis | None:
        """The windows as those of fixed pooling, if they have one length and one stride."""
        lengths, steps = set(self.lengths), {b - a for a, b in itertools.pairwise(self.starts)}
        stride = min(steps, default=self.longest)
        if len(lengths) != 1 or len(steps) > 1 or not stride or self.starts[0]:
            return None
        return Axis(self.size, self.longest, stride, 1, 0, 0, 0, len(self.starts))

    def holders(self) -> "RaggedAxis":
        """For each element, the windows that hold it; starts and ends must not decrease."""
        ends = [start + length for start, length in zip(self.starts, self.lengths, strict=True)]
        firsts = tuple(bisect_right(ends, i) for i in range(self.size))
        lasts = (bisect_right(self.starts, i) for i in range(self.size))
        counts = tuple(last - first for first, last in zip(firsts, lasts, strict=True))
        return RaggedAxis(len(self.starts), firsts, counts)

    def groups(self, most: int) -> list["RaggedAxis"]:
        """Neighbours of one length and one stride; all in one group if ``most`` do not suffice."""
        firsts = [0]
        steps = [b - a for a, b in itertools.pairwise(self.starts)]
        for n in range(1, len(self.starts)):
            begun = n - firsts[-1] > 1
            same_step = steps[n - 1] == steps[n - 2] if begun else steps[n - 1] > 0
            if not same_step or self.lengths[n] != self.lengths[n - 1]:
                firsts.append(n)
            if len(firsts) > most:
                return [self]
        return [
            RaggedAxis(self.size, self.starts[first:end], self.lengths[first:end])
            for first, end in itertools.pairwise([*firsts, len(self.starts)])
        ]

    def pieces(self, length: int) -> tuple["RaggedAxis", "RaggedAxis"]:
        """The windows cut into pieces of at most ``length`` elements, and the pieces of each."""
        counts = tuple(cdiv(n, length) for n in self.lengths)
        cuts = [
            (start + j * length, min(length, n - j * length))
            for start, n, count in zip(self.starts, self.lengths, counts, strict=True)
            for j in range(count)
        ]
        starts, lengths = zip(*cuts, strict=True)
        firsts = tuple(itertools.accumulate(counts[:-1], initial=0))
        return RaggedAxis(self.size, starts, lengths), RaggedAxis(len(cuts), firsts, counts)


def share_out(size: int, windows: int) -> RaggedAxis:
    """Return the windows of adaptive pooling along an axis."""
    starts = tuple(o * size // windows for o in range(windows))
    ends = (cdiv((o + 1) * size, windows) for o in range(windows))
    lengths = tuple(end - start for start, end in zip(starts, ends, strict=True))
    return RaggedAxis(size, starts, lengths)
