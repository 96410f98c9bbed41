"""Numbers of a geometry as arrays: elements of each window, and the first offset of each."""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry
from .. import tuning
from .axis_slicing import broadcast_along, concatenate


def short_dtype(most: Any) -> np.dtype:
    """Return int16 if it holds ``most``, else int32, as for a symbolic number."""
    fits = isinstance(most, int) and most <= np.iinfo(np.int16).max
    return np.dtype(np.int16 if fits else np.int32)


def per_window(runs: Sequence[tuple[int, int]], position: int, rank: int) -> Array:
    """Return an int32 for each window of an axis, from runs of (windows, value).

    A long run is made where it is used, not a constant of the program; so is one of symbolic
    length, which cannot be written out.
    """
    pieces: list[Array] = []
    for short, group in itertools.groupby(runs, _is_short):
        if short:
            pieces.append(jnp.asarray(_written_out(group, position, rank)))
            continue
        pieces += [_full(run, position, rank) for run in group]
    return concatenate(pieces, position)


def _full(run: tuple[int, int], position: int, rank: int) -> Array:
    shape = [1] * rank
    shape[position] = run[0]
    return jnp.full(shape, run[1], jnp.int32)


def _written_out(runs: Iterable[tuple[int, int]], position: int, rank: int) -> np.ndarray:
    each = [value for windows, value in runs for _ in range(windows)]
    return broadcast_along(np.array(each, np.int32), position, rank)


def _is_short(run: tuple[int, int]) -> bool:
    return isinstance(run[0], int) and run[0] <= tuning.LONGEST_CONSTANT_RUN


def elements_per_window(geometry: Geometry, include_pad: bool) -> Any:
    """Return how many elements each window has, with or without padding; an int if all are equal.

    The outer product of one vector of counts per axis, a factor that is constant an int. A small
    product is a NumPy array, a constant of the program: each loop that divides would compute it
    anew, and compile the longer.
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
    made = _written_out if _is_small(lengths) else per_window
    for runs, position in vectors:
        product = product * made(runs, position, rank)
    return product


def _is_small(shape: Sequence[Any]) -> bool:
    known = all(isinstance(length, int) for length in shape)
    return known and math.prod(shape) <= tuning.MOST_CONSTANT_COUNTS


def first_inside(axis: Axis, start: Array) -> Array:
    """Return the first offset that reads no padding, of windows that begin at ``start``.

    It reads past the end of the axis, or is no offset of the window, where the window is empty.
    ``start`` may be an array in a kernel, in which JAX lowers ``//`` by asking for the device.
    """
    before = jnp.maximum(axis.dilation - 1 - start, 0)
    return lax.div(before, np.int32(axis.dilation))


def first_offsets(geometry: Geometry, rank: int) -> Array:
    """Return the first offset of each window that is no padding, row-major, in int32."""
    offsets = jnp.zeros((1,) * rank, jnp.int32)
    for axis, position in geometry.placed:
        lows = [(run.last - run.first, run.low) for run in axis.segments()]
        if len(lows) > tuning.MOST_FULL_RUNS:
            first = per_window(lows, position, rank)
        else:
            first = concatenate([_full(run, position, rank) for run in lows], position)
        offsets = offsets * axis.kernel + first
    return offsets
