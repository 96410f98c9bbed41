"""Text of a file that is not trusted, made safe to print and to paste.

A model names its operations, tensors and attributes as it likes: with escape sequences of a
terminal, line breaks that forge a line of output, or code. What is printed is escaped, and what is
to be pasted is an identifier or a literal.
"""

import inspect
import keyword
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_LONGEST_NAME = 60
_RESERVED = ("jaxpool", "x", "y", "indices", "float")
"""Names that a printed call uses itself."""


def printable(text: str) -> str:
    """Return ``text`` on one line: what is no printable character is escaped, as by ``repr``."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def identifiers(names: Sequence[str]) -> list[str]:
    """Return an identifier for each name, the name itself where it is one; "" stays "".

    Equal names have one identifier, and different names have different ones.
    """
    given: dict[str, str] = {"": ""}
    for name in names:
        if name not in given:
            taken = set(given.values())
            given[name] = next(c for c in _candidates(name) if c not in taken)
    return [given[name] for name in names]


def _candidates(name: str) -> Iterator[str]:
    plain = re.sub(r"\W", "_", name[:_LONGEST_NAME], flags=re.ASCII)
    start = plain.strip("_") or "array"
    if start[0].isdigit():
        start = f"array_{start}"
    if name.isascii() and name.isidentifier() and len(name) <= _LONGEST_NAME:
        start = name
    if not keyword.iskeyword(start) and not start.startswith("__") and start not in _RESERVED:
        yield start
    number = 1
    while True:
        yield f"{start.strip('_')}_{number}"
        number += 1


def call_lines(
    results: str, function: Callable[..., Any], inputs: Sequence[str], arguments: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a call as text, its arguments in the order of the function.

    Args:
      results: names of the results.
      function: a front end's.
      inputs: names of the tensors beside the first, "" for one that is left out. One that is no
        identifier is replaced by one, and a comment before the call says so.
      arguments: by keyword.
    """
    safe = identifiers(inputs)
    for name, identifier in dict(zip(inputs, safe, strict=True)).items():
        if name != identifier:
            yield f"# {identifier} is the tensor {printable(ascii(name))}"
    order = list(inspect.signature(function).parameters)
    given = (f"{word}={literal(arguments[word])}" for word in sorted(arguments, key=order.index))
    listed = ["x", *(identifier or "None" for identifier in safe), *given]
    module = function.__module__.removeprefix("jaxpool.compat.").partition(".")[0]
    yield f"{results} = jaxpool.compat.{module}.{function.__name__}({', '.join(listed)})"


def literal(value: Any) -> str:
    """Return Python text of a number, a string or a tuple of them."""
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return ascii(value)
