"""Sums and averages over windows, and the exact counts that averages are divided by."""

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._autodiff import rules
from .._autodiff.linear import relative
from .._errors import message
from .._geometry.resolve import Geometry, bound_of
from .._lowerings.parts.axis_slicing import input_shape, iota, lax_padding, with_padding
from .._lowerings.parts.window_counts import elements_per_window
from .._lowerings.plan import plan_for
from ..reductions import SUM, accumulator
from . import integer_mean
from .checks import check_real
from .quotient import rounded_quotient

_MAX_ELEMENTS = 2**28


def check_averageable(x: Array | jax.ShapeDtypeStruct) -> None:
    """Raise unless ``x`` contains real numbers, not booleans."""
    check_real(x)
    if x.dtype == jnp.bool_:
        raise TypeError(
            message(
                "the array is boolean.",
                "An average of booleans is a fraction, which a boolean result cannot represent.",
                "Convert it first, for example x.astype(jnp.float32).",
            )
        )


def zero_where_masked(x: Array, valid: Array | None) -> Array:
    """Return ``x`` with zeros where it is not valid."""
    return x if valid is None else jnp.where(valid, x, jnp.zeros((), x.dtype))


def finite(x: Array) -> Array:
    """Return ``x`` with zeros where it is not finite."""
    return zero_where_masked(x, lax.is_finite(x))


def nan_unless_finite(x: Array) -> Array:
    """Return 0, or NaN where ``x`` is not finite; the tangent is zero.

    The function contains no NaN constant, which ``jax_debug_nans`` would report.
    """
    return 0 * lax.stop_gradient(x)


def ones(x: Array, geometry: Geometry) -> Array:
    """Return one for every element, in an array with length 1 on all axes but the pooled ones."""
    return jnp.ones(input_shape((1,) * x.ndim, geometry), x.dtype)


def inside(x: Array, geometry: Geometry) -> Array:
    """Return 1 for every element and 0 for padding, in an array that broadcasts as :func:`ones`.

    ``x`` is the array with its padding. Positions are compared in the loop that reads the result:
    XLA:CPU would store zeros that pad an array of ones, in the shape of ``x``.
    """
    result = ones(x, with_padding((), geometry)[0])
    for axis, position in geometry.placed:
        low, high = lax_padding(axis)
        if low or high:
            index = iota(low + axis.size + high, position, x.ndim, np.int32)
            result = result * ((index >= low) & (index < low + axis.size)).astype(x.dtype)
    return result


def window_sum(
    x: Array, geometry: Geometry, implementation: str = "auto", materialize_cotangent: bool = False
) -> Array:
    """Return the sum of every window."""
    plan = plan_for(geometry, SUM, x.dtype, implementation)
    return rules.window_sum(x, plan, materialize_cotangent)


def counts(geometry: Geometry, valid: Array | None, include_pad: bool) -> Any:
    """Return the number of elements of each window that count: an int, or int32 that broadcasts.

    A small array that is known before tracing is a NumPy array. Sums of masks use the planned
    implementation, not one that a caller names, which may compute maxima only.
    """
    if valid is None:
        return elements_per_window(geometry, include_pad)
    unpadded = window_sum(valid.astype(jnp.int32), geometry)
    if not include_pad:
        return unpadded
    padding = elements_per_window(geometry, True) - elements_per_window(geometry, False)
    return unpadded + jnp.broadcast_to(padding, unpadded.shape)


def count_array(geometry: Geometry, valid: Array | None, rank: int) -> Array:
    """Return the number of elements of each window, an array of ``rank`` axes that broadcasts."""
    count = jnp.asarray(counts(geometry, valid, include_pad=False))
    return count.reshape((1,) * (rank - count.ndim) + count.shape)


def divide(total: Array, divisor: Any, may_be_zero: bool = True) -> Array:
    """Return ``total / divisor``, or 0 where the divisor is 0.

    With ``may_be_zero`` False, the divisor is not compared with 0, so that loops compile faster.
    """
    if isinstance(divisor, int):
        return total / divisor if divisor else jnp.zeros_like(total)
    if not may_be_zero:
        return total / jnp.broadcast_to(divisor.astype(total.dtype), total.shape)
    return _divide_nonzero(total, divisor, operator.truediv)


def divide_exactly(total: Array, divisor: Array) -> Array:
    """Return :func:`divide` of two arrays, correctly rounded on every platform."""
    return _divide_nonzero(total, divisor, rounded_quotient)


def divide_differentiably(total: Array, divisor: Array) -> Array:
    """Return ``total / divisor``, or 0 where the divisor is 0, of two arrays of floats.

    The derivative in the divisor contains no square of the divisor, which may leave the range.
    """
    return _divide_nonzero(total, divisor, lambda a, b: a / lax.stop_gradient(b) / relative(b))


def _divide_nonzero(
    total: Array, divisor: Array, quotient: Callable[[Array, Array], Array]
) -> Array:
    """Return the quotient, or 0 where the divisor is 0."""
    divisor = jnp.broadcast_to(divisor, total.shape)
    empty = divisor == 0
    found = quotient(total, jnp.where(empty, 1, divisor).astype(total.dtype))
    return jnp.where(empty, np.zeros((), total.dtype), found)


def average(
    x: Array,
    total: Callable[[Array], Array],
    divisor: Any,
    largest: int,
    rounding: integer_mean.Rounding = "half_even",
    may_be_empty: bool = True,
) -> Array:
    """Return the average of every window in the dtype of ``x``.

    Args:
      x: array of any real dtype, 0 where an element is masked out.
      total: returns the sum of every window of an array.
      divisor: int, or array of integers of the shape of the result.
      largest: upper bound of the elements of a window and of ``abs(divisor)``; may be symbolic.
      rounding: how to round averages of integers.
      may_be_empty: whether the divisor may be 0 somewhere.
    """
    if jnp.issubdtype(x.dtype, jnp.integer):
        bound = bound_of(largest, _MAX_ELEMENTS, f"windows may have over {_MAX_ELEMENTS} elements")
        _check_size(bound)
        return integer_mean.average(x, total, divisor, bound, rounding)
    sums = total(x.astype(accumulator(x.dtype)))
    return divide(sums, divisor, may_be_empty).astype(x.dtype)


def _check_size(elements: int) -> None:
    """Raise if the digits of an exact sum of this number of integers could overflow."""
    if elements > _MAX_ELEMENTS:
        raise ValueError(
            message(
                f"windows have {elements} elements.",
                f"Averages of integers are exact, over at most {_MAX_ELEMENTS} elements.",
                "Convert the array first, for example x.astype(jnp.float32).",
            )
        )
