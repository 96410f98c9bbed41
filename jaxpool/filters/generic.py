"""Any function of a window: all taps of a window at once, a block of the result after the other.

An array of all taps of all windows would hold as many copies of the array as a window has taps.
Blocks of the result bound it. Their derivative makes a block anew, so reverse mode keeps none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .._errors import message, public, shown
from .._geometry.axis import cdiv
from .._geometry.resolve import check_known
from .._lowerings import tuning
from .._lowerings.parts.stack import stacked
from .._numerics.checks import function_of_the_user
from ._arguments import Extent, Neighborhood
from ._boundary import extend
from ._call import call_filter, filter_op
from ._windows import Taps, offsets_of, rectangle


@public
def generic_filter(
    x: ArrayLike,
    function: Callable[..., Any],
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    extra_arguments: Sequence[Any] = (),
    extra_keywords: Mapping[str, Any] | None = None,
    axes: int | Sequence[int] | None = None,
) -> Array:
    """A function of the neighbourhood of every element.

    ``y[i] = function([x[i + t] for t])``, ``t`` running in row-major order over a window of
    ``size`` taps, or over the places where ``footprint`` is True, whatever the order of ``axes``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      function: takes an array of one axis, the taps, and returns one number; made of JAX
        operations. It is traced once, so it must be a function of its arguments alone, and one that
        is defined anew for each call is compiled anew. Integers and booleans reach it as floats.
      size, footprint, mode, cval, origin, axes: as in :func:`maximum_filter`.
      extra_arguments: further arguments of ``function``, hashable.
      extra_keywords: further keyword arguments of ``function``, hashable.
    Returns:
      Array of the shape and dtype of ``x``; for integers the numbers are cut towards zero.
    Derivatives: those of ``function``, forward and reverse, to every order that it has.
    Edge cases: what ``function`` makes of NaN. Windows are laid out a block of the result at a
      time, so the memory does not grow with the window. An empty array gives an empty result.
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
    arguments = tuple(_static("extra_arguments", value) for value in extra_arguments)
    named = {key: _static("extra_keywords", v) for key, v in (extra_keywords or {}).items()}
    own = _checked(function), arguments, tuple(sorted(named.items()))
    return call_filter(_GENERIC, x, size, footprint, mode, cval, origin, axes, *own)


@dataclass(frozen=True)
class _Static:
    """An argument of the function, equal to those that mean the same program.

    1, 1.0 and True are equal to Python, and so are 0.0 and -0.0: numbers, and numbers in tuples and
    sets, are told apart.
    """

    key: Any
    value: Any = field(compare=False)


def _static(name: str, value: Any) -> _Static:
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            message(
                f"${name} holds {shown(value)}, which is not hashable.",
                f"Its type is {type(value).__name__}; the function is compiled for its arguments.",
                "Give numbers, words or tuples of them, or define the function with the value.",
            )
        ) from None
    return _Static(_key(value), value)


def _key(value: Any) -> Any:
    if isinstance(value, (tuple, frozenset)):
        inner = frozenset if isinstance(value, frozenset) else tuple
        return type(value), inner(map(_key, value))
    return type(value), repr(value) if isinstance(value, (float, complex, np.inexact)) else value


def _checked(function: Any) -> Callable[..., Any]:
    if callable(function):
        return function
    raise TypeError(
        message(
            f"$function = {shown(function)} cannot be called.",
            f"Its type is {type(function).__name__}; it takes the taps of one window.",
            "Give a function from an array of one axis to a number, such as jnp.std.",
        )
    )


def _generic(x: Array, hood: Neighborhood, own: tuple[Any, ...], other: Any) -> Array:
    check_known(x.shape)
    function = own[0]
    arguments = [static.value for static in own[1]]
    keywords = {key: static.value for key, static in own[2]}
    if not x.size:
        return x
    taps = Taps(hood.extents, offsets_of(hood), x.shape)
    real = x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(float)

    def of_windows(windows: Array) -> Array:
        flat = windows.reshape(-1, windows.shape[-1])
        with function_of_the_user("$function"):
            found = jax.vmap(lambda one: _number(function(one, *arguments, **keywords)))(flat)
        return found.reshape(windows.shape[:-1])

    extended = extend(real, hood.extents, hood.cval)
    y = _over_blocks(of_windows, extended, taps)
    return _rounded(y, np.dtype(x.dtype))


def _number(result: Any) -> Array:
    try:
        number = jnp.asarray(result)
        found = f"an array of shape {number.shape} and dtype {number.dtype}"
    except (TypeError, ValueError):
        number, found = None, shown(result)
    if number is not None and number.ndim == 0 and _is_real(number.dtype):
        return number
    raise TypeError(
        message(
            f"$function returned {found}.",
            "It takes the taps of one window and returns one real number.",
            "Reduce the taps to a number.",
        )
    )


def _is_real(dtype: Any) -> bool:
    is_number = jnp.issubdtype(dtype, jnp.number) or dtype == jnp.bool_
    return is_number and not jnp.issubdtype(dtype, jnp.complexfloating)


def _rounded(y: Array, dtype: np.dtype) -> Array:
    if jnp.issubdtype(dtype, jnp.integer) and jnp.issubdtype(y.dtype, jnp.floating):
        return y.astype(np.int64 if dtype.itemsize == 8 else np.int32).astype(dtype)
    return y.astype(dtype)


# --- blocks ---------------------------------------------------------------------------------------


def _over_blocks(function: Callable[[Array], Array], extended: Array, taps: Taps) -> Array:
    """Return ``function`` of the taps of every window, which it gets as the last axis."""
    extents = [extent for extent in taps.extents if extent.size > 1]
    filtered = {extent.position for extent in extents}
    others = set(range(-extended.ndim, 0)) - filtered
    whole = [*extents, *(Extent(position, 1, 0, "constant") for position in others)]
    order = sorted(whole, key=lambda extent: -taps.shape[extent.position])
    return _blocks(lambda slab: function(_taps_of(slab, taps)), extended, order, taps)


def _taps_of(slab: Array, taps: Taps) -> Array:
    """The taps of all windows of a slab as its last axis, row-major over the axes of the array."""
    sizes = [extent.size for extent in taps.extents]
    if not sizes:
        return slab[..., None]
    geometry = rectangle(slab.shape, taps.extents)
    order = np.argsort([extent.position for extent in taps.extents])
    shape = tuple(sizes[n] for n in order)
    numbers = np.sort(np.ravel_multi_index(tuple(taps.offsets.T[order]), shape))
    every = stacked(slab, geometry, np.zeros((), slab.dtype))
    return every if len(numbers) == every.shape[-1] else every[..., numbers]


def _blocks(
    function: Callable[[Array], Array], extended: Array, order: Sequence[Extent], taps: Taps
) -> Array:
    per_place = int(np.prod([extent.size for extent in taps.extents]))
    sizes = {extent.position: extent.size for extent in order}
    lengths = {p: extended.shape[p] - size + 1 for p, size in sizes.items()}
    places = int(np.prod(list(lengths.values())))
    if places * per_place <= tuning.MOST_TAPS_AT_ONCE or len(order) == 0:
        return function(extended)
    (extent, *rest), length = order, lengths[order[0].position]
    rows = max(1, min(length, tuning.MOST_TAPS_AT_ONCE // max(1, places // length * per_place)))
    starts = np.minimum(np.arange(cdiv(length, rows)) * rows, length - rows).astype(np.int32)

    @jax.checkpoint
    def block(start: Array) -> Array:
        count = rows + extent.size - 1
        slab = lax.dynamic_slice_in_dim(extended, start, count, extent.position % extended.ndim)
        return _blocks(function, slab, rest, taps)

    return _joined(lax.map(block, jnp.asarray(starts)), extent.position, length, rows)


def _joined(parts: Array, position: int, length: int, rows: int) -> Array:
    """Blocks in order along an axis; the last begins inside the one before it."""
    axis = position % (parts.ndim - 1)
    before = (len(parts) - 1) * rows
    last = lax.slice_in_dim(parts[-1], rows - (length - before), rows, axis=axis)
    first = jnp.moveaxis(parts[:-1], 0, axis)
    shape = (*first.shape[:axis], before, *first.shape[axis + 2 :])
    return lax.concatenate([first.reshape(shape), last], axis)


_GENERIC = filter_op("generic_filter", _generic)
