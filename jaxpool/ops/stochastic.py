"""Stochastic pooling (Zeiler and Fergus): a random element of each window.

Let ``w = max(x, 0)``, and let ``S`` be the sum of ``w`` over the window. A window returns ``x[l]``,
where ``l`` is element ``i`` with probability ``p[i] = w[i] / S``. One uniform number ``u`` is drawn
per window, and ``l`` is the last element of nonzero weight for which the sum of the weights before
it is at most ``u * S``. Weights are added sequentially in row-major order on every platform, so
that all platforms choose the same ``l``. The tangent is that of ``x[l]``. In inference

    y = sum p[i] x[i] = Q / S,   dy = sum (2 w[i] - y) / S dw[i],   where Q is the sum of w^2.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .._autodiff.gather import gather
from .._errors import message, public
from .._geometry.arguments import Integers, as_bool
from .._geometry.resolve import Geometry
from .._geometry.window import Padding, Rounding
from .._lowerings.parts.argreduce import offset_dtype, sentinel
from .._lowerings.parts.every_tap import fold_over_taps
from .._numerics.checks import check_float, check_where
from .._numerics.divisors import divide_differentiably, window_sum, zero_where_masked
from .._xla.by_platform import by_platform
from ..reductions import accumulator
from ._dispatch import Configuration, Op, WindowArguments, call
from ._parameters import check_key


@public
def stochastic_pool(
    key: ArrayLike | None,
    x: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    deterministic: bool = False,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Return a random element of each window, with a probability proportional to its value.

    ``y[.., o, ..] = x[.., l, ..]`` with ``P(l = q) = x[q] / sum of x over the window`` for the
    elements ``q = o * stride - pad_low + t * dilation`` inside ``x``, independently for each
    window. With ``deterministic=True``, for inference, the result is the expectation
    ``sum of x^2 / sum of x``.

    Args:
      key: a key of :mod:`jax.random`; it may be None with ``deterministic``. The same key and shape
        give the same choice on every platform.
      x: array of floats, or anything that ``jnp.asarray`` converts to one; activations >= 0, as
        after a ReLU. A negative element has probability 0.
      window_shape, strides, padding, dilations, rounding, data_format, where: as in
        :func:`max_pool`.
      deterministic: whether to return the expectation instead of a random element.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
      Low-precision floats are added in float32.
    Derivatives: forward and reverse mode, any order. The derivative of a random choice is that of
      the chosen element, as in the paper; the derivative of its probability is not included. The
      derivative with respect to an element of probability 0 is 0.
    Edge cases: a window without a positive element gives 0 and has no derivative. NaN in a window
      gives NaN. An infinite element is chosen over finite ones; the expectation is then NaN. For
      the expectation, squares must be in the range of the accumulator's dtype: float32 for float32
      elements.
    Raises:
      TypeError: the dtype of ``x`` is not floating-point, ``key`` is not a key, ``deterministic``
        is not a bool, or as :func:`max_pool`.
      ValueError: ``key`` is None without ``deterministic``, or as :func:`max_pool`.
    References: Zeiler and Fergus 2013 (arXiv:1301.3557), equations 4 to 6.
    Example:
      >>> x = jnp.array([[1.0], [3.0], [0.0], [2.0]])
      >>> jaxpool.stochastic_pool(None, x, (2,), 2, deterministic=True)[:, 0]
      Array([2.5, 2. ], dtype=float32)
      >>> jaxpool.stochastic_pool(jax.random.key(0), x, (2,), 2)[1, 0]
      Array(2., dtype=float32)
    """
    if key is not None:
        check_key(key)
    elif not _canonical_choice(deterministic)["deterministic"]:
        raise ValueError(
            message(
                "$key is None.",
                "A random choice needs a key; the expectation ($deterministic) needs none.",
                "Give for example jax.random.key(0), and a new one for every step.",
            )
        )
    windows = WindowArguments(window_shape, strides, padding, dilations, rounding, data_format)
    return call(_STOCHASTIC_POOL, x, (where, key), windows, deterministic=deterministic)


def _canonical_choice(deterministic: Any) -> dict[str, bool]:
    meaning = "It determines whether to return the expectation; it is static."
    return {"deterministic": as_bool("deterministic", deterministic, meaning)}


def _stochastic(
    x: Array, where: Any, key: Any, *, config: Configuration, deterministic: bool
) -> Array:
    check_float(x)
    valid, geometry = check_where(where, x.shape), config.geometry(x.shape)
    weights = jnp.where(x <= 0, jnp.zeros((), x.dtype), x).astype(accumulator(x.dtype))
    weights = zero_where_masked(weights, valid)
    if deterministic:
        total = window_sum(weights, geometry)
        squares = window_sum(weights * weights, geometry)
        return divide_differentiably(squares, total).astype(x.dtype)
    u = _uniform(key, geometry.full_shape(x.shape), weights.dtype)
    offsets = _choose(lax.stop_gradient(weights), u, geometry)
    return gather(x, offsets, geometry)


def _uniform(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """Return :func:`jax.random.uniform`, drawn as a vector on CPU and as a matrix elsewhere.

    Both have the same numbers as an array of ``shape``. With jaxlib 0.10 to 0.12, XLA:CPU takes
    five times as long to compile an array of four axes as a vector, and 1.5 times as long for a
    matrix, because it computes an index from several products. If channels are sharded, a matrix
    lets each device draw only the numbers of its own channels.
    """

    def sampler(*draw_shape: int) -> Callable[[Array], Array]:
        return lambda key: jax.random.uniform(key, draw_shape, dtype).reshape(shape)

    matrix = sampler(math.prod(shape[:-1]), *shape[-1:])
    return by_platform(key, cpu=sampler(math.prod(shape)), default=matrix)


def _choose(weights: Array, u: Array, geometry: Geometry) -> Array:
    """Return the tap that each window chooses, or the sentinel if all its weights are 0."""
    # If finite elements are close to the largest float, their sum overflows, so a scaled sum is
    # computed too. The scale is no power of two, because XLA (jax 0.12) would factor that out.
    small_scale = np.asarray(0.7 / geometry.taps, u.dtype)

    def add(tap: Array, element: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        return sums[0] + element, sums[1] + element * small_scale

    total, small_total = fold_over_taps(
        weights, geometry, add, (jnp.zeros_like(u), jnp.zeros_like(u))
    )
    overflows = jnp.isinf(total) & jnp.isfinite(small_total)
    scale = jnp.where(overflows, small_scale, np.ones((), u.dtype))
    total = jnp.where(overflows, small_total, total)
    limit = u * total
    is_finite = jnp.isfinite(total)
    no_tap = sentinel(offset_dtype(geometry))

    def step(tap: Array, element: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        (chosen, before), element = state, element * scale
        # If the sum is not finite, choose the first element that is NaN or equal to the sum.
        is_first = (chosen == no_tap) & ((element == total) | (element != element))
        is_chosen = jnp.where(is_finite, (element > 0) & (before <= limit), is_first)
        return jnp.where(is_chosen, tap.astype(chosen.dtype), chosen), before + element

    initial = jnp.full(u.shape, no_tap), jnp.zeros_like(u)
    return fold_over_taps(weights, geometry, step, initial)[0]


_STOCHASTIC_POOL = Op(
    "stochastic_pool", _stochastic, _canonical_choice, ("where", "key"), is_random=True
)
