"""Global pooling: one window that covers all pooled axes, so plain reductions."""

import functools
import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from .. import _data_format, _exact
from .._arguments import flag
from .._errors import message
from .._reductions import accumulator
from .._window import check_known
from . import _planes, _terms
from ._common import Op, check_float, check_real, check_where
from ._norms import norm
from ._parameters import settle_exponent
from ._planes import Planes
from ._static import call
from ._sums import check_averageable, check_cells, divide, masked


def global_max_pool(
    x: ArrayLike,
    *,
    data_format: str = "channels_last",
    keepdims: bool = True,
    where: ArrayLike | None = None,
) -> Array:
    """Maximum over all cells of the pooled axes.

    ``y[n, c] = max over q of x[n, q, c]``, ``q`` running over all pooled axes.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      data_format: "channels_last" (batch, pooled axes, channels), "channels_first" (batch,
        channels, pooled axes), both with exactly one batch axis and so at least three axes; or
        letters such as "NHWC", "HWC", "NW", which pool D, H and W.
      keepdims: keep the pooled axes, with length 1.
      where: boolean mask that broadcasts to ``x``; False takes the cell away.
    Returns:
      Array of the dtype of ``x``, with pooled axes of length 1 or without them.
    Derivatives: forward and reverse, any order. The tangent follows the first maximum in row-major
      order, where ``jnp.max`` spreads it over all; second derivatives are zero. Reverse mode keeps
      one number per result and has no scatter.
    Edge cases: NaN gives NaN. Without a cell (only ``where`` takes all) the result is the lowest
      value of the dtype, without gradient. Empty batch or channel axes give an empty result.
    Raises:
      TypeError: ``x`` is complex, or ``keepdims`` is not a bool. ValueError: ``x`` has too few axes
        or a pooled axis is empty.
    References: Oquab et al. 2015, "Is object localization for free?"; ONNX GlobalMaxPool-22.
    Example:
      >>> x = jnp.array([[[1.0, 5.0], [4.0, 2.0]]])
      >>> jaxpool.global_max_pool(x, keepdims=False)
      Array([[4., 5.]], dtype=float32)
    """
    return call(_GLOBAL_MAX_POOL, x, where, data_format, keepdims)


def global_avg_pool(
    x: ArrayLike,
    *,
    data_format: str = "channels_last",
    keepdims: bool = True,
    where: ArrayLike | None = None,
) -> Array:
    """Average over all cells of the pooled axes.

    ``y[n, c] = (sum over q of x[n, q, c]) / count``, ``q`` running over all pooled axes.

    Args:
      x: array of any real dtype, or anything ``jnp.asarray`` takes; not bool.
      data_format, keepdims: as in :func:`global_max_pool`.
      where: boolean mask that broadcasts to ``x``; cells where it is False are neither added nor
        counted.
    Returns:
      Array of the dtype of ``x``, with pooled axes of length 1 or without them. Narrow floats are
      added and divided in float32 and rounded once. Integer averages are exact, the sum does not
      wrap; they are rounded half to even.
    Derivatives: linear; forward and reverse, any order. Integers have none.
    Edge cases: where nothing counts the result is 0. NaN and infinities propagate.
    Raises:
      TypeError, ValueError: as :func:`global_max_pool`; TypeError also for bool.
    References: Lin et al. 2014, "Network in network" (arXiv:1312.4400); ONNX GlobalAveragePool-22.
    Example:
      >>> x = jnp.array([[[1.0, 5.0], [4.0, 2.0]]])
      >>> jaxpool.global_avg_pool(x)
      Array([[[2.5, 3.5]]], dtype=float32)
      >>> jaxpool.global_avg_pool(x, where=jnp.array([[[True], [False]]]), keepdims=False)
      Array([[1., 5.]], dtype=float32)
    """
    return call(_GLOBAL_AVG_POOL, x, where, data_format, keepdims)


def global_lp_pool(
    x: ArrayLike,
    *,
    p: float = 2,
    data_format: str = "channels_last",
    keepdims: bool = True,
    where: ArrayLike | None = None,
) -> Array:
    """Lp norm over all cells of the pooled axes.

    ``y[n, c] = (sum over q of |x[n, q, c]| ** p) ** (1 / p)``, ``q`` running over all pooled axes.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` takes.
      p: the exponent, a positive number; infinity gives the largest absolute value.
      data_format, keepdims, where: as in :func:`global_max_pool`.
    Returns:
      Array of the dtype of ``x``, with pooled axes of length 1 or without them. Narrow floats are
      computed in float32 and rounded once.
    Derivatives: as :func:`lp_pool`.
    Edge cases: as :func:`lp_pool`; without a cell the result is 0.
    Raises:
      TypeError, ValueError: as :func:`global_max_pool`; TypeError also for integers and bool;
        ValueError if ``p`` is not positive.
    References: ONNX GlobalLpPool-22.
    Example:
      >>> jaxpool.global_lp_pool(jnp.array([3.0, -4.0]), data_format="W")
      Array([5.], dtype=float32)
    """
    return call(_GLOBAL_LP_POOL, x, where, data_format, keepdims, p)


class Settings(NamedTuple):
    """The settled settings of one call.

    Attributes:
      op: name of the public function, for messages.
      data_format: a layout word or letters.
      keepdims: whether the pooled axes are kept.
      p: the exponent, of the op that has one.
    """

    op: str
    data_format: str
    keepdims: bool
    p: float = 2

    def planes(self, shape: tuple[int, ...]) -> Planes:
        """Return the planes of the pooled axes of an array of ``shape``."""
        positions = _pooled_axes(self.op, self.data_format, shape)
        _planes.check_not_empty(self.op, shape, positions)
        return Planes(positions, tuple(shape[p] for p in positions))

    def finish(self, y: Array, planes: Planes) -> Array:
        """Return the result with the pooled axes kept or not."""
        return y if self.keepdims else jnp.squeeze(y, planes.positions)


def _settle(op: str, data_format: Any, keepdims: Any, p: Any = 2) -> Settings:
    meaning = "It says whether the pooled axes stay, with length 1."
    keepdims = flag(op, "keepdims", keepdims, meaning)
    return Settings(op, _data_format.check(op, data_format), keepdims, settle_exponent(op, p))


def _pooled_axes(op: str, data_format: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    if _data_format.is_explicit(data_format):
        count = _data_format.spatial_count(data_format)
    else:
        count = len(shape) - 2
    if count < 1:
        raise ValueError(
            message(
                op,
                f"the array has {len(shape)} axes, too few for {data_format!r}.",
                f"Its shape is {shape}; one batch axis, the pooled axes and a channel axis make at "
                "least three.",
                'Name the axes of an array without batch or channels, as in "HWC", "HW" or "NW".',
            )
        )
    return _data_format.pooled_axes(op, data_format, count, shape)


def _max(settings: Settings, x: Array, where: Any) -> Array:
    check_real(settings.op, x)
    valid, planes = check_where(settings.op, where, x.shape), settings.planes(x.shape)
    return settings.finish(_planes.largest(x, valid, planes), planes)


def _average(settings: Settings, x: Array, where: Any) -> Array:
    check_averageable(settings.op, x)
    valid, planes = check_where(settings.op, where, x.shape), settings.planes(x.shape)
    total = functools.partial(_planes.total, planes=planes)
    x, largest = masked(x, valid), math.prod(planes.lengths)
    divisor = largest if valid is None else total(valid.astype(jnp.int32))
    if jnp.issubdtype(x.dtype, jnp.integer):
        check_known(settings.op, planes.lengths)
        check_cells(settings.op, largest)
        y = _exact.average(x, total, divisor, largest)
    else:
        y = divide(total(x.astype(accumulator(x.dtype))), divisor).astype(x.dtype)
    return settings.finish(y, planes)


def _lp(settings: Settings, x: Array, where: Any) -> Array:
    check_float(settings.op, x)
    valid, planes = check_where(settings.op, where, x.shape), settings.planes(x.shape)
    y = norm(
        masked(x, valid).astype(accumulator(x.dtype)),
        settings.p,
        planes.positions,
        total=lambda a: _planes.total(a, planes),
        largest=lambda a: _planes.largest(a, None, planes),
        joined=functools.partial(_terms.join_axes, axes=planes.positions),
    )
    return settings.finish(y.astype(x.dtype), planes)


_GLOBAL_MAX_POOL = Op("global_max_pool", _max, _settle)
_GLOBAL_AVG_POOL = Op("global_avg_pool", _average, _settle)
_GLOBAL_LP_POOL = Op("global_lp_pool", _lp, _settle)
