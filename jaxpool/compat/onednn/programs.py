"""The compiled programs of the primitive."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..._autodiff.gather import gather
from ..._numerics.divisors import counts, divide, masked
from ...ops._dispatch import Configuration
from ...ops._op import Op, over_any_size
from ...ops.average import avg_pool
from .._averages import sequential_sum, unknown_zeros
from .._scans import max_from, max_with_offsets_from, over_windows
from .call import Call


@functools.partial(jax.jit, static_argnums=(1, 2))
def forward(src: Array, call: Call, dtype: np.dtype) -> tuple[Array, Array | None]:
    if call.alg_kind != "max":
        return average(src, call, dtype), None
    x = cropped(src, call)
    if src.dtype == jnp.int32:
        x = x.astype(jnp.float32)
    values, offsets = over_any_size(_WITH_OFFSETS, call.settings, {})(x, None)
    return saturated(values, dtype), offsets


@functools.partial(jax.jit, static_argnums=(1, 2))
def forward_only(src: Array, call: Call, dtype: np.dtype) -> Array:
    if call.alg_kind != "max":
        return average(src, call, dtype)
    x = cropped(src, call)
    return saturated(over_any_size(_LARGEST, call.settings, {})(x, None), dtype)


@functools.partial(jax.jit, static_argnums=(2, 3))
def backward(diff_dst: Array, workspace: Any, call: Call, src_shape: tuple[int, ...]) -> Array:
    wide = jnp.float32

    def forward(src: Array) -> Array:
        if call.alg_kind != "max":
            return average(src, call, np.dtype(wide))
        return gather(cropped(src, call), workspace, call.geometry(src_shape))

    _, pull = jax.vjp(forward, jnp.zeros(src_shape, wide))
    return pull(diff_dst.astype(wide))[0].astype(diff_dst.dtype)


def lowest(x: Array) -> Any:
    """What a maximum starts from: the lowest finite number, of bf16 -inf."""
    if x.dtype == jnp.bfloat16:
        return -np.inf
    limits = jnp.finfo if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.iinfo
    return limits(x.dtype).min


def average(src: Array, call: Call, dtype: np.dtype) -> Array:
    whole = call.alg_kind == "avg_include_padding"
    divisor = math.prod(call.settings.window.kernel) if whole else None
    x = cropped(src, call, 0).astype(jnp.float32)
    if src.dtype == jnp.int32:  # large numbers, of whose sum the last bits depend on the order
        run = over_any_size(_IN_ORDER, call.settings, {"divisor": divisor})
        return saturated(run(x, None), dtype)
    options = {"count_include_pad": False, "divisor_override": divisor}
    return saturated(over_windows(avg_pool, x, call.settings, **options), dtype)


def saturated(y: Array, dtype: np.dtype) -> Array:
    """``y`` in another dtype; floats become integers half to even, what is out of range its end."""
    if not jnp.issubdtype(dtype, jnp.integer) or y.dtype == dtype:
        return y.astype(dtype)
    limits = np.iinfo(dtype)
    if jnp.issubdtype(y.dtype, jnp.integer):
        wide = y.astype(jnp.int32)
        return jnp.clip(wide, limits.min, limits.max).astype(dtype)
    y = lax.round(y, lax.RoundingMethod.TO_NEAREST_EVEN)
    over = y >= np.float32(limits.max)  # which float32 rounds up to 2**31 for s32
    safe = jnp.where(over, np.float32(0), jnp.maximum(y, np.float32(limits.min)))
    return jnp.where(over, np.asarray(limits.max, dtype), safe.astype(dtype))


def cropped(x: Array, call: Call, hidden: Any = None) -> Array:
    """The part of the array that windows reach, or one ``hidden`` element where they reach none."""
    for position, elements in zip(call.positions(x.ndim), call.crop, strict=True):
        if elements < x.shape[position]:
            x = lax.slice_in_dim(x, 0, x.shape[position] - elements, axis=position)
        else:
            number = lowest(x) if hidden is None else hidden
            x = jnp.full_like(lax.slice_in_dim(x, 0, 1, axis=position), number)
    return x


# --- ops ------------------------------------------------------------------------------------------


def _largest(x: Array, where: Any, *, config: Configuration) -> Array:
    return max_from(x, where, config, lowest(x))


def _with_offsets(
    x: Array, where: Any, *, config: Configuration, **named: Any
) -> tuple[Array, Array]:
    return max_with_offsets_from(x, where, config, lowest(x))


def _offsets(offsets: Array, *found: Any, **named: Any) -> Array:
    """The workspace holds window offsets, which do not depend on what is around the array."""
    return offsets


def _in_order(x: Array, where: Any, *, config: Configuration, divisor: int | None) -> Array:
    geometry = config.geometry(x.shape)
    total = sequential_sum(masked(x, where), geometry)
    count = divisor or counts(geometry, where, include_pad=False)
    return divide(total, jnp.asarray(count, jnp.float32) + unknown_zeros(total))


_LARGEST = Op("max", _largest)
_WITH_OFFSETS = Op("max", _with_offsets, convert=_offsets)
_IN_ORDER = Op("avg", _in_order)
