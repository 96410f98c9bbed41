"""Text from an untrusted file, made safe to print and to paste.

The names in a model are arbitrary: they may contain terminal escape sequences, line breaks that
forge a line of output, or code. Printed text is escaped. Text meant to be pasted consists only of
identifiers and literals.
"""

import inspect
import keyword
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_LONGEST_NAME = 60
_RESERVED = ("jaxpool", "x", "y", "indices", "float")
"""Names that a printed call uses for other things."""


def printable(text: str) -> str:
    """Return ``text`` on one line, with unprintable characters escaped as in ``repr``."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def is_plain(name: str) -> bool:
    """Return whether a name can be shown as it is: a short identifier in ASCII."""
    return name.isascii() and name.isidentifier() and len(name) <= _LONGEST_NAME


def identifiers(names: Sequence[str]) -> list[str]:
    """Return an identifier for each name: the name itself if it is a usable one; "" stays "".

    Equal names get equal identifiers, and different names get different identifiers.
    """
    identifier_of: dict[str, str] = {"": ""}
    for name in names:
        if name not in identifier_of:
            taken = set(identifier_of.values())
            identifier_of[name] = next(c for c in _candidates(name) if c not in taken)
    return [identifier_of[name] for name in names]


def _candidates(name: str) -> Iterator[str]:
    ascii_name = re.sub(r"\W", "_", name[:_LONGEST_NAME], flags=re.ASCII)
    base = ascii_name.strip("_") or "array"
    if base[0].isdigit():
        base = f"array_{base}"
    if is_plain(name):
        base = name
    if not keyword.iskeyword(base) and not base.startswith("__") and base not in _RESERVED:
        yield base
    number = 1
    while True:
        yield f"{base.strip('_')}_{number}"
        number += 1


def call_lines(
    results: str, function: Callable[..., Any], inputs: Sequence[str], arguments: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the lines of a call, with the arguments in the order of the signature.

    Args:
      results: the text before the equals sign, names of the results.
      function: a function of a front end.
      inputs: names of the tensors after the first, "" for an omitted one. A name that is not an
        identifier is replaced by an identifier, and a comment before the call says so.
      arguments: the keyword arguments.
    """
    safe_names = identifiers(inputs)
    for name, identifier in dict(zip(inputs, safe_names, strict=True)).items():
        if name != identifier:
            yield f"# {identifier} is the tensor {printable(ascii(name))}"
    order = list(inspect.signature(function).parameters)
    keywords = (f"{key}={literal(arguments[key])}" for key in sorted(arguments, key=order.index))
    call_arguments = ["x", *(identifier or "None" for identifier in safe_names), *keywords]
    module = function.__module__.removeprefix("jaxpool.compat.").partition(".")[0]
    yield f"{results} = jaxpool.compat.{module}.{function.__name__}({', '.join(call_arguments)})"


def literal(value: Any) -> str:
    """Return the Python literal of a number, a string or a tuple of them."""
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return ascii(value)
