"""The description of a pooling operation in a model file, as the readers return it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._geometry.axis import Axis
from .._geometry.resolve import geometry

Arrays = tuple[Any, ...]

OPEN = -1
"""The length of an axis that the file leaves open."""


class Unchecked(Exception):
    """Raised if an operation can be expressed, but cannot be checked; the text is the reason."""


@dataclass(frozen=True)
class Node:
    """A pooling operation of a model.

    Attributes:
      name: name of the operation in the file.
      operator: the operator, such as "MaxPool".
      shape: shape of the pooled array, with -1 for an open length; None if the file has no shape.
      dtype: dtype of the pooled array; None if the file has no dtype.
      call: the lines of the equivalent call.
      windows: returns the window, strides, padding, dilations and rounding for axes of the given
        lengths; None for an operation without a window.
      output_sizes: returns the lengths of the pooled axes of the result for an array of the given
        shape; used for an operation without a window.
      others: returns the inputs after the array, for a given array.
      run, peer: run only this operation, in jaxpool and in the runtime of the file's library.
      open_lengths: returns lengths that fit the other inputs, to replace open lengths of the array;
        empty if any lengths fit.
      unknown_from: the operator at which shape inference stopped, if known.
      channels_last: whether the channels are the last axis of the pooled array, not the second.
      length_names: the name of the length of each axis, "" if it has none; empty if none has.
    """

    name: str
    operator: str
    shape: tuple[int, ...] | None
    dtype: np.dtype | None
    call: tuple[str, ...]
    windows: Callable[[Sequence[int]], tuple[Any, ...]] | None
    output_sizes: Callable[[tuple[int, ...]], Sequence[int]]
    others: Callable[[np.ndarray], Arrays]
    run: Callable[..., Arrays]
    peer: Callable[..., Arrays]
    open_lengths: Callable[[], Sequence[int]] = tuple
    unknown_from: str = ""
    channels_last: bool = False
    length_names: tuple[str, ...] = ()

    def channels_second(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the lengths of batch, channels and pooled axes of an array of ``shape``."""
        return (*shape[:1], *shape[-1:], *shape[1:-1]) if self.channels_last else shape

    def axes(self, sizes: Sequence[int]) -> tuple[Axis, ...]:
        """Return the windows of an operation that has some, over pooled axes of ``sizes``."""
        assert self.windows is not None
        kernel, strides, padding, dilations, rounding = self.windows(sizes)
        settings = {"dilations": dilations, "rounding": rounding}
        return geometry(sizes, kernel, strides, padding, **settings).axes


class Unsupported(NamedTuple):
    """A pooling operation that cannot be expressed, and the reason."""

    name: str
    operator: str
    reason: str


class Reader(NamedTuple):
    """The reader of a kind of file, and the runtime that checks the operations."""

    nodes: Callable[[str], Iterator[Node | Unsupported]]
    runtime: str
    package: str
