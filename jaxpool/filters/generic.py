"""An arbitrary function of all taps of a window, mapped over blocks of the result.

An array of all taps of all windows is larger than the input by the number of taps. Computing the
result in blocks bounds that array. Reverse mode recomputes each block instead of storing it.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary, ref

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .._errors import message, public, shown
from .._geometry.arguments import Integers, entries_of, is_sequence
from .._geometry.axis import cdiv
from .._geometry.resolve import check_known
from .._lowerings import tuning
from .._lowerings.parts.stack import stack_taps
from .._numerics.checks import explaining_tracer_errors, is_real
from ..ops._op import Op
from ._arguments import Extent, Mode, Neighborhood
from ._boundary import extend
from ._call import FilterArguments, call_filter, filter_op
from ._casts import cast_as_numpy
from ._windows import Taps, window_geometry


@public
def generic_filter(
    x: ArrayLike,
    function: Callable[..., Any],
    size: Integers | None = None,
    footprint: Any = None,
    *,
    mode: Mode | Sequence[Mode] = "reflect",
    cval: float = 0.0,
    origin: Integers = 0,
    extra_arguments: Sequence[Any] = (),
    extra_keywords: Mapping[str, Any] | None = None,
    axes: Integers | None = None,
) -> Array:
    """Apply a function to the neighbourhood of every element.

    ``y[i] = function([x[i + t] for t])``, where ``t`` runs over a window of ``size`` taps, or over
    the True entries of ``footprint``. The taps are row-major in the axes of ``x``, whatever the
    order of ``axes``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      function: maps an array of one axis, the taps, to one number, by JAX operations. It is traced
        once, so it must be pure; a function that is redefined for each call is recompiled for each
        call. Integers and booleans are converted to floats.
      size, footprint, mode, cval, origin, axes: as in :func:`maximum_filter`.
      extra_arguments: further arguments of ``function``, hashable; they are kept as long as
        ``function``, with the programs compiled for them.
      extra_keywords: further keyword arguments of ``function``, likewise.
    Returns:
      Array of the shape and dtype of ``x``; for integers and booleans the results are truncated
      towards zero.
    Derivatives: forward and reverse, of any order that ``function`` has.
    Edge cases: ``function`` determines the effect of NaN. The taps are gathered for one block of
      the result at a time, so the memory does not grow with the window. An empty array gives an
      empty result.
    Raises:
      TypeError, ValueError: as :func:`maximum_filter`; TypeError also if ``function`` cannot be
        called or does not return one number.
    References: scipy.ndimage ``generic_filter``.
    Example:
      >>> generic_filter(jnp.array([1.0, 5.0, 2.0, 3.0]), jnp.ptp, 3)
      Array([4., 4., 3., 1.], dtype=float32)
      >>> def power_mean(taps, p):
      ...     return (taps**p).mean() ** (1 / p)
      >>> generic_filter(jnp.array([3.0, 4.0, 0.0]), power_mean, 2, extra_arguments=(2,))
      Array([3.      , 3.535534, 2.828427], dtype=float32)
    """
    extra, named = _extra_arguments(extra_arguments), _extra_keywords(extra_keywords)
    op = _op_of(_check_callable(function))
    arguments = FilterArguments(size, footprint, mode, cval, origin, axes)
    return call_filter(op, x, arguments, extra, named)


def _extra_arguments(values: Any) -> tuple[Any, ...]:
    if not is_sequence(values):
        raise TypeError(
            message(
                f"$extra_arguments = {shown(values)} is not a sequence.",
                "Its entries are passed to the function after the taps.",
                f"Give ({shown(values)},) for one argument.",
            )
        )
    return tuple(
        _static("extra_arguments", value) for value in entries_of("extra_arguments", values)
    )


def _extra_keywords(values: Any) -> tuple[tuple[str, Any], ...]:
    values = {} if values is None else values
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise TypeError(
            message(
                f"$extra_keywords = {shown(values)} does not map names to arguments.",
                "Its entries are passed to the function by name.",
                'Give a dict, such as {"p": 2}.',
            )
        )
    return tuple(sorted((name, _static("extra_keywords", values[name])) for name in values))


@dataclass(frozen=True)
class _Static:
    """A hashable argument of the function, equal only to arguments that trace to the same program.

    Python treats 1, 1.0 and True as equal, and 0.0 and -0.0. The key distinguishes such numbers,
    also inside tuples and frozensets.
    """

    key: Any
    value: Any = field(compare=False)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _static(name: str, value: Any) -> _Static:
    if not _is_hashable(value):
        raise TypeError(
            message(
                f"${name} contains {shown(value)}, which is not hashable.",
                f"Its type is {type(value).__name__}; the function is compiled for its arguments.",
                "Give numbers, strings or tuples of them, or close over the value in the function.",
            )
        )
    return _Static(_program_key(value), value)


def _program_key(value: Any) -> Any:
    if isinstance(value, (tuple, frozenset)):
        container = frozenset if isinstance(value, frozenset) else tuple
        return type(value), container(map(_program_key, value))
    return type(value), repr(value) if isinstance(value, (float, complex, np.inexact)) else value


def _check_callable(function: Any) -> Callable[..., Any]:
    if not callable(function):
        raise TypeError(
            message(
                f"$function = {shown(function)} cannot be called.",
                f"Its type is {type(function).__name__}; it must accept the taps of one window.",
                "Give a function from a 1-D array to a number, such as jnp.std.",
            )
        )
    if not _is_hashable(function):
        raise TypeError(
            message(
                f"$function = {shown(function)} is not hashable.",
                f"Its type is {type(function).__name__}; the filter is compiled for the function.",
                "Give a function that calls it, or define __hash__.",
            )
        )
    return function


def _generic(
    x: Array,
    neighborhood: Neighborhood,
    function: Callable[..., Any],
    arguments: tuple[_Static, ...],
    keywords: tuple[tuple[str, _Static], ...],
) -> Array:
    check_known(x.shape)
    positional = [static.value for static in arguments]
    named = {key: static.value for key, static in keywords}
    if not x.size:
        return x
    taps = Taps.of(neighborhood, x.shape)
    as_float = x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(float)

    def apply(windows: Array) -> Array:
        rows = windows.reshape(-1, windows.shape[-1])
        with explaining_tracer_errors("$function"):
            values = jax.vmap(lambda one: _check_result(function(one, *positional, **named)))(rows)
        return values.reshape(windows.shape[:-1])

    extended = extend(as_float, neighborhood.extents, neighborhood.cval)
    y = _over_blocks(apply, extended, taps)
    return cast_as_numpy(y, x.dtype)


def _check_result(result: Any) -> Array:
    try:
        number = jnp.asarray(result)
        description = f"an array of shape {number.shape} and dtype {number.dtype}"
    except (TypeError, ValueError):
        number, description = None, shown(result)
    if number is not None and number.ndim == 0:
        if is_real(number.dtype) or number.dtype == jnp.bool_:
            return number
    raise TypeError(
        message(
            f"$function returned {description}.",
            "It takes the taps of one window and returns one real number.",
            "Reduce the taps to a number.",
        )
    )


# --- blocks ---------------------------------------------------------------------------------------


def _over_blocks(function: Callable[[Array], Array], extended: Array, taps: Taps) -> Array:
    """Return ``function`` of every window, called with the taps as the last axis of an array."""
    extents = [extent for extent in taps.extents if extent.size > 1]
    filtered = {extent.position for extent in extents}
    batch_axes = set(range(-extended.ndim, 0)) - filtered
    all_extents = [*extents, *(Extent(position, 1, 0, "constant") for position in batch_axes)]
    order = sorted(all_extents, key=lambda extent: -taps.shape[extent.position])
    return _map_blocks(lambda slab: function(_taps_of(slab, taps)), extended, order, taps)


def _taps_of(slab: Array, taps: Taps) -> Array:
    """Return the taps of all windows of a slab as a new last axis, row-major."""
    sizes = [extent.size for extent in taps.extents]
    if not sizes:
        return slab[..., None]
    geometry = window_geometry(slab.shape, taps.extents)
    order = np.argsort([extent.position for extent in taps.extents])
    shape = tuple(sizes[n] for n in order)
    numbers = np.sort(np.ravel_multi_index(tuple(taps.offsets.T[order]), shape))
    stacked_taps = stack_taps(slab, geometry, np.zeros((), slab.dtype))
    return stacked_taps if len(numbers) == stacked_taps.shape[-1] else stacked_taps[..., numbers]


def _map_blocks(
    function: Callable[[Array], Array], extended: Array, axes: Sequence[Extent], taps: Taps
) -> Array:
    """Return ``function(extended)``, computed in bounded blocks along ``axes``."""
    taps_per_window = int(np.prod([extent.size for extent in taps.extents]))
    sizes = {extent.position: extent.size for extent in axes}
    lengths = {p: extended.shape[p] - size + 1 for p, size in sizes.items()}
    windows = int(np.prod(list(lengths.values())))
    if windows * taps_per_window <= tuning.MAX_TAPS_AT_ONCE or len(axes) == 0:
        return function(extended)
    (extent, *remaining), length = axes, lengths[axes[0].position]
    rows = max(
        1, min(length, tuning.MAX_TAPS_AT_ONCE // max(1, windows // length * taps_per_window))
    )
    starts = np.minimum(np.arange(cdiv(length, rows)) * rows, length - rows).astype(np.int32)

    @jax.checkpoint
    def block(start: Array) -> Array:
        count = rows + extent.size - 1
        slab = lax.dynamic_slice_in_dim(extended, start, count, extent.position % extended.ndim)
        return _map_blocks(function, slab, remaining, taps)

    return _concatenate_blocks(lax.map(block, jnp.asarray(starts)), extent.position, length, rows)


def _concatenate_blocks(blocks: Array, position: int, length: int, rows: int) -> Array:
    """Return the blocks concatenated along an axis; the last block overlaps the one before it."""
    axis = position % (blocks.ndim - 1)
    full_length = (len(blocks) - 1) * rows
    last = lax.slice_in_dim(blocks[-1], rows - (length - full_length), rows, axis=axis)
    first = jnp.moveaxis(blocks[:-1], 0, axis)
    shape = (*first.shape[:axis], full_length, *first.shape[axis + 2 :])
    return lax.concatenate([first.reshape(shape), last], axis)


# --- the op of a function -------------------------------------------------------------------------


_OPS: WeakKeyDictionary[Callable[..., Any], Op] = WeakKeyDictionary()
"""The op of each function; it refers to the function weakly, and is freed with it."""


def _op_of(function: Callable[..., Any]) -> Op:
    """Return the op that applies a function, which keeps the programs compiled for it."""
    equals_only_itself = type(function).__eq__ is object.__eq__
    if not equals_only_itself or not type(function).__weakrefoffset__:
        return _op_of_equal_functions(function)
    return _OPS.get(function) or _OPS.setdefault(function, _op_of_reference(ref(function)))


@functools.lru_cache(maxsize=64)
def _op_of_equal_functions(function: Callable[..., Any]) -> Op:
    """Return the op of a function that may be equal to those of later calls, such as a method."""
    return _op_of_reference(lambda: function)


def _op_of_reference(reference: Callable[[], Any]) -> Op:
    def body(x: Array, neighborhood: Neighborhood, *arguments: Any) -> Array:
        return _generic(x, neighborhood, reference(), *arguments)

    return replace(filter_op("generic_filter", body), cached_results={})
