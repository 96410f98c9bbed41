"""Every public op as a function of one array: a table for properties of all ops."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxpool

SPACE = (7, 6)
"""Lengths of the pooled axes that the table is made for; batch and channels are free."""

WINDOW: dict[str, Any] = {
    "window_shape": (3, 2),
    "strides": (2, 1),
    "padding": ((1, 0), (0, 1)),
    "rounding": "ceil_torch",
}
MASK = np.random.default_rng(3).random((*SPACE, 1)) < 0.7
TILED: dict[str, Any] = {"window_shape": (3, 2), "strides": (3, 2)}
WEIGHTS = np.random.default_rng(4).random((*SPACE, 1)).astype(np.float32)
BOXES = np.array([[0, 0, 0, 3, 4.5], [0, 1.5, -2, 9, 3], [0, 2, 2, 2, 2]], np.float32)
SAMPLES = np.array([0.5, 0.25], np.float32)


def _unpool(x: Any) -> jax.Array:
    values, indices = jaxpool.max_pool_with_argmax(x, **WINDOW)
    return jaxpool.max_unpool(values, indices, SPACE)


def _unpool_taps(x: Any) -> jax.Array:
    settings = {"index_space": "window", **TILED}
    values, taps = jaxpool.max_pool_with_argmax(x, **settings)
    return jaxpool.max_unpool(values, taps, SPACE, **settings)


def _stochastic(x: Any) -> jax.Array:
    return jaxpool.stochastic_pool(jax.random.key(1), x, **WINDOW)


def _fractional(op: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda x: op(None, x, (2, 2), (3, 4), samples=jnp.asarray(SAMPLES))


def _boxed(op: Callable[..., Any], **settings: Any) -> Callable[[Any], Any]:
    """Return a pool of boxes of the first example only, whatever the batch and its axes."""
    return lambda x: op(x, BOXES, (2, 2), **settings)


def _windowed(op: Callable[..., Any], *arguments: Any, **settings: Any) -> Callable[..., Any]:
    return lambda x, **other: op(x, *arguments, **{**WINDOW, **settings, **other})


Moments = tuple[jax.Array, jax.Array, jax.Array]


def _merge_moments(a: Moments, b: Moments) -> Moments:
    """Return count, mean and sum of squared deviations of two sets (Chan et al. 1983)."""
    count, distance = a[0] + b[0], b[1] - a[1]
    share = b[0] / jnp.maximum(count, 1)
    return count, a[1] + distance * share, a[2] + b[2] + distance**2 * a[0] * share


VARIANCE = jaxpool.Reduction(
    "variance",
    _merge_moments,
    (0, 0, 0),
    prepare=lambda x: (jnp.ones_like(x), x, jnp.zeros_like(x)),
    finish=lambda moments, count: moments[2] / jnp.maximum(count, 1),
    accumulator=jaxpool.reductions.MEAN.accumulator,  # accepts only floats
)

SLIDING: dict[str, Callable[..., Any]] = {
    "max_pool": _windowed(jaxpool.max_pool),
    "max_pool, large window": _windowed(
        jaxpool.max_pool, window_shape=(7, 6), strides=1, padding="SAME"
    ),
    "max_pool, masked": _windowed(jaxpool.max_pool, where=MASK),
    "min_pool": _windowed(jaxpool.min_pool, dilations=(1, 2)),
    "max_pool_with_argmax": _windowed(jaxpool.max_pool_with_argmax),
    "avg_pool": _windowed(jaxpool.avg_pool),
    "avg_pool, masked": _windowed(jaxpool.avg_pool, where=MASK, count_include_pad=False),
    "avg_pool, weighted": _windowed(jaxpool.avg_pool, weights=WEIGHTS),
    "sum_pool": _windowed(jaxpool.sum_pool, dilations=(1, 2)),
    "pool": _windowed(jaxpool.pool, jaxpool.reductions.PRODUCT),
    "pool, of pytrees": _windowed(jaxpool.pool, VARIANCE),
    "lp_pool": _windowed(jaxpool.lp_pool, p=3),
    "gem_pool": _windowed(jaxpool.gem_pool),
    "logsumexp_pool": _windowed(jaxpool.logsumexp_pool, temperature=2.0),
    "soft_pool": _windowed(jaxpool.soft_pool),
    "windows": _windowed(jaxpool.windows),
    "median_pool": _windowed(jaxpool.median_pool),
    "rank_pool": _windowed(jaxpool.rank_pool, 1),
    "min_pool_with_argmin": _windowed(jaxpool.min_pool_with_argmin),
    "var_pool": _windowed(jaxpool.var_pool, dilations=(1, 2)),
    "std_pool": _windowed(jaxpool.std_pool),
    "quantile_pool": _windowed(jaxpool.quantile_pool, 0.3),
    "blur_pool": _windowed(jaxpool.blur_pool),
    "blur_pool, masked": _windowed(jaxpool.blur_pool, where=MASK, mode="constant"),
}
"""Settings of the window may be given otherwise, by keyword."""

OF_BOXES: dict[str, Callable[[Any], Any]] = {
    "roi_align": _boxed(jaxpool.roi_align),
    "roi_align, sampled twice": _boxed(jaxpool.roi_align, sampling_ratio=2, aligned=True),
    "roi_pool": _boxed(jaxpool.roi_pool),
    "ps_roi_align": lambda x: _boxed(jaxpool.ps_roi_align)(jnp.repeat(x, 4, -1)),
    "ps_roi_pool": lambda x: _boxed(jaxpool.ps_roi_pool)(jnp.repeat(x, 4, -1)),
}
OVER_WINDOWS: dict[str, Callable[..., Any]] = SLIDING | {
    "max_blur_pool": _windowed(jaxpool.max_blur_pool),
    "adaptive_avg_pool": functools.partial(jaxpool.adaptive_avg_pool, output_size=(3, 4)),
    "adaptive_max_pool": functools.partial(jaxpool.adaptive_max_pool, output_size=(3, 4)),
    "adaptive_max_pool_with_argmax": functools.partial(
        jaxpool.adaptive_max_pool_with_argmax, output_size=(3, 4)
    ),
    "fractional_max_pool": _fractional(jaxpool.fractional_max_pool),
    "fractional_max_pool_with_argmax": _fractional(jaxpool.fractional_max_pool_with_argmax),
    "stochastic_pool": _stochastic,
    "stochastic_pool, expectation": lambda x: jaxpool.stochastic_pool(
        None, x, **WINDOW, deterministic=True
    ),
    "max_unpool": _unpool,
    "max_unpool, taps": _unpool_taps,
}
GLOBAL: dict[str, Callable[[Any], Any]] = {
    "global_max_pool": jaxpool.global_max_pool,
    "global_avg_pool": jaxpool.global_avg_pool,
    "global_lp_pool": functools.partial(jaxpool.global_lp_pool, p=3),
    "global_min_pool": jaxpool.global_min_pool,
    "global_max_pool_with_argmax": jaxpool.global_max_pool_with_argmax,
    "global_std_pool": jaxpool.global_std_pool,
    "global_logsumexp_pool": jaxpool.global_logsumexp_pool,
}
LOCAL = OVER_WINDOWS | GLOBAL
"""What needs no other example of the batch; a box may be of any image."""

EVERY_OP = LOCAL | OF_BOXES

OF_EACH_KIND = ("max_pool", "avg_pool, masked", "rank_pool", "max_unpool", "global_lp_pool")
"""An op of each kind, for checks that take long."""


def public_ops() -> set[str]:
    """Return the names of the public functions that accept an array."""
    functions = {n: f for n, f in vars(jaxpool).items() if inspect.isfunction(f)}
    return {n for n, f in functions.items() if {"x", "y"} & set(inspect.signature(f).parameters)}


def numbers(batch: int, channels: int) -> np.ndarray:
    """Return distinct positive numbers, with a window of ties."""
    shape = (batch, *SPACE, channels)
    x = np.random.default_rng(5).permutation(np.prod(shape)).reshape(shape).astype(np.float32)
    x[0, 2:5, 1:4] = 7
    return x / 16 + 1


def with_gradient(op: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, jax.Array]]:
    """Return a function: the results of ``op``, and the gradient of a weighted sum of them.

    The weights are distinct.
    """

    def both(x: Any) -> tuple[Any, jax.Array]:
        y, pullback, further = jax.vjp(lambda x: _split(op(x)), x, has_aux=True)
        weights = jnp.ones_like(y) + jax.lax.broadcasted_iota(y.dtype, y.shape, 1) / 8
        return (y, *further), pullback(weights)[0]

    return both


def _split(result: Any) -> tuple[jax.Array, list[jax.Array]]:
    """Return the differentiable results, and the remaining ones."""
    first, *others = jax.tree.leaves(result)
    return first, others
