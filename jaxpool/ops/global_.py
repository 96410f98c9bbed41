"""Global maxima and minima: one window covers all pooled axes, so they are reductions over axes.

A minimum is computed as a maximum of the negated floats, or of the bitwise complements of integers
and booleans. Complements reverse the order of integers and, unlike negatives, always fit the dtype.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from .._autodiff import planes as _planes
from .._autodiff import rules
from .._autodiff.planes import Planes
from .._errors import counted, message, public
from .._geometry import layout as layouts
from .._geometry.arguments import as_bool
from .._geometry.resolve import check_not_empty
from .._geometry.window import check_taps
from .._lowerings.plan import plan_for
from .._numerics import indices
from .._numerics.checks import check_real, check_where
from .._numerics.indices import IndexSpace
from .._xla.sharding_types import squeeze
from ..reductions import MAX, Reduction
from ._dispatch import Op, call


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
    return call(_GLOBAL_MAX_POOL, x, (where,), data_format=data_format, keepdims=keepdims)


@public
def global_min_pool(
    x: ArrayLike,
    *,
    data_format: str = "channels_last",
    keepdims: bool = True,
    where: ArrayLike | None = None,
) -> Array:
    """Return the minimum over all elements of the pooled axes.

    ``y[n, c] = min over q of x[n, q, c]``, where ``q`` runs over all pooled axes.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      data_format, keepdims, where: as in :func:`global_max_pool`.
    Returns:
      Array of the dtype of ``x``, with pooled axes of length 1 or without them.
    Derivatives: as :func:`global_max_pool`; the tangent is that of the first minimum.
    Edge cases: NaN gives NaN. Without elements (only ``where`` can remove all) the result is the
      highest value of the dtype, and there is no gradient.
    Raises:
      TypeError, ValueError: as :func:`global_max_pool`.
    References: Oquab et al. 2015, "Is object localization for free?".
    Example:
      >>> jaxpool.global_min_pool(jnp.array([[[1.0, 5.0], [4.0, 2.0]]]), keepdims=False)
      Array([[1., 2.]], dtype=float32)
    """
    return call(_GLOBAL_MIN_POOL, x, (where,), data_format=data_format, keepdims=keepdims)


@public
def global_max_pool_with_argmax(
    x: ArrayLike,
    *,
    data_format: str = "channels_last",
    keepdims: bool = True,
    where: ArrayLike | None = None,
    index_space: IndexSpace = "spatial",
    index_dtype: DTypeLike | None = None,
) -> tuple[Array, Array]:
    """Return the maximum over all elements of the pooled axes, and its index.

    The values ``y`` are those of :func:`global_max_pool`. ``indices`` has the position of the first
    maximum, in row-major order of the pooled axes; with one pooled axis
    ``x[n, indices[n, c], c] = y[n, c]``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      data_format, keepdims, where: as in :func:`global_max_pool`.
      index_space, index_dtype: as in :func:`max_pool_with_argmax`; the window is all pooled axes.
    Returns:
      (values, indices), both of the shape of :func:`global_max_pool`'s result.
    Derivatives: values as :func:`global_max_pool`; indices are integers and have no tangent.
    Edge cases: if the value is NaN, the index is that of the first NaN. Without elements it is -1,
      or in an unsigned "window" space the largest number of the dtype.
    Raises:
      TypeError, ValueError: as :func:`global_max_pool` and :func:`max_pool_with_argmax`.
    References: Oquab et al. 2015, "Is object localization for free?".
    Example:
      >>> x = jnp.array([[[1.0, 5.0], [4.0, 2.0]]])
      >>> jaxpool.global_max_pool_with_argmax(x, keepdims=False)[1]
      Array([[1, 0]], dtype=int32)
    """
    return call(
        _GLOBAL_ARGMAX,
        x,
        (where,),
        data_format=data_format,
        keepdims=keepdims,
        index_space=index_space,
        index_dtype=index_dtype,
    )


# --- the op of a global pool ----------------------------------------------------------------------


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
    planes = Planes(positions, tuple(shape[p] for p in positions))
    if planes.are_known:
        check_taps(planes.lengths)
    return planes


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


# --- bodies ---------------------------------------------------------------------------------------


def _min(x: Array, valid: Array | None, planes: Planes) -> Array:
    reverse = jnp.negative if jnp.issubdtype(x.dtype, jnp.floating) else jnp.invert
    return reverse(_planes.plane_maximum(reverse(x), valid, planes))


def _argmax(
    x: Array, valid: Array | None, planes: Planes, index_space: Any, index_dtype: Any
) -> tuple[Array, Array]:
    space = index_space, index_dtype
    if not planes.are_known:
        return maximum_with_indices(x, valid, planes, *space)
    plan = plan_for(planes.geometry, MAX, x.dtype)
    values, offsets = rules.extreme_with_offsets(x, valid, plan)
    masked = valid is not None
    return values, indices.convert(offsets, x.shape, plan.geometry, *space, masked)


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


_GLOBAL_MAX_POOL = global_op("global_max_pool", _planes.plane_maximum, check_real)
_GLOBAL_MIN_POOL = global_op("global_min_pool", _min, check_real)
_GLOBAL_ARGMAX = global_op("global_max_pool_with_argmax", _argmax, check_real, indices.canonical)
