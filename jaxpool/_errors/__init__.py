"""Errors: what is wrong, the facts, what to do. The public function adds its name, once.

Inner code raises ``ValueError(message(what, facts, advice))`` and knows nothing of its callers. It
writes ``$window_shape`` for an argument; :func:`public`, the boundary of every public function,
puts the caller's own name of that argument in its place, and the name of the function in front.
"""

import contextlib
import functools
import string
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, overload

from . import misuse

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

_LONGEST = 80
_KINDS = (TypeError, ValueError, NotImplementedError)


class Message(str):
    """The text of an error: a template of argument names, filled in for one function.

    Attributes:
      template: the text without a function, ``$name`` for each argument.
    """

    template: str

    def __new__(
        cls, template: str, function: str = "", names: Mapping[str, str] | None = None
    ) -> "Message":
        text = string.Template(template).safe_substitute(_Quoted(names or {}))
        made = super().__new__(cls, f"{function}: {text}" if function else text)
        made.template = template
        return made


class _Quoted(dict[str, str]):
    """The caller's name of an argument, in quotes; one that is not listed keeps its own."""

    def __missing__(self, argument: str) -> str:
        return f"`{argument}`"

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__({ours: f"`{theirs}`" for ours, theirs in names.items()})


def message(what: str, facts: str, advice: str) -> Message:
    """Return the three-line text of an error."""
    return Message("\n  ".join(" ".join(line.split()) for line in (what, facts, advice)))


def counted(count: int, noun: str) -> str:
    """So many in words: "1 entry", "3 entries", "2 pooled axes"."""
    endings = {"entry": "entries", "axis": "axes", "channel": "channels"}
    *words, last = noun.split()
    return " ".join([str(count), *words, last if count == 1 else endings[last]])


def shown(value: Any) -> str:
    """Return ``value`` as the caller may have written it, on one line and not too long."""
    text = " ".join(repr(value).split())
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    return text.replace("$", "$$")


def no_attribute(module: str, name: str, hint: str = "") -> AttributeError:
    """Return the error of a module without that name; Python adds the nearest one it has."""
    what = f"module {module!r} has no attribute {name!r}{hint}"
    return AttributeError(what, name=name, obj=sys.modules[module])


def named(error: Exception, function: str, names: Mapping[str, str] | None = None) -> Exception:
    """Return ``error`` as one of ``function``; an error that is not ours as it is."""
    text = error.args[0] if error.args else None
    if type(error) not in _KINDS or not isinstance(text, Message):
        return error
    return type(error)(Message(text.template, function, names))


@overload
def public(function: F, /) -> F: ...


@overload
def public(**names: str) -> Callable[[F], F]: ...


def public(function: Any = None, /, **names: str) -> Any:
    """Decorate a public function: its errors bear its name and the names of its arguments.

    Args:
      names: for an argument that inner code calls otherwise, the function's own name of it.
    """
    if function is None:
        return functools.partial(public, **names)
    return _framed(function, function.__qualname__.removesuffix(".__init__"), names)


def public_constructor(made: C, /, **names: str) -> C:
    """Let the errors of the constructor of a class bear its name, as :func:`public` does."""
    changed: Any = made
    changed.__init__ = _framed(changed.__init__, made.__qualname__, names)
    return made


def _framed(function: Callable[..., Any], name: str, names: Mapping[str, str]) -> Any:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except _KINDS as error:
            told = named(_with_hint(error, function, args, kwargs, names), name, names)
            if told is error:
                raise
            raise told from error.__cause__

    return run


def _with_hint(
    error: Exception,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    names: Mapping[str, str],
) -> Exception:
    """Return ``error`` in our words if the call did not fit, with other advice if it was traced."""
    text = error.args[0] if error.args else None
    if type(error) is TypeError and not isinstance(text, Message):
        lines = misuse.call_that_does_not_fit(function, args, kwargs)
        return TypeError(message(*lines)) if lines else error
    if type(error) not in _KINDS or not isinstance(text, Message):
        return error
    what, facts, *_ = text.template.split("\n")
    own = [names.get(inner, inner) for inner in misuse.named_in(what)]
    advice = misuse.traced_setting(function, args, kwargs, own)
    return type(error)(Message(f"{what}\n{facts}\n  {advice}")) if advice else error


@contextlib.contextmanager
def framed(function: str, **names: str) -> Iterator[None]:
    """Let errors raised inside bear the name of a function, as :func:`public` does.

    Args:
      function: the name.
      names: for an argument of the inner code, the name that it has there.
    """
    try:
        yield
    except _KINDS as error:
        told = named(error, function, names)
        if told is error:
            raise
        raise told from None


@contextlib.contextmanager
def renamed(**names: str) -> Iterator[None]:
    """Let errors raised inside call arguments by other names, which the boundary may change again.

    Args:
      names: for an argument of the inner code, the name that it has outside.
    """
    try:
        yield
    except _KINDS as error:
        text = error.args[0] if error.args else None
        if not isinstance(text, Message):
            raise
        outer = {ours: f"${theirs}" for ours, theirs in names.items()}
        told = string.Template(text.template.replace("$$", "$$$$")).safe_substitute(outer)
        raise type(error)(Message(told)) from None
