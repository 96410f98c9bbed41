"""Sums of terms over windows, and their derivatives. Terms are those of :mod:`.scaled_sums`.

Let ``L[i]`` be the level of element ``i``, and ``T[o]`` that of window ``o``, the largest level of
its elements. The factor of window ``o`` is the sum of ``f[i] * 2^(L[i] - T[o])`` over its
elements, which is linear in ``f``. In the transpose, element ``i`` receives the sum of
``g[o] * 2^(L[i] - T[o])`` over the windows ``o`` that contain it. This is ``2^L[i]`` times a sum of
terms of level ``-T[o]``. The level of that sum is ``-T[o]`` for the smallest ``T[o]``, which is at
least ``L[i]``. So in the transpose, too, no power of two exceeds one.

On CPU, overlapping windows are joined axis by axis, and arrays that several windows read are
stored. Other windows of few elements, on GPU and TPU all of them, are joined over all axes in one
kernel, from the arrays that terms are computed from. Terms are then recomputed for each window, and
neither terms nor sums along an axis are stored. TPU stores terms that many windows read, because an
exponential costs more there than reading two numbers.
"""

import functools
from collections.abc import Callable

import jax
import numpy as np
from jax import Array, lax

from .._autodiff.linear import linear_map
from .._errors import message
from .._geometry.axis import Axis
from .._geometry.resolve import Geometry
from .._lowerings import tuning
from .._lowerings.parts import joint
from .._lowerings.parts.axis_slicing import digit_parts, lax_padding, pad
from .._lowerings.parts.phases import combine_over_elements, dilate_windows, transposed_axis
from .._xla.by_platform import by_platform
from .._xla.materialize import materialize
from .scaled_sums import Terms, join, ratio, terms_where

Make = Callable[..., Terms]
Arrays = tuple[Array | None, ...]
Values = tuple[float | None, ...] | None


def _check_implementation(implementation: str, geometry: Geometry) -> None:
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
            'Use implementation="auto" (would choose "slices" for short windows, else "doubling").',
        )
    )


def join_windows(
    make: Make, arrays: Arrays, padding: Values, geometry: Geometry, implementation: str
) -> Terms:
    """Return the sum of the terms of every window.

    Args:
      make: computes the terms of each element from the entries of ``arrays`` at that element.
      arrays: arguments of ``make``, each as long as the pooled axes or of length 1 there.
      padding: scalars, one for each array, for which ``make`` returns the term 0; None if there are
        no such scalars.
      geometry: the windows.
      implementation: "auto", "slices" or "doubling"; checked here.
    """
    _check_implementation(implementation, geometry)
    level, *factors = make(*arrays)
    terms = lax.stop_gradient(level), *factors
    return _sums(terms, arrays, make, padding, geometry, implementation)


# If JAX loses the rule, the derivative of the function itself is also correct, but slower.


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4, 5))
def _sums(
    terms: Terms,
    arrays: Arrays,
    make: Make,
    padding: Values,
    geometry: Geometry,
    implementation: str,
) -> Terms:
    """Return the sum of ``terms`` over every window, where ``terms`` equals ``make(*arrays)``."""
    per_axis = lambda terms, _: _axis_by_axis(terms, geometry, implementation)  # noqa: E731
    fused = lambda _, arrays: _fused(make, arrays, padding, geometry)  # noqa: E731
    if not _is_fused(geometry, implementation):
        return per_axis(terms, arrays)
    fused_from_stored = lambda terms, _: _fused_from_stored(terms, geometry)  # noqa: E731
    on_cpu = fused if geometry.is_non_overlapping else per_axis
    on_tpu = fused_from_stored if _is_stored_on_tpu(geometry) else fused
    return by_platform(terms, arrays, cpu=on_cpu, tpu=on_tpu, default=fused)


def _is_fused(geometry: Geometry, implementation: str) -> bool:
    """Return whether a window has few enough elements to join all axes in one kernel."""
    return implementation == "auto" and geometry.taps <= tuning.MAX_TERMS_AT_ONCE


def _is_stored_on_tpu(geometry: Geometry) -> bool:
    """Return whether TPU stores terms before it joins all axes in one kernel.

    With strides, TPU would store the phases of the terms as well.
    """
    return not geometry.is_strided and geometry.taps >= tuning.MIN_TERMS_STORED_ON_TPU


@_sums.defjvp
def _sums_jvp(make, padding, geometry: Geometry, implementation: str, primals, tangents):
    ((level, *factors), arrays), ((_, *t), _) = primals, tangents
    arrays = jax.tree.map(lax.stop_gradient, arrays)

    def linear(factors: Terms) -> Terms:
        """Return the sum of every window, linear in the factors."""
        terms = level, *lax.stop_gradient(factors)
        top, *known = _sums(terms, arrays, make, padding, geometry, implementation)
        top, *known = materialize((top, *known))

        def forward(f: Terms) -> Terms:
            terms = level, *f
            make = lambda *terms: terms  # noqa: E731
            return _sums(terms, terms, make, _identities(terms), geometry, implementation)[1:]

        def transpose(g: Terms) -> Terms:
            per_axis = functools.partial(_scatter, geometry, implementation)
            fused = functools.partial(_scatter_fused, geometry, make)
            operands = (top, *g), level, arrays
            if not _is_fused(geometry, implementation):
                return per_axis(*operands)
            on_gpu, on_tpu = (functools.partial(fused, on_tpu=on_tpu) for on_tpu in (False, True))
            return by_platform(*operands, cpu=per_axis, tpu=on_tpu, default=on_gpu)

        return top, *linear_map(forward, transpose, factors, top.shape, tuple(known))

    return jax.jvp(linear, (tuple(factors),), (tuple(t),))


def _identities(terms: Terms) -> tuple[float, ...]:
    """Return the level and the factors of the term 0, which a sum ignores."""
    return -np.inf, *(0 for _ in terms[1:])


# --- all axes in one kernel ----------------------------------------------------------------------


def _fused(make: Make, arrays: Arrays, padding: Values, geometry: Geometry) -> Terms:
    """Return the sum of every window in one kernel, from terms recomputed for each window."""

    def total(elements: list[Arrays], in_bounds: list[Array | None]) -> Terms:
        terms = [make(*element) for element in elements]
        if padding is None:
            terms = [_terms_in_bounds(*pair) for pair in zip(terms, in_bounds, strict=True)]
        return join(terms)

    values = jax.tree.map(lambda _: 1, arrays) if padding is None else padding
    return joint.over_windows(total, arrays, values, geometry)


def _fused_from_stored(terms: Terms, geometry: Geometry) -> Terms:
    """Return the sum of every window in one kernel, from terms that are stored first."""
    terms = materialize(terms)
    total = lambda elements, _: join(elements)  # noqa: E731
    return joint.over_windows(total, terms, _identities(terms), geometry)


def _scatter_fused(
    geometry: Geometry, make: Make, terms: Terms, levels: Array, arrays: Arrays, on_tpu: bool
) -> Terms:
    """Return :func:`_scatter` from levels that are recomputed from the arrays."""

    def total(windows: list[Terms], arrays: Arrays, _: object) -> Terms:
        levels = make(*arrays)[0]
        ratios = [ratio(levels, top) for top, *_ in windows]
        columns = zip(*(values for _, *values in windows), strict=True)
        scaled = ([g * r for g, r in zip(column, ratios, strict=True)] for column in columns)
        return tuple(functools.reduce(lax.add, column) for column in scaled)

    identities = np.inf, *(0 for _ in terms[1:])
    return joint.over_elements(total, terms, identities, arrays, geometry, on_tpu)


def _terms_in_bounds(terms: Terms, in_bounds: Array | None) -> Terms:
    return terms if in_bounds is None else terms_where(terms[0], terms[1:], in_bounds)


# --- axis by axis --------------------------------------------------------------------------------


def _axis_by_axis(terms: Terms, geometry: Geometry, implementation: str) -> Terms:
    """Return the sum of every window, joined axis by axis."""
    for axis, position in geometry.placed:
        terms = _join_along_axis(terms, axis, position, implementation)
    return terms


def _scatter(
    geometry: Geometry, implementation: str, terms: Terms, levels: Array, _: Arrays
) -> Terms:
    """Return, for each element, the sum of ``g * 2^(L - T)`` over the windows that contain it."""
    terms = -terms[0], *terms[1:]
    for axis, position in geometry.placed[::-1]:
        terms = _scatter_along_axis(terms, axis, position, implementation)
    scale = ratio(levels, -terms[0])
    return tuple(total * scale for total in terms[1:])


def _scatter_along_axis(parts: Terms, axis: Axis, position: int, implementation: str) -> Terms:
    """Return, for every element of one axis, the joined terms of the windows that contain it.

    These windows form a window over the grid of all starts, where strides leave some starts empty.
    """
    parts, identities = materialize(parts), _identities(parts)
    if axis.stride > 1 and _is_unrolled(axis, implementation):
        return combine_over_elements(lambda _: parts, identities, axis, position, join)
    starts = dilate_windows(parts, axis, position, identities)
    return _join_along_axis(starts, transposed_axis(axis), position, implementation)


def _is_unrolled(axis: Axis, implementation: str) -> bool:
    return implementation != "doubling" and axis.kernel <= tuning.LONGEST_TERMS_SLICED


# XLA:CPU would recompute a term, a pad or a smaller window for every window that reads it, in time
# that grows with the number of elements of a window. So each of them is materialized.


def _join_along_axis(parts: Terms, axis: Axis, position: int, implementation: str) -> Terms:
    radix = {"slices": axis.kernel + 1, "doubling": 2}.get(implementation, tuning.JOIN_RADIX)
    stored = lambda parts: materialize(join(parts))  # noqa: E731
    parts = _padded(materialize(parts), axis, position)
    return join(digit_parts(parts, axis, position, stored, radix))


def _padded(parts: Terms, axis: Axis, position: int) -> Terms:
    low, high = lax_padding(axis)
    if not low and not high:
        return parts
    return materialize(pad(parts, position, low, high, _identities(parts)))
