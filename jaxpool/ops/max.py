"""Max and min pooling, with and without indices."""

from typing import Any

from jax import Array
from jax.typing import ArrayLike

from .. import _derivatives, _indices
from .._reductions import MAX, MIN, Reduction
from ._common import Settings, call, check_real, check_where


def max_pool(
    x: ArrayLike,
    window_shape: Any,
    strides: Any,
    padding: Any = "VALID",
    *,
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    lowering: str = "auto",
) -> Array:
    """TODO"""
    return call(
        _max, x, where, "max_pool", window_shape, strides, padding, dilations, rounding,
        data_format, lowering,
    )  # fmt: skip


def min_pool(
    x: ArrayLike,
    window_shape: Any,
    strides: Any,
    padding: Any = "VALID",
    *,
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    lowering: str = "auto",
) -> Array:
    """TODO"""
    return call(
        _min, x, where, "min_pool", window_shape, strides, padding, dilations, rounding,
        data_format, lowering,
    )  # fmt: skip


def max_pool_with_argmax(
    x: ArrayLike,
    window_shape: Any,
    strides: Any,
    padding: Any = "VALID",
    *,
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    lowering: str = "auto",
    index_space: str | int = "spatial",
    index_dtype: Any = None,
) -> tuple[Array, Array]:
    """TODO"""
    return call(
        _max_with_argmax, x, where, "max_pool_with_argmax", window_shape, strides, padding,
        dilations, rounding, data_format, lowering, (index_space, index_dtype),
    )  # fmt: skip


def _max(settings: Settings, x: Array, where: Any) -> Array:
    return _extreme(settings, x, where, MAX)


def _min(settings: Settings, x: Array, where: Any) -> Array:
    return _extreme(settings, x, where, MIN)


def _extreme(settings: Settings, x: Array, where: Any, reduction: Reduction) -> Array:
    check_real(settings.op, x)
    plan = settings.plan(x.shape, x.dtype, reduction)
    return _derivatives.extreme(x, check_where(settings.op, where, x.shape), plan)


def _max_with_argmax(settings: Settings, x: Array, where: Any) -> tuple[Array, Array]:
    check_real(settings.op, x)
    index_space, index_dtype = settings.extra
    space = _indices.check_space(settings.op, index_space)
    plan = settings.plan(x.shape, x.dtype, MAX)
    valid = check_where(settings.op, where, x.shape)
    values, taps = _derivatives.extreme_with_taps(x, valid, plan)
    indices = _indices.convert(
        settings.op, taps, x.shape, plan.geometry, space, index_dtype, valid is not None
    )
    return values, indices
