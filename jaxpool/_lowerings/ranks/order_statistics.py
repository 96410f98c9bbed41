"""Order statistics of long windows along one axis, by a wavelet matrix.

For arbitrary windows ``x[start:stop]``, :func:`kth` finds the position of the element at index
``k`` of the sorted window, the first position if there are equal elements. Neither memory nor time
grows with the length of the windows.

Every element gets an integer rank among all elements of the axis; equal elements get equal ranks.
The ranks are processed bit by bit, the highest bit first. At each bit, the axis is partitioned
stably: elements whose bit is 0 first, then those whose bit is 1. The zeros of a window are then a
contiguous range again, and so are its ones. With ``z[p]`` zeros before position ``p``, a cumulative
sum of integers, and ``Z`` zeros in all, these ranges are

    zeros  z[start] : z[stop],    ones  Z + start - z[start] : Z + stop - z[stop].

The zeros of a window are smaller than its ones. So if it has more than ``k`` zeros, the wanted
element is among them, and the window becomes the range of its zeros. Otherwise the window becomes
the range of its ones, and ``k`` decreases by the number of its zeros. After the last bit, the
window has elements of a single rank, in their original order, and the first is the result. For
example, for ranks 2 0 3 1, the full axis and k = 2:

    ranks  2 0 3 1    high bits  1 0 1 0    partitioned  0 1 | 2 3    2 zeros: the ones, 2 3; k = 0
    ranks  0 1 2 3    low bits   0 1 0 1    partitioned  0 2 | 1 3    1 zero:  the zeros, 2

If the windows are much shorter than the axis, :func:`kth_of_axis` processes blocks of neighbouring
windows, each of which reads a short axis.

Source: Claude, Navarro and Ordonez 2015, "The wavelet matrix", Information Systems 47, section 3.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis, cdiv
from ..._xla.by_platform import by_platform
from ..._xla.sharding_types import unify_varying_axes
from .. import tuning
from ..parts.window_counts import smallest_index_dtype


def kth(
    x: Array, absent: Array | None, starts: Array, stops: Array, k: Array, dtype: Any = np.int32
) -> Array:
    """Return the position of the element at index ``k`` of each sorted window of the last axis.

    Args:
      x: array ``[.., n]``; NaN is sorted last, as in ``lax.sort``.
      absent: mask of elements that are sorted after all others, or None.
      starts, stops: the windows, int32 ``[m]``. The result of an empty window is arbitrary.
      k: int32 that broadcasts to ``[.., m]``, less than the number of elements of the window.
      dtype: the integer dtype of ranks and positions, which must represent ``n``.
    """
    ranks, bits = _ranks(x, absent, dtype), _bits(x.shape[-1])
    positions = lax.broadcasted_iota(dtype, x.shape, x.ndim - 1)
    shape = (*x.shape[:-1], starts.shape[-1])
    windows = tuple(jnp.broadcast_to(a.astype(dtype), shape) for a in (starts, stops, k))
    elements, windows = unify_varying_axes(((ranks, positions), windows))

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        bit, elements, windows = state
        return bit - 1, *_narrow(elements, windows, (elements[0] >> bit) & 1)

    # A while_loop, not a fori_loop, which is a scan: JAX 0.12 splits the body of a scan while it
    # differentiates. If the garbage collector runs as JAX reaches a sort with an unused output, it
    # raises a bare AssertionError. JAX does not split a while_loop.
    start = np.asarray(bits - 1, dtype), elements, windows
    _, (_, positions), (first, _, _) = lax.while_loop(lambda state: state[0] >= 0, step, start)
    return jnp.take_along_axis(positions, first, -1, mode="clip")


def _bits(size: Any) -> int:
    """Return the number of bits of the ranks of ``size`` elements; 31 for a symbolic size."""
    return max(size - 1, 1).bit_length() if isinstance(size, int) else 31


def _ranks(x: Array, absent: Array | None, dtype: Any) -> Array:
    """Return the rank of every element among all of its row; equal elements have equal ranks."""
    keys = (x,) if absent is None else (absent, x)
    positions = lax.broadcasted_iota(dtype, x.shape, x.ndim - 1)
    *sorted_keys, positions = lax.sort((*keys, positions), num_keys=len(keys))
    differs = [key[..., 1:] != key[..., :-1] for key in sorted_keys]
    ranks = running_count(jnp.stack(differs).any(0), dtype)
    return lax.sort((positions, ranks), num_keys=1)[1]


def running_count(flags: Array, dtype: Any) -> Array:
    """Return how many flags are set before each position of the last axis, its end included.

    The last axis of the result is longer by 1.
    """
    counts = jnp.cumsum(flags, -1, dtype=dtype)
    return jnp.pad(counts, [(0, 0)] * (flags.ndim - 1) + [(1, 0)])


def _narrow(
    elements: tuple[Array, ...], windows: tuple[Array, ...], ones: Array
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Partition the elements by one bit, and narrow each window to the part with its element."""
    before = running_count(1 - ones, ones.dtype)
    zeros = before[..., -1:]
    starts, stops, k = windows
    low, high = (jnp.take_along_axis(before, ends, -1, mode="clip") for ends in (starts, stops))
    in_ones = k >= high - low
    narrowed = (
        jnp.where(in_ones, zeros + starts - low, low),
        jnp.where(in_ones, zeros + stops - high, high),
        jnp.where(in_ones, k - (high - low), k),
    )
    return _partition(elements, ones, before[..., :-1], zeros), narrowed


def _partition(
    elements: tuple[Array, ...], ones: Array, before: Array, zeros: Array
) -> tuple[Array, ...]:
    """Return the elements whose bit is 0, then those whose bit is 1, each in their order.

    CPU scatters them to their new positions. GPU and TPU, where that is slow, sort stably.
    """

    def by_scatter(*elements: Array) -> tuple[Array, ...]:
        positions = lax.broadcasted_iota(ones.dtype, ones.shape, ones.ndim - 1)
        targets = jnp.where(ones == 1, zeros + positions - before, before)
        scatter = lambda a, targets: a.at[targets].set(a, unique_indices=True)  # noqa: E731
        for _ in range(ones.ndim - 1):
            scatter = jax.vmap(scatter)
        return tuple(scatter(a, targets) for a in elements)

    def by_sort(*elements: Array) -> tuple[Array, ...]:
        return tuple(lax.sort((ones, *elements), num_keys=1)[1:])

    return by_platform(*elements, cpu=by_scatter, default=by_sort)


def kth_of_axis(x: Array, absent: Array | None, axis: Axis, *places: Array) -> list[Array]:
    """Return :func:`kth` for each of the places, of the windows of the last axis without dilation.

    The elements are partitioned once for all places: the windows are repeated for each place.

    CPU processes blocks of windows sequentially: the arrays of a block stay in cache, they need
    little memory, and ranks in a block have fewer bits. A block would leave GPU and TPU idle.
    """
    dtype = smallest_index_dtype(axis.size)  # many arrays contain positions

    def unblocked(
        x: Array, absent: Array | None, *places: Array, index_dtype: Any = np.int32
    ) -> list[Array]:
        positions = _kth_of_each(x, absent, *window_ranges(axis), places, index_dtype)
        return [of_place.astype(dtype) for of_place in positions]

    if not isinstance(axis.size, int):
        return unblocked(x, absent, *places)
    max_elements = max(tuning.LONGEST_ORDERED, tuning.MIN_BLOCK_OF_ORDERED * axis.kernel)
    max_windows = max(1, max_elements // (axis.stride * len(places)))
    count = cdiv(axis.out, cdiv(axis.out, max_windows))
    in_blocks = functools.partial(_kth_in_blocks, axis, count)
    is_one_block = count == axis.out or _extent(axis, count) >= axis.size
    on_cpu = functools.partial(unblocked, index_dtype=dtype) if is_one_block else in_blocks
    return by_platform(x, absent, *places, cpu=on_cpu, default=unblocked)


def _kth_of_each(
    x: Array, absent: Array | None, starts: Array, stops: Array, places: Sequence[Array], dtype: Any
) -> list[Array]:
    """Return :func:`kth` for each of the places."""
    n, k = len(places), jnp.concatenate(places, -1)
    positions = kth(x, absent, jnp.tile(starts, n), jnp.tile(stops, n), k, dtype)
    return jnp.split(positions, n, -1)


def _kth_in_blocks(
    axis: Axis, count: int, x: Array, absent: Array | None, *places: Array
) -> list[Array]:
    """Return :func:`kth_of_axis` in blocks of ``count`` windows.

    The last window is repeated to fill up the last block.
    """
    blocks, span = cdiv(axis.out, count), _extent(axis, count)
    dtype, block_dtype = smallest_index_dtype(axis.size), smallest_index_dtype(span)
    fill = [(0, 0)] * (x.ndim - 1) + [(0, blocks * count - axis.out)]
    padded = [jnp.pad(k, fill, mode="edge") for k in places]
    slice_last = lambda a, start, size: lax.dynamic_slice_in_dim(a, start, size, -1)  # noqa: E731

    def of_block(block: Array) -> list[Array]:
        first = block * count
        low = jnp.clip(first * axis.stride - axis.pad_low, 0, axis.size - span)
        windows = jnp.minimum(first + lax.iota(jnp.int32, count), axis.out - 1)
        starts, stops = (ends - low for ends in _ranges_of(windows, axis))
        block_absent = None if absent is None else slice_last(absent, low, span)
        block_places = [slice_last(k, first, count) for k in padded]
        positions = _kth_of_each(
            slice_last(x, low, span), block_absent, starts, stops, block_places, block_dtype
        )
        return [low.astype(dtype) + of_place.astype(dtype) for of_place in positions]

    def concatenated(of_blocks: Array) -> Array:
        """Concatenate blocks, which are the first axis, along the last axis."""
        merged = jnp.moveaxis(of_blocks, 0, -2)
        return merged.reshape(*merged.shape[:-2], blocks * count)[..., : axis.out]

    return [concatenated(positions) for positions in lax.map(of_block, lax.iota(jnp.int32, blocks))]


def _extent(axis: Axis, count: int) -> int:
    """Return the length of the range that ``count`` neighbouring windows cover."""
    return (count - 1) * axis.stride + axis.kernel


def window_ranges(axis: Axis) -> tuple[Array, Array]:
    """Return the start and the stop of every window of an axis without dilation."""
    return _ranges_of(lax.iota(jnp.int32, axis.out), axis)


def _ranges_of(windows: Array, axis: Axis) -> tuple[Array, Array]:
    """Return the starts and stops of some windows, as :func:`window_ranges` does."""
    starts = windows * axis.stride - axis.pad_low
    stops = starts + axis.kernel
    return jnp.clip(starts, 0, axis.size), jnp.clip(stops, 0, axis.size)


def replace_by_first_nan(x: Array, starts: Array, stops: Array, positions: Array) -> Array:
    """Replace positions by that of the first NaN, in windows of floats that contain a NaN."""
    nan = jnp.isnan(x)
    indices = lax.broadcasted_iota(positions.dtype, x.shape, x.ndim - 1)
    end = jnp.asarray(x.shape[-1], positions.dtype)
    following = lax.cummin(jnp.where(nan, indices, end), x.ndim - 1, reverse=True)
    first = jnp.take(following, starts, -1, mode="clip")
    return jnp.where(first < stops.astype(positions.dtype), first, positions)
