"""``flax.linen``'s pooling functions, to call instead of ``nn.max_pool`` and the others.

Keep ``nn`` for the other layers of a model; :func:`jaxpool.patch` replaces the pools of a model
that should not be edited.

Names, arguments, defaults, shapes and dtypes are those of Flax, for any number of batch axes. Two
results are more accurate: sums of low-precision floats and of integers do not round or wrap to the
storage dtype, and the gradient of a maximum goes to the first maximum, never to padding, also with
NaN.

As in Flax, a window that does not fit gives an empty result, negative padding crops, and an average
without counted elements is 0 / 0. Three differences: complex numbers are an error, and so are
padding of an empty axis, and an initial value of :func:`pool` that is not the identity of its
function.

Source: Flax 0.12.8, ``flax.linen.pooling``.
"""

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .. import reductions
from .._errors import counted, message, public, shown
from .._errors.missing_names import getter, of_front_end
from .._geometry.arguments import as_bool, is_sequence, length_of
from .._geometry.resolve import Geometry, is_static, resolve
from .._geometry.window import Pairs, Window
from .._lowerings.parts.window_counts import elements_per_window
from .._xla.nan_constant import nan_where
from ..ops.average import avg_pool as _avg_pool
from ..ops.average import sum_pool as _sum_pool
from ..ops.custom import pool as _pool
from ..ops.max import max_pool as _max_pool
from ..ops.max import min_pool as _min_pool
from ..reductions import Reduction, accumulator, identity_array
from ._cached import cached
from ._checks import array, as_default_floats
from ._fitting import pool_or_empty

Shape = Sequence[SupportsIndex]
Strides = Shape | None
Pads = str | Sequence[Sequence[SupportsIndex]]

__all__ = [
    "avg_pool",
    "max_pool",
    "min_pool",
    "pool",
]


def __dir__() -> list[str]:
    return list(__all__)


if not TYPE_CHECKING:  # or a type checker would accept every name
    __getattr__ = getter(__name__, of_front_end, __all__)


@public
def max_pool(
    inputs: ArrayLike,
    window_shape: Shape,
    strides: Strides = None,
    padding: Pads = "VALID",
) -> Array:
    """Return the maximum over sliding windows, as ``flax.linen.max_pool``.

    Args:
      inputs: array of (batch axes.., window axes.., features).
      window_shape: taps per pooled axis.
      strides: strides per pooled axis; default 1.
      padding: "SAME", "VALID" or "SAME_LOWER", or one (low, high) pair per pooled axis.
    Returns:
      Array of the dtype of ``inputs``; an empty window gives the lowest value.
    Example:
      >>> from jaxpool.compat import flax as pooling
      >>> x = jnp.array([[1.0], [3.0], [2.0]])
      >>> pooling.max_pool(x, (2,))[:, 0]
      Array([3., 3.], dtype=float32)
    """
    return _over_windows(_max_pool, inputs, window_shape, strides, padding)


@public
def min_pool(
    inputs: ArrayLike,
    window_shape: Shape,
    strides: Strides = None,
    padding: Pads = "VALID",
) -> Array:
    """Return the minimum, as ``flax.nnx.min_pool``; the arguments are those of :func:`max_pool`."""
    return _over_windows(_min_pool, inputs, window_shape, strides, padding)


@public
def avg_pool(
    inputs: ArrayLike,
    window_shape: Shape,
    strides: Strides = None,
    padding: Pads = "VALID",
    count_include_pad: bool = True,
) -> Array:
    """Return the average over sliding windows, as ``flax.linen.avg_pool``.

    Args:
      inputs, window_shape, strides, padding: as :func:`max_pool`.
      count_include_pad: whether padding counts in the divisor.
    Returns:
      Array of the dtype that Flax returns: that of ``inputs`` for floats (at least JAX's default
      float dtype with ``count_include_pad=False``), otherwise the default float dtype. Sums of
      low-precision floats and integers run in at least float32. Without padding in the divisor, an
      empty window gives NaN.
    """
    x = as_default_floats("inputs", inputs)
    if as_bool("count_include_pad", count_include_pad):
        return _over_windows(_avg_pool, x, window_shape, strides, padding)
    x = x.astype(np.promote_types(accumulator(x.dtype), jnp.result_type(float)))
    return _over_windows(_average_of_elements, x, window_shape, strides, padding)


@public
def pool(
    inputs: ArrayLike,
    init: Any,
    reduce_fn: Callable[[Any, Any], Any],
    window_shape: Shape,
    strides: Strides,
    padding: Pads,
) -> Array:
    """Return any reduction over sliding windows, as ``flax.linen.pool``; it is differentiable.

    Args:
      inputs, window_shape, strides, padding: as :func:`max_pool`.
      init: initial value of every window, a number: any number for maxima and minima, otherwise the
        identity of ``reduce_fn``.
      reduce_fn: associative, commutative function of two arrays. Pass the same object in each call,
        because each object is compiled separately.
    Returns:
      Array of the dtype of ``inputs``.
    Raises:
      ValueError: a test showed that ``reduce_fn`` is not associative and commutative, or that
        ``init`` is not its identity.
    """
    x = array("inputs", inputs)
    start = _initial_value(init, x.dtype)
    if reduce_fn in _EXTREMES:
        function, reduction = _EXTREMES[reduce_fn]
        y = _over_windows(function, x, window_shape, strides, padding)
        if start == identity_array(reduction, x.dtype):
            return y
        return reduce_fn(y, jnp.asarray(start))
    if reduce_fn in (lax.add, jnp.add) and start == 0:
        function = _sum_pool
    else:
        reduction = _reduction(reduce_fn, start.item())
        function = lambda x, *window: _pool(x, reduction, *window)  # noqa: E731
    return _over_windows(function, x, window_shape, strides, padding).astype(x.dtype)


_EXTREMES = {
    lax.max: (_max_pool, reductions.MAX),
    jnp.maximum: (_max_pool, reductions.MAX),
    lax.min: (_min_pool, reductions.MIN),
    jnp.minimum: (_min_pool, reductions.MIN),
}


def _average_of_elements(x: Array, *window: Any) -> Array:
    """Return averages without padding in the divisor, NaN for an empty window."""
    y = _avg_pool(x, *window, count_include_pad=False)
    kernel, _, padding = window
    if not _may_be_empty(kernel, padding):
        return y
    sizes = x.shape[-len(kernel) - 1 : -1]
    if not is_static(sizes):
        count = _sum_pool(jnp.ones((*sizes, 1), y.dtype), *window)
    elif windows := _geometry_with_empty(sizes, *window):
        count = elements_per_window(windows, include_pad=False)
    else:
        return y
    return nan_where(count == 0, y)


@functools.lru_cache(maxsize=1024)
def _geometry_with_empty(sizes: tuple[int, ...], *window: Any) -> Geometry | None:
    """Return the windows over axes of ``sizes``, features last; None if no window is empty."""
    geometry = resolve(Window(*window), sizes, tuple(range(-len(sizes) - 1, -1)))
    return geometry if geometry.has_empty_window else None


def _may_be_empty(kernel: Any, padding: Any) -> bool:
    """Return whether padding is long enough for a window without elements."""
    if isinstance(padding, str):
        return False
    return any(max(p) >= k for k, p in zip(kernel, padding, strict=True))


@functools.lru_cache(maxsize=256)
def _reduction(reduce_fn: Callable[[Any, Any], Any], init: Any) -> Reduction:
    name = getattr(reduce_fn, "__name__", "reduce_fn")
    return Reduction(name, reduce_fn, init)


def _initial_value(init: Any, dtype: Any) -> np.ndarray:
    """Return ``init`` in ``dtype``; an infinity becomes the end of the range if there is none."""
    try:
        value = _number(init)
    except (TypeError, ValueError):
        raise TypeError(
            message(
                f"$init = {shown(init)} is not a number.",
                "It is the initial value of every window, static like the other settings.",
                "Give for example 0.0 or -jnp.inf.",
            )
        ) from None
    if jnp.issubdtype(dtype, jnp.inexact):
        start = np.asarray(init, dtype)
        if start == start or value != value:  # most floats of eight bits have no infinity
            return start
    elif abs(value) != math.inf:
        _check_represents(dtype, value)
        return np.asarray(int(value), dtype)
    return identity_array(reductions.MIN if value > 0 else reductions.MAX, dtype)


def _number(init: Any) -> float:
    try:
        return operator.index(init)
    except TypeError:
        return float(init)


def _check_represents(dtype: Any, value: float) -> None:
    """Raise unless an integer dtype, or bool, represents the initial value."""
    low, high = (0, 1) if dtype == np.bool_ else (jnp.iinfo(dtype).min, jnp.iinfo(dtype).max)
    if not (low <= value <= high and value == int(value)):
        raise TypeError(
            message(
                f"$init = {shown(value)} is not a number of {dtype}.",
                f"$inputs has dtype {dtype}: integers from {low} to {high}.",
                "Give such an integer, -jnp.inf or jnp.inf, or convert the array first.",
            )
        )


# --- Flax's windows -------------------------------------------------------------------------------


def _over_windows(
    function: Callable[..., Array],
    inputs: ArrayLike,
    window_shape: Any,
    strides: Any,
    padding: Any,
) -> Array:
    """Run an op over the windows that Flax's arguments describe."""
    x = array("inputs", inputs)
    given = length_of(strides) if is_sequence(strides) else strides
    kernel, steps, pads = _windows(x.shape, window_shape, strides if given else None, padding)
    return pool_or_empty(function, x, x.ndim - len(kernel) - 1, kernel, steps, pads)


@cached
def _windows(
    shape: tuple[int, ...], window_shape: Any, strides: Any, padding: Any
) -> tuple[tuple[int, ...], tuple[int, ...], str | Pairs]:
    """Return window, strides and padding, as arguments of the ops; pads may be negative."""
    if not is_sequence(window_shape):
        raise TypeError(
            message(
                f"$window_shape = {shown(window_shape)} is not a sequence.",
                f"$inputs has shape {shape}; the window has one entry per pooled axis.",
                "Give for example (2, 2).",
            )
        )
    window = Window(window_shape, 1 if strides is None else strides)
    rank = len(window.kernel)
    if len(shape) < rank + 1:
        raise ValueError(
            message(
                f"$window_shape = {shown(window_shape)} has {counted(rank, 'entry')}.",
                f"$inputs of shape {shape} has {counted(len(shape), 'axis')}, the last features.",
                "Give one entry per pooled axis, at most one fewer than axes.",
            )
        )
    return window.kernel, window.strides, _pads(padding, rank)


def _pads(padding: Any, count: int) -> str | Pairs:
    """Return a padding word, or one pair per pooled axis, which may be negative."""
    if isinstance(padding, str):
        return Window((1,), 1, padding).padding  # checks the word
    try:
        pads = tuple((operator.index(low), operator.index(high)) for low, high in padding)
    except (TypeError, ValueError):
        pads = ()
    if len(pads) != count:
        raise ValueError(
            message(
                f"$padding = {shown(padding)} is not one (low, high) pair per pooled axis.",
                f"$window_shape pools {count}.",
                'Give pairs of integers, or "SAME", "VALID" or "SAME_LOWER".',
            )
        )
    return pads
