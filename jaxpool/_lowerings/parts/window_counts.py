"""The number of elements of each window and the first offset of each window, as arrays."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis
from ..._geometry.layout import with_lengths
from ..._geometry.resolve import Geometry, is_static
from .. import tuning
from .axis_slicing import concatenate, reshape_along


class NumberPerWindow(NamedTuple):
    """A number for each window.

    Attributes:
      array: the numbers, which broadcast to the windows; a NumPy array if they are static and few.
      distinct: the numbers that occur, if they are static, or else None.
    """

    array: Any
    distinct: np.ndarray | None = None

    def map(self, f: Callable[[Any], Any]) -> "NumberPerWindow":
        """Return ``f`` of each number; ``f`` is elementwise on NumPy arrays and on arrays."""
        distinct = None if self.distinct is None else np.unique(f(self.distinct))
        return NumberPerWindow(f(self.array), distinct)

    def entries_of(self, table: np.ndarray) -> "NumberPerWindow":
        """Return ``table[number]`` for each number.

        Selects replace the gather from a short table, which XLA:CPU would not vectorise.
        """
        if isinstance(self.array, np.ndarray):
            return self.map(lambda numbers: table[numbers])
        if self.distinct is None or len(table) > tuning.MAX_IN_NETWORK:
            return NumberPerWindow(jnp.asarray(table)[self.array])
        entries = jnp.full(self.array.shape, table[self.distinct[0]])
        for number in self.distinct[1:]:
            entries = jnp.where(self.array == number, table[number], entries)
        return NumberPerWindow(entries, np.unique(table[self.distinct]))


def smallest_index_dtype(maximum: Any) -> np.dtype:
    """Return int16 if ``maximum`` fits, else int32; int32 also for a symbolic number."""
    fits = isinstance(maximum, int) and maximum <= np.iinfo(np.int16).max
    return np.dtype(np.int16 if fits else np.int32)


def per_window(runs: Sequence[tuple[int, int]], position: int, rank: int) -> Array:
    """Return an int32 for each window of an axis, from runs of (number of windows, value).

    A short run is a constant of the program. A long run, or one of symbolic length, is broadcast
    when the program runs.
    """
    pieces: list[Array] = []
    for short, group in itertools.groupby(runs, _is_short):
        if short:
            pieces.append(jnp.asarray(_constant(group, position, rank)))
            continue
        pieces += [_broadcast(run, position, rank) for run in group]
    return concatenate(pieces, position)


def _broadcast(run: tuple[int, int], position: int, rank: int) -> Array:
    """Return a run of (number of windows, value) as a broadcast value."""
    shape = with_lengths((1,) * rank, [position], [run[0]])
    return jnp.full(shape, run[1], jnp.int32)


def _constant(runs: Iterable[tuple[int, int]], position: int, rank: int) -> np.ndarray:
    """Return runs as a NumPy array, a constant of the program."""
    each = [value for windows, value in runs for _ in range(windows)]
    return reshape_along(np.array(each, np.int32), position, rank)


def _is_short(run: tuple[int, int]) -> bool:
    return isinstance(run[0], int) and run[0] <= tuning.LONGEST_CONSTANT_RUN


def elements_per_window(geometry: Geometry, include_pad: bool) -> Any:
    """Return how many elements each window has, with or without padding; an int if all are equal.

    The result is the outer product of one vector of counts per axis; if the counts along an axis
    are equal, the factor is an int. A small product is a NumPy array, a constant of the program.
    Otherwise every loop that divides by the counts would recompute them, and compile more slowly.
    """
    product: Any = 1
    rank = -min(geometry.positions)
    vectors, lengths = [], []
    for axis, position in geometry.placed:
        runs = axis.count_runs(include_pad)
        if len({count for _, count in runs}) == 1:
            product = product * runs[0][1]
        else:
            vectors.append((runs, position))
            lengths.append(axis.out)
    vector_of = _constant if _is_small(lengths) else per_window
    for runs, position in vectors:
        product = product * vector_of(runs, position, rank)
    return product


def distinct_counts(geometry: Geometry) -> np.ndarray | None:
    """Return the numbers of elements that windows have, without padding, or None if symbolic."""
    counts = {1}
    for axis in geometry.axes:
        counts = {n * count for n in counts for _, count in axis.count_runs(include_pad=False)}
    return np.array(sorted(counts), np.int32) if is_static([*counts]) else None


def _is_small(shape: Sequence[Any]) -> bool:
    return is_static(shape) and math.prod(shape) <= tuning.MAX_CONSTANT_COUNTS


def first_valid_offset(axis: Axis, start: Array) -> Array:
    """Return the first offset that does not read low padding, of windows that begin at ``start``.

    For an empty window, that offset reads past the end of the axis or exceeds the window. The
    division is ``lax.div``, since ``start`` may be an array in a kernel, and JAX lowers ``//`` by
    asking for the device.
    """
    numerator = lax.max(axis.dilation - 1 - start, np.int32(0))
    return lax.div(numerator, np.int32(axis.dilation))


def first_offsets(geometry: Geometry, rank: int) -> Array:
    """Return the row-major offset of the first element of each window, in int32."""
    offsets = jnp.zeros((1,) * rank, jnp.int32)
    for axis, position in geometry.placed:
        lows = [(run.last - run.first, run.low) for run in axis.segments()]
        if len(lows) > tuning.MAX_FULL_RUNS:
            first = per_window(lows, position, rank)
        else:
            first = concatenate([_broadcast(run, position, rank) for run in lows], position)
        offsets = offsets * axis.kernel + first
    return offsets
