"""``tf.nn``'s pooling functions, and the quantised averages of TensorFlow Lite.

Rules of TensorFlow 2.21.0 on CPU, with oneDNN, its default. Averages never count padding.
``max_pool`` starts from the lowest finite float, so that it turns -inf into that, and passes over
NaN. ``max_pool_with_argmax`` starts from the first cell of each window: a NaN there stays, any
other NaN is passed over. TensorFlow's gradient of both functions goes to the cell that this second
rule finds, and so does the one here.

What differs:

* float16 averages are added in float32, where TensorFlow overflows;
* a window that does not fit is an error also where TensorFlow returns an empty result;
* the gradient of a maximum of rank 5 goes to one cell, as that of the other ranks; TensorFlow sends
  it to every cell that equals the maximum.

``tf.nn.fractional_max_pool``, ``fractional_avg_pool`` and ``pool`` are not here:
:func:`jaxpool.fractional_max_pool` has PyTorch's rule, and ``pool`` is ``max_pool`` or ``avg_pool``
by a word.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from .. import _gather, _indices
from .._arguments import flag, integer, is_sequence, per_axis
from .._counts import cells_per_window, first_taps
from .._errors import message, shown
from .._window import Geometry, Window
from ..ops import average
from ..ops._common import Settings
from ..ops.max import max_pool as _max_pool
from ..ops.max import max_pool_with_argmax as _max_pool_with_argmax
from . import _checks
from ._words import in_words, remembered

_LAYOUTS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


def max_pool(
    input: ArrayLike,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    name: str | None = None,
) -> Array:
    """Maximum over sliding windows, as ``tf.nn.max_pool``.

    Args:
      input: array of rank 3, 4 or 5.
      ksize: taps: an int, one per spatial axis, or one per axis of ``input``, of which those of
        batch and channels must be 1.
      strides: as ``ksize``.
      padding: "VALID", "SAME", or one (low, high) pair per axis of ``input``, smaller than the
        window.
      data_format: "NWC", "NHWC", "NDHWC" (the default of each rank), or the same with the channels
        second.
      name: ignored.
    Returns:
      Array of the dtype of ``input``. A window without a number above the lowest finite float gives
      that float.
    Derivatives: as :func:`jaxpool.max_pool`, but to the cell of :func:`max_pool_with_argmax`.
    Example:
      >>> from jaxpool.compat import tensorflow as tf
      >>> x = jnp.array([[[jnp.nan], [1.0], [jnp.nan], [2.0]]])
      >>> tf.max_pool(x, 4, 1, "VALID").item()
      2.0
    """
    return _max_pool_of("max_pool", (1, 2, 3), input, ksize, strides, padding, data_format)


def max_pool1d(
    input: ArrayLike, ksize: Any, strides: Any, padding: Any, data_format: str = "NWC",
    name: str | None = None,
) -> Array:  # fmt: skip
    """Maximum over windows of an array of rank 3, as ``tf.nn.max_pool1d``; see :func:`max_pool`."""
    return _max_pool_of("max_pool1d", (1,), input, ksize, strides, padding, data_format)


def max_pool2d(
    input: ArrayLike, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC",
    name: str | None = None,
) -> Array:  # fmt: skip
    """Maximum over windows of an array of rank 4, as ``tf.nn.max_pool2d``; see :func:`max_pool`."""
    return _max_pool_of("max_pool2d", (2,), input, ksize, strides, padding, data_format)


def max_pool3d(
    input: ArrayLike, ksize: Any, strides: Any, padding: Any, data_format: str = "NDHWC",
    name: str | None = None,
) -> Array:  # fmt: skip
    """Maximum over windows of an array of rank 5, as ``tf.nn.max_pool3d``; see :func:`max_pool`."""
    return _max_pool_of("max_pool3d", (3,), input, ksize, strides, padding, data_format)


def _max_pool_of(
    op: str, counts: tuple[int, ...], input: Any, ksize: Any, strides: Any, padding: Any,
    data_format: Any,
) -> Array:  # fmt: skip
    x = _checks.array(op, "input", input)
    settings = _settings(op, x.shape, ksize, strides, padding, data_format, counts)
    with in_words(op, window_shape="ksize"):
        return _max(x, settings)


def max_pool_with_argmax(
    input: ArrayLike,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    output_dtype: Any = None,
    include_batch_in_index: bool = False,
    name: str | None = None,
) -> tuple[Array, Array]:
    """Maximum over sliding windows and where it was found, as ``tf.nn.max_pool_with_argmax``.

    Args:
      input: array of rank 4, not empty.
      ksize, strides: as :func:`max_pool`.
      padding: "VALID" or "SAME".
      data_format: "NHWC"; TensorFlow takes no other on CPU.
      output_dtype: dtype of the indices; default int64 if JAX has 64-bit types on, else int32.
      include_batch_in_index: count the batch axis too.
      name: ignored.
    Returns:
      (values, indices); an index is ``(h * W + w) * C + c``, plus ``n * H * W * C`` with the
      batch.
    Derivatives: values as :func:`jaxpool.max_pool`, to the cell of the index; indices have none.
    """
    op = "max_pool_with_argmax"
    x = _checks.array(op, "input", input)
    by_batch = flag(op, "include_batch_in_index", include_batch_in_index)
    if data_format != "NHWC" or x.ndim != 4 or x.size == 0 or not isinstance(padding, str):
        raise ValueError(
            message(
                op,
                "it takes arrays of batch, height, width and channels, and padding by a word.",
                f"`input` has shape {x.shape}, `data_format` is {shown(data_format)}, `padding` is "
                f"{shown(padding)}.",
                "jaxpool.max_pool_with_argmax takes any rank, layout and padding.",
            )
        )
    settings = _settings(op, x.shape, ksize, strides, padding, data_format)
    if output_dtype is None:
        output_dtype = jnp.int64 if jax.config.jax_enable_x64 else jnp.int32  # pyright: ignore
    with in_words(op, window_shape="ksize", index_dtype="output_dtype"):
        dtype = _indices.check_dtype(op, output_dtype)
        return _max_with_indices(x, settings, dtype, 0 if by_batch else 1)


def avg_pool(
    input: ArrayLike,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str | None = None,
    name: str | None = None,
) -> Array:
    """Average over the real cells of sliding windows, as ``tf.nn.avg_pool``.

    Args:
      input: array of floats of rank 3, 4 or 5.
      ksize, strides, data_format: as :func:`max_pool`.
      padding: "VALID" or "SAME"; never counted.
      name: ignored.
    Returns:
      Array of the dtype of ``input``.
    """
    return _avg_pool_of("avg_pool", (1, 2, 3), input, ksize, strides, padding, data_format)


def avg_pool1d(
    input: ArrayLike, ksize: Any, strides: Any, padding: str, data_format: str = "NWC",
    name: str | None = None,
) -> Array:  # fmt: skip
    """Average over windows of an array of rank 3, as ``tf.nn.avg_pool1d``; see :func:`avg_pool`."""
    return _avg_pool_of("avg_pool1d", (1,), input, ksize, strides, padding, data_format)


def avg_pool2d(
    input: ArrayLike, ksize: Any, strides: Any, padding: str, data_format: str = "NHWC",
    name: str | None = None,
) -> Array:  # fmt: skip
    """Average over windows of an array of rank 4, as ``tf.nn.avg_pool2d``; see :func:`avg_pool`."""
    return _avg_pool_of("avg_pool2d", (2,), input, ksize, strides, padding, data_format)


def avg_pool3d(
    input: ArrayLike, ksize: Any, strides: Any, padding: str, data_format: str = "NDHWC",
    name: str | None = None,
) -> Array:  # fmt: skip
    """Average over windows of an array of rank 5, as ``tf.nn.avg_pool3d``; see :func:`avg_pool`."""
    return _avg_pool_of("avg_pool3d", (3,), input, ksize, strides, padding, data_format)


def _avg_pool_of(
    op: str, counts: tuple[int, ...], input: Any, ksize: Any, strides: Any, padding: Any,
    data_format: Any,
) -> Array:  # fmt: skip
    x = _checks.array(op, "input", input)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(
            message(
                op,
                f"`input` has dtype {x.dtype}.",
                "TensorFlow averages floats only.",
                "Convert it, or use tflite_average_pool_2d for quantised values.",
            )
        )
    padding = _word(op, padding)
    settings = _settings(op, x.shape, ksize, strides, padding, data_format, counts)
    with in_words(op, window_shape="ksize"):
        return _over_windows(average.avg_pool, x, settings, count_include_pad=False)


def tflite_average_pool_2d(
    input: ArrayLike,
    filter_height: int,
    filter_width: int,
    stride_h: int,
    stride_w: int,
    padding: str,
    activation_min: int | None = None,
    activation_max: int | None = None,
) -> Array:
    """Average of quantised values, as TensorFlow Lite's AVERAGE_POOL_2D.

    The sum of the real cells, in int32, is divided by their number and rounded half away from zero.

    Args:
      input: int8, uint8 or int16 array of (batch, height, width, channels).
      filter_height, filter_width: taps.
      stride_h, stride_w: cells between windows.
      padding: "VALID" or "SAME"; never counted.
      activation_min, activation_max: the range of the fused activation; default that of the dtype.
    Returns:
      Array of the dtype of ``input``; scale and zero point are those of ``input``.
    References: TensorFlow Lite, ``reference_integer_ops::AveragePool``.
    Example:
      >>> from jaxpool.compat import tensorflow as tf
      >>> x = jnp.array([2, 3, -2, -3], jnp.int8).reshape(1, 1, 4, 1)
      >>> tf.tflite_average_pool_2d(x, 1, 2, 1, 2, "VALID").ravel()
      Array([ 3, -3], dtype=int8)
    """
    op = "tflite_average_pool_2d"
    x = _checks.array(op, "input", input)
    if x.dtype not in (jnp.int8, jnp.uint8, jnp.int16):
        raise TypeError(
            message(
                op,
                f"`input` has dtype {x.dtype}.",
                "Quantised averages are those of int8, uint8 and int16.",
                "Use avg_pool for floats.",
            )
        )
    window = (filter_height, filter_width), (stride_h, stride_w)
    settings = _settings(op, x.shape, *window, _word(op, padding), "NHWC")
    low, high = _activation(op, activation_min, activation_max, jnp.iinfo(x.dtype))
    with in_words(op, window_shape="filter"):
        return _quantised_average(x, settings, low, high)


def _activation(op: str, low: Any, high: Any, limits: Any) -> tuple[int, int]:
    """The range of the activation within that of the dtype."""
    wide = -(2**63)
    least = limits.min if low is None else integer(op, "activation_min", low, wide)
    most = limits.max if high is None else integer(op, "activation_max", high, wide)
    if max(least, limits.min) > min(most, limits.max):
        raise ValueError(
            message(
                op,
                f"`activation_min` = {least} and `activation_max` = {most} leave no value of "
                f"{limits.dtype}.",
                f"These lie between {limits.min} and {limits.max}.",
                "Give the quantised ends of the activation, or None.",
            )
        )
    return max(least, limits.min), min(most, limits.max)


# --- words ----------------------------------------------------------------------------------------


@remembered
def _settings(
    op: str, shape: tuple[int, ...], ksize: Any, strides: Any, padding: Any,
    data_format: str | None, counts: tuple[int, ...] = (1, 2, 3),
) -> Settings:  # fmt: skip
    """The call in the words of the library, checked; ``counts`` says how many axes are spatial."""
    known = _LAYOUTS[len(shape) - 2] if len(shape) - 2 in counts else ()
    layout = known[0] if data_format is None and known else data_format
    if layout is None or layout not in known:
        raise ValueError(
            message(
                op,
                f"`input` of shape {shape} is not in `data_format` {shown(data_format)}.",
                "Rank 3 is NWC or NCW, rank 4 NHWC or NCHW, rank 5 NDHWC or NCDHW.",
                "Give an array of batch, spatial axes and channels.",
            )
        )
    spatial = [axis for axis, letter in enumerate(layout) if letter in "DHW"]
    kernel = _spatial(op, "ksize", ksize, spatial, len(shape))
    steps = _spatial(op, "strides", strides, spatial, len(shape))
    if isinstance(padding, str):
        return Settings(op, Window(kernel, steps, _word(op, padding), op=op), layout)
    one_for_each = is_sequence(padding) and len(padding) == len(shape)
    if not one_for_each or not all(is_sequence(pair) and len(pair) == 2 for pair in padding):
        raise ValueError(
            message(
                op,
                f"`padding` = {shown(padding)} is neither a word nor one pair per axis.",
                f"`input` has {len(shape)} axes; those of batch and channels are not padded.",
                'Give "VALID", "SAME", or one (low, high) pair for every axis.',
            )
        )
    pairs = tuple(padding[axis] for axis in spatial)
    window = Window(kernel, steps, pairs, op=op)
    _check_pads(op, padding, spatial, window)
    return Settings(op, window, layout)


def _spatial(op: str, name: str, value: Any, spatial: list[int], rank: int) -> tuple[int, ...]:
    """One entry per spatial axis, from an int or a list for the spatial axes or for all."""
    value = [value] if not is_sequence(value) else list(value)
    if len(value) == rank and rank > len(spatial):
        if any(entry != 1 for axis, entry in enumerate(value) if axis not in spatial):
            raise ValueError(
                message(
                    op,
                    f"`{name}` = {shown(value)} pools the batch or the channels.",
                    "Only spatial axes are pooled.",
                    "Give 1 for the others.",
                )
            )
        value = [value[axis] for axis in spatial]
    return per_axis(op, name, value[0] if len(value) == 1 else value, len(spatial))


def _word(op: str, padding: Any) -> str:
    if isinstance(padding, str) and padding in ("VALID", "SAME"):
        return padding
    raise ValueError(
        message(
            op,
            f"`padding` = {shown(padding)} is not a padding.",
            "The words are VALID and SAME; max_pool also takes pairs.",
            "Give one of them.",
        )
    )


def _check_pads(op: str, padding: Any, spatial: list[int], window: Window) -> None:
    others = [tuple(padding[axis]) for axis in range(len(padding)) if axis not in spatial]
    assert not isinstance(window.padding, str)
    too_long = any(
        max(pair) >= kernel for pair, kernel in zip(window.padding, window.kernel, strict=True)
    )
    if too_long or any(pair != (0, 0) for pair in others):
        raise ValueError(
            message(
                op,
                f"`padding` = {shown(padding)} does not suit the window.",
                f"`ksize` is {window.kernel}: each pad needs to be smaller, and 0 for the others.",
                "Pad less, or use jaxpool.max_pool.",
            )
        )


# --- maxima ---------------------------------------------------------------------------------------

# Let F be the first real cell of a window. TensorFlow's scan keeps F until a greater cell comes.
# NaN is never greater and nothing is greater than NaN, so the winner is F if F is NaN, else the
# first maximum of the numbers. That is no selection in the sense of the core, for windows that
# share cells need not agree on the best of them; but it is one or the other of two linear reads.


@functools.partial(jax.jit, static_argnums=1)
def _max(x: Array, settings: Settings) -> Array:
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return _numbers(x, settings)
    return _over_windows(_max_pool, x, settings)


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def _max_with_indices(x: Array, settings: Settings, dtype: Any, space: int) -> tuple[Array, Array]:
    geometry = settings.geometry(x.shape)
    if jnp.issubdtype(x.dtype, jnp.inexact):
        _, values, taps, stays = _scan(x, settings)
        first = first_taps(geometry, x.ndim).astype(taps.dtype)
        taps = jnp.where(stays, jnp.broadcast_to(first, taps.shape), taps)
    else:
        values, taps = _over_windows(_max_pool_with_argmax, x, settings, index_space="window")
    return values, _indices.convert(settings.op, taps, x.shape, geometry, space, dtype, False)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _numbers(x: Array, settings: Settings) -> Array:
    """The largest number above the lowest finite one, or that."""
    y = _over_windows(_max_pool, x, settings, where=~jnp.isnan(x))
    return jnp.maximum(y, jnp.full((), jnp.finfo(x.dtype).min, x.dtype))


@_numbers.defjvp
def _numbers_jvp(settings: Settings, primals, tangents):
    (numbers, *_), (tangent, *_) = _scan_jvp(settings, primals, tangents)
    return numbers, tangent


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _scan(x: Array, settings: Settings) -> tuple[Array, Array, Array, Array]:
    """Values of both functions, taps of the largest numbers, and the windows where F stays NaN."""
    numbers, taps = _over_windows(
        _max_pool_with_argmax, x, settings, where=~jnp.isnan(x), index_space="window"
    )
    stays = _first_cells(jnp.isnan(x), settings.geometry(x.shape))
    lowest = jnp.full((), jnp.finfo(x.dtype).min, x.dtype)
    nan = jnp.full((), jnp.nan, x.dtype)
    return jnp.maximum(numbers, lowest), jnp.where(stays, nan, numbers), taps, stays


@_scan.defjvp
def _scan_jvp(settings: Settings, primals, tangents):
    (x,), (t,) = primals, tangents
    values, seeded, taps, stays = _scan(x, settings)
    geometry = settings.geometry(x.shape)
    tangent = jnp.where(stays, _first_cells(t, geometry), _gather.read(t, taps, geometry))
    none = [jax.custom_derivatives.zero_from_primal(a) for a in (taps, stays)]
    return (values, seeded, taps, stays), (tangent, tangent, *none)


def _over_windows(op: Callable[..., Any], x: Array, settings: Settings, **words: Any) -> Any:
    window = settings.window
    return op(
        x, window.kernel, window.strides, window.padding, data_format=settings.data_format, **words
    )


def _first_cells(x: Array, geometry: Geometry) -> Array:
    """The first real cell of every window; pads are shorter than windows, so each has one."""
    for axis, position in geometry.placed:
        edge = lax.slice_in_dim(x, 0, 1, axis=position)
        x = lax.concatenate([*[edge] * axis.pad_low, x], x.ndim + position)
        end = (axis.out - 1) * axis.stride + 1
        x = lax.slice_in_dim(x, 0, end, axis.stride, position)
    return x


# --- quantised averages ---------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def _quantised_average(x: Array, settings: Settings, low: int, high: int) -> Array:
    total = _over_windows(average.sum_pool, x.astype(jnp.int32), settings)
    count = cells_per_window(settings.geometry(x.shape), include_pad=False)
    size = (jnp.abs(total) + count // 2) // count
    return jnp.clip(jnp.sign(total) * size, low, high).astype(x.dtype)
