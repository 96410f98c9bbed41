"""Checks of arguments, shared by the front ends."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from .._errors import counted, message, shown
from .._geometry.arguments import entries_of, integer, is_sequence, length_of
from .._geometry.resolve import is_at_most, window_too_long
from .._geometry.window import Pairs
from .._numerics.checks import as_array

Windows = tuple[Any, Any, Any, Any, str]
"""Window, strides, padding, dilations and rounding."""


def array(name: str, value: Any) -> Array:
    """Return ``value`` as an array, or raise if it cannot be converted."""
    return value if isinstance(value, jax.Array) else as_array(f"${name}", value)


def as_floats(name: str, value: ArrayLike) -> Array:
    """Return ``value`` as a float array; other dtypes are converted to the dtype of ``x / x``.

    Equinox and Keras, and Haiku with SAME, return averages of integers in that dtype.
    """
    x = array(name, value)
    if jnp.issubdtype(x.dtype, jnp.inexact):
        return x
    return x.astype(jax.eval_shape(jnp.true_divide, x, x).dtype)


def as_default_floats(name: str, value: ArrayLike) -> Array:
    """Return ``value`` as a float array; other dtypes are converted to JAX's default float dtype.

    Integers divided by a product of NumPy, as in Flax and Haiku, have that dtype.
    """
    x = array(name, value)
    return x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(jnp.result_type(float))


def index_dtype(counted: Sequence[int]) -> np.dtype:
    """Return int64 if JAX's 64-bit types are enabled, otherwise int32; raise if it is too narrow.

    Args:
      counted: lengths of the axes that a flat index counts.
    """
    if jax.config.jax_enable_x64:  # pyright: ignore
        return np.dtype(np.int64)
    last, limit = math.prod(counted) - 1, np.iinfo(np.int32).max
    if not is_at_most(last, limit, "indices may not fit int32"):
        raise ValueError(
            message(
                "indices do not fit int32, and 64-bit types are disabled.",
                f"They go up to {last}; int32 represents numbers up to {limit}.",
                'Call jax.config.update("jax_enable_x64", True) first, or pool parts of the array.',
            )
        )
    return np.dtype(np.int32)


def ints(
    name: str, value: Any, count: int, least: float = 1, int_for_all: bool = True, where: str = ""
) -> tuple[int, ...]:
    """Return ``value`` as a tuple with one int of at least ``least`` per pooled axis, or raise.

    Args:
      name: name of the argument, for the message.
      value: the argument as the caller passed it.
      count: number of pooled axes.
      least: lower bound of each entry.
      int_for_all: whether one integer is accepted for all axes.
      where: what the message says after "2 axes are pooled".
    """
    is_tuple = is_sequence(value)
    if int_for_all and not is_tuple:
        return (integer(name, value, least),) * count
    if is_tuple and length_of(value) == count:
        return tuple(integer(name, entry, least) for entry in entries_of(name, value))
    fault = f"has {counted(length_of(value), 'entry')}" if is_tuple else "is not a sequence"
    text = message(
        f"${name} = {shown(value)} {fault}.",
        f"{counted(count, 'axis')} {'is' if count == 1 else 'are'} pooled{where}.",
        "Give one integer for all of them, or one for each."
        if int_for_all
        else "Give one for each.",
    )
    raise ValueError(text) if is_tuple else TypeError(text)


def one_per_axis(name: str, value: Any, count: int, least: int = 1) -> tuple[int, ...]:
    """Return :func:`ints` without one integer for all axes, of arrays with batch and channels."""
    where = ", after those of batch and channels"
    return ints(name, value, count, least, int_for_all=False, where=where)


def one_of(name: str, value: Any, known: Sequence[str], ignore_case: bool = False) -> str:
    """Return ``value`` if it is one of the ``known`` strings, otherwise raise.

    With ``ignore_case`` the known strings are in lower case, and so is the result.
    """
    text = value.lower() if ignore_case and isinstance(value, str) else value
    if isinstance(text, str) and text in known:
        return text
    raise ValueError(
        message(
            f"${name} = {shown(value)} is not supported.",
            f"Supported values are {', '.join(known)}.",
            "Give one of them.",
        )
    )


def pooled_array(
    name: str, value: Any, ranks: Sequence[int], axes: str, first: int, why: str
) -> Array:
    """Return ``value`` as an array, or raise unless it has an allowed shape.

    Args:
      name, value: name of the argument, and the argument as the caller passed it.
      ranks: the allowed numbers of axes.
      axes: what the axes are, for the message.
      first: the first axis that may not be empty; those after it may not be empty either.
      why: a line of the message about an empty axis.
    """
    x = array(name, value)
    if x.ndim not in ranks:
        raise ValueError(
            message(
                f"${name} has {counted(x.ndim, 'axis')}.",
                f"Its shape is {x.shape}; it must have {' or '.join(map(str, ranks))}, {axes}.",
                "Add or drop axes, or use the function for another number of pooled axes.",
            )
        )
    if 0 in x.shape[first:]:
        raise ValueError(
            message(f"${name} has shape {x.shape}.", why, "Check the shape and its layout.")
        )
    return x


def check_integer_padding(padding: Any, accepts_pairs: bool) -> None:
    """Raise if ``padding`` is a name or, unless the library accepts pairs, contains a pair."""
    if isinstance(padding, str):
        facts, further = "The library has no names for padding.", 'names, such as "SAME"'
    elif type(padding) in (tuple, list) and any(map(is_sequence, padding)) and not accepts_pairs:
        facts, further = "The library pads both ends of an axis alike.", "(low, high) pairs"
    else:
        return
    raise TypeError(
        message(
            f"$padding = {shown(padding)} does not consist of integers.",
            facts,
            f"Give integers; ops of jaxpool itself also accept {further}.",
        )
    )


def check_windows_fit(
    name: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: str | Pairs,
    ceil: bool = False,
) -> None:
    """Raise if a window, the argument ``name``, exceeds a padded axis.

    With ``ceil`` it may do so by less than a stride. "SAME" padding of any kind fits every window,
    and the op itself checks an axis of symbolic size (``jax.export``).
    """
    if isinstance(padding, str):
        if padding.upper() != "VALID":
            return
        padding = ((0, 0),) * len(sizes)
    axes = zip(sizes, kernel, strides, dilations, padding, strict=True)
    for index, (size, k, s, d, pads) in enumerate(axes):
        least_excess = s if ceil else 1
        if isinstance(size, int) and (k - 1) * d + 1 - size - sum(pads) >= least_excess:
            raise ValueError(window_too_long(name, index, k, d, size, pads))
