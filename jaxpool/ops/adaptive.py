"""Adaptive pooling: the number of windows is given, and the windows share the axis out.

Window ``i`` of ``O`` over an axis of ``L`` cells is ``[i * L // O, ceil((i + 1) * L / O))``, in
exact integers. Where ``O`` divides ``L`` they lie side by side as in fixed pooling, and are pooled
as there; others differ by a cell in length and overlap by one, and :mod:`._runs` takes them.

Source: PyTorch, ``adaptive_avg_pool2d``; OpenVINO AdaptiveAvgPool-8.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .. import _data_format, _derivatives, _exact, _indices
from .._arguments import entries_of, integer, is_sequence
from .._cut import column
from .._errors import message, shown
from .._linear import rule_for
from .._pick import Pick
from .._plan import Plan, plan_for
from .._reductions import (
    MAX,
    MAX_LAST_NAN,
    SUM,
    MaxRule,
    Reduction,
    accumulator,
    filled,
    identity_array,
)
from .._window import Axis, Geometry, cdiv, check_known
from . import _planes, _runs
from ._common import Op, check_real, check_where
from ._runs import Runs
from ._static import call
from ._sums import check_averageable, check_cells, divide, masked

_MOST_WINDOWS = 2**22

_LONGEST_SLID = 7
"""Cells of a window up to which accelerators slide it; they reduce longer ones in parallel."""


def adaptive_avg_pool(
    x: ArrayLike,
    output_size: Any,
    *,
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Average over as many windows as asked for.

    Window ``i`` of ``O`` over an axis of ``L`` cells averages
    ``x[.., i * L // O : ceil((i + 1) * L / O), ..]``, in exact integers. Windows overlap by a cell
    where ``O`` does not divide ``L``; with ``O > L`` cells are repeated.

    Args:
      x: array of any real dtype, or anything ``jnp.asarray`` takes; not bool.
      output_size: windows per pooled axis, >= 0; its length is the number of pooled axes. None
        leaves an axis as it is. With a ``data_format`` in letters an int stands for all of them.
      data_format: as in :func:`max_pool`.
      where: boolean mask that broadcasts to ``x``; cells where it is False are neither added nor
        counted.
    Returns:
      Array of the dtype of ``x``; pooled axes have ``output_size``, the others are unchanged.
      Narrow floats are added and divided in float32 and rounded once. Integer averages are exact,
      the sum does not wrap; they are rounded half to even.
    Derivatives: linear; forward and reverse, any order, without any scatter (but inside
      ``jax.shard_map``, if windows differ). Integers have none.
    Edge cases: a window in which nothing counts gives 0. NaN and infinities propagate within their
      windows. An output size of 0 gives an empty result.
    Raises:
      TypeError: ``output_size`` holds something else than integers and None, or ``x`` is complex or
        bool. ValueError: it is negative, has the wrong length, or a pooled axis is empty.
    References: PyTorch ``adaptive_avg_pool2d``; OpenVINO AdaptiveAvgPool-8.
    Example:
      >>> x = jnp.arange(1.0, 8.0)
      >>> jaxpool.adaptive_avg_pool(x, 3, data_format="W")
      Array([2., 4., 6.], dtype=float32)
      >>> jaxpool.adaptive_avg_pool(jnp.zeros((8, 224, 200, 3)), (7, None)).shape
      (8, 7, 200, 3)
    """
    return call(_ADAPTIVE_AVG_POOL, x, where, output_size, data_format)


def adaptive_max_pool(
    x: ArrayLike,
    output_size: Any,
    *,
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
) -> Array:
    """Maximum over as many windows as asked for.

    Window ``i`` of ``O`` over an axis of ``L`` cells takes the maximum of
    ``x[.., i * L // O : ceil((i + 1) * L / O), ..]``, in exact integers.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      output_size, data_format: as in :func:`adaptive_avg_pool`.
      where: boolean mask that broadcasts to ``x``; False takes the cell away.
    Returns:
      Array of the dtype of ``x``; pooled axes have ``output_size``, the others are unchanged.
    Derivatives: forward and reverse, any order. The tangent follows the first maximum in row-major
      order of the window; second derivatives are zero. Reverse mode has no scatter, so it is
      deterministic on every backend (but inside ``jax.shard_map``, if windows differ).
    Edge cases: NaN in a window gives NaN. A window without a cell (only ``where`` makes one) gives
      the lowest value of the dtype and no gradient. An output size of 0 gives an empty result.
    Raises:
      TypeError, ValueError: as :func:`adaptive_avg_pool`, but bool is allowed; ValueError also if a
        derivative is taken and windows are so long along so many axes that the places of winners
        do not fit 31 bits.
    References: PyTorch ``adaptive_max_pool2d``; OpenVINO AdaptiveMaxPool-8.
    Example:
      >>> jaxpool.adaptive_max_pool(jnp.array([3, 1, 2, 5, 4]), 3, data_format="W")
      Array([3, 5, 5], dtype=int32)
    """
    return call(_ADAPTIVE_MAX_POOL, x, where, output_size, data_format)


def adaptive_max_pool_with_argmax(
    x: ArrayLike,
    output_size: Any,
    *,
    data_format: str = "channels_last",
    where: ArrayLike | None = None,
    index_space: str | int = "spatial",
    index_dtype: Any = None,
) -> tuple[Array, Array]:
    """Maximum over as many windows as asked for, and where it was found.

    ``y`` as :func:`adaptive_max_pool`; ``indices`` say which cell of
    ``x[.., i * L // O : ceil((i + 1) * L / O), ..]`` is its first maximum, row-major.

    Args:
      x: array of any real dtype or bool, or anything ``jnp.asarray`` takes.
      output_size, data_format, where: as in :func:`adaptive_max_pool`.
      index_space: "spatial", flat over the pooled axes of ``x`` (PyTorch, OpenVINO), or an int axis
        ``a``, flat over all axes of ``x`` from ``a`` on. There are no "window" indices, since the
        windows have no common shape.
      index_dtype: an integer dtype; default int32.
    Returns:
      (values, indices), both of the shape of :func:`adaptive_max_pool`'s result. As there, an axis
      whose size is None is not pooled: "spatial" does count it, in the place it has in ``x``.
    Derivatives: values as :func:`adaptive_max_pool`; indices carry no tangent (float0).
    Edge cases: the index of NaN is that of the first NaN in the window. A window without a cell has
      index -1.
    Raises:
      TypeError, ValueError: as :func:`adaptive_max_pool`, without a derivative too; ValueError also
        if an index would not fit ``index_dtype``.
    References: PyTorch ``adaptive_max_pool2d``; OpenVINO AdaptiveMaxPool-8.
    Example:
      >>> x = jnp.array([3.0, 1.0, 2.0, 5.0, 4.0])
      >>> jaxpool.adaptive_max_pool_with_argmax(x, 3, data_format="W")[1]
      Array([0, 3, 3], dtype=int32)
    """
    return call(
        _ADAPTIVE_MAX_POOL_WITH_ARGMAX, x, where, output_size, data_format, index_space, index_dtype
    )


# --- by the rules of another system --------------------------------------------------------------


def adaptive_max_by(
    op: str,
    rule: MaxRule,
    x: ArrayLike,
    output_size: Any,
    data_format: str = "channels_first",
) -> Array:
    """Return :func:`adaptive_max_pool` by another system's rule, for the front ends.

    ``op`` is their name in messages; the rules are those of :mod:`.max`.
    """
    return call(_adaptive_max_by(op), x, None, output_size, data_format, rule)


def adaptive_max_with_argmax_by(
    op: str,
    rule: MaxRule,
    x: ArrayLike,
    output_size: Any,
    data_format: str = "channels_first",
    index_dtype: Any = None,
) -> tuple[Array, Array]:
    """Return :func:`adaptive_max_pool_with_argmax` by another system's rule: "spatial" indices."""
    words = output_size, data_format, "spatial", index_dtype, rule
    return call(_adaptive_max_with_argmax_by(op), x, None, *words)


def _settle_rule(op: str, *words: Any) -> "Settings":
    return _settle(op, *words[:-1])._replace(rule=words[-1])


@functools.lru_cache(maxsize=256)
def _adaptive_max_by(op: str) -> Op:
    return Op(op, _max, _settle_rule)


@functools.lru_cache(maxsize=256)
def _adaptive_max_with_argmax_by(op: str) -> Op:
    return Op(op, _max_with_argmax, _settle_rule)


def adaptive_average_by(
    op: str,
    rounding: _exact.Rounding,
    x: ArrayLike,
    output_size: Any,
    data_format: str = "channels_first",
) -> Array:
    """Return :func:`adaptive_avg_pool` with another system's rounding of integers."""
    return call(_adaptive_average_by(op, rounding), x, None, output_size, data_format)


@functools.lru_cache(maxsize=256)
def _adaptive_average_by(op: str, rounding: _exact.Rounding) -> Op:
    return Op(op, functools.partial(_average, rounding=rounding), _settle)


# --- from what the caller wrote to windows -------------------------------------------------------


class Settings(NamedTuple):
    """The settled settings of one call.

    Attributes:
      op: name of the public function, for messages.
      sizes: windows per pooled axis; None keeps an axis.
      data_format: a layout word or letters.
      index: index space and dtype, of the op that returns indices.
      rule: of the maximum.
    """

    op: str
    sizes: tuple[int | None, ...]
    data_format: str
    index: tuple[Any, ...] = ()
    rule: MaxRule = "first_nan"


def _settle(op: str, output_size: Any, data_format: Any, *index: Any) -> Settings:
    data_format = _data_format.check(op, data_format)
    explicit = _data_format.is_explicit(data_format)
    count = _data_format.spatial_count(data_format)
    if is_sequence(output_size):
        output_size = entries_of(op, "output_size", output_size)
    elif explicit:
        output_size = (output_size,) * count
    else:
        raise TypeError(_says_not_how_many(op, output_size, data_format))
    if not len(output_size) or (explicit and len(output_size) != count):
        raise ValueError(_wrong_length(op, output_size, data_format))
    sizes = tuple(None if n is None else _checked_size(op, n) for n in output_size)
    return Settings(op, sizes, data_format, _settle_index(op, *index) if index else ())


def _checked_size(op: str, size: Any) -> int:
    size = integer(op, "output_size", size, 0)
    if size > _MOST_WINDOWS:
        raise ValueError(
            message(
                op,
                f"`output_size` holds {size}.",
                f"Each window has ends of its own; an axis has at most {_MOST_WINDOWS} of them.",
                "Give a smaller number, or None for an axis to keep as it is.",
            )
        )
    return size


def _says_not_how_many(op: str, output_size: Any, data_format: str) -> str:
    return message(
        op,
        f"`output_size` = {shown(output_size)} does not say how many axes are pooled.",
        f"With data_format {data_format!r} it has one entry per pooled axis.",
        'Give a tuple such as (7, 7), or a layout in letters such as "NHWC".',
    )


def _wrong_length(op: str, output_size: Any, data_format: str) -> str:
    entries = "1 entry" if len(output_size) == 1 else f"{len(output_size)} entries"
    return message(
        op,
        f"`output_size` = {shown(output_size)} has {entries}.",
        f"It has one per pooled axis; data_format is {data_format!r}.",
        "Give one entry for each pooled axis, None for one to keep as it is.",
    )


def _settle_index(op: str, index_space: Any, index_dtype: Any) -> tuple[Any, ...]:
    if isinstance(index_space, str) and index_space == "window":
        raise ValueError(
            message(
                op,
                '`index_space` = "window" has no meaning here.',
                "The number of a tap needs windows of one shape; adaptive windows have several.",
                'Give "spatial", or the first axis that the flat index counts.',
            )
        )
    return _indices.check_space(op, index_space), _indices.check_dtype(op, index_dtype)


class Partition(NamedTuple):
    """The windows of an array.

    Attributes:
      positions: the array axes that are pooled, negative.
      runs: windows along each of them.
      maximum: the rule by which a cell wins.
      op: name of the public function, for messages.
    """

    positions: tuple[int, ...]
    runs: tuple[Runs, ...]
    maximum: Reduction
    op: str

    @property
    def geometry(self) -> Geometry | None:
        """The windows as those of fixed pooling, if they lie side by side on every axis."""
        if any(runs.size % len(runs.starts) for runs in self.runs):
            return None
        return Geometry(tuple(map(_side_by_side, self.runs)), self.positions)

    def plan(self, reduction: Reduction, dtype: Any) -> Plan | None:
        """Return the plan of fixed pooling, for windows that have a geometry."""
        geometry = self.geometry
        if geometry is None:
            return None
        lowering = "reshape" if max(geometry.kernel) > _LONGEST_SLID else "auto"
        return plan_for(self.op, geometry, reduction, np.dtype(dtype), lowering)

    def out_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return ``shape`` with the pooled axes at their output lengths."""
        out = list(shape)
        for position, runs in zip(self.positions, self.runs, strict=True):
            out[position] = len(runs.starts)
        return tuple(out)


def share_out(size: int, windows: int) -> Runs:
    """Return the windows of an axis."""
    starts = tuple(i * size // windows for i in range(windows))
    ends = (cdiv((i + 1) * size, windows) for i in range(windows))
    return Runs(size, starts, tuple(e - s for s, e in zip(starts, ends, strict=True)))


def _side_by_side(runs: Runs) -> Axis:
    windows = len(runs.starts)
    return Axis(runs.size, runs.longest, runs.longest, 1, 0, 0, 0, windows)


def _partition(settings: Settings, shape: tuple[int, ...]) -> Partition:
    count = len(settings.sizes)
    positions = _data_format.pooled_axes(settings.op, settings.data_format, count, shape)
    check_known(settings.op, [shape[position] for position in positions])
    _planes.check_not_empty(settings.op, shape, positions)
    runs = (
        share_out(shape[position], shape[position] if windows is None else windows)
        for position, windows in zip(positions, settings.sizes, strict=True)
    )
    maximum = MAX_LAST_NAN if settings.rule == "last_nan" else MAX
    return Partition(positions, tuple(runs), maximum, settings.op)


# --- averages ------------------------------------------------------------------------------------


def _average(
    settings: Settings, x: Array, where: Any, rounding: _exact.Rounding = "half_even"
) -> Array:
    check_averageable(settings.op, x)
    valid = check_where(settings.op, where, x.shape)
    partition = _partition(settings, x.shape)
    if 0 in settings.sizes:
        return jnp.zeros(partition.out_shape(x.shape), x.dtype)
    window_sum = functools.partial(_sum, partition)
    x = masked(x, valid)
    if valid is None:
        divisor = _cells(partition, x.ndim)
    else:
        divisor = window_sum(valid.astype(jnp.int32))
    if jnp.issubdtype(x.dtype, jnp.integer):
        largest = math.prod(run.longest for run in partition.runs)
        check_cells(settings.op, largest)
        return _exact.average(x, window_sum, divisor, largest, rounding)
    return divide(window_sum(x.astype(accumulator(x.dtype))), divisor).astype(x.dtype)


def _sum(partition: Partition, x: Array) -> Array:
    plan = partition.plan(SUM, x.dtype)
    if plan is not None:
        return _derivatives.window_sum(x, plan)
    return _runs.total(x, partition.positions, partition.runs)


def _cells(partition: Partition, rank: int) -> Any:
    """Cells of each window: an int, or an array that broadcasts to the result."""
    lengths = np.ones((1,) * rank, np.int32)
    for position, runs in zip(partition.positions, partition.runs, strict=True):
        lengths = lengths * column(np.array(runs.lengths, np.int32), position, rank)
    return int(lengths.flat[0]) if lengths.min() == lengths.max() else jnp.asarray(lengths)


# --- maxima --------------------------------------------------------------------------------------


def _max(settings: Settings, x: Array, where: Any) -> Array:
    check_real(settings.op, x)
    valid = check_where(settings.op, where, x.shape)
    partition = _partition(settings, x.shape)
    if 0 in settings.sizes:
        return jnp.zeros(partition.out_shape(x.shape), x.dtype)
    if settings.rule == "from_first_cell":
        return _max_with_argmax(settings._replace(index=("spatial", None)), x, where)[0]
    plan = partition.plan(partition.maximum, x.dtype)
    if plan is not None:
        return _derivatives.extreme(x, valid, plan)
    return rule_for(x, _largest)(x, valid, partition)


def _max_with_argmax(settings: Settings, x: Array, where: Any) -> tuple[Array, Array]:
    check_real(settings.op, x)
    valid = check_where(settings.op, where, x.shape)
    partition = _partition(settings, x.shape)
    masked = valid is not None
    if 0 in settings.sizes:
        out = partition.out_shape(x.shape)
        codes = jnp.zeros(out, jnp.int32)
        return jnp.zeros(out, x.dtype), _index(settings, partition, x.shape, codes, masked)
    if settings.rule == "from_first_cell" and jnp.issubdtype(x.dtype, jnp.floating):
        return _from_first_cell(settings, partition, x)
    return _picked(settings, partition, x, valid)


def _picked(
    settings: Settings, partition: Partition, x: Array, valid: Array | None
) -> tuple[Array, Array]:
    masked = valid is not None
    plan = partition.plan(partition.maximum, x.dtype)
    if plan is not None:
        values, taps = _derivatives.extreme_with_taps(x, valid, plan)
        space, dtype = settings.index
        return values, _indices.convert(
            settings.op, taps, x.shape, plan.geometry, space, dtype, masked
        )
    values, codes = rule_for(x, _with_codes)(x, valid, partition)
    return values, _index(settings, partition, x.shape, codes, masked)


def _from_first_cell(settings: Settings, partition: Partition, x: Array) -> tuple[Array, Array]:
    """A NaN in the first cell of a window wins, without a gradient; any other NaN is ignored."""
    lowest = identity_array(MAX, np.dtype(x.dtype))
    pick = _picked(settings, partition, jnp.where(x == x, x, lowest), None)
    taps = jnp.zeros(partition.out_shape(x.shape), jnp.int32)
    first = _index(settings, partition, x.shape, taps, masked=False)
    cells = lax.stop_gradient(x)
    for position, runs in zip(partition.positions, partition.runs, strict=True):
        cells = _runs._tap(cells, position, runs, 0)
    stays = cells != cells
    return jnp.where(stays, cells, pick[0]), jnp.where(stays, first, pick[1])


# Let ``p(i)`` be the cell of the first maximum of window ``i``: ``y[i] = x[p(i)]``, and so
# ``dy[i] = dx[p(i)]``, a linear map of ``dx`` in which ``x`` has a part only through the codes.


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _largest(x: Array, valid: Array | None, partition: Partition) -> Array:
    return _runs.largest(filled(x, valid, MAX), partition.positions, partition.runs)


@_largest.defjvp
def _largest_jvp(partition: Partition, primals, tangents):
    (values, _), (tangent, _) = _with_codes_jvp(partition, primals, tangents)
    return values, tangent


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _with_codes(x: Array, valid: Array | None, partition: Partition) -> Pick:
    _check_codes(partition)
    x = filled(x, valid, MAX)
    return _runs.winners(x, valid, partition.positions, partition.runs, partition.maximum)


@_with_codes.defjvp
def _with_codes_jvp(partition: Partition, primals, tangents):
    values, codes = _with_codes(*primals, partition)
    tangent = _runs.read(tangents[0], codes, partition.positions, partition.runs)
    return (values, codes), (tangent, jax.custom_derivatives.zero_from_primal(codes))


def _check_codes(partition: Partition) -> None:
    if _runs.last_code(partition.runs) >= np.iinfo(np.int32).max:
        lengths = " x ".join(str(runs.longest) for runs in partition.runs)
        raise ValueError(
            message(
                partition.op,
                f"winners in windows of {lengths} cells cannot be numbered.",
                "Derivatives and indices hold a winner's place in 31 bits, some for each axis.",
                "Pool the last axes first and the others in a second call; its indices then "
                "count cells of the first result.",
            )
        )


def _index(
    settings: Settings, partition: Partition, shape: tuple[int, ...], codes: Array, masked: bool
) -> Array:
    """Codes as flat indices of an array of ``shape``; -1 where a window has no cell."""
    space, dtype = settings.index
    axes = _indices.counted_axes(settings.op, space, partition.positions, len(shape))
    places = _runs.places(codes, partition.positions, partition.runs)
    found = codes != _runs.nowhere(codes) if masked else None
    return _indices.flat(settings.op, space, places, found, shape, axes, dtype)


_ADAPTIVE_AVG_POOL = Op("adaptive_avg_pool", _average, _settle)
_ADAPTIVE_MAX_POOL = Op("adaptive_max_pool", _max, _settle)
_ADAPTIVE_MAX_POOL_WITH_ARGMAX = Op("adaptive_max_pool_with_argmax", _max_with_argmax, _settle)
