"""What an op is to the code that calls and compiles it, also over windows of symbolic sizes.

Where an op knows no windows of such sizes, it takes windows of an array with its padding around it.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import max_dim

from .._geometry import layout as layouts
from .._geometry.axis import Axis
from .._geometry.resolve import Geometry
from .._geometry.symbolic import Ends, ends_of, inner_window
from .._lowerings.parts.axis_slicing import pad
from .._lowerings.parts.borders import extended
from .._numerics.checks import check_where


@dataclass(frozen=True, eq=False)
class Op:
    """An op on arrays.

    Attributes:
      name: of the compiled function, as profiles and HLO show it.
      body: the traced part, ``body(x, *others, **canonical)``. The canonical arguments are
        ``config``, if the op has windows, and its options.
      canonicalize: checks the options as written and returns canonical ones, hashable.
      arrays: names of the arrays beside ``x``, any of which may be None.
      per_element: those of them with a number for each element, or of length 1 on an axis.
      is_random: whether it draws numbers, as many as windows.
      convert: what makes window offsets the indices that its options name, of an op that returns
        both values and indices: ``convert(offsets, shape, geometry, masked=.., **options)``. Where
        its option ``index_space`` is "window", the op returns the offsets themselves.
      padding: of its options, what its padding is: None, nothing; "constant", zeros that count; or
        a border of ``_lowerings.parts.borders``.
      has_reduction: whether its option ``reduction`` is a reduction, of a caller maybe.
      is_twofold: whether it has windows over the results of windows.
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
    is_twofold: bool = False

    @property
    def takes_any_size(self) -> bool:
        """Whether what its windows read depends on no size, but for what its padding is."""
        return self.arrays[:1] == ("where",) and not self.is_random and not self.is_twofold


def over_any_size(op: Op, config: Any, options: dict[str, Any]) -> Callable[..., Any]:
    """Return ``body(x, where, *others)`` of an op, also for sizes at which it knows no windows.

    To the body padding is what ``where`` leaves out.
    """
    direct = functools.partial(op.body, config=config, **options)

    def run(x: Array, where: Any, *others: Any) -> Any:
        if all(isinstance(size, int) for size in x.shape):
            return direct(x, where, *others)
        positions = layouts.pooled_axes(config.data_format, len(config.window.kernel), x.shape)
        sizes = [x.shape[position] for position in positions]
        ends = [around and _not_negative(around) for around in ends_of(config.window, sizes)]
        around = {p: e for p, e in zip(positions, ends, strict=True) if e}
        if not around:
            return direct(x, where, *others)
        inner = replace(config, window=inner_window(config.window, sizes, ends))
        arrays = _wide(op, (x, where, *others), around, op.padding and op.padding(**options))
        inside = options if op.convert is None else _in_windows(options)
        made = _cropped(op.body(*arrays, config=inner, **inside), x.ndim, around)
        if op.convert is None:
            return made
        values, taps = made
        own = Geometry(_own_axes(inner.geometry(arrays[0].shape), ends), positions)
        return values, op.convert(taps, x.shape, own, masked=True, **options)

    return run


def _not_negative(ends: Ends) -> Ends:
    """With no window where none fits, as ``lax.reduce_window`` has it."""
    return ends._replace(axis=replace(ends.axis, out=max_dim(ends.axis.out, 0)))


def _in_windows(options: dict[str, Any]) -> dict[str, Any]:
    """The options, with window offsets for indices: those do not depend on what is around."""
    return {**options, "index_space": "window", "index_dtype": None}


def _own_axes(geometry: Geometry, ends: Sequence[Ends | None]) -> tuple[Axis, ...]:
    pairs = zip(geometry.axes, ends, strict=True)
    return tuple(around.axis if around else axis for axis, around in pairs)


# --- an array with its padding around it ----------------------------------------------------------


def _wide(
    op: Op, arrays: tuple[Any, ...], around: dict[int, Ends], padding: str | None
) -> list[Any]:
    """The arrays of an op with padding around them, and a mask that leaves it out if it is nothing.

    ``padding``: what it is, as an op says.
    """
    x, where, *others = arrays
    if padding not in (None, "constant"):
        valid = check_where(where, x.shape)
        return [a if a is None else _go_on(a, around, padding) for a in (x, valid)]
    beside = [
        _put_around(a, _as_long(a, x, around), 0) if name in op.per_element else a
        for name, a in zip(op.arrays[1:], others, strict=True)
    ]
    mask = _mask(check_where(where, x.shape), x, around, padding is not None)
    return [_put_around(x, around, 0), mask, *beside]


def _mask(valid: Array | None, x: Array, around: dict[int, Ends], counted: bool) -> Array | None:
    """What is there: not the padding, unless it is counted."""
    pads = any(not isinstance(n, int) or n for e in around.values() for n in (e.low, e.high))
    if valid is None and (counted or not pads):
        return None
    return _put_around(jnp.ones(x.shape, bool) if valid is None else valid, around, int(counted))


def _as_long(a: Array, x: Array, around: dict[int, Ends]) -> dict[int, Ends]:
    """Of the axes with padding those on which an array that broadcasts to ``x`` is as long."""
    return {p: e for p, e in around.items() if -p <= a.ndim and a.shape[p] == x.shape[p]}


def _put_around(a: Array, around: dict[int, Ends], value: int) -> Array:
    config: list[tuple[Any, Any, int]] = [(0, 0, 0)] * a.ndim
    for position, ends in around.items():
        config[position] = (ends.low, ends.high + ends.more, 0)
    return lax.pad(a, np.asarray(value, a.dtype), config)


def _go_on(a: Array, around: dict[int, Ends], border: str) -> Array:
    """An array that goes on past its ends, with as much of the border as any size may take."""
    for position, ends in around.items():
        most = [n if isinstance(n, int) else ends.axis.span // 2 for n in (ends.low, ends.high)]
        a = extended(a, position, most[0], most[1], border)
        a = pad(a, position, ends.low - most[0], ends.high - most[1] + ends.more,
                np.zeros((), a.dtype))  # fmt: skip
    return a


# --- and what is made of it -----------------------------------------------------------------------


def _cropped(made: Any, rank: int, around: dict[int, Ends]) -> Any:
    """The results of the windows that there are; arrays may have more axes behind."""

    def cropped(y: Array) -> Array:
        for position, ends in around.items():
            y = lax.slice_in_dim(y, 0, ends.axis.out, axis=position + rank)
        return y

    return jax.tree.map(cropped, made)
