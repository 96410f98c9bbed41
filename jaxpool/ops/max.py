"""Max and min pooling, with and without indices.

Systems disagree on what a maximum starts from and on NaN. The words of ``MaxRule``:

* "first_nan", the library's own: from nothing; NaN in a window gives NaN, the first one wins;
* "last_nan" (PyTorch): the same values, but the last NaN wins index and gradient;
* "from_lowest" (OpenVINO): from the lowest finite number, of float16 from -inf. Only a greater cell
  wins, so NaN is ignored, and where nothing is greater the window counts as empty and gives the
  start;
* "from_first_cell" (ONNX Runtime): from the first real cell, where a NaN stays; later ones are
  ignored. An empty window gives the lowest finite number, of float16 -inf.

The last two run on an array without NaN: where no cell is greater than -inf, "from_lowest" has an
empty window, and "from_first_cell" has its answer, the first cell.
"""

import functools
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .. import _derivatives, _indices
from .._counts import first_taps, per_window
from .._cut import cut, join
from .._pick import empty, tap_dtype
from .._plan import Plan
from .._reductions import MAX, MAX_LAST_NAN, MIN, MaxRule, Reduction, identity_array
from .._window import Axis, Geometry
from ._common import Op, Settings, call, check_real, check_where


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
    """Maximum over sliding windows.

    ``y[.., o, ..] = max over t of x[.., o * stride - pad_low + t * dilation, ..]`` for taps ``t``
    in ``[0, window)`` of each pooled axis. Positions outside ``x`` are no cells: they never win.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      window_shape: taps per pooled axis, >= 1; its length is the number of pooled axes. With a
        ``data_format`` in letters an int stands for all of them.
      strides: int or one per pooled axis, >= 1, in cells. Required: libraries disagree on a
        default.
      padding: "VALID" (none), "SAME" = "SAME_UPPER" or "SAME_LOWER" in any case, or cells >= 0: an
        int, one int per pooled axis, or (low, high) pairs.
      dilations: int or one per pooled axis, >= 1: distance between neighbouring taps, in cells.
      rounding: "floor" drops a last, partly filled window, "ceil" keeps it, "ceil_torch" keeps it
        if it starts inside ``x`` or its low padding (PyTorch's and ONNX's ceil_mode).
      data_format: "channels_last" (any batch axes, pooled axes, channels), "channels_first", or
        letters such as "NHWC", "NCDHW", "HW", which fix the rank.
      where: boolean mask that broadcasts to ``x``; False takes the cell away.
      lowering: "auto", or the name of a lowering, which runs or raises, never substitutes.
    Returns:
      Array of the dtype of ``x``; pooled axes have :func:`output_shape`, the others are unchanged.
    Derivatives: forward and reverse, any order. The tangent follows the first maximum in row-major
      order of the window; second derivatives are zero. Reverse mode keeps one byte per output for
      windows of up to 255 taps, and has no scatter, so it is deterministic on every backend.
    Edge cases: NaN in a window gives NaN. A window without a cell gives the lowest value of the
      dtype (-inf for floats) and no gradient. The sign of a zero result is unspecified. Empty batch
      or channel axes give an empty result.
    Raises:
      TypeError: a setting is not an integer, or ``x`` is complex.
      ValueError: a setting is out of range, has the wrong length or does not fit ``x``.
      NotImplementedError: the named lowering declines.
    References: Dumoulin and Visin 2016 (arXiv:1603.07285), section 5.
    Example:
      >>> x = jnp.array([[1.0], [3.0], [2.0], [5.0]])
      >>> jaxpool.max_pool(x, (2,), 2)[:, 0]
      Array([3., 5.], dtype=float32)
      >>> jax.grad(lambda x: jaxpool.max_pool(x, (2,), 1, dilations=2).sum())(x)[:, 0]
      Array([0., 0., 1., 1.], dtype=float32)
    """
    return call(
        _MAX_POOL, x, where, window_shape, strides, padding, dilations, rounding,
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
    """Minimum over sliding windows.

    ``y[.., o, ..] = min over t of x[.., o * stride - pad_low + t * dilation, ..]``. Positions
    outside ``x`` are no cells: they never win.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      window_shape, strides, padding, dilations, rounding, data_format, where, lowering: as in
        :func:`max_pool`.
    Returns:
      Array of the dtype of ``x``; pooled axes have :func:`output_shape`, the others are unchanged.
    Derivatives: as :func:`max_pool`, following the first minimum.
    Edge cases: NaN in a window gives NaN. A window without a cell gives the highest value of the
      dtype (inf for floats) and no gradient.
    Raises:
      TypeError, ValueError, NotImplementedError: as :func:`max_pool`.
    References: Dumoulin and Visin 2016 (arXiv:1603.07285), section 5.
    Example:
      >>> jaxpool.min_pool(jnp.array([[4, 3], [2, 7], [1, 8]]), (2,), 1)
      Array([[2, 3],
             [1, 7]], dtype=int32)
    """
    return call(
        _MIN_POOL, x, where, window_shape, strides, padding, dilations, rounding,
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
    """Maximum over sliding windows, and where it was found.

    ``y`` as :func:`max_pool`; ``indices`` say which cell of the input, at
    ``q = o * stride - pad_low + t * dilation``, is the first maximum of its window, row-major in
    the window. Padding is never counted.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      window_shape, strides, padding, dilations, rounding, data_format, where, lowering: as in
        :func:`max_pool`.
      index_space: "spatial", flat over the pooled axes (PyTorch); an int axis ``a``, flat over all
        axes of ``x`` from ``a`` on (OpenVINO's ``axis``; 0 is ONNX; 1 on NHWC is TensorFlow); or
        "window", the number of the tap in the window (oneDNN's workspace).
      index_dtype: an integer dtype; default int32, and for "window" uint8 up to 255 taps.
    Returns:
      (values, indices), both of the shape of :func:`max_pool`'s result.
    Derivatives: values as :func:`max_pool`; indices are integers and carry no tangent (float0).
    Edge cases: the index of NaN is that of the first NaN in the window. A window without a cell
      has index -1; in an unsigned "window" space it is the largest number of the dtype (255 in
      uint8). Where XLA takes subnormal numbers for zero, as on CPU, value and index may be those of
      two cells that are equal so.
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
    return call(
        _MAX_POOL_WITH_ARGMAX, x, where, window_shape, strides, padding,
        dilations, rounding, data_format, lowering, index_space, index_dtype,
    )  # fmt: skip


# --- by the rules of another system --------------------------------------------------------------


def max_by(
    op: str,
    rule: MaxRule,
    x: ArrayLike,
    window_shape: Any,
    strides: Any,
    padding: Any,
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_first",
) -> Array:
    """Return :func:`max_pool` by another system's rule, for the front ends; ``op`` is their name.

    The settings are those of :func:`max_pool`; the rounding may also be "ceil_torch_or_one".
    """
    return call(
        _max_by(op), x, None, window_shape, strides, padding, dilations, rounding,
        data_format, "auto", rule,
    )  # fmt: skip


def max_with_argmax_by(
    op: str,
    rule: MaxRule,
    x: ArrayLike,
    window_shape: Any,
    strides: Any,
    padding: Any,
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_first",
    *,
    index_space: Literal["spatial"] | int = "spatial",
    index_dtype: Any = None,
    empty_cell: int | None = None,
    column_major: bool = False,
) -> tuple[Array, Array]:
    """Return :func:`max_pool_with_argmax` by another system's rule, for the front ends.

    Args:
      op, rule, x, window_shape, strides, padding, dilations, rounding, data_format: as in
        :func:`max_by`.
      index_space, index_dtype: as in :func:`max_pool_with_argmax`.
      empty_cell: the place on each pooled axis that the index of an empty window names; None
        leaves the mark.
      column_major: the first pooled axis varies fastest in the index, as in ONNX's storage_order 1.
    """
    return call(
        _max_with_argmax_by(op), x, None, window_shape, strides, padding, dilations, rounding,
        data_format, "auto", rule, index_space, index_dtype, empty_cell, column_major,
    )  # fmt: skip


@functools.lru_cache(maxsize=256)
def _max_by(op: str) -> Op:
    return Op(op, _by_rule, lambda op, rule: (rule,))


@functools.lru_cache(maxsize=256)
def _max_with_argmax_by(op: str) -> Op:
    settle = lambda op, rule, space, dtype, *own: (rule, *_settle_index(op, space, dtype), *own)  # noqa: E731
    return Op(op, _by_rule_with_argmax, settle)


def _by_rule(settings: Settings, x: Array, where: Any) -> Array:
    rule, plan = settings.own[0], _plan_by_rule(settings, x)
    values = _derivatives.extreme(_prepared(rule, x), None, plan)
    return _finished(rule, plan, x, values, None)[0]


def _by_rule_with_argmax(settings: Settings, x: Array, where: Any) -> tuple[Array, Array]:
    rule, plan = settings.own[0], _plan_by_rule(settings, x)
    pick = _derivatives.extreme_with_taps(_prepared(rule, x), None, plan)
    values, taps = _finished(rule, plan, x, *pick)
    return values, _index_by_rule(settings, taps, x.shape, plan.geometry)


def _index_by_rule(
    settings: Settings, taps: Array, shape: tuple[int, ...], geometry: Geometry
) -> Array:
    rule, space, dtype, empty_cell, column_major = settings.own
    places, found = _indices.places(taps, geometry), taps != empty(taps.dtype)
    if empty_cell is not None:
        places = {axis: jnp.where(found, place, empty_cell) for axis, place in places.items()}
    may_be_empty = rule == "from_lowest" or geometry.has_empty_window
    marked = found if may_be_empty and empty_cell is None else None
    axes = _indices.counted_axes(settings.op, space, geometry.positions, len(shape))
    if column_major:
        pooled = tuple(axis for axis in axes if axis in places)
        axes = (*(axis for axis in axes if axis not in places), *pooled[::-1])
    return _indices.flat(settings.op, space, places, marked, shape, axes, dtype)


def _plan_by_rule(settings: Settings, x: Array) -> Plan:
    check_real(settings.op, x)
    last = settings.own[0] == "last_nan"
    return settings.plan(x.shape, x.dtype, MAX_LAST_NAN if last else MAX)


def _start(dtype: np.dtype) -> np.ndarray:
    """What a maximum starts from: the lowest finite number, of float16 -inf."""
    inexact = jnp.issubdtype(dtype, jnp.floating) and dtype != np.float16
    return np.asarray(jnp.finfo(dtype).min if inexact else MAX.identity(dtype), dtype)


def _prepared(rule: MaxRule, x: Array) -> Array:
    """The array with the identity in place of the cells that the rule ignores."""
    if rule in ("first_nan", "last_nan") or not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    wins = x > _start(x.dtype) if rule == "from_lowest" else x == x
    return jnp.where(wins, x, identity_array(MAX, np.dtype(x.dtype)))


def _finished(
    rule: MaxRule, plan: Plan, x: Array, values: Array, taps: Array | None
) -> tuple[Array, Array]:
    """The values, and if given the taps, that the rule makes of those of the prepared array."""
    mark = empty(tap_dtype(plan.geometry))
    if taps is None:
        taps = jnp.zeros(values.shape, mark.dtype)
    start = _start(np.dtype(values.dtype))
    if rule == "from_lowest":
        none = values == identity_array(MAX, np.dtype(values.dtype))
        return jnp.where(none, start, values), jnp.where(none, mark, taps)
    if rule == "from_first_cell":
        for axis, position in plan.geometry.placed:
            if axis.has_empty_window:
                cells = per_window(axis.count_runs(include_pad=False), position, values.ndim)
                values = jnp.where(cells == 0, start, values)
        if jnp.issubdtype(x.dtype, jnp.floating):
            return _seeded(plan.geometry, x, values, taps)
    return values, taps


def _seeded(geometry: Geometry, x: Array, values: Array, taps: Array) -> tuple[Array, Array]:
    """Let a NaN in the first real cell of a window win."""
    first = x
    for axis, position in geometry.placed:
        first = _first_cells(first, axis, position)
    stays, number = first != first, first_taps(geometry, x.ndim).astype(taps.dtype)
    return jnp.where(stays, first, values), jnp.where(stays, number, taps)


def _first_cells(x: Array, axis: Axis, position: int) -> Array:
    """The first real cell of every window along an axis, 0 where there is none."""
    parts = []
    for run in axis.segments():
        count = run.last - run.first
        if run.low < run.high:
            start = axis.start(run.first) + run.low * axis.dilation
            parts.append(cut(x, position, start, count, axis.stride))
        else:
            parts.append(jnp.zeros_like(cut(x, position, 0, 1, 1)).repeat(count, position))
    return join(parts, position)


# --- bodies --------------------------------------------------------------------------------------


def _extreme(settings: Settings, x: Array, where: Any, *, reduction: Reduction) -> Array:
    check_real(settings.op, x)
    plan = settings.plan(x.shape, x.dtype, reduction)
    return _derivatives.extreme(x, check_where(settings.op, where, x.shape), plan)


def _max_with_argmax(settings: Settings, x: Array, where: Any) -> tuple[Array, Array]:
    check_real(settings.op, x)
    plan = settings.plan(x.shape, x.dtype, MAX)
    valid = check_where(settings.op, where, x.shape)
    values, taps = _derivatives.extreme_with_taps(x, valid, plan)
    space, dtype = settings.own
    indices = _indices.convert(
        settings.op, taps, x.shape, plan.geometry, space, dtype, masked=valid is not None
    )
    return values, indices


def _settle_index(op: str, index_space: Any, index_dtype: Any) -> tuple[Any, ...]:
    return _indices.check_space(op, index_space), _indices.check_dtype(op, index_dtype)


_MAX_POOL = Op("max_pool", functools.partial(_extreme, reduction=MAX))
_MIN_POOL = Op("min_pool", functools.partial(_extreme, reduction=MIN))
_MAX_POOL_WITH_ARGMAX = Op("max_pool_with_argmax", _max_with_argmax, _settle_index)
