"""Window doubling, one axis after the other: cost and program grow with the log of the window.

With ``w_1 = x`` and ``w_2m[p] = w_m[p] . w_m[p + m * dilation]`` every window length that is a
power of two takes one step. A window of K taps is then

* for an idempotent reduction, two overlapping windows of ``2^j <= K``:
  ``w_m[o] . w_m[o + (K - m) * dilation]``;
* else the windows of the binary digits of K, side by side: each cell counts once.

Source: van Herk 1992 and Gil and Werman 1993 give the window-independent bound; the doubling form
is the erosion by decomposition of Pecht 1985, chosen because each step is one vector operation.
"""

import numpy as np
from jax import Array

from .._reductions import Reduction, identity_array
from .._window import Axis, Geometry
from ._cut import (
    Pick,
    better,
    cut,
    empty,
    first_pick,
    mark_empty,
    numbered,
    pad,
    padding_of,
    tap_dtype,
    tree,
)
from ._order import in_integers, is_float_extreme


def why_not(geometry: Geometry, reduction: Reduction, dtype: object) -> str | None:
    """Return why this lowering declines, or None."""
    return None


def run(x: Array, geometry: Geometry, reduction: Reduction) -> Array:
    """Return the reduction of every window."""
    if is_float_extreme(reduction, x.dtype):
        return in_integers(lambda k, order: run(k, geometry, order), x, reduction)
    for axis, position in zip(geometry.axes[::-1], geometry.positions[::-1], strict=True):
        x = _reduce(x, axis, position, reduction)
    return x


def _reduce(x: Array, axis: Axis, position: int, reduction: Reduction) -> Array:
    x = pad(x, position, *padding_of(axis), identity_array(reduction, x.dtype))
    parts: list[Array] = []
    length, done = 1, 0
    while True:
        if not reduction.idempotent and axis.kernel & length:
            parts.append(_at(x, axis, position, done))
            done += length
        if 2 * length > axis.kernel:
            break
        shift = length * axis.dilation
        rest = x.shape[position] - shift
        x = reduction.combine(cut(x, position, 0, rest, 1), cut(x, position, shift, rest, 1))
        length *= 2
    if reduction.idempotent:
        parts = [_at(x, axis, position, tap) for tap in sorted({0, axis.kernel - length})]
    return tree(reduction.combine, parts)


def _at(x: Array, axis: Axis, position: int, tap: int) -> Array:
    """The entries of padded ``x`` at one tap of every window."""
    return cut(x, position, tap * axis.dilation, axis.out, axis.stride)


def select(x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction) -> Pick:
    """Return the winner of every window and the number of its tap, row-major in the window."""
    sparse = valid is not None
    pick, inner = first_pick(x, valid, tap_dtype(geometry)), 1
    for axis, position in zip(geometry.axes[::-1], geometry.positions[::-1], strict=True):
        sparse = sparse or any(padding_of(axis))
        pick = _select(pick, axis, position, inner, reduction, sparse)
        inner *= axis.kernel
    return mark_empty(pick, geometry)


def _select(
    pick: Pick, axis: Axis, position: int, inner: int, reduction: Reduction, sparse: bool
) -> Pick:
    combine = better(reduction, sparse)
    pick = _pad_pick(pick, axis, position, reduction)
    length = 1
    while 2 * length <= axis.kernel:
        shift = length * axis.dilation
        rest = pick[0].shape[position] - shift
        later = _cut_pick(pick, position, shift, rest, 1)
        earlier = _cut_pick(pick, position, 0, rest, 1)
        pick = combine(earlier, numbered(later, length * inner, sparse))
        length *= 2
    shifts = sorted({0, axis.kernel - length})
    picks = (_cut_pick(pick, position, t * axis.dilation, axis.out, axis.stride) for t in shifts)
    return tree(
        combine, [numbered(p, t * inner, sparse) for t, p in zip(shifts, picks, strict=True)]
    )


def _pad_pick(pick: Pick, axis: Axis, position: int, reduction: Reduction) -> Pick:
    low, high = padding_of(axis)
    values, taps = pick
    values = pad(values, position, low, high, identity_array(reduction, values.dtype))
    return values, pad(taps, position, low, high, np.asarray(empty(taps.dtype)))


def _cut_pick(pick: Pick, position: int, start: int, count: int, stride: int) -> Pick:
    return cut(pick[0], position, start, count, stride), cut(
        pick[1], position, start, count, stride
    )
