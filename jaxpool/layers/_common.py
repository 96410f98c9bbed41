"""What the layers of all libraries share."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, TypeVar, dataclass_transform

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

import jaxpool

from .._errors import framed, message, public_constructor
from .._geometry.arguments import is_sequence
from .._numerics.checks import as_array

PerAxis = int | Sequence[int]
"""One number for all pooled axes, or one for each."""
Padding = str | int | Sequence[int] | Sequence[tuple[int, int]]
Rounding = Literal["floor", "ceil", "ceil_torch"]

T = TypeVar("T")

_HERE = __name__.rpartition(".")[0]


def not_installed(module: str, extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error to raise for ``error``, which the import of the library of ``module`` raised."""
    if error.name is None or error.name.partition(".")[0] != extra:
        return error  # the library is there, but broken
    text = message(
        f"jaxpool.layers.{module}: {extra} is not installed.",
        "These layers are modules of that library; the ops of jaxpool do without it.",
        f'Run pip install "jaxpool[{extra}]".',
    )
    return ModuleNotFoundError(text, name=extra)


def name_errors_of_layers(module: dict[str, Any]) -> None:
    """Let the errors of every public layer of a module, given by its names, bear its name."""
    for name in module["__all__"]:
        if isinstance(module[name], type):
            public_constructor(module[name])


def show_types_of_layers(module: dict[str, Any]) -> None:
    """Let signatures show the type of a setting; Equinox shows what its converter takes."""
    for layer in (module[name] for name in module["__all__"]):
        for field in dataclasses.fields(layer):
            if field.metadata.get("converter") is hashable:
                layer.__init__.__annotations__[field.name] = field.type


@dataclass_transform(eq_default=False)
def module(made: type[T]) -> type[T]:
    """Make a dataclass of a layer that compares and prints as a module of its library."""
    return dataclasses.dataclass(eq=False, repr=False)(made)


def settings(layer: Any, *, besides: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a layer by name, which are the arguments of its op, ``besides`` left out.

    A subclass that a user writes may have fields of its own, which are none of the op.
    """
    ours = next(made for made in type(layer).__mro__ if made.__module__.startswith(_HERE))
    names = (field.name for field in dataclasses.fields(ours))
    return {name: getattr(layer, name) for name in names if name not in besides}


def hashable(value: Any) -> Any:
    """A setting as static data: tuples in place of lists and arrays, Python's numbers of others.

    A number in an array would be traced with the parameters of a layer. That of a float of JAX
    stays one: it may be learned.
    """
    if is_sequence(value):
        return tuple(map(hashable, value))
    integral = isinstance(value, Array) and jnp.issubdtype(value.dtype, jnp.integer)
    is_known = integral and not isinstance(value, Tracer)
    return value.item() if is_known or isinstance(value, (np.generic, np.ndarray)) else value


def exponent(p: float | Sequence[Any] | ArrayLike) -> Array:
    """The initial value of the parameter of a GeMPool."""
    with framed("GeMPool"):
        return as_array("$p", p, lambda p: jnp.asarray(p, jnp.float32))


def stochastic(x: Any, *, key: Any, **settings: Any) -> Array:
    """:func:`jaxpool.stochastic_pool` with the array first."""
    return jaxpool.stochastic_pool(key, x, **settings)


def fractional(x: Any, *, key: Any, **settings: Any) -> Array:
    """:func:`jaxpool.fractional_max_pool` with the array first."""
    return jaxpool.fractional_max_pool(key, x, **settings)
