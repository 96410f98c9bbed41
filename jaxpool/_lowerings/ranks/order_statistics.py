"""Order statistics of long windows along one axis, in memory and time that do not grow with them.

For windows ``[start, stop)`` of ``x`` of any starts and stops, :func:`kth` finds the position of
the element that would stand at place ``k`` if the window were sorted, the first of equal elements.

Every element gets a rank among all, equal ones the same. The ranks are then read bit by bit from
the highest, and at each bit the axis is parted: elements whose bit is 0 first, then the others,
both in their former order. What was a window is a range again on either side, so that a window is
two numbers; how many zeros lie before each position is a running count ``z``, of integers. The
window goes to the zeros if they are more than ``k``, and else to the ones, with ``k`` less by
their number. After the last bit it holds the elements of one rank, in their order.

Windows of an axis that are much shorter than it are taken a block of neighbours at a time
(:func:`kth_of_axis`): a block is a short axis of its own.

Source: Claude, Navarro and Ordonez 2015, "The wavelet matrix", Information Systems 47, section 3.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis, cdiv
from ..._xla.by_platform import by_platform
from ..._xla.sharding_types import varying_alike
from .. import tuning
from ..parts.window_counts import short_dtype


def kth(
    x: Array, absent: Array | None, starts: Array, stops: Array, k: Array, dtype: Any = np.int32
) -> Array:
    """Return the position of the element at place ``k`` of each window along the last axis.

    Args:
      x: array ``[.., n]``; NaN comes last, as in ``lax.sort``.
      absent: mask of elements that come after all others, or None.
      starts, stops: the windows, int32 ``[m]``; those without an element give any position.
      k: int32 that broadcasts to ``[.., m]``, less than the elements of the window.
      dtype: of the numbers that are held for each element and window, which go up to ``n``.
    """
    ranks, bits = _ranks(x, absent, dtype), _bits(x.shape[-1])
    positions = lax.broadcasted_iota(dtype, x.shape, x.ndim - 1)
    shape = (*x.shape[:-1], starts.shape[-1])
    windows = tuple(jnp.broadcast_to(a.astype(dtype), shape) for a in (starts, stops, k))
    elements, windows = varying_alike(((ranks, positions), windows))

    def level(state: tuple[Any, ...]) -> tuple[Any, ...]:
        bit, elements, windows = state
        return bit - 1, *_part(elements, windows, (elements[0] >> bit) & 1)

    # JAX 0.12 takes the body of a scan, which a fori_loop is, apart while it differentiates. If the
    # garbage collector runs as it comes to a sort with an output that nothing reads, it raises a
    # bare AssertionError. A while_loop stays whole.
    start = np.asarray(bits - 1, dtype), elements, windows
    _, (_, positions), (first, _, _) = lax.while_loop(lambda state: state[0] >= 0, level, start)
    return jnp.take_along_axis(positions, first, -1, mode="clip")


def _bits(size: Any) -> int:
    """Digits of the ranks of ``size`` elements; of a symbolic size those of the largest."""
    return max(size - 1, 1).bit_length() if isinstance(size, int) else 31


def _ranks(x: Array, absent: Array | None, dtype: Any) -> Array:
    """The rank of every element among all of its row; equal elements share one."""
    keys = (x,) if absent is None else (absent, x)
    positions = lax.broadcasted_iota(dtype, x.shape, x.ndim - 1)
    *ordered, positions = lax.sort((*keys, positions), num_keys=len(keys))
    differs = [key[..., 1:] != key[..., :-1] for key in ordered]
    ranks = running_count(jnp.stack(differs).any(0), dtype)
    return lax.sort((positions, ranks), num_keys=1)[1]


def running_count(flags: Array, dtype: Any) -> Array:
    """Return how many flags are set before each position of the last axis, and before its end."""
    counts = jnp.cumsum(flags, -1, dtype=dtype)
    return jnp.pad(counts, [(0, 0)] * (flags.ndim - 1) + [(1, 0)])


def _part(
    elements: tuple[Array, ...], windows: tuple[Array, ...], ones: Array
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Part the elements by one bit, and narrow each window to the side that holds its element."""
    before = running_count(1 - ones, ones.dtype)
    zeros = before[..., -1:]
    starts, stops, k = windows
    low, high = (jnp.take_along_axis(before, ends, -1, mode="clip") for ends in (starts, stops))
    right = k >= high - low
    narrowed = (
        jnp.where(right, zeros + starts - low, low),
        jnp.where(right, zeros + stops - high, high),
        jnp.where(right, k - (high - low), k),
    )
    return _parted(elements, ones, before[..., :-1], zeros), narrowed


def _parted(
    elements: tuple[Array, ...], ones: Array, before: Array, zeros: Array
) -> tuple[Array, ...]:
    """The elements with a 0 and then those with a 1; by a sort where writing apart is slow."""

    def by_writing(*elements: Array) -> tuple[Array, ...]:
        positions = lax.broadcasted_iota(ones.dtype, ones.shape, ones.ndim - 1)
        targets = jnp.where(ones == 1, zeros + positions - before, before)
        put = lambda a, targets: a.at[targets].set(a, unique_indices=True)  # noqa: E731
        for _ in range(ones.ndim - 1):
            put = jax.vmap(put)
        return tuple(put(a, targets) for a in elements)

    def by_sorting(*elements: Array) -> tuple[Array, ...]:
        return tuple(lax.sort((ones, *elements), num_keys=1)[1:])

    functions = {"cpu": by_writing, "gpu": by_sorting, "tpu": by_sorting}
    return by_platform(functions, *elements)


def kth_of_axis(x: Array, absent: Array | None, axis: Axis, k: Array) -> Array:
    """Return :func:`kth` of the windows of the last axis, which has no gaps.

    On CPU of one block of them after the other: its arrays stay in cache and are few, and its ranks
    have fewer bits. GPU and TPU would be idle in a block.
    """
    dtype = short_dtype(axis.size)  # many arrays hold positions

    def in_whole(x: Array, absent: Array | None, k: Array, held: Any = np.int32) -> Array:
        return kth(x, absent, *ranges(axis), k, held).astype(dtype)

    if not isinstance(axis.size, int):
        return in_whole(x, absent, k)
    most = max(
        1, max(tuning.LONGEST_ORDERED, tuning.LEAST_BLOCK_OF_ORDERED * axis.kernel) // axis.stride
    )
    count = cdiv(axis.out, cdiv(axis.out, most))
    in_blocks = lambda x, absent, k: _in_blocks(x, absent, axis, k, count)  # noqa: E731
    one_block = count == axis.out or _span(axis, count) >= axis.size
    on_cpu = functools.partial(in_whole, held=dtype) if one_block else in_blocks
    return by_platform({"cpu": on_cpu, "gpu": in_whole, "tpu": in_whole}, x, absent, k)


def _in_blocks(x: Array, absent: Array | None, axis: Axis, k: Array, count: int) -> Array:
    """:func:`kth_of_axis` in blocks of ``count`` windows; the last one repeats the last window."""
    blocks, span, dtype = cdiv(axis.out, count), _span(axis, count), short_dtype(axis.size)
    more = blocks * count - axis.out
    k = jnp.pad(k, [(0, 0)] * (k.ndim - 1) + [(0, more)], mode="edge")
    cut = lambda a, start, size: lax.dynamic_slice_in_dim(a, start, size, -1)  # noqa: E731

    def of_block(block: Array) -> Array:
        first = block * count
        low = jnp.clip(first * axis.stride - axis.pad_low, 0, axis.size - span)
        windows = jnp.minimum(first + lax.iota(jnp.int32, count), axis.out - 1)
        starts, stops = (ends - low for ends in _ends(windows, axis))
        gone = None if absent is None else cut(absent, low, span)
        ends, places = (starts, stops), cut(k, first, count)
        found = kth(cut(x, low, span), gone, *ends, places, short_dtype(span))
        return low.astype(dtype) + found.astype(dtype)

    found = jnp.moveaxis(lax.map(of_block, lax.iota(jnp.int32, blocks)), 0, -2)
    return found.reshape(*found.shape[:-2], blocks * count)[..., : axis.out]


def _span(axis: Axis, count: int) -> int:
    """From the first to the last element of neighbouring windows without gaps."""
    return (count - 1) * axis.stride + axis.kernel


def ranges(axis: Axis) -> tuple[Array, Array]:
    """The first position of every window of an axis without gaps, and the one after its last."""
    return _ends(lax.iota(jnp.int32, axis.out), axis)


def _ends(windows: Array, axis: Axis) -> tuple[Array, Array]:
    """:func:`ranges` of some of the windows."""
    starts = windows * axis.stride - axis.pad_low
    stops = starts + axis.kernel
    return jnp.clip(starts, 0, axis.size), jnp.clip(stops, 0, axis.size)


def with_nan(x: Array, starts: Array, stops: Array, found: Array) -> Array:
    """Return ``found``, and the first NaN of each window that has one; of floats."""
    nan = jnp.isnan(x)
    position = lax.broadcasted_iota(found.dtype, x.shape, x.ndim - 1)
    end = jnp.asarray(x.shape[-1], found.dtype)
    following = lax.cummin(jnp.where(nan, position, end), x.ndim - 1, reverse=True)
    first = jnp.take(following, starts, -1, mode="clip")
    return jnp.where(first < stops.astype(found.dtype), first, found)
