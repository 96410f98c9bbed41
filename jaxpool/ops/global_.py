"""Global pooling: one window covers all pooled axes, so the ops are reductions over axes."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .._autodiff import planes as _planes
from .._autodiff.planes import Planes
from .._errors import counted, message, public
from .._geometry import layout as layouts
from .._geometry.arguments import as_bool
from .._geometry.resolve import check_not_empty
from .._numerics import indices, scaled_sums
from .._numerics.checks import check_float, check_real, check_where
from .._numerics.divisors import average, check_averageable, zero_where_masked
from .._numerics.indices import IndexSpace
from .._numerics.integer_mean import Rounding
from .._numerics.norms import norm
from .._xla.sharding_types import squeeze
from ..reductions import MAX, Reduction, accumulator
from ._dispatch import Op, call
from ._parameters import canonical_p


@public
def global_max_pool(
    x: ArrayLike,
    *,
    data_format: str = "channels_last",
    keepdims: bool = True,
    where: ArrayLike | None = None,
) -> Array:
    """Return the maximum over all elements of the pooled axes.

    ``y[n, c] = max over q of x[n, q, c]``, where ``q`` runs over all pooled axes.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      data_format: "channels_last" (batch, pooled axes, channels), "channels_first" (batch,
        channels, pooled axes), both with exactly one batch axis and hence at least three axes; or
        letters such as "NHWC", "HWC", "NW", which pool D, H and W.
      keepdims: keep the pooled axes, with length 1.
      where: boolean mask that broadcasts to ``x``; elements where it is False are ignored.
    Returns:
      Array of the dtype of ``x``, with pooled axes of length 1 or without them.
    Derivatives: forward and reverse mode, any order. The tangent is that of the first maximum, in
      row-major order, whereas ``jnp.max`` spreads it over all maxima; second derivatives are zero.
      Reverse mode stores one number per result and has no scatter.
    Edge cases: NaN gives NaN. Without elements (only ``where`` can remove all) the result is the
      lowest value of the dtype, and there is no gradient. Empty batch or channel axes give an empty
      result.
    Raises:
      TypeError: ``x`` is complex, or ``keepdims`` is not a bool. ValueError: ``x`` has too few axes
        or a pooled axis is empty.
    References: Oquab et al. 2015, "Is object localization for free?"; ONNX GlobalMaxPool-22.
    Example:
      >>> x = jnp.array([[[1.0, 5.0], [4.0, 2.0]]])
      >>> jaxpool.global_max_pool(x, keepdims=False)
      Array([[4., 5.]], dtype=float32)
    """
    return call(GLOBAL_MAX_POOL, x, (where,), data_format=data_format, keepdims=keepdims)


@public
def global_avg_pool(
    x: ArrayLike,
    *,
    data_format: str = "channels_last",
    keepdims: bool = True,
    where: ArrayLike | None = None,
) -> Array:
    """Return the average over all elements of the pooled axes.

    ``y[n, c] = (sum over q of x[n, q, c]) / count``, where ``q`` runs over all pooled axes.

    Args:
      x: array of any real dtype, or anything ``jnp.asarray`` accepts; not bool.
      data_format, keepdims: as in :func:`global_max_pool`.
      where: boolean mask that broadcasts to ``x``; elements where it is False are neither added nor
        counted.
    Returns:
      Array of the dtype of ``x``, with pooled axes of length 1 or without them. Low-precision
      floats are added and divided in float32 and rounded once. Integer averages are exact, because
      the sum does not wrap; they are rounded half to even.
    Derivatives: linear; forward and reverse mode, any order. Integers have no derivative.
    Edge cases: without elements the result is 0. NaN and infinities propagate.
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
    return call(GLOBAL_AVG_POOL, x, (where,), data_format=data_format, keepdims=keepdims)


@public
def global_lp_pool(
    x: ArrayLike,
    *,
    p: float = 2,
    data_format: str = "channels_last",
    keepdims: bool = True,
    where: ArrayLike | None = None,
) -> Array:
    """Return the Lp norm over all elements of the pooled axes.

    ``y[n, c] = (sum over q of |x[n, q, c]| ** p) ** (1 / p)``, where ``q`` runs over all pooled
    axes.

    Args:
      x: array of a floating-point dtype, or anything ``jnp.asarray`` accepts.
      p: the exponent, from 2^-20 to 2^20; infinity gives the largest absolute value.
      data_format, keepdims, where: as in :func:`global_max_pool`.
    Returns:
      Array of the dtype of ``x``, with pooled axes of length 1 or without them. Low-precision
      floats are computed in float32 and rounded once.
    Derivatives: as :func:`lp_pool`.
    Edge cases: as :func:`lp_pool`; without elements the result is 0.
    Raises:
      TypeError, ValueError: as :func:`global_max_pool`; TypeError also for integers and bool;
        ValueError if ``p`` is out of range.
    References: ONNX GlobalLpPool-22.
    Example:
      >>> jaxpool.global_lp_pool(jnp.array([3.0, -4.0]), data_format="W")
      Array([5.], dtype=float32)
    """
    return call(GLOBAL_LP_POOL, x, (where,), data_format=data_format, keepdims=keepdims, p=p)


def global_op(
    name: str,
    body: Callable[..., Any],
    check: Callable[[Array], None],
    canonicalize: Callable[..., dict[str, Any]] = dict,
    arrays: tuple[str, ...] = ("where",),
) -> Op:
    """Return the op of a global pool.

    Args:
      name, arrays: as in :class:`Op`.
      body: ``body(x, valid, planes, *others, **options)``; its results keep the pooled axes.
      check: raises unless the op is defined for the dtype of ``x``.
      canonicalize: as in :class:`Op`, for the options besides ``data_format`` and ``keepdims``.
    """

    def traced(
        x: Array, where: Any, *others: Any, data_format: str, keepdims: bool, **options: Any
    ) -> Any:
        """Return the results with the pooled axes, whatever ``keepdims``."""
        check(x)
        valid, planes = check_where(where, x.shape), _planes_of(data_format, x.shape)
        return body(x, valid, planes, *others, **options)

    def finish(results: Any, data_format: str, keepdims: bool, **options: Any) -> Any:
        without = lambda a: squeeze(a, _pooled_axes(data_format, a.shape))  # noqa: E731
        return results if keepdims else jax.tree.map(without, results)

    def canonical(data_format: Any, keepdims: Any, **options: Any) -> dict[str, Any]:
        meaning = "It determines whether the pooled axes stay, with length 1."
        keepdims = as_bool("keepdims", keepdims, meaning)
        data_format = layouts.check(data_format)
        return {"data_format": data_format, "keepdims": keepdims, **canonicalize(**options)}

    return Op(name, traced, canonical, arrays, finish=finish)


def _planes_of(data_format: str, shape: tuple[int, ...]) -> Planes:
    """Return the planes of the pooled axes of an array of ``shape``, or raise if one is empty."""
    positions = _pooled_axes(data_format, shape)
    for index, position in enumerate(positions):
        check_not_empty(index, shape[position])
    return Planes(positions, tuple(shape[p] for p in positions))


def _pooled_axes(data_format: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    if layouts.is_explicit(data_format):
        count = layouts.spatial_count(data_format)
    else:
        count = len(shape) - 2
    if count < 1:
        raise ValueError(
            message(
                f"the array has {counted(len(shape), 'axis')}, too few for {data_format!r}.",
                f"Its shape is {shape}; one batch axis, the pooled axes and a channel axis make at "
                "least three.",
                'Name the axes of an array without batch or channels, as in "HWC", "HW" or "NW".',
            )
        )
    return layouts.pooled_axes(data_format, count, shape)


def maximum_with_indices(
    x: Array,
    valid: Array | None,
    planes: Planes,
    space: IndexSpace,
    dtype: np.dtype | None,
    maximum: Reduction = MAX,
    spatial: tuple[int, ...] | None = None,
) -> tuple[Array, Array]:
    """Return the largest element of every plane and its index; the lengths may be unknown.

    A "spatial" index counts the axes ``spatial``, by default those of the planes.
    """
    values, offsets = _planes.plane_maximum_with_offsets(x, valid, planes, maximum)
    geometry = planes.geometry
    return values, indices.convert(offsets, x.shape, geometry, space, dtype, True, spatial)


def average_of(
    x: Array, valid: Array | None, planes: Planes, rounding: Rounding = "half_even"
) -> Array:
    """Return the average of every plane; the lengths may be unknown."""
    total = functools.partial(_planes.plane_sum, planes=planes)
    largest = math.prod(planes.lengths)
    divisor = largest if valid is None else total(valid.astype(jnp.int32))
    return average(zero_where_masked(x, valid), total, divisor, largest, rounding)


def _lp(x: Array, valid: Array | None, planes: Planes, p: float) -> Array:
    y = norm(
        zero_where_masked(x, valid).astype(accumulator(x.dtype)),
        p,
        planes.positions,
        total=lambda a: _planes.plane_sum(a, planes),
        largest=lambda a: _planes.plane_maximum(a, None, planes),
        joined=lambda make, a: scaled_sums.join_axes(make(a), planes.positions),
    )
    return y.astype(x.dtype)


GLOBAL_MAX_POOL = global_op("global_max_pool", _planes.plane_maximum, check_real)
GLOBAL_AVG_POOL = global_op("global_avg_pool", average_of, check_averageable)
GLOBAL_LP_POOL = global_op("global_lp_pool", _lp, check_float, canonical_p)
