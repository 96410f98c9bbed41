"""Crops, as slices.

For jaxlib 0.10 to 0.12. A pad with negative numbers crops as well. If a pad crops the end of a
sharded axis, XLA cannot partition a concatenation of its result: the compiler raises an internal
error.
"""

from collections.abc import Sequence

from jax import Array, lax


def crops(config: Sequence[tuple[int, int, int]]) -> bool:
    """Return whether a pad of this configuration adds no entries."""
    return all(isinstance(n, int) and n <= 0 for margin in config for n in margin)


def crop(x: Array, config: Sequence[tuple[int, int, int]]) -> Array:
    """Return ``x`` without the entries that a pad of this configuration crops."""
    ends = [length + high for length, (_, high, _) in zip(x.shape, config, strict=True)]
    return lax.slice(x, [-low for low, _, _ in config], ends)
