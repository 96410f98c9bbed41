"""Error messages of three lines: the problem, the facts, and what to do.

Inner code raises ``ValueError(message(what, facts, advice))`` and does not know its callers. It
writes ``$window_shape`` for an argument. :func:`public`, the boundary of every public function,
replaces this placeholder with the name that the public function has for the argument, and prefixes
the message with the name of the function, once.
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

_MAX_LENGTH = 80
_RENAMED_TYPES = (TypeError, ValueError, NotImplementedError)


class Message(str):
    """The text of an error, with argument names filled in for one function.

    Attributes:
      template: the text without the function's name, with ``$name`` for each argument.
    """

    template: str

    def __new__(
        cls, template: str, function: str = "", names: Mapping[str, str] | None = None
    ) -> "Message":
        text = string.Template(template).safe_substitute(_Quoted(names or {}))
        filled = super().__new__(cls, f"{function}: {text}" if function else text)
        filled.template = template
        return filled

    def __getnewargs__(self) -> tuple[str]:
        """Return the argument for a copy, which copies the template as an attribute."""
        return (self.replace("$", "$$"),)


class _Quoted(dict[str, str]):
    """A map from inner to quoted outer argument names; a name that is not listed stays the same."""

    def __missing__(self, argument: str) -> str:
        return f"`{argument}`"

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__({inner: f"`{outer}`" for inner, outer in names.items()})


def message(what: str, facts: str, advice: str) -> Message:
    """Return the three-line text of an error."""
    return Message("\n  ".join(" ".join(line.split()) for line in (what, facts, advice)))


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: "1 entry", "3 entries", "2 pooled axes"."""
    endings = {"entry": "entries", "axis": "axes"}
    *words, last = noun.split()
    return " ".join([str(count), *words, last if count == 1 else endings.get(last, f"{last}s")])


def shown(value: Any) -> str:
    """Return ``repr(value)`` on one line, truncated if it is long, and escaped for a template."""
    text = " ".join(repr(value).split())
    text = text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 3] + "..."
    return text.replace("$", "$$")


def no_attribute(module: str, name: str, hint: str) -> AttributeError:
    """Return the error of a module without attribute ``name``; Python adds the closest match."""
    what = f"module {module!r} has no attribute {name!r}{hint}"
    return AttributeError(what, name=name, obj=sys.modules[module])


def message_of(error: Exception) -> Message | None:
    """Return the text of an error of jaxpool, or None for other errors."""
    text = error.args[0] if error.args else None
    return text if isinstance(text, Message) and type(error) in _RENAMED_TYPES else None


def _named(error: Exception, function: str, names: Mapping[str, str]) -> Exception:
    """Return ``error`` with the name of ``function``; return errors of other code unchanged."""
    text = message_of(error)
    return type(error)(Message(text.template, function, names)) if text is not None else error


def with_advice(error: Exception, sentence: str) -> Exception:
    """Return an error of jaxpool with a further sentence of advice; return others unchanged."""
    text = message_of(error)
    return error if text is None else type(error)(Message(f"{text.template} {sentence}"))


@overload
def public(function: F, /) -> F: ...


@overload
def public(**names: str) -> Callable[[F], F]: ...


def public(function: Any = None, /, **names: str) -> Any:
    """Decorate a public function so that its errors show its name and its argument names.

    Args:
      names: the function's name for each argument that inner code names differently.
    """
    if function is None:
        return functools.partial(public, **names)
    return _with_named_errors(function, function.__qualname__.removesuffix(".__init__"), names)


def public_constructor(cls: C, /, **names: str) -> C:
    """Decorate a class so that errors of its constructor show its name, as :func:`public` does."""
    patched: Any = cls
    patched.__init__ = _with_named_errors(patched.__init__, cls.__qualname__, names)
    return cls


def _with_named_errors(function: Callable[..., Any], name: str, names: Mapping[str, str]) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except _RENAMED_TYPES as error:
            renamed_error = _named(_with_hint(error, function, args, kwargs, names), name, names)
            if renamed_error is error:
                raise
            raise renamed_error from error.__cause__

    return wrapper


def _with_hint(
    error: Exception,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    names: Mapping[str, str],
) -> Exception:
    """Return ``error`` with a better message, or unchanged.

    A TypeError of Python about the call's arguments gets a message of jaxpool. An error of jaxpool
    about a setting that is traced gets advice about static settings.
    """
    text = message_of(error)
    if text is None:
        is_of_python = type(error) is TypeError
        lines = misuse.signature_mismatch(function, args, kwargs) if is_of_python else None
        return TypeError(message(*lines)) if lines else error
    what, facts, *_ = text.template.split("\n")
    outer_names = [names.get(inner, inner) for inner in misuse.placeholders(what)]
    advice = misuse.advice_on_traced_settings(function, args, kwargs, outer_names)
    return type(error)(Message(f"{what}\n{facts}\n  {advice}")) if advice else error


@contextlib.contextmanager
def naming_errors(function: str, **names: str) -> Iterator[None]:
    """Name a function in the errors of the ``with`` block, as :func:`public` does.

    Args:
      function: the name of the function.
      names: the function's name for each argument that inner code names differently.
    """
    try:
        yield
    except _RENAMED_TYPES as error:
        renamed_error = _named(error, function, names)
        if renamed_error is error:
            raise
        raise renamed_error from None


@contextlib.contextmanager
def renaming_arguments(**names: str) -> Iterator[None]:
    """Rename arguments in the errors of the ``with`` block; :func:`public` may rename them again.

    Args:
      names: the outer name for each argument of the inner code.
    """
    try:
        yield
    except _RENAMED_TYPES as error:
        text = message_of(error)
        if text is None:
            raise
        outer_names = {inner: f"${outer}" for inner, outer in names.items()}
        changed = string.Template(text.template.replace("$$", "$$$$")).safe_substitute(outer_names)
        raise type(error)(Message(changed)) from None
