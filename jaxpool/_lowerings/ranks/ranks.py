"""The elements of given ranks in every window, and their offsets.

Three ways, by the windows:

* a network of comparators sorts windows of few elements, all windows at once;
* along one axis without gaps a wavelet matrix finds it, whose cost does not grow with the window
  (:mod:`.order_statistics`);
* in other windows of many elements its bits are found one after the other (:mod:`.radix_select`).

Windows that share an element need not agree on the one of a rank, so offsets may be any.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry
from ..._xla.by_platform import by_platform
from ..._xla.materialize import materialize
from ...reductions import MIN, filled, identity_array
from .. import tuning
from ..parts import joint
from ..parts.argreduce import ValueOffset, offset_dtype, same, sentinel
from ..parts.axis_slicing import each_offset, pad_all
from ..parts.every_tap import Fold, reads_of, reduce_taps
from ..parts.float_order import from_sort_keys, sort_keys
from ..parts.window_counts import short_dtype
from . import radix_select
from .order_statistics import kth_of_axis, ranges, running_count, with_nan
from .sorting_network import sorted_lanes


def ranked(x: Array, valid: Array | None, geometry: Geometry, *places: Any) -> list[Array]:
    """Return the elements at places of the sorted elements of every window; NaN, if there is one.

    Args:
      x: the array.
      valid: the elements that are there, or None for all.
      geometry: the windows.
      places: of each wanted element, from 0, less than the elements of the window: a NumPy array
        where they are known, or an array; of the rank of ``x``, and broadcast to the result.
    """
    x = filled(x, valid, MIN)
    if geometry.taps <= tuning.MOST_IN_NETWORK:
        identity = identity_array(MIN, np.dtype(x.dtype))
        sort = lambda read, x: _sorted(read(x, geometry, identity), places)  # noqa: E731
        return _by_reading(sort, geometry, x)
    single = _single_axis(geometry)
    if single is not None:
        return [_along(x, None, *single, place)[0] for place in _of_windows(places, geometry)]
    keys = _padded_keys(x, None, geometry)
    return [from_sort_keys(found, x.dtype) for found in _selected(keys, x.dtype, geometry, places)]


def argranked(x: Array, valid: Array | None, geometry: Geometry, *places: Any) -> list[ValueOffset]:
    """Return :func:`ranked`, each with the offset of the first element that is equal to it."""
    if geometry.taps <= tuning.MOST_IN_NETWORK:
        (x,) = materialize(x)  # XLA could compute x twice, and round it twice otherwise
        found = materialize(*ranked(x, valid, geometry, *places))
        return [(values, _first_equal(x, valid, values, geometry)) for values in found]
    single = _single_axis(geometry)
    if single is not None:
        return [_along(x, valid, *single, place) for place in _of_windows(places, geometry)]
    keys = _padded_keys(x, valid, geometry)
    found = _selected(keys, x.dtype, geometry, places)
    offsets = _first_keys(keys, valid, found, x.shape, geometry)
    return [(from_sort_keys(key, x.dtype), o) for key, o in zip(found, offsets, strict=True)]


def _of_windows(places: Sequence[Any], geometry: Geometry) -> tuple[Array, ...]:
    """The places with an entry for each window; the other axes stay as they are."""
    places = tuple(jnp.asarray(place, jnp.int32) for place in places)
    return tuple(jnp.broadcast_to(place, geometry.full_shape(place.shape)) for place in places)


# --- a network ------------------------------------------------------------------------------------


def _by_reading(f: Callable[..., Any], geometry: Geometry, *arrays: Array) -> Any:
    """``f`` of the way that a platform reads the elements at each offset, and of arrays.

    XLA:TPU makes slices in steps a kernel of their own.
    """
    slices = functools.partial(f, each_offset)

    def shifts(x: Array, *others: Array) -> Any:
        # What is computed of other shifts would be stored in their place.
        return f(joint.each_offset, x, *lax.optimization_barrier(others))

    functions = {"cpu": slices, "gpu": slices, "tpu": shifts if geometry.is_strided else slices}
    return by_platform(functions, *arrays)


def _sorted(elements: Iterable[Array], places: Sequence[Any]) -> list[Array]:
    ordered = sorted_lanes(list(elements))
    return [_chosen(ordered, place) for place in places]


def _chosen(ordered: Sequence[Array], places: Any) -> Array:
    known = isinstance(places, np.ndarray)
    choices = [int(n) for n in np.unique(places)] if known else range(len(ordered))
    y = ordered[choices[0]]
    for n in choices[1:]:
        y = jnp.where(places == n, ordered[n], y)
    return y


def _first_equal(x: Array, valid: Array | None, y: Array, geometry: Geometry) -> Array:
    """The offset of the first element of every window that is ``y``, or the sentinel."""
    dtype, zero = offset_dtype(geometry), np.zeros((), x.dtype)
    there = jnp.ones(x.shape, bool) if valid is None else valid

    def first(read: Callable[..., Any], x: Array, there: Array, y: Array) -> Array:
        offsets = jnp.full(y.shape, sentinel(dtype))
        slices = zip(read(x, geometry, zero), read(there, geometry, np.asarray(False)), strict=True)
        for offset, (element, valid) in list(enumerate(slices))[::-1]:
            offsets = jnp.where(valid & same(element, y), np.asarray(offset, dtype), offsets)
        return offsets

    return _by_reading(first, geometry, x, there, y)


# --- one axis -------------------------------------------------------------------------------------


def _single_axis(geometry: Geometry) -> tuple[Axis, int] | None:
    """The only axis along which windows have several elements, if these lie next to one another."""
    long = [(axis, position) for axis, position in geometry.placed if axis.kernel > 1]
    others = [axis for axis in geometry.axes if axis.kernel == 1]
    plain = all(axis.out == axis.size and not axis.pad_low for axis in others)
    return long[0] if len(long) == 1 and plain and long[0][0].dilation == 1 else None


def _along(x: Array, valid: Array | None, axis: Axis, position: int, places: Array) -> ValueOffset:
    x, places = (jnp.moveaxis(a, position, -1) for a in (x, places))
    valid = None if valid is None else jnp.moveaxis(valid, position, -1)
    starts, stops = ranges(axis)
    found = kth_of_axis(x, None if valid is None else ~valid, axis, places)
    if jnp.issubdtype(x.dtype, jnp.floating):
        found = with_nan(x if valid is None else jnp.where(valid, x, 0), starts, stops, found)
    values = jnp.take_along_axis(x, found, -1, mode="clip")
    first = lax.iota(jnp.int32, axis.out) * axis.stride - axis.pad_low
    dtype = offset_dtype(Geometry((axis,), (position,)))
    offsets = (found.astype(jnp.int32) - first).astype(dtype)
    offsets = jnp.where(_is_empty(valid, starts, stops), sentinel(offsets.dtype), offsets)
    return jnp.moveaxis(values, -1, position), jnp.moveaxis(offsets, -1, position)


def _is_empty(valid: Array | None, starts: Array, stops: Array) -> Array:
    if valid is None:
        return starts >= stops
    before = running_count(valid, jnp.int32)
    return jnp.take(before, starts, -1) == jnp.take(before, stops, -1)


# --- bit by bit -----------------------------------------------------------------------------------


def _padded_keys(x: Array, valid: Array | None, geometry: Geometry) -> Array:
    """The elements as integers in their order, those that are not there last."""
    identity = jnp.asarray(identity_array(MIN, np.dtype(x.dtype)))
    return pad_all(sort_keys(filled(x, valid, MIN)), geometry, sort_keys(identity))


def _selected(
    keys: Array, dtype: np.dtype, geometry: Geometry, places: Sequence[Any]
) -> list[Array]:
    shape, with_nan = geometry.full_shape(keys.shape), jnp.issubdtype(dtype, jnp.floating)
    reads = reads_of(geometry, shape)
    wanted = [jnp.broadcast_to(place, shape) for place in places]
    return [radix_select.kth(keys, with_nan, reads, place) for place in wanted]


def _first_keys(
    keys: Array,
    valid: Array | None,
    found: Sequence[Array],
    shape: tuple[int, ...],
    geometry: Geometry,
) -> list[Array]:
    """For each of the integers found: the offset of the first element of every window that is it.

    The sentinel of a window without an element. Stored integers are compared, so that no element is
    computed twice and rounded another way.
    """
    there = pad_all(jnp.ones(shape, bool) if valid is None else valid, geometry, np.asarray(False))
    held, dtype = short_dtype(geometry.taps), offset_dtype(geometry)
    dtype = held if dtype.itemsize > held.itemsize else dtype  # less for a gradient to hold
    last = np.asarray(np.iinfo(held).max, held)

    def offsets(number: Array, element: Array, there: Array, *found: Array) -> tuple[Array, ...]:
        return tuple(
            jnp.where(there & (element == key), number.astype(held), last) for key in found
        )

    def earlier(a: tuple[Array, ...], b: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(map(lax.min, a, b))

    reads = reads_of(geometry, found[0].shape)
    fold = Fold(offsets, (last,) * len(found), earlier)
    firsts = reduce_taps(reads, fold, (keys, there), found)
    return [jnp.where(first == last, sentinel(dtype), first.astype(dtype)) for first in firsts]
