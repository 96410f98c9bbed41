"""Sums of terms that differ by orders of magnitude, without overflow.

A term is ``factor * 2 ** level`` with a whole level, and a sum of terms stands at the largest of
their levels,

    factor = sum of factor_k * 2 ** (level_k - top),   top = max of level_k,

so that no power exceeds one. Of exponentials each cell takes one, however many windows hold it.
Joining terms is associative: a window is joined axis by axis, along an axis all taps at once or,
if there are many, by doubling.

Derivatives. A sum does not depend on the level that it is written at, so levels are constants and
derivatives of every order are those of the factors. The factor of ``exp(z)`` is a constant times
``unit(z)``, which is one and has the derivatives of ``exp`` where that is one.

Source: Milakov and Gimelshein 2018 (arXiv:1805.02867) for the joining of sums at their maximum.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._cut import by_digits, copies, pad, padding_of, tree
from .._errors import message
from .._fence import computed_once
from .._linear import with_transpose
from .._send import Heard, mirrored, over_cells, stretch
from .._window import Axis, Geometry
from ._binary import in_two, two_to

Terms = tuple[Array, ...]
"""The level, and factors that share it."""

LONGEST_UNROLLED = 16


# --- terms of cells ------------------------------------------------------------------------------


@jax.custom_jvp
def unit(z: Array) -> Array:
    """One, with the derivatives of ``exp`` where that is one: one, one, and so on."""
    # Made of z, or it had no batch axis under vmap, and JAX could not transpose the tangent's; of
    # its bits, since the compiler knows that a product of integers with zero is zero.
    bits = lax.bitcast_convert_type(z, f"int{np.finfo(z.dtype).bits}")
    return (bits * np.zeros((), bits.dtype) + np.ones((), bits.dtype)).astype(z.dtype)


@unit.defjvp
def _unit_jvp(primals, tangents):
    ones = unit(*primals)
    return ones, ones * tangents[0]


def exponentials(x: Array, valid: Array | None, temperature: Any, weighted: bool) -> Terms:
    """Return ``exp(x / temperature)`` as terms, ``weighted`` also times ``x``.

    The exponential of -inf is no term, so that its derivatives are zero.
    """
    alive = x != -np.inf if valid is None else valid & (x != -np.inf)
    x = jnp.where(alive, x, np.zeros((), x.dtype))
    z = x / temperature
    level, factor = _exponential(lax.stop_gradient(z))
    factor = factor * unit(z)
    return terms_where(level, (factor, x * factor) if weighted else (factor,), alive)


def terms_where(level: Array, factors: Sequence[Array], alive: Array) -> Terms:
    """Terms of the cells that are ``alive``, and terms of nothing in place of the others."""
    level = jnp.where(alive, level, np.asarray(-np.inf, level.dtype))
    return level, *(jnp.where(alive, factor, np.zeros((), factor.dtype)) for factor in factors)


def _exponential(z: Array) -> tuple[Array, Array]:
    """Level and factor of ``exp(z)``: with ``k`` whole, ``exp(z) = 2^k * exp(z - k * log 2)``."""
    level = lax.round(z * np.asarray(1 / math.log(2), z.dtype))
    high, low = in_two(math.log(2), z.dtype)
    rest = (z - level * high) - level * low
    # Far out, where neighbouring floats differ by more than that, the rest is lost in rounding.
    rest = lax.clamp(np.asarray(-1, z.dtype), rest, np.ones((), z.dtype))
    factor = jnp.where(lax.abs(level) == np.inf, np.ones((), z.dtype), lax.exp(rest))
    return level, factor


# --- sums of terms -------------------------------------------------------------------------------


def join(parts: Sequence[Terms]) -> Terms:
    """Return the sum of the parts at the largest of their levels."""
    top = tree(lax.max, [part[0] for part in parts])
    ratios = [_ratio(part[0], top) for part in parts]
    columns = zip(*(part[1:] for part in parts), strict=True)
    scaled = ([f * r for f, r in zip(factors, ratios, strict=True)] for factors in columns)
    return top, *(tree(lax.add, column) for column in scaled)


def join_axes(parts: Terms, axes: tuple[int, ...]) -> Terms:
    """Return the sums over whole axes, which are kept with length 1."""
    top = jnp.max(parts[0], axes, keepdims=True)
    ratio = _ratio(parts[0], top)
    return top, *(jnp.sum(factor * ratio, axes, keepdims=True) for factor in parts[1:])


def _ratio(level: Array, top: Array) -> Array:
    """``2 ** (level - top)`` of levels of which ``top`` is the larger."""
    return two_to(jnp.where(level == top, np.zeros((), level.dtype), level - top))


def log_of(level: Array, factor: Array) -> Array:
    """Return the logarithm of sums, none of which is 0."""
    return level * np.asarray(math.log(2), level.dtype) + lax.log(factor)


# --- windows -------------------------------------------------------------------------------------


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


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def join_windows(parts: Terms, geometry: Geometry, lowering: str) -> Terms:
    """Return the sum of every window."""
    for axis, position in geometry.placed:
        parts = _join_along(parts, axis, position, lowering)
    return parts


# With ``L`` the levels of cells and ``T`` those of windows, the factor of a window is the sum of
# ``f[i] * 2^(L[i] - T[o])`` over its cells: linear in ``f``. So a cell receives the sum of
# ``g[o] * 2^(L[i] - T[o])`` over the windows that hold it: terms of level ``-T``, whose sum stands
# at the lowest ``T``. That is not below ``L[i]``, so here, too, no power exceeds one.


@join_windows.defjvp
def _join_windows_jvp(geometry: Geometry, lowering: str, primals, tangents):
    top, *factors = computed_once(*join_windows(*primals, geometry, lowering))
    levels, tops = lax.stop_gradient(primals[0][0]), lax.stop_gradient(top)

    def forward(f: Array) -> Array:
        return jnp.stack(join_windows((levels, *f), geometry, lowering)[1:])

    def transpose(g: Array) -> Array:
        level, *sums = _send_to_cells((-tops, *g), geometry, lowering)
        raised = _ratio(levels, -level)
        return jnp.stack([total * raised for total in sums])

    t = jnp.stack(tangents[0][1:])
    moved = with_transpose(forward, transpose, t, (len(t), *top.shape))
    return (top, *factors), (jnp.zeros_like(top), *moved)


def _send_to_cells(parts: Terms, geometry: Geometry, lowering: str) -> Terms:
    """Return for each cell the sum over the windows that hold it."""
    for axis, position in geometry.placed[::-1]:
        # Each cell of the next axis would do anew what this one does.
        parts = _send_along(computed_once(*parts), axis, position, lowering)
    return parts


def _send_along(parts: Terms, axis: Axis, position: int, lowering: str) -> Terms:
    """Along an axis a cell hears a window of windows, of which strides leave out some."""

    def joined(heard: Heard) -> Terms:
        return join([sent for _, sent in heard])

    nothing = _nothing(parts)
    if axis.stride > 1 and _is_unrolled(axis, lowering):
        return over_cells(parts, nothing, axis, position, joined)
    pairs = zip(parts, nothing, strict=True)
    starts = tuple(stretch(part, axis, position, value) for part, value in pairs)
    return _join_along(starts, mirrored(axis), position, lowering)


def _join_along(parts: Terms, axis: Axis, position: int, lowering: str) -> Terms:
    parts = _padded(parts, axis, position)
    if _is_unrolled(axis, lowering):
        return join(copies(parts, axis, position, range(axis.kernel), last=True))
    return join(by_digits(parts, axis, position, lambda a, b: join([a, b])))


def _is_unrolled(axis: Axis, lowering: str) -> bool:
    return lowering != "doubling" and axis.kernel <= LONGEST_UNROLLED


def _padded(parts: Terms, axis: Axis, position: int) -> Terms:
    return tuple(
        pad(part, position, *padding_of(axis), np.asarray(value, part.dtype))
        for part, value in zip(parts, _nothing(parts), strict=True)
    )


def _nothing(parts: Terms) -> tuple[float, ...]:
    """The level and the factors of no term."""
    return -np.inf, *(0 for _ in parts[1:])
