"""Windows for libraries in which a window that does not fit gives an empty result, not an error."""

from collections.abc import Sequence
from typing import NamedTuple

from .._geometry.axis import cdiv
from .._geometry.window import Pairs


class FittedWindows(NamedTuple):
    """Windows over axes of known length.

    Attributes:
      crop: the slice of each axis that negative padding leaves, or None without negative padding.
      pads: padding that is not negative, or a padding word.
      out: number of windows on each axis, 0 if no window fits; an expression if the length is
        symbolic.
    """

    crop: tuple[slice, ...] | None
    pads: str | Pairs
    out: tuple[int, ...]

    @property
    def is_empty(self) -> bool:
        """Whether no window fits; on an axis of symbolic length a window is assumed to fit."""
        return any(isinstance(count, int) and count == 0 for count in self.out)


def fit_windows(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], pads: str | Pairs
) -> FittedWindows:
    """Return the windows that fit axes of ``sizes``.

    Args:
      sizes: lengths of the axes.
      kernel, strides: integers of at least 1.
      pads: pairs of integers, which may be negative, or a padding word.
    """
    crop, sizes = None, list(sizes)
    if not isinstance(pads, str) and any(min(pair) < 0 for pair in pads):
        pairs = zip(sizes, pads, strict=True)
        crop = tuple(slice(max(-low, 0), size + min(high, 0)) for size, (low, high) in pairs)
        sizes = [max(remaining.stop - remaining.start, 0) for remaining in crop]
        pads = tuple((max(low, 0), max(high, 0)) for low, high in pads)
    return FittedWindows(crop, pads, tuple(_output_sizes(sizes, kernel, strides, pads)))


def _output_sizes(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], pads: str | Pairs
) -> list[int]:
    if isinstance(pads, str) and pads != "VALID":
        return [cdiv(size, stride) for size, stride in zip(sizes, strides, strict=True)]
    pairs = ((0, 0),) * len(sizes) if isinstance(pads, str) else pads
    axes = zip(sizes, kernel, strides, pairs, strict=True)
    counts = ((size + low + high - k) // s + 1 for size, k, s, (low, high) in axes)
    return [max(count, 0) if isinstance(count, int) else count for count in counts]
