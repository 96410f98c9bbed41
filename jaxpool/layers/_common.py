"""What the layers of all libraries share."""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jax import Array

from .._arguments import is_sequence
from .._errors import message


def not_installed(module: str, extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error to raise for ``error``, which the import of the library of ``module`` raised."""
    if error.name is None or error.name.partition(".")[0] != extra:
        return error  # the library is there, but broken
    return ModuleNotFoundError(
        message(
            f"jaxpool.layers.{module}",
            f"{extra} is not installed.",
            "These layers are modules of that library; the ops of jaxpool do without it.",
            f'Run pip install "jaxpool[{extra}]".',
        ),
        name=extra,
    )


def settings(layer: Any, *, besides: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a layer by name, which are the settings of its op, ``besides`` left out."""
    names = (field.name for field in dataclasses.fields(layer))
    return {name: getattr(layer, name) for name in names if name not in besides}


def hashable(value: Any) -> Any:
    """A setting as static data: tuples in place of lists and arrays."""
    return tuple(map(hashable, value)) if is_sequence(value) else value


def exponent(p: Any) -> Array:
    """The initial value of the parameter of a GeMPool."""
    return jnp.asarray(p, jnp.float32)
