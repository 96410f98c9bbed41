"""Windows made of smaller windows, one axis after the other: cost and program grow with log k.

For an idempotent reduction a window of K taps is a few overlapping windows of fewer taps, and so
on down to one tap (``levels``). A sum must count each cell once: it takes the windows of the binary
digits of K, side by side, where the window of ``2m`` taps is two of ``m``. Never a running sum,
which would cancel.

Source: van Herk 1992 and Gil and Werman 1993 for cost that does not grow with the window; here each
level is one vector operation over the whole array.
"""

from collections.abc import Callable

import numpy as np
from jax import Array

from .._cut import by_digits, copies, levels, pad, padding_of, tree
from .._pick import Pick, best, empty, first_pick, mark_empty, numbered, tap_dtype
from .._reductions import Reduction, identity_array
from .._window import Axis, Geometry
from ._order import has_room, in_integers, is_float_extreme, pick_in_order

SELECT_RADIX = 4


def why_not(
    geometry: Geometry, reduction: Reduction, dtype: object, winners: bool = False
) -> str | None:
    """Return why this lowering declines, or None."""
    return None


def run(x: Array, geometry: Geometry, reduction: Reduction) -> Array:
    """Return the reduction of every window."""
    if is_float_extreme(reduction, x.dtype):
        return in_integers(lambda k, order: run(k, geometry, order), x, reduction)
    along = _overlapping if reduction.idempotent else by_digits
    for axis, position in geometry.placed[::-1]:
        x = pad(x, position, *padding_of(axis), identity_array(reduction, x.dtype))
        x = tree(reduction.combine, along(x, axis, position, reduction.combine))
    return x


def _overlapping(
    x: Array, axis: Axis, position: int, combine: Callable[[Array, Array], Array]
) -> list[Array]:
    """Arrays that combine to the windows of ``axis``, cells counted more than once."""
    parts: list[Array] = []
    for window, shifts in levels(axis.kernel, radix=2)[::-1]:
        last = window == axis.kernel
        parts = copies(x, axis, position, shifts, last)
        if not last:
            x = tree(combine, parts)
    return parts


def select(x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction) -> Pick:
    """Return the winner of every window and the number of its tap, row-major in the window."""
    if not has_room(reduction, x.dtype):
        return _select(x, valid, geometry, reduction, may_be_empty=True)
    pick = lambda keys, order: _select(keys, None, geometry, order, may_be_empty=False)  # noqa: E731
    return pick_in_order(pick, x, valid, reduction)


def _select(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction, may_be_empty: bool
) -> Pick:
    sparse = may_be_empty and (valid is not None or any(any(padding_of(a)) for a in geometry.axes))
    pick, inner = first_pick(x, valid, tap_dtype(geometry)), 1
    for axis, position in geometry.placed[::-1]:
        pick = _select_along(pick, axis, position, inner, reduction, sparse)
        inner *= axis.kernel
    return mark_empty(pick, geometry)


def _select_along(
    pick: Pick, axis: Axis, position: int, inner: int, reduction: Reduction, sparse: bool
) -> Pick:
    low, high = padding_of(axis)
    blank = identity_array(reduction, pick[0].dtype), np.asarray(empty(pick[1].dtype))
    values, taps = pick
    pick = pad(values, position, low, high, blank[0]), pad(taps, position, low, high, blank[1])
    for window, shifts in levels(axis.kernel, SELECT_RADIX)[::-1]:
        moved = copies(pick, axis, position, shifts, last=window == axis.kernel)
        parts = [numbered(p, shift * inner, sparse) for p, shift in zip(moved, shifts, strict=True)]
        pick = best(parts, reduction, sparse)
    return pick
