"""Weighted sums over windows, with one weight for every offset, in one kernel on GPU and TPU.

    y[o] = sum over t of W[t, o] x[o * stride - pad_low + t * dilation]

``W[t, o]`` is the product of one weight for each pooled axis. All windows that lie inside the array
have the same weights. In a window that crosses a border, the weight of padding is added to that of
the element that the padding repeats, and is then set to 0. So the array is not padded first.

In the transpose, an element receives the sum of ``W[t, o] g[o]`` over the windows that contain it.
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
from .._lowerings.parts.axis_slicing import reshape_along, tree_reduce
from .._lowerings.parts.phase_sums import Term
from .._xla.by_platform import by_platform
from .._xla.materialize import materialize


class Weights(NamedTuple):
    """The weights of an axis.

    Attributes:
      inner: weights of the windows that lie inside the array, one for each offset.
      at_borders: the same for each of the other windows, by its index.
    """

    inner: np.ndarray
    at_borders: dict[int, np.ndarray]

    def at(self, offset: int) -> tuple[float, dict[int, float]]:
        """Return the weight at one offset, and the weights of the windows that differ."""
        inner = self.inner[offset]
        others = {window: row[offset] for window, row in self.at_borders.items()}
        return inner, {window: w for window, w in others.items() if w != inner}


def weights_of(
    geometry: Geometry, weights: Sequence[np.ndarray], mode: str
) -> tuple[Weights, ...] | None:
    """Return the weights of all axes, or None if an axis has no such weights.

    An axis has none if padding in a window repeats an element outside that window, if the length of
    the axis is symbolic, or if too many windows cross its borders.

    Args:
      geometry: the windows.
      weights: for each axis, one number for each offset.
      mode: how ``numpy.pad`` fills the padding; "constant" is zeros.
    """
    per_axis = [_weights_of_axis(*pair, mode) for pair in zip(geometry.axes, weights, strict=True)]
    supported = tuple(of_axis for of_axis in per_axis if of_axis is not None)
    return supported if len(supported) == len(per_axis) else None


def _weights_of_axis(axis: Axis, weights: np.ndarray, mode: str) -> Weights | None:
    if not isinstance(axis.size, int):
        return None
    first = cdiv(axis.pad_low, axis.stride)
    last = (axis.size + axis.pad_low - axis.span) // axis.stride
    borders = *range(min(first, axis.out)), *range(max(first, last + 1), axis.out)
    if len(borders) > tuning.MAX_WEIGHTED_AT_BORDERS:
        return None
    sources, rows = _sources(axis, mode), {}
    for window in borders:
        row = np.zeros(axis.kernel)
        for offset in range(axis.kernel):
            source = sources[window * axis.stride + offset * axis.dilation]
            place, remainder = divmod(source + axis.pad_low - window * axis.stride, axis.dilation)
            if source >= 0 and (remainder or not 0 <= place < axis.kernel):
                return None
            if source >= 0:
                row[place] += weights[offset]
        rows[window] = row
    return Weights(weights, rows)


def _sources(axis: Axis, mode: Any) -> np.ndarray:
    """Return the index of the element at every position of the padded axis, -1 for no element."""
    low, high = axis.pad_low, axis.pad_high
    fill: dict[str, Any] = {"constant_values": -1} if mode == "constant" else {}
    sources = np.pad(np.arange(axis.size), (low, high), mode, **fill)
    return np.pad(sources, (0, max(0, axis.overhang)), constant_values=-1)


def weighted_sum(
    plain: Callable[[Array], Array],
    x: Array,
    geometry: Geometry,
    weights: tuple[Weights, ...] | None,
    dtypes: tuple[np.dtype, np.dtype],
) -> Array:
    """Return ``plain(x)``, in one kernel on GPU and TPU if there are ``weights``.

    Args:
      plain: computes the weighted sums on CPU, and on every platform without ``weights``.
      x: the array, of a floating-point dtype.
      geometry: the windows.
      weights: the result of :func:`weights_of`.
      dtypes: the dtypes in which the kernels read ``x`` and the cotangents of the sums; they
        represent all values exactly.
    """
    out_shape = geometry.full_shape(x.shape)
    if weights is None or 0 in (*x.shape, *out_shape):
        return plain(x)

    def forward(x: Array) -> Array:
        # If XLA:CPU fuses a sum of the result with this computation, it does not vectorize it.
        on_cpu = lambda x: materialize(plain(x))  # noqa: E731
        fused = functools.partial(_fused_sums, geometry, weights, dtypes[0])
        on_gpu, on_tpu = (functools.partial(fused, on_tpu) for on_tpu in (False, True))
        return by_platform(x, cpu=on_cpu, tpu=on_tpu, default=on_gpu)

    def transpose(g: Array) -> Array:
        on_cpu = lambda g: jax.linear_transpose(plain, x)(g)[0]  # noqa: E731
        fused = functools.partial(_fused_scatter, geometry, weights, dtypes[1])
        on_gpu, on_tpu = (functools.partial(fused, on_tpu) for on_tpu in (False, True))
        return by_platform(g, cpu=on_cpu, tpu=on_tpu, default=on_gpu)

    return linear_map(forward, transpose, x, out_shape)


def _fused_sums(
    geometry: Geometry, weights: tuple[Weights, ...], dtype: np.dtype, on_tpu: bool, x: Array
) -> Array:
    for step in _steps(geometry, weights, on_tpu):
        x, dtype = _step_sums(x, *step, dtype), x.dtype
    return x


def _steps(
    geometry: Geometry, weights: tuple[Weights, ...], on_tpu: bool
) -> list[tuple[Geometry, tuple[Weights, ...]]]:
    """Return windows and weights of each kernel: of all axes, or of one axis if they are large."""
    if geometry.taps <= (tuning.MAX_WEIGHTED_ON_TPU if on_tpu else tuning.MAX_WEIGHTED_ON_GPU):
        return [(geometry, weights)]
    steps = []
    for index, (axis, axis_weights) in enumerate(zip(geometry.axes, weights, strict=True)):
        # The other axes stay pooled, with windows of one element, so all steps have one layout.
        before = [_unpooled(other.out) for other in geometry.axes[:index]]
        after = [_unpooled(other.size) for other in geometry.axes[index + 1 :]]
        axes, ones = (*before, axis, *after), [_ONE] * (len(geometry.axes) - 1)
        step = (*ones[:index], axis_weights, *ones[index:])
        steps.append((Geometry(axes, geometry.positions), step))
    return steps


_ONE = Weights(np.ones(1), {})


def _unpooled(size: int) -> Axis:
    return Axis(size, 1, 1, 1, 0, 0, 0, size)


def _step_sums(
    x: Array, geometry: Geometry, weights: tuple[Weights, ...], dtype: np.dtype
) -> Array:
    """Return the weighted sums of one step, in one kernel."""

    def total(elements: list[Array], in_bounds: list[Array | None]) -> tuple[Array]:
        del in_bounds  # the array is 0 where there is no element
        tap_offsets = np.ndindex(geometry.kernel)
        terms = [_times(a, t, weights) for a, t in zip(elements, tap_offsets, strict=True)]
        return (tree_reduce(jnp.add, terms),)

    return joint.over_windows(total, x, 0, geometry, dtype)[0]


def _times(a: Array, offsets: tuple[int, ...], weights: tuple[Weights, ...]) -> Array:
    """Return ``a``, the elements at one offset with pooled axes first, times their weights."""
    for position, (axis_weights, offset) in enumerate(zip(weights, offsets, strict=True)):
        a = a * _broadcast_weights(*axis_weights.at(offset), position, a)
    return a


def _broadcast_weights(inner: float, others: dict[int, float], position: int, like: Array) -> Any:
    """Return the weight ``inner`` along an axis, except at the window indices in ``others``."""
    length, weight = like.shape[position], np.asarray(inner, like.dtype)
    if not others:
        return weight
    if length > tuning.LONGEST_WEIGHTS:
        index = lax.broadcasted_iota(jnp.int32, like.shape, position)
        for window, other in others.items():
            weight = jnp.where(index == window, np.asarray(other, like.dtype), weight)
        return weight
    row = np.full(length, weight)
    for window, other in others.items():
        if 0 <= window < length:
            row[window] = other
    return jnp.asarray(reshape_along(row, position, like.ndim))


def _fused_scatter(
    geometry: Geometry, weights: tuple[Weights, ...], dtype: np.dtype, on_tpu: bool, g: Array
) -> Array:
    for step in _steps(geometry, weights, on_tpu)[::-1]:
        g, dtype = _step_scatter(g, *step, dtype, on_tpu), g.dtype
    return g


def _step_scatter(
    g: Array, geometry: Geometry, weights: tuple[Weights, ...], dtype: np.dtype, on_tpu: bool
) -> Array:
    """Return the transpose of :func:`_step_sums`, in one kernel."""
    is_strided = geometry.is_strided

    def total(windows: list[tuple[Array]], x: None, terms: list[Term]) -> tuple[Array]:
        del x
        pairs = zip(windows, terms, strict=True)
        return (tree_reduce(jnp.add, [weighted(g, term) for (g,), term in pairs]),)

    def weighted(g: Array, term: Term) -> Array:
        offsets = np.unravel_index(term.low, geometry.kernel)
        for index, shift in enumerate(term.shift):
            inner, others = weights[index].at(int(offsets[index]))
            groups = {window + shift: weight for window, weight in others.items()}
            g = g * _broadcast_weights(inner, groups, 2 * index, g)
        return g

    return joint.over_elements(total, (g,), (0,), None, geometry, on_tpu and is_strided, dtype)[0]
