"""Reading and writing windows by tap numbers of any origin.

The core reads the winners of a max pooling, and may then count on it that windows which share a
cell agree on the best of what they share. Taps that a caller made, or that were drawn at random,
do not agree. Here no two windows are taken together.
"""

import functools
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .. import _gather
from .._cut import cut, pad_all
from .._linear import with_transpose
from .._mesh import varying_alike
from .._reductions import accumulator
from .._send import MOST_TAPS_AT_ONCE, to_winners_apart, to_winners_at_once
from .._window import Geometry

State = TypeVar("State")

MOST_DIRECT_TAPS = _gather.MOST_DIRECT_TAPS


def read(t: Array, taps: Array, geometry: Geometry) -> Array:
    """Return the entry of ``t`` at the tap of every window, 0 where it marks none; linear."""
    if geometry.is_apart:
        return _gather.read(t, taps, geometry)
    wide = t.astype(accumulator(t.dtype))
    if geometry.taps > MOST_DIRECT_TAPS:
        return _one_by_one(wide, taps, geometry).astype(t.dtype)
    there, back = (functools.partial(f, taps=taps, geometry=geometry) for f in (_direct, send))
    return with_transpose(there, back, wide, taps.shape).astype(t.dtype)


def _direct(t: Array, taps: Array, geometry: Geometry) -> Array:
    return _gather._by_taps(t, taps, geometry)


def _one_by_one(t: Array, taps: Array, geometry: Geometry) -> Array:
    def step(tap: Array, cell: Array, found: Array) -> Array:
        return jnp.where(taps == tap.astype(taps.dtype), cell, found)

    return walk(t, geometry, step, jnp.zeros(taps.shape, t.dtype))


def send(g: Array, taps: Array, geometry: Geometry) -> Array:
    """Return what each cell receives if every window sends to its tap: the transpose of a read.

    For windows that are apart or have up to ``MOST_DIRECT_TAPS``; needs no scatter.
    """
    if geometry.is_apart:
        return to_winners_apart(g, taps, geometry)
    if geometry.taps <= MOST_TAPS_AT_ONCE:
        return to_winners_at_once(g, taps, geometry)
    shape = list(g.shape)
    for axis, position in geometry.placed:
        shape[position] = axis.size
    direct = functools.partial(_direct, taps=taps, geometry=geometry)
    return jax.linear_transpose(direct, jax.ShapeDtypeStruct(tuple(shape), g.dtype))(g)[0]


def walk(
    x: Array, geometry: Geometry, step: Callable[[Array, Array, State], State], state: State
) -> State:
    """Return ``step(tap, cells at that tap, state)`` taken over all taps in row-major order.

    Cells on padding are 0. A loop, unrolled for small windows: the program does not grow with them.
    """
    x = pad_all(x, geometry, np.zeros((), x.dtype))

    def body(tap: Array, state: State) -> State:
        tap = jnp.asarray(tap)  # an int under jax.disable_jit
        return step(tap, _cells(x, tap, geometry), state)

    few = geometry.taps <= MOST_DIRECT_TAPS
    x, state = varying_alike((x, state))
    return lax.fori_loop(0, geometry.taps, body, state, unroll=few)


def _cells(padded: Array, tap: Array, geometry: Geometry) -> Array:
    """The entries of ``padded`` at one tap of every window."""
    starts, sizes = [jnp.zeros((), tap.dtype)] * padded.ndim, list(padded.shape)
    for axis, position, digit in zip(
        geometry.axes, geometry.positions, digits(tap, geometry.kernel), strict=True
    ):
        starts[position] = digit * np.asarray(axis.dilation, tap.dtype)
        sizes[position] = (axis.out - 1) * axis.stride + 1
    cells = lax.dynamic_slice(padded, starts, sizes)
    for axis, position in geometry.placed:
        cells = cut(cells, position, 0, axis.out, axis.stride)
    return cells


def digits(taps: Array, kernel: tuple[int, ...]) -> list[Array]:
    """The tap on each pooled axis, of row-major tap numbers."""
    found = []
    for count in reversed(kernel):
        found.append(taps % np.asarray(count, taps.dtype))
        taps = taps // np.asarray(count, taps.dtype)
    return found[::-1]
