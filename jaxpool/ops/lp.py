"""Lp and generalised-mean pooling."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .. import _derivatives
from .._reductions import MAX, accumulator
from . import _terms
from ._common import Op, Settings, call, check_float, check_where
from ._norms import norm
from ._parameters import check_positive, parameter, settle_exponent
from ._sums import count_cells, counts, divide, masked, window_sum


def lp_pool(
    x: ArrayLike,
    window_shape: Any,
    strides: Any,
    padding: Any = "VALID",
    *,
    p: float = 2,
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    lowering: str = "auto",
) -> Array:
    """Lp norm over sliding windows.

    ``y[.., o, ..] = (sum over t of |x[.., q, ..]| ** p) ** (1 / p)`` over the cells inside ``x``,
    with ``q = o * stride - pad_low + t * dilation``. The sum is not divided by the number of cells,
    nor is a partly filled window scaled up (ONNX; PyTorch does, and takes no absolute value).

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` takes.
      window_shape, strides, padding, dilations, rounding, data_format: as in :func:`max_pool`.
      p: the exponent, a positive number; infinity gives the largest absolute value. It is static;
        :func:`gem_pool` has a learnable one.
      where: boolean mask that broadcasts to ``x``; False takes the cell away.
      lowering: as in :func:`max_pool`; finite exponents above 4 have "slices" and "doubling".
    Returns:
      Array of the dtype of ``x``; pooled axes have :func:`output_shape`, the others are unchanged.
      Narrow floats are computed in float32 and rounded once. Powers are taken relative to the
      largest cell of the window, so they neither overflow nor vanish; with ``p`` up to 4 relative
      to that of all pooled axes, where a cell 1e9 times smaller may vanish; with ``p`` = 2 as they
      are, so that the square of a cell must fit float32 (float64 for that).
    Derivatives: forward and reverse, any order, by ``dy = sum of (|x| / y) ** (p - 1) * sign(x) *
      dx``. Zero where the window is zero, and zero at a cell that is zero, also for ``p <= 1``,
      where the true slope has a jump or is infinite. At infinity as :func:`max_pool` of ``|x|``.
    Edge cases: NaN in a window gives NaN, also beside infinities; an infinity gives infinity,
      without a meaningful derivative. A window without a cell gives 0 and no gradient. Subnormal
      cells may count as zero.
    Raises:
      TypeError, ValueError, NotImplementedError: as :func:`max_pool`; TypeError also for integers
        and bool and if ``p`` is not a number; ValueError if it is not positive.
    References: Gulcehre et al. 2014 (arXiv:1311.1780); ONNX LpPool-22.
    Example:
      >>> x = jnp.array([[3.0], [-4.0], [0.0]])
      >>> jaxpool.lp_pool(x, (2,), 1)[:, 0]
      Array([5., 4.], dtype=float32)
      >>> jaxpool.lp_pool(x, (2,), 1, p=1)[:, 0]
      Array([7., 4.], dtype=float32)
    """
    return call(
        _LP_POOL, x, where, window_shape, strides, padding, dilations, rounding,
        data_format, lowering, p,
    )  # fmt: skip


def gem_pool(
    x: ArrayLike,
    window_shape: Any,
    strides: Any,
    padding: Any = "VALID",
    *,
    p: ArrayLike = 3.0,
    eps: float = 1e-6,
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    lowering: str = "auto",
) -> Array:
    """Generalised mean over sliding windows, with a learnable exponent.

    ``y[.., o, ..] = (mean over t of max(x[.., q, ..], eps) ** p) ** (1 / p)`` over the cells inside
    ``x``, with ``q = o * stride - pad_low + t * dilation``. ``p`` = 1 is the average, large ``p``
    the maximum.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` takes.
      window_shape, strides, padding, dilations, rounding, data_format, where: as in
        :func:`max_pool`.
      p: the exponent, positive: a number, or an array, also a traced one, that broadcasts to ``x``
        with length 1 on the pooled axes, such as one exponent per channel.
      eps: positive number that smaller cells are raised to.
      lowering: "auto", "slices" or "doubling", as in :func:`max_pool`.
    Returns:
      Array of the dtype of ``x``; pooled axes have :func:`output_shape`, the others are unchanged.
      Narrow floats are computed in float32 and rounded once. Powers are taken as exponentials,
      relative to the largest of the window, so they neither overflow nor vanish.
    Derivatives: in ``x`` and in ``p``; forward and reverse, any order. Cells below ``eps`` have
      none.
    Edge cases: only real cells count in the mean, neither padding nor overhang. NaN in a window
      gives NaN; an infinity gives infinity, without a meaningful derivative. A window without a
      cell gives 0 and no gradient. As ``p`` goes to 0, the geometric mean, results lose accuracy
      in proportion to ``1 / p`` and derivatives in ``p`` to ``1 / p ** 2``: float32 has 5 digits
      of the mean at ``p`` = 0.01. Values of an array ``p`` are not checked: one that is not
      positive gives what the formula gives, or NaN.
    Raises:
      TypeError, ValueError, NotImplementedError: as :func:`lp_pool`; ValueError also if ``p`` does
        not fit ``x``, or ``eps`` is not positive and finite.
    References: Radenovic, Tolias and Chum 2018 (arXiv:1711.02512), equation 3.
    Example:
      >>> x = jnp.array([[1.0], [7.0], [5.0]])
      >>> jaxpool.gem_pool(x, (2,), 1, p=1.0)[:, 0]
      Array([4., 6.], dtype=float32)
      >>> bool(jax.grad(lambda p: jaxpool.gem_pool(x, (2,), 1, p=p).sum())(1.0) > 0)
      True
    """
    check_positive("gem_pool", "p", p)
    return call(
        _GEM_POOL, x, (where, p), window_shape, strides, padding, dilations, rounding,
        data_format, lowering, eps,
    )  # fmt: skip


def signed_lp_by(
    op: str,
    p: float,
    x: ArrayLike,
    window_shape: Any,
    strides: Any,
    rounding: str = "floor",
    data_format: str = "channels_first",
) -> Array:
    """Return PyTorch's ``lp_pool``, which takes no absolute values, for its front end.

    ``(k * mean of x ** p) ** (1 / p)`` with the mean over the cells inside ``x`` and ``k`` the taps
    of the window: a partly filled window is scaled up. ``p`` is finite and not zero. Where the mean
    is zero nothing comes back through it.
    """
    return call(
        _signed_lp_by(op), x, None, window_shape, strides, "VALID", 1, rounding,
        data_format, "auto", p,
    )  # fmt: skip


@functools.lru_cache(maxsize=256)
def _signed_lp_by(op: str) -> Op:
    return Op(op, _signed_lp, lambda op, p: (p,))


def _signed_lp(settings: Settings, x: Array, where: Any) -> Array:
    (p,) = settings.own
    check_float(settings.op, x)
    geometry = settings.geometry(x.shape)
    wide = x.astype(accumulator(x.dtype))
    powers = lax.integer_pow(wide, int(p)) if float(p).is_integer() else wide**p
    total = window_sum(settings, powers, costly=True)
    mean = divide(total, counts(settings, geometry, None, include_pad=False))
    zero = mean == 0
    base = jnp.where(zero, np.ones((), mean.dtype), mean) * np.asarray(geometry.taps, mean.dtype)
    root = base if p == 1 else lax.pow(base, np.asarray(1 / p, base.dtype))
    at_zero = np.asarray(0 if p > 0 else np.inf, root.dtype)
    return jnp.where(zero, at_zero, root).astype(x.dtype)


def _settle_p(op: str, p: Any) -> tuple[float]:
    return (settle_exponent(op, p),)


def _lp(settings: Settings, x: Array, where: Any) -> Array:
    check_float(settings.op, x)
    valid = check_where(settings.op, where, x.shape)
    wide = masked(x, valid).astype(accumulator(x.dtype))
    geometry, lowering = settings.geometry(x.shape), settings.lowering

    def joined(terms: _terms.Terms) -> _terms.Terms:
        _terms.check_lowering(settings.op, lowering, geometry)
        return _terms.join_windows(terms, geometry, lowering)

    y = norm(
        wide,
        settings.own[0],
        geometry.positions,
        total=functools.partial(window_sum, settings, costly=True),
        largest=lambda a: _derivatives.extreme(a, None, settings.plan(a.shape, a.dtype, MAX)),
        joined=joined,
    )
    return y.astype(x.dtype)


def _settle_eps(op: str, eps: Any) -> tuple[float]:
    check_positive(op, "eps", eps, static=True)
    return (float(eps),)


# ``y = exp((log sum exp(z) - log n) / p)`` with ``z = p log max(x, eps)``, and ``log sum exp(z)``
# is the level of the joined terms plus the logarithm of their factor. Written so, the derivative
# in ``p`` needs no rule of its own.


def _gem(settings: Settings, x: Array, arrays: Any) -> Array:
    where, p = arrays
    check_float(settings.op, x)
    geometry = settings.geometry(x.shape)
    _terms.check_lowering(settings.op, settings.lowering, geometry)
    valid = check_where(settings.op, where, x.shape)
    count = count_cells(settings, geometry, valid, x.ndim)
    wide = x.astype(accumulator(x.dtype))
    p = parameter(settings.op, "p", p, wide, geometry.positions)
    z = p * lax.log(_raised(wide, valid, settings.own[0]))
    terms = _terms.exponentials(z, valid, 1, weighted=False)
    level, factor = _terms.join_windows(terms, geometry, settings.lowering)
    return _mean(level, factor, count, p).astype(x.dtype)


def _raised(x: Array, valid: Array | None, eps: float) -> Array:
    low = np.asarray(eps, x.dtype)
    below = x < low if valid is None else (x < low) | ~valid
    return jnp.where(below, low, x)


def _mean(level: Array, factor: Array, count: Array, p: Array) -> Array:
    nothing = factor == 0
    one, zero = np.ones((), factor.dtype), np.zeros((), factor.dtype)
    level = jnp.where(nothing, zero, level)
    mean = jnp.where(nothing, one, factor) / jnp.maximum(count, 1).astype(factor.dtype)
    return jnp.where(nothing, zero, lax.exp(_terms.log_of(level, mean) / p))


_LP_POOL = Op("lp_pool", _lp, _settle_p)
_GEM_POOL = Op("gem_pool", _gem, _settle_eps, ("where", "p"))
