"""One function or layer that is exchanged for a stand-in, and exchanged back."""

import inspect
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, NamedTuple

from .._errors import message

Function = Callable[..., Any]


class Swap(NamedTuple):
    """A value of a library and its stand-in.

    Attributes:
      name: full name of the function or layer.
      owner, attribute: where the value is: the code of a function, or the call of a class.
      own, other: the library's value, and the stand-in's.
      original: the library's function, as it was.
    """

    name: str
    owner: Any
    attribute: str
    own: Any
    other: Any
    original: Function


def apply(swaps: Iterable[Swap]) -> None:
    """Put the stand-ins in place."""
    for swap in swaps:
        setattr(swap.owner, swap.attribute, swap.other)


def undo(swaps: Iterable[Swap]) -> None:
    """Put the library's own values back."""
    for swap in swaps:
        setattr(swap.owner, swap.attribute, swap.own)


def code_swap(name: str, function: FunctionType, stand_in: Any) -> Swap:
    """A swap of the code of a function for that of one with the same arguments.

    The stand-in's code will look up names where the library's function was defined, so it may use
    nothing but what it imports itself.
    """
    _check_arguments(name, function, stand_in)
    own, names = function.__code__, function.__globals__
    original = FunctionType(own, names, function.__name__, function.__defaults__)
    return Swap(name, function, "__code__", own, stand_in.__code__, original)


def call_swap(name: str, layer: type, stand_in: Function) -> Swap:
    """A swap of ``__call__`` on a class of layers."""
    own = vars(layer)["__call__"]
    _check_arguments(name, own, stand_in)
    return Swap(name, layer, "__call__", own, stand_in, own)


def _check_arguments(name: str, function: Function, stand_in: Function) -> None:
    """Raise unless both take the same arguments with the same defaults."""
    signatures = [inspect.signature(f).parameters.values() for f in (function, stand_in)]
    theirs, ours = ([(p.name, p.kind, p.default) for p in found] for found in signatures)
    if theirs != ours:
        raise NotImplementedError(
            message(
                f"{name} has arguments that are not known.",
                f"The installed version takes {inspect.signature(function)}.",
                "Use a version that jaxpool is tested with, or jaxpool.compat in the model.",
            )
        )
