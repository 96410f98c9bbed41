"""Sums of terms over windows, and their derivatives; terms are those of :mod:`.scaled_sums`.

With ``L`` the levels of elements and ``T`` those of windows, the factor of a window is the sum of
``f[i] * 2^(L[i] - T[o])`` over its elements: linear in ``f``. Its transpose gives an element the
sum of ``g[o] * 2^(L[i] - T[o])`` over the windows that hold it: terms of level ``-T``, whose sum
stands at the lowest ``T``. That is not below ``L[i]``, so here, too, no power exceeds one.

On CPU a window is joined axis by axis, and what several windows read is stored. On GPU and TPU the
windows of a few elements are joined over all axes at once, from the array that terms are made of:
terms are then computed anew for each window, and neither they nor sums along an axis are stored.
TPU stores terms that many windows read: an exponential is dearer there than to read two numbers.
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
from .._lowerings.parts.phases import mirrored, over_elements, stretch
from .._xla.by_platform import by_platform
from .._xla.materialize import materialize
from .scaled_sums import Terms, join, ratio, terms_where

Make = Callable[..., Terms]
Arrays = tuple[Array | None, ...]
Values = tuple[float | None, ...] | None


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


def join_windows(
    make: Make, arrays: Arrays, padding: Values, geometry: Geometry, implementation: str
) -> Terms:
    """Return the sum of the terms of every window.

    Args:
      make: makes the terms of each element by itself.
      arrays: what it makes them of; as long as the pooled axes, or of length 1 there.
      padding: a scalar for each array, of which it makes no term; None if there is no such one.
      geometry: the windows.
      implementation: "auto", "slices" or "doubling".
    """
    level, *factors = make(*arrays)
    terms = lax.stop_gradient(level), *factors
    return _joined(terms, arrays, make, padding, geometry, implementation)


# The plain function has the right derivative as well, but a slower one, should JAX lose the rule.


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4, 5))
def _joined(
    terms: Terms,
    arrays: Arrays,
    make: Make,
    padding: Values,
    geometry: Geometry,
    implementation: str,
) -> Terms:
    """The sums of ``terms``, which are ``make(*arrays)``."""
    stored = lambda terms, _: _axis_by_axis(terms, geometry, implementation)  # noqa: E731
    anew = lambda _, arrays: _at_once(make, arrays, padding, geometry)  # noqa: E731
    if not _is_at_once(geometry, implementation):
        return stored(terms, arrays)
    made = lambda terms, _: _at_once_of_stored(terms, geometry)  # noqa: E731
    on_tpu = made if _is_stored_on_tpu(geometry) else anew
    return by_platform({"cpu": stored, "gpu": anew, "tpu": on_tpu}, terms, arrays)


def _is_at_once(geometry: Geometry, implementation: str) -> bool:
    """Whether GPU and TPU join all axes at once."""
    return implementation == "auto" and geometry.taps <= tuning.MOST_TERMS_AT_ONCE


def _is_stored_on_tpu(geometry: Geometry) -> bool:
    """Whether TPU stores terms before it joins all axes at once.

    Of strided windows it would store their phases as well.
    """
    return not geometry.is_strided and geometry.taps >= tuning.LEAST_TERMS_STORED_ON_TPU


@_joined.defjvp
def _joined_jvp(make, padding, geometry: Geometry, implementation: str, primals, tangents):
    ((level, *factors), arrays), ((_, *t), _) = primals, tangents
    arrays = jax.tree.map(lax.stop_gradient, arrays)

    def linear(factors: Terms) -> Terms:
        """The sums of every window, linear in the factors."""
        terms = level, *lax.stop_gradient(factors)
        top, *known = _joined(terms, arrays, make, padding, geometry, implementation)
        top, *known = materialize(top, *known)

        def forward(f: Terms) -> Terms:
            terms = level, *f
            make = lambda *terms: terms  # noqa: E731
            return _joined(terms, terms, make, _identities(terms), geometry, implementation)[1:]

        def transpose(g: Terms) -> Terms:
            stored = functools.partial(_scatter, geometry, implementation)
            anew = functools.partial(_scatter_at_once, geometry, make)
            given = (top, *g), level, arrays
            if not _is_at_once(geometry, implementation):
                return stored(*given)
            on_gpu, on_tpu = (functools.partial(anew, on_tpu=on_tpu) for on_tpu in (False, True))
            return by_platform({"cpu": stored, "gpu": on_gpu, "tpu": on_tpu}, *given)

        return top, *linear_map(forward, transpose, factors, top.shape, tuple(known))

    return jax.jvp(linear, (tuple(factors),), (tuple(t),))


def _identities(terms: Terms) -> tuple[float, ...]:
    """The level and the factors of no term, which a sum ignores."""
    return -np.inf, *(0 for _ in terms[1:])


# --- all axes at once ----------------------------------------------------------------------------


def _at_once(make: Make, arrays: Arrays, padding: Values, geometry: Geometry) -> Terms:
    def total(elements: list[Arrays], inside: list[Array | None]) -> Terms:
        made = [make(*element) for element in elements]
        if padding is None:
            made = [_there(*each) for each in zip(made, inside, strict=True)]
        return join(made)

    values = jax.tree.map(lambda _: 1, arrays) if padding is None else padding
    return joint.over_windows(total, arrays, values, geometry)


def _at_once_of_stored(terms: Terms, geometry: Geometry) -> Terms:
    terms = materialize(*terms)
    total = lambda elements, _: join(elements)  # noqa: E731
    return joint.over_windows(total, terms, _identities(terms), geometry)


def _scatter_at_once(
    geometry: Geometry, make: Make, terms: Terms, levels: Array, arrays: Arrays, on_tpu: bool
) -> Terms:
    """As :func:`_scatter`, of levels made anew from the arrays."""

    def total(given: list[Terms], arrays: Arrays, _: object) -> Terms:
        levels = make(*arrays)[0]
        ratios = [ratio(levels, top) for top, *_ in given]
        columns = zip(*(values for _, *values in given), strict=True)
        scaled = ([g * r for g, r in zip(column, ratios, strict=True)] for column in columns)
        return tuple(functools.reduce(lax.add, column) for column in scaled)

    identities = np.inf, *(0 for _ in terms[1:])
    return joint.over_elements(total, terms, identities, arrays, geometry, on_tpu)


def _there(terms: Terms, here: Array | None) -> Terms:
    return terms if here is None else terms_where(terms[0], terms[1:], here)


# --- one axis after the other --------------------------------------------------------------------


def _axis_by_axis(terms: Terms, geometry: Geometry, implementation: str) -> Terms:
    for axis, position in geometry.placed:
        terms = _join_along(terms, axis, position, implementation)
    return terms


def _scatter(
    geometry: Geometry, implementation: str, terms: Terms, levels: Array, arrays: Arrays
) -> Terms:
    """Return for each element the sum of the values of the windows that hold it, at its level."""
    terms = -terms[0], *terms[1:]
    for axis, position in geometry.placed[::-1]:
        terms = _scatter_along(terms, axis, position, implementation)
    raised = ratio(levels, -terms[0])
    return tuple(total * raised for total in terms[1:])


def _scatter_along(parts: Terms, axis: Axis, position: int, implementation: str) -> Terms:
    """Along an axis the windows of an element are a window, of which strides leave out some."""
    parts, identities = materialize(*parts), _identities(parts)
    if axis.stride > 1 and _is_unrolled(axis, implementation):
        return over_elements(lambda _: parts, identities, axis, position, join)
    pairs = zip(parts, identities, strict=True)
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
    identities = tuple(np.asarray(value, parts[0].dtype) for value in _identities(parts))
    return materialize(*pad(parts, position, low, high, identities))
