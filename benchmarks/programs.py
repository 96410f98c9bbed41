"""Counts the main-memory traffic and the kernels of a compiled XLA program, from its text.

A scheduled program is a list of kernels. Each reads its operands from main memory and writes its
results to it, so the bytes of both over the bandwidth are a lower bound of its time. The bytes of
an array include the padding to tiles. Not counted are arrays that a TPU keeps in its vector memory,
marked ``S(1)``, and the elements that an update in place leaves alone. A slice reads only the
elements of its result. The body of a loop counts once per iteration, if the program states the
number. Of the branches of a conditional, the one with the least traffic counts, since the others
are for rare values.
"""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

BYTES = {"pred": 1, "bf16": 2} | {f"{kind}4": 1 for kind in "su"}
BYTES |= {f"{kind}{8 * n}": n for kind in "sufc" for n in (1, 2, 4, 8, 16)}
"""Bytes of a number of each dtype; a 4-bit integer is stored in one byte."""

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
    """One line of a program: a result, its shape, its opcode, operands and called computation."""

    name: str
    shape: str
    opcode: str
    operands: tuple[str, ...]
    calls: str | None


def instructions(lines: list[str]) -> Iterator[Instruction]:
    """Yield the instructions among the lines of a program's text."""
    for line in lines:
        match = _INSTRUCTION.match(line)
        if match:
            name, shape, opcode, remainder = match.groups()
            operands = re.findall(r"%([\w.\-]+)", remainder.split("), ")[0])
            called = re.search(r"calls=%([\w.\-]+)", remainder)
            yield Instruction(name, shape, opcode, tuple(operands), called and called[1])


def traffic(text: str) -> Traffic:
    """Return the traffic of a scheduled program; a loop body counts once per iteration."""
    updates, bodies = _updates(text), _bodies(text)

    def of_computation(name: str) -> Traffic:
        sizes, total, kernels = dict[str, int](), 0, 0
        for line in bodies[name]:
            for instruction in instructions([line]):
                sizes[instruction.name] = bytes_in_memory(instruction.shape)
                if instruction.opcode == "while":
                    body, trips = of_computation(_called("body", line)), _trip_count(line, bodies)
                    total, kernels = total + trips * body.bytes, kernels + trips * body.kernels
                elif instruction.opcode == "conditional":
                    branches = (
                        of_computation(branch) for branch in _branches(line) if branch in bodies
                    )
                    smallest = min(branches, default=Traffic(0, 0))
                    total, kernels = total + smallest.bytes, kernels + smallest.kernels
                elif instruction.opcode not in _FREE:
                    total += _bytes_moved(instruction, sizes, updates)
                    kernels += not instruction.opcode.endswith("-start")
        return Traffic(total, kernels)

    return of_computation("ENTRY")


def _bodies(text: str) -> dict[str, list[str]]:
    """Return the lines of every computation by its name; the entry computation is named ENTRY."""
    computations = re.findall(r"^(ENTRY )?%([\w.\-]+) \([^\n]*\{\n(.*?)^\}", text, re.M | re.S)
    return {entry.strip() or name: body.splitlines() for entry, name, body in computations}


def _called(role: str, line: str) -> str:
    match = re.search(rf"\b{role}=%([\w.\-]+)", line)
    assert match, line
    return match[1]


def _branches(line: str) -> list[str]:
    """Return the names of the branches of a conditional."""
    _, _, remainder = line.partition("conditional(")
    return re.findall(r"%([\w.\-]+)", remainder.partition(")")[2])


def _trip_count(line: str, bodies: dict[str, list[str]]) -> int:
    """Return the iterations of a loop: as annotated by XLA, or else the bound of its counter.

    The result is 1 if neither is known, as for a counter that decreases.
    """
    known = re.search(r'known_trip_count":\{"n":"(\d+)"', line)
    if known:
        return int(known[1])
    condition = "\n".join(bodies[_called("condition", line)])
    bounds = re.findall(r" = s32\[\]\S* constant\((\d+)\)", condition)
    return max(1, int(bounds[0])) if len(bounds) == 1 and "direction=LT" in condition else 1


def _bytes_moved(instruction: Instruction, sizes: dict[str, int], updates: dict[str, int]) -> int:
    written = sizes[instruction.name]
    if instruction.opcode == "copy-start":
        return written  # its shape lists both ends
    if instruction.opcode == "dynamic-update-slice":
        return 2 * sizes.get(instruction.operands[1], 0)
    if instruction.opcode in _SLICES:
        is_start = instruction.opcode == "slice-start"
        dtype, lengths, layout = _ARRAY.findall(instruction.shape)[int(is_start)]
        read = bytes_in_memory(f"{dtype}[{lengths}]{{{layout.replace('S(1)', '')}}}")
        return read if is_start else read + written
    read = [sizes.get(operand, 0) for operand in set(instruction.operands)]
    if instruction.calls in updates:
        return updates[instruction.calls] + sum(size for size in read if size != written)
    return written + sum(read)


def _updates(text: str) -> dict[str, int]:
    """Return the bytes of the updates in each fused computation that updates an array in place."""
    sizes: dict[str, int] = {}
    for name, body in re.findall(r"^%([\w.\-]+) \([^\n]*\{\n(.*?)^\}", text, re.M | re.S):
        shapes = {}
        for instruction in instructions(body.splitlines()):
            shapes[instruction.name] = instruction.shape
            if instruction.opcode == "dynamic-update-slice":
                update = shapes.get(instruction.operands[1], "")
                sizes[name] = sizes.get(name, 0) + bytes_in_memory(update)
    return sizes


def bytes_in_memory(shape: str) -> int:
    """Return the bytes of a shape in main memory, or of all shapes in a tuple."""
    return sum(_array_bytes(*array) for array in _ARRAY.findall(shape))


def _array_bytes(dtype: str, lengths: str, layout: str) -> int:
    if re.search(r"S\([1-9]\)", layout):
        return 0
    sizes = [int(length) for length in lengths.split(",") if length]
    order = [int(axis) for axis in layout.split(":")[0].split(",") if axis.strip().isdigit()]
    tile = re.search(r"T\(([\d,]+)\)", layout)
    if tile and len(order) == len(sizes):
        steps = map(int, reversed(tile[1].split(",")))
        for axis, step in zip(order, steps, strict=False):  # both begin at the minor-most axis
            sizes[axis] = -(-sizes[axis] // step) * step
    return BYTES.get(dtype, 1) * math.prod(sizes)
