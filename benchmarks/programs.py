"""What a compiled XLA program moves: bytes through main memory and kernels, read from its text.

A scheduled program is a list of kernels. Each reads its operands from main memory and writes its
results there, so the bytes of both over the bandwidth are a floor of its time. Counted are the
tiles that arrays are padded to. Not counted are arrays that a TPU keeps in its vector memory,
marked ``S(1)``, and what an update in place passes by. A slice reads what it yields. A loop counts
as often as it goes round, where its program says so; of branches the one that moves least counts,
since the others are for rare values.
"""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

BYTES = {"pred": 1, "bf16": 2} | {f"{kind}4": 1 for kind in "su"}
BYTES |= {f"{kind}{8 * n}": n for kind in "sufc" for n in (1, 2, 4, 8, 16)}
"""Bytes of a number of each dtype; 4-bit integers are counted as they are stored, one each."""

_FREE = {"parameter", "constant", "bitcast", "tuple", "get-tuple-element", "after-all"}
_FREE |= {"copy-done", "slice-done", "async-done", "partition-id"}
_SLICES = {"slice", "dynamic-slice", "slice-start"}
_ARRAY = re.compile(r"\b([a-z]+\d*)(?:e\d\w*)?\[([\d,]*)\](?:\{([^}]*)\})?")
_INSTRUCTION = re.compile(
    r"\s*(?:ROOT )?%?([\w.\-]+) = (\(.*?\)(?= [\w\-]+\()|\S+) ([\w\-]+)\((.*)"
)


class Traffic(NamedTuple):
    """Bytes that kernels read from and write to main memory, and the number of kernels."""

    bytes: int
    kernels: int


class Instruction(NamedTuple):
    """One line of a program: a result, its shape, and what makes it from which operands."""

    name: str
    shape: str
    opcode: str
    operands: tuple[str, ...]
    calls: str | None


def instructions(lines: list[str]) -> Iterator[Instruction]:
    """The instructions among the lines of a program's text."""
    for line in lines:
        found = _INSTRUCTION.match(line)
        if found:
            name, shape, opcode, rest = found.groups()
            operands = re.findall(r"%([\w.\-]+)", rest.split("), ")[0])
            called = re.search(r"calls=%([\w.\-]+)", rest)
            yield Instruction(name, shape, opcode, tuple(operands), called and called[1])


def traffic(text: str) -> Traffic:
    """What the kernels of a scheduled program move: those of a loop as often as it goes round."""
    updates, bodies = _updates(text), _bodies(text)

    def of(name: str) -> Traffic:
        held, total, kernels = dict[str, int](), 0, 0
        for line in bodies[name]:
            for instruction in instructions([line]):
                held[instruction.name] = in_memory(instruction.shape)
                if instruction.opcode == "while":
                    inner, trips = of(_called("body", line)), _trips(line, bodies)
                    total, kernels = total + trips * inner.bytes, kernels + trips * inner.kernels
                elif instruction.opcode == "conditional":
                    branches = (of(branch) for branch in _branches(line) if branch in bodies)
                    least = min(branches, default=Traffic(0, 0))
                    total, kernels = total + least.bytes, kernels + least.kernels
                elif instruction.opcode not in _FREE:
                    total += _moved(instruction, held, updates)
                    kernels += not instruction.opcode.endswith("-start")
        return Traffic(total, kernels)

    return of("ENTRY")


def _bodies(text: str) -> dict[str, list[str]]:
    """The lines of every computation by its name; those of the first as ENTRY."""
    found = re.findall(r"^(ENTRY )?%([\w.\-]+) \([^\n]*\{\n(.*?)^\}", text, re.M | re.S)
    return {entry.strip() or name: body.splitlines() for entry, name, body in found}


def _called(role: str, line: str) -> str:
    found = re.search(rf"\b{role}=%([\w.\-]+)", line)
    assert found, line
    return found[1]


def _branches(line: str) -> list[str]:
    """The computations that a conditional takes one of."""
    _, _, rest = line.partition("conditional(")
    return re.findall(r"%([\w.\-]+)", rest.partition(")")[2])


def _trips(line: str, bodies: dict[str, list[str]]) -> int:
    """How often a loop goes round: as XLA found, or else the number that its counter goes up to.

    1 where neither is known, as of a counter that goes down.
    """
    known = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
    if known:
        return int(known[1])
    condition = "\n".join(bodies[_called("condition", line)])
    bounds = re.findall(r" = s32\[\]\S* constant\((\d+)\)", condition)
    return max(1, int(bounds[0])) if len(bounds) == 1 and "direction=LT" in condition else 1


def _moved(instruction: Instruction, held: dict[str, int], updates: dict[str, int]) -> int:
    written = held[instruction.name]
    if instruction.opcode == "copy-start":
        return written  # its shape lists both ends
    if instruction.opcode == "dynamic-update-slice":
        return 2 * held.get(instruction.operands[1], 0)
    if instruction.opcode in _SLICES:
        starts = instruction.opcode == "slice-start"
        dtype, lengths, layout = _ARRAY.findall(instruction.shape)[int(starts)]
        read = in_memory(f"{dtype}[{lengths}]{{{layout.replace('S(1)', '')}}}")
        return read if starts else read + written
    read = [held.get(operand, 0) for operand in set(instruction.operands)]
    if instruction.calls in updates:
        return updates[instruction.calls] + sum(size for size in read if size != written)
    return written + sum(read)


def _updates(text: str) -> dict[str, int]:
    """Bytes of the updates in each fused computation that updates an array in place."""
    found: dict[str, int] = {}
    for head, body in re.findall(r"^%([\w.\-]+) \([^\n]*\{\n(.*?)^\}", text, re.M | re.S):
        shapes = {}
        for instruction in instructions(body.splitlines()):
            shapes[instruction.name] = instruction.shape
            if instruction.opcode == "dynamic-update-slice":
                update = shapes.get(instruction.operands[1], "")
                found[head] = found.get(head, 0) + in_memory(update)
    return found


def in_memory(shape: str) -> int:
    """Bytes of a shape in main memory, or of all shapes in a tuple."""
    return sum(_array_bytes(*array) for array in _ARRAY.findall(shape))


def _array_bytes(dtype: str, lengths: str, layout: str) -> int:
    if re.search(r"S\([1-9]\)", layout):
        return 0
    sizes = [int(length) for length in lengths.split(",") if length]
    order = [int(axis) for axis in layout.split(":")[0].split(",") if axis.strip().isdigit()]
    tile = re.search(r"T\(([\d,]+)\)", layout)
    if tile and len(order) == len(sizes):
        steps = map(int, reversed(tile[1].split(",")))
        for axis, step in zip(order, steps, strict=False):  # both from the minor-most axis on
            sizes[axis] = -(-sizes[axis] // step) * step
    return BYTES.get(dtype, 1) * math.prod(sizes)
