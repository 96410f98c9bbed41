"""Covariances of windows and their transpose, of parts that are joined.

A part is its number of elements ``n``, its first element ``a``, what the mean of the elements has
more than that, ``r``, the mean ``u`` of their tangents, and the sum ``c`` of the products of both
deviations. Parts ``i`` make, with ``a`` that of the first one,

    d_i = a_i - a + r_i,   n = sum of n_i,   r = sum of n_i d_i / n,   u = sum of n_i u_i / n,
    c = sum of c_i + sum of n_i (d_i - r) (u_i - u).

So a mean that is large beside the deviations cancels nothing, and no window reads an element of
another. With tangents equal to the elements, ``c`` is the sum of the squared deviations. Padding
and masked elements are parts of no element; ``a`` is there the first element that windows from
there on have.

The transpose gives element ``i`` the sum of ``g[o] (x[i] - a[o] - r[o])`` over the windows ``o``
that hold it. Windows are joined likewise. A part is ``a`` of its last window, the sum ``G`` of the
cotangents and ``M``, that of ``g (a[o] + r[o] - a)``. Parts make, with ``a`` that of the last one,

    G = sum of G_i,   M = sum of M_i + sum of G_i (a_i - a),

and the element receives ``G (x - a) - M``. The first element of the last window that holds ``i`` is
in all windows that do, so again none reads an element of another.

Windows are joined axis by axis, a few parts at a time, on GPU all parts of a window. On GPU and TPU
those of a few elements are computed in one kernel from shifted reads of the array: means, then
deviations from them.

Source: Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance", American
Statistician 37, section 3.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._geometry.axis import Axis, cdiv
from .._geometry.resolve import Geometry
from .._lowerings import tuning
from .._lowerings.implementations import doubling
from .._lowerings.parts import joint
from .._lowerings.parts.axis_slicing import (
    concatenate,
    digit_parts,
    lax_padding,
    pad,
    slice_axis,
    tree_reduce,
)
from .._lowerings.parts.borders import repeated
from .._lowerings.parts.phases import mirrored, over_elements, stretch
from .._xla.by_platform import by_platform
from .._xla.materialize import materialize
from ..reductions import Reduction
from .divisors import finite, masked, nan_unless_finite, ones

Arrays = tuple[Array, ...]

Moments = tuple[Array, Array, Array]
"""A number near the mean, what the mean has more, and the sum of squared deviations."""

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
    near, rest, squares = _windows(geometry, (x,), valid, dtype)
    return near, rest, squares


@functools.partial(jax.jit, static_argnames="geometry", inline=True)
def covariance(x: Array, t: Array, valid: Array | None, geometry: Geometry) -> Array:
    """Return the sum over every window of the products of the deviations of ``x`` and ``t``."""
    return _windows(geometry, (x, t), valid, x.dtype)[-1]


def is_at_once(geometry: Geometry, platform: str) -> bool:
    """Whether a platform computes a window in one kernel."""
    most = {"gpu": tuning.MOST_MOMENTS_ON_GPU, "tpu": tuning.MOST_MOMENTS_ON_TPU}
    return geometry.taps <= most.get(platform, 0)


def _windows(geometry: Geometry, arrays: Arrays, valid: Array | None, dtype: np.dtype) -> Arrays:
    """The mean of every window in two parts, and the sum of products of deviations.

    With two arrays, the mean in the second one stands between them.
    """
    arrays = tuple(masked(a, valid) for a in arrays)
    by_digits = functools.partial(_joined, _by_digits, geometry)
    along = functools.partial(_joined, _along_axes, geometry)
    at_once = functools.partial(_at_once, geometry, dtype)
    longer = along if max(geometry.kernel) <= tuning.LONGEST_JOINED_ON_GPU else by_digits
    gpu = at_once if is_at_once(geometry, "gpu") else longer
    tpu = at_once if is_at_once(geometry, "tpu") else by_digits
    return by_platform({"cpu": by_digits, "gpu": gpu, "tpu": tpu}, arrays, valid)


def _joined(
    join: Callable[[Arrays, Geometry], Arrays],
    geometry: Geometry,
    arrays: Arrays,
    valid: Array | None,
) -> Arrays:
    """What ``join`` makes of the elements, each a part."""
    x, *tangents = arrays
    x = _backfilled(x, valid, geometry)
    count = ones(x, geometry) if valid is None else valid.astype(x.dtype)
    parts, axes = [count, *tangents], []
    for axis, position in geometry.placed:
        low, high = lax_padding(axis)
        x = _elements(x, axis, position, -low, low + axis.size + high)
        parts = [pad(a, position, low, high, np.zeros((), a.dtype)) for a in parts]
        size = x.shape[position]
        axes.append(replace(axis, size=size, pad_low=0, pad_high=0, overhang=0))
    count, *tangents = parts
    zeros, inner = jnp.zeros_like(x), Geometry(tuple(axes), geometry.positions)
    _, first, rest, *means, products = join((count, x, zeros, *tangents, zeros), inner)
    # An infinity that is joined last makes an infinity.
    unless_finite = nan_unless_finite(first) + nan_unless_finite(rest)
    # Of windows of one element the products are a constant 0, which XLA leaves out of a sum.
    return first + unless_finite, finite(rest), *means, products + lax.abs(unless_finite)


def _backfilled(x: Array, valid: Array | None, geometry: Geometry) -> Array:
    """The array with, where it is not valid, the first valid element of a window from there on."""
    if valid is None:
        return x
    axes = tuple(
        replace(axis, stride=1, pad_low=0, pad_high=axis.span - 1, overhang=0, out=axis.size)
        for axis in geometry.axes
    )
    given = jnp.broadcast_to(valid, x.shape), masked(x, valid)
    return doubling.reduce(given, Geometry(axes, geometry.positions), _FIRST)[1]


def _first(p: Arrays, q: Arrays) -> Arrays:
    (held_p, a_p), (held_q, a_q) = p, q
    return held_p | held_q, jnp.where(held_p, a_p, a_q)


_FIRST = Reduction(
    "first", _first, lambda dtypes: jax.tree.map(lambda _: 0, dtypes), idempotent=True
)


def _by_digits(parts: Arrays, geometry: Geometry) -> Arrays:
    """Join a few parts at a time, axis by axis."""
    for axis, position in geometry.placed[::-1]:
        radix = axis.kernel + 1 if axis.kernel <= tuning.LONGEST_JOINED else tuning.JOIN_RADIX
        parts = _join(digit_parts(parts, axis, position, _join, radix))
    return parts


def _at_least_one(count: Array) -> Array:
    return jnp.maximum(count, jnp.ones((), count.dtype))


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
    for axis, position in geometry.placed[::-1]:
        zeros = jax.tree.map(lambda _: 0, parts)
        along = Geometry((axis,), (position,))
        parts = _stored(joint.over_windows(lambda given, _: _joint(given), parts, zeros, along))
    return parts


def _join(parts: Sequence[Arrays]) -> Arrays:
    """The part that several make, stored."""
    return _stored(_joint(parts)) if len(parts) > 1 else parts[0]


def _joint(parts: Sequence[Arrays]) -> Arrays:
    counts, firsts, rests, *tangents, products = zip(*parts, strict=True)
    count = tree_reduce(lax.add, counts)

    def times(n: Array, a: Array) -> Array:
        # Where a part has no element something else stands, which may be infinitely far away.
        return jnp.where(n > 0, n * a, jnp.zeros((), a.dtype))

    def mean(column: Sequence[Array]) -> Array:
        terms = [times(n, a) for n, a in zip(counts, column, strict=True)]
        return tree_reduce(lax.add, terms) / _at_least_one(count)

    above = [(a - firsts[0]) + r for a, r in zip(firsts, rests, strict=True)]
    rest, means = mean(above), [mean(column) for column in tangents]
    gaps = [a - rest for a in above]
    others = [[u - m for u in column] for column, m in zip(tangents, means, strict=True)] or [gaps]
    among = [times(n, a * b) for n, a, b in zip(counts, gaps, others[0], strict=True)]
    return count, firsts[0], rest, *means, tree_reduce(lax.add, [*products, *among])


def _stored(part: Arrays) -> Arrays:
    """The part, stored: known arrays apart from linear ones, or JAX would take them for linear.

    The first elements are those of the array, and stay there.
    """
    count, first, rest, *linear = part
    return count, first, *materialize(rest), *materialize(*linear)


def _both(a: Array | None, b: Array | None) -> Array | None:
    return b if a is None else a if b is None else a & b


def _number(here: list[Array | None], dtype: np.dtype) -> Array:
    """How many of these are true; None always is."""
    one = jnp.ones((), dtype)
    return functools.reduce(lax.add, (one if h is None else h.astype(dtype) for h in here))


# --- elements -------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames="geometry", inline=True)
def scatter(
    g: Array, near: Array, rest: Array, x: Array, valid: Array | None, geometry: Geometry
) -> Array:
    """Return for each element the sum of ``g (x - near - rest)`` over the windows that hold it."""
    at_once = functools.partial(_scatter_at_once, geometry)
    joined = functools.partial(_scatter_joined, geometry)

    def on_gpu(g: Array, near: Array, rest: Array, x: Array, valid: Array | None) -> Array:
        # XLA:GPU would store what the means are made of instead of the means.
        near, rest = lax.optimization_barrier((near, rest))
        return at_once(g, near, rest, x, valid)

    longer = functools.partial(joined, tuning.LONGEST_JOINED_ON_GPU)
    gpu = on_gpu if is_at_once(geometry, "gpu") else longer
    few = geometry.taps <= tuning.MOST_TERMS_ON_TPU
    tpu = at_once if few else functools.partial(joined, tuning.LONGEST_JOINED)
    chosen = {"cpu": functools.partial(joined, 0), "gpu": gpu, "tpu": tpu}
    return by_platform(chosen, g, near, rest, x, valid)


def _scatter_at_once(
    geometry: Geometry, g: Array, near: Array, rest: Array, x: Array, _: Array | None
) -> Array:
    def total(windows: list[Arrays], x: Array, _: object) -> Arrays:
        x = finite(x)
        return (tree_reduce(lax.add, [g * (x - near - rest) for g, near, rest in windows]),)

    return joint.over_elements(total, (g, near, rest), (0, 0, 0), x, geometry, on_tpu=False)[0]


def _scatter_joined(
    geometry: Geometry,
    longest: int,
    g: Array,
    near: Array,
    rest: Array,
    x: Array,
    valid: Array | None,
) -> Array:
    """Of windows of up to ``longest`` elements along an axis, all parts are joined at once."""
    (g,) = materialize(g)  # or every element would compute anew what makes it, such as a root
    g = g + nan_unless_finite(near)
    near, x = finite(near), finite(x)
    parts, elements = (near, g, g * rest), [_backfilled(x, valid, geometry)]
    # With a mask the axes are taken in the inverse order of the windows: then what stands in place
    # of a masked element is in all windows that are joined there.
    order = geometry.placed if valid is None else geometry.placed[::-1]
    for axis, position in order[:-1]:
        starts = _elements(elements[-1], axis, position, -axis.pad_low, axis.out, axis.stride)
        elements.append(starts)
    for (axis, position), own in list(zip(order, elements, strict=True))[::-1]:
        parts = _scatter_along(parts, own, axis, position, longest)
    near, total, products = parts
    return total * (x - near) - products


def _elements(
    x: Array, axis: Axis, position: int, first: int, count: int, stride: int = 1
) -> Array:
    """Elements of an axis: of a window that starts before it, the first one that it reads."""
    before, zero = cdiv(max(-first, 0), axis.dilation), np.zeros((), x.dtype)
    if before:
        period = pad(x, position, 0, axis.dilation - x.shape[position], zero)
        x = concatenate([repeated(period, position, before), x], position)
        first += before * axis.dilation
    missing = max(0, first + (count - 1) * stride + 1 - x.shape[position])
    x = pad(x, position, 0, missing, zero)
    return slice_axis(x, position, first, count, stride)


def _scatter_along(parts: Arrays, x: Array, axis: Axis, position: int, longest: int) -> Arrays:
    """Along an axis the windows of an element are a window, of which strides leave out some."""
    if axis.stride > 1 and axis.kernel <= tuning.LONGEST_TERMS_SLICED and axis.dilation == 1:
        last_first = lambda windows: _join_cotangents(windows[::-1])  # noqa: E731
        return over_elements(lambda _: parts, (None, 0, 0), axis, position, last_first)
    near, g, products = parts
    starts = _elements(x, axis, position, -axis.pad_low, axis.out, axis.stride)
    sums = g, products + g * (near - starts)
    back = mirrored(axis)
    low, high = lax_padding(back)
    zero = np.zeros((), g.dtype)
    padded = [pad(stretch(part, axis, position), position, low, high, zero) for part in sums]
    first, count = 1 - axis.span, padded[0].shape[position]
    parts = _elements(x, axis, position, first, count), *padded
    radix = axis.kernel + 1 if axis.kernel <= longest else tuning.JOIN_RADIX
    return _join_cotangents(digit_parts(parts, back, position, _join_cotangents, radix))


def _join_cotangents(parts: Sequence[Arrays]) -> Arrays:
    """Join parts, the one of the last windows last."""
    last = parts[-1][0]
    total = tree_reduce(lax.add, [g for _, g, _ in parts])
    terms = [m + g * (near - last) for near, g, m in parts[:-1]]
    return last, *materialize(total, tree_reduce(lax.add, [*terms, parts[-1][2]]))
