"""The compiled programs of the primitive."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._autodiff.gather import gather
from ..._numerics.divisors import counts, divide_exactly, window_sum, zero_where_masked
from ..._xla.opaque_divisor import opaque_divisor
from ..._xla.sharding_types import varying_zeros
from ...ops._dispatch import Configuration
from ...ops._op import Op, for_symbolic_sizes
from ...ops.average import avg_pool
from .._averages import saturate, sequential_sum
from .._compiled import compiled
from .._scans import max_from, max_with_offsets_from, over_windows
from .call import Call


@compiled("call", "dtype")
def forward(src: Array, *, call: Call, dtype: np.dtype) -> tuple[Array, Array | None]:
    if call.alg_kind != "max":
        return average(src, call, dtype), None
    x = crop(src, call)
    if src.dtype == jnp.int32:
        x = x.astype(jnp.float32)
    values, offsets = for_symbolic_sizes(_MAX_WITH_OFFSETS, call.settings, {})(x, None)
    return convert(values, dtype), offsets


@compiled("call", "dtype")
def forward_only(src: Array, *, call: Call, dtype: np.dtype) -> Array:
    if call.alg_kind != "max":
        return average(src, call, dtype)
    x = crop(src, call)
    return convert(for_symbolic_sizes(_MAX_FROM_START, call.settings, {})(x, None), dtype)


@compiled("call", "src_shape")
def backward(diff_dst: Array, workspace: Any, *, call: Call, src_shape: tuple[int, ...]) -> Array:
    def forward(src: Array) -> Array:
        if call.alg_kind != "max":
            return average(src, call, np.dtype(np.float32))
        return gather(crop(src, call), workspace, call.geometry(src_shape), any_offset=False)

    _, transpose = jax.vjp(forward, varying_zeros(src_shape, jnp.float32, diff_dst))
    return transpose(diff_dst.astype(jnp.float32))[0].astype(diff_dst.dtype)


def start_value(x: Array) -> Any:
    """Return the initial value of a maximum: the lowest finite number, for bf16 -inf."""
    if x.dtype == jnp.bfloat16:
        return -np.inf
    limits = jnp.finfo if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.iinfo
    return limits(x.dtype).min


def average(src: Array, call: Call, dtype: np.dtype) -> Array:
    include_padding = call.alg_kind == "avg_include_padding"
    divisor = math.prod(call.settings.window.kernel) if include_padding else None
    x = crop(src, call, 0).astype(jnp.float32)
    if jnp.issubdtype(src.dtype, jnp.integer):
        # The last bits of a sum of large numbers depend on its order.
        rule = {"divisor": divisor, "in_order": src.dtype == jnp.int32}
        return convert(
            for_symbolic_sizes(_AVERAGE_OF_INTEGERS, call.settings, rule)(x, None), dtype
        )
    options = {"count_include_pad": False, "divisor_override": divisor}
    return convert(over_windows(avg_pool, x, call.settings, **options), dtype)


def convert(y: Array, dtype: np.dtype) -> Array:
    """Convert ``y`` to ``dtype``; floats are rounded half to even, and integers saturate."""
    if not jnp.issubdtype(dtype, jnp.integer) or y.dtype == dtype:
        return y.astype(dtype)
    if jnp.issubdtype(y.dtype, jnp.integer):
        return saturate(y.astype(jnp.int32), dtype)
    limits = np.iinfo(dtype)
    y = lax.round(y, lax.RoundingMethod.TO_NEAREST_EVEN)
    too_large = y >= np.float32(limits.max)  # for s32, float32 rounds this limit up to 2**31
    in_range = jnp.where(too_large, np.float32(0), jnp.maximum(y, np.float32(limits.min)))
    return jnp.where(too_large, np.asarray(limits.max, dtype), in_range.astype(dtype))


def crop(x: Array, call: Call, hidden: Any = None) -> Array:
    """Crop what a negative ``padding_r`` removes; an empty axis becomes one ``hidden`` element."""
    for position, elements in zip(call.positions(x.shape), call.crop, strict=True):
        if elements < x.shape[position]:
            x = lax.slice_in_dim(x, 0, x.shape[position] - elements, axis=position)
        else:
            fill = start_value(x) if hidden is None else hidden
            x = jnp.full_like(lax.slice_in_dim(x, 0, 1, axis=position), fill)
    return x


# --- ops ------------------------------------------------------------------------------------------


def _max_from_start(x: Array, where: Any, *, config: Configuration) -> Array:
    return max_from(x, where, config, start_value(x))


def _max_with_offsets(x: Array, where: Any, *, config: Configuration) -> tuple[Array, Array]:
    return max_with_offsets_from(x, where, config, start_value(x))


def _average_of_integers(
    x: Array, where: Any, *, config: Configuration, divisor: int | None, in_order: bool
) -> Array:
    geometry = config.geometry(x.shape)
    total = (sequential_sum if in_order else window_sum)(zero_where_masked(x, where), geometry)
    count = divisor or counts(geometry, where, include_pad=False)
    return divide_exactly(total, opaque_divisor(count, total))


_MAX_FROM_START = Op("max", _max_from_start)
_MAX_WITH_OFFSETS = Op("max", _max_with_offsets)
_AVERAGE_OF_INTEGERS = Op("avg", _average_of_integers)
