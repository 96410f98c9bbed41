"""Comparisons that say where they fail, and data in which swapped axes cannot hide."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np


def permutation(shape: tuple[int, ...], dtype: Any, rng: np.random.Generator) -> np.ndarray:
    """Every cell a different integer, in random order, centred on zero (from 0 if unsigned)."""
    count = math.prod(shape)
    numbers = rng.permutation(count).reshape(shape)
    if np.dtype(dtype).kind != "u":
        numbers -= count // 2
    x = numbers.astype(dtype)
    if len(np.unique(x)) != count:
        raise ValueError(f"{np.dtype(dtype)} does not hold {count} different integers")
    return x


def assert_same(got: Any, want: Any, case: Any, *, ulps: float = 0) -> None:
    """Fail unless ``got`` is ``want``: dtype, shape, NaNs in the same places, and values.

    Zeros of both signs are the same value.

    Args:
      got, want: arrays.
      case: names the case in the message, best as code to paste.
      ulps: finite floats may differ by this many units in the last place of the largest one.
    """
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype != want.dtype:
        raise AssertionError(f"{case}\n  dtype is {got.dtype}, not {want.dtype}")
    if got.shape != want.shape:
        raise AssertionError(f"{case}\n  shape is {got.shape}, not {want.shape}")
    wrong = ~_same(got, want, ulps)
    if wrong.any():
        first = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{case}\n  {wrong.sum()} of {wrong.size} elements differ, first at {first}: "
            f"{got[first]}, not {want[first]}\n  got\n{got}\n  want\n{want}"
        )


def _same(got: np.ndarray, want: np.ndarray, ulps: float) -> np.ndarray:
    equal = got == want
    if not jnp.issubdtype(want.dtype, jnp.floating):
        return equal
    got, want, eps = got.astype(float), want.astype(float), float(jnp.finfo(want.dtype).eps)
    both_finite = np.isfinite(got) & np.isfinite(want)
    largest = np.max(np.abs(want), initial=0, where=both_finite)
    with np.errstate(invalid="ignore"):
        close = both_finite & (np.abs(got - want) <= ulps * eps * largest)
    return equal | close | (np.isnan(got) & np.isnan(want))
