"""Haiku's pooling functions, with the names, arguments, shapes and dtypes of ``hk.max_pool``.

A window or stride is an int, which applies to every axis except the first and the channels, or has
one entry for each of the last axes; an entry of 1 means that the axis is not pooled. Like ``hk``,
this module pools every axis whose entry is not 1, even the channels. Averages divide by the number
of elements inside the array.

Results are more accurate than Haiku's: sums of low-precision floats and of integers do not round or
wrap to the storage dtype, and the gradient of a maximum goes to the first maximum, also with NaN.
An int as window does not warn. Complex numbers are an error. :mod:`jaxpool.layers.haiku` has these
pools with all settings of jaxpool, and as modules.

Source: Haiku 0.0.17, ``haiku/_src/pool.py``.
"""

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jax import Array
from jax.typing import ArrayLike

from .._errors import counted, message, public, shown
from .._errors.missing_names import getter, of_front_end
from .._geometry.arguments import Integers, integer, is_sequence
from .._geometry.window import Window
from ..ops.average import avg_pool as _avg_pool
from ..ops.max import max_pool as _max_pool
from ._cached import cached
from ._checks import array, as_default_floats, as_floats
from ._fitting import pool_or_empty

__all__ = ["avg_pool", "max_pool"]


def __dir__() -> list[str]:
    return list(__all__)


if not TYPE_CHECKING:  # or a type checker would accept every name
    __getattr__ = getter(__name__, of_front_end, __all__)


@public
def max_pool(
    value: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: str,
    channel_axis: int | None = -1,
) -> Array:
    """Return the maximum over sliding windows, as ``hk.max_pool``.

    Args:
      value: array of (batch, axes..); the window determines which axes are pooled.
      window_shape: elements per axis, for the last axes; or an int for every axis except the first
        and ``channel_axis``.
      strides: as ``window_shape``.
      padding: "VALID" or "SAME".
      channel_axis: the axis to which an int does not apply.
    Returns:
      Array of the dtype of ``value``.
    Raises:
      ValueError: a setting is not one of Haiku's.
    Example:
      >>> from jaxpool.compat import haiku as hk
      >>> x = jnp.array([[[1.0], [3.0], [2.0], [5.0]]])
      >>> hk.max_pool(x, (2, 1), (2, 1), "VALID")[0, :, 0]
      Array([3., 5.], dtype=float32)
    """
    return _over_windows(
        _max_pool, array("value", value), window_shape, strides, padding, channel_axis
    )


@public
def avg_pool(
    value: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: str,
    channel_axis: int | None = -1,
) -> Array:
    """Return the average over sliding windows, as ``hk.avg_pool``; padding is never counted.

    Args:
      value, window_shape, strides, padding, channel_axis: as :func:`max_pool`.
    Returns:
      Array of the dtype of ``value``; integers give floats. Sums run in at least float32.
    Raises:
      ValueError: a setting is not one of Haiku's.
    Example:
      >>> from jaxpool.compat import haiku as hk
      >>> x = jnp.array([[[1.0], [3.0], [2.0]]])
      >>> hk.avg_pool(x, (2, 1), (2, 1), "SAME")[0, :, 0]
      Array([2., 2.], dtype=float32)
    """
    # With VALID, Haiku divides by an integer of NumPy; with SAME, by counts of the dtype of value.
    is_valid = isinstance(padding, str) and padding == "VALID"
    x = (as_default_floats if is_valid else as_floats)("value", value)
    return _over_windows(_average, x, window_shape, strides, padding, channel_axis)


_average = functools.partial(_avg_pool, count_include_pad=False)


# --- Haiku's windows ------------------------------------------------------------------------------


def _over_windows(op: Callable[..., Array], x: Array, *arguments: Any) -> Array:
    window, strides, padding, data_format = _windows(x.ndim, *arguments)
    if len(window) == x.ndim:  # the ops need at least one axis that is not pooled
        settings = (*window, 1), (*strides, 1), padding, None
        return _over_windows(op, x[..., None], *settings)[..., 0]
    first = x.ndim - len(window) - (data_format == "channels_last")
    return pool_or_empty(op, x, first, window, strides, padding, data_format=data_format)


@cached
def _windows(
    rank: int, window_shape: Any, strides: Any, padding: Any, channel_axis: int | None
) -> tuple[tuple[int, ...], tuple[int, ...], str, str]:
    """Return window, strides, padding and layout, as arguments of the ops."""
    if not isinstance(padding, str) or padding not in ("SAME", "VALID"):
        raise ValueError(
            message(
                f"$padding = {shown(padding)} is neither SAME nor VALID.",
                "Haiku pads only by name.",
                'Give "SAME" or "VALID", or use jaxpool.layers.haiku, which takes pairs.',
            )
        )
    window = _entries("window_shape", window_shape, rank, channel_axis)
    steps = _entries("strides", strides, rank, channel_axis)
    # Axes before the first pooled axis are batch axes; a last axis that is not pooled is channels.
    pooled = [axis for axis in range(rank) if (window[axis], steps[axis]) != (1, 1)]
    last = rank if rank - 1 in pooled or rank == 1 else rank - 1
    pooled_range = slice(min(pooled, default=max(last - 1, 0)), last)
    layout = "channels_first" if last == rank else "channels_last"
    canonical = Window(window[pooled_range], steps[pooled_range])
    return canonical.kernel, canonical.strides, padding, layout


def _entries(name: str, setting: Any, rank: int, channel_axis: int | None) -> tuple[int, ...]:
    """Return one entry for each axis."""
    if not is_sequence(setting):
        setting, channel = integer(name, setting, 1), _channel_position(rank, channel_axis)
        return (1, *(1 if axis == channel else setting for axis in range(1, rank)))
    entries = tuple(setting)
    if len(entries) > rank:
        raise ValueError(
            message(
                f"${name} = {shown(setting)} has {counted(len(entries), 'entry')}.",
                f"The value has {counted(rank, 'axis')}.",
                "Give at most one entry per axis, those of the last axes.",
            )
        )
    return (1,) * (rank - len(entries)) + entries


def _channel_position(rank: int, channel_axis: int | None) -> int | None:
    """Return the axis to which an int does not apply, counted from the front."""
    if not channel_axis:
        return None
    axis = integer("channel_axis", channel_axis, -math.inf)
    if abs(axis) < rank:
        return axis % rank
    raise ValueError(
        message(
            f"$channel_axis = {shown(channel_axis)} is not a channel axis of the value.",
            f"The value has {counted(rank, 'axis')}, of which the first is the batch.",
            "Give the axis of the channels, or None.",
        )
    )
