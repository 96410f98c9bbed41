"""The taps of every window: one after the other, or as an axis."""

import itertools
from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._cut import cells_at, cut, pad, pad_all, padding_of
from .._window import Axis, Geometry, cdiv

MOST_AT_ONCE = 64
"""Taps up to which every tap is one slice: the compiler then takes reductions of them apart."""

LONGEST_UNROLLED = 32


def each_tap(x: Array, geometry: Geometry, fill: np.ndarray) -> Iterator[Array]:
    """The cells of each tap in turn, row-major."""
    x = pad_all(x, geometry, fill)
    for taps in itertools.product(*map(range, geometry.kernel)):
        yield cells_at(x, taps, geometry)


def stacked(x: Array, geometry: Geometry, fill: np.ndarray) -> Array:
    """All taps as the last axis."""
    if geometry.taps <= MOST_AT_ONCE:
        return jnp.stack(list(each_tap(x, geometry, fill)), -1)
    first = x.ndim
    for axis, position in geometry.placed[::-1]:
        x = _stacked_axis(x, axis, position + first, first, fill)
    return x.reshape(*x.shape[:first], geometry.taps)


def _stacked_axis(x: Array, axis: Axis, dimension: int, at: int, fill: np.ndarray) -> Array:
    """The taps along one axis as a new axis ``at``; in two steps where they are many."""
    position = dimension - x.ndim
    inner = 1
    if axis.kernel > LONGEST_UNROLLED:
        inner = 1 << (axis.kernel.bit_length() // 2)
    outer = cdiv(axis.kernel, inner)
    low, high = padding_of(axis)
    x = pad(x, position, low, high + (inner * outer - axis.kernel) * axis.dilation, fill)
    if inner == 1:
        return _shifted(x, dimension, at, axis.kernel, axis.dilation, axis.out, axis.stride)
    rest = x.shape[dimension] - (inner - 1) * axis.dilation
    x = _shifted(x, dimension, at, inner, axis.dilation, rest, 1)
    x = _shifted(x, dimension, at, outer, inner * axis.dilation, axis.out, axis.stride)
    x = x.reshape(*x.shape[:at], outer * inner, *x.shape[at + 2 :])
    return lax.slice_in_dim(x, 0, axis.kernel, 1, at)


def _shifted(
    x: Array, dimension: int, at: int, steps: int, step: int, count: int, stride: int
) -> Array:
    parts = [cut(x, dimension - x.ndim, n * step, count, stride) for n in range(steps)]
    return jnp.stack(parts, at)
