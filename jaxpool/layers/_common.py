"""Functions and types shared by the layers of all libraries."""

import dataclasses
from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeVar, dataclass_transform

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

import jaxpool

from .._errors import message, naming_errors, public_constructor
from .._geometry.arguments import Integers, is_sequence
from .._geometry.window import Padding as Padding
from .._geometry.window import Rounding as Rounding
from .._numerics.checks import as_array
from .._numerics.indices import IndexSpace as IndexSpace
from .._numerics.quantiles import Method as Method
from ..ops.blur import PadMode as PadMode

PerAxis = Integers
OutputSize = SupportsIndex | Sequence[SupportsIndex | None]

T = TypeVar("T")

_PACKAGE = __name__.rpartition(".")[0]
_NOT_SETTINGS = {"inference", "name", "parent", "rngs"}
"""Fields of layers that are no arguments of an op."""


def not_installed(module: str, extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return the error to raise when importing the library of ``module`` failed with ``error``."""
    if error.name is None or error.name.partition(".")[0] != extra:
        return error  # the library is installed, but broken
    text = message(
        f"jaxpool.layers.{module}: {extra} is not installed.",
        "These layers are modules of that library; the ops of jaxpool do not need it.",
        f'Run pip install "jaxpool[{extra}]".',
    )
    return ModuleNotFoundError(text, name=extra)


def name_errors_of_layers(module: dict[str, Any]) -> None:
    """Make the errors of every public layer name the layer; ``module`` is its ``globals()``."""
    for name in module["__all__"]:
        if isinstance(module[name], type):
            public_constructor(module[name])


def show_types_of_layers(module: dict[str, Any]) -> None:
    """Make signatures show the type of each setting, not the type that its converter accepts."""
    for layer in (module[name] for name in module["__all__"]):
        for field in dataclasses.fields(layer):
            if field.metadata.get("converter") is hashable:
                layer.__init__.__annotations__[field.name] = field.type


@dataclass_transform(eq_default=False)
def module(cls: type[T]) -> type[T]:
    """Return a layer as a dataclass, with the equality and repr of the modules of its library."""
    return dataclasses.dataclass(eq=False, repr=False)(cls)


def settings(layer: Any) -> dict[str, Any]:
    """Return the arguments of a layer's op by name, from the fields of the layer.

    Only fields of the jaxpool class are included, because a subclass by a user may add others.
    """
    jaxpool_class = next(c for c in type(layer).__mro__ if c.__module__.startswith(_PACKAGE))
    names = (field.name for field in dataclasses.fields(jaxpool_class))
    return {name: getattr(layer, name) for name in names if name not in _NOT_SETTINGS}


def hashable(value: Any) -> Any:
    """Return a setting as static data: sequences as tuples, other numbers as Python numbers.

    A number in an array would be traced like a parameter of the layer. A JAX array of floats is not
    converted, because it may be learned.
    """
    is_jax = isinstance(value, Array)
    if isinstance(value, np.dtype) or (is_jax and not jnp.issubdtype(value.dtype, jnp.integer)):
        return value
    if is_sequence(value):
        return tuple(map(hashable, value))
    is_concrete = is_jax and not isinstance(value, Tracer)
    return value.item() if is_concrete or isinstance(value, (np.generic, np.ndarray)) else value


def exponent(p: float | Sequence[Any] | ArrayLike) -> Array:
    """Return the initial value of the parameter of a GeMPool."""
    with naming_errors("GeMPool"):
        return as_array("$p", p, lambda p: jnp.asarray(p, jnp.float32))


def stochastic(x: Any, *, key: Any, **settings: Any) -> Array:
    """Call :func:`jaxpool.stochastic_pool`, with the array as the first argument."""
    return jaxpool.stochastic_pool(key, x, **settings)


def fractional(x: Any, *, key: Any, **settings: Any) -> Array:
    """Call :func:`jaxpool.fractional_max_pool`, with the array as the first argument."""
    return jaxpool.fractional_max_pool(key, x, **settings)
