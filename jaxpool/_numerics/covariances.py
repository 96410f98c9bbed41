"""Covariances of windows and their transpose, of parts that are joined.

A part of ``n`` elements is its count, the means ``m`` of the elements and ``u`` of their tangents,
and the sum ``c`` of the products of both deviations. Two parts make

    n = n_a + n_b,   m = m_a + (m_b - m_a) n_b / n,   u = u_a + (u_b - u_a) n_b / n,
    c = c_a + c_b + (m_b - m_a) (u_b - u_a) n_a n_b / n,

where nothing is subtracted but means. With tangents equal to the elements, ``c`` is the sum of the
squared deviations.

The transpose gives element ``i`` the sum of ``g[o] (x[i] - m[o])`` over the windows ``o`` that hold
it. Windows are joined likewise. A part is the mean ``a`` of one of its windows, the sum ``G`` of
their cotangents and ``M``, that of ``g (m - a)``. Two parts make

    a = a_p,   G = G_p + G_q,   M = M_p + M_q + G_q (a_q - a_p),

and the element receives ``G (x - a) - M``, where again nothing is subtracted but neighbours. Where
there is no window, ``a`` is the mean of the nearest one.

On CPU windows are joined axis by axis, two parts at a time. On GPU and TPU those of a few elements
are computed in one kernel from shifted reads of the array: means, then deviations from them; longer
ones along one axis after the other, all parts ``i`` of a window in one kernel:

    n = sum of n_i,   m = sum of n_i m_i / n,   c = sum of c_i + sum of n_i (m_i - m) (u_i - u).

Source: Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance", American
Statistician 37, section 3.
"""

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._geometry.axis import Axis
from .._geometry.resolve import Geometry
from .._lowerings import tuning
from .._lowerings.implementations import doubling
from .._lowerings.parts import joint
from .._lowerings.parts.axis_slicing import digit_parts, lax_padding, pad, slice_axis, tree_reduce
from .._lowerings.parts.borders import extended
from .._lowerings.parts.phases import mirrored, over_elements, stretch
from .._xla.by_platform import by_platform
from .._xla.materialize import materialize
from ..reductions import Reduction
from .divisors import finite, masked, nan_unless_finite, ones

Arrays = tuple[Array, ...]

Moments = tuple[Array, Array, Array]
"""Mean, what its rounding has left, and sum of squared deviations."""

# --- windows --------------------------------------------------------------------------------------


# A derivative asks for these several times: jit traces them once, and leaves no call behind.


@functools.partial(jax.jit, static_argnames=("geometry", "dtype"), inline=True)
def moments(x: Array, valid: Array | None, geometry: Geometry, dtype: np.dtype) -> Moments:
    """Return the moments of every window: 0 without elements, NaN where one is not finite.

    Args:
      x: the array; where windows are computed at once, its numbers are numbers of ``dtype``.
      valid: the elements that count, or None for all.
      geometry: the windows.
      dtype: in which the array is then read.
    """
    mean, rest, squares = _windows(geometry, (x,), valid, dtype)
    return mean, rest, squares


@functools.partial(jax.jit, static_argnames="geometry", inline=True)
def covariance(x: Array, t: Array, valid: Array | None, geometry: Geometry) -> Array:
    """Return the sum over every window of the products of the deviations of ``x`` and ``t``."""
    return _windows(geometry, (x, t), valid, x.dtype)[-1]


def is_at_once(geometry: Geometry, platform: str) -> bool:
    """Whether a platform computes a window in one kernel."""
    most = {"gpu": tuning.MOST_MOMENTS_ON_GPU, "tpu": tuning.MOST_MOMENTS_ON_TPU}
    return geometry.taps <= most.get(platform, 0)


def _windows(geometry: Geometry, arrays: Arrays, valid: Array | None, dtype: np.dtype) -> Arrays:
    """The mean of every window in each array, and the sum of products of deviations."""
    arrays = tuple(masked(a, valid) for a in arrays)
    by_pairs = functools.partial(_joined, _by_pairs, geometry)
    along = functools.partial(_joined, _along_axes, geometry)
    at_once = functools.partial(_at_once, geometry, dtype)
    others = along if max(geometry.kernel) <= tuning.LONGEST_JOINED_AT_ONCE else by_pairs
    chosen = {p: at_once if is_at_once(geometry, p) else others for p in ("gpu", "tpu")}
    return by_platform({"cpu": by_pairs, **chosen}, arrays, valid)


def _joined(
    join: Callable[[Arrays, Geometry], Arrays],
    geometry: Geometry,
    arrays: Arrays,
    valid: Array | None,
) -> Arrays:
    """What ``join`` makes of the elements, each a part; no means have anything left."""
    x = arrays[0]
    count = ones(x, geometry) if valid is None else valid.astype(x.dtype)
    _, *means, products = join((count, *arrays, jnp.zeros_like(x)), geometry)
    # An infinity that is joined last makes an infinity.
    products = products + nan_unless_finite(means[0])
    return *means, jnp.zeros_like(products), products


def _by_pairs(parts: Arrays, geometry: Geometry) -> Arrays:
    """Join two parts at a time."""
    return doubling.reduce(parts, geometry, _COVARIANCE)


def _join(p: Arrays, q: Arrays) -> Arrays:
    (n_p, *means_p, c_p), (n_q, *means_q, c_q) = p, q
    count = n_p + n_q
    share = n_q / _at_least_one(count)
    gaps = [b - a for a, b in zip(means_p, means_q, strict=True)]
    means = [a + gap * share for a, gap in zip(means_p, gaps, strict=True)]
    products = c_p + c_q + gaps[0] * gaps[-1] * (n_p * share)
    return count, *_stored(means[:-1]), *_stored([means[-1], products])


def _stored(arrays: Sequence[Array]) -> Arrays:
    """The arrays, stored: known ones apart from linear ones, or JAX would take them for linear."""
    return materialize(*arrays) if arrays else ()


def _at_least_one(count: Array) -> Array:
    return jnp.maximum(count, jnp.ones((), count.dtype))


_COVARIANCE = Reduction("covariance", _join, lambda dtypes: jax.tree.map(lambda _: 0, dtypes))


def _at_once(geometry: Geometry, dtype: np.dtype, arrays: Arrays, valid: Array | None) -> Arrays:
    def total(elements: list[tuple[Arrays, Array | None]], inside: list[Array | None]) -> Arrays:
        here = [_both(valid, within) for (_, valid), within in zip(elements, inside, strict=True)]
        columns = list(zip(*(given for given, _ in elements), strict=True))
        count = _at_least_one(_number(here, columns[0][0].dtype))
        means = [tree_reduce(lax.add, column) / count for column in columns]
        gaps = [
            [masked(a - mean, inside) for a, inside in zip(column, here, strict=True)]
            for column, mean in zip(columns, means, strict=True)
        ]
        # What the rounding of the means has left in the sums of deviations.
        rest = tree_reduce(lax.add, gaps[0]) / count
        products = tree_reduce(lax.add, [a * b for a, b in zip(gaps[0], gaps[-1], strict=True)])
        return *means, rest, products - rest * tree_reduce(lax.add, gaps[-1])

    given = arrays, valid
    return joint.over_windows(total, given, jax.tree.map(lambda _: 0, given), geometry, dtype)


def _along_axes(parts: Arrays, geometry: Geometry) -> Arrays:
    """Join all parts of a window along an axis at once."""
    for axis, position in geometry.placed:
        zeros = jax.tree.map(lambda _: 0, parts)
        along = Geometry((axis,), (position,))
        count, *means, products = joint.over_windows(_joined_at_once, parts, zeros, along)
        parts = count, *_stored(means[:-1]), *_stored([means[-1], products])
    return parts


def _joined_at_once(parts: list[Arrays], _: object) -> Arrays:
    """The part that several make: their count, their means and the products of deviations."""
    counts, *columns, products = zip(*parts, strict=True)

    def total(column: Sequence[Array]) -> Array:
        return tree_reduce(lax.add, [n * a for n, a in zip(counts, column, strict=True)])

    count = tree_reduce(lax.add, counts)
    divisor = _at_least_one(count)
    means = [total(column) / divisor for column in columns]
    gaps = [[a - mean for a in column] for column, mean in zip(columns, means, strict=True)]
    # What the rounding of the means has left in the sums of deviations.
    rests = [total(gap) / divisor for gap in gaps]
    squares = total([a * b for a, b in zip(gaps[0], gaps[-1], strict=True)])
    within = tree_reduce(lax.add, products)
    means = [mean + rest for mean, rest in zip(means, rests, strict=True)]
    return count, *means, within + squares - rests[0] * rests[-1] * count


def _both(a: Array | None, b: Array | None) -> Array | None:
    return b if a is None else a if b is None else a & b


def _number(here: list[Array | None], dtype: np.dtype) -> Array:
    """How many of these are true; None always is."""
    one = jnp.ones((), dtype)
    return functools.reduce(lax.add, (one if h is None else h.astype(dtype) for h in here))


# --- elements -------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames="geometry", inline=True)
def scatter(g: Array, mean: Array, rest: Array, x: Array, geometry: Geometry) -> Array:
    """Return for each element the sum of ``g (x - mean - rest)`` over the windows that hold it."""
    on_cpu = lambda g, mean, _, x: _scatter_joined(geometry, g, mean, None, x)  # noqa: E731

    def at_once(g: Array, mean: Array, rest: Array, x: Array) -> Array:
        return _scatter_at_once(geometry, g, mean, rest, x)

    def joined(g: Array, mean: Array, rest: Array, x: Array) -> Array:
        given = rest if is_at_once(geometry, "tpu") else None  # no other windows have any
        return _scatter_joined(geometry, g, mean, given, x, tuning.LONGEST_JOINED_AT_ONCE)

    def on_gpu(g: Array, mean: Array, rest: Array, x: Array) -> Array:
        # XLA:GPU would store what the means are made of instead of the means.
        mean, rest = lax.optimization_barrier((mean, rest))
        return at_once(g, mean, rest, x)

    gpu = on_gpu if is_at_once(geometry, "gpu") else joined
    tpu = at_once if geometry.taps <= tuning.MOST_TERMS_ON_TPU else joined
    return by_platform({"cpu": on_cpu, "gpu": gpu, "tpu": tpu}, g, mean, rest, x)


def _scatter_at_once(geometry: Geometry, g: Array, mean: Array, rest: Array, x: Array) -> Array:
    def total(windows: list[Arrays], x: Array, _: object) -> Arrays:
        x = finite(x)
        return (tree_reduce(lax.add, [g * (x - mean - rest) for g, mean, rest in windows]),)

    return joint.over_elements(total, (g, mean, rest), (0, 0, 0), x, geometry, on_tpu=False)[0]


def _scatter_joined(
    geometry: Geometry, g: Array, mean: Array, rest: Array | None, x: Array, longest: int = 0
) -> Array:
    """Of windows of up to ``longest`` elements along an axis, all parts are joined at once."""
    g = g + nan_unless_finite(mean)
    mean = finite(mean)
    parts = mean, g, jnp.zeros_like(g) if rest is None else g * rest
    for axis, position in geometry.placed[::-1]:
        parts = _scatter_along(parts, axis, position, longest)
    mean, total, products = parts
    return total * (finite(x) - mean) - products


def _scatter_along(parts: Arrays, axis: Axis, position: int, longest: int) -> Arrays:
    """Along an axis the windows of an element are a window, of which strides leave out some."""
    if axis.stride > 1 and axis.kernel <= tuning.LONGEST_TERMS_SLICED:
        return over_elements(lambda _: parts, (0, 0, 0), axis, position, _join_cotangents)
    mean, *sums = parts
    near = jnp.repeat(mean, axis.stride, position)
    starts = (
        slice_axis(near, position, 0, mirrored(axis).size, 1),
        *(stretch(part, axis, position) for part in sums),
    )
    return _join_along(starts, mirrored(axis), position, longest)


def _join_along(parts: Arrays, axis: Axis, position: int, longest: int) -> Arrays:
    low, high = lax_padding(axis)
    mean, *sums = parts
    padded = (pad(part, position, low, high, np.zeros((), part.dtype)) for part in sums)
    parts = _nearest(mean, position, low, high), *padded
    radix = axis.kernel + 1 if axis.kernel <= longest else tuning.JOIN_RADIX
    return _join_cotangents(digit_parts(parts, axis, position, _join_cotangents, radix))


def _nearest(x: Array, position: int, low: int, high: int) -> Array:
    """``x`` padded by its first and its last entry."""
    zero = np.zeros((), x.dtype)
    x = pad(x, position, min(low, 0), min(high, 0), zero)
    low, high = max(low, 0), max(high, 0)
    if not x.shape[position]:
        return pad(x, position, low, high, zero)
    return extended(x, position, low, high, "nearest")


def _join_cotangents(parts: Sequence[Arrays]) -> Arrays:
    first = parts[0][0]
    total = tree_reduce(lax.add, [g for _, g, _ in parts])
    terms = [m + g * (mean - first) for mean, g, m in parts[1:]]
    return first, *materialize(total, tree_reduce(lax.add, [parts[0][2], *terms]))
