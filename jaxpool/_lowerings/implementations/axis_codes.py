"""Find the argmax along one axis after another and encode it axis by axis: for XLA:TPU.

Let every pooled axis have one window for each element. Reduce the last axis first. This finds, at
every row and every window along the last axis, the offset ``w`` of the first extreme in that row.
Then reduce the values of rows, and so on. The offset ``h`` of the row follows, but ``w`` is not
read at the row ``h``: the code of a window is ``h`` and the ``w`` of its own place,

    code[i, j] = digits (h[i, j], w[i, j]),    argmax of window (i, j) = (h[i, j], w[i', j])
                                               with i' the row that h[i, j] names.

So there is one byte per window, as for an offset, and no pass moves the offsets of the axis before.
The transpose goes the other way. Each pass adds the values of windows to the element of one axis
that the digit names, which is one kernel:

    s[i, j] = sum over h of where(digit h of code[i + pad - h, j] == h, g[i + pad - h, j], 0)
    dx[i, q] = sum over w of where(digit w of code[i, q + pad - w] == w, s[i, q + pad - w], 0).

A window of ``K * K`` elements then costs ``2 * K`` terms instead of ``K * K``, and the second pass
needs no offsets from the first. Windows over the same columns whose argmax lies in one row share
it, as :mod:`..parts.phase_sums` explains.

Codes are no offsets, so the plan chooses them only where nothing but ``gather`` and ``scatter``
reads them.
"""

import functools
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry, is_static
from ..._xla.select import select
from ...reductions import Reduction, identity_array
from .. import tuning
from ..parts import grid
from ..parts.argreduce import ValueOffset
from ..parts.axis_slicing import lax_padding, pad, pooled_first, shifted_slices
from ..parts.window_counts import first_offsets
from ..request import MATCH_MAY_DIFFER, Request
from .match_chain import match

_BITS = 8
"""Bits of a code."""

PlacedDigit = tuple[Axis, int, int]
"""An axis, its position, and the number of lower bits of a code that other axes have."""


def unsupported_reason(request: Request) -> str | None:
    """Return why codes do not support ``request``, or None."""
    geometry, reduction = request.geometry, request.reduction
    if not request.codes:
        return "codes of the argmax are not offsets"
    if reduction is not None and reduction.extremum is None:
        return MATCH_MAY_DIFFER
    if not all(_is_window_per_element(axis) for axis in geometry.axes):
        return "some axis does not have one window for each element"
    bits = sum(map(_digit_bits, geometry.axes))
    return f"codes of {bits} bits, and offsets have {_BITS}" if bits > _BITS else None


def slower_reason(request: Request) -> str | None:
    """Return why the plan prefers another implementation, or None."""
    kernel = tuple(length for length in request.geometry.kernel if length > 1)
    if kernel != tuning.KERNEL_CODED_ON_TPU:
        return f"codes are known to be faster for {tuning.KERNEL_CODED_ON_TPU} elements only"
    return None


def _is_window_per_element(axis: Axis) -> bool:
    is_known = is_static([axis.size, axis.out])
    return is_known and axis.stride == 1 and axis.out == axis.size and not axis.has_empty_window


def _digit_bits(axis: Axis) -> int:
    return (axis.kernel - 1).bit_length()


def _digits(geometry: Geometry) -> Iterator[PlacedDigit]:
    """Yield each axis with its digit, the first axis first; the last axis has the lowest bits."""
    low = sum(map(_digit_bits, geometry.axes))
    for axis, position in geometry.placed:
        low -= _digit_bits(axis)
        yield axis, position, low


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the code of its argmax; all elements are valid."""
    assert valid is None
    values, codes = x, None
    for axis, position, low in [*_digits(geometry)][::-1]:
        if codes is not None:  # otherwise the kernel of this pass would repeat the pass before
            values, codes = lax.optimization_barrier((values, codes.astype(jnp.bfloat16)))
        padded = pad(values, position, *lax_padding(axis), identity_array(reduction, x.dtype))
        elements = shifted_slices(padded, axis, position, range(axis.kernel), True)
        # XLA:TPU makes one kernel of values and codes only if the codes are a sum: here minus one.
        start = 1 if codes is None else 0
        numbers = _numbers(axis, position, low, start, x.ndim)
        values, digit = match(elements, numbers, None, reduction)
        codes = digit - start if codes is None else codes.astype(jnp.float32) + digit
    assert codes is not None
    return lax.optimization_barrier((values, codes.astype(jnp.int32).astype(jnp.uint8)))


def _numbers(axis: Axis, position: int, low: int, start: int, rank: int) -> list[Any]:
    """Return ``start`` plus the digit of each tap of an axis, shifted to its place in a code.

    The first tap that matches may be padding before the axis if all elements of a window are the
    identity. So the first tap has the digit of the first element of each window.
    """
    numbers: list[Any] = [np.float32((tap << low) + start) for tap in range(axis.kernel)]
    if axis.pad_low:
        first = first_offsets(Geometry((axis,), (position,)), rank)
        numbers[0] = ((first << low) + start).astype(jnp.float32)
    return numbers


def gather(x: Array, offsets: Array, geometry: Geometry) -> Array:
    """Return the element of ``x`` that each code names, along the last axis first."""
    codes = offsets.astype(jnp.int32)
    for axis, position, low in [*_digits(geometry)][::-1]:
        padded = pad(x, position, *lax_padding(axis))
        elements = shifted_slices(padded, axis, position, range(axis.kernel), True)
        x = elements[-1]
        for tap in range(axis.kernel - 1)[::-1]:
            x = select(_is_digit(codes, axis, low, tap), elements[tap], x)
    return x


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return, for each element, the sum of the values of the windows whose code names it.

    Args:
      g: values of the windows, representable in ``dtype`` but stored in the accumulator dtype.
      offsets: the codes of the windows.
      geometry: the windows.
      dtype: the dtype that the result is rounded to.
    """
    order, inverse, major = pooled_first(geometry, g.ndim)
    accum_dtype, pooled = g.dtype, len(major.axes)
    codes = grid.materialize_row_major(jnp.transpose(offsets, order), pooled)
    g = jnp.transpose(g.astype(dtype), order)
    for axis, position, low in _digits(major):
        g = grid.materialize_row_major(g, pooled)
        terms = [_term(g, codes, axis, position, low, tap) for tap in range(axis.kernel)]
        g = functools.reduce(lax.add, (term.astype(accum_dtype) for term in terms))
    return jnp.transpose(g.astype(dtype).astype(accum_dtype), inverse)


def _term(g: Array, codes: Array, axis: Axis, position: int, low: int, tap: int) -> Array:
    """Return for each element the value of the window that reads it at ``tap``, if it is named."""
    shift = axis.pad_low - tap * axis.dilation
    shifted, named = pad((g, codes), position, -shift, shift)
    is_named = _is_digit(named.astype(jnp.int32), axis, low, tap)
    return select(is_named, shifted, np.zeros((), g.dtype))


def _is_digit(codes: Array, axis: Axis, low: int, tap: int) -> Array:
    """Return whether the digit of an axis is ``tap``; ``codes`` are in int32."""
    mask = np.int32(((1 << _digit_bits(axis)) - 1) << low)
    return lax.eq(lax.bitwise_and(codes, mask), np.int32(tap << low))
