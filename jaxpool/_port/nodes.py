"""What a reader makes of a pooling operation of a model file."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Arrays = tuple[Any, ...]

OPEN = -1
"""A length that the file leaves open."""


class Unchecked(Exception):
    """An operation can be written down, but its file does not hold what a run of it needs."""


@dataclass(frozen=True)
class Node:
    """A pooling operation of a model.

    Attributes:
      name: its own.
      operator: such as "MaxPool".
      shape: of its array, -1 for a length that the file leaves open; None if it does not say.
      dtype: of its array; None if the file does not say.
      call: the equivalent call, line by line.
      windows: window, strides, padding, dilations and rounding over axes of given lengths; None for
        an operation without a window.
      output_sizes: lengths of the pooled axes of the result over an array of a given shape, for an
        operation without a window.
      others: its inputs besides the array, for a given array.
      run, peer: the operation by itself, in jaxpool and in the runtime of the file's library.
      unknown_from: the operator of the file behind which its reader finds no shapes, if known.
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
    unknown_from: str = ""


class Unsupported(NamedTuple):
    """A pooling operation that cannot be expressed, and why."""

    name: str
    operator: str
    reason: str


class Reader(NamedTuple):
    """How to read the files of a library, and what checks them."""

    nodes: Callable[[str], Iterator[Node | Unsupported]]
    runtime: str
    package: str
