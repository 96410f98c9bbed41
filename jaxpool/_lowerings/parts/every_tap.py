"""Reductions over all elements of windows whose offsets are too many for a program of slices.

Let window ``i`` begin at ``start(i)``, and tap ``t`` lie ``shift(t)`` further on. Then

    reduce_taps(x)[i] = combine over t of value(t, x[start(i) + shift(t)]).

On CPU and TPU a loop takes one tap after the other, of all windows at once. On GPU, where each step
would be a kernel or more, the elements are a gather ``[.., i, t, ..]`` that is not stored: XLA:GPU
makes it part of the reduction over ``t``, one kernel for any number of taps.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.resolve import Geometry
from ..._xla.by_platform import by_platform
from ..._xla.sharding_types import varying_alike
from .. import tuning
from .argreduce import sentinel
from .axis_slicing import pad_all, slice_axis
from .flat_gather import INT32_MAX, array_of, planes_of

State = TypeVar("State")


@dataclass(frozen=True)
class Reads:
    """Which elements of an array windows read.

    Attributes:
      axes: along which windows have taps, ascending negative positions.
      shape: of the result: all axes, the windows along ``axes``.
      strides: from window to window, along each of ``axes``.
      taps: how many.
      shifts: of tap numbers, one or an array of them, how far each tap lies from the first element
        of its window, along each of ``axes``.
    """

    axes: tuple[int, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    taps: int
    shifts: Callable[[Array], Sequence[Array]]

    def elements(self, x: Array, number: Array) -> Array:
        """Return the element of every window at one tap."""
        starts, sizes = [jnp.zeros((), np.int32)] * x.ndim, list(self.shape)
        for axis, stride, shift in zip(self.axes, self.strides, self.shifts(number), strict=True):
            starts[axis] = shift.astype(np.int32)
            sizes[axis] = (self.shape[axis] - 1) * stride + 1
        found = lax.dynamic_slice(x, starts, sizes)
        for axis, stride in zip(self.axes, self.strides, strict=True):
            found = slice_axis(found, axis, 0, self.shape[axis], stride)
        return found

    def has_flat_indices(self, x: Array) -> bool:
        """Whether an int32 counts the elements of ``x`` along ``axes``."""
        sizes = [x.shape[axis] for axis in self.axes]
        return all(isinstance(size, int) for size in x.shape) and math.prod(sizes) <= INT32_MAX

    def first_indices(self, x: Array) -> Array:
        """Where each window begins, as an index that counts the elements along ``axes``."""
        counts = [self.shape[axis] for axis in self.axes]
        steps = [
            lax.broadcasted_iota(np.int32, counts, n) * np.int32(stride)
            for n, stride in enumerate(self.strides)
        ]
        return self._flat(x, steps).reshape(-1)

    def flat_shifts(self, x: Array, numbers: Array) -> Array:
        """How far taps lie from the first element of their window, in elements along ``axes``."""
        return self._flat(x, self.shifts(numbers))

    def _flat(self, x: Array, positions: Sequence[Array]) -> Array:
        flat = jnp.zeros((), np.int32)
        for axis, position in zip(self.axes, positions, strict=True):
            flat = flat * np.int32(x.shape[axis]) + position.astype(np.int32)
        return flat


def reads_of(geometry: Geometry, shape: tuple[int, ...]) -> Reads:
    """What windows with a result of ``shape`` read of a padded array."""

    def shifts(numbers: Array) -> list[Array]:
        steps = zip(geometry.axes, digits(numbers, geometry.kernel), strict=True)
        return [digit * np.asarray(axis.dilation, digit.dtype) for axis, digit in steps]

    strides = tuple(axis.stride for axis in geometry.axes)
    return Reads(geometry.positions, shape, strides, geometry.taps, shifts)


def digits(offsets: Array, kernel: tuple[int, ...]) -> list[Array]:
    """Return the offset along each pooled axis, of row-major offsets."""
    found = []
    for count in reversed(kernel):
        found.append(offsets % np.asarray(count, offsets.dtype))
        offsets = offsets // np.asarray(count, offsets.dtype)
    return found[::-1]


class Fold(NamedTuple):
    """A reduction over taps.

    Attributes:
      value: of the number of a tap, the element of each array there, and an entry of the window of
        each other array; it broadcasts. Its result is an array or a pytree of them.
      start: the identity of ``combine``, a NumPy scalar or a pytree of them.
      combine: associative; of an earlier and a later value.
      unordered: ``combine`` of values in any order, if it is another function.
    """

    value: Callable[..., Any]
    start: Any
    combine: Callable[[Any, Any], Any]
    unordered: Callable[[Any, Any], Any] | None = None


def sum_of_named(dtype: np.dtype) -> Fold:
    """The sum of elements, each where the number beside it is that of the tap."""
    zero = np.zeros((), dtype)

    def value(number: Array, element: Array, named: Array) -> Array:
        return jnp.where(named == number.astype(named.dtype), element, zero)

    return Fold(value, zero, lax.add)


def padded_windows(
    g: Array, named: Array, room: Sequence[tuple[int, int, int]]
) -> tuple[Array, Array]:
    """Return values of windows, and the number that each names, as :func:`sum_of_named` reads them.

    An element reads what each window would give it: several at once, which writes could not be.
    ``room`` is that of ``lax.pad`` around the windows, in which nothing is given.
    """
    padding = np.zeros((), g.dtype), sentinel(named.dtype)
    return lax.pad(g, padding[0], room), lax.pad(named, padding[1], room)


def reduce_taps(
    reads: Reads, fold: Fold, arrays: Sequence[Array], others: Sequence[Array] = ()
) -> Any:
    """Return the reduction over all taps of every window.

    Args:
      reads: what windows read of each of ``arrays``.
      fold: the reduction.
      arrays: of one shape.
      others: an entry for each window.
    """
    in_turn, at_once = (functools.partial(f, reads, fold) for f in (_in_turn, _at_once))
    on_gpu = at_once if reads.has_flat_indices(arrays[0]) else in_turn
    functions = {"cpu": in_turn, "gpu": on_gpu, "tpu": in_turn}
    return by_platform(functions, tuple(arrays), tuple(others))


def _in_turn(reads: Reads, fold: Fold, arrays: tuple[Array, ...], others: tuple[Array, ...]) -> Any:
    state = jax.tree.map(functools.partial(jnp.full, reads.shape), fold.start)
    arrays, others, state = varying_alike((arrays, others, state))

    def step(number: Array, elements: tuple[Array, ...], state: Any) -> Any:
        return fold.combine(state, fold.value(number, *elements, *others))

    return _walk(reads, step, state, arrays)


def walk(
    x: Array, geometry: Geometry, step: Callable[[Array, Array, State], State], state: State
) -> State:
    """Return ``step(offset, elements at that offset, state)`` over all offsets, row-major.

    Elements of padding are 0. The loop is unrolled for small windows.
    """
    padded = pad_all(x, geometry, np.zeros((), x.dtype))
    padded, state = varying_alike((padded, state))
    one = lambda offset, elements, state: step(offset, elements[0], state)  # noqa: E731
    unroll = geometry.taps <= tuning.MOST_SLICED_OFFSETS or tuning.OFFSETS_AT_ONCE
    reads = reads_of(geometry, geometry.full_shape(x.shape))
    return _walk(reads, one, state, (padded,), unroll)


def _walk(
    reads: Reads,
    step: Callable[[Array, tuple[Array, ...], State], State],
    state: State,
    arrays: tuple[Array, ...],
    unroll: bool | int = tuning.OFFSETS_AT_ONCE,
) -> State:
    """Return ``step(number of a tap, elements of arrays there, state)`` over all taps in turn."""

    def body(number: Array, state: State) -> State:
        number = jnp.asarray(number)  # an int under jax.disable_jit
        return step(number, tuple(reads.elements(a, number) for a in arrays), state)

    return lax.fori_loop(0, reads.taps, body, state, unroll=unroll)


def _at_once(reads: Reads, fold: Fold, arrays: tuple[Array, ...], others: tuple[Array, ...]) -> Any:
    numbers = lax.iota(np.int32, reads.taps)
    places = reads.first_indices(arrays[0])[:, None] + reads.flat_shifts(arrays[0], numbers)
    read = {"mode": "promise_in_bounds", "wrap_negative_indices": False}
    elements = [planes_of(a, reads.axes).at[:, places].get(**read) for a in arrays]
    beside = [planes_of(a, reads.axes)[:, :, None] for a in others]
    values = fold.value(numbers[:, None], *elements, *beside)
    found = lax.reduce(values, fold.start, fold.unordered or fold.combine, (2,))
    return jax.tree.map(lambda a: array_of(a, reads.shape, reads.axes), found)
