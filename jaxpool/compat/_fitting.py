"""Pooling for libraries in which a window that does not fit gives an empty result, not an error."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array

from .._geometry.axis import cdiv
from .._geometry.window import Pairs
from ._cached import cached

Ints = tuple[int, ...]


def pool_or_empty(
    op: Callable[..., Array], x: Array, first: int, kernel: Ints, strides: Ints, pads: str | Pairs,
    **settings: Any,
) -> Array:  # fmt: skip
    """Return ``op`` over windows that slide along the axes from ``first`` on.

    The result is empty if no window fits; on an axis of symbolic length, a window is assumed to
    fit. ``pads`` are a padding word, or pairs of integers, of which negative ones crop.
    """
    after = first + len(kernel)
    crop, pads, out = _fit(x.shape[first:after], kernel, strides, pads)
    if any(isinstance(count, int) and count == 0 for count in out):
        return jnp.zeros((*x.shape[:first], *out, *x.shape[after:]), x.dtype)
    if crop is not None:
        x = x[(slice(None),) * first + crop]
    return op(x, kernel, strides, pads, **settings)


@cached
def _fit(
    sizes: Ints, kernel: Ints, strides: Ints, pads: str | Pairs
) -> tuple[tuple[slice, ...] | None, str | Pairs, Ints]:
    """Return the slices that negative pads leave, the other pads, and the number of windows."""
    crop = None
    if not isinstance(pads, str) and any(min(pair) < 0 for pair in pads):
        pairs = zip(sizes, pads, strict=True)
        crop = tuple(slice(max(-low, 0), size + min(high, 0)) for size, (low, high) in pairs)
        sizes = tuple(_at_least_zero(remaining.stop - remaining.start) for remaining in crop)
        pads = tuple((max(low, 0), max(high, 0)) for low, high in pads)
    return crop, pads, _output_sizes(sizes, kernel, strides, pads)


def _output_sizes(sizes: Ints, kernel: Ints, strides: Ints, pads: str | Pairs) -> Ints:
    if isinstance(pads, str) and pads != "VALID":
        return tuple(cdiv(size, stride) for size, stride in zip(sizes, strides, strict=True))
    pairs = ((0, 0),) * len(sizes) if isinstance(pads, str) else pads
    axes = zip(sizes, kernel, strides, pairs, strict=True)
    counts = ((size + low + high - k) // s + 1 for size, k, s, (low, high) in axes)
    return tuple(map(_at_least_zero, counts))


def _at_least_zero(count: Any) -> Any:
    """Return the larger of ``count`` and 0; a symbolic count is unchanged."""
    return max(count, 0) if isinstance(count, int) else count
