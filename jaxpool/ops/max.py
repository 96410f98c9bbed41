"""Max and min pooling, with and without indices."""

import functools
from typing import Any

from jax import Array
from jax.typing import ArrayLike, DTypeLike

from .._autodiff import rules
from .._errors import public
from .._geometry.arguments import Integers
from .._geometry.window import Padding, Rounding
from .._numerics import indices
from .._numerics.checks import check_real, check_where
from .._numerics.indices import IndexSpace
from ..reductions import MAX, MIN, Reduction
from ._dispatch import Configuration, Op, WindowArguments, call


@public
def max_pool(
    x: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Array:
    """Return the maximum over sliding windows.

    ``y[.., o, ..] = max over t of x[.., o * stride - pad_low + t * dilation, ..]`` for taps ``t``
    in ``[0, window)`` of each pooled axis. Positions outside ``x`` are ignored.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      window_shape: taps per pooled axis, >= 1; its length is the number of pooled axes. With a
        ``data_format`` in letters, an int applies to all pooled axes.
      strides: int or one per pooled axis, >= 1, in elements. It has no default, because libraries
        disagree on one.
      padding: "VALID" (none), "SAME" = "SAME_UPPER" or "SAME_LOWER" in any case, or elements >= 0:
        an int, one int per pooled axis, or (low, high) pairs.
      dilations: int or one per pooled axis, >= 1: distance between neighbouring taps, in elements.
      rounding: "floor" drops a last window that is partly filled, "ceil" keeps it, and "ceil_torch"
        keeps it if it starts inside ``x`` or its low padding (PyTorch's and ONNX's ceil_mode).
      data_format: "channels_last" (any batch axes, pooled axes, channels), "channels_first", or
        letters such as "NHWC", "NCDHW", "HW", which fix the rank.
      where: boolean mask that broadcasts to ``x``; elements where it is False are ignored.
      implementation: "auto", or one of "slices", "tiled", "blocks", "doubling", "separable",
        "reduce_window" and "mosaic". A named implementation runs or raises; no other one replaces
        it.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
    Derivatives: forward and reverse mode, any order. The tangent is that of the first maximum, in
      row-major order of the window; second derivatives are zero. Reverse mode stores one byte per
      output for windows of up to 255 taps. It has no scatter, so it is deterministic on every
      backend.
    Edge cases: NaN in a window gives NaN. A window without elements gives the lowest value of the
      dtype (-inf for floats) and no gradient. The sign of a zero result is unspecified. Empty batch
      or channel axes give an empty result.
    Raises:
      TypeError: a setting is not an integer, or ``x`` is complex, a float of six bits or
        ``float8_e8m0fnu``.
      ValueError: a setting is out of range, has the wrong length or does not fit ``x``.
      NotImplementedError: the named implementation does not support the windows.
    References: Dumoulin and Visin 2016 (arXiv:1603.07285), section 5.
    Example:
      >>> x = jnp.array([[1.0], [3.0], [2.0], [5.0]])
      >>> jaxpool.max_pool(x, (2,), 2)[:, 0]
      Array([3., 5.], dtype=float32)
      >>> jax.grad(lambda x: jaxpool.max_pool(x, (2,), 1, dilations=2).sum())(x)[:, 0]
      Array([0., 0., 1., 1.], dtype=float32)
    """
    windows = WindowArguments(
        window_shape, strides, padding, dilations, rounding, data_format, implementation
    )
    return call(MAX_POOL, x, (where,), windows)


@public
def min_pool(
    x: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    implementation: str = "auto",
) -> Array:
    """Return the minimum over sliding windows.

    ``y[.., o, ..] = min over t of x[.., o * stride - pad_low + t * dilation, ..]``. Positions
    outside ``x`` are ignored.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      window_shape, strides, padding, dilations, rounding, data_format, where, implementation: as in
        :func:`max_pool`.
    Returns:
      Array of the dtype of ``x``. Its shape (:func:`output_shape`) differs on the pooled axes only.
    Derivatives: as :func:`max_pool`; the tangent is that of the first minimum.
    Edge cases: NaN in a window gives NaN. A window without elements gives the highest value of the
      dtype (inf for floats) and no gradient.
    Raises:
      TypeError, ValueError, NotImplementedError: as :func:`max_pool`.
    References: Dumoulin and Visin 2016 (arXiv:1603.07285), section 5.
    Example:
      >>> jaxpool.min_pool(jnp.array([[4, 3], [2, 7], [1, 8]]), (2,), 1)
      Array([[2, 3],
             [1, 7]], dtype=int32)
    """
    windows = WindowArguments(
        window_shape, strides, padding, dilations, rounding, data_format, implementation
    )
    return call(MIN_POOL, x, (where,), windows)


@public
def max_pool_with_argmax(
    x: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    implementation: str = "auto",
    index_space: IndexSpace = "spatial",
    index_dtype: DTypeLike | None = None,
) -> tuple[Array, Array]:
    """Return the maximum over sliding windows, and its index.

    The values are those of :func:`max_pool`. ``indices`` has the position of the first maximum of
    each window, in row-major order of the window: ``q = o * stride - pad_low + t * dilation`` in
    ``x`` without padding, expressed in ``index_space``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      window_shape, strides, padding, dilations, rounding, data_format, where, implementation: as in
        :func:`max_pool`.
      index_space: "spatial", flat over the pooled axes (PyTorch); an int axis ``a``, flat over all
        axes of ``x`` from ``a`` on (OpenVINO's ``axis``; 0 is ONNX; 1 on NHWC is TensorFlow); or
        "window", the window offset: the number of the tap, row-major (oneDNN's workspace).
      index_dtype: an integer dtype; unsigned, except for "window", only if every window has an
        element. The default is int32, for "window" uint8 up to 255 taps.
    Returns:
      (values, indices), both of the shape of :func:`max_pool`'s result.
    Derivatives: values as :func:`max_pool`; indices are integers and have no tangent (float0).
    Edge cases: if the value is NaN, the index is that of the first NaN in the window. A window
      without elements has index -1, or in an unsigned "window" space the largest number of the
      dtype (255 in uint8). Where XLA treats subnormal numbers as zero, as on CPU, they compare
      equal to each other and to zero, so the value and the index may belong to different elements.
    Raises:
      TypeError, ValueError, NotImplementedError: as :func:`max_pool`; ValueError also if an index
        would not fit ``index_dtype``.
    References: OpenVINO MaxPool-14; ONNX MaxPool-22; PyTorch ``max_pool2d``; oneDNN pooling.
    Example:
      >>> x = jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
      >>> values, indices = jaxpool.max_pool_with_argmax(x, 2, 1, data_format="HW")
      >>> indices
      Array([[4, 5],
             [7, 8]], dtype=int32)
      >>> jaxpool.max_pool_with_argmax(x, 2, 2, 1, data_format="HW", index_space="window")[1]
      Array([[3, 3],
             [3, 3]], dtype=uint8)
    """
    windows = WindowArguments(
        window_shape, strides, padding, dilations, rounding, data_format, implementation
    )
    return call(
        MAX_POOL_WITH_ARGMAX, x, (where,), windows, index_space=index_space, index_dtype=index_dtype
    )


@public
def min_pool_with_argmin(
    x: ArrayLike,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    implementation: str = "auto",
    index_space: IndexSpace = "spatial",
    index_dtype: DTypeLike | None = None,
) -> tuple[Array, Array]:
    """Return the minimum over sliding windows, and its index.

    The values are those of :func:`min_pool`. ``indices`` has the position of the first minimum of
    each window, in row-major order of the window: ``q = o * stride - pad_low + t * dilation`` in
    ``x`` without padding, expressed in ``index_space``.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` accepts.
      window_shape, strides, padding, dilations, rounding, data_format, where, implementation: as in
        :func:`max_pool`.
      index_space, index_dtype: as in :func:`max_pool_with_argmax`.
    Returns:
      (values, indices), both of the shape of :func:`min_pool`'s result.
    Derivatives: values as :func:`min_pool`; indices are integers and have no tangent (float0).
    Edge cases: as :func:`max_pool_with_argmax`, for minima.
    Raises:
      TypeError, ValueError, NotImplementedError: as :func:`max_pool_with_argmax`.
    References: as :func:`max_pool_with_argmax`.
    Example:
      >>> x = jnp.array([[3.0, 2.0, 1.0], [6.0, 5.0, 4.0]])
      >>> values, indices = jaxpool.min_pool_with_argmin(x, 2, 1, data_format="HW")
      >>> values, indices
      (Array([[2., 1.]], dtype=float32), Array([[1, 2]], dtype=int32))
    """
    windows = WindowArguments(
        window_shape, strides, padding, dilations, rounding, data_format, implementation
    )
    return call(
        MIN_POOL_WITH_ARGMIN, x, (where,), windows, index_space=index_space, index_dtype=index_dtype
    )


# --- bodies --------------------------------------------------------------------------------------


def _extreme(x: Array, where: Any, *, config: Configuration, reduction: Reduction) -> Array:
    check_real(x)
    plan = config.plan(x.shape, x.dtype, reduction)
    return rules.extreme(x, check_where(where, x.shape), plan)


def _extreme_with_offsets(
    x: Array, where: Any, *, config: Configuration, reduction: Reduction
) -> tuple[Array, Array]:
    check_real(x)
    plan = config.plan(x.shape, x.dtype, reduction)
    return rules.extreme_with_offsets(x, check_where(where, x.shape), plan)


MAX_POOL = Op("max_pool", functools.partial(_extreme, reduction=MAX))
MIN_POOL = Op("min_pool", functools.partial(_extreme, reduction=MIN))
MAX_POOL_WITH_ARGMAX = Op(
    "max_pool_with_argmax",
    functools.partial(_extreme_with_offsets, reduction=MAX),
    indices.canonical_space,
    convert=indices.convert,
)
MIN_POOL_WITH_ARGMIN = Op(
    "min_pool_with_argmin",
    functools.partial(_extreme_with_offsets, reduction=MIN),
    indices.canonical_space,
    convert=indices.convert,
)
