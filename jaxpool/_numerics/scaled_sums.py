"""Sums of terms that differ by orders of magnitude, without overflow.

A term is ``factor * 2 ** level`` with an integer level. A sum of terms has the level ``top``,

    factor = sum of factor_k * 2 ** (level_k - top),   top = max of level_k,

so no power of two exceeds one. Each element needs one exponential, however many windows contain it.
Joining terms is associative; :mod:`.window_terms` joins the terms of windows.

Derivatives. The value of a sum does not depend on the level at which it is written. So levels are
constants, and derivatives of every order are those of the factors. The factor of ``exp(z)`` is a
constant times ``unit(z)``, which is one and has the derivatives of ``exp`` at 0.

Source: Milakov and Gimelshein 2018 (arXiv:1805.02867) for the joining of sums at their maximum.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._autodiff.linear import relative, tangent_only
from .._lowerings.parts.axis_slicing import tree_reduce
from .._xla.nan_constant import difference
from .float_bits import in_two, two_to

Terms = tuple[Array, ...]
"""A level, and one or more factors of that level."""

# --- terms of elements ---------------------------------------------------------------------------


def unit(z: Array) -> Array:
    """Return one, with derivatives of every order equal to one, as those of ``exp`` at 0."""
    return lax.exp(tangent_only(z))


def log(x: Array) -> Array:
    """Return the logarithm of numbers above 0, whose derivatives contain no power of ``1 / x``."""
    return lax.log(lax.stop_gradient(x)) + lax.log(relative(x))


def exponentials(x: Array, valid: Array | None, temperature: Any, weighted: bool) -> Terms:
    """Return ``exp(x / temperature)`` as terms; if ``weighted``, also ``x * exp(x / temperature)``.

    Elements that are not ``valid``, and -inf, are the term 0, with zero derivatives.
    """
    x, z, nonzero = exponents(x, valid, temperature)
    level, factor = _exponential(lax.stop_gradient(z))
    factor = factor * unit(z)
    return terms_where(level, (factor, x * factor) if weighted else (factor,), nonzero)


def exponents(x: Array, valid: Array | None, temperature: Any) -> tuple[Array, Array, Array]:
    """Return ``x`` and ``x / temperature``, both 0 where the exponential is 0, and where it is not.

    The exponential is 0 where an element is not ``valid``, and where it is -inf.
    """
    nonzero = x != -np.inf if valid is None else valid & (x != -np.inf)
    x = jnp.where(nonzero, x, np.zeros((), x.dtype))
    return x, x / temperature, nonzero


def terms_where(level: Array, factors: Sequence[Array], nonzero: Array) -> Terms:
    """Return the terms where ``nonzero``, and elsewhere the term 0: level -inf and factors 0."""
    level = jnp.where(nonzero, level, np.asarray(-np.inf, level.dtype))
    return level, *(jnp.where(nonzero, factor, np.zeros((), factor.dtype)) for factor in factors)


def _exponential(z: Array) -> tuple[Array, Array]:
    """Return level and factor of ``exp(z) = 2^k * exp(z - k * log 2)``, with an integer ``k``."""
    level = lax.round(z * np.asarray(1 / math.log(2), z.dtype))
    high, low = in_two(math.log(2), z.dtype)
    remainder = difference(difference(z, level * high), level * low)
    # For large ``z``, neighbouring floats differ by more than 1, and the remainder is inexact.
    remainder = lax.clamp(np.asarray(-1, z.dtype), remainder, np.ones((), z.dtype))
    factor = jnp.where(lax.abs(level) == np.inf, np.ones((), z.dtype), lax.exp(remainder))
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
    """Return the sums over full axes, which are kept with length 1."""
    top = maximum_over(parts[0], axes)
    scale = ratio(parts[0], top)
    return top, *(jnp.sum(factor * scale, axes, keepdims=True) for factor in parts[1:])


def scaled_logsumexp(z: Array, nonzero: Array, axes: tuple[int, ...], scale: Array) -> Array:
    """Return ``scale`` times the logarithm of sums of ``exp(z)`` over full axes.

    The axes are kept with length 1. Elements that are not ``nonzero`` are left out. Without
    elements the result is -inf.
    """
    constant, zero = lax.stop_gradient(z), np.zeros((), z.dtype)
    top = maximum_over(jnp.where(nonzero, constant, np.asarray(-np.inf, z.dtype)), axes)
    is_below = nonzero & (constant != top)  # elsewhere the power is 0, also for inf - inf
    power = jnp.where(is_below, difference(constant, top), zero)
    factor = jnp.where(nonzero, lax.exp(power) * unit(z), zero)
    total = jnp.sum(factor, axes, keepdims=True)
    empty, one = total == 0, np.ones((), z.dtype)
    log = jnp.where(empty, one, top) + lax.log(jnp.where(empty, one, total))
    return jnp.where(empty, np.asarray(-np.inf, z.dtype), scale * log)


def maximum_over(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the maximum over full axes, which are kept with length 1.

    ``jnp.max`` would have to know that no axis is empty, but in an export a size may be 0.
    """
    axes = tuple(axis % x.ndim for axis in axes)
    return lax.expand_dims(lax.reduce_max(x, axes), axes)


def ratio(level: Array, top: Array) -> Array:
    """Return ``2 ** (level - top)``, where ``level <= top``; one if both are the same infinity."""
    zero = np.zeros((), level.dtype)
    return two_to(jnp.where(level == top, zero, difference(level, top)))


def log_of(level: Array, factor: Array) -> Array:
    """Return the logarithm of sums of terms, none of which is 0."""
    return level * np.asarray(math.log(2), level.dtype) + lax.log(factor)


def scaled_log_of(level: Array, factor: Array, scale: Array) -> Array:
    """Return ``scale`` times the logarithm of sums of terms, -inf for an empty sum."""
    empty, one = factor == 0, np.ones((), factor.dtype)
    log = log_of(jnp.where(empty, one, level), jnp.where(empty, one, factor))
    return jnp.where(empty, np.asarray(-np.inf, factor.dtype), scale * log)
