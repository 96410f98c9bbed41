"""Maxima by the rules of other libraries, which disagree on the initial value and on NaN.

* "first", the native rule: the first of equal maxima, and the first NaN.
* "last_nan" (PyTorch): NaN in a window gives NaN as in the native op, but index and gradient go to
  the last NaN, not to the first.
* "from_lowest" (OpenVINO): the initial value is the lowest finite number, for 16-bit floats -inf.
  Only a greater element replaces it, so NaN is ignored. A window without a greater element counts
  as empty, and its result is the initial value.
* "from_first_element" (ONNX Runtime): the initial value is the first element of the window inside
  the array. A NaN in this element is the result; other NaN are ignored. An empty window gives the
  lowest finite number, for float16 -inf.

The programs of the last two rules replace ignored elements by -inf. If no element of a window is
then greater than -inf, the window is empty for "from_lowest", and the result of
"from_first_element" is the first element, which is right. For integers and booleans the maxima of
all rules equal those of the native rule, and run its program.
"""

import functools
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from .._autodiff import rules
from .._geometry.resolve import Geometry
from .._lowerings.parts.argreduce import fill_empty_windows, offset_dtype, sentinel
from .._lowerings.parts.window_counts import first_offsets
from .._lowerings.ragged.ragged import slice_of_windows
from .._numerics import indices
from .._numerics.checks import check_real
from ..ops import _partition, adaptive, fractional
from ..ops._dispatch import Configuration, Op, WindowArguments, call
from ..ops.max import MAX_POOL, max_pool_with_argmax
from ..reductions import MAX, MAX_LAST_NAN, Reduction, identity_array, mask_with_identity
from ._scans import first_elements, max_with_offsets_from_first, over_windows

Rule = Literal["first", "last_nan", "from_lowest", "from_first_element"]


# --- sliding windows ------------------------------------------------------------------------------


def max_by(rule: Rule, x: Array, windows: WindowArguments) -> Array:
    """Return the result of :func:`jaxpool.max_pool` under ``rule``."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return call(MAX_POOL, x, (None,), windows)
    return call(_MAX_BY, x, (None,), windows, rule=rule)


def max_with_argmax_by(
    rule: Rule,
    x: Array,
    windows: WindowArguments,
    *,
    index_space: Literal["spatial"] | int = "spatial",
    index_dtype: Any = None,
    empty_at: int | None = None,
    column_major: bool = False,
) -> tuple[Array, Array]:
    """Return the results of :func:`jaxpool.max_pool_with_argmax` under ``rule``.

    Args:
      rule, x, windows: as in :func:`max_by`.
      index_space, index_dtype: as in :func:`jaxpool.max_pool_with_argmax`.
      empty_at: the coordinate on each pooled axis that the index of an empty window encodes; None
        gives the sentinel, -1.
      column_major: whether the first pooled axis varies fastest in the index, as with ONNX's
        storage_order 1.
    """
    return call(
        _MAX_WITH_ARGMAX_BY, x, (None,), windows, rule=rule, index_space=index_space,
        index_dtype=index_dtype, empty_at=empty_at, column_major=column_major,
    )  # fmt: skip


def _max(x: Array, where: Any, *, config: Configuration, rule: Rule) -> Array:
    check_real(x)
    if where is not None and rule == "from_first_element":
        return _masked_from_first_element(x, where, config)[0]
    plan = config.plan(x.shape, x.dtype, _reduction(rule))
    values = rules.extreme(_fill_ignored(rule, x), where, plan)
    offsets = jnp.zeros(values.shape, offset_dtype(plan.geometry))
    return _apply_rule(rule, plan.geometry, x, values, offsets)[0]


def _max_with_offsets(
    x: Array, where: Any, *, config: Configuration, rule: Rule
) -> tuple[Array, Array]:
    check_real(x)
    if where is not None and rule == "from_first_element":
        return _masked_from_first_element(x, where, config)
    plan = config.plan(x.shape, x.dtype, _reduction(rule))
    maxima = rules.extreme_with_offsets(_fill_ignored(rule, x), where, plan)
    return _apply_rule(rule, plan.geometry, x, *maxima)


def _convert(
    offsets: Array,
    shape: tuple[int, ...],
    geometry: Geometry,
    *,
    masked: bool,
    index_space: indices.IndexSpace,
    index_dtype: np.dtype | None,
    ignores_elements: bool,
    empty_at: int | None,
    column_major: bool,
) -> Array:
    """Convert window offsets to indices in ``index_space``.

    ``ignores_elements``: whether the rule may ignore all elements of a window.
    """
    coordinates = indices.coordinates(offsets, geometry)
    has_element = offsets != sentinel(offsets.dtype)
    if empty_at is not None:
        coordinates = {
            axis: jnp.where(has_element, coordinate, empty_at)
            for axis, coordinate in coordinates.items()
        }
    may_be_empty = masked or ignores_elements or geometry.has_empty_window
    valid = has_element if may_be_empty and empty_at is None else None
    axes = indices.counted_axes(index_space, geometry.positions, len(shape))
    if column_major:
        pooled = tuple(axis for axis in axes if axis in coordinates)
        axes = (*(axis for axis in axes if axis not in coordinates), *pooled[::-1])
    return indices.flat(index_space, coordinates, valid, shape, axes, index_dtype)


def _canonical_indices(
    rule: Rule, index_space: Any, index_dtype: Any, **places: Any
) -> dict[str, Any]:
    space = {**indices.canonical(index_space, index_dtype), **places}
    space["ignores_elements"] = rule == "from_lowest"
    return {"rule": rule, "space": tuple(space.items())}


def _reduction(rule: Rule) -> Reduction:
    return MAX_LAST_NAN if rule == "last_nan" else MAX


def _start_value(rule: Rule, dtype: np.dtype) -> np.ndarray:
    """Return the initial value of a maximum under ``rule``."""
    floating = jnp.issubdtype(dtype, jnp.floating)
    starts_at_infinity = dtype == np.float16 or (rule == "from_lowest" and dtype.itemsize < 4)
    lowest = jnp.finfo(dtype).min if floating and not starts_at_infinity else MAX.identity(dtype)
    return np.asarray(lowest, dtype)


def _fill_ignored(rule: Rule, x: Array) -> Array:
    """Replace the elements of ``x`` that ``rule`` ignores by the identity of a maximum."""
    if rule in ("first", "last_nan") or not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    if rule == "from_first_element":
        return _fill_nan(x)
    is_candidate = x > _start_value(rule, x.dtype)
    return mask_with_identity(x, is_candidate, MAX)


def _apply_rule(
    rule: Rule, geometry: Geometry, x: Array, values: Array, offsets: Array
) -> tuple[Array, Array]:
    """Convert values and offsets of the array without ignored elements to those of ``rule``."""
    start = _start_value(rule, values.dtype)
    if rule == "from_lowest":
        empty = values == identity_array(MAX, values.dtype)
        return jnp.where(empty, start, values), jnp.where(empty, sentinel(offsets.dtype), offsets)
    if rule == "from_first_element":
        values = fill_empty_windows(values, geometry, start)
        if jnp.issubdtype(x.dtype, jnp.floating):
            return _keep_first_nan(geometry, x, values, offsets)
    return values, offsets


def _keep_first_nan(
    geometry: Geometry, x: Array, values: Array, offsets: Array
) -> tuple[Array, Array]:
    """Replace value and offset of a window by those of its first element, if this is NaN."""
    first = first_elements(x, geometry)
    is_nan, offset = first != first, first_offsets(geometry, x.ndim).astype(offsets.dtype)
    return jnp.where(is_nan, first, values), jnp.where(is_nan, offset, offsets)


def _masked_from_first_element(
    x: Array, where: Array, config: Configuration
) -> tuple[Array, Array]:
    """Return values and offsets of "from_first_element" over the elements that a mask selects."""
    if jnp.issubdtype(x.dtype, jnp.floating):
        values, offsets = max_with_offsets_from_first(x, where, config)
    else:
        options = {"where": where, "index_space": "window"}
        values, offsets = over_windows(max_pool_with_argmax, x, config, **options)
    empty = offsets == sentinel(offsets.dtype)
    return jnp.where(empty, _start_value("from_first_element", x.dtype), values), offsets


_MAX_BY = Op("max_pool", _max)
_MAX_WITH_ARGMAX_BY = Op(
    "max_pool_with_argmax", _max_with_offsets, _canonical_indices, convert=_convert
)


# --- adaptive and fractional windows --------------------------------------------------------------

RaggedRule = Literal["last_nan", "from_first_element"]


def adaptive_max_by(rule: RaggedRule, x: Array, output_size: Any) -> Array:
    """Return the result of :func:`jaxpool.adaptive_max_pool`, channels first, under ``rule``."""
    return call(_ADAPTIVE[rule], x, (None,), output_size=output_size, data_format="channels_first")


def adaptive_max_with_argmax_by(
    rule: RaggedRule, x: Array, output_size: Any, index_dtype: Any
) -> tuple[Array, Array]:
    """Return the maxima of adaptive windows under ``rule``, and their "spatial" indices."""
    options = {"output_size": output_size, "data_format": "channels_first"}
    space = {"index_space": "spatial", "index_dtype": index_dtype}
    return call(_ADAPTIVE_WITH_ARGMAX[rule], x, (None,), **options, **space)


def fractional_max_by_last_nan(
    x: Array,
    window_shape: Any,
    output_size: Any,
    samples: ArrayLike | None,
    key: ArrayLike | None,
    index_space: Literal["window", "spatial"],
    index_dtype: Any,
) -> tuple[Array, Array]:
    """Return fractional maxima under "last_nan", channels first, and their indices."""
    windows = WindowArguments(window_shape, 1, data_format="channels_first")
    options = {"index_space": index_space, "index_dtype": index_dtype}
    return fractional.fractional(_FRACTIONAL, key, x, windows, output_size, samples, **options)


def _adaptive_from_first(x: Array, where: None, **options: Any) -> Array:
    """Return adaptive maxima under "from_first_element"; a NaN result has no gradient."""
    if not jnp.issubdtype(x.dtype, jnp.floating) or 0 in options["output_size"]:
        return adaptive.max_pool(x, where, **options)
    values = adaptive.max_pool(_fill_nan(x), where, **options)
    first = _adaptive_first_elements(x, **options)
    return jnp.where(first != first, first, values)


def _adaptive_from_first_with_argmax(
    x: Array, where: None, *, index_space: Any, index_dtype: Any, **options: Any
) -> tuple[Array, Array]:
    space = {"index_space": index_space, "index_dtype": index_dtype}
    if not jnp.issubdtype(x.dtype, jnp.floating) or 0 in options["output_size"]:
        return adaptive.max_pool_with_argmax(x, where, **options, **space)
    values, index = adaptive.max_pool_with_argmax(_fill_nan(x), where, **options, **space)
    first, offsets = _adaptive_first_elements(x, **options), jnp.zeros(values.shape, jnp.int32)
    spatial = _partition.spatial_axes(x.shape, **options)
    planes = adaptive.symbolic_planes(x, **options)
    if planes is not None:
        arguments = offsets, x.shape, planes.geometry, index_space, index_dtype
        first_index = indices.convert(*arguments, masked=True, spatial=spatial)
    else:
        windows = _partition.partition(x.shape, **options)
        arguments = offsets, x.shape, index_space, index_dtype
        first_index = windows.indices(*arguments, masked=False, spatial=spatial)
    is_nan = first != first
    return jnp.where(is_nan, first, values), jnp.where(is_nan, first_index, index)


def _fill_nan(x: Array) -> Array:
    return mask_with_identity(x, x == x, MAX)


def _adaptive_first_elements(x: Array, **options: Any) -> Array:
    """Return the first element of every adaptive window, without a derivative."""
    first, planes = lax.stop_gradient(x), adaptive.symbolic_planes(x, **options)
    if planes is not None:
        for position in planes.positions:
            first = lax.slice_in_dim(first, 0, 1, axis=position)
        return first
    for position, axis in zip(*_partition.partition(x.shape, **options), strict=True):
        first = slice_of_windows(first, position, axis, 0)
    return first


_ADAPTIVE = {
    "last_nan": Op(
        "adaptive_max_pool",
        functools.partial(adaptive.max_pool, maximum=MAX_LAST_NAN),
        _partition.canonical_sizes,
    ),
    "from_first_element": Op("adaptive_max_pool", _adaptive_from_first, _partition.canonical_sizes),
}
_ADAPTIVE_WITH_ARGMAX = {
    "last_nan": Op(
        "adaptive_max_pool_with_argmax",
        functools.partial(adaptive.max_pool_with_argmax, maximum=MAX_LAST_NAN),
        _partition.canonical_with_indices,
    ),
    "from_first_element": Op(
        "adaptive_max_pool_with_argmax",
        _adaptive_from_first_with_argmax,
        _partition.canonical_with_indices,
    ),
}
_FRACTIONAL = Op(
    "fractional_max_pool",
    functools.partial(fractional.max_pool_with_argmax, maximum=MAX_LAST_NAN),
    fractional.canonical,
    fractional.ARRAYS,
    is_random=True,
)
