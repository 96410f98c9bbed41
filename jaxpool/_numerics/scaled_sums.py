"""Sums of terms that differ by orders of magnitude, without overflow.

A term is ``factor * 2 ** level`` with a whole level, and a sum of terms stands at the largest of
their levels,

    factor = sum of factor_k * 2 ** (level_k - top),   top = max of level_k,

so that no power exceeds one. Of exponentials each element takes one, however many windows hold it.
Joining terms is associative; :mod:`.window_terms` joins those of windows.

Derivatives. A sum does not depend on the level that it is written at, so levels are constants and
derivatives of every order are those of the factors. The factor of ``exp(z)`` is a constant times
``unit(z)``, which is one and has the derivatives of ``exp`` where that is one.

Source: Milakov and Gimelshein 2018 (arXiv:1805.02867) for the joining of sums at their maximum.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._autodiff.linear import tangent_only
from .._lowerings.parts.axis_slicing import tree_reduce
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
    ratios = [ratio(part[0], top) for part in parts]
    columns = zip(*(part[1:] for part in parts), strict=True)
    scaled = ([f * r for f, r in zip(factors, ratios, strict=True)] for factors in columns)
    return top, *(tree_reduce(lax.add, column) for column in scaled)


def join_axes(parts: Terms, axes: tuple[int, ...]) -> Terms:
    """Return the sums over whole axes, which are kept with length 1."""
    top = jnp.max(parts[0], axes, keepdims=True)
    scale = ratio(parts[0], top)
    return top, *(jnp.sum(factor * scale, axes, keepdims=True) for factor in parts[1:])


def ratio(level: Array, top: Array) -> Array:
    """``2 ** (level - top)`` of levels of which ``top`` is the larger."""
    return two_to(jnp.where(level == top, np.zeros((), level.dtype), level - top))


def log_of(level: Array, factor: Array) -> Array:
    """Return the logarithm of sums, none of which is 0."""
    return level * np.asarray(math.log(2), level.dtype) + lax.log(factor)


def scaled_log_of(level: Array, factor: Array, scale: Array) -> Array:
    """Return ``scale`` times the logarithm of sums, -inf of an empty one."""
    empty, one = factor == 0, np.ones((), factor.dtype)
    log = log_of(jnp.where(empty, one, level), jnp.where(empty, one, factor))
    return jnp.where(empty, np.asarray(-np.inf, factor.dtype), scale * log)
