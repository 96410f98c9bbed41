"""Sums over windows with a weight for every offset: one kernel on GPU and TPU.

    y[o] = sum over t of W[t, o] x[o * stride - pad_low + t * dilation]

with ``W[t, o]`` the product of one number for each pooled axis. The numbers of all windows inside
are the same. In a window that reaches over a border the weight of padding is added to the element
of the window that the padding repeats, and is 0 itself. So no array is padded first.

The transpose gives each element the sum of ``W[t, o] g[o]`` over the windows that hold it.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._autodiff.linear import linear_map
from .._geometry.axis import Axis, cdiv
from .._geometry.resolve import Geometry
from .._lowerings import tuning
from .._lowerings.parts import joint
from .._lowerings.parts.axis_slicing import broadcast_along, tree_reduce
from .._lowerings.parts.phase_sums import Term
from .._xla.by_platform import by_platform
from .._xla.materialize import materialize


class Weights(NamedTuple):
    """The weights of an axis.

    Attributes:
      inner: of the windows that lie inside, one for each offset.
      at_borders: of the others by their index, likewise.
    """

    inner: np.ndarray
    at_borders: dict[int, np.ndarray]

    def at(self, offset: int) -> tuple[float, dict[int, float]]:
        """The weight at one offset, and that of each window where it is another."""
        inner = self.inner[offset]
        others = {window: row[offset] for window, row in self.at_borders.items()}
        return inner, {window: w for window, w in others.items() if w != inner}


def weights_of(
    geometry: Geometry, weights: Sequence[np.ndarray], mode: str
) -> tuple[Weights, ...] | None:
    """Return the weights of all axes, or None where padding repeats elements of other windows.

    Args:
      geometry: the windows.
      weights: of each axis, one number for each offset.
      mode: how ``numpy.pad`` fills the padding; "constant" is zeros.
    """
    found = [_of_axis(*pair, mode) for pair in zip(geometry.axes, weights, strict=True)]
    known = tuple(each for each in found if each is not None)
    return known if len(known) == len(found) else None


def _of_axis(axis: Axis, weights: np.ndarray, mode: str) -> Weights | None:
    if not isinstance(axis.size, int):
        return None
    first = cdiv(axis.pad_low, axis.stride)
    last = (axis.size + axis.pad_low - axis.span) // axis.stride
    borders = *range(min(first, axis.out)), *range(max(first, last + 1), axis.out)
    if len(borders) > tuning.MOST_WEIGHED_AT_BORDERS:
        return None
    sources, rows = _sources(axis, mode), {}
    for window in borders:
        row = np.zeros(axis.kernel)
        for offset in range(axis.kernel):
            source = sources[window * axis.stride + offset * axis.dilation]
            place, left = divmod(source + axis.pad_low - window * axis.stride, axis.dilation)
            if source >= 0 and (left or not 0 <= place < axis.kernel):
                return None
            if source >= 0:
                row[place] += weights[offset]
        rows[window] = row
    return Weights(weights, rows)


def _sources(axis: Axis, mode: Any) -> np.ndarray:
    """The element that stands at every place of the padded axis, -1 where there is none."""
    low, high = axis.pad_low, axis.pad_high
    padded = {"constant": {"constant_values": -1}}.get(mode, {})
    sources = np.pad(np.arange(axis.size), (low, high), mode, **padded)
    return np.pad(sources, (0, max(0, axis.overhang)), constant_values=-1)


def weighted_sum(
    plain: Callable[[Array], Array],
    x: Array,
    geometry: Geometry,
    weights: tuple[Weights, ...] | None,
    dtypes: tuple[np.dtype, np.dtype],
) -> Array:
    """Return ``plain(x)``, in one kernel on GPU and TPU where windows hold all that they read.

    Args:
      plain: the sums as CPU computes them.
      x: floats.
      geometry: the windows.
      weights: as of :func:`weights_of`.
      dtypes: of which the numbers of the array, and of cotangents of its sums, are; they are read
        as such.
    """
    out_shape = geometry.full_shape(x.shape)
    if weights is None or 0 in (*x.shape, *out_shape):
        return plain(x)

    def forward(x: Array) -> Array:
        # A sum of the result, fused with it, fills no vectors on CPU.
        stored = lambda x: materialize(plain(x))[0]  # noqa: E731
        anew = functools.partial(_sums, geometry, weights, dtypes[0])
        return by_platform({"cpu": stored, **_on_accelerators(anew)}, x)

    def transpose(g: Array) -> Array:
        back = lambda g: jax.linear_transpose(plain, x)(g)[0]  # noqa: E731
        anew = functools.partial(_scatter, geometry, weights, dtypes[1])
        return by_platform({"cpu": back, **_on_accelerators(anew)}, g)

    return linear_map(forward, transpose, x, out_shape)


def _on_accelerators(anew: Callable[..., Array]) -> dict[str, Callable[..., Array]]:
    return {"gpu": functools.partial(anew, False), "tpu": functools.partial(anew, True)}


def _sums(
    geometry: Geometry, weights: tuple[Weights, ...], dtype: np.dtype, on_tpu: bool, x: Array
) -> Array:
    for step in _steps(geometry, weights, on_tpu):
        x, dtype = _step_sums(x, *step, dtype), x.dtype
    return x


def _steps(
    geometry: Geometry, weights: tuple[Weights, ...], on_tpu: bool
) -> list[tuple[Geometry, tuple[Weights, ...]]]:
    """All axes at once, or one after the other if windows are large."""
    if geometry.taps <= (tuning.MOST_WEIGHTED_ON_TPU if on_tpu else tuning.MOST_WEIGHTED_ON_GPU):
        return [(geometry, weights)]
    steps = []
    for index, (axis, own) in enumerate(zip(geometry.axes, weights, strict=True)):
        # The other axes stay pooled axes of one element, so that all steps have one layout.
        before = [_unpooled(other.out) for other in geometry.axes[:index]]
        behind = [_unpooled(other.size) for other in geometry.axes[index + 1 :]]
        axes, ones = (*before, axis, *behind), [_ONE] * (len(geometry.axes) - 1)
        step = (*ones[:index], own, *ones[index:])
        steps.append((Geometry(axes, geometry.positions), step))
    return steps


_ONE = Weights(np.ones(1), {})


def _unpooled(size: int) -> Axis:
    return Axis(size, 1, 1, 1, 0, 0, 0, size)


def _step_sums(
    x: Array, geometry: Geometry, weights: tuple[Weights, ...], dtype: np.dtype
) -> Array:
    def total(elements: list[Array], inside: list[Array | None]) -> tuple[Array]:
        del inside  # where there is no element, the array holds zeros
        places = np.ndindex(geometry.kernel)
        terms = [_times(a, p, weights) for a, p in zip(elements, places, strict=True)]
        return (tree_reduce(jnp.add, terms),)

    return joint.over_windows(total, x, 0, geometry, dtype)[0]


def _times(a: Array, place: tuple[int, ...], weights: tuple[Weights, ...]) -> Array:
    """The elements at one offset, times the weights of their windows; pooled axes first."""
    for position, (own, offset) in enumerate(zip(weights, place, strict=True)):
        a = a * _along(*own.at(offset), position, a)
    return a


def _along(inner: float, others: dict[int, float], position: int, like: Array) -> Any:
    """A number along an axis, and others at some indices."""
    length, number = like.shape[position], np.asarray(inner, like.dtype)
    if not others:
        return number
    if length > tuning.LONGEST_WEIGHTS:
        index = lax.broadcasted_iota(jnp.int32, like.shape, position)
        for at, other in others.items():
            number = jnp.where(index == at, np.asarray(other, like.dtype), number)
        return number
    numbers = np.full(length, number)
    for at, other in others.items():
        if 0 <= at < length:
            numbers[at] = other
    return jnp.asarray(broadcast_along(numbers, position, like.ndim))


def _scatter(
    geometry: Geometry, weights: tuple[Weights, ...], dtype: np.dtype, on_tpu: bool, g: Array
) -> Array:
    for step in _steps(geometry, weights, on_tpu)[::-1]:
        g, dtype = _step_scatter(g, *step, dtype, on_tpu), g.dtype
    return g


def _step_scatter(
    g: Array, geometry: Geometry, weights: tuple[Weights, ...], dtype: np.dtype, on_tpu: bool
) -> Array:
    strided = geometry.is_strided

    def total(windows: list[tuple[Array]], x: None, terms: list[Term]) -> tuple[Array]:
        del x
        pairs = zip(windows, terms, strict=True)
        return (tree_reduce(jnp.add, [weighted(g, term) for (g,), term in pairs]),)

    def weighted(g: Array, term: Term) -> Array:
        place = np.unravel_index(term.low, geometry.kernel)
        for index, shift in enumerate(term.shift):
            inner, others = weights[index].at(int(place[index]))
            groups = {window - shift: weight for window, weight in others.items()}
            g = g * _along(inner, groups, 2 * index, g)
        return g

    return joint.over_elements(total, (g,), (0,), None, geometry, on_tpu and strided, dtype)[0]
