"""``flax.linen``'s pooling functions: ``from jaxpool.compat import flax as nn`` is the migration.

Same names, arguments, defaults, shapes and dtypes, for any number of batch axes. What is computed
better: sums of narrow floats and of integers do not lose or wrap what the storage type cannot hold,
and the gradient of a maximum goes to the first one, never to padding, also with NaN.

Source: Flax 0.12.8, ``flax.linen.pooling``. There a window that does not fit gives an empty result,
negative padding crops, and an average over nothing is 0 / 0.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .. import reductions
from .._errors import message, shown
from .._reductions import Reduction, accumulator, identity_array
from .._window import Geometry, Window, cdiv, geometry
from ..ops.average import avg_pool as _avg_pool
from ..ops.average import sum_pool
from ..ops.custom import pool as _pool
from ..ops.max import max_pool as _max_pool
from ..ops.max import min_pool as _min_pool
from ._floats import as_floats

Pairs = tuple[tuple[int, int], ...]


def max_pool(
    inputs: ArrayLike, window_shape: Sequence[int], strides: Any = None, padding: Any = "VALID"
) -> Array:
    """Maximum over sliding windows, as ``flax.linen.max_pool``.

    Args:
      inputs: array of (batch axes.., window axes.., features).
      window_shape: taps per pooled axis.
      strides: one per pooled axis; default 1.
      padding: "SAME", "VALID" or "SAME_LOWER", or one (low, high) pair per pooled axis.
    Returns:
      Array of the dtype of ``inputs``; a window without a cell gives the lowest value.
    Example:
      >>> from jaxpool.compat import flax as nn
      >>> x = jnp.array([[1.0], [3.0], [2.0]])
      >>> nn.max_pool(x, (2,))[:, 0]
      Array([3., 3.], dtype=float32)
    """
    return _over_windows("max_pool", _max_pool, inputs, window_shape, strides, padding)


def min_pool(
    inputs: ArrayLike, window_shape: Sequence[int], strides: Any = None, padding: Any = "VALID"
) -> Array:
    """Minimum over sliding windows, as ``flax.linen.min_pool``; arguments as :func:`max_pool`."""
    return _over_windows("min_pool", _min_pool, inputs, window_shape, strides, padding)


def avg_pool(
    inputs: ArrayLike,
    window_shape: Sequence[int],
    strides: Any = None,
    padding: Any = "VALID",
    count_include_pad: bool = True,
) -> Array:
    """Average over sliding windows, as ``flax.linen.avg_pool``.

    Args:
      inputs, window_shape, strides, padding: as :func:`max_pool`.
      count_include_pad: whether padding counts in the divisor.
    Returns:
      Array of the dtype that Flax returns: that of ``inputs`` for floats (float32 at least with
      ``count_include_pad=False``), else float32. Narrow floats are added and divided in float32,
      integers are added as floats. Without padding in the divisor, a window without a cell gives
      NaN.
    """
    x = as_floats(inputs)
    if not count_include_pad:
        x = x.astype(accumulator(np.dtype(x.dtype)))
    average = functools.partial(_average, count_include_pad=bool(count_include_pad))
    return _over_windows("avg_pool", average, x, window_shape, strides, padding)


def pool(
    inputs: ArrayLike,
    init: Any,
    reduce_fn: Callable[[Any, Any], Any],
    window_shape: Sequence[int],
    strides: Any,
    padding: Any,
) -> Array:
    """Any reduction over sliding windows, as ``flax.linen.pool``, and differentiable.

    Args:
      inputs, window_shape, strides, padding: as :func:`max_pool`.
      init: start of every window, a number; for maxima and minima any, else the one that
        ``reduce_fn`` ignores.
      reduce_fn: associative, commutative function of two arrays. Give the same object in each call,
        for it is compiled once for each.
    Returns:
      Array of the dtype of ``inputs``.
    Raises:
      ValueError: ``reduce_fn`` was found not to be associative and commutative, or not to ignore
        ``init``.
    """
    x = jnp.asarray(inputs)
    start = _number("pool", init, x.dtype)
    if reduce_fn in _EXTREMES:
        function, reduction = _EXTREMES[reduce_fn]
        y = _over_windows("pool", function, x, window_shape, strides, padding)
        if start == identity_array(reduction, np.dtype(x.dtype)):
            return y
        return reduce_fn(y, jnp.asarray(start))
    if reduce_fn in (lax.add, jnp.add) and start == 0:
        function = sum_pool
    else:
        function = functools.partial(_reduced, reduction=_reduction(reduce_fn, start.item()))
    return _over_windows("pool", function, x, window_shape, strides, padding).astype(x.dtype)


_EXTREMES = {
    lax.max: (_max_pool, reductions.MAX),
    jnp.maximum: (_max_pool, reductions.MAX),
    lax.min: (_min_pool, reductions.MIN),
    jnp.minimum: (_min_pool, reductions.MIN),
}


def _average(x: Array, *window: Any, count_include_pad: bool) -> Array:
    y = _avg_pool(x, *window, count_include_pad=count_include_pad)
    rank = len(window[0])
    made = geometry(x.shape[-rank - 1 : -1], *window)
    if count_include_pad or not made.has_empty_window:
        return y
    empty = jnp.broadcast_to(_is_empty(made), y.shape)
    return jnp.where(empty, jnp.full((), jnp.nan, y.dtype), y)


def _is_empty(made: Geometry) -> Array:
    """Whether a window holds no cell, for all windows of one array, with an axis for features."""
    counts = np.ones((), np.int64)
    for axis in made.axes:
        counts = counts[..., None] * np.array(axis.counts(include_pad=False), np.int64)
    return jnp.asarray(counts[..., None] == 0)


def _reduced(x: Array, *window: Any, reduction: Reduction) -> Array:
    return _pool(x, reduction, *window)


@functools.lru_cache(maxsize=256)
def _reduction(reduce_fn: Callable[[Any, Any], Any], init: Any) -> Reduction:
    name = getattr(reduce_fn, "__name__", "reduce_fn")
    return Reduction(name, reduce_fn, init)


def _number(op: str, init: Any, dtype: Any) -> np.ndarray:
    """``init`` in the dtype of the array; an infinity becomes the end of a range of integers."""
    try:
        value = float(init)
    except (TypeError, ValueError):
        raise TypeError(
            message(
                op,
                f"`init` = {shown(init)} is not a number.",
                "It is the start of every window, static as the rest of its settings.",
                "Give for example 0.0 or -jnp.inf.",
            )
        ) from None
    if jnp.issubdtype(dtype, jnp.integer) and not np.isfinite(value):
        limits = jnp.iinfo(dtype)
        return np.asarray(limits.max if value > 0 else limits.min, dtype)
    return np.asarray(init, dtype)


# --- Flax's windows -------------------------------------------------------------------------------


def _over_windows(
    op: str,
    function: Callable[..., Array],
    inputs: ArrayLike,
    window_shape: Any,
    strides: Any,
    padding: Any,
) -> Array:
    """Run an op of the library over windows as Flax means them."""
    x = jnp.asarray(inputs)
    window, pads = _window(op, window_shape, strides, padding)
    rank = len(window.kernel)
    if x.ndim < rank + 1:
        raise ValueError(
            message(
                op,
                f"`window_shape` = {shown(window_shape)} has {rank} entries.",
                f"`inputs` of shape {x.shape} has {x.ndim} axes, the last of them features.",
                "Give one entry per pooled axis, at most one fewer than axes.",
            )
        )
    if not isinstance(pads, str):
        crop = [slice(max(-low, 0), size - max(-high, 0)) for (low, high), size in
                zip(pads, x.shape[-rank - 1 : -1], strict=True)]  # fmt: skip
        x = x[(..., *crop, slice(None))]
        pads = tuple((max(low, 0), max(high, 0)) for low, high in pads)
    short = _empty_shape(x.shape, window, pads)
    if short is not None:
        return jnp.zeros(short, x.dtype)
    return function(x, window.kernel, window.strides, pads)


def _window(op: str, window_shape: Any, strides: Any, padding: Any) -> tuple[Window, str | Pairs]:
    window = Window(window_shape, 1, op=op)
    count = len(window.kernel)
    if strides:
        window = Window(window_shape, strides, op=op)
    if isinstance(padding, str):
        return window, Window(window_shape, 1, padding, op=op).padding  # checks the word
    try:
        pads = tuple((int(low), int(high)) for low, high in padding)
    except (TypeError, ValueError):
        pads = ()
    if len(pads) != count:
        raise ValueError(
            message(
                op,
                f"`padding` = {shown(padding)} is not one (low, high) pair per pooled axis.",
                f"`window_shape` = {shown(window_shape)} pools {count}.",
                'Give pairs of integers, or "SAME", "VALID" or "SAME_LOWER".',
            )
        )
    return window, pads


def _empty_shape(
    shape: tuple[int, ...], window: Window, pads: str | Pairs
) -> tuple[int, ...] | None:
    """The shape of the result if it holds no window, else None."""
    rank = len(window.kernel)
    sizes = shape[-rank - 1 : -1]
    if isinstance(pads, str) and pads != "VALID":
        out = [cdiv(size, stride) for size, stride in zip(sizes, window.strides, strict=True)]
    else:
        pairs = ((0, 0),) * rank if isinstance(pads, str) else pads
        axes = zip(sizes, window.kernel, window.strides, pairs, strict=True)
        out = [max((size + low + high - k) // s + 1, 0) for size, k, s, (low, high) in axes]
    return None if all(out) else (*shape[: -rank - 1], *out, shape[-1])
