"""Sums of terms that differ by orders of magnitude, without overflow.

A term is ``factor * 2 ** level`` with a whole level, and a sum of terms stands at the largest of
their levels,

    factor = sum of factor_k * 2 ** (level_k - top),   top = max of level_k,

so that no power exceeds one. Powers of two are exact and cost nothing beside an ``exp``, of which
each cell takes one, however many windows hold it. Joining terms is associative: a window is joined
axis by axis, along an axis all taps at once or, if there are many, by doubling.

Derivatives. A sum does not depend on the level that it is written at, so levels are constants and
derivatives of every order are those of the factors. The factor of ``exp(z)`` is a constant times
``unit(z)``, which is one and has the derivatives of ``exp`` where that is one.

Source: Milakov and Gimelshein 2018 (arXiv:1805.02867) for the joining of sums at their maximum; the
reduction of exponents is that of Cody and Waite 1980, "Software manual for the elementary
functions".
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._errors import message, shown
from .._fence import computed_once
from .._linear import with_transpose
from .._send import Heard, mirrored, over_cells, stretch
from .._window import Axis, Geometry
from ..lowerings._cut import cut, pad, padding_of, tree
from ._common import Settings
from ._sums import counts

Terms = tuple[Array, ...]
"""The level, and factors that share it."""

LONGEST_UNROLLED = 16

_LARGEST_EXPONENT = 2**20
"""Of a norm: multiples of it by the exponents of floats are whole numbers of float32."""


# --- terms of cells ------------------------------------------------------------------------------


@jax.custom_jvp
def unit(z: Array) -> Array:
    """One, with the derivatives of ``exp`` where that is one: one, one, and so on."""
    # Made of z, or it had no batch axis under vmap, and JAX could not transpose the tangent's.
    one = np.ones((), z.dtype)
    return jnp.where(z == z, one, one)


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
    return _terms(level, (factor, x * factor) if weighted else (factor,), alive)


def powers(x: Array, p: float) -> Terms:
    """Return ``x ** p`` as terms, of an array that is not negative.

    The power of zero is no term, so that its derivatives are zero; subnormal numbers count as zero.
    """
    alive = ~_is_nothing(x)
    x = jnp.where(alive, x, np.ones((), x.dtype))
    level, factor = _power(lax.stop_gradient(x), p)
    return _terms(level, (factor * unit(p * lax.log(x)),), alive)


def _terms(level: Array, factors: Sequence[Array], alive: Array) -> Terms:
    """Terms of the cells that are ``alive``, and terms of nothing in place of the others."""
    level = jnp.where(alive, level, np.asarray(-np.inf, level.dtype))
    return level, *(jnp.where(alive, factor, np.zeros((), factor.dtype)) for factor in factors)


def _exponential(z: Array) -> tuple[Array, Array]:
    """Level and factor of ``exp(z)``: with ``k`` whole, ``exp(z) = 2^k * exp(z - k * log 2)``."""
    level = lax.round(z * np.asarray(1 / math.log(2), z.dtype))
    high, low = _in_two(math.log(2), z.dtype)
    rest = (z - level * high) - level * low
    # Far out, where neighbouring floats differ by more than that, the rest is lost in rounding.
    rest = lax.clamp(np.asarray(-1, z.dtype), rest, np.ones((), z.dtype))
    factor = jnp.where(lax.abs(level) == np.inf, np.ones((), z.dtype), lax.exp(rest))
    return level, factor


def _in_two(number: float, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """A number in two parts; products of the first with whole numbers of some bits are exact."""
    scale = 2.0 ** (np.finfo(dtype).nmant // 2 - math.frexp(number)[1])
    high = math.floor(number * scale) / scale
    return np.asarray(high, dtype), np.asarray(number - high, dtype)


def _power(x: Array, p: float) -> tuple[Array, Array]:
    """Level and factor of ``x ** p``."""
    level, rest = _log2_of_power(x, p)
    whole, finite = lax.floor(rest), x < np.inf
    level = jnp.where(finite, level + whole, np.asarray(np.inf, x.dtype))
    # of an infinity the factor is one, and NaN stays
    return level, jnp.where(finite, lax.exp2(rest - whole), lax.min(x, np.ones((), x.dtype)))


def _log2_of_power(x: Array, p: float) -> tuple[Array, Array]:
    """A whole and a small part: with ``x = m * 2^e``, ``log2(x^p) = e * p + p * log2(m)``."""
    m, e = _mantissa_and_exponent(x)
    high, low = _in_two(p, x.dtype)
    exponent = e * high
    level = lax.floor(exponent)
    return level, exponent - level + e * low + np.asarray(p, x.dtype) * jnp.log2(m)


def _mantissa_and_exponent(x: Array) -> tuple[Array, Array]:
    """``frexp`` of positive normal numbers; of others, some numbers."""
    info = np.finfo(x.dtype)
    integers, half = np.dtype(f"int{info.bits}"), info.maxexp - 2
    bits = lax.bitcast_convert_type(x, integers)
    fraction = bits & np.asarray((1 << info.nmant) - 1, integers)
    m = lax.bitcast_convert_type(fraction | np.asarray(half << info.nmant, integers), x.dtype)
    e = (bits >> np.asarray(info.nmant, integers)) - np.asarray(half, integers)
    return m, e.astype(x.dtype)


def _is_nothing(x: Array) -> Array:
    """Whether numbers that are not negative are zero or subnormal."""
    return x < np.finfo(x.dtype).tiny


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


def two_to(n: Array) -> Array:
    """``2 ** n`` for whole ``n`` of at most ``finfo.maxexp``, exactly.

    Zero where it would be subnormal or less; infinity for ``n = finfo.maxexp``.
    """
    info = np.finfo(n.dtype)
    bias = info.maxexp - 1
    integers = np.dtype(f"int{info.bits}")
    biased = lax.max(n, np.asarray(-bias, n.dtype)).astype(integers) + np.asarray(bias, integers)
    return lax.bitcast_convert_type(biased << np.asarray(info.nmant, integers), n.dtype)


def log_of(level: Array, factor: Array) -> Array:
    """Return the logarithm of sums, none of which is 0."""
    return level * np.asarray(math.log(2), level.dtype) + lax.log(factor)


def root_of(level: Array, factor: Array, p: float) -> Array:
    """Return the root of sums; that of zero is zero, with zero derivatives.

    With ``k`` whole, ``(2^level * f)^(1/p) = 2^k * 2^((level - k * p) / p) * f^(1/p)``.
    """
    infinite = level == np.inf
    level = jnp.where(lax.abs(level) == np.inf, np.zeros((), level.dtype), level)
    whole = lax.floor(level / np.asarray(p, level.dtype))
    high, low = _in_two(p, level.dtype)
    rest = (level - whole * high - whole * low) / np.asarray(p, level.dtype)
    scale = jnp.where(infinite, np.asarray(np.inf, level.dtype), lax.exp2(rest))
    half = lax.floor(whole * np.asarray(0.5, whole.dtype))
    return root(factor, p) * scale * two_to(half) * two_to(whole - half)


def root(x: Array, p: float) -> Array:
    """Return ``x ** (1 / p)``; that of zero is zero, with zero derivatives."""
    if p != 2:
        return _power_of(x, 1 / p)
    zero, one = np.zeros((), x.dtype), np.ones((), x.dtype)
    return jnp.where(x == 0, zero, lax.sqrt(jnp.where(x == 0, one, x)))


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
    for axis, position in zip(geometry.axes, geometry.positions, strict=True):
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
    for axis, position in reversed(list(zip(geometry.axes, geometry.positions, strict=True))):
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
    along = _unrolled if _is_unrolled(axis, lowering) else _doubled
    return along(_padded(parts, axis, position), axis, position)


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


def _at(parts: Terms, axis: Axis, position: int, tap: int) -> Terms:
    return tuple(cut(part, position, tap * axis.dilation, axis.out, axis.stride) for part in parts)


def _unrolled(parts: Terms, axis: Axis, position: int) -> Terms:
    return join([_at(parts, axis, position, tap) for tap in range(axis.kernel)])


def _doubled(parts: Terms, axis: Axis, position: int) -> Terms:
    """Windows of the binary digits of the kernel, side by side: each cell counts once."""
    digits: list[Terms] = []
    length, done = 1, 0
    while True:
        if axis.kernel & length:
            digits.append(_at(parts, axis, position, done))
            done += length
        if 2 * length > axis.kernel:
            return join(digits)
        shift = length * axis.dilation
        rest = parts[0].shape[position] - shift
        earlier, later = (
            tuple(cut(part, position, start, rest, 1) for part in parts) for start in (0, shift)
        )
        parts = join([earlier, later])
        length *= 2


def count_cells(settings: Settings, geometry: Geometry, valid: Array | None, rank: int) -> Array:
    """Return the real cells of each window, in an array of ``rank`` axes that broadcasts."""
    count = jnp.asarray(counts(settings, geometry, valid, include_pad=False))
    return count.reshape((1,) * (rank - count.ndim) + count.shape)


# --- settings and checks -------------------------------------------------------------------------


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


def check_positive(op: str, name: str, value: Any, static: bool = False) -> None:
    """Raise unless ``value`` is a positive finite number.

    It may be an array, whose values are unknown, unless it is ``static``.
    """
    if not static and isinstance(value, (np.ndarray, jax.Array)):
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
    if not (0 < p <= _LARGEST_EXPONENT or p == math.inf):
        raise ValueError(
            message(
                op,
                f"`p` = {shown(p)} is out of range.",
                f"A norm needs a positive exponent of at most {_LARGEST_EXPONENT}; infinity gives "
                "the largest absolute value.",
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


MOST_PLAIN = 4
"""Exponents up to which powers of cells differ so little that one scale serves a whole plane."""


def norm(
    x: Array,
    p: float,
    axes: tuple[int, ...],
    total: Callable[[Array], Array],
    largest: Callable[[Array], Array],
    joined: Callable[[Terms], Terms],
) -> Array:
    """Return ``(sum |x|^p)^(1/p)`` of every window of an array with zeros in absent cells.

    Args:
      x: the array.
      p: the exponent, positive or infinite.
      axes: the pooled axes, a plane of which may have a scale.
      total: sums windows.
      largest: takes the largest cell of windows.
      joined: joins terms over windows.
    """
    if p == 2:
        return root(total(x * x), 2)
    magnitude = x * lax.sign(x)  # lax.abs has a derivative at zero
    if p == 1:
        return total(magnitude)
    if p == math.inf:
        y = largest(magnitude)
        return jnp.where(y < 0, np.zeros((), x.dtype), y)
    if p > MOST_PLAIN:
        level, factor = joined(powers(magnitude, p))
        return root_of(level, factor, p)
    exponent = _exponent(lax.abs(lax.stop_gradient(x)), axes)
    return root(total(_power_of(magnitude * two_to(-exponent), p)), p) * two_to(exponent)


def _exponent(x: Array, axes: tuple[int, ...]) -> Array:
    """Whole ``e`` with ``2^e`` near the largest finite cell of each plane."""
    finite = jnp.where(lax.is_finite(x), x, np.zeros((), x.dtype))
    _, e = jnp.frexp(jnp.max(finite, axes, keepdims=True))
    most = np.finfo(x.dtype).maxexp - 2
    return e.clip(-most, most).astype(x.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _power_of(x: Array, p: float) -> Array:
    """``x ** p`` of an array that is not negative; that of zero has no derivative.

    XLA:CPU takes ``lax.pow`` one number after the other, exponentials in vectors.
    """
    if float(p).is_integer():
        return lax.integer_pow(x, int(p))
    if float(2 * p).is_integer():
        y = lax.integer_pow(x, int(p)) * lax.sqrt(x)
    else:
        (level, rest), most = _log2_of_power(x, p), np.finfo(x.dtype).maxexp
        y = lax.exp2(rest) * two_to(lax.min(level, np.asarray(most, level.dtype)))
        y = jnp.where(x < np.inf, y, x)
        y = jnp.where(_is_nothing(x), np.zeros((), x.dtype), y)
    # Every window would take the power of a cell anew; a root has a single reader.
    return y if p < 1 else computed_once(y)[0]


@_power_of.defjvp
def _power_of_jvp(p: float, primals, tangents):
    (x,), (t,) = primals, tangents
    y = _power_of(x, p)
    if float(p).is_integer():
        return y, np.asarray(p, x.dtype) * lax.integer_pow(x, int(p) - 1) * t
    return y, jnp.where(x == 0, np.zeros((), x.dtype), _derivative(x, y, p, 1) * t)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _derivative(x: Array, y: Array, p: float, order: int) -> Array:
    """The derivative of that order of ``x ** p``, whose value is ``y``; zero where that is zero.

    Its own derivative is the next one, not that of a quotient, whose square would overflow.
    """
    safe = jnp.where(x == 0, np.ones((), x.dtype), x)
    for step in range(order):
        y = y * np.asarray(p - step, x.dtype) / safe
    at_infinity = np.asarray(0 if p < order else np.inf, x.dtype)
    return jnp.where(x == np.inf, at_infinity, y)


@_derivative.defjvp
def _derivative_jvp(p: float, order: int, primals, tangents):
    (x, y), (t, _) = primals, tangents
    slope = _derivative(x, y, p, order + 1)
    return _derivative(x, y, p, order), jnp.where(x == 0, np.zeros((), x.dtype), slope * t)
