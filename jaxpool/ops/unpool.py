"""Max unpooling: values back to the cells they came from.

Flat indices name cells, which :mod:`._flat` writes to. Several sources may name one cell; the last
of them, row-major, is its writer.

Taps. Values go to the winners as cotangents do in the backward pass of max pooling, without any
scatter; the transpose is the read of that rule. A window stays out of it if a later window names
its cell: window ``o + d`` names the cell of tap ``t`` of window ``o`` by tap
``t - d * stride / dilation``, so a comparison of taps finds it.
"""

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer
from jax.typing import ArrayLike

from .. import _data_format, _indices
from .._arguments import entries_of, is_sequence, per_axis
from .._batching import any_in_batch
from .._cut import pad
from .._errors import message
from .._linear import with_transpose
from .._pick import empty, tap_dtype
from .._window import Axis, Geometry, check_known
from . import _flat
from ._common import Op, Settings, as_array, call, check_real
from ._taps import MOST_DIRECT_TAPS, digits, read, send

_NAME = "max_unpool"


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
        return np.clip(indices, max(-2, np.iinfo(indices.dtype).min), _flat.INT32_MAX).astype(
            np.int32
        )
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
        limit, marks = geometry.taps, True
        unpool = functools.partial(_by_taps, shape=shape, geometry=geometry)
    else:
        axes = _indices.counted_axes(_NAME, space, geometry.positions, len(shape))
        _check_counted(space, axes, shape, y.shape)
        target = _flat.target(_NAME, shape, axes, y.shape, geometry.positions)
        limit, marks = target.size, _is_signed(indices)
        unpool = functools.partial(_flat.write, target=target)
    if y.size == 0:
        return jnp.zeros(shape, y.dtype), jnp.zeros((), bool), jnp.zeros((), jnp.int32)
    stray = ~_flat.inside(indices, limit)
    if marks:
        stray = stray & (indices != empty(indices.dtype))
    return unpool(y, indices), stray.any(), indices.ravel()[jnp.argmax(stray)]


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


# --- taps: as in the backward pass of max pooling -------------------------------------------------


def _by_taps(y: Array, indices: Array, shape: tuple[int, ...], geometry: Geometry) -> Array:
    """``indices`` are numbers of taps of the windows over the result, others name none."""
    taps = jnp.where(_flat.inside(indices, geometry.taps), indices.astype(jnp.int32), -1)
    if not geometry.is_apart and geometry.taps > MOST_DIRECT_TAPS:
        positions = geometry.positions
        target = _flat.target(_NAME, shape, positions, y.shape, positions)
        return _flat.write(y, _cells(taps, geometry), target)
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
    some = any_in_batch(beaten)
    return lax.cond(some, lambda: jnp.where(beaten, empty(taps.dtype), taps), lambda: taps)


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


_MAX_UNPOOL = Op(_NAME, _unpool, _settle, ("indices",))
