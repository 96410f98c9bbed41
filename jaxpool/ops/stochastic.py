"""Stochastic pooling (Zeiler and Fergus): a random cell of each window.

With ``w = max(x, 0)`` window ``o`` returns ``x[l]``, where ``l`` is cell ``i`` with probability
``p[i] = w[i] / S``, ``S`` the sum of ``w`` over the window: the last ``l`` before which the cells
add up to at most ``u * S``, for one uniform ``u`` a window. The cells are added in row-major order,
one by one, on every platform, so that all of them choose the same ``l``. The tangent is that of
``x[l]``. In inference

    y = sum p[i] x[i] = Q / S,  Q the sum of w^2,   dy = sum (2 w[i] - y) / S dw[i].
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .._arguments import flag
from .._errors import message
from .._pick import empty, tap_dtype
from .._reductions import accumulator
from .._window import Geometry
from ._common import Op, Settings, call, check_float, check_where
from ._parameters import check_key
from ._sums import masked, window_sum
from ._taps import read, walk


def stochastic_pool(
    key: ArrayLike | None,
    x: ArrayLike,
    window_shape: Any,
    strides: Any,
    padding: Any = "VALID",
    *,
    deterministic: bool = False,
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """A random cell of each window, chosen with a probability proportional to its value.

    ``y[.., o, ..] = x[.., l, ..]`` with ``P(l = q) = x[q] / sum of x over the window`` for its
    cells ``q = o * stride - pad_low + t * dilation`` inside ``x``, each window by itself; with
    ``deterministic=True``, for inference, the expectation ``sum of x^2 / sum of x``.

    Args:
      key: of :mod:`jax.random`; may be None with ``deterministic``. The same key and shape give
        the same choice on every platform.
      x: array of floats, or anything ``jnp.asarray`` makes one of; activations >= 0, as after a
        ReLU. A negative cell has the probability 0.
      window_shape, strides, padding, dilations, rounding, data_format, where: as in
        :func:`max_pool`.
      deterministic: whether to return the expectation instead of a choice.
    Returns:
      Array of the dtype of ``x``; pooled axes have :func:`output_shape`, the others are unchanged.
      Narrow floats are added in float32.
    Derivatives: forward and reverse, any order. That of a choice is the derivative of the cell
      chosen, as in the paper, and not that of its probability; no derivative reaches a cell of
      probability 0.
    Edge cases: a window without a positive cell gives 0 and has no derivative. NaN in a window
      gives NaN. An infinite cell is chosen over finite ones; the expectation is then NaN. The
      expectation needs squares within the range of the sum's dtype: of float32 for float32.
    Raises:
      TypeError: ``x`` does not hold floats, ``key`` is not a key, or as :func:`max_pool`.
      ValueError: as :func:`max_pool`.
    References: Zeiler and Fergus 2013 (arXiv:1301.3557), equations 4 to 6.
    Example:
      >>> x = jnp.array([[1.0], [3.0], [0.0], [2.0]])
      >>> jaxpool.stochastic_pool(None, x, (2,), 2, deterministic=True)[:, 0]
      Array([2.5, 2. ], dtype=float32)
      >>> jaxpool.stochastic_pool(jax.random.key(0), x, (2,), 2)[1, 0]
      Array(2., dtype=float32)
    """
    if key is not None:
        check_key("stochastic_pool", key)
    elif not _settle_deterministic("stochastic_pool", deterministic)[0]:
        raise ValueError(
            message(
                "stochastic_pool",
                "`key` is None.",
                "A random choice needs a key; the expectation, deterministic=True, needs none.",
                "Give for example jax.random.key(0), another one for every step.",
            )
        )
    return call(
        _STOCHASTIC_POOL, x, (where, key), window_shape, strides, padding, dilations, rounding,
        data_format, "auto", deterministic,
    )  # fmt: skip


def _settle_deterministic(op: str, deterministic: Any) -> tuple[bool]:
    meaning = "It says whether to return the expectation; it is static."
    return (flag(op, "deterministic", deterministic, meaning),)


def _stochastic(settings: Settings, x: Array, arrays: Any) -> Array:
    where, key = arrays
    (deterministic,) = settings.own
    check_float(settings.op, x)
    valid = check_where(settings.op, where, x.shape)
    weights = jnp.where(x <= 0, jnp.zeros((), x.dtype), x).astype(accumulator(x.dtype))
    weights = masked(weights, valid)
    if deterministic:
        return _expectation(settings, weights).astype(x.dtype)
    geometry = settings.geometry(x.shape)
    u = jax.random.uniform(key, geometry.full_shape(x.shape), weights.dtype)
    return read(x, _choose(lax.stop_gradient(weights), u, geometry), geometry)


def _expectation(settings: Settings, weights: Array) -> Array:
    """``Q / S``; 0 where ``S`` is."""
    total = window_sum(settings, weights)
    squares = window_sum(settings, weights * weights)
    nothing = total == 0
    none = jnp.zeros((), total.dtype)
    return jnp.where(nothing, none, squares / jnp.where(nothing, jnp.ones_like(total), total))


def _choose(weights: Array, u: Array, geometry: Geometry) -> Array:
    """The tap that each window chooses, or the mark of an empty window if all its weights are 0."""
    # With finite cells near the largest float the sum is infinite, a part of it is not. It is no
    # power of two, which XLA (jax 0.12) would take out of the sum.
    part = np.asarray(0.7 / geometry.taps, u.dtype)

    def add(tap: Array, cell: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        return sums[0] + cell, sums[1] + cell * part

    total, small = walk(weights, geometry, add, (jnp.zeros_like(u), jnp.zeros_like(u)))
    overflows = jnp.isinf(total) & jnp.isfinite(small)
    scale = jnp.where(overflows, part, np.ones((), u.dtype))
    total = jnp.where(overflows, small, total)
    limit = u * total
    finite = jnp.isfinite(total)
    none = empty(tap_dtype(geometry))

    def step(tap: Array, cell: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        (chosen, before), cell = state, cell * scale
        # A sum that is not finite names its cell itself: the first infinity, or the first NaN.
        named = (chosen == none) & ((cell == total) | (cell != cell))
        takes = jnp.where(finite, (cell > 0) & (before <= limit), named)
        return jnp.where(takes, tap.astype(chosen.dtype), chosen), before + cell

    start = jnp.full(u.shape, none), jnp.zeros_like(u)
    return walk(weights, geometry, step, start)[0]


_STOCHASTIC_POOL = Op("stochastic_pool", _stochastic, _settle_deterministic, ("where", "key"))
