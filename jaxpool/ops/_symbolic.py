"""Ops over windows of symbolic sizes, by windows of an array with its padding around it."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
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
from .._numerics import indices
from .._numerics.checks import check_where

Body = Callable[..., Any]


def over_any_size(body: Body, config: Any, options: dict[str, Any]) -> Body:
    """Return ``body(x, where, *others)``, also for sizes at which it does not know its windows.

    To the body padding is what ``where`` leaves out.
    """
    direct = functools.partial(body, config=config, **options)

    def run(x: Array, where: Any, *others: Any) -> Any:
        if all(isinstance(size, int) for size in x.shape):
            return direct(x, where, *others)
        positions = layouts.pooled_axes(config.data_format, len(config.window.kernel), x.shape)
        sizes = [x.shape[position] for position in positions]
        ends = [around and _not_negative(around) for around in ends_of(config.window, sizes)]
        if not any(ends):
            return direct(x, where, *others)
        around = {p: e for p, e in zip(positions, ends, strict=True) if e}
        inner = replace(config, window=inner_window(config.window, sizes, ends))
        mask = _mask(check_where(where, x.shape), x, around, options)
        arrays = _put_around(x, around, 0), mask, *others
        made = body(*arrays, config=inner, **_taps(options))
        outs = {position + x.ndim: e.axis.out for position, e in around.items()}
        kept = jax.tree.map(functools.partial(_cropped, outs=outs), made)
        if "index_space" not in options:
            return kept
        values, taps = kept
        axes = _own_axes(inner.geometry(arrays[0].shape), ends)
        space = options["index_space"], options["index_dtype"]
        return values, indices.convert(
            taps, x.shape, Geometry(axes, positions), *space, masked=True
        )

    return run


def _not_negative(ends: Ends) -> Ends:
    """With no window where none fits, as ``lax.reduce_window`` has it."""
    return ends._replace(axis=replace(ends.axis, out=max_dim(ends.axis.out, 0)))


def _taps(options: dict[str, Any]) -> dict[str, Any]:
    """The options, with window offsets for indices: those do not depend on what is around."""
    if "index_space" not in options:
        return options
    return {**options, "index_space": "window", "index_dtype": None}


def _own_axes(geometry: Geometry, ends: Sequence[Ends | None]) -> tuple[Axis, ...]:
    pairs = zip(geometry.axes, ends, strict=True)
    return tuple(around.axis if around else axis for axis, around in pairs)


def _mask(
    valid: Array | None, x: Array, around: dict[int, Ends], options: dict[str, Any]
) -> Array | None:
    """What is there: not the padding, unless it counts in an average."""
    counts = options.get("count_include_pad", False)
    pads = any(not isinstance(n, int) or n for e in around.values() for n in (e.low, e.high))
    if valid is None and (counts or not pads):
        return None
    return _put_around(jnp.ones(x.shape, bool) if valid is None else valid, around, int(counts))


def _put_around(a: Array, around: dict[int, Ends], value: int) -> Array:
    config: list[tuple[Any, Any, int]] = [(0, 0, 0)] * a.ndim
    for position, ends in around.items():
        config[position] = (ends.low, ends.high + ends.more, 0)
    return lax.pad(a, np.asarray(value, a.dtype), config)


def _cropped(y: Array, outs: dict[int, Any]) -> Array:
    for axis, out in outs.items():
        y = lax.slice_in_dim(y, 0, out, axis=axis)
    return y
