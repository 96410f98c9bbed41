"""Pooling along an axis that is sharded over devices, inside ``jax.shard_map``.

Let an axis of ``L`` elements be divided into ``n`` shards of ``l = L / n`` elements. If
``out * stride = L``, shard ``p`` computes the windows ``p * m <= o < (p + 1) * m`` with
``m = l / stride``. For every ``p``, these windows start ``pad_low`` elements before the first
element of the shard and end ``span - stride - pad_low`` elements after its last element. A shard
needs these elements of its neighbours, its halo, and then pools locally without padding. At the two
ends of the axis, the halo is padding: zeros that the result ignores unless padding counts.

Outside ``shard_map`` no such function is needed: under ``jit`` with sharded arrays, the compiler
partitions every op of jaxpool without communication along batch and channel axes. There are four
exceptions. Pools of regions gather images, because a box may refer to any image. On CPU, maxima and
minima of long non-overlapping windows need an agreement of all devices on whether there may be a
NaN, and those at stride 1 along the last axis exchange elements of few sharded channels. Unpooling
by indices needs an agreement on whether an index is outside its window or block. If the indices
count a sharded axis, and one is outside its block, the devices exchange all indices.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from ._errors import counted, message, public, shown
from ._geometry.arguments import Integers
from ._geometry.axis import Axis
from ._geometry.layout import with_lengths
from ._geometry.resolve import Geometry
from ._geometry.window import Padding, Rounding
from ._lowerings.parts.argreduce import sentinel
from ._lowerings.parts.axis_slicing import concatenate, input_shape, iota, slice_axis
from ._numerics import indices as _indices
from ._numerics.checks import as_array, check_where
from .ops._dispatch import Configuration, WindowArguments, configure
from .ops.average import avg_pool, sum_pool
from .ops.max import max_pool, max_pool_with_argmax, min_pool

__all__ = [
    "pool_shards",
]


def __dir__() -> list[str]:
    return list(__all__)


_OPS = (max_pool, max_pool_with_argmax, min_pool, avg_pool, sum_pool)


@public
def pool_shards(
    op: Callable[..., Any],
    x: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    axis_names: str | None | Sequence[str | None],
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    **settings: Any,
) -> Any:
    """Pool an array whose pooled axes are sharded over devices, inside ``jax.shard_map``.

    Return this device's part of the result of ``op`` for the full array. Each sharded axis costs
    an exchange with the neighbour on each side on which windows leave the shard, and as many for a
    mask. Tiled windows need no exchange.

    Args:
      op: :func:`max_pool`, :func:`max_pool_with_argmax`, :func:`min_pool`, :func:`avg_pool` or
        :func:`sum_pool`.
      x: this device's part of the array.
      window_shape, strides, padding, dilations, rounding, data_format: as in :func:`max_pool`, for
        the full array.
      axis_names: for each pooled axis, the mesh axis that it is sharded over, or None; a single
        name applies to the first pooled axis.
      where: this device's part of the mask; it broadcasts to ``x``.
      settings: further settings of ``op`` except ``weights``. Indices count over the full array;
        ``index_space`` is "spatial" or "window".
    Returns:
      This device's part of the result: 1 / n of its length along an axis that n devices share.
    Derivatives: as for ``op``; the backward pass returns the cotangents of the halo to the
      neighbours, in as many exchanges.
    Raises:
      ValueError: the windows of an axis do not divide evenly among the shards, or need elements
        from beyond the neighbours; ``axis_names`` has a name that is not a mesh axis, or a name
        twice; ``index_space`` is an int, or ``weights`` are given.
      TypeError: ``op`` is not one of the ops above, or ``axis_names`` is neither a name, nor None,
        nor a sequence.
    Example:
      >>> mesh = jax.make_mesh((1,), ("space",))
      >>> rows = jax.P(None, "space")
      >>> pool = lambda x: pool_shards(
      ...     jaxpool.max_pool, x, (3, 3), 1, "SAME", axis_names="space")
      >>> pool = jax.shard_map(pool, mesh=mesh, in_specs=rows, out_specs=rows)
      >>> x = jax.device_put(jnp.ones((1, 8, 8, 3)), jax.NamedSharding(mesh, rows))
      >>> pool(x).shape
      (1, 8, 8, 3)
    """
    _check_op(op, settings)
    index_space = settings.get("index_space", "spatial")
    _check_space(index_space)
    arguments = window_shape, strides, padding, dilations, rounding, data_format
    config = configure(WindowArguments(*arguments))
    x = as_array("the array", x)
    names = _names(axis_names, len(config.window.kernel))
    full = _full_geometry(config, x.shape, names)
    where = check_where(where, x.shape)
    is_masked = where is not None
    x, where = _with_halos(x, where, full, names, _counts_padding(op, settings))
    padding_of_shard = tuple(
        (axis.pad_low, axis.pad_high) if name is None else (0, 0)
        for axis, name in zip(full.axes, names, strict=True)
    )
    window = replace(config.window, padding=padding_of_shard)
    pool_shard = functools.partial(
        op, x, window.kernel, window.strides, window.padding, dilations=window.dilations,
        rounding=rounding, data_format=config.data_format, where=where,
    )  # fmt: skip
    if op is not max_pool_with_argmax or index_space == "window":
        return pool_shard(**settings)
    dtype = _indices.check_dtype(settings.pop("index_dtype", None))
    values, offsets = pool_shard(**{**settings, "index_space": "window"})
    geometry = replace(config, window=window).geometry(x.shape)
    is_valid = offsets != sentinel(offsets.dtype) if is_masked or full.has_empty_window else None
    return values, _global_indices(offsets, is_valid, geometry, full, names, dtype)


def _check_op(op: Any, settings: dict[str, Any]) -> None:
    if not any(op is known for known in _OPS):
        raise TypeError(
            message(
                f"$op = {shown(op)} is not an op that supports shards.",
                f"The supported ops are {', '.join(known.__name__ for known in _OPS)}.",
                "Pass the function itself, for example jaxpool.max_pool.",
            )
        )
    if settings.get("weights") is not None:
        raise ValueError(
            message(
                "$weights cannot be used with shards.",
                "A shard would receive elements from its neighbours without their weights.",
                "Pool weights * x and weights with sum_pool, and divide the results.",
            )
        )


def _check_space(space: Any) -> None:
    if not isinstance(_indices.check_space(space), str):
        raise ValueError(
            message(
                f"$index_space = {space} counts batch or channel axes.",
                "How these axes are sharded is not known inside shard_map.",
                'Give "spatial" or "window".',
            )
        )


def _names(axis_names: Any, count: int) -> tuple[str | None, ...]:
    names = (axis_names,) if isinstance(axis_names, str) or axis_names is None else axis_names
    if not isinstance(names, Iterable):
        raise TypeError(
            message(
                f"$axis_names = {shown(axis_names)} is not a name of a mesh axis.",
                f"Its type is {type(axis_names).__name__}, neither text nor a sequence of texts.",
                'Give for example "rows", or ("rows", None) for two pooled axes.',
            )
        )
    names = tuple(itertools.islice(names, count + 1))  # an iterable may be endless
    if len(names) > count:
        raise ValueError(
            message(
                f"$axis_names = {shown(axis_names)} has {counted(len(names), 'entry')}.",
                f"The window has {count}, one for each pooled axis.",
                "Give a mesh axis for each sharded pooled axis, and None for each unsharded one.",
            )
        )
    mesh_axes = [name for name in names if name is not None]
    for name in mesh_axes:
        _check_mesh_axis(name)
    if len(set(mesh_axes)) < len(mesh_axes):
        raise ValueError(
            message(
                f"$axis_names = {shown(axis_names)} names a mesh axis twice.",
                "A mesh axis can shard only one axis of an array.",
                "Give a mesh axis for each sharded pooled axis, and None for each unsharded one.",
            )
        )
    return names + (None,) * (count - len(names))


def _check_mesh_axis(name: str) -> None:
    try:
        lax.axis_size(name)
    except (NameError, TypeError, ValueError):
        raise ValueError(
            message(
                f"$axis_names contains {shown(name)}, which is not a mesh axis here.",
                "Mesh axes are named only inside jax.shard_map.",
                "Call it inside jax.shard_map, and name a mesh axis that shards the array.",
            )
        ) from None


def _full_geometry(
    config: Configuration, shape: tuple[int, ...], names: tuple[str | None, ...]
) -> Geometry:
    """Return the geometry of the full array; raise unless its windows divide among the shards."""
    positions = config.pooled_axes(shape)
    shards = [1 if name is None else lax.axis_size(name) for name in names]
    lengths = [shape[position] * count for position, count in zip(positions, shards, strict=True)]
    full = config.geometry(with_lengths(shape, positions, lengths))
    # A geometry may replace the stride of a single window; shards divide by the given one.
    strides = config.window.strides
    axes = (replace(axis, stride=s) for axis, s in zip(full.axes, strides, strict=True))
    full = Geometry(tuple(axes), full.positions)
    for index, (axis, name) in enumerate(zip(full.axes, names, strict=True)):
        if name is not None:
            _check_windows_of_shard(axis, index, lax.axis_size(name))
    return full


def _check_windows_of_shard(axis: Axis, index: int, shards: int) -> None:
    """Raise unless the windows of pooled axis ``index`` can be computed with neighbours' halos."""
    _check_divides(axis, index, shards)
    _check_halo(axis, index, axis.size // shards)
    if axis.overhang:
        raise ValueError(
            message(
                f"the last window of pooled axis {index} extends past its padding.",
                f"It overhangs padding ({axis.pad_low}, {axis.pad_high}) by {axis.overhang} "
                "elements.",
                'Give padding that covers it, or rounding="floor".',
            )
        )


def _check_divides(axis: Axis, index: int, shards: int) -> None:
    if axis.out * axis.stride != axis.size or axis.size // shards % axis.stride:
        raise ValueError(
            message(
                f"the windows of pooled axis {index} do not divide evenly among {shards} shards.",
                f"{axis.size} elements at stride {axis.stride} give {axis.out} windows; they must "
                f"be {axis.size} / {axis.stride}, with a multiple of the stride on each shard.",
                'Use padding="SAME" and a size that divides evenly, or leave the axis unsharded.',
            )
        )


def _check_halo(axis: Axis, index: int, length: int) -> None:
    """Raise unless shards of ``length`` elements contain the halos of their neighbours."""
    low, high = _halo(axis)
    if max(low, high) > length:
        raise ValueError(
            message(
                f"a window of pooled axis {index} extends past the neighbouring shard.",
                f"It needs {low} elements before and {high} after the {length} of a shard.",
                "Shard the axis over fewer devices.",
            )
        )


def _halo(axis: Axis) -> tuple[int, int]:
    """Return the number of elements needed before and after a shard; negative means to crop."""
    return axis.pad_low, axis.span - axis.stride - axis.pad_low


def _counts_padding(op: Callable[..., Any], settings: dict[str, Any]) -> bool:
    """Return whether padding counts as zeros in the result of ``op``."""
    if op is avg_pool:
        return bool(settings.get("count_include_pad", True) or settings.get("divisor_override"))
    return op is sum_pool


def _with_halos(
    x: Array,
    where: Array | None,
    full: Geometry,
    names: tuple[str | None, ...],
    counts_padding: bool,
) -> tuple[Array, Array | None]:
    """Return the shard extended by its halos, and a mask of its elements that count."""
    entries = zip(full.axes, full.positions, names, strict=True)
    sharded = [(axis, position, name) for axis, position, name in entries if name is not None]
    for axis, position, name in sharded:
        if where is not None:
            where = _exchange_halos(where, axis, position, name)
        x = _exchange_halos(x, axis, position, name)
    # After all exchanges, because a mask of the padding has one element on the other axes.
    for axis, position, name in sharded:
        if not (axis.pad_low or axis.pad_high):
            continue
        local_coordinate = iota(x.shape[position], position, x.ndim, np.int32)
        coordinate = _first_coordinate(axis, name) + local_coordinate
        is_padding = (coordinate < 0) | (coordinate >= axis.size)
        if counts_padding:
            where = None if where is None else where | is_padding
        else:
            where = ~is_padding if where is None else where & ~is_padding
    return x, where


def _first_coordinate(axis: Axis, name: str) -> Array:
    """Return the coordinate in the full array of the first element of the shard with its halo."""
    return lax.axis_index(name) * (axis.size // lax.axis_size(name)) - axis.pad_low


def _exchange_halos(x: Array, axis: Axis, position: int, name: str) -> Array:
    """Return ``x`` extended by elements of its neighbours, or by zeros if there is no neighbour."""
    (low, high), length, shards = _halo(axis), x.shape[position], lax.axis_size(name)
    parts = [x if high >= 0 else slice_axis(x, position, 0, length + high, 1)]
    if low > 0:
        to_next = [(shard, shard + 1) for shard in range(shards - 1)]
        parts.insert(0, lax.ppermute(slice_axis(x, position, length - low, low, 1), name, to_next))
    if high > 0:
        to_previous = [(shard + 1, shard) for shard in range(shards - 1)]
        parts.append(lax.ppermute(slice_axis(x, position, 0, high, 1), name, to_previous))
    return concatenate(parts, position)


def _global_indices(
    offsets: Array,
    is_valid: Array | None,
    geometry: Geometry,
    full: Geometry,
    names: tuple[str | None, ...],
    dtype: np.dtype | None,
) -> Array:
    """Convert offsets in the windows of a shard with its halos to indices over the full array."""
    coordinates, shape = _indices.coordinates(offsets, geometry), input_shape(offsets.shape, full)
    for (axis, position), name in zip(full.placed, names, strict=True):
        if name is not None:
            coordinates[position] = coordinates[position] + _first_coordinate(axis, name)
    return _indices.flat("spatial", coordinates, is_valid, shape, full.positions, dtype)
