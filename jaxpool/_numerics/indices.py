"""Index spaces: conversion of window offsets of an argmax to the indices that a caller requests.

On each pooled axis, tap ``t`` of window ``o`` has the position
``q = o * stride - pad_low + t * dilation``. An index space is one of

- "window": the window offset itself, row-major;
- "spatial": the flat index over the pooled axes, as in PyTorch;
- an integer ``a``: the flat index over all axes of the input from axis ``a``, as OpenVINO's
  ``axis``. 0 is ONNX, 1 on NHWC is TensorFlow.
"""

import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from .._errors import counted, message, shown
from .._geometry.arguments import integer
from .._geometry.axis import INT32_MAX
from .._geometry.resolve import Geometry, is_at_most
from .._lowerings.parts.argreduce import sentinel, unravel_offsets
from .._lowerings.parts.axis_slicing import iota

SPACES: tuple[Literal["window", "spatial"], ...] = ("window", "spatial")
IndexSpace = Literal["window", "spatial"] | int


def check_space(space: Any) -> IndexSpace:
    """Return ``space`` if it is one of ``SPACES`` or an integer, else raise."""
    if not isinstance(space, str):
        return integer("index_space", space, -(2**31))
    for known in SPACES:
        if space == known:
            return known
    raise ValueError(
        message(
            f"$index_space = {shown(space)} is not an index space.",
            f"The names are {', '.join(SPACES)}; an integer is the first axis that is counted.",
            'Give "spatial" for PyTorch, 0 for ONNX, "window" for window offsets.',
        )
    )


def counted_axes(space: IndexSpace, positions: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return the axes that a flat index counts in an array of ``rank`` axes, all negative."""
    if isinstance(space, str):
        return positions
    if not -rank <= space < rank:
        raise ValueError(
            message(
                f"$index_space = {space} is not an axis of the array.",
                f"The array has {counted(rank, 'axis')}, {-rank} to {rank - 1}.",
                "Give the first axis that the flat index counts.",
            )
        )
    return tuple(range(space % rank - rank, 0))


def clip_to_int32(array: Any) -> Any:
    """Return an array of 64-bit integers as int32, clipped, if JAX would wrap it; else ``array``.

    An index that is out of range stays out of range. JAX wraps its own arrays as well, if they are
    older than its setting.
    """
    is_64_bit = getattr(array, "dtype", None) in ("int64", "uint64")
    if jax.config.jax_enable_x64 or not is_64_bit or isinstance(array, Tracer):  # pyright: ignore
        return array
    least = max(-(2**31), np.iinfo(array.dtype).min)
    return np.clip(np.asarray(array), least, INT32_MAX).astype(np.int32)


def check_dtype(dtype: Any) -> np.dtype | None:
    """Return ``dtype`` if it is None or an integer dtype, else raise."""
    if dtype is None:
        return None
    try:
        resolved = np.dtype(dtype)
    except Exception:  # whatever the object's own conversion raises
        resolved = np.dtype(object)
    if not np.issubdtype(resolved, np.integer) or not resolved.isnative:
        raise TypeError(
            message(
                f"$index_dtype = {shown(dtype)} is not a native integer dtype.",
                "Indices are integers; -1 marks a window without an element.",
                "Give for example jnp.int32, the default.",
            )
        )
    return resolved


def _check_width(resolved: np.dtype) -> None:
    if resolved.itemsize == 8 and not jax.config.jax_enable_x64:  # pyright: ignore
        raise ValueError(
            message(
                f"$index_dtype = {resolved.name} needs 64-bit types, which are disabled.",
                "JAX would truncate the indices to 32 bits.",
                'Call jax.config.update("jax_enable_x64", True) first, or give int32.',
            )
        )


def _check_fit(space: IndexSpace, dtype: np.dtype, last: int, has_sentinel: bool) -> None:
    """Raise unless ``dtype`` can represent the index ``last``, and the sentinel if there is one."""
    limits = np.iinfo(dtype)
    if dtype.itemsize == 8 and not isinstance(last, int):
        return  # no array has too many elements for 64 bits
    within = is_at_most(last, limits.max, f"indices in space {space!r} may not fit {dtype.name}")
    if space == "window":
        fits = last + (limits.min == 0) <= limits.max
    else:
        fits = within and (limits.min < 0 or not has_sentinel)
    if not fits:
        sentinel_value = limits.max if space == "window" else -1
        mark = f" and {sentinel_value} must mark a window without an element"
        needs_mark = limits.min == 0 and within
        raise ValueError(
            message(
                f"indices in space {space!r} do not fit {dtype.name}.",
                f"They go up to {last}{mark if needs_mark else ''}; {dtype.name} represents "
                f"{limits.min} to {limits.max}.",
                "Give a wider $index_dtype, or a smaller index space.",
            )
        )


def canonical(index_space: Any, index_dtype: Any) -> dict[str, Any]:
    """Return the checked options of an op that returns indices."""
    return {"index_space": check_space(index_space), "index_dtype": check_dtype(index_dtype)}


def canonical_space(index_space: Any, index_dtype: Any) -> dict[str, Any]:
    """Return the checked options of an op that converts window offsets, see ``ops._op.Op``."""
    return {"space": tuple(canonical(index_space, index_dtype).items())}


def convert(
    offsets: Array,
    shape: tuple[int, ...],
    geometry: Geometry,
    index_space: IndexSpace,
    index_dtype: np.dtype | None,
    masked: bool,
    spatial: tuple[int, ...] | None = None,
) -> Array:
    """Return row-major window offsets as indices of an array of ``shape``.

    Args:
      offsets: window offsets, with the sentinel for windows without an element.
      shape: shape of the array that is indexed.
      geometry: the windows.
      index_space, index_dtype: the options of the caller.
      masked: whether a mask may empty windows that ``geometry`` does not leave empty.
      spatial: the axes that a "spatial" index counts, if not those of ``geometry``.
    """
    if index_space == "window":
        return _window_offsets(offsets, geometry, index_dtype)
    axes = counted_axes(index_space, spatial or geometry.positions, len(shape))
    may_be_empty = masked or geometry.has_empty_window
    has_element = offsets != sentinel(offsets.dtype) if may_be_empty else None
    return flat(index_space, coordinates(offsets, geometry), has_element, shape, axes, index_dtype)


def _window_offsets(offsets: Array, geometry: Geometry, dtype: np.dtype | None) -> Array:
    resolved = dtype or offsets.dtype
    _check_width(resolved)
    _check_fit("window", resolved, geometry.taps - 1, has_sentinel=True)
    if offsets.dtype == resolved:
        return offsets
    is_empty = offsets == sentinel(offsets.dtype)
    return jnp.where(is_empty, sentinel(resolved), offsets.astype(resolved))


def coordinates(offsets: Array, geometry: Geometry) -> dict[int, Array]:
    """Return, by position, the index along each pooled axis of the element at each offset."""
    result: dict[int, Array] = {}
    digits = unravel_offsets(offsets.astype(jnp.int32), geometry.kernel)
    for (axis, position), digit in zip(geometry.placed, digits, strict=True):
        start = iota(axis.out, position, offsets.ndim, jnp.int32) * axis.stride - axis.pad_low
        result[position] = start + digit * axis.dilation
    return result


def flat(
    space: IndexSpace,
    coordinates: dict[int, Array],
    has_element: Array | None,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    dtype: np.dtype | None,
) -> Array:
    """Return coordinates as flat indices, -1 where ``has_element`` is False.

    Args:
      space, dtype: the caller's ``index_space`` and ``index_dtype``.
      coordinates: those along each pooled axis, by position; along others, those of the entry.
      has_element: whether each window has an element, or None if all have one.
      shape: shape of the array that is indexed.
      axes: the axes that the index counts, in row-major order.
    """
    resolved = dtype or np.dtype(np.int32)
    _check_width(resolved)
    last = math.prod(shape[axis] for axis in axes) - 1
    _check_fit(space, resolved, last, has_sentinel=has_element is not None)
    sum_dtype = resolved if resolved.itemsize >= 4 else np.dtype(np.int32)
    index: Any = 0
    for axis in axes:
        coordinate = coordinates.get(axis)
        if coordinate is None:
            coordinate = iota(shape[axis], axis, len(shape), jnp.int32)
        index = index * shape[axis] + coordinate.astype(sum_dtype)
    index = jnp.broadcast_to(index, next(iter(coordinates.values())).shape)
    if has_element is not None:
        index = jnp.where(has_element, index, sentinel(sum_dtype))
    return index.astype(resolved)
