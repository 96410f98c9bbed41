"""Sums of terms that differ by orders of magnitude, without overflow.

A term is ``factor * 2 ** level`` with a whole level, and a sum of terms stands at the largest of
their levels,

    factor = sum of factor_k * 2 ** (level_k - top),   top = max of level_k,

so that no power exceeds one. Of exponentials each element takes one, however many windows hold it.
Joining terms is associative: a window is joined axis by axis, along an axis all elements at once
or, if there are many, as windows of windows.

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

from .._autodiff.linear import linear_map, tangent_only
from .._errors import message
from .._geometry.axis import Axis
from .._geometry.resolve import Geometry
from .._lowerings import tuning
from .._lowerings.axis_slicing import digit_parts, lax_padding, pad, tree_reduce
from .._lowerings.phases import mirrored, over_elements, stretch
from .._xla.materialize import materialize
from .float_bits import in_two, two_to

Terms = tuple[Array, ...]
"""The level, and factors that share it."""

# --- terms of elements ---------------------------------------------------------------------------


def unit(z: Array) -> Array:
    """One, with the derivatives of ``exp`` where that is one: one, one, and so on."""
    return lax.exp(tangent_only(z))


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
    """Terms of the elements that are ``alive``, and terms of nothing in place of the others."""
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
    top = tree_reduce(lax.max, [part[0] for part in parts])
    ratios = [_ratio(part[0], top) for part in parts]
    columns = zip(*(part[1:] for part in parts), strict=True)
    scaled = ([f * r for f, r in zip(factors, ratios, strict=True)] for factors in columns)
    return top, *(tree_reduce(lax.add, column) for column in scaled)


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


def check_implementation(implementation: str, geometry: Geometry) -> None:
    """Raise unless the named implementation can join terms over these windows."""
    longest = max(geometry.kernel)
    if implementation not in ("auto", "slices", "doubling"):
        why = "sums at a running maximum are joined by slices or by doubling"
    elif implementation == "slices" and longest > tuning.LONGEST_TERMS_SLICED:
        why = f"a window of {longest} elements on one axis would be unrolled into too many slices"
    else:
        return
    raise NotImplementedError(
        message(
            f"$implementation = {implementation!r} does not support these windows.",
            f"The reason: {why}.",
            'Use implementation="auto" (would take "slices" for short windows, else "doubling").',
        )
    )


# With ``L`` the levels of elements and ``T`` those of windows, the factor of a window is the sum of
# ``f[i] * 2^(L[i] - T[o])`` over its elements: linear in ``f``. Its transpose gives an element the
# sum of ``g[o] * 2^(L[i] - T[o])`` over the windows that hold it: terms of level ``-T``, whose sum
# stands at the lowest ``T``. That is not below ``L[i]``, so here, too, no power exceeds one.


def join_windows(parts: Terms, geometry: Geometry, implementation: str) -> Terms:
    """Return the sum of every window."""
    return _joined((lax.stop_gradient(parts[0]), *parts[1:]), geometry, implementation)


# The plain function has the right derivative as well, but a slower one, should JAX lose the rule.


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _joined(parts: Terms, geometry: Geometry, implementation: str) -> Terms:
    for axis, position in geometry.placed:
        parts = _join_along(parts, axis, position, implementation)
    return parts


@_joined.defjvp
def _joined_jvp(geometry: Geometry, implementation: str, primals, tangents):
    ((levels, *factors),), ((_, *t),) = primals, tangents
    linear = functools.partial(_linear_sums, levels, geometry, implementation)
    return jax.jvp(linear, (jnp.stack(factors),), (jnp.stack(t),))


def _linear_sums(levels: Array, geometry: Geometry, implementation: str, factors: Array) -> Terms:
    """The sums of every window, linear in the ``factors``."""
    constant = levels, *lax.stop_gradient(factors)
    top, *sums = materialize(*_joined(constant, geometry, implementation))

    def forward(f: Array) -> Array:
        return jnp.stack(_joined((levels, *f), geometry, implementation)[1:])

    def transpose(g: Array) -> Array:
        level, *sums = _scatter((-top, *g), geometry, implementation)
        raised = _ratio(levels, -level)
        return jnp.stack([total * raised for total in sums])

    shape = len(factors), *top.shape
    return top, *linear_map(forward, transpose, factors, shape, jnp.stack(sums))


def _scatter(parts: Terms, geometry: Geometry, implementation: str) -> Terms:
    """Return for each element the sum over the windows that hold it."""
    for axis, position in geometry.placed[::-1]:
        parts = _scatter_along(parts, axis, position, implementation)
    return parts


def _scatter_along(parts: Terms, axis: Axis, position: int, implementation: str) -> Terms:
    """Along an axis the windows of an element are a window, of which strides leave out some."""

    parts, nothing = materialize(*parts), _nothing(parts)
    if axis.stride > 1 and _is_unrolled(axis, implementation):
        return over_elements(lambda _: parts, nothing, axis, position, join)
    pairs = zip(parts, nothing, strict=True)
    starts = tuple(stretch(part, axis, position, value) for part, value in pairs)
    return _join_along(starts, mirrored(axis), position, implementation)


def _is_unrolled(axis: Axis, implementation: str) -> bool:
    return implementation != "doubling" and axis.kernel <= tuning.LONGEST_TERMS_SLICED


# XLA:CPU would compute a term, a pad or a smaller window anew for every window that reads it, in
# time that grows with the number of elements of a window. So each is stored.


def _join_along(parts: Terms, axis: Axis, position: int, implementation: str) -> Terms:
    radix = {"slices": axis.kernel + 1, "doubling": 2}.get(implementation, tuning.JOIN_RADIX)
    stored = lambda parts: materialize(*join(parts))  # noqa: E731
    parts = _padded(materialize(*parts), axis, position)
    return join(digit_parts(parts, axis, position, stored, radix))


def _padded(parts: Terms, axis: Axis, position: int) -> Terms:
    low, high = lax_padding(axis)
    if not low and not high:
        return parts
    nothing = tuple(np.asarray(value, parts[0].dtype) for value in _nothing(parts))
    return materialize(*pad(parts, position, low, high, nothing))


def _nothing(parts: Terms) -> tuple[float, ...]:
    """The level and the factors of no term."""
    return -np.inf, *(0 for _ in parts[1:])
