"""Windows of any start and length along an axis, in Python integers.

Window ``o`` of an axis of ``n`` elements contains ``start[o] <= i < start[o] + length[o]``.
Adaptive pooling divides ``n`` elements among ``m`` windows,

    start[o] = floor(o * n / m),    end[o] = ceil((o + 1) * n / m),

so neighbouring windows overlap by at most one element, and lengths differ by at most one.

Source: PyTorch ``adaptive_avg_pool2d``, start and end index.
"""

import itertools
from bisect import bisect_right
from typing import NamedTuple

from .axis import Axis, cdiv


class RaggedAxis(NamedTuple):
    """Windows of any start and length along one axis.

    Attributes:
      size: length of the axis.
      starts: first element of each window.
      lengths: number of elements of each window, >= 1.
    """

    size: int
    starts: tuple[int, ...]
    lengths: tuple[int, ...]

    @property
    def longest(self) -> int:
        """Number of elements of the longest window."""
        return max(self.lengths, default=1)

    def sliding(self) -> Axis | None:
        """Return the windows as an :class:`Axis`, or None.

        They must have the same length and a constant positive stride, and start at element 0.
        """
        lengths, steps = set(self.lengths), {b - a for a, b in itertools.pairwise(self.starts)}
        stride = min(steps, default=self.longest)
        if len(lengths) != 1 or len(steps) > 1 or not stride or self.starts[0]:
            return None
        return Axis(self.size, self.longest, stride, 1, 0, 0, 0, len(self.starts))

    def holders(self) -> "RaggedAxis":
        """Return for each element the range of windows that contain it.

        Starts and ends of the windows must not decrease. In the result, elements take the place of
        windows: element ``i`` is in the windows ``starts[i] <= o < starts[i] + lengths[i]``.
        """
        ends = [start + length for start, length in zip(self.starts, self.lengths, strict=True)]
        firsts = tuple(bisect_right(ends, i) for i in range(self.size))
        lasts = (bisect_right(self.starts, i) for i in range(self.size))
        counts = tuple(last - first for first, last in zip(firsts, lasts, strict=True))
        return RaggedAxis(len(self.starts), firsts, counts)

    def groups(self, max_groups: int) -> list["RaggedAxis"]:
        """Return the windows in groups of neighbours with equal length and stride.

        If there are more than ``max_groups`` groups, return all windows as one group.
        """
        firsts = [0]
        steps = [b - a for a, b in itertools.pairwise(self.starts)]
        for n in range(1, len(self.starts)):
            has_step = n - firsts[-1] > 1
            same_step = steps[n - 1] == steps[n - 2] if has_step else steps[n - 1] > 0
            if not same_step or self.lengths[n] != self.lengths[n - 1]:
                firsts.append(n)
            if len(firsts) > max_groups:
                return [self]
        return [
            RaggedAxis(self.size, self.starts[first:end], self.lengths[first:end])
            for first, end in itertools.pairwise([*firsts, len(self.starts)])
        ]

    def pieces(self, length: int) -> tuple["RaggedAxis", "RaggedAxis"]:
        """Return the windows cut into pieces, and for each window the range of its pieces.

        A piece has at most ``length`` elements. A reduction of the pieces over the second axis is
        the reduction of the windows.
        """
        counts = tuple(cdiv(n, length) for n in self.lengths)
        cuts = [
            (start + j * length, min(length, n - j * length))
            for start, n, count in zip(self.starts, self.lengths, counts, strict=True)
            for j in range(count)
        ]
        starts, lengths = zip(*cuts, strict=True)
        firsts = tuple(itertools.accumulate(counts[:-1], initial=0))
        return RaggedAxis(self.size, starts, lengths), RaggedAxis(len(cuts), firsts, counts)


def adaptive_windows(size: int, windows: int) -> RaggedAxis:
    """Return the windows of adaptive pooling along an axis."""
    starts = tuple(o * size // windows for o in range(windows))
    ends = (cdiv((o + 1) * size, windows) for o in range(windows))
    lengths = tuple(end - start for start, end in zip(starts, ends, strict=True))
    return RaggedAxis(size, starts, lengths)
