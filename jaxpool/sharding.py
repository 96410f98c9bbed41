"""Pooling along an axis that is spread over devices, inside ``jax.shard_map``.

Let an axis of ``L`` elements lie on ``n`` shards of ``l = L / n``. Where ``out * stride = L``,
shard ``p`` owns the windows ``p * m <= o < (p + 1) * m`` with ``m = l / stride``. They start
``pad_low`` elements before its first one and end ``span - stride - pad_low`` elements behind its
last one, whatever ``p`` is. So it needs that many elements of its neighbours, its halo, and then
pools by itself without padding. At the two ends of the axis the halo is padding:
zeros that are not there.

Outside ``shard_map`` nothing is needed: under ``jit`` with sharded arrays every op of jaxpool is
partitioned by the compiler, without communication along batch and channel axes. There are three
exceptions. Pools of regions gather, because a box may be of any image. On CPU, devices that take
maxima and minima of long non-overlapping windows agree whether any of them may have met a NaN.
Devices that unpool by indices agree whether any index leaves its window or block. If the indices
count an axis that is spread, and one leaves its block, the devices exchange all of them.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ._errors import counted, message, public, shown
from ._geometry.axis import Axis
from ._geometry.layout import pooled_axes
from ._geometry.resolve import Geometry
from ._geometry.window import Padding, Rounding, Window
from ._lowerings.parts.argreduce import sentinel
from ._lowerings.parts.axis_slicing import concatenate, iota, slice_axis
from ._numerics import indices as _indices
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
    x: Array,
    window_shape: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Padding = "VALID",
    *,
    axis_names: str | None | Sequence[str | None],
    dilations: int | Sequence[int] = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: Array | None = None,
    **settings: Any,
) -> Any:
    """Pool an array whose pooled axes are spread over devices; call it inside ``jax.shard_map``.

    Gives this device's part of what ``op`` gives for the whole array. A sharded axis costs two
    exchanges with the neighbours, of the elements that the outermost windows need, two more for a
    mask, and none if the windows are tiled.

    Args:
      op: :func:`max_pool`, :func:`max_pool_with_argmax`, :func:`min_pool`, :func:`avg_pool` or
        :func:`sum_pool`.
      x: this device's part of the array.
      window_shape, strides, padding, dilations, rounding, data_format: as in :func:`max_pool`, for
        the whole array.
      axis_names: for each pooled axis the mesh axis that it is spread over, or None; a name alone
        stands for the first pooled axis.
      where: this device's part of the mask, of the shape of ``x``.
      settings: further settings of ``op``. Indices count over the whole array; ``index_space`` is
        "spatial" or "window".
    Returns:
      This device's part of the result, of 1 / n of its length along an axis over n devices.
    Derivatives: as of ``op``; the backward pass returns the cotangents of the halo, two exchanges
      an axis.
    Raises:
      ValueError: the windows of an axis do not fall evenly onto the shards, or need elements
        from beyond the neighbours; ``axis_names`` holds no axis of the mesh, or one twice;
        ``index_space`` is an int.
      TypeError: ``op`` is none of those.
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
    window, layout = config.window, config.data_format
    names = _names(axis_names, len(window.kernel))
    whole = _whole_geometry(config, x.shape, names)
    masked = where is not None
    x, where = _with_halos(x, where, whole, names, _counts_padding(op, settings))
    local = [
        (0, 0) if name else (axis.pad_low, axis.pad_high)
        for axis, name in zip(whole.axes, names, strict=True)
    ]
    here = Window(window.kernel, window.strides, local, window.dilations, rounding)
    run = functools.partial(
        op, x, here.kernel, here.strides, local, dilations=here.dilations,
        rounding=rounding, data_format=layout, where=where,
    )  # fmt: skip
    if op is not max_pool_with_argmax or index_space == "window":
        return run(**settings)
    dtype = _indices.check_dtype(settings.pop("index_dtype", None))
    values, taps = run(**{**settings, "index_space": "window"})
    geometry = Configuration(here, layout).geometry(x.shape)
    found = taps != sentinel(taps.dtype) if masked or whole.has_empty_window else None
    return values, _globally(taps, found, geometry, whole, names, dtype)


def _check_op(op: Any, settings: dict[str, Any]) -> None:
    if op not in _OPS:
        raise TypeError(
            message(
                f"$op = {shown(op)} is not an op that can be pooled in shards.",
                f"They are {', '.join(known.__name__ for known in _OPS)}.",
                "Pass the function itself, for example jaxpool.max_pool.",
            )
        )
    if settings.get("weights") is not None:
        raise ValueError(
            message(
                "$weights cannot be pooled in shards.",
                "The elements that a shard needs from its neighbours would come without theirs.",
                "Pool weights * x and weights by sum_pool, and divide.",
            )
        )


def _check_space(space: Any) -> None:
    if not isinstance(_indices.check_space(space), str):
        raise ValueError(
            message(
                f"$index_space = {space} counts batch or channel axes.",
                "How these lie on the devices is not known inside shard_map.",
                'Give "spatial" or "window".',
            )
        )


def _names(axis_names: Any, count: int) -> tuple[str | None, ...]:
    names = (axis_names,) if isinstance(axis_names, str) or axis_names is None else axis_names
    names = tuple(itertools.islice(names, count + 1))  # they may be endless
    if len(names) > count:
        raise ValueError(
            message(
                f"$axis_names = {shown(axis_names)} has {counted(len(names), 'entry')}.",
                f"The window has {count}, one for each pooled axis.",
                "Name the mesh axis of each pooled axis, None where there is none.",
            )
        )
    given = list(filter(None, names))
    for name in given:
        _check_spread(name)
    if len(set(given)) < len(given):
        raise ValueError(
            message(
                f"$axis_names = {shown(axis_names)} names a mesh axis twice.",
                "One mesh axis spreads one axis of an array.",
                "Name the mesh axis of each pooled axis, None where there is none.",
            )
        )
    return names + (None,) * (count - len(names))


def _check_spread(name: str) -> None:
    try:
        lax.axis_size(name)
    except NameError:
        raise ValueError(
            message(
                f"$axis_names holds {shown(name)}, which is no mesh axis here.",
                "Axes have names inside jax.shard_map, those of its mesh.",
                "Call it inside jax.shard_map, and name an axis that the array is spread over.",
            )
        ) from None


def _whole_geometry(
    config: Configuration, shape: tuple[int, ...], names: tuple[str | None, ...]
) -> Geometry:
    """The geometry of the whole array, checked to fall evenly onto the shards."""
    positions = pooled_axes(config.data_format, len(names), shape)
    full = list(shape)
    for position, name in zip(positions, names, strict=True):
        full[position] *= lax.axis_size(name) if name else 1
    whole = config.geometry(tuple(full))
    for index, (axis, name) in enumerate(zip(whole.axes, names, strict=True)):
        if name:
            _check_even(axis, index, lax.axis_size(name))
    return whole


def _check_even(axis: Axis, index: int, shards: int) -> None:
    length, (low, high) = axis.size // shards, _halo(axis)
    if axis.out * axis.stride != axis.size or length % axis.stride:
        raise ValueError(
            message(
                f"the windows of pooled axis {index} do not fall evenly onto {shards} shards.",
                f"{axis.size} elements at stride {axis.stride} give {axis.out} windows; they must "
                f"be {axis.size} / {axis.stride}, with a multiple of the stride on each shard.",
                'Use padding="SAME" and a size that divides, or leave the axis whole.',
            )
        )
    if max(low, high) > length:
        raise ValueError(
            message(
                f"a window of pooled axis {index} reaches past the neighbouring shard.",
                f"It needs {low} elements before and {high} after the {length} of a shard.",
                "Spread the axis over fewer devices.",
            )
        )
    if axis.overhang:
        raise ValueError(
            message(
                f"the last window of pooled axis {index} hangs over its padding.",
                f"It reaches {axis.overhang} elements past padding "
                f"({axis.pad_low}, {axis.pad_high}).",
                'Give padding that covers it, or rounding="floor".',
            )
        )


def _halo(axis: Axis) -> tuple[int, int]:
    """Elements needed from the neighbours; a negative number of them is left out."""
    return axis.pad_low, axis.span - axis.stride - axis.pad_low


def _counts_padding(op: Callable[..., Any], settings: dict[str, Any]) -> bool:
    """Whether padding is as good as zeros."""
    if op is avg_pool:
        return bool(settings.get("count_include_pad", True) or settings.get("divisor_override"))
    return op is sum_pool


def _with_halos(
    x: Array, where: Array | None, whole: Geometry, names: tuple[str | None, ...], zeros: bool
) -> tuple[Array, Array | None]:
    """The shard with its halos, and which of its elements count; ``zeros`` if padding does."""
    for axis, position, name in zip(whole.axes, whole.positions, names, strict=True):
        if name is None:
            continue
        if where is not None:
            where = _exchange(jnp.broadcast_to(where, x.shape), axis, position, name)
        x = _exchange(x, axis, position, name)
        here = iota(x.shape[position], position, x.ndim, np.int32)
        place = _first_coordinate(axis, name) + here
        padding = (place < 0) | (place >= axis.size)
        if zeros:
            where = None if where is None else where | padding
        else:
            where = ~padding if where is None else where & ~padding
    return x, where


def _first_coordinate(axis: Axis, name: str) -> Array:
    """Coordinate in the whole array of the first element of the shard with its halo."""
    return lax.axis_index(name) * (axis.size // lax.axis_size(name)) - axis.pad_low


def _exchange(x: Array, axis: Axis, position: int, name: str) -> Array:
    """Put the neighbours' elements before and behind; zeros where there is no neighbour."""
    (low, high), length, shards = _halo(axis), x.shape[position], lax.axis_size(name)
    parts = [x if high >= 0 else slice_axis(x, position, 0, length + high, 1)]
    if low > 0:
        ahead = [(shard, shard + 1) for shard in range(shards - 1)]
        parts.insert(0, lax.ppermute(slice_axis(x, position, length - low, low, 1), name, ahead))
    if high > 0:
        back = [(shard + 1, shard) for shard in range(shards - 1)]
        parts.append(lax.ppermute(slice_axis(x, position, 0, high, 1), name, back))
    return concatenate(parts, position)


def _globally(
    taps: Array,
    found: Array | None,
    geometry: Geometry,
    whole: Geometry,
    names: tuple[str | None, ...],
    dtype: np.dtype | None,
) -> Array:
    """Taps of the windows of the shard with its halos as indices over the whole array."""
    places, shape = _indices.places(taps, geometry), [1] * taps.ndim
    for (axis, position), name in zip(whole.placed, names, strict=True):
        shape[position] = axis.size
        if name:
            places[position] = places[position] + _first_coordinate(axis, name)
    return _indices.flat("spatial", places, found, tuple(shape), whole.positions, dtype)
