"""The reference: ``lax.reduce_window`` with computed padding. It accepts everything."""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from .._cut import numbers, padding_of
from .._pick import Pick, empty, tap_dtype
from .._reductions import Reduction, identity_array
from .._window import Geometry
from ._order import in_integers, is_float_extreme

_NOWHERE = np.int32(-1)


def why_not(
    geometry: Geometry, reduction: Reduction, dtype: object, winners: bool = False
) -> str | None:
    """Return why this lowering declines, or None."""
    return None


def configuration(geometry: Geometry, rank: int) -> dict[str, tuple]:
    """The settings of ``lax.reduce_window`` for an array of ``rank`` axes."""
    dims, strides, dilations = [1] * rank, [1] * rank, [1] * rank
    padding = [(0, 0)] * rank
    for axis, position in geometry.placed:
        dims[position], strides[position] = axis.kernel, axis.stride
        dilations[position], padding[position] = axis.dilation, padding_of(axis)
    return {
        "window_dimensions": tuple(dims),
        "window_strides": tuple(strides),
        "padding": tuple(padding),
        "window_dilation": tuple(dilations),
    }


def run(x: Array, geometry: Geometry, reduction: Reduction) -> Array:
    """Return the reduction of every window.

    On CPU a float extreme runs in integers: XLA:CPU hands some of these reductions to a library
    that drops NaN (jaxlib 0.10.2 and 0.12).
    """
    plain = lambda x: _run(x, geometry, reduction)  # noqa: E731
    if not is_float_extreme(reduction, x.dtype):
        return plain(x)
    exact = lambda x: in_integers(lambda k, order: _run(k, geometry, order), x, reduction)  # noqa: E731
    return lax.platform_dependent(x, cpu=exact, default=plain)


def _run(x: Array, geometry: Geometry, reduction: Reduction) -> Array:
    init = identity_array(reduction, x.dtype)
    return lax.reduce_window(x, init, reduction.combine, **configuration(geometry, x.ndim))


def select(x: Array, valid: Array | None, geometry: Geometry, reduction: Reduction) -> Pick:
    """Return the winner of every window and the number of its tap, row-major in the window.

    Pools pairs (value, place); the place, flat over the pooled axes, breaks ties and is then turned
    into the tap of the window that reads it.
    """
    places = _places(x, geometry)
    if valid is not None:
        places = jnp.where(valid, places, _NOWHERE)
    init = (identity_array(reduction, x.dtype), _NOWHERE)
    values, places = lax.reduce_window(
        (x, places), init, _better_pair(reduction), **configuration(geometry, x.ndim)
    )
    return values, _tap_of(places, geometry).astype(tap_dtype(geometry))


def _places(x: Array, geometry: Geometry) -> Array:
    place = jnp.zeros_like(x, jnp.int32)
    for axis, position in geometry.placed:
        place = place * axis.size + numbers(axis.size, position, x.ndim, jnp.int32)
    return place


def _better_pair(reduction: Reduction):
    """Commutative and associative: the later of two places has to beat the earlier one."""
    beats = reduction.beats
    assert beats is not None

    def combine(a: Pick, b: Pick) -> Pick:
        preferred = jnp.where(b[1] < a[1], ~beats(a[0], b[0]), beats(b[0], a[0]))
        take = (b[1] != _NOWHERE) & (preferred | (a[1] == _NOWHERE))
        return jnp.where(take, b[0], a[0]), jnp.where(take, b[1], a[1])

    return combine


def _tap_of(places: Array, geometry: Geometry) -> Array:
    found, tap, scale = places != _NOWHERE, jnp.zeros_like(places), 1
    for axis, position in geometry.placed[::-1]:
        windows = numbers(axis.out, position, places.ndim, jnp.int32)
        start = windows * axis.stride - axis.pad_low
        tap = tap + (places % axis.size - start) // axis.dilation * scale
        places, scale = places // axis.size, scale * axis.kernel
    return jnp.where(found, tap, empty(np.dtype(np.int32)))
