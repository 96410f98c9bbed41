"""Maxima and minima by kernels of our own, for TPU: values and offsets in one pass, and back.

The kernels are in :mod:`.mosaic_kernels`, which is imported when one is asked for. The plan never
chooses them by itself: the compiler does not partition a kernel over devices, so that a program
which is sharded outside ``jax.shard_map`` cannot have one, nor can an export for several platforms.

On another platform a program is refused when it is compiled, for which platform that is being known
no earlier. No public part of JAX asks us then. So the program calls a function that does not exist,
and whose name is the message.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..._errors import counted, message
from ..._geometry.axis import Axis
from ..._geometry.resolve import Geometry
from ..._xla.by_platform import by_platform
from ..._xla.sharding_types import varying_alike, varying_zeros
from ...reductions import Reduction, identity_array
from .. import tuning
from ..parts.argreduce import ValueOffset, sentinel
from ..parts.axis_slicing import pooled_first
from ..request import Request

_DTYPES = (np.dtype(np.float32), np.dtype(jnp.bfloat16))
_REFUSAL = 'implementation="mosaic": it is for TPU alone. Use implementation="auto"'
"""The name of a function that XLA says it cannot find "on a platform Host"."""

interpreted = False
"""Whether other platforms interpret the kernels, step by step: for tests."""


def unsupported_reason(request: Request) -> str | None:
    """Return why the kernels do not compute what is asked, or None."""
    geometry, reduction = request.geometry, request.reduction
    if request.verb in ("reduce", "argreduce"):
        if reduction is None or reduction.extremum is None:
            return "the kernels are those of maxima and minima"
    if request.dtype not in _DTYPES:
        return f"{request.dtype} elements; the kernels take float32 and bfloat16"
    if len(geometry.axes) != 2:
        return f"{counted(len(geometry.axes), 'pooled axis')}; the kernels take 2"
    if geometry.taps > 255:
        return f"windows of {geometry.taps} elements; a byte numbers up to 255"
    if not all(isinstance(size, int) for size in geometry.spatial_shape):
        return "a pooled axis has a symbolic size; the blocks of a kernel are numbers"
    needed = max(_bytes_forward(*_axes(geometry)), _bytes_transposed(*_axes(geometry)))
    if needed > tuning.MOST_BYTES_OF_KERNEL:
        most = tuning.MOST_BYTES_OF_KERNEL >> 20
        rows = f"rows that take {-(-needed >> 20)} MiB of vector memory"
        return f"{rows}; the kernels use up to {most} MiB"
    return None


def _axes(geometry: Geometry) -> tuple[Axis, Axis]:
    """Rows and columns. A single row of windows has stride 1: a block has as many rows."""
    rows, columns = geometry.axes
    return (replace(rows, stride=1) if rows.out == 1 else rows), columns


def _bytes_forward(rows: Axis, columns: Axis) -> int:
    """Bytes of the blocks, of which there are two each, and of the scratch."""
    width = (columns.out - 1) * columns.stride + columns.span
    read = 2 * min(rows.stride, rows.span) * columns.size
    return (read + rows.span * width + 3 * columns.out) * tuning.BYTES_OF_TILE


def _bytes_transposed(rows: Axis, columns: Axis) -> int:
    held = -(-rows.span // rows.stride) + 1
    width = columns.out + 2 * (-(-columns.span // columns.stride) + 1)
    read = 3 * columns.out + 3 * held * width // 2
    return (read + 2 * rows.stride * columns.size) * tuning.BYTES_OF_TILE


def reduce(x: Array, geometry: Geometry, reduction: Reduction) -> Array:
    """Return the reduction of every window."""
    return _extremes(x, geometry, reduction, with_offsets=False)[0]


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the offset of its argmax, row-major.

    Where a mask leaves nothing but the identity, the offset is that of the first True: of the
    extreme of marks.
    """
    values, offsets = _extremes(x, geometry, reduction, with_offsets=True)
    if valid is None:
        return values, offsets
    largest = reduction.extremum == "max"
    marks = (valid if largest else ~valid).astype(x.dtype)
    found, first = _extremes(marks, geometry, reduction, with_offsets=True)
    first = jnp.where(found == int(largest), first, sentinel(first.dtype))
    return values, jnp.where(values == identity_array(reduction, x.dtype), first, offsets)


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return the sum, for each element, of the values of the windows whose offset names it.

    Args:
      g: values of the windows, numbers of ``dtype`` in the dtype that sums of it run in.
      offsets: of the windows, row-major.
      geometry: the windows.
      dtype: what the result is rounded to.
    """

    def run(interpret: bool, g: Array, offsets: Array) -> tuple[Array]:
        from .mosaic_kernels import scatter

        rows, columns = _axes(geometry)
        return (scatter(g, offsets, rows, columns, interpret),)

    (dx,) = _on_tpu(run, geometry, geometry.spatial_shape, (dtype,), g.astype(dtype), offsets)
    return dx.astype(g.dtype)


def _extremes(
    x: Array, geometry: Geometry, reduction: Reduction, with_offsets: bool
) -> tuple[Array, ...]:
    def run(interpret: bool, x: Array) -> tuple[Array, ...]:
        from .mosaic_kernels import extremes

        return extremes(x, *_axes(geometry), reduction, with_offsets, interpret)

    dtypes = (x.dtype, np.dtype(np.uint8)) if with_offsets else (x.dtype,)
    return _on_tpu(run, geometry, geometry.out_shape, dtypes, x)


Kernel = Callable[..., tuple[Array, ...]]
"""``kernel(interpret, *arrays)`` of arrays (rows, columns, batch, channels)."""


def _on_tpu(
    kernel: Kernel,
    geometry: Geometry,
    pooled_shape: tuple[int, ...],
    dtypes: tuple[np.dtype, ...],
    *arrays: Array,
) -> tuple[Array, ...]:
    """Return the results of a kernel, whose pooled axes have the lengths ``pooled_shape``."""
    _check(arrays[0])
    order, back, _ = pooled_first(geometry, arrays[0].ndim)
    major = [jnp.transpose(a, order) for a in varying_alike(arrays)]
    others = major[0].shape[2:]
    channels = others[-1] if others else 1
    images = math.prod(others[:-1])
    shape = (*pooled_shape, images, channels)
    if 0 in others:
        found = tuple(varying_zeros(shape, d, major[0]) for d in dtypes)
    else:
        other = _elsewhere(kernel, [jax.ShapeDtypeStruct(shape, d) for d in dtypes])
        found = by_platform(
            {"cpu": other, "gpu": other, "tpu": lambda *a: kernel(False, *a)},
            *(a.reshape(*a.shape[:2], images, channels) for a in major),
        )
    return tuple(jnp.transpose(a.reshape(*pooled_shape, *others), back) for a in found)


def _elsewhere(kernel: Kernel, results: list[jax.ShapeDtypeStruct]) -> Callable[..., Any]:
    """What a program that is lowered for another platform calls."""
    if interpreted:
        return lambda *arrays: kernel(True, *arrays)
    call = jax.ffi.ffi_call(_REFUSAL, results, vmap_method="broadcast_all")
    return lambda *arrays: varying_alike((*call(*arrays), *arrays))[: len(results)]


def _check(x: Array) -> None:
    """Raise where JAX could not lower a kernel of ``x``, and it can be known now."""
    if not all(isinstance(size, int) for size in x.shape):
        raise NotImplementedError(
            message(
                f"$implementation = 'mosaic' does not take the symbolic shape {x.shape}.",
                "The blocks of a kernel are numbers.",
                'Use implementation="auto", or export once for each size.',
            )
        )
    mesh = jax.typeof(x).sharding.mesh
    shared = [name for name in mesh.axis_names if name not in mesh.manual_axes]
    devices = math.prod(mesh.shape[name] for name in shared)
    if devices > 1:
        raise NotImplementedError(
            message(
                "$implementation = 'mosaic' does not take an array on several devices.",
                f"It lies on a mesh of {dict(mesh.shape)}, and the compiler does not partition a "
                "kernel.",
                'Call it inside jax.shard_map, or use implementation="auto".',
            )
        )
