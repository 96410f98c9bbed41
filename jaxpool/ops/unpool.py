"""Max unpooling: write values to the elements that they were pooled from.

:mod:`jaxpool._autodiff.flat_index` unpools by flat indices. If several values have the same index,
the last one, in row-major order, is written.

:mod:`._unpool_offsets` unpools by window offsets, and by flat indices with known windows, without
any scatter.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

from .._autodiff import flat_index as _flat
from .._errors import counted, message, public
from .._geometry import layout as layouts
from .._geometry.arguments import Integers, entries_of, int_or_ints, is_sequence
from .._geometry.resolve import Geometry, check_known
from .._geometry.window import Padding, Rounding
from .._lowerings.parts.argreduce import sentinel
from .._numerics import indices as _indices
from .._numerics.checks import as_array, check_real
from .._numerics.indices import IndexSpace
from ._dispatch import Configuration, Op, WindowArguments, call
from ._unpool_offsets import write_by_indices, write_by_offsets


@public
def max_unpool(
    y: ArrayLike,
    indices: ArrayLike,
    output_shape: Integers,
    *,
    index_space: IndexSpace = "spatial",
    data_format: str = "channels_last",
    window_shape: Integers | None = None,
    strides: Integers | None = None,
    padding: Padding = "VALID",
    dilations: Integers = 1,
    rounding: Rounding = "floor",
) -> Array:
    """Return an array with each value at its index, zeros elsewhere: the inverse of max pooling.

    ``out.flat[indices[s]] = y[s]`` for every ``s`` in row-major order, where ``out`` is initially
    zero. If indices are equal, the last write wins. ``flat`` runs over the axes that
    ``index_space`` counts.

    Args:
      y: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      indices: integers of the shape of ``y``, as :func:`max_pool_with_argmax` returns them, in the
        same ``index_space``. The sentinel of a window without elements (-1; in an unsigned "window"
        space the largest number of the dtype) is ignored.
      output_shape: lengths of the pooled axes of the result, such as ``x.shape[1:-1]``. With a
        ``data_format`` in letters it may also be the full shape, or an int for all pooled axes.
      index_space: "spatial", flat over the pooled axes of the result (PyTorch); an int axis ``a``,
        flat over all axes of the result from ``a`` on (0 is ONNX); or "window", the window offset:
        the number of the tap, row-major.
      data_format: as in :func:`max_pool`.
      window_shape, strides, padding, dilations, rounding: the settings of the pooling that the
        indices come from, as in :func:`max_pool`. They are required for "window". With other index
        spaces they do not change the result; if every index is in its own window, the result is
        computed without a scatter, on the devices that hold the values.
    Returns:
      Array of the dtype of ``y``, with ``output_shape`` in place of its pooled axes.
    Derivatives: linear in ``y``; forward and reverse mode, any order. They are the derivatives of
      the definition: if several values have the same index, only the last one has a derivative,
      whereas PyTorch's backward gives each of them the cotangent of the element. If no index occurs
      twice, the two agree. Results and derivatives do not depend on the order in which a device
      writes. With known windows there is no scatter, except for overlapping windows of more than 64
      taps.
    Edge cases: an index never wraps, and a negative one does not count from the end. An index
      outside the result is an error in an eager call, which therefore waits for the indices. Inside
      a transformation (jit, vmap), where values are unknown, it is dropped. A tap on padding is
      dropped. Empty batch or channel axes give an empty result.
    Raises:
      TypeError: ``indices`` are not integers, or a setting is not an integer.
      ValueError: shapes do not fit, an index is outside the result, or a setting is out of range,
        missing or does not fit the others.
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
    if is_sequence(output_shape):
        output_shape = entries_of("output_shape", output_shape)
    layouts.check(data_format)
    windows = WindowArguments(window_shape, strides, padding, dilations, rounding, data_format)
    has_window = _has_window(index_space, windows)
    if not has_window:
        unit = _unit_window(output_shape, data_format)
        windows = WindowArguments(unit, 1, data_format=data_format)
    options = {
        "output_shape": output_shape,
        "index_space": index_space,
        "windows_known": has_window,
    }
    used = _as_indices(indices)
    out, is_outside, example = call(_MAX_UNPOOL, y, (used,), windows, **options)
    if not isinstance(is_outside, Tracer) and is_outside:
        index = _as_written(int(example), used, indices)
        raise ValueError(_outside_message(index, index_space, out.shape))
    return out


# --- what the caller wrote -----------------------------------------------------------------------


def _has_window(space: Any, windows: WindowArguments) -> bool:
    """Return whether the call has a window.

    Raise if ``window_shape`` and ``strides`` are incomplete, but the index space requires a window
    or another window setting is given.
    """
    if windows.window_shape is not None and windows.strides is not None:
        return True
    if isinstance(space, str) and space == "window":
        raise ValueError(
            message(
                '$index_space = "window" needs $window_shape and $strides.',
                "A window offset has no meaning without its window.",
                "Give the settings of the pooling that the indices come from.",
            )
        )
    default = WindowArguments(None, None, data_format=windows.data_format)
    is_default = (type(a) is type(b) and a == b for a, b in zip(windows, default, strict=True))
    if not all(is_default):
        raise ValueError(
            message(
                "settings of a window are given without $window_shape and $strides.",
                "Both belong to the pooling that the indices come from.",
                "Give both, or no setting of a window.",
            )
        )
    return False


def _unit_window(output_shape: Any, data_format: Any) -> Any:
    """Return a window of one element, which only determines which axes are pooled, or raise."""
    if is_sequence(output_shape) and not layouts.is_explicit(data_format):
        return (1,) * len(output_shape)
    layouts.check_repeatable("output_shape", output_shape, data_format, 8)
    return 1


def _as_indices(indices: Any) -> Any:
    """Return the indices as an array, in which an index that is out of range stays so."""
    if not isinstance(indices, (jax.Array, np.ndarray)):
        indices = as_array("$indices", indices, np.asarray)
    return _indices.clip_to_int32(indices)


def _as_written(index: int, used: Any, indices: Any) -> int:
    """Return the integer of the caller that became ``index`` among the indices that were used."""
    return index if used is indices else int(np.asarray(indices)[np.asarray(used) == index][0])


def _canonical(output_shape: Any, index_space: Any, windows_known: bool) -> dict[str, Any]:
    lengths = int_or_ints("output_shape", output_shape, least=0)
    space = _indices.check_space(index_space)
    return {"output_shape": lengths, "index_space": space, "windows_known": windows_known}


def _outside_message(index: int, space: Any, shape: tuple[int, ...]) -> str:
    return message(
        f"$indices contain {index}, which is outside the result.",
        f"The result has shape {shape}, the index space is {space!r}; an index never wraps.",
        "Give the shape of the array that was pooled as $output_shape, and the layout and index "
        "space of its pooling.",
    )


def _check_indices(y: Array, indices: Array) -> None:
    if not jnp.issubdtype(indices.dtype, jnp.integer):
        raise TypeError(
            message(
                f"$indices have dtype {indices.dtype}.",
                "Indices are integers.",
                "Give the indices of max_pool_with_argmax.",
            )
        )
    if indices.shape != y.shape:
        raise ValueError(
            message(
                f"$indices have shape {indices.shape}.",
                f"The values have shape {y.shape}; each value has one index.",
                "Give both results of one max_pool_with_argmax.",
            )
        )


# --- shapes --------------------------------------------------------------------------------------


def _result_shape(
    y: Array, config: Configuration, output_shape: int | tuple[int, ...]
) -> tuple[int, ...]:
    """Return the full shape of the result, or raise if ``output_shape`` does not fit."""
    layout, count = config.data_format, len(config.window.kernel)
    explicit = layouts.is_explicit(layout)
    lengths = (output_shape,) * count if isinstance(output_shape, int) else output_shape
    is_full = explicit and len(lengths) == len(layout)
    if len(lengths) != count and not is_full:
        raise ValueError(_wrong_length_message(lengths, f"{count} axes are pooled"))
    if not explicit and len(lengths) >= y.ndim:
        raise ValueError(_wrong_length_message(lengths, f"the values have shape {y.shape}"))
    positions = layouts.pooled_axes(layout, count, y.shape)
    pooled = [lengths[position] for position in positions] if is_full else lengths
    shape = layouts.with_lengths(y.shape, positions, pooled)
    if is_full and shape != lengths:
        raise ValueError(_wrong_batch_message(lengths, y.shape))
    return shape


def _wrong_length_message(lengths: tuple[int, ...], facts: str) -> str:
    return message(
        f"$output_shape = {lengths} has {counted(len(lengths), 'entry')}.",
        f"It contains the lengths of the pooled axes; {facts}.",
        'Give for example x.shape[1:-1], or a layout in letters such as "NHWC" and the full shape.',
    )


def _wrong_batch_message(lengths: tuple[int, ...], shape: tuple[int, ...]) -> str:
    return message(
        f"$output_shape = {lengths} does not fit the values.",
        f"They have shape {shape}; only the pooled axes may differ.",
        "Check $data_format, or give the lengths of the pooled axes alone.",
    )


def _unpool(
    y: Array,
    indices: Array,
    *,
    config: Configuration,
    output_shape: int | tuple[int, ...],
    index_space: IndexSpace,
    windows_known: bool,
) -> tuple[Array, Array, Array]:
    """Return the result, whether any index is outside of it, and one such index."""
    check_real(y)
    _check_indices(y, indices)
    shape = _result_shape(y, config, output_shape)
    geometry = config.geometry(shape)
    check_known([y.shape[position] for position in geometry.positions])
    if windows_known:
        _check_windows(geometry, shape, y.shape)
    write, limit = _writer(y.shape, indices.dtype, shape, geometry, index_space, windows_known)
    if y.size == 0:
        return jnp.zeros(shape, y.dtype), jnp.zeros((), bool), jnp.zeros((), jnp.int32)
    is_outside = ~_flat.in_bounds(indices, limit)
    if index_space == "window" or jnp.issubdtype(indices.dtype, jnp.signedinteger):
        is_outside = is_outside & (indices != sentinel(indices.dtype))
    return write(y, indices), is_outside.any(), indices.ravel()[jnp.argmax(is_outside)]


def _writer(
    sources: tuple[int, ...],
    dtype: np.dtype,
    shape: tuple[int, ...],
    geometry: Geometry,
    space: IndexSpace,
    windows_known: bool,
) -> tuple[Callable[[Array, Array], Array], Any]:
    """Return the function that writes values at indices, and the number of different indices.

    ``sources`` is the shape of the values and of the indices, ``shape`` that of the result.
    """
    if space == "window":
        return functools.partial(write_by_offsets, shape=shape, geometry=geometry), geometry.taps
    axes = _indices.counted_axes(space, geometry.positions, len(shape))
    _check_counted(space, axes, shape, sources)
    target = _flat.target(shape, axes, sources, geometry.positions)
    _check_range(dtype, target.size)
    if windows_known:
        return functools.partial(write_by_indices, target=target, geometry=geometry), target.size
    return functools.partial(_flat.write, target=target), target.size


def _check_range(dtype: np.dtype, count: Any) -> None:
    """Raise if ``dtype`` is unsigned and too small for flat indices: they are window offsets."""
    unsigned = jnp.issubdtype(dtype, jnp.unsignedinteger)
    if unsigned and isinstance(count, int) and count > int(jnp.iinfo(dtype).max) + 1:
        raise ValueError(
            message(
                f"$indices have dtype {dtype}, the dtype of window offsets.",
                f"A flat index counts {count} positions, more than that dtype can represent.",
                'Give index_space="window", with $window_shape and $strides, for offsets.',
            )
        )


def _check_counted(
    space: Any, axes: tuple[int, ...], shape: tuple[int, ...], actual: tuple[int, ...]
) -> None:
    for axis in range(-len(shape), axes[0]):
        if shape[axis] != actual[axis]:
            raise ValueError(
                message(
                    f"$index_space = {space!r} does not count pooled axis {axis}.",
                    f"The values have shape {actual}, the result {shape}; the index does "
                    "not determine the position on that axis.",
                    "Give indices that count it, such as those of index_space=0.",
                )
            )


def _check_windows(geometry: Geometry, shape: tuple[int, ...], actual: tuple[int, ...]) -> None:
    expected = geometry.full_shape(shape)
    if actual != expected:
        raise ValueError(
            message(
                f"the values have shape {actual}.",
                f"These windows over a result of shape {shape} give {expected}.",
                "Give the settings of the pooling that the indices come from, and its input shape.",
            )
        )


_MAX_UNPOOL = Op("max_unpool", _unpool, _canonical, ("indices",))
