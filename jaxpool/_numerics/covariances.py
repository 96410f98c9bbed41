"""Covariances of windows, and their transpose, joined from parts of windows.

A part is a set of elements of a window. It has the number ``n`` of its elements, its first element
``a`` (``base``), the difference ``r`` (``delta``) of their mean and ``a``, the mean ``u`` of their
tangents, and the sum ``c`` of the products of the deviations of elements and tangents from their
means. Joining parts ``i`` gives, with ``a`` that of the first part,

    d_i = a_i - a + r_i,   n = sum of n_i,   r = sum of n_i d_i / n,   u = sum of n_i u_i / n,
    c = sum of c_i + sum of n_i (d_i - r) (u_i - u).

All means are relative to an element of the window. So a mean that is large compared with the
deviations causes no cancellation, and no window depends on elements of other windows. If tangents
equal the elements, ``c`` is the sum of the squared deviations. Padding and masked elements are
parts with ``n = 0``; their ``a`` is the first valid element of a window that starts there.

In the transpose, element ``i`` receives the sum of ``g[o] (x[i] - a[o] - r[o])`` over the windows
``o`` that contain it, which are also joined. A part is then a set of windows, with ``a`` of its
last window, the sum ``G`` of the cotangents, and the sum ``M`` of ``g[o] (a[o] + r[o] - a)``.
Joining parts gives, with ``a`` that of the last part,

    G = sum of G_i,   M = sum of M_i + sum of G_i (a_i - a),

and the element receives ``G (x - a) - M``. All windows that contain element ``i`` also contain the
first element of the last of them, so again no window depends on elements of other windows.

Parts are joined axis by axis, a few parts at a time, or on GPU all parts of a window along an axis.
On GPU and TPU, windows of few elements take one kernel: the means, then the deviations from them.

Source: Chan, Golub and LeVeque 1983, American Statistician 37, section 3.
"""

import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._geometry.axis import Axis
from .._geometry.resolve import Geometry
from .._lowerings import tuning
from .._lowerings.parts import joint
from .._lowerings.parts.axis_slicing import (
    crop_padding,
    digit_parts,
    is_padded,
    lax_padding,
    pad,
    tree_reduce,
    with_padding,
)
from .._lowerings.parts.phases import combine_over_elements, dilate_windows, transposed_axis
from .._xla.by_platform import by_platform
from .._xla.materialize import materialize
from .divisors import finite, inside, nan_unless_finite, zero_where_masked
from .first_elements import backfilled, first_elements

T = TypeVar("T")
Arrays = tuple[Array, ...]

Moments = tuple[Array, Array, Array]
"""``base`` and ``delta``, whose sum is the mean of a window, and the sum of squared deviations."""

# --- windows --------------------------------------------------------------------------------------

# A derivative calls these several times. With jit they are traced once, and are then inlined.


@functools.partial(jax.jit, static_argnames=("geometry", "dtype"), inline=True)
def moments(x: Array, valid: Array | None, geometry: Geometry, dtype: np.dtype) -> Moments:
    """Return the moments of every window: 0 without elements, NaN if an element is not finite.

    Args:
      x: the array; if windows are fused, ``dtype`` represents its values exactly.
      valid: mask of the elements that count, or None for all.
      geometry: the windows.
      dtype: the dtype in which fused windows read the array.
    """
    base, delta, squares = _moments(geometry, (x,), valid, dtype)
    return base, delta, squares


@functools.partial(jax.jit, static_argnames="geometry", inline=True)
def covariance(x: Array, t: Array, valid: Array | None, geometry: Geometry) -> Array:
    """Return the sum over every window of the products of the deviations of ``x`` and ``t``."""
    return _moments(geometry, (x, t), valid, x.dtype)[-1]


def is_fused(geometry: Geometry, platform: str) -> bool:
    """Return whether a platform computes the moments of a window in one kernel."""
    max_taps = {"gpu": tuning.MAX_MOMENTS_ON_GPU, "tpu": tuning.MAX_MOMENTS_ON_TPU}
    return geometry.taps <= max_taps.get(platform, 0)


def _moments(geometry: Geometry, arrays: Arrays, valid: Array | None, dtype: np.dtype) -> Arrays:
    """Return ``base``, ``delta`` and the sum of products of deviations of every window.

    With two arrays, the mean of the second one is also returned, before or after ``delta``.
    """
    arrays = tuple(zero_where_masked(a, valid) for a in arrays)
    counts_differ = valid is not None or is_padded(geometry)
    digits = _by_digits_of_copies if counts_differ else _by_digits
    by_digits = functools.partial(_join_elements, digits, geometry)
    per_axis = functools.partial(_join_elements, _fused_per_axis, geometry)
    fused = functools.partial(_fused, geometry, dtype)
    gpu_fallback = per_axis if max(geometry.kernel) <= tuning.LONGEST_JOINED_ON_GPU else by_digits
    gpu = fused if is_fused(geometry, "gpu") else gpu_fallback
    tpu = fused if is_fused(geometry, "tpu") else by_digits
    return by_platform(arrays, valid, cpu=by_digits, tpu=tpu, default=gpu)


def _join_elements(
    join: Callable[[Arrays, Geometry], Arrays],
    geometry: Geometry,
    arrays: Arrays,
    valid: Array | None,
) -> Arrays:
    """Return ``join`` of the elements as parts, with NaN for windows that are not finite."""
    if valid is not None:  # or an element after a window might replace one in its padding
        geometry, (arrays, valid) = with_padding((arrays, valid), geometry)
    x, tangents = backfilled(arrays[0], valid, geometry), arrays[1:]
    for axis, position in geometry.placed:
        low, high = lax_padding(axis)
        x = first_elements(x, axis, position, -low, low + axis.size + high)
    inner, tangents = with_padding(tangents, geometry)
    count = inside(x, geometry) if valid is None else valid.astype(x.dtype)
    zeros = jnp.zeros_like(x)
    _, first, delta, *means, products = join((count, x, zeros, *tangents, zeros), inner)
    # An infinity that is joined last leaves an infinite result, not NaN.
    nan_or_zero = nan_unless_finite(first) + nan_unless_finite(delta)
    # For windows of one element, the products are a constant 0, which XLA removes from a sum.
    return first + nan_or_zero, finite(delta), *means, products + lax.abs(nan_or_zero)


def _by_digits(parts: Arrays, geometry: Geometry) -> Arrays:
    """Return windows joined axis by axis, a few parts at a time."""
    return _join_digits(parts, geometry, _join_and_store)


def _by_digits_of_copies(parts: Arrays, geometry: Geometry) -> Arrays:
    """Return :func:`_by_digits` of parts of which some have no elements."""
    count, x, zeros, *tangents, no_products = parts
    copies = count, materialize(x), zeros, *materialize(tangents), no_products
    return _join_digits((parts, copies), geometry, _join_with_copies)[0]


def _join_digits(parts: T, geometry: Geometry, join: Callable[[Sequence[T]], T]) -> T:
    for axis, position in geometry.placed[::-1]:
        radix = axis.kernel + 1 if axis.kernel <= tuning.LONGEST_JOINED else tuning.JOIN_RADIX
        parts = join(digit_parts(parts, axis, position, join, radix))
    return parts


def _at_least_one(count: Array) -> Array:
    return jnp.maximum(count, jnp.ones((), count.dtype))


def _fused(geometry: Geometry, dtype: np.dtype, arrays: Arrays, valid: Array | None) -> Arrays:
    def total(elements: list[tuple[Arrays, Array | None]], in_bounds: list[Array | None]) -> Arrays:
        masks = [_and(valid, b) for (_, valid), b in zip(elements, in_bounds, strict=True)]
        columns = list(zip(*(values for values, _ in elements), strict=True))
        count = _at_least_one(_count_true(masks, columns[0][0].dtype))
        means = [tree_reduce(lax.add, column) / count for column in columns]
        diffs = [
            [zero_where_masked(a - mean, mask) for a, mask in zip(column, masks, strict=True)]
            for column, mean in zip(columns, means, strict=True)
        ]
        # The mean of the deviations is the rounding error of the mean.
        delta = tree_reduce(lax.add, diffs[0]) / count
        products = tree_reduce(lax.add, [a * b for a, b in zip(diffs[0], diffs[-1], strict=True)])
        products = products - delta * tree_reduce(lax.add, diffs[-1])
        if len(columns) == 1:  # of equal elements, inexact quotients may leave more or less than 0
            noise = 16 * float(jnp.finfo(delta.dtype).eps) * count * delta * delta
            products = jnp.where(products < noise, jnp.zeros((), products.dtype), products)
        return *means, delta, products

    operands = arrays, valid
    return joint.over_windows(total, operands, jax.tree.map(lambda _: 0, operands), geometry, dtype)


def _fused_per_axis(parts: Arrays, geometry: Geometry) -> Arrays:
    """Return windows joined axis by axis, all parts along an axis in one kernel."""
    for axis, position in geometry.placed[::-1]:
        zeros = jax.tree.map(lambda _: 0, parts)
        one_axis = Geometry((axis,), (position,))
        parts = joint.over_windows(lambda a, _: _join_parts(a), parts, zeros, one_axis)
    return parts


def _join_and_store(parts: Sequence[Arrays]) -> Arrays:
    """Return the joined part, materialised."""
    return _join_parts(parts) if len(parts) > 1 else parts[0]


def _join_with_copies(both: Sequence[tuple[Arrays, Arrays]]) -> tuple[Arrays, Arrays]:
    """Return the joined part, materialised, and its copy, from parts and their copies.

    A copy has the same values behind a barrier, and the products are computed from copies. Of parts
    without elements, XLA:CPU would otherwise store all differences that the mean and the products
    have in common, each in an array of its own.
    """
    if len(both) == 1:
        return both[0]
    parts, copies = zip(*both, strict=True)
    part = count, _, delta, *linear = _join_parts(parts, copies)
    return part, (count, copies[0][1], materialize(delta), *materialize(linear))


def _join_parts(parts: Sequence[Arrays], copies: Sequence[Arrays] | None = None) -> Arrays:
    """Return the joined part, materialised except for its count and its first element.

    The products are computed from ``copies`` of the parts, if given. Known arrays are materialised
    separately from arrays that are linear in a tangent. Otherwise JAX would treat the known arrays
    as linear, too.
    """
    counts, firsts, deltas, *tangents, products = zip(*parts, strict=True)
    count = tree_reduce(lax.add, counts)

    def times(n: Array, a: Array) -> Array:
        # The ``base`` of a part without elements is an element elsewhere, which may be infinite.
        return jnp.where(n > 0, n * a, jnp.zeros((), a.dtype))

    def mean(column: Sequence[Array]) -> Array:
        terms = [times(n, a) for n, a in zip(counts, column, strict=True)]
        return tree_reduce(lax.add, terms) / _at_least_one(count)

    relative_means = [(a - firsts[0]) + r for a, r in zip(firsts, deltas, strict=True)]
    delta, means = mean(relative_means), [mean(column) for column in tangents]
    stored_delta, stored_means = materialize(delta), materialize(means)
    if copies is not None:
        delta, means = stored_delta, stored_means
        _, firsts, deltas, *tangents, products = zip(*copies, strict=True)
        relative_means = [(a - firsts[0]) + r for a, r in zip(firsts, deltas, strict=True)]
    diffs = [a - delta for a in relative_means]
    others = [[u - m for u in column] for column, m in zip(tangents, means, strict=True)] or [diffs]
    between = [times(n, a * b) for n, a, b in zip(counts, diffs, others[0], strict=True)]
    stored_products = materialize(tree_reduce(lax.add, [*products, *between]))
    return count, parts[0][1], stored_delta, *stored_means, stored_products


def _and(a: Array | None, b: Array | None) -> Array | None:
    return b if a is None else a if b is None else a & b


def _count_true(masks: list[Array | None], dtype: np.dtype) -> Array:
    """Return the number of masks that are True, where None is always True."""
    one = jnp.ones((), dtype)
    return functools.reduce(lax.add, (one if m is None else m.astype(dtype) for m in masks))


# --- elements -------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnames="geometry", inline=True)
def scatter(
    g: Array, base: Array, delta: Array, x: Array, valid: Array | None, geometry: Geometry
) -> Array:
    """Return, for each element, the sum of ``g (x - mean)`` over the windows that contain it."""
    fused = functools.partial(_scatter_fused, geometry)
    per_axis = functools.partial(_scatter_per_axis, geometry)

    def on_gpu(g: Array, base: Array, delta: Array, x: Array, valid: Array | None) -> Array:
        # Otherwise XLA:GPU would store the operands of the means instead of the means.
        base, delta = lax.optimization_barrier((base, delta))
        return fused(g, base, delta, x, valid)

    gpu_fallback = functools.partial(per_axis, tuning.LONGEST_JOINED_ON_GPU)
    gpu = on_gpu if is_fused(geometry, "gpu") else gpu_fallback
    is_small = geometry.taps <= tuning.MAX_TERMS_ON_TPU
    tpu = fused if is_small else functools.partial(per_axis, tuning.LONGEST_JOINED)
    cpu = functools.partial(per_axis, 0)
    return by_platform(g, base, delta, x, valid, cpu=cpu, tpu=tpu, default=gpu)


def _scatter_fused(
    geometry: Geometry, g: Array, base: Array, delta: Array, x: Array, _: Array | None
) -> Array:
    def total(windows: list[Arrays], x: Array, _: object) -> Arrays:
        x = finite(x)
        return (tree_reduce(lax.add, [g * (x - base - delta) for g, base, delta in windows]),)

    return joint.over_elements(total, (g, base, delta), (0, 0, 0), x, geometry, on_tpu=False)[0]


def _scatter_per_axis(
    geometry: Geometry,
    longest: int,
    g: Array,
    base: Array,
    delta: Array,
    x: Array,
    valid: Array | None,
) -> Array:
    """Return :func:`scatter`, joined axis by axis, in one step up to ``longest`` elements."""
    if valid is not None and is_padded(geometry):
        inner, (x, valid) = with_padding((x, valid), geometry)
        return crop_padding(_scatter_per_axis(inner, longest, g, base, delta, x, valid), geometry)
    g = materialize(g)  # or every element would recompute ``g``, for example a root
    g = g + nan_unless_finite(base)
    base, x = finite(base), finite(x)
    parts, elements = (base, g, g * delta), [backfilled(x, valid, geometry)]
    # With a mask, axes are joined in the reverse order of the windows. Then the element that
    # replaces a masked one is in all windows that are joined there.
    order = geometry.placed if valid is None else geometry.placed[::-1]
    for axis, position in order[:-1]:
        starts = first_elements(elements[-1], axis, position, -axis.pad_low, axis.out, axis.stride)
        elements.append(starts)
    for (axis, position), axis_elements in list(zip(order, elements, strict=True))[::-1]:
        parts = _scatter_along_axis(parts, axis_elements, axis, position, longest)
    base, total, products = parts
    return total * (x - base) - products


def _scatter_along_axis(parts: Arrays, x: Array, axis: Axis, position: int, longest: int) -> Arrays:
    """Return, for every element of one axis, the joined part of the windows that contain it.

    These windows form a window over the grid of all starts, where strides leave some starts empty.
    """
    if axis.stride > 1 and axis.kernel <= tuning.LONGEST_TERMS_SLICED and axis.dilation == 1:
        join_last_first = lambda windows: _join_cotangents(windows[::-1])  # noqa: E731
        return combine_over_elements(lambda _: parts, (None, 0, 0), axis, position, join_last_first)
    base, g, products = parts
    starts = first_elements(x, axis, position, -axis.pad_low, axis.out, axis.stride)
    sums = g, products + g * (base - starts)
    transposed = transposed_axis(axis)
    low, high = lax_padding(transposed)
    padded = [pad(dilate_windows(part, axis, position), position, low, high) for part in sums]
    first, count = 1 - axis.span, padded[0].shape[position]
    parts = first_elements(x, axis, position, first, count), *padded
    radix = axis.kernel + 1 if axis.kernel <= longest else tuning.JOIN_RADIX
    return _join_cotangents(digit_parts(parts, transposed, position, _join_cotangents, radix))


def _join_cotangents(parts: Sequence[Arrays]) -> Arrays:
    """Return the joined part of windows, whose parts are in the order of the windows."""
    last = parts[-1][0]
    total = tree_reduce(lax.add, [g for _, g, _ in parts])
    terms = [m + g * (base - last) for base, g, m in parts[:-1]]
    return last, *materialize((total, tree_reduce(lax.add, [*terms, parts[-1][2]])))
