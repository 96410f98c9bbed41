"""Sums of terms that differ by orders of magnitude, without overflow.

A term is ``factor * weight(level)``, its weight ``exp(level)`` or ``level ** p``. Terms are joined
at the largest of their levels,

    factor = sum of factor_k * weight(level_k) / weight(top),   top = max of level_k,

so that no ratio exceeds one. Joining is associative: a window is joined axis by axis, along an axis
all taps at once or, if there are many, by doubling.

Derivatives. A sum does not depend on the level that it is written at, so levels are constants and
derivatives of every order are those of the factors. The term ``exp(z)`` is ``unit(z)`` at level
``z``, where ``unit`` is one and has the derivatives of ``exp`` there.

Source: Milakov and Gimelshein 2018 (arXiv:1805.02867) for the joining of sums at their maximum.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._errors import message
from .._window import Axis, Geometry
from ..lowerings._cut import cut, pad, padding_of, tree
from ._common import Settings
from .average import _counts

Terms = tuple[Array, ...]
"""The level, and factors that share it."""

LONGEST_UNROLLED = 16
MOST_AT_ONCE = 9


class Scale(NamedTuple):
    """How weights grow with levels.

    Attributes:
      lowest: the level of nothing.
      ratio: from two levels, the second at least the first, to the ratio of their weights.
    """

    lowest: float
    ratio: Callable[[Array, Array], Array]


def _exponential_ratio(level: Array, top: Array) -> Array:
    return jnp.where(level == top, np.ones((), top.dtype), lax.exp(level - top))


EXPONENTIAL = Scale(-math.inf, _exponential_ratio)


def power_scale(p: float) -> Scale:
    """Weights ``level ** p`` of levels that are not negative."""

    def ratio(level: Array, top: Array) -> Array:
        return jnp.where(level == top, np.ones((), top.dtype), (level / top) ** p)

    return Scale(0.0, ratio)


@jax.custom_jvp
def unit(z: Array) -> Array:
    """One, with the derivatives of ``exp(z)`` where that is one: one, one, and so on."""
    return jnp.ones_like(z)


@unit.defjvp
def _unit_jvp(primals, tangents):
    ones = unit(*primals)
    return ones, ones * tangents[0]


def terms(level: Array, factors: Sequence[Array], alive: Array, scale: Scale) -> Terms:
    """Return terms of the cells that are ``alive``, and terms of nothing in place of the others."""
    level = jnp.where(alive, lax.stop_gradient(level), np.asarray(scale.lowest, level.dtype))
    return level, *(jnp.where(alive, factor, np.zeros((), factor.dtype)) for factor in factors)


def exponentials(x: Array, valid: Array | None, temperature: Any, weighted: bool) -> Terms:
    """Return ``exp(x / temperature)`` as terms, ``weighted`` also times ``x``.

    The exponential of -inf is no term, so that its derivatives are zero.
    """
    alive = x != -np.inf if valid is None else valid & (x != -np.inf)
    x = jnp.where(alive, x, np.zeros((), x.dtype))
    z = x / temperature
    factor = unit(z)
    return terms(z, (factor, x * factor) if weighted else (factor,), alive, EXPONENTIAL)


def join(parts: Sequence[Terms], scale: Scale) -> Terms:
    """Return the sum of the parts at the largest of their levels."""
    top = tree(lax.max, [part[0] for part in parts])
    ratios = [scale.ratio(part[0], top) for part in parts]
    columns = zip(*(part[1:] for part in parts), strict=True)
    scaled = ([f * r for f, r in zip(factors, ratios, strict=True)] for factors in columns)
    return top, *(tree(lax.add, column) for column in scaled)


def join_axes(parts: Terms, scale: Scale, axes: tuple[int, ...]) -> Terms:
    """Return the sums over whole axes, which are kept with length 1."""
    top = jnp.max(parts[0], axes, keepdims=True)
    ratio = scale.ratio(parts[0], top)
    return top, *(jnp.sum(factor * ratio, axes, keepdims=True) for factor in parts[1:])


def check_lowering(op: str, lowering: str, geometry: Geometry) -> None:
    """Raise unless the named lowering can join terms over these windows."""
    longest = max(geometry.kernel)
    if lowering not in ("auto", "slices", "doubling"):
        why = "sums at a running maximum are joined by slices or by doubling"
    elif lowering == "slices" and longest > LONGEST_UNROLLED:
        why = f"a window of {longest} taps on one axis would be unrolled into too many slices"
    else:
        return
    raise NotImplementedError(
        message(
            op,
            f"lowering {lowering!r} declined.",
            f"It says: {why}.",
            'Use lowering="auto" (would pick "slices" for short windows, else "doubling").',
        )
    )


def join_windows(parts: Terms, scale: Scale, geometry: Geometry, lowering: str) -> Terms:
    """Return the sum of every window."""
    for axis, position in zip(geometry.axes, geometry.positions, strict=True):
        parts = _padded(parts, axis, position, scale)
    if lowering != "doubling" and geometry.taps <= MOST_AT_ONCE:
        taps = itertools.product(*map(range, geometry.kernel))
        return join([_cells(parts, tap, geometry) for tap in taps], scale)
    for axis, position in zip(geometry.axes, geometry.positions, strict=True):
        unroll = lowering != "doubling" and axis.kernel <= LONGEST_UNROLLED
        along = _unrolled if unroll else _doubled
        parts = along(parts, axis, position, scale)
    return parts


def _padded(parts: Terms, axis: Axis, position: int, scale: Scale) -> Terms:
    values = (scale.lowest, *(0 for _ in parts[1:]))
    return tuple(
        pad(part, position, *padding_of(axis), np.asarray(value, part.dtype))
        for part, value in zip(parts, values, strict=True)
    )


def _cells(parts: Terms, tap: Sequence[int], geometry: Geometry) -> Terms:
    for axis, position, k in zip(geometry.axes, geometry.positions, tap, strict=True):
        parts = _at(parts, axis, position, k)
    return parts


def _at(parts: Terms, axis: Axis, position: int, tap: int) -> Terms:
    return tuple(cut(part, position, tap * axis.dilation, axis.out, axis.stride) for part in parts)


def _unrolled(parts: Terms, axis: Axis, position: int, scale: Scale) -> Terms:
    return join([_at(parts, axis, position, tap) for tap in range(axis.kernel)], scale)


def _doubled(parts: Terms, axis: Axis, position: int, scale: Scale) -> Terms:
    """Windows of the binary digits of the kernel, side by side: each cell counts once."""
    digits: list[Terms] = []
    length, done = 1, 0
    while True:
        if axis.kernel & length:
            digits.append(_at(parts, axis, position, done))
            done += length
        if 2 * length > axis.kernel:
            return join(digits, scale)
        shift = length * axis.dilation
        rest = parts[0].shape[position] - shift
        earlier, later = (
            tuple(cut(part, position, start, rest, 1) for part in parts) for start in (0, shift)
        )
        parts = join([earlier, later], scale)
        length *= 2


def count_cells(settings: Settings, geometry: Geometry, valid: Array | None, rank: int) -> Array:
    """Return the real cells of each window, in an array of ``rank`` axes that broadcasts."""
    count = jnp.asarray(_counts(settings, geometry, valid, include_pad=False))
    return count.reshape((1,) * (rank - count.ndim) + count.shape)


# --- settings and checks that ops with real-valued results share ---------------------------------


def check_float(op: str, x: Array) -> None:
    """Raise unless ``x`` holds floating-point numbers."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(
            message(
                op,
                f"the array has dtype {x.dtype}.",
                "The result is a real number, which only floating-point dtypes hold.",
                "Convert it first, for example x.astype(jnp.float32).",
            )
        )


def check_positive(op: str, name: str, value: Any) -> None:
    """Raise unless ``value`` is a positive finite number, or an array, whose values are unknown."""
    if isinstance(value, (np.ndarray, jax.Array)):
        return
    _check_number(op, name, value)
    if not 0 < value < math.inf:
        raise ValueError(
            message(
                op,
                f"`{name}` = {value!r} is out of range.",
                "It must be positive and finite.",
                "Give for example 1.0.",
            )
        )


def _check_number(op: str, name: str, value: Any) -> None:
    number = isinstance(value, (int, float, np.integer, np.floating))
    if not number or isinstance(value, bool):
        raise TypeError(
            message(
                op,
                f"`{name}` = {value!r} is not a real number.",
                f"Its type is {type(value).__name__}.",
                "Give a Python or NumPy number, such as 2 or 3.5.",
            )
        )


def settle_exponent(op: str, p: Any) -> float:
    """Return the exponent of a norm, positive or infinite, or raise."""
    _check_number(op, "p", p)
    if not p > 0:
        raise ValueError(
            message(
                op,
                f"`p` = {p!r} is out of range.",
                "A norm needs a positive exponent; infinity gives the largest absolute value.",
                "Give for example 2, or math.inf.",
            )
        )
    return int(p) if float(p).is_integer() else float(p)


def parameter(op: str, name: str, value: Any, x: Array, positions: tuple[int, ...]) -> Array:
    """Return a number or array as an array of the rank and dtype of ``x``, or raise.

    It must broadcast to ``x`` and have length 1 on the pooled axes, ``positions``.
    """
    value = jnp.asarray(value)
    if not jnp.issubdtype(value.dtype, jnp.floating) and not jnp.issubdtype(
        value.dtype, jnp.integer
    ):
        raise TypeError(
            message(
                op,
                f"`{name}` has dtype {value.dtype}.",
                "It is a real number, or an array of them.",
                "Give a float, or an array of floats.",
            )
        )
    shape = (1,) * (x.ndim - value.ndim) + value.shape
    allowed = [(1,) if a - x.ndim in positions else (1, n) for a, n in enumerate(x.shape)]
    fits = len(shape) == x.ndim and all(n in a for n, a in zip(shape, allowed, strict=True))
    if not fits:
        raise ValueError(
            message(
                op,
                f"`{name}` of shape {value.shape} does not fit the array.",
                f"The array has shape {x.shape}; a window has one value, so pooled axes "
                f"{tuple(a % x.ndim for a in positions)} need length 1.",
                "Give a number, or for example one value per channel.",
            )
        )
    return value.astype(x.dtype).reshape(shape)


# --- norms ---------------------------------------------------------------------------------------


def norm(
    x: Array,
    p: float,
    total: Callable[[Array], Array],
    largest: Callable[[Array], Array],
    joined: Callable[[Terms, Scale], Terms],
) -> Array:
    """Return ``(sum |x|^p)^(1/p)`` of every window of an array with zeros in absent cells.

    With ``p`` = 1 and 2 the powers are added as they are, else relative to the largest. The root of
    zero has derivative zero, and so has ``|x|`` at zero.

    Args:
      x: the array.
      p: the exponent, positive or infinite.
      total: sums windows.
      largest: takes the largest cell of windows.
      joined: joins terms over windows.
    """
    if p == 1:
        return total(lax.abs(x))
    if p == 2:
        return _root(total(x * x), 2)
    if p == math.inf:
        largest_cell = largest(lax.abs(x))
        return jnp.where(largest_cell < 0, np.zeros((), x.dtype), largest_cell)
    a = lax.abs(x)
    alive = a != 0
    log_power = p * lax.log(jnp.where(alive, a, np.ones((), a.dtype)))
    scale = power_scale(p)
    top, factor = joined(terms(a, (unit(log_power),), alive, scale), scale)
    return top * _root(factor, p)


def _root(x: Array, p: float) -> Array:
    zero, one = np.zeros((), x.dtype), np.ones((), x.dtype)
    safe = jnp.where(x == 0, one, x)
    root = lax.sqrt(safe) if p == 2 else safe ** (1 / p)
    return jnp.where(x == 0, zero, root)
