"""Replacement of a function or layer by a stand-in, and restoration of the original."""

import inspect
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, NamedTuple

from .._errors import message

Function = Callable[..., Any]


class Swap(NamedTuple):
    """An attribute of a library and its replacement.

    Attributes:
      name: full name of the function or layer.
      owner, attribute: the replaced attribute: ``__code__`` of a function, ``__call__`` of a class.
      library_value, stand_in_value: the values of the attribute.
      original: a function that runs the code of the library.
    """

    name: str
    owner: Any
    attribute: str
    library_value: Any
    stand_in_value: Any
    original: Function


def apply(swaps: Iterable[Swap]) -> None:
    """Replace the attributes by those of the stand-ins."""
    for swap in swaps:
        setattr(swap.owner, swap.attribute, swap.stand_in_value)


def undo(swaps: Iterable[Swap]) -> None:
    """Restore the attributes of the library."""
    for swap in swaps:
        setattr(swap.owner, swap.attribute, swap.library_value)


def code_swap(name: str, function: FunctionType, stand_in: Any) -> Swap:
    """Return a swap of the code of a function for that of a stand-in with the same arguments.

    The code of the stand-in runs with the globals of the library's function, so it may use only
    names that it imports itself.
    """
    _check_arguments(name, function, stand_in)
    library_code, module_globals = function.__code__, function.__globals__
    original = FunctionType(library_code, module_globals, function.__name__, function.__defaults__)
    return Swap(name, function, "__code__", library_code, stand_in.__code__, original)


def call_swap(name: str, layer: type, stand_in: Function) -> Swap:
    """Return a swap of ``__call__`` on a layer class."""
    library_call = vars(layer)["__call__"]
    _check_arguments(name, library_call, stand_in)
    return Swap(name, layer, "__call__", library_call, stand_in, library_call)


def _check_arguments(name: str, function: Function, stand_in: Function) -> None:
    """Raise unless both functions have the same parameters with the same defaults."""
    signatures = [inspect.signature(f).parameters.values() for f in (function, stand_in)]
    theirs, ours = ([(p.name, p.kind, p.default) for p in parameters] for parameters in signatures)
    if theirs != ours:
        raise NotImplementedError(
            message(
                f"{name} has unexpected arguments.",
                f"The signature of the installed version is {inspect.signature(function)}.",
                "Use a version that jaxpool is tested with, or call jaxpool.compat in the model.",
            )
        )
