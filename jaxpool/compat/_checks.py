"""Checks of arguments that the front ends share, in the caller's words."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._arguments import integer, is_sequence
from .._errors import message, shown


def array(op: str, name: str, value: Any) -> Array:
    """Return ``value`` as an array, or raise."""
    if isinstance(value, jax.Array):
        return value
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            message(
                op,
                f"`{name}` is {shown(value)}: not an array.",
                f"jnp.asarray says: {str(error)[:200].rstrip('.')}.",
                "Give an array of numbers; a tensor of another framework through NumPy.",
            )
        ) from None


def index_dtype(wide: bool = True) -> np.dtype:
    """The dtype of indices that are ``wide``, int64: int32 while JAX has no 64-bit types."""
    has_wide = jax.config.jax_enable_x64  # pyright: ignore
    return np.dtype(np.int64 if wide and has_wide else np.int32)


def ints(
    op: str, name: str, value: Any, count: int, least: int = 1, spread: bool = True
) -> tuple[int, ...]:
    """Return ``value`` as one int of at least ``least`` per pooled axis, or raise.

    Args:
      op, name: of the function and of the argument, for the message.
      value: what the caller wrote.
      count: pooled axes.
      least: bound of each entry.
      spread: whether one integer, or a sequence of one, stands for all axes.
    """
    if not is_sequence(value):
        if spread:
            return (integer(op, name, value, least),) * count
        raise TypeError(_not_one_for_each(op, name, value, count, spread))
    entries = tuple(integer(op, name, entry, least) for entry in value)
    if len(entries) != count and not (spread and len(entries) == 1):
        raise ValueError(_not_one_for_each(op, name, value, count, spread))
    return entries * count if len(entries) != count else entries


def _not_one_for_each(op: str, name: str, value: Any, count: int, spread: bool) -> str:
    kind = f"has {len(value)} entries" if is_sequence(value) else "is not a sequence"
    return message(
        op,
        f"`{name}` = {shown(value)} {kind}.",
        f"{count} axes are pooled." if count > 1 else "1 axis is pooled.",
        "Give one integer for all of them, or one for each." if spread else "Give one for each.",
    )


def word(op: str, name: str, value: Any, words: Sequence[str]) -> str:
    """Return ``value`` if it is one of ``words``, else raise."""
    if isinstance(value, str) and value in words:
        return value
    raise ValueError(
        message(
            op,
            f"`{name}` = {shown(value)} is not known.",
            f"The words are {', '.join(words)}.",
            "Give one of them.",
        )
    )


def check_rank(op: str, name: str, shape: tuple[int, ...], ranks: Sequence[int], axes: str) -> None:
    """Raise unless an array of ``shape`` has one of these ranks; ``axes`` says what they are."""
    if len(shape) not in ranks:
        raise ValueError(
            message(
                op,
                f"`{name}` has {len(shape)} axes.",
                f"Its shape is {shape}; it must have {' or '.join(map(str, ranks))}, {axes}.",
                "Add or drop axes, or use the function for another number of pooled axes.",
            )
        )


def check_not_empty(op: str, name: str, shape: tuple[int, ...], first: int, why: str) -> None:
    """Raise if an axis from ``first`` on has length 0."""
    if 0 in shape[first:]:
        raise ValueError(
            message(op, f"`{name}` has shape {shape}.", why, "Check the shape and its layout.")
        )


def missing(kernel: int, dilation: int, size: int, pads: tuple[int, int]) -> int:
    """Cells by which a window exceeds the padded axis; not positive if it fits.

    Nothing is said of a symbolic size, as ``jax.export`` allows: the core asks for its bound.
    """
    span = (kernel - 1) * dilation + 1
    return span - size - sum(pads) if isinstance(size, int) else 0


def does_not_fit(
    op: str, name: str, axis: int, kernel: int, dilation: int, size: int, pads: tuple[int, int]
) -> str:
    """The message that a window exceeds the padded axis."""
    return message(
        op,
        f"`{name}` = {kernel} does not fit pooled axis {axis}.",
        f"It spans {(kernel - 1) * dilation + 1} cells at dilation {dilation}, but the axis has "
        f"{size} + padding {pads} = {size + sum(pads)}.",
        "Use a smaller window or dilation, or more padding.",
    )
