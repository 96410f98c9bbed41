"""Small random faults at random places of a module, from its syntax tree.

A comparison includes or excludes equality, or is negated; a sum becomes a difference, a product a
quotient, a left shift a right shift; an integer changes by one; a sign or a ``not`` is removed;
``and`` becomes ``or``; a condition is inverted; a minimum becomes a maximum.

Code that computes no result is unchanged: annotations, messages of errors, f-strings, and functions
that only choose between implementations of the same result.
"""

import ast
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

EXCLUDED = {"slower_reason"}
"""Functions that only choose between implementations of the same result."""

OPERATOR_CHANGES: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
NAME_CHANGES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}


class Mutant(NamedTuple):
    """The replacement of the source between two offsets, in bytes of UTF-8, by ``new``."""

    start: int
    end: int
    line: int
    old: str
    new: str

    def applied(self, source: str) -> str:
        data = source.encode()
        return (data[: self.start] + self.new.encode() + data[self.end :]).decode()


def mutants(source: str) -> list[Mutant]:
    """Return every mutant of a module's source, in order."""
    starts, data = [0], source.encode()
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    result = []
    for node, changed in _changes(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset  # pyright: ignore
        old = data[start:end].decode()
        result.append(Mutant(start, end, node.lineno, old, f"({changed})"))
    return result


def drawn_mutants(paths: list[Path], count: int, seed: int) -> list[tuple[Path, Mutant]]:
    """Return ``count`` distinct mutants of these modules, drawn with equal probability."""
    all_mutants = [(path, mutant) for path in sorted(paths) for mutant in mutants(path.read_text())]
    return random.Random(seed).sample(all_mutants, min(count, len(all_mutants)))


def _changes(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield expressions, and for each the source that replaces it."""
    for node in _computing_nodes(tree):
        if isinstance(node, ast.If | ast.While):
            yield node.test, f"not ({ast.unparse(node.test)})"
        for changed in _changed_sources(node):
            yield node, changed  # pyright: ignore


def _computing_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the node and its descendants, except those that compute no result."""
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
        return
    if isinstance(node, ast.FunctionDef) and node.name in EXCLUDED:
        return
    yield node
    for name, field in ast.iter_fields(node):
        if name not in ("annotation", "returns", "type_params"):
            for child in field if isinstance(field, list) else [field]:
                if isinstance(child, ast.AST):
                    yield from _computing_nodes(child)


def _changed_sources(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Compare(left, [op], [right]):
            yield ast.unparse(ast.Compare(left, [OPERATOR_CHANGES[type(op)]()], [right]))  # pyright: ignore
        case ast.BinOp(left, op, right) if type(op) in OPERATOR_CHANGES:
            yield ast.unparse(ast.BinOp(left, OPERATOR_CHANGES[type(op)](), right))  # pyright: ignore
        case ast.BoolOp(op, values):
            yield ast.unparse(ast.BoolOp(OPERATOR_CHANGES[type(op)](), values))  # pyright: ignore
        case ast.UnaryOp(ast.USub() | ast.Not() | ast.Invert(), operand):
            yield ast.unparse(operand)
        case ast.IfExp(test, body, orelse):
            yield ast.unparse(ast.IfExp(test, orelse, body))
        case ast.Constant(bool(value)):
            yield repr(not value)
        case ast.Constant(int(value)):
            yield from (repr(value + 1), repr(value - 1))
        case ast.Name(name) if name in NAME_CHANGES:
            yield NAME_CHANGES[name]
        case ast.Attribute(value, name) if name in NAME_CHANGES:
            yield f"{ast.unparse(value)}.{NAME_CHANGES[name]}"
