"""Checks of the parameters of ops: exponents, temperatures, random keys."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._errors import message, shown
from .._numerics.checks import is_real, real_number

_LARGEST_EXPONENT = 2**20
"""The largest exponent of a norm: its products with exponents of floats are exact in float32."""

_SMALLEST_EXPONENT = 2**-20
"""The smallest exponent of a norm: with smaller ones every power of a float rounds to 1."""


def check_positive(name: str, value: Any, static: bool = False) -> None:
    """Raise unless ``value`` is a positive finite number.

    Unless ``static``, it may also be an array, whose values are not checked.
    """
    if not static and isinstance(value, (np.ndarray, jax.Array)):
        return
    example = "1.0" if static else "1.0, or an array of numbers"
    if not 0 < real_number(name, value, example) < math.inf:
        raise ValueError(
            message(
                f"${name} = {shown(value)} is out of range.",
                "It must be positive and finite.",
                "Give for example 1.0.",
            )
        )


def canonical_p(p: Any) -> dict[str, float]:
    """Return the option ``p``, the exponent of a norm, positive or infinite, checked."""
    number = real_number("p", p)
    if not (_SMALLEST_EXPONENT <= number <= _LARGEST_EXPONENT or number == math.inf):
        raise ValueError(
            message(
                f"$p = {shown(p)} is out of range.",
                "A norm needs a positive exponent, 2**-20 to 2**20; "
                "infinity gives the largest absolute value.",
                "Give for example 2, or math.inf.",
            )
        )
    return {"p": int(number) if float(number).is_integer() else float(number)}


def parameter(name: str, value: Any, x: Array, positions: tuple[int, ...]) -> Array:
    """Return a number or array as an array of the rank and dtype of ``x``, or raise.

    It must broadcast to ``x`` and have length 1 on the pooled axes ``positions``.
    """
    value = jnp.asarray(value)
    if not is_real(value.dtype):
        raise TypeError(
            message(
                f"${name} has dtype {value.dtype}.",
                "It must be a real number or an array of real numbers.",
                "Give a float, or an array of floats.",
            )
        )
    shape = (1,) * (x.ndim - value.ndim) + value.shape
    allowed = [(1,) if a - x.ndim in positions else (1, n) for a, n in enumerate(x.shape)]
    fits = len(shape) == x.ndim and all(n in a for n, a in zip(shape, allowed, strict=True))
    if not fits:
        raise ValueError(
            message(
                f"${name} of shape {value.shape} does not fit the array.",
                f"The array has shape {x.shape}; a window has one value, so pooled axes "
                f"{tuple(a % x.ndim for a in positions)} need length 1.",
                "Give a number, or for example one value per channel.",
            )
        )
    return value.astype(x.dtype).reshape(shape)


def check_key(key: Any) -> None:
    """Raise unless ``key`` is a single random key, typed or legacy (uint32)."""
    dtype = key.dtype if isinstance(key, (jax.Array, np.ndarray)) else None
    is_typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if not (is_typed and key.shape == ()) and not (dtype == np.uint32 and _is_legacy_key(key)):
        described = f"{dtype}{list(key.shape)}" if dtype is not None else shown(key)
        raise TypeError(
            message(
                "$key is not a random key.",
                f"It is {described}.",
                "Give for example jax.random.key(0).",
            )
        )


def _is_legacy_key(key: Any) -> bool:
    """Return whether an array of integers has the shape of the data of one key."""
    if key.ndim != 1:
        return False
    try:
        jax.eval_shape(jax.random.wrap_key_data, key)
    except Exception:  # the type depends on the implementation of keys
        return False
    return True
