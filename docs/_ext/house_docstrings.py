"""The sections of this library's docstrings as fields that Sphinx lays out.

A section starts at the margin with a word of ``SECTIONS`` and a colon. Its text follows on the same
line, on indented lines, or both::

    Args:
      x, y: two arrays.
    Derivatives: forward and reverse,
      any order.
    Raises:
      ValueError: the shapes differ.
    Example:
      >>> 1 + 1
      2

Every section becomes a field by its own name, in the order in which they are written; entries of
``Args``, ``Attributes`` and ``Raises`` become a list, and ``Example`` a heading above a doctest.
"""

import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

import jaxpool

SECTIONS = (
    "Args",
    "Attributes",
    "Returns",
    "Derivatives",
    "Edge cases",
    "Cost",
    "Compatibility",
    "Raises",
    "References",
    "Source",
    "Example",
)
_HEAD = re.compile(rf"^({'|'.join(SECTIONS)}):(?: +(.*))?$")
_ENTRY = re.compile(r"^((?:\*{0,2}[\w.]+)(?:, \*{0,2}[\w.]+)*): *(.*)$")
ENTRIES = ("Args", "Attributes", "Raises")
TITLES = {"Args": "Parameters"}


class Section(NamedTuple):
    """A section, or the text ahead of the first one, whose name is empty."""

    name: str
    lines: list[str]


def sections(lines: list[str]) -> Iterator[Section]:
    """The parts of a docstring, in order, each without the indentation of its body."""
    name, text, body = "", None, []
    for line in lines:
        head = _HEAD.match(line)
        if head:
            yield _section(name, text, body)
            name, text, body = head[1], head[2], []
        else:
            body.append(line)
    yield _section(name, text, body)


def _section(name: str, text: str | None, body: list[str]) -> Section:
    rest = textwrap.dedent("\n".join(body)).strip("\n").splitlines()
    return Section(name, [text, *rest] if text else rest)


def entries(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The entries ``names: text`` of a section, each with its lines."""
    name, body = "", []
    for line in lines:
        head = _ENTRY.match(line)
        if head:
            if name:
                yield name, body
            name, body = head[1], [head[2]]
        else:
            body.append(line)
    if name:
        yield name, body


def field(name: str, lines: list[str]) -> list[str]:
    """A field of reStructuredText; what was on the line of the name may go on below it."""
    return [f":{name}:", *(f"    {line}".rstrip() for line in lines), ""]


def item(section: str, names: str, body: list[str]) -> list[str]:
    """One entry as an item of a list, its names in bold or, of exceptions, as links."""
    shape = ":py:exc:`{}`" if section == "Raises" else "**{}**"
    shown = ", ".join(shape.format(name.replace("*", r"\*")) for name in names.split(", "))
    rest = textwrap.dedent("\n".join(body[1:])).splitlines()
    return [f"* {shown} – {body[0]}", *(f"  {line}".rstrip() for line in rest)]


def as_fields(section: Section) -> list[str]:
    """One section as reStructuredText."""
    if section.name == "":
        return [*section.lines, ""]
    if section.name == "Example":
        return ["", ".. rubric:: Example", "", *section.lines, ""]
    lines = section.lines
    found = list(entries(lines)) if section.name in ENTRIES else []
    if found:
        lines = [line for names, body in found for line in item(section.name, names, body)]
    return field(TITLES.get(section.name, section.name), lines)


def rewrite(lines: list[str]) -> list[str]:
    """A docstring of this library as reStructuredText."""
    return [line for section in sections(lines) for line in as_fields(section)]


_ROLE = re.compile(r":(?:py:)?(func|class|data|meth|attr|mod|exc):`([\w.]+)`")


def linked(line: str, scopes: list[Any]) -> str:
    """A line whose roles name their targets in full, looked up in ``scopes`` in that order."""

    def full(match: re.Match[str]) -> str:
        role, name = match.groups()
        head, *rest = name.split(".")
        scope = next((scope for scope in scopes if head in vars(scope)), None)
        if scope is None or head == "jaxpool":
            return f":py:{role}:`{name}`"
        item = vars(scope)[head]
        exported = head in jaxpool.__all__ and item is getattr(jaxpool, head)
        home = "jaxpool" if exported else scope.__name__
        return f":py:{role}:`{name} <{'.'.join([home, head, *rest])}>`"

    return _ROLE.sub(full, line)


def _process(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    path = name.split(".")
    modules = (sys.modules.get(".".join(path[:end])) for end in range(len(path), 0, -1))
    scopes = [module for module in modules if module is not None]
    lines[:] = [linked(line, scopes) for line in rewrite(lines)]


_ARRAY_LIKE = re.compile(
    r" \| ".join(
        rf"(?:~?[\w.]+\.)?{name}"
        for name in ("Array", "ndarray", "bool", "number", "bool", "int", "float", "complex")
    )
)


def _shorten(
    app: Any, what: str, name: str, found: Any, options: Any, signature: str | None, returns: Any
) -> tuple[str | None, Any]:
    """JAX's union of all that can become an array, by its name; what has ``__index__`` as int."""
    if signature:
        signature = _ARRAY_LIKE.sub("ArrayLike", signature)
        signature = re.sub(r"(~?[\w.]+\.)?SupportsIndex", "int", signature)
    return signature, returns


def setup(app: Any) -> dict[str, Any]:
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-process-signature", _shorten)
    return {"version": "1", "parallel_read_safe": True}
