"""Checks of arguments: numbers, arrays, arrays of real numbers or floats, and boolean masks."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from .._errors import message, shown
from .._geometry.arguments import check_finite


def as_array(name: str, value: Any, make: Callable[[Any], Any] = jnp.asarray) -> Array:
    """Return ``make(value)``, or raise an error about the argument ``name``."""
    try:
        check_finite(value)
        return make(value)
    except jax.errors.JaxRuntimeError:  # such as a transfer that the user forbids
        raise
    except Exception as error:  # whatever the object's own conversion raises
        if isinstance(value, jax.ShapeDtypeStruct):
            raise _error_without_values(name, value) from None
        if isinstance(value, np.ndarray) and not value.dtype.isnative:
            raise _error_of_byte_order(name, value) from None
        raise TypeError(
            message(
                f"{name} is {shown(value)}, of {_type_or_dtype(value)}: not an array.",
                f"It cannot be converted: {' '.join(str(error)[:200].split()).rstrip('. ')}.",
                "Give an array of numbers, or nested lists of numbers of equal lengths.",
            )
        ) from None


def _error_without_values(name: str, value: jax.ShapeDtypeStruct) -> TypeError:
    return TypeError(
        message(
            f"{name} is {shown(value)}, of dtype {value.dtype}: not an array.",
            "It has a shape and a dtype, but no values.",
            "Give it to jax.eval_shape, as in jax.eval_shape(lambda x: f(x, ...), x).",
        )
    )


def _error_of_byte_order(name: str, value: np.ndarray) -> TypeError:
    return TypeError(
        message(
            f"{name} has dtype {value.dtype.str}; it has non-native byte order.",
            "JAX accepts only the byte order of this machine.",
            'Convert it first, for example x.astype(x.dtype.newbyteorder("=")).',
        )
    )


def _type_or_dtype(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return f"type {type(value).__name__}" if dtype is None else f"dtype {dtype}"


_CONCRETE_VALUE_ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


@contextlib.contextmanager
def explaining_tracer_errors(what: str) -> Iterator[None]:
    """Raise an error that names the function if it needs the values of a traced array.

    The original error, with its position in the code, is the cause of the new one.
    """
    try:
        yield
    except _CONCRETE_VALUE_ERRORS as error:
        raise TypeError(
            message(
                f"{what} needs concrete values, but is traced.",
                f"JAX reports: {str(error).partition(chr(10))[0].rstrip('.')}.",
                "Write it with JAX operations only: jnp.ptp for np.ptp, jnp.where for if.",
            )
        ) from error


def real_number(name: str, value: Any, example: str = "2 or 3.5", or_bool: bool = False) -> float:
    """Return ``value``, a static real number, as a Python number; raise if it is another object.

    Args:
      name: the argument.
      value: as the caller passed it.
      example: what to give instead.
      or_bool: whether it may also be True or False.
    """
    is_numpy = isinstance(value, np.generic)
    # The item of a longdouble is a longdouble.
    number = float(value) if isinstance(value, np.floating) else value.item() if is_numpy else value
    if isinstance(number, (int, float)) and (or_bool or not isinstance(number, bool)):
        return number
    raise TypeError(
        message(
            f"${name} = {shown(value)} is not a real number.",
            f"Its type is {type(value).__name__}.",
            f"Give a static Python or NumPy number, such as {example}.",
        )
    )


_DEFINED_FOR = "Pooling is defined for real numbers and booleans."


def is_real(dtype: Any) -> bool:
    """Return whether ``dtype`` is one of real numbers: integers or floats, not booleans."""
    return jnp.issubdtype(dtype, jnp.integer) or jnp.issubdtype(dtype, jnp.floating)


def check_real(x: Array | jax.ShapeDtypeStruct) -> None:
    """Raise unless ``x`` contains real numbers or booleans."""
    _check_numbers(x)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise _dtype_error(x, _DEFINED_FOR, "Pool the real and the imaginary part separately.")


def _check_numbers(x: Array | jax.ShapeDtypeStruct) -> None:
    """Raise unless ``x`` contains numbers or booleans, not for example keys of ``jax.random``."""
    if not jnp.issubdtype(x.dtype, jnp.number) and x.dtype != jnp.bool_:
        advice = "Give an array of numbers; jax.random keys are not numbers."
        raise _dtype_error(x, _DEFINED_FOR, advice)
    if x.dtype.name.startswith("float6_"):
        raise _dtype_error(
            x,
            "XLA (jaxlib 0.12) has no 6-bit arithmetic and aborts the process.",
            "Convert it first, for example x.astype(jnp.bfloat16).",
        )
    if x.dtype.name == "float8_e8m0fnu":
        raise _dtype_error(
            x,
            "It has no 0, and XLA (jaxlib 0.12) turns its lowest number into NaN.",
            "Convert it first, for example x.astype(jnp.float32).",
        )


def check_float(x: Array) -> None:
    """Raise unless ``x`` contains floating-point numbers."""
    _check_numbers(x)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise _dtype_error(
            x,
            "The result is a real number, which only floating-point dtypes represent.",
            "Convert it first, for example x.astype(jnp.float32).",
        )


def _dtype_error(x: Array | jax.ShapeDtypeStruct, fact: str, advice: str) -> TypeError:
    return TypeError(message(f"the array has dtype {x.dtype}.", fact, advice))


def check_where(where: Any, shape: tuple[int, ...]) -> Array | None:
    """Return the mask broadcast to ``shape``, or None."""
    if where is None:
        return None
    where = as_array("$where", where)
    if where.dtype != jnp.bool_:
        raise TypeError(
            message(
                f"$where has dtype {where.dtype}.",
                "The mask says for each element whether it counts: True or False.",
                "Compare it first, for example `where=mask > 0`.",
            )
        )
    try:
        return jnp.broadcast_to(where, shape)
    except ValueError:
        raise ValueError(
            message(
                f"$where of shape {where.shape} does not broadcast to the array.",
                f"The array has shape {shape}.",
                "Give a mask of that shape, or with axes of length 1."
                + _advice_with_axes(where.shape, shape),
            )
        ) from None


def _advice_with_axes(mask: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Return a sentence that says where to add axes of length 1 to a mask, if they make it fit."""
    ones = (1,) * (len(shape) - len(mask))
    nones = ", ".join(["None"] * len(ones))
    after = "".join(":, " for _ in mask[:1])
    candidates = [(mask + ones, f"..., {nones}"), (mask[:1] + ones + mask[1:], f"{after}{nones}")]
    for longer, index in candidates:
        if ones and all(n in (1, length) for n, length in zip(longer, shape, strict=True)):
            return f" Its axes seem to be the leading ones: give mask[{index}]."
    return ""
