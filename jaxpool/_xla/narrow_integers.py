"""Concatenation of integers of less than a byte.

For jaxlib 0.10 to 0.12. XLA:CPU aborts the process when it concatenates arrays of int2 or uint2.
"""

from collections.abc import Sequence

from jax import Array, lax

from ..reductions import byte_dtype


def concatenate_in_bytes(parts: Sequence[Array], axis: int) -> Array:
    """Return ``lax.concatenate(parts, axis)``, computed in bytes if the dtype is narrower."""
    dtype = parts[0].dtype
    byte_parts = [part.astype(byte_dtype(dtype)) for part in parts]
    return lax.concatenate(byte_parts, axis).astype(dtype)
