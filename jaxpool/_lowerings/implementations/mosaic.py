"""Maxima and minima by Pallas kernels for TPU: values and offsets in one pass, and the transpose.

The kernels are in :mod:`.mosaic_kernels`, which is imported when a kernel is used. The plan never
chooses them automatically: the compiler does not partition a kernel over devices, so a program that
is sharded outside ``jax.shard_map`` cannot contain one, and neither can an export for several
platforms.

A program for any other platform is refused when it is compiled, since only then is its platform
known. JAX has no public hook at that point, so the program calls a function that does not exist,
whose name is the error message.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..._errors import counted, message
from ..._geometry.axis import Axis, cdiv
from ..._geometry.resolve import Geometry, is_static
from ..._xla.by_platform import by_platform
from ..._xla.sharding_types import unify_varying_axes, varying_zeros
from ...reductions import Reduction, identity_array, mask_with_identity
from .. import tuning
from ..parts.argreduce import ValueOffset, sentinel
from ..parts.axis_slicing import pooled_first
from ..request import Request

_DTYPES = (np.dtype(np.float32), np.dtype(jnp.bfloat16))
_REFUSAL = 'implementation="mosaic" runs only on TPU. Use implementation="auto"'
"""The name of a missing function: XLA reports that it cannot find it "on a platform Host"."""

interpreted = False
"""Whether other platforms interpret the kernels, which is slow: for tests."""


def unsupported_reason(request: Request) -> str | None:
    """Return why the kernels do not support ``request``, or None."""
    geometry, reduction = request.geometry, request.reduction
    if request.operation in ("reduce", "argreduce"):
        if reduction is None or reduction.extremum is None:
            return "the kernels compute only maxima and minima"
    if request.dtype not in _DTYPES:
        return f"{request.dtype} elements; the kernels accept float32 and bfloat16"
    if len(geometry.axes) != 2:
        return f"{counted(len(geometry.axes), 'pooled axis')}; the kernels accept 2"
    if geometry.taps > 255:
        return f"windows of {geometry.taps} elements; a byte can number up to 255"
    if not is_static(geometry.spatial_shape):
        return "a pooled axis has a symbolic size; the block sizes of a kernel are static"
    needed = max(_forward_bytes(*_kernel_axes(geometry)), _transpose_bytes(*_kernel_axes(geometry)))
    if needed > tuning.MAX_BYTES_OF_KERNEL:
        limit = tuning.MAX_BYTES_OF_KERNEL >> 20
        rows = f"rows that need {cdiv(needed, 1 << 20)} MiB of vector memory"
        return f"{rows}; the kernels use up to {limit} MiB"
    return None


def _kernel_axes(geometry: Geometry) -> tuple[Axis, Axis]:
    """Return rows and columns; stride 1 for a single row of windows keeps blocks small."""
    rows, columns = geometry.axes
    return (replace(rows, stride=1) if rows.out == 1 else rows), columns


def _forward_bytes(rows: Axis, columns: Axis) -> int:
    """Return the bytes of the scratch and of the blocks, which are double-buffered."""
    width = (columns.out - 1) * columns.stride + columns.span
    read_rows = 2 * min(rows.stride, rows.span) * columns.size
    return (read_rows + rows.span * width + 3 * columns.out) * tuning.BYTES_OF_TILE


def _transpose_bytes(rows: Axis, columns: Axis) -> int:
    """Return the bytes of the scratch and of the blocks of the transpose."""
    scratch_rows = cdiv(rows.span, rows.stride) + 1
    width = columns.out + 2 * (cdiv(columns.span, columns.stride) + 1)
    blocks_read = 3 * columns.out + 3 * scratch_rows * width // 2
    return (blocks_read + 2 * rows.stride * columns.size) * tuning.BYTES_OF_TILE


def reduce(x: Array, geometry: Geometry, reduction: Reduction) -> Array:
    """Return the reduction of every window."""
    return _extremes(x, geometry, reduction, with_offsets=False)[0]


def argreduce(
    x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction
) -> ValueOffset:
    """Return the value of every window and the offset of its argmax, row-major.

    If a mask leaves only the identity in a window, the offset is that of its first valid element:
    the argmax of ``valid``, or the argmin of ``~valid``.
    """
    x = mask_with_identity(x, valid, reduction)
    values, offsets = _extremes(x, geometry, reduction, with_offsets=True)
    if valid is None:
        return values, offsets
    is_max = reduction.extremum == "max"
    marks = (valid if is_max else ~valid).astype(x.dtype)
    marked, first_valid = _extremes(marks, geometry, reduction, with_offsets=True)
    first_valid = jnp.where(marked == int(is_max), first_valid, sentinel(first_valid.dtype))
    return values, jnp.where(values == identity_array(reduction, x.dtype), first_valid, offsets)


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return, for each element, the sum of the values of the windows whose offset selects it.

    Args:
      g: values of the windows, representable in ``dtype`` but stored in the accumulator dtype.
      offsets: the window offsets, row-major.
      geometry: the windows.
      dtype: the dtype that the result is rounded to.
    """

    def kernel(interpret: bool, g: Array, offsets: Array) -> tuple[Array]:
        from .mosaic_kernels import scatter

        rows, columns = _kernel_axes(geometry)
        return (scatter(g, offsets, rows, columns, interpret),)

    (dx,) = _call_kernel(
        kernel, geometry, geometry.spatial_shape, (dtype,), g.astype(dtype), offsets
    )
    return dx.astype(g.dtype)


def _extremes(
    x: Array, geometry: Geometry, reduction: Reduction, with_offsets: bool
) -> tuple[Array, ...]:
    def kernel(interpret: bool, x: Array) -> tuple[Array, ...]:
        from .mosaic_kernels import extremes

        return extremes(x, *_kernel_axes(geometry), reduction, with_offsets, interpret)

    dtypes = (x.dtype, np.dtype(np.uint8)) if with_offsets else (x.dtype,)
    return _call_kernel(kernel, geometry, geometry.out_shape, dtypes, x)


Kernel = Callable[..., tuple[Array, ...]]
"""``kernel(interpret, *arrays)``, where arrays are (rows, columns, batch, channels)."""


def _call_kernel(
    kernel: Kernel,
    geometry: Geometry,
    pooled_shape: tuple[int, ...],
    dtypes: tuple[np.dtype, ...],
    *arrays: Array,
) -> tuple[Array, ...]:
    """Return the results of ``kernel``, whose pooled axes have the lengths ``pooled_shape``."""
    _check_supported(arrays[0])
    order, inverse, _ = pooled_first(geometry, arrays[0].ndim)
    transposed = [jnp.transpose(a, order) for a in unify_varying_axes(arrays)]
    other_sizes = transposed[0].shape[2:]
    channels = other_sizes[-1] if other_sizes else 1
    images = math.prod(other_sizes[:-1])
    shape = (*pooled_shape, images, channels)
    if 0 in other_sizes:
        results = tuple(varying_zeros(shape, d, transposed[0]) for d in dtypes)
    else:
        fallback = _on_other_platform(kernel, [jax.ShapeDtypeStruct(shape, d) for d in dtypes])
        results = by_platform(
            *(a.reshape(*a.shape[:2], images, channels) for a in transposed),
            tpu=functools.partial(kernel, False),
            default=fallback,
        )
    return tuple(jnp.transpose(a.reshape(*pooled_shape, *other_sizes), inverse) for a in results)


def _on_other_platform(kernel: Kernel, results: list[jax.ShapeDtypeStruct]) -> Callable[..., Any]:
    """Return the function that a program for CPU or GPU calls in place of the kernel."""
    if interpreted:
        return lambda *arrays: kernel(True, *arrays)
    call = jax.ffi.ffi_call(_REFUSAL, results, vmap_method="broadcast_all")
    return lambda *arrays: unify_varying_axes((*call(*arrays), *arrays))[: len(results)]


def _check_supported(x: Array) -> None:
    """Raise if the type of ``x`` shows that JAX cannot lower a kernel of it."""
    if not is_static(x.shape):
        raise NotImplementedError(
            message(
                f"$implementation = 'mosaic' does not accept the symbolic shape {x.shape}.",
                "The block sizes of a kernel are static.",
                'Use implementation="auto", or export once for each size.',
            )
        )
    mesh = jax.typeof(x).sharding.mesh
    non_manual = [name for name in mesh.axis_names if name not in mesh.manual_axes]
    devices = math.prod(mesh.shape[name] for name in non_manual)
    if devices > 1:
        raise NotImplementedError(
            message(
                "$implementation = 'mosaic' does not accept an array on several devices.",
                f"It is on a mesh of {dict(mesh.shape)}, and the compiler cannot partition a "
                "kernel.",
                'Call it inside jax.shard_map, or use implementation="auto".',
            )
        )
