"""Seeded faults in geometry, index spaces, the way back and counts: does the suite notice?

``python tests/mutations.py [NUMBER..]`` puts each fault into a copy of the package and runs the
tests of that file on it, until the first failure. It prints the faults that no test noticed and
fails if there are any. Not part of the suite: it starts one process for each fault.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COUNTS = ["tests/test_dtypes.py", "tests/test_golden.py", "tests/test_geometry.py"]
TESTS = {
    "_window.py": ["tests/test_geometry.py"],
    "_indices.py": ["tests/test_indices.py", "tests/test_errors.py"],
    "_send.py": ["tests/test_derivatives.py"],
    "_counts.py": COUNTS,
    "_one_loop.py": ["tests/test_lowerings.py"],
    "_pick.py": ["tests/test_lowerings.py", "tests/test_ops_adaptive.py"],
    "ops/_flat.py": ["tests/test_ops_unpool.py"],
    "ops/_runs.py": ["tests/test_ops_adaptive.py"],
    "ops/_terms.py": ["tests/test_ops_smooth.py"],
    "ops/_sums.py": COUNTS,
    "ops/average.py": COUNTS,
}
"""Where the faults of a file should be found, the fastest first."""

OPTIONS = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]


class Fault(NamedTuple):
    """``old`` becomes ``new``, where it stands first in a file."""

    file: str
    old: str
    new: str


FAULTS = [
    Fault("_window.py", "return -((-a) // b)", "return a // b"),
    Fault("_window.py", "(self.kernel - 1) * self.dilation + 1", "self.kernel * self.dilation"),
    Fault("_window.py", "window.dilations[index] + 1", "window.dilations[index]"),
    Fault("_window.py", "window * self.stride - self.pad_low", "window * self.stride"),
    Fault("_window.py", "self.start(self.out - 1)", "self.start(self.out)"),
    Fault("_window.py", "cdiv(-start, self.dilation)", "-start // self.dilation"),
    Fault("_window.py", "cdiv(self.size - start, self.dilation), low", "self.size - start, low"),
    Fault("_window.py", "end = self.size + self.pad_high", "end = self.size"),
    Fault("_window.py", "[(whole, self.kernel)]", "[(whole, self.kernel - 1)]"),
    Fault("_window.py", "cdiv(end - self.start(o), self.dilation)", "end - self.start(o)"),
    Fault("_window.py", "high - low) for first", "high - low + 1) for first"),
    Fault("_window.py", "size % stride or stride", "size % stride"),
    Fault("_window.py", 'if word == "SAME_UPPER" else', 'if word == "SAME_LOWER" else'),
    Fault("_window.py", "room // stride + 1", "room // stride"),
    Fault("_window.py", 'rounding == "ceil" or', 'rounding == "floor" or'),
    Fault("_window.py", "steps * stride < last_start", "steps * stride <= last_start"),
    Fault("_window.py", "window.rounding, size + low", "window.rounding, size"),
    Fault("_window.py", "(out - 1) * stride + span - padded", "(out - 1) * stride + span - size"),
    Fault("_window.py", "out[position] = axis.out", "out[position] = axis.size"),
    Fault("_indices.py", "axis.stride - axis.pad_low", "axis.stride"),
    Fault("_indices.py", "taps % axis.kernel * axis.dilation", "taps % axis.kernel"),
    Fault("_indices.py", "taps = taps // axis.kernel", "taps = taps"),
    Fault("_indices.py", "shape[axis] + place", "shape[axis] - place"),
    Fault("_indices.py", "jnp.where(found, index", "jnp.where(True, index"),
    Fault("_indices.py", "space % rank - rank, 0", "space % rank - rank + 1, 0"),
    Fault("_indices.py", "fits = last + (limits.min == 0)", "fits = last"),
    Fault("_indices.py", "jnp.where(taps == empty", "jnp.where(taps != empty"),
    Fault("_send.py", "first - shift, last - first", "first - shift - 1, last - first"),
    Fault("_send.py", "position, first - shift, last", "position, first, last"),
    Fault("_send.py", "low * unit, high * unit", "low * unit, inner * unit"),
    Fault("_send.py", "axis.span - 1 - axis.pad_low", "axis.span - axis.pad_low"),
    Fault("_send.py", "size = (axis.out - 1) * axis.stride + 1", "size = axis.out * axis.stride"),
    Fault("_send.py", "high = axis.pad_low + axis.size", "high = axis.size"),
    Fault("_send.py", "stretch(g, axis, position), geo", "g, geo"),
    Fault("_send.py", "wide // axis.kernel", "wide // axis.stride"),
    Fault("_send.py", "axis.kernel) * axis.dilation == place", "axis.kernel) == place"),
    Fault("_send.py", "axis.stride == axis.span == axis.kernel", "axis.stride == axis.span"),
    Fault("_counts.py", "product = product * runs[0][1]", "product = runs[0][1]"),
    Fault("_counts.py", "np.array(each, np.int32)", "np.array(each[::-1], np.int32)"),
    Fault("_counts.py", "jnp.full(shape, value,", "jnp.full(shape, value + 1,"),
    Fault("_one_loop.py", "in_any_order or combine", "lambda a, b: b"),
    Fault("_one_loop.py", "parts[half:])", "parts[: half + 1])"),
    Fault("_pick.py", "number < other", "number > other"),
    Fault("_pick.py", "~beats(a[0], b[0])", "beats(b[0], a[0])"),
    Fault("_pick.py", 'f"uint{8', 'f"int{8'),
    Fault("_pick.py", "moved = taps + ", "moved = taps * "),
    Fault("ops/_runs.py", 'side="right")\n        last', 'side="left")\n        last'),
    Fault("ops/_runs.py", "last_code(runs) < 255", "last_code(runs) <= 255"),
    Fault("ops/_runs.py", "jnp.where(valid, codes, nowhere(codes))", "codes"),
    Fault("ops/_runs.py", "np.minimum(tap, np.array(runs.lengths) - 1) << shift", "tap << shift"),
    Fault("ops/_runs.py", "jnp.where(codes == nowhere(codes), -1, _place", "jnp.add(0, _place"),
    Fault("ops/_runs.py", "np.where(nth < counts, own_taps, nowhere(codes))", "own_taps"),
    Fault("ops/_runs.py", "(codes != nowhere(codes)) & ", ""),
    Fault("ops/_terms.py", "_ratio(levels, -level)", "_ratio(levels, level)"),
    Fault("ops/_terms.py", "stretch(part, axis, position, value)", "stretch(part, axis, position)"),
    Fault("ops/_sums.py", "none = divisor == 0", "none = divisor == 1"),
    Fault("ops/average.py", "x.astype(accumulator(x.dtype))", "x"),
    Fault("ops/_flat.py", "start + k < axis.size", "start + k <= axis.size"),
    Fault("ops/_flat.py", "np.asarray(_ELSEWHERE, dtype)", "empty(dtype)"),
]


def survives(fault: Fault, folder: Path) -> bool:
    """Whether no test notices the fault; ``folder`` holds a copy of the package."""
    path = folder / "jaxpool" / fault.file
    sound = path.read_text()
    if fault.old not in sound:
        raise ValueError(f"{fault.file} no longer has {fault.old!r}; write another fault")
    path.write_text(sound.replace(fault.old, fault.new, 1))
    try:
        tests = [str(ROOT / test) for test in TESTS[fault.file]]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-x",
                "-q",
                "-p",
                "no:cacheprovider",
                *OPTIONS,
                *tests,
            ],
            env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=folder,  # Python looks here first
            capture_output=True,
            timeout=900,
        )
    finally:
        path.write_text(sound)
    return done.returncode == 0


def main(numbers: list[int]) -> int:
    """Try the faults of these numbers, or all of them; returns how many were missed."""
    alive, numbers = [], numbers or [*range(1, len(FAULTS) + 1)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "jaxpool", folder / "jaxpool")
        for number in numbers:
            fault = FAULTS[number - 1]
            lives = survives(fault, folder)
            alive += [fault] * lives
            print(f"{number}/{len(FAULTS)}", "MISSED" if lives else "found", fault, flush=True)
    print(f"{len(numbers) - len(alive)} of {len(numbers)} faults found")
    return len(alive)


if __name__ == "__main__":
    sys.exit(main([int(number) for number in sys.argv[1:]]))
