"""Sums over windows and the exact counts they are divided by, for every op that averages."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from .. import _derivatives
from .._counts import cells_per_window
from .._errors import message
from .._reductions import SUM
from .._window import Geometry
from ._common import Settings, check_real

_MOST_CELLS = 2**28


def check_averageable(op: str, x: Array) -> None:
    """Raise unless ``x`` holds real numbers."""
    check_real(op, x)
    if x.dtype == jnp.bool_:
        raise TypeError(
            message(
                op,
                "the array is boolean.",
                "An average of booleans is a fraction, which a boolean result cannot hold.",
                "Convert it first, for example x.astype(jnp.float32).",
            )
        )


def check_cells(op: str, cells: int) -> None:
    """Raise if an exact average of integers over so many cells is too long for its words."""
    if cells > _MOST_CELLS:
        raise ValueError(
            message(
                op,
                f"windows have {cells} cells.",
                f"Averages of integers are exact, over at most {_MOST_CELLS} cells.",
                "Convert the array first, for example x.astype(jnp.float32).",
            )
        )


def masked(x: Array, valid: Array | None) -> Array:
    return x if valid is None else jnp.where(valid, x, jnp.zeros((), x.dtype))


def window_sum(settings: Settings, x: Array, costly: bool = False) -> Array:
    return _derivatives.window_sum(x, settings.plan(x.shape, x.dtype, SUM), costly)


def counts(settings: Settings, geometry: Geometry, valid: Array | None, include_pad: bool) -> Any:
    """Cells that count in each window: an int, or int32 that broadcasts to the result."""
    if valid is None:
        return cells_per_window(geometry, include_pad)
    real = window_sum(settings, valid.astype(jnp.int32))
    if not include_pad:
        return real
    padding = cells_per_window(geometry, True) - cells_per_window(geometry, False)
    return real + jnp.broadcast_to(padding, real.shape)


def count_cells(settings: Settings, geometry: Geometry, valid: Array | None, rank: int) -> Array:
    """Return the real cells of each window, in an array of ``rank`` axes that broadcasts."""
    count = jnp.asarray(counts(settings, geometry, valid, include_pad=False))
    return count.reshape((1,) * (rank - count.ndim) + count.shape)


def divide(total: Array, divisor: Any, nothing: float = 0) -> Array:
    """Return total / divisor, and ``nothing`` where nothing counts."""
    empty = np.asarray(nothing, total.dtype)
    if isinstance(divisor, int):
        return total / divisor if divisor else jnp.full_like(total, empty)
    divisor = jnp.broadcast_to(divisor, total.shape)
    none = divisor == 0
    safe = jnp.where(none, 1, divisor).astype(total.dtype)
    return jnp.where(none, empty, total / safe)
