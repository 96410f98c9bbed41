"""The class that describes an op to the dispatcher, and ops over axes of symbolic size.

If the geometry of windows over a symbolic size cannot be resolved, the array is padded first, and
the op runs on the padded array with windows that have no padding.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.core import max_dim

from .._geometry.resolve import Geometry, is_static
from .._geometry.symbolic import Ends, ends_of, inner_window
from .._lowerings.parts.axis_slicing import pad, pad_axes
from .._lowerings.parts.borders import extend_axis
from .._numerics.checks import check_where


@dataclass(frozen=True, eq=False)
class Op:
    """An op on arrays.

    Attributes:
      name: the name of the compiled function, which profiles and HLO show.
      body: the traced part, ``body(x, *others, **canonical)``. The canonical arguments are
        ``config``, if the op has windows, and its options.
      canonicalize: checks the options that the caller passed and returns hashable canonical ones.
      arrays: the names of the arrays in addition to ``x``, any of which may be None.
      per_element: the names of the arrays that broadcast to ``x``: on an axis they have its length
        or length 1.
      is_random: whether it draws random numbers for its windows.
      convert: for an op whose body returns values and window offsets, the function that converts
        the offsets to indices: ``convert(offsets, shape, geometry, masked=.., **space)``. The
        option ``space`` of such an op contains pairs of a name and a value.
      padding: a function of its options that says what padding holds: None, no elements;
        "constant", zeros that count; or a border of ``_lowerings.parts.borders``.
      has_reduction: whether it has an option ``reduction``, which may be a caller's own reduction.
      cached_results: the compiled programs of an op that is made for a function of the caller, and
        is freed with the function; None for all other ops, which share their caches.
      has_nested_windows: whether it has windows over the results of windows.
      finish: a function ``finish(results, **options)`` applied to the results, such as one that
        removes axes. The remaining axes keep shardings that are part of types.
    """

    name: str
    body: Callable[..., Any]
    canonicalize: Callable[..., dict[str, Any]] = dict
    arrays: tuple[str, ...] = ("where",)
    per_element: tuple[str, ...] = ()
    is_random: bool = False
    convert: Callable[..., Any] | None = None
    padding: Callable[..., str | None] | None = None
    has_reduction: bool = False
    has_nested_windows: bool = False
    finish: Callable[..., Any] | None = None
    cached_results: dict[Any, Any] | None = None

    @property
    def takes_any_size(self) -> bool:
        """Whether padding of the array can replace padding of the windows, for symbolic sizes.

        This requires that windows read the same elements at every size, except for the padding.
        """
        return self.arrays[:1] == ("where",) and not self.is_random and not self.has_nested_windows


def for_symbolic_sizes(op: Op, config: Any, options: dict[str, Any]) -> Callable[..., Any]:
    """Return a function ``(x, where, *others)`` that computes an op for static and symbolic sizes.

    Arrays are padded on each pooled axis whose geometry cannot be resolved. ``where`` marks this
    padding as masked, unless it counts in the op. Window offsets do not depend on this padding, so
    they are converted to indices without it.
    """
    options = dict(options)
    space = dict(options.pop("space", ()))

    def run(x: Array, where: Any, *others: Any) -> Any:
        arrays, (axis_ends, inner) = (x, where, *others), _ends_and_inner(config, x.shape)
        if axis_ends:
            padding = op.padding and op.padding(**options)
            arrays = _padded_arrays(op, arrays, axis_ends, padding)
        results = _cropped(op.body(*arrays, config=inner, **options), x.ndim, axis_ends)
        if op.convert is None:
            return results
        values, offsets = results
        geometry, masked = inner.geometry(arrays[0].shape), bool(axis_ends) or where is not None
        axes = (axis_ends[p].axis if p in axis_ends else axis for axis, p in geometry.placed)
        unpadded = Geometry(tuple(axes), geometry.positions)
        return values, op.convert(offsets, x.shape, unpadded, masked=masked, **space)

    return run


def _ends_and_inner(config: Any, shape: tuple[int, ...]) -> tuple[dict[int, Ends], Any]:
    """Return the ends to add to axes, by position, and the configuration for the padded array."""
    if is_static(shape):
        return {}, config
    positions = config.pooled_axes(shape)
    sizes = [shape[position] for position in positions]
    ends = [e and _with_nonnegative_count(e) for e in ends_of(config.window, sizes)]
    axis_ends = {p: e for p, e in zip(positions, ends, strict=True) if e}
    if not axis_ends:
        return {}, config
    return axis_ends, replace(config, window=inner_window(config.window, sizes, ends))


def _with_nonnegative_count(ends: Ends) -> Ends:
    """Return ``ends`` with a window count of at least 0, as in ``lax.reduce_window``."""
    return ends._replace(axis=replace(ends.axis, out=max_dim(ends.axis.out, 0)))


# --- padding of the arrays ------------------------------------------------------------------------


def _padded_arrays(
    op: Op, arrays: tuple[Any, ...], axis_ends: dict[int, Ends], padding: str | None
) -> list[Any]:
    """Return the arrays of an op with explicit padding, and a mask of the elements that count.

    ``padding`` says what the padding holds, see :class:`Op`.
    """
    x, where, *others = arrays
    if padding not in (None, "constant"):
        valid = check_where(where, x.shape)
        return [a if a is None else _extended_by_border(a, axis_ends, padding) for a in (x, valid)]
    padded_others = [
        _padded(a, _axes_to_pad(a, x, axis_ends), 0) if name in op.per_element else a
        for name, a in zip(op.arrays[1:], others, strict=True)
    ]
    mask = _mask(check_where(where, x.shape), x, axis_ends, padding is not None)
    return [_padded(x, axis_ends, 0), mask, *padded_others]


def _mask(valid: Array | None, x: Array, axis_ends: dict[int, Ends], counted: bool) -> Array | None:
    """Return the mask with padding, True there if padding counts; None if it would be all True."""
    axes = [ends.axis for ends in axis_ends.values()]
    pads = any(not isinstance(n, int) or n for a in axes for n in (a.pad_low, a.pad_high))
    if valid is None and (counted or not pads):
        return None
    return _padded(jnp.ones(x.shape, bool) if valid is None else valid, axis_ends, int(counted))


def _axes_to_pad(a: Array, x: Array, axis_ends: dict[int, Ends]) -> dict[int, Ends]:
    """Return the axes to pad of an array that broadcasts to ``x``: those as long as in ``x``."""
    return {p: e for p, e in axis_ends.items() if -p <= a.ndim and a.shape[p] == x.shape[p]}


def _padded(a: Array, axis_ends: dict[int, Ends], value: int) -> Array:
    margins = {p: (e.axis.pad_low, e.axis.pad_high + e.more, 0) for p, e in axis_ends.items()}
    return pad_axes(a, margins, value)


def _extended_by_border(a: Array, axis_ends: dict[int, Ends], border: str) -> Array:
    """Return an array extended by a border.

    A symbolic padding is at most half the span, so half the span is added and then cropped.
    """
    for position, (axis, more) in axis_ends.items():
        pads = axis.pad_low, axis.pad_high
        low, high = (n if isinstance(n, int) else axis.span // 2 for n in pads)
        a = extend_axis(a, position, low, high, border)
        a = pad(a, position, axis.pad_low - low, axis.pad_high - high + more)
    return a


# --- cropping of the results ----------------------------------------------------------------------


def _cropped(results: Any, rank: int, axis_ends: dict[int, Ends]) -> Any:
    """Return the results without the additional windows at the end of each padded axis.

    Arrays have the ``rank`` axes of the input, and possibly more axes after those.
    """

    def crop(y: Array) -> Array:
        for position, ends in axis_ends.items():
            y = lax.slice_in_dim(y, 0, ends.axis.out, axis=position + rank)
        return y

    return jax.tree.map(crop, results)
