"""Max unpooling: values back to the cells they came from.

Let source ``s`` hold the value ``y[s]`` and name the cell ``c[s]``. Several sources may name one
cell; the last of them, row-major, is its writer. With ``w[i]`` the writer of cell ``i``,

    out[i] = y[w[i]],  0 where no source names the cell,
    d out[i] = dy[w[i]],

a linear map of ``y`` that depends on the indices alone: the reverse rule gives source ``s`` the
cotangent of ``c[s]`` if it is the writer there, else 0.

Flat indices. ``w`` is a maximum of source numbers, scattered to the cells they name: integers, and
a maximum, so the order in which a device runs through them does not matter. Both the map and its
transpose are then gathers: of values by ``w``, and of cotangents by ``c`` where ``w[c[s]] == s``.

Taps. Values go to the winners as cotangents do in the backward pass of max pooling, without any
scatter; the transpose is the read of that rule. A window stays out of it if a later window names
its cell: window ``o + d`` names the cell of tap ``t`` of window ``o`` by tap
``t - d * stride / dilation``, so a comparison of taps finds it.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer
from jax.typing import ArrayLike

from .. import _data_format, _indices
from .._errors import message
from .._fence import computed_once
from .._gather import are_apart
from .._linear import with_transpose
from .._window import Axis, Geometry, check_known, entries_of, is_sequence, per_axis
from ..lowerings._cut import empty, pad, tap_dtype
from ._common import Op, Settings, as_array, call, check_real
from ._taps import MOST_DIRECT_TAPS, digits, read, send

_NAME = "max_unpool"
_INT32_MAX = 2**31 - 1


def max_unpool(
    y: ArrayLike,
    indices: ArrayLike,
    output_shape: Any,
    *,
    index_space: str | int = "spatial",
    data_format: str = "channels_last",
    window_shape: Any = None,
    strides: Any = None,
    padding: Any = "VALID",
    dilations: Any = 1,
    rounding: str = "floor",
) -> Array:
    """Each value at its index, zeros elsewhere: the way back from max pooling with indices.

    ``out.flat[indices[s]] = y[s]`` for every ``s`` in row-major order, on an array of zeros; where
    indices are equal, the last write wins. ``flat`` runs over the axes that ``index_space`` counts.

    Args:
      y: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      indices: integers of the shape of ``y``, as :func:`max_pool_with_argmax` returns them, in the
        same ``index_space``. The mark of a window without a cell (-1; in an unsigned "window" space
        the largest number of the dtype) is ignored.
      output_shape: lengths of the pooled axes of the result, such as ``x.shape[1:-1]``. With a
        ``data_format`` in letters also the full shape, or an int for all pooled axes.
      index_space: "spatial", flat over the pooled axes of the result (PyTorch); an int axis ``a``,
        flat over all axes of the result from ``a`` on (0 is ONNX); or "window", the number of the
        tap in the window.
      data_format: as in :func:`max_pool`.
      window_shape, strides, padding, dilations, rounding: for "window" only, and there needed: the
        pooling that the taps come from, as in :func:`max_pool`.
    Returns:
      Array of the dtype of ``y``, with ``output_shape`` in place of its pooled axes.
    Derivatives: linear in ``y``; forward and reverse, any order. They are those of what is
      computed: of several sources at one index only the last has a derivative, where PyTorch's
      backward gives each of them the cotangent of the cell. Where no index is used twice the two
      agree. Results and derivatives do not depend on the order in which a device writes. "window"
      needs no scatter, but for overlapping windows of more than 32 taps.
    Edge cases: an index never wraps, a negative one does not count from the end. An index outside
      the result is an error in an eager call, which therefore waits for the indices; inside a
      transformation (jit, vmap), where values are unknown, it is dropped. A tap on padding is
      dropped. Empty batch or channel axes give an empty result.
    Raises:
      TypeError: ``indices`` are not integers, or a setting is not.
      ValueError: shapes do not fit, an index is outside the result, or a setting is out of range,
        missing or not for this ``index_space``.
    References: Zeiler and Fergus 2014 (arXiv:1311.2901), section 2.1; PyTorch ``max_unpool2d``;
      ONNX MaxUnpool-22.
    Example:
      >>> x = jnp.array([[1.0, 2.0, 3.0], [6.0, 5.0, 4.0], [7.0, 9.0, 8.0]])
      >>> y, indices = jaxpool.max_pool_with_argmax(x, 2, 1, data_format="HW")
      >>> jaxpool.max_unpool(y, indices, (3, 3), data_format="HW")
      Array([[0., 0., 0.],
             [6., 5., 0.],
             [0., 9., 0.]], dtype=float32)
      >>> jaxpool.max_unpool(jnp.array([10.0, 20.0]), jnp.array([1, 1]), 3, data_format="W")
      Array([ 0., 20.,  0.], dtype=float32)
    """
    output_shape, _ = _hashable(output_shape), _data_format.check(_NAME, data_format)
    windowed = (window_shape, strides, padding, dilations, rounding)
    if not _check_windowed(index_space, *windowed):
        windowed = (_unit_window(output_shape, data_format), 1, "VALID", 1, "floor")
    out, stray, example = call(
        _MAX_UNPOOL, y, _as_indices(indices), *windowed, data_format, "auto",
        output_shape, index_space,
    )  # fmt: skip
    if not isinstance(stray, Tracer) and stray:
        raise ValueError(_outside(int(example), index_space, out.shape))
    return out


# --- what the caller wrote -----------------------------------------------------------------------


def _check_windowed(space: Any, window_shape: Any, strides: Any, *others: Any) -> bool:
    """Whether the call has a window; raise unless it has one exactly for taps."""
    taps = isinstance(space, str) and space == "window"
    if taps and (window_shape is None or strides is None):
        raise ValueError(
            message(
                _NAME,
                '`index_space` = "window" needs `window_shape` and `strides`.',
                "The number of a tap says nothing without the window it belongs to.",
                "Give the settings of the pooling that the indices come from.",
            )
        )
    given = window_shape is not None or strides is not None
    for value, default in zip(others, ("VALID", 1, "floor"), strict=True):
        given = given or type(value) is not type(default) or value != default
    if given and not taps:
        raise ValueError(
            message(
                _NAME,
                f"settings of a window are given for `index_space` = {space!r}.",
                "Flat indices name a cell by themselves; only tap numbers need a window.",
                'Leave them out, or give index_space="window".',
            )
        )
    return taps


def _unit_window(output_shape: Any, data_format: Any) -> Any:
    """The window of one cell: with it the settings say which axes are pooled, and no more."""
    if is_sequence(output_shape):
        return 1 if _data_format.is_explicit(data_format) else (1,) * len(output_shape)
    if _data_format.is_explicit(data_format):
        return 1
    raise TypeError(
        message(
            _NAME,
            f"`output_shape` = {output_shape!r} does not say how many axes are pooled.",
            f"With data_format {data_format!r} it has one entry per pooled axis.",
            'Give a tuple such as (8, 8), or a layout in letters such as "NHWC".',
        )
    )


def _hashable(output_shape: Any) -> Any:
    if not is_sequence(output_shape):
        return output_shape
    return entries_of(_NAME, "output_shape", output_shape)


def _as_indices(indices: Any) -> Any:
    """An array; 64-bit integers that JAX would wrap to 32 stay outside every result instead."""
    if not isinstance(indices, (jax.Array, np.ndarray)):
        indices = as_array(_NAME, "`indices`", indices, lambda indices: np.asarray(indices))  # pyright: ignore
    wide = jnp.issubdtype(indices.dtype, jnp.integer) and indices.dtype.itemsize == 8
    if wide and isinstance(indices, np.ndarray) and not jax.config.jax_enable_x64:  # pyright: ignore
        return np.clip(indices, max(-2, np.iinfo(indices.dtype).min), _INT32_MAX).astype(np.int32)
    return indices


def _settle(op: str, output_shape: Any, index_space: Any) -> tuple[Any, ...]:
    count = len(output_shape) if is_sequence(output_shape) else 1
    lengths = per_axis(op, "output_shape", output_shape, count, least=0)
    space = _indices.check_space(op, index_space)
    return lengths, is_sequence(output_shape), space


def _outside(index: int, space: Any, shape: tuple[int, ...]) -> str:
    return message(
        _NAME,
        f"`indices` hold {index}, which is outside the result.",
        f"The result has shape {shape}, the index space is {space!r}; an index never wraps.",
        "Check `output_shape`, `index_space` and `data_format` against the pooling's.",
    )


def _check_indices(y: Array, indices: Array) -> None:
    if not jnp.issubdtype(indices.dtype, jnp.integer):
        raise TypeError(
            message(
                _NAME,
                f"`indices` have dtype {indices.dtype}.",
                "An index is a whole number.",
                "Give the indices of max_pool_with_argmax.",
            )
        )
    if indices.shape != y.shape:
        raise ValueError(
            message(
                _NAME,
                f"`indices` have shape {indices.shape}.",
                f"The values have shape {y.shape}; each value has one index.",
                "Give both results of one max_pool_with_argmax.",
            )
        )


# --- shapes --------------------------------------------------------------------------------------


def _result_shape(settings: Settings, y: Array) -> tuple[int, ...]:
    """The full shape of the result."""
    lengths, many, _ = settings.own
    layout, count = settings.data_format, len(settings.window.kernel)
    explicit = _data_format.is_explicit(layout)
    if not many:
        lengths = lengths * count
    full = explicit and len(lengths) == len(layout)
    if len(lengths) != count and not full:
        raise ValueError(_wrong_length(lengths, f"{count} axes are pooled"))
    if not explicit and len(lengths) >= y.ndim:
        raise ValueError(_wrong_length(lengths, f"the values have shape {y.shape}"))
    positions = _data_format.pooled_axes(_NAME, layout, count, y.shape)
    shape = list(y.shape)
    for number, position in enumerate(positions):
        shape[position] = lengths[position if full else number]
    if full and tuple(shape) != lengths:
        raise ValueError(_wrong_batch(lengths, y.shape))
    return tuple(shape)


def _wrong_length(lengths: tuple[int, ...], facts: str) -> str:
    entries = "1 entry" if len(lengths) == 1 else f"{len(lengths)} entries"
    return message(
        _NAME,
        f"`output_shape` = {lengths} has {entries}.",
        f"It holds the lengths of the pooled axes; {facts}.",
        'Give for example x.shape[1:-1], or a layout in letters such as "NHWC" and the full shape.',
    )


def _wrong_batch(lengths: tuple[int, ...], shape: tuple[int, ...]) -> str:
    return message(
        _NAME,
        f"`output_shape` = {lengths} does not fit the values.",
        f"They have shape {shape}; only the pooled axes may differ.",
        "Check `data_format`, or give the lengths of the pooled axes alone.",
    )


def _unpool(settings: Settings, y: Array, indices: Array) -> tuple[Array, Array, Array]:
    """Return the result, whether an index is outside of it, and such an index."""
    check_real(_NAME, y)
    _check_indices(y, indices)
    shape, space = _result_shape(settings, y), settings.own[-1]
    geometry = settings.geometry(shape)
    check_known(_NAME, [y.shape[position] for position in geometry.positions])
    if space == "window":
        _check_windows(geometry, shape, y.shape)
        limit, marks, unpool = geometry.taps, True, functools.partial(_by_taps, geometry=geometry)
    else:
        axes = _flat_axes(space, geometry, len(shape))
        _check_counted(space, axes, shape, y.shape)
        limit = math.prod(shape[axis] for axis in axes)
        _check_size(limit)
        marks, unpool = _is_signed(indices), functools.partial(_by_cells, axes=axes)
    if y.size == 0:
        return jnp.zeros(shape, y.dtype), jnp.zeros((), bool), jnp.zeros((), jnp.int32)
    valid = _inside(indices, limit)
    stray = ~valid & (indices != empty(indices.dtype)) if marks else ~valid
    out = unpool(y, jnp.where(valid, indices.astype(jnp.int32), -1), shape)
    return out, stray.any(), indices.ravel()[jnp.argmax(stray)]


def _flat_axes(space: Any, geometry: Geometry, rank: int) -> tuple[int, ...]:
    """The axes that a flat index counts, in array order, as negative positions."""
    if isinstance(space, str):
        return tuple(sorted(geometry.positions))
    return _indices._counted_axes(_NAME, space, rank)


def _check_counted(
    space: Any, axes: tuple[int, ...], shape: tuple[int, ...], given: tuple[int, ...]
) -> None:
    for axis in range(-len(shape), axes[0]):
        if shape[axis] != given[axis]:
            raise ValueError(
                message(
                    _NAME,
                    f"`index_space` = {space!r} does not count pooled axis {axis}.",
                    f"The values have shape {given}, the result {shape}; the index says nothing of "
                    "the place on that axis.",
                    "Give indices that count it, such as those of index_space=0.",
                )
            )


def _is_signed(indices: Array) -> bool:
    return jnp.issubdtype(indices.dtype, jnp.signedinteger)


def _inside(indices: Array, limit: int) -> Array:
    """Where an index is in ``[0, limit)``."""
    if indices.dtype.itemsize < 4:  # the limit may be larger than the dtype holds
        indices = indices.astype(jnp.int32)
    return (indices >= 0) & (indices < jnp.asarray(limit, indices.dtype))


# --- flat indices: a maximum of source numbers, and gathers --------------------------------------


def _by_cells(y: Array, cells: Array, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """``cells`` are flat over ``axes`` of the result, or -1."""
    adjacent = all(b == a + 1 for a, b in itertools.pairwise(axes))
    if not adjacent:
        last = tuple(range(-len(axes), 0))
        y, cells = (jnp.moveaxis(a, axes, last) for a in (y, cells))
        moved = jax.eval_shape(lambda: jnp.moveaxis(jnp.zeros(shape), axes, last)).shape
        return jnp.moveaxis(_by_cells(y, cells, moved, last), last, axes)
    first, end = axes[0] % len(shape), axes[-1] % len(shape) + 1
    blocks = tuple(math.prod(y.shape[a:b]) for a, b in ((0, first), (first, end), (end, None)))
    size = math.prod(shape[first:end])
    _check_size(size)
    _check_size(blocks[1])
    write = _write if jnp.issubdtype(y.dtype, jnp.inexact) else _write.fun
    return write(y.reshape(blocks), cells.reshape(blocks), size).reshape(shape)


def _check_size(cells: int) -> None:
    if not _indices.is_at_most(_NAME, cells, _INT32_MAX, "indices may not fit int32"):
        raise ValueError(
            message(
                _NAME,
                f"an index would count {cells} cells.",
                f"Cells are counted in int32, up to {_INT32_MAX}.",
                'Unpool parts of the batch, or count fewer axes, as "spatial" does.',
            )
        )


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _write(y: Array, cells: Array, size: int) -> Array:
    """``out[b, cells[b, s, c], c] = y[b, s, c]``, the last write wins; -1 is no cell."""
    y, cells = computed_once(y, cells)  # or a pooling would be done anew for every cell read
    return _take(y, _writer(cells, size), 0)


@_write.defjvp
def _write_jvp(size: int, primals, tangents):
    y, cells = computed_once(*primals)
    writer = _writer(cells, size)
    source = lax.broadcasted_iota(jnp.int32, cells.shape, 1)
    cells = jnp.where(_take(writer, cells, -1) == source, cells, -1)
    tangent = with_transpose(
        functools.partial(_put, cells=cells, size=size),
        functools.partial(_take, index=cells, none=0),
        tangents[0],
        writer.shape,
    )
    return _take(y, writer, 0), tangent


def _writer(cells: Array, size: int) -> Array:
    """For each cell ``[b, i, c]``, the last source ``s`` of the plane that names it, or -1."""

    def plane(source: Array, cells: Array, size: int) -> Array:
        return jnp.full(size, -1, jnp.int32).at[_or_past(cells, size)].max(source, mode="drop")

    return _planes_to(plane, lax.broadcasted_iota(jnp.int32, cells.shape, 1), cells, size)


def _put(values: Array, cells: Array, size: int) -> Array:
    """``out[b, cells[b, s, c], c] = values[b, s, c]``; no two cells of a plane are equal."""

    def plane(values: Array, cells: Array, size: int) -> Array:
        return jnp.zeros(size, values.dtype).at[_or_past(cells, size)].set(values, mode="drop")

    return _planes_to(plane, values, cells, size)


def _or_past(cells: Array, size: int) -> Array:
    """Cells, and for -1 a cell past the end, which is dropped; JAX would wrap a negative one."""
    return jnp.where(cells < 0, size, cells)


def _planes_to(plane: Callable[..., Array], values: Array, cells: Array, size: int) -> Array:
    """Run ``plane(values, cells, size)``, which makes planes of ``size`` cells."""
    before, _, after = cells.shape
    total = before * size * after
    return _planes(
        lambda v, c: plane(v.ravel(), _flat(c, size), total).reshape(before, size, after),
        functools.partial(plane, size=size),
        values,
        cells,
        total,
    )


def _take(values: Array, index: Array, none: int) -> Array:
    """``values[b, index[b, i, c], c]``, and ``none`` where the index is -1."""

    def plane(values: Array, index: Array) -> Array:
        taken = values.at[jnp.maximum(index, 0)].get(mode="clip")
        return jnp.where(index < 0, np.asarray(none, values.dtype), taken)

    return _planes(
        lambda v, i: plane(v.ravel(), _flat(i, v.shape[1])).reshape(i.shape),
        plane,
        values,
        index,
        values.size,
    )


def _flat(index: Array, size: int) -> Array:
    """``index`` into planes of ``size`` cells as an index into all of them at once; -1 stays."""
    b, c = (lax.broadcasted_iota(jnp.int32, index.shape, axis) for axis in (0, 2))
    return jnp.where(index < 0, -1, (b * size + index) * index.shape[2] + c).ravel()


def _planes(
    at_once: Callable[..., Array],
    plane: Callable[..., Array],
    values: Array,
    index: Array,
    total: int,
) -> Array:
    """Run over the planes ``[b, :, c]``: on CPU all at once, which is quicker there.

    Elsewhere as a batch, which keeps a plane on the device that holds it.
    """
    batch = jax.vmap(jax.vmap(plane, 1, 1))
    sizes = (total, values.size, index.size)
    if any(not isinstance(size, int) or size > _INT32_MAX for size in sizes):
        return batch(values, index)
    return lax.platform_dependent(values, index, cpu=at_once, default=batch)


# --- taps: as in the backward pass of max pooling -------------------------------------------------


def _by_taps(y: Array, taps: Array, shape: tuple[int, ...], geometry: Geometry) -> Array:
    """``taps`` are numbers of taps of the windows over the result, or -1."""
    if not are_apart(geometry) and geometry.taps > MOST_DIRECT_TAPS:
        return _by_cells(y, _cells(taps, geometry), shape, tuple(sorted(geometry.positions)))
    taps = _without_beaten(taps.astype(tap_dtype(geometry)), geometry)
    there, back = (functools.partial(f, taps=taps, geometry=geometry) for f in (send, read))
    if jnp.issubdtype(y.dtype, jnp.inexact):
        return with_transpose(there, back, y, shape)
    return there(y.astype(jnp.uint8) if y.dtype == jnp.bool_ else y).astype(y.dtype)


def _without_beaten(taps: Array, geometry: Geometry) -> Array:
    """The taps, none for a window whose cell a later window names."""
    shifts = list(_shifts(geometry))
    if not shifts:
        return taps
    beaten = _beaten(taps, geometry, shifts)
    # A branch keeps XLA from comparing the windows anew wherever a tap is read.
    return lax.cond(beaten.any(), lambda: jnp.where(beaten, empty(taps.dtype), taps), lambda: taps)


Shift = tuple[tuple[int, int], ...]
"""Per pooled axis: windows to a later window, and taps that a shared cell is nearer its start."""


def _shifts(geometry: Geometry) -> Iterator[Shift]:
    """Every way in which a later window, row-major, can share a cell with a window."""
    for shift in itertools.product(*map(_axis_shifts, geometry.axes)):
        if tuple(windows for windows, _ in shift) > (0,) * len(shift):
            yield shift


def _axis_shifts(axis: Axis) -> Iterator[tuple[int, int]]:
    most = min((axis.span - 1) // axis.stride, axis.out - 1)
    for windows in range(-most, most + 1):
        taps, rest = divmod(windows * axis.stride, axis.dilation)
        if not rest:
            yield windows, taps


def _beaten(taps: Array, geometry: Geometry, shifts: list[Shift]) -> Array:
    """Whether a later window names the cell that a window names."""
    taps = taps.astype(jnp.int8)  # up to 32 taps, -1 is none
    on_axes = digits(taps, geometry.kernel)
    beaten = jnp.zeros(taps.shape, bool)
    for shift in shifts:
        later, wanted, reads = taps, jnp.zeros((), jnp.int8), taps >= 0
        for axis, position, digit, (windows, nearer) in zip(
            geometry.axes, geometry.positions, on_axes, shift, strict=True
        ):
            later = pad(later, position, -windows, windows, empty(taps.dtype))
            tap = digit - np.int8(nearer)
            reads = reads & (tap >= 0) & (tap < axis.kernel)
            wanted = wanted * np.int8(axis.kernel) + tap
        beaten = beaten | (reads & (later == wanted))
    return beaten


def _cells(taps: Array, geometry: Geometry) -> Array:
    """Taps as cells, flat over the pooled axes; -1 for no tap and for a tap on padding."""
    cell, real = jnp.zeros((), jnp.int32), taps >= 0
    on_axes = digits(taps, geometry.kernel)
    for axis, position, digit in zip(geometry.axes, geometry.positions, on_axes, strict=True):
        window = lax.broadcasted_iota(jnp.int32, taps.shape, taps.ndim + position)
        place = window * axis.stride - axis.pad_low + digit * axis.dilation
        real = real & (place >= 0) & (place < axis.size)
        cell = cell * axis.size + place
    return jnp.where(real, cell, -1)


def _check_windows(geometry: Geometry, shape: tuple[int, ...], given: tuple[int, ...]) -> None:
    wanted = geometry.full_shape(shape)
    if given != wanted:
        raise ValueError(
            message(
                _NAME,
                f"the values have shape {given}.",
                f"These windows over a result of shape {shape} make {wanted}.",
                "Give the settings of the pooling that the indices come from, and its input shape.",
            )
        )


_MAX_UNPOOL = Op(_NAME, _unpool, _settle)
