"""What the benchmarks share: options, memory kept between calls, turns, versions and reports."""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Fresh memory for large arrays is mapped and unmapped on every call, which can cost more than the
# pooling itself and differs from contestant to contestant; keep the memory for all of them alike.
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    "MALLOC_TOP_PAD_": "268435456",
    "OMP_NUM_THREADS": "2",
}
SECONDS_PER_CONTESTANT = 2.0
SECONDS_OF_WARMUP = 0.03

Call = Callable[[], Any]


def parser(doc: str, rounds: int | None = None) -> argparse.ArgumentParser:
    """The options of a benchmark: ``--out``, and ``--rounds`` for one whose calls take turns."""
    found = argparse.ArgumentParser(description=doc.splitlines()[0])
    found.add_argument("--out", help="JSON file for the results")
    if rounds is not None:
        found.add_argument("--rounds", type=int, default=rounds)
    return found


def keep_memory() -> None:
    """Start this program anew with ``ALLOCATOR`` in its environment, unless it is there."""
    if any(os.environ.get(key) != value for key, value in ALLOCATOR.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ALLOCATOR})


def interleaved(
    calls: dict[str, Call], rounds: int, most: float = SECONDS_PER_CONTESTANT
) -> dict[str, list[float]]:
    """Seconds of each call, the calls taking turns; one that took ``most`` in all is done."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            spent = sum(times[name])
            few = len(times[name]) < 3 and spent < 5 * most
            if spent < most or few:
                times[name].append(_seconds(calls[name]))
    return times


def _seconds(once: Call) -> float:
    """Time of a call that follows calls of its own, after a pause.

    Some runtimes' threads spin for a while when they have nothing to do, at the cost of the next
    contestant. That one finds the caches full of other arrays, and its own threads asleep: for some
    calls the system wakes them on one core, and only then spreads them over all.
    """
    time.sleep(0.01)
    begin = time.perf_counter()
    once()
    while time.perf_counter() < begin + SECONDS_OF_WARMUP:
        once()
    start = time.perf_counter()
    once()
    return time.perf_counter() - start


def milliseconds(times: dict[str, list[float]]) -> dict[str, float]:
    """The median of each."""
    return {name: 1e3 * statistics.median(seconds) for name, seconds in times.items()}


def versions(*peers: str) -> dict[str, str]:
    """Versions of Python, of what jaxpool runs on and of the peers that are installed."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    found["cores"] = str(os.cpu_count())
    for name in ("jaxpool", "jax", "jaxlib", "numpy", *peers):
        try:
            found[name] = version(name)
        except ModuleNotFoundError:
            pass
    return found


def write(path: str | None, report: Any) -> None:
    """Write a report as JSON, if the user asked for a file."""
    if path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(report, indent=1) + "\n")
