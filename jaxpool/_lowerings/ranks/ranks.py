"""The elements at given indices of every sorted window, and their offsets.

There are three ways to compute them, chosen by the windows:

* a sorting network for windows of few elements, which sorts all windows elementwise;
* a wavelet matrix for long windows along one axis without dilation, whose cost does not grow with
  the window (:mod:`.order_statistics`);
* a bitwise search for other windows of many elements (:mod:`.radix_select`).

The argmax of a window is the argmax of every smaller window that contains it. Other order
statistics have no such property, so a gather or scatter must accept their offsets as arbitrary.
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
from ...reductions import MIN, byte_dtype, identity_array, mask_with_identity
from .. import tuning
from ..parts import joint
from ..parts.argreduce import ValueOffset, equal_or_both_nan, offset_dtype, sentinel
from ..parts.axis_slicing import each_offset, is_padded, pad_to_windows
from ..parts.every_tap import Fold, reads_of, reduce_taps
from ..parts.float_order import from_sort_keys, sort_keys
from ..parts.window_counts import NumberPerWindow, smallest_index_dtype
from . import radix_select
from .order_statistics import kth_of_axis, replace_by_first_nan, running_count, window_ranges
from .sorting_network import sorted_lanes


def ranked(
    x: Array, valid: Array | None, geometry: Geometry, *places: NumberPerWindow
) -> list[Array]:
    """Return, for each of ``places``, the element there of every sorted window.

    A window that contains a NaN has the result NaN.

    Args:
      x: the array.
      valid: mask of the elements that count, or None for all.
      geometry: the windows.
      places: indices from 0 to less than the number of elements of the window, in arrays of the
        rank of ``x``.
    """
    x = mask_with_identity(x, valid, MIN)
    if geometry.taps <= tuning.MAX_IN_NETWORK:
        identity = identity_array(MIN, x.dtype)
        sort = lambda read, x: _sorted(read(x, geometry, identity), places)  # noqa: E731
        return _by_reading(sort, geometry, x)
    single = _single_axis(geometry)
    if single is not None:
        return [y for y, _ in _kth_on_axis(x, None, *single, _per_window(places, geometry))]
    keys = _padded_keys(x, None, geometry)
    return [from_sort_keys(key, x.dtype) for key in _kth_keys(keys, x.dtype, geometry, places)]


def argranked(
    x: Array, valid: Array | None, geometry: Geometry, *places: NumberPerWindow
) -> list[ValueOffset]:
    """Return the values of :func:`ranked`, each with the offset of the first equal element."""
    if geometry.taps <= tuning.MAX_IN_NETWORK:
        x = materialize(x)  # or XLA could compute x twice, with different rounding
        selected = materialize(_ranked_apart(x, valid, geometry, places))
        return [(values, _first_equal_of_few(x, valid, values, geometry)) for values in selected]
    single = _single_axis(geometry)
    if single is not None:
        return _kth_on_axis(x, valid, *single, _per_window(places, geometry))
    keys = _padded_keys(x, valid, geometry)
    selected = _kth_keys(keys, x.dtype, geometry, places)
    if valid is not None or is_padded(geometry):
        valid = jnp.ones(x.shape, bool) if valid is None else valid
        valid = pad_to_windows(valid, geometry)
    offsets = _first_equal_keys(keys, valid, selected, x.dtype, geometry)
    return [(from_sort_keys(key, x.dtype), o) for key, o in zip(selected, offsets, strict=True)]


def _per_window(places: Sequence[NumberPerWindow], geometry: Geometry) -> tuple[Array, ...]:
    """Broadcast the places to an entry for each window along the pooled axes only."""
    arrays = tuple(jnp.asarray(place.array, jnp.int32) for place in places)
    return tuple(jnp.broadcast_to(array, geometry.full_shape(array.shape)) for array in arrays)


# --- a network ------------------------------------------------------------------------------------


def _by_reading(f: Callable[..., Any], geometry: Geometry, *arrays: Array) -> Any:
    """Return ``f(read, *arrays)``, with the platform's function to read the elements per offset.

    XLA:TPU would make a separate kernel of every strided slice, so it reads by pads.
    """
    slices = functools.partial(f, each_offset)

    def pads(x: Array, *others: Array) -> Any:
        # Otherwise XLA would store what is computed from other shifts in place of these arrays.
        return f(joint.each_offset, x, *lax.optimization_barrier(others))

    return by_platform(*arrays, tpu=pads if geometry.is_strided else slices, default=slices)


def _sorted(elements: Iterable[Array], places: Sequence[NumberPerWindow]) -> list[Array]:
    ordered = sorted_lanes(list(elements))
    return [_select_places(ordered, place) for place in places]


def _ranked_apart(
    x: Array, valid: Array | None, geometry: Geometry, places: Sequence[NumberPerWindow]
) -> list[Array]:
    """Return :func:`ranked`, on TPU by a network for each place.

    XLA:TPU would store the lanes of a large network with two results.
    """

    def apart(x: Array) -> list[Array]:
        results: list[Array] = []
        for place in places:
            x, *results = lax.optimization_barrier((x, *results))  # or XLA would find one network
            results += ranked(x, valid, geometry, place)
        return results

    at_once = lambda x: ranked(x, valid, geometry, *places)  # noqa: E731
    is_shared = len(places) == 1 or geometry.taps <= tuning.MAX_IN_SHARED_NETWORK
    return by_platform(x, tpu=at_once if is_shared else apart, default=at_once)


def _select_places(ordered: Sequence[Array], places: NumberPerWindow) -> Array:
    """Return the element of ``ordered`` that ``places`` names, elementwise."""
    choices = range(len(ordered)) if places.distinct is None else places.distinct.tolist()
    y = ordered[choices[0]]
    for n in choices[1:]:
        y = jnp.where(places.array == n, ordered[n], y)
    return y


def _first_equal_of_few(x: Array, valid: Array | None, y: Array, geometry: Geometry) -> Array:
    """Return the offset of the first element of every window that equals ``y``, or the sentinel."""
    dtype, mask = offset_dtype(geometry), jnp.ones(x.shape, bool) if valid is None else valid
    # The padding that _sorted has read: XLA (jaxlib 0.10) would mix up two paddings of one array.
    padding = identity_array(MIN, x.dtype)

    def first_offset(read: Callable[..., Any], x: Array, mask: Array, y: Array) -> Array:
        offsets = jnp.full(y.shape, sentinel(dtype))
        slices = zip(
            read(x, geometry, padding), read(mask, geometry, np.asarray(False)), strict=True
        )
        for offset, (element, valid) in list(enumerate(slices))[::-1]:
            offsets = jnp.where(
                valid & equal_or_both_nan(element, y), np.asarray(offset, dtype), offsets
            )
        return offsets

    return _by_reading(first_offset, geometry, x, mask, y)


# --- one axis -------------------------------------------------------------------------------------


def _single_axis(geometry: Geometry) -> tuple[Axis, int] | None:
    """Return the only axis along which windows have several taps, and its position, or None.

    None also if that axis is dilated or if the windows along other axes are padded or strided.
    """
    long = [(axis, position) for axis, position in geometry.placed if axis.kernel > 1]
    others = [axis for axis in geometry.axes if axis.kernel == 1]
    are_trivial = all(axis.out == axis.size and not axis.pad_low for axis in others)
    return long[0] if len(long) == 1 and are_trivial and long[0][0].dilation == 1 else None


def _kth_on_axis(
    x: Array, valid: Array | None, axis: Axis, position: int, places: Sequence[Array]
) -> list[ValueOffset]:
    """Return the values and offsets at each of ``places`` of the sorted windows along one axis."""
    to_last = lambda a: jnp.moveaxis(a, position, -1)  # noqa: E731
    narrow, valid = to_last(x), None if valid is None else to_last(valid)
    x = narrow.astype(byte_dtype(narrow.dtype))  # XLA:CPU (jaxlib 0.10 to 0.12) cannot sort int2
    starts, stops = window_ranges(axis)
    window_starts = lax.iota(jnp.int32, axis.out) * axis.stride - axis.pad_low
    is_empty, dtype = _is_empty(valid, starts, stops), offset_dtype(Geometry((axis,), (position,)))

    def value_and_offset(positions: Array) -> ValueOffset:
        if jnp.issubdtype(x.dtype, jnp.floating):
            valid_x = x if valid is None else jnp.where(valid, x, 0)
            positions = replace_by_first_nan(valid_x, starts, stops, positions)
        values = jnp.take_along_axis(x, positions, -1, mode="clip").astype(narrow.dtype)
        offsets = (positions.astype(jnp.int32) - window_starts).astype(dtype)
        offsets = jnp.where(is_empty, sentinel(dtype), offsets)
        return jnp.moveaxis(values, -1, position), jnp.moveaxis(offsets, -1, position)

    absent = None if valid is None else ~valid
    of_places = kth_of_axis(x, absent, axis, *map(to_last, places))
    return [value_and_offset(positions) for positions in of_places]


def _is_empty(valid: Array | None, starts: Array, stops: Array) -> Array:
    """Return whether each window along the last axis has no valid element."""
    if valid is None:
        return starts >= stops
    before = running_count(valid, jnp.int32)
    return jnp.take(before, starts, -1) == jnp.take(before, stops, -1)


# --- bit by bit -----------------------------------------------------------------------------------


def _padded_keys(x: Array, valid: Array | None, geometry: Geometry) -> Array:
    """Return the padded elements as integers in their order; invalid ones and padding are last."""
    keys = sort_keys(mask_with_identity(x, valid, MIN))
    return pad_to_windows(keys, geometry, _identity_key(x.dtype))


def _identity_key(dtype: np.dtype) -> Array:
    return sort_keys(jnp.asarray(identity_array(MIN, np.dtype(dtype))))


def _kth_keys(
    keys: Array, dtype: np.dtype, geometry: Geometry, places: Sequence[NumberPerWindow]
) -> list[Array]:
    """Return, for each of ``places``, the key there of every sorted window."""
    shape, with_nan = geometry.full_shape(keys.shape), jnp.issubdtype(dtype, jnp.floating)
    reads = reads_of(geometry, shape)
    wanted = [jnp.broadcast_to(place.array, shape) for place in places]
    return [radix_select.kth(keys, with_nan, reads, place) for place in wanted]


def _first_equal_keys(
    keys: Array,
    valid: Array | None,
    selected: Sequence[Array],
    dtype: np.dtype,
    geometry: Geometry,
) -> list[Array]:
    """Return, for each array of integers, the offset of the first equal element of every window.

    It is the sentinel in a window without an element. The integers that are compared are stored, so
    no element can be computed twice with different rounding.

    Padding and masked elements have the key of the identity. For a window whose element equals the
    identity, a second search reads a mask of such elements: XLA:GPU would store what one search
    reads of two arrays at every tap.

    Args:
      keys: the padded elements, from :func:`_padded_keys`.
      valid: the padded mask of the elements that count, or None for all.
      selected: the keys to find.
      dtype: the dtype of the elements.
      geometry: the windows.
    """
    firsts = [_first_equal(keys, key, geometry) for key in selected]
    if valid is None:
        return firsts
    identity = _identity_key(dtype)
    of_identity = _first_equal(
        valid & (keys == identity), jnp.ones_like(selected[0], bool), geometry
    )
    return [
        jnp.where(key == identity, of_identity, first)
        for key, first in zip(selected, firsts, strict=True)
    ]


def _first_equal(elements: Array, wanted: Array, geometry: Geometry) -> Array:
    """Return the offset of the first element of every window that equals ``wanted``."""
    short, dtype = smallest_index_dtype(geometry.taps), offset_dtype(geometry)
    dtype = short if dtype.itemsize > short.itemsize else dtype  # smaller residuals
    last = np.asarray(np.iinfo(short).max, short)

    def offset_if_equal(number: Array, element: Array, wanted: Array) -> Array:
        return jnp.where(element == wanted, number.astype(short), last)

    fold = Fold(offset_if_equal, last, lax.min)
    first = reduce_taps(reads_of(geometry, wanted.shape), fold, elements, (wanted,))
    return jnp.where(first == last, sentinel(dtype), first.astype(dtype))
