"""Small faults of a random kind at random places of a module, by its syntax tree.

A comparison takes in or leaves out equality, or is negated; a sum becomes a difference, a product a
quotient, a shift one to the other side; an integer is one off; a sign or a ``not`` is gone; ``and``
becomes ``or``; a condition is turned round; a minimum becomes a maximum.

What says no arithmetic is left as it is: annotations, messages of errors, f-strings, and functions
that only choose between implementations of the same result.
"""

import ast
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SPARED = {"slower_reason"}
"""Functions that choose between implementations that give the same results."""

FLIPPED: dict[type[ast.AST], type[ast.AST]] = {
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
RENAMED = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}


class Mutant(NamedTuple):
    """The source between two offsets, in bytes of UTF-8, becomes ``new``."""

    start: int
    end: int
    line: int
    old: str
    new: str

    def applied(self, source: str) -> str:
        data = source.encode()
        return (data[: self.start] + self.new.encode() + data[self.end :]).decode()


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a module's source, in order."""
    starts, data = [0], source.encode()
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node, changed in _changes(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset  # pyright: ignore
        old = data[start:end].decode()
        found.append(Mutant(start, end, node.lineno, old, f"({changed})"))
    return found


def drawn(paths: list[Path], count: int, seed: int) -> list[tuple[Path, Mutant]]:
    """So many different mutants of these modules, each place as likely as every other."""
    every = [(path, mutant) for path in sorted(paths) for mutant in mutants(path.read_text())]
    return random.Random(seed).sample(every, min(count, len(every)))


def _changes(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Expressions, and what becomes of each."""
    for node in _computing(tree):
        if isinstance(node, ast.If | ast.While):
            yield node.test, f"not ({ast.unparse(node.test)})"
        for changed in _mutated(node):
            yield node, changed  # pyright: ignore


def _computing(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all under it, without what only tells."""
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
        return
    if isinstance(node, ast.FunctionDef) and node.name in SPARED:
        return
    yield node
    for name, field in ast.iter_fields(node):
        if name not in ("annotation", "returns", "type_params"):
            for child in field if isinstance(field, list) else [field]:
                if isinstance(child, ast.AST):
                    yield from _computing(child)


def _mutated(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Compare(left, [op], [right]):
            yield ast.unparse(ast.Compare(left, [FLIPPED[type(op)]()], [right]))  # pyright: ignore
        case ast.BinOp(left, op, right) if type(op) in FLIPPED:
            yield ast.unparse(ast.BinOp(left, FLIPPED[type(op)](), right))  # pyright: ignore
        case ast.BoolOp(op, values):
            yield ast.unparse(ast.BoolOp(FLIPPED[type(op)](), values))  # pyright: ignore
        case ast.UnaryOp(ast.USub() | ast.Not() | ast.Invert(), operand):
            yield ast.unparse(operand)
        case ast.IfExp(test, body, orelse):
            yield ast.unparse(ast.IfExp(test, orelse, body))
        case ast.Constant(bool(value)):
            yield repr(not value)
        case ast.Constant(int(value)):
            yield from (repr(value + 1), repr(value - 1))
        case ast.Name(name) if name in RENAMED:
            yield RENAMED[name]
        case ast.Attribute(value, name) if name in RENAMED:
            yield f"{ast.unparse(value)}.{RENAMED[name]}"
