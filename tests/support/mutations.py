"""Seeds faults into the package and reports the faults that the tests do not detect.

``python tests/support/mutations.py [NUMBER..]`` puts each fault of ``faults.py`` into a copy of the
package and runs the tests of that file until the first failure. With ``--random COUNT`` the faults
are random ones of ``mutants.py``, from a seed that is printed, and the numbers select among them.
The script prints the faults that no test detects, and fails if there are any. It is not part of the
suite: it starts a process for each fault.
"""

import argparse
import compileall
import multiprocessing
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from faults import COUNTS, FAULTS, GRADIENTS, TESTS
from mutants import drawn_mutants

ROOT = Path(__file__).parents[2]
OPTIONS = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
THEMES = {
    "_geometry/": [
        "tests/geometry/test_geometry.py",
        "tests/ops/test_golden.py",
        "tests/ops/test_definition.py",
        "tests/house/test_api.py",
        "tests/ops/test_first_errors.py",
        "tests/ops/test_errors.py",
        "tests/sharding/test_export.py",
    ],
    "_geometry/symbolic.py": ["tests/sharding/test_export.py"],
    "_numerics/": [
        "tests/numerics",
        "tests/ops/test_golden.py",
        "tests/ops/test_definition.py",
        "tests/ops/test_errors.py",
        "tests/ops/test_ops_smooth.py",
        "tests/ops/test_ops_statistics.py",
        "tests/ops/test_ops_custom.py",
    ],
    "_lowerings/": [
        "tests/lowerings/test_lowerings.py",
        "tests/lowerings/test_plan.py",
        "tests/lowerings/test_order_statistics.py",
        "tests/ops/test_golden.py",
        "tests/numerics/test_dtypes.py",
        "tests/autodiff/test_derivatives.py",
        "tests/ops/test_ops_rank.py",
        "tests/ops/test_ops_custom.py",
        "tests/ops/test_ops_pytrees.py",
    ],
    "_lowerings/implementations/mosaic": [
        "tests/lowerings/test_mosaic.py",
        "tests/accelerators/test_kernels.py",
    ],
    "_lowerings/parts/borders.py": ["tests/filters", "tests/ops/test_ops_blur.py"],
    "_lowerings/parts/flat_gather.py": [
        "tests/ops/test_ops_unpool.py",
        "tests/ops/test_ops_global.py",
    ],
    "_lowerings/implementations/phase_pads.py": [
        "tests/lowerings/test_lowerings.py",
        "tests/accelerators/test_exports.py",
    ],
    "_lowerings/boxes.py": ["tests/ops/test_ops_regions.py"],
    "_lowerings/ragged": ["tests/ops/test_ops_adaptive.py", "tests/ops/test_ops_random.py"],
    "_lowerings/parts/window_": [*COUNTS, "tests/lowerings/test_lowerings.py"],
    "_autodiff/": [
        *GRADIENTS,
        "tests/autodiff/test_transforms.py",
        "tests/autodiff/test_orders.py",
    ],
    "_autodiff/boxes.py": ["tests/ops/test_ops_regions.py"],
    "_autodiff/flat_index.py": ["tests/ops/test_ops_unpool.py", "tests/autodiff"],
    "_autodiff/planes.py": [
        "tests/ops/test_ops_global.py",
        "tests/ops/test_ops_adaptive.py",
        "tests/ops/test_ops_statistics.py",
    ],
    "_autodiff/ragged.py": ["tests/ops/test_ops_adaptive.py"],
    "ops/": ["tests/ops/test_golden.py", "tests/ops", "tests/house/test_api.py"],
    "ops/unpool.py": ["tests/ops/test_ops_unpool.py", "tests/ops/test_errors.py"],
    "ops/_unpool": ["tests/ops/test_ops_unpool.py"],
    "compat/": ["tests/compat"],
    "filters/": ["tests/filters"],
    "layers/": ["tests/layers"],
}
"""The tests that should detect random faults, by the longest matching prefix of a file's name."""

MODULES = [
    "_geometry",
    "_numerics/indices.py",
    "_numerics/divisors.py",
    "_lowerings",
    "_autodiff",
    "ops/unpool.py",
    "ops/_unpool_offsets.py",
]
EXCLUDED = ["_lowerings/tuning.py"]
"""Files whose numbers only choose between implementations of the same result."""

MISSED = "MISSED"

PRELOADED = ["jax", "jax.numpy", "chex"]
"""Imported once, before the processes that try a fault are forked."""


class Laboratory:
    """A copy of the package, into which faults are seeded sequentially."""

    def __init__(self, folder: Path, selection: str) -> None:
        self.folder, self.selection = folder, selection
        self.checked: list[list[str]] = []
        shutil.copytree(
            ROOT / "jaxpool",
            folder / "jaxpool",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        compileall.compile_dir(folder / "jaxpool", quiet=1)
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(PRELOADED)

    def outcome(self, file: str, faulty: str) -> str:
        """Return the outcome of the tests of a file when its text is ``faulty``."""
        path, tests = self.folder / "jaxpool" / file, tests_of(file)
        self.check(file)
        path.write_text(faulty)
        try:
            return {0: MISSED, None: "too slow"}.get(self.run(tests), "found")
        finally:
            shutil.copy2(ROOT / "jaxpool" / file, path)

    def check(self, file: str) -> None:
        """Raise unless a file has tests, and pytest can collect them without a fault."""
        tests = tests_of(file)
        if tests not in self.checked:
            if not tests or self.run([*tests, "--collect-only"]) != 0:
                raise ValueError(f"{file}: no tests of it, or they fail without a fault: {tests}")
            self.checked.append(tests)

    def run(self, arguments: Sequence[str]) -> int | None:
        """Return pytest's exit code on the copy; None after half an hour."""
        process = self.context.Process(
            target=_run_pytest, args=(self.folder, self.selection, arguments)
        )
        process.start()
        process.join(1800)
        code = process.exitcode
        process.kill()
        process.join()
        return code


def _run_pytest(folder: Path, selection: str, arguments: Sequence[str]) -> None:
    """Run pytest on the copy of the package, silently, and exit with its status."""
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True  # the bytecode would have the fault
    os.environ |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    os.chdir(folder)
    sys.exit(
        pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", selection, *OPTIONS, *arguments])
    )


def tests_of(file: str) -> list[str]:
    """Return the tests of a file, followed by those of its theme."""
    themes = [theme for theme in THEMES if file.startswith(theme)]
    theme = THEMES[max(themes, key=len)] if themes else []
    return [str(ROOT / test) for test in dict.fromkeys([*TESTS.get(file, []), *theme])]


def seeded_faults(numbers: Sequence[int]) -> list[tuple[str, str, str]]:
    """Return the faults with these numbers, or all: name, file, and its text with the fault."""
    faults = []
    for number in numbers or range(1, len(FAULTS) + 1):
        fault = FAULTS[number - 1]
        sound = (ROOT / "jaxpool" / fault.file).read_text()
        if fault.old not in sound:
            raise ValueError(f"{fault.file} no longer has {fault.old!r}; write another fault")
        faults.append((f"{number}: {fault}", fault.file, sound.replace(fault.old, fault.new, 1)))
    return faults


def random_faults(
    count: int, seed: int, modules: Sequence[str], numbers: Sequence[int] = ()
) -> list[tuple[str, str, str]]:
    """Return ``count`` random faults in ``modules``, or the selected ones, as ``seeded_faults``."""
    package, faults = ROOT / "jaxpool", []
    paths = {
        path
        for module in modules
        for path in (
            [package / module] if module.endswith(".py") else (package / module).rglob("*.py")
        )
        if path.relative_to(package).as_posix() not in EXCLUDED
    }
    mutants = drawn_mutants([*paths], count, seed)
    for number in numbers or range(1, len(mutants) + 1):
        path, mutant = mutants[number - 1]
        file = path.relative_to(package).as_posix()
        name = f"{number}: {file}:{mutant.line}: {mutant.old} -> {mutant.new}"
        faults.append((name, file, mutant.applied(path.read_text())))
    return faults


def main(arguments: Sequence[str]) -> int:
    """Try faults; return the number of faults that were missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, help="numbers of the faults to try, from 1")
    parser.add_argument(
        "--random", type=int, metavar="COUNT", help="try this number of random faults instead"
    )
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument(
        "--modules", nargs="+", default=MODULES, help="folders and files for random faults"
    )
    parser.add_argument("--deep", action="store_true", help="also run the deep tests")
    options = parser.parse_args(arguments)
    if options.random:
        faults = random_faults(options.random, options.seed, options.modules, options.numbers)
        print(f"--random {options.random} --seed {options.seed}", flush=True)
    else:
        faults = seeded_faults(options.numbers)
    missed = []
    with tempfile.TemporaryDirectory() as name:
        laboratory = Laboratory(Path(name), "not site" if options.deep else "not deep and not site")
        for position, (name, file, text) in enumerate(faults, start=1):
            result = laboratory.outcome(file, text)
            missed += [name] * (result == MISSED)
            print(f"{position}/{len(faults)}", result, name, flush=True)
    print(f"{len(faults) - len(missed)} of {len(faults)} faults found", *missed, sep="\n")
    return len(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
