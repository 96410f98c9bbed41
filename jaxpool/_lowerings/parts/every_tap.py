"""Reductions over all taps of windows that have too many taps for one slice each.

Let window ``i`` begin at ``start(i)``, and let tap ``t`` read the element ``shift(t)`` after that.
A *fold* gives the value of each tap and the function that combines them:

    reduce_taps(x)[i] = combine over t of value(t, x[start(i) + shift(t)]).

On CPU and TPU, a loop visits the taps sequentially; each iteration reads one tap of all windows. On
GPU, each iteration would be a kernel or more. There the elements are a gather ``[.., i, t, ..]``,
which XLA:GPU fuses into the reduction over ``t``: one kernel for any number of taps, and the
gathered array is not materialised. That holds for one gathered array. Of two, XLA:GPU may store
every tap, so values and the taps that they name are the parts of one complex array.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import INT32_MAX
from ..._geometry.resolve import Geometry, is_static
from ..._xla.by_platform import by_platform
from ..._xla.sharding_types import unify_varying_axes
from .. import tuning
from .argreduce import sentinel, unravel_offsets
from .axis_slicing import pad_axes, pad_to_windows, slice_axis
from .flat_gather import from_planes, to_planes

State = TypeVar("State")

_MAX_NUMBERED = 2**24
"""Taps whose numbers float32 represents exactly."""


@dataclass(frozen=True)
class Reads:
    """The elements of an array that windows read.

    Attributes:
      axes: the axes along which windows have taps, as ascending negative positions.
      shape: the shape of the result, with the number of windows along ``axes``.
      strides: the distance between neighbouring windows along each of ``axes``.
      taps: the number of taps of a window.
      shifts: maps the index of a tap, or an array of them, to the distance of the tap from the
        first element of its window along each of ``axes``.
      numbers: the number of each tap, or None for 0, 1, ...
    """

    axes: tuple[int, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    taps: int
    shifts: Callable[[Array], Sequence[Array]]
    numbers: np.ndarray | None = None

    def numbers_of(self, indices: Array) -> Array:
        """Return the numbers of the taps at ``indices``."""
        return indices if self.numbers is None else jnp.asarray(self.numbers)[indices]

    def elements(self, x: Array, index: Array) -> Array:
        """Return the element of every window at the tap ``index``."""
        starts, sizes = [jnp.zeros((), np.int32)] * x.ndim, list(self.shape)
        for axis, stride, shift in zip(self.axes, self.strides, self.shifts(index), strict=True):
            starts[axis] = shift.astype(np.int32)
            sizes[axis] = (self.shape[axis] - 1) * stride + 1
        result = lax.dynamic_slice(x, starts, sizes)
        for axis, stride in zip(self.axes, self.strides, strict=True):
            result = slice_axis(result, axis, 0, self.shape[axis], stride)
        return result

    def has_flat_indices(self, x: Array) -> bool:
        """Return whether int32 can count the elements of ``x`` along ``axes``."""
        sizes = [x.shape[axis] for axis in self.axes]
        return is_static(x.shape) and math.prod(sizes) <= INT32_MAX

    def flat_indices(self, x: Array, indices: Array) -> Array:
        """Return the flat index along ``axes`` of the taps at ``indices`` of each window."""
        counts = [self.shape[axis] for axis in self.axes]
        steps = [
            lax.broadcasted_iota(np.int32, counts, n) * np.int32(stride)
            for n, stride in enumerate(self.strides)
        ]
        return self._flat(x, steps).reshape(-1)[:, None] + self._flat(x, self.shifts(indices))

    def _flat(self, x: Array, positions: Sequence[Array]) -> Array:
        """Combine positions along ``axes`` into flat indices."""
        flat = jnp.zeros((), np.int32)
        for axis, position in zip(self.axes, positions, strict=True):
            flat = flat * np.int32(x.shape[axis]) + position.astype(np.int32)
        return flat


def reads_of(geometry: Geometry, shape: tuple[int, ...]) -> Reads:
    """Return the reads of a padded array by windows whose result has this shape."""

    def shifts(indices: Array) -> list[Array]:
        steps = zip(geometry.axes, unravel_offsets(indices, geometry.kernel), strict=True)
        return [digit * np.asarray(axis.dilation, digit.dtype) for axis, digit in steps]

    strides = tuple(axis.stride for axis in geometry.axes)
    return Reads(geometry.positions, shape, strides, geometry.taps, shifts)


class Fold(NamedTuple):
    """A reduction over taps.

    Attributes:
      value: ``value(number, element, *others)`` returns the value of tap ``number``, an array or a
        pytree of arrays. ``element`` is the element at the tap, ``others`` are the window's entries
        of other arrays. ``value`` must broadcast.
      start: the identity of ``combine``, a NumPy scalar or a pytree of them.
      combine: an associative function of an earlier and a later value.
      unordered: combines values in any order, if ``combine`` does not.
    """

    value: Callable[..., Any]
    start: Any
    combine: Callable[[Any, Any], Any]
    unordered: Callable[[Any, Any], Any] | None = None


def sum_at_tap(dtype: np.dtype) -> Fold:
    """Return the fold that adds, at each tap, the elements whose ``named`` is the tap's number.

    In a gather, ``named`` has the wanted tap of each window. In a scatter, see
    :func:`sum_named_taps`, each element names the only tap at which it is to be read.
    """
    zero = np.zeros((), dtype)

    def value(number: Array, element: Array, named: Array) -> Array:
        return jnp.where(named == number.astype(named.dtype), element, zero)

    return Fold(value, zero, lax.add)


def pad_for_scatter(
    g: Array, named: Array, margins: Mapping[int, tuple[int, int, int]]
) -> tuple[Array, Array]:
    """Pad values of windows, and the tap number that each names, for :func:`sum_at_tap`.

    This is a scatter written as a gather: every element reads all windows that contain it, and adds
    the values of those that name it. All elements can be read in parallel; writes, which may
    collide, could not. ``margins`` are those of :func:`pad_axes`. Padding has value 0 and names no
    tap.
    """
    return pad_axes((g, named), margins, (0, sentinel(named.dtype)))


def reduce_taps(reads: Reads, fold: Fold, x: Array, others: Sequence[Array]) -> Any:
    """Return the reduction over all taps of every window.

    Args:
      reads: the elements of ``x`` that the windows read.
      fold: the reduction.
      x: the array.
      others: arrays with an entry for each window.
    """
    by_loop = lambda x, others: _by_loop(reads, fold, (x,), others)  # noqa: E731
    by_gather = lambda x, others: _by_gather(reads, fold, x, others)  # noqa: E731
    on_gpu = by_gather if reads.has_flat_indices(x) else by_loop
    return by_platform(x, tuple(others), cpu=by_loop, tpu=by_loop, default=on_gpu)


def sum_named_taps(reads: Reads, g: Array, named: Array) -> Array:
    """Return, for every window, the sum of ``g`` at the taps that ``named`` has the number of.

    With the padding of :func:`pad_for_scatter`, this is the transpose of a gather.

    Args:
      reads: the elements of ``g`` and ``named`` that the windows read.
      g: values.
      named: the number of the only tap at which each value is to be read.
    """

    def by_loop(g: Array, named: Array) -> Array:
        return _by_loop(reads, sum_at_tap(g.dtype), (g, named), ())

    def by_gather(g: Array, named: Array) -> Array:
        return _sum_pairs(reads, _complex_of(g, named)).astype(g.dtype)

    is_gathered = reads.has_flat_indices(g) and reads.taps <= _MAX_NUMBERED
    on_gpu = by_gather if is_gathered else by_loop
    return by_platform(g, named, cpu=by_loop, tpu=by_loop, default=on_gpu)


def _by_loop(reads: Reads, fold: Fold, arrays: tuple[Array, ...], others: tuple[Array, ...]) -> Any:
    """Reduce by a loop over the taps."""
    state = jax.tree.map(functools.partial(jnp.full, reads.shape), fold.start)
    arrays, others, state = unify_varying_axes((arrays, others, state))

    def step(index: Array, elements: tuple[Array, ...], state: Any) -> Any:
        return fold.combine(state, fold.value(reads.numbers_of(index), *elements, *others))

    return _loop_over_taps(reads, step, state, arrays)


def fold_over_taps(
    x: Array, geometry: Geometry, step: Callable[[Array, Array, State], State], state: State
) -> State:
    """Return the final state after ``state = step(offset, elements, state)`` at every offset.

    The offsets are visited in row-major order; ``elements`` are those of all windows, 0 in padding.
    The loop is unrolled for small windows.
    """
    padded = pad_to_windows(x, geometry)
    padded, state = unify_varying_axes((padded, state))
    step_of_array = lambda offset, elements, state: step(offset, elements[0], state)  # noqa: E731
    unroll = geometry.taps <= tuning.MAX_SLICED_OFFSETS or tuning.OFFSETS_AT_ONCE
    reads = reads_of(geometry, geometry.full_shape(x.shape))
    return _loop_over_taps(reads, step_of_array, state, (padded,), unroll)


def _loop_over_taps(
    reads: Reads,
    step: Callable[[Array, tuple[Array, ...], State], State],
    state: State,
    arrays: tuple[Array, ...],
    unroll: bool | int = tuning.OFFSETS_AT_ONCE,
) -> State:
    """Return the final state after ``state = step(index, elements, state)`` at every tap."""

    def body(index: Array, state: State) -> State:
        index = jnp.asarray(index)  # an int under jax.disable_jit
        return step(index, tuple(reads.elements(a, index) for a in arrays), state)

    return lax.fori_loop(0, reads.taps, body, state, unroll=unroll)


def _by_gather(reads: Reads, fold: Fold, x: Array, others: Sequence[Array]) -> Any:
    """Reduce a gather of all taps."""
    numbers = reads.numbers_of(lax.iota(np.int32, reads.taps))
    window_entries = [to_planes(a, reads.axes)[:, :, None] for a in others]
    values = fold.value(numbers[:, None], _gather(reads, x), *window_entries)
    reduced = lax.reduce(values, fold.start, fold.unordered or fold.combine, (2,))
    return jax.tree.map(lambda a: from_planes(a, reads.shape, reads.axes), reduced)


def _gather(reads: Reads, x: Array) -> Array:
    """Return the elements at all taps of every window: ``[before, window, tap, after]``."""
    indices = reads.flat_indices(x, lax.iota(np.int32, reads.taps))
    taps = to_planes(x, reads.axes).at[:, indices]
    return taps.get(mode="promise_in_bounds", wrap_negative_indices=False)


def _sum_pairs(reads: Reads, pairs: Array) -> Array:
    """Return the sums of the values whose numbers are those of the taps.

    The numbers of taps are subtracted, so that the reduction adds the values at the number 0.
    """
    zero = np.zeros((), lax.real(pairs).dtype)

    def add(a: Array, b: Array) -> Array:
        values = [jnp.where(lax.imag(pair) == 0, lax.real(pair), zero) for pair in (a, b)]
        return lax.complex(values[0] + values[1], zero)

    numbers = reads.numbers_of(lax.iota(np.int32, reads.taps))[:, None]
    distances = _gather(reads, pairs) - _complex_of(jnp.zeros_like(numbers, zero.dtype), numbers)
    sums = lax.reduce(distances, lax.complex(zero, zero), add, (2,))
    return from_planes(lax.real(sums), reads.shape, reads.axes)


def _complex_of(values: Any, numbers: Any) -> Array:
    """Return a complex array of values and of numbers up to ``_MAX_NUMBERED``."""
    dtype = values.dtype if values.dtype.itemsize == 8 else np.float32
    return lax.complex(values.astype(dtype), numbers.astype(dtype))
