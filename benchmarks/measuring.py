"""Functions that the benchmarks share: options, allocator settings, timing and reports."""

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

DATA_FORMATS = {"NHWC": "channels_last", "NCHW": "channels_first"}
THREADS = 2
"""Threads of every contestant."""

# By default, large arrays are mapped and unmapped on every call. This can cost more than pooling,
# and the cost differs between contestants. With these settings, all of them keep their memory.
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    "MALLOC_TOP_PAD_": "268435456",
    "OMP_NUM_THREADS": str(THREADS),
}
SECONDS_PER_CONTESTANT = 2.0
SECONDS_OF_WARMUP = 0.03

Call = Callable[[], Any]


def parser(doc: str, rounds: int | None = None) -> argparse.ArgumentParser:
    """Return a parser with ``--out``, and with ``--rounds`` if calls alternate in rounds."""
    arguments = argparse.ArgumentParser(description=doc.splitlines()[0])
    arguments.add_argument("--out", help="JSON file for the results")
    if rounds is not None:
        arguments.add_argument("--rounds", type=int, default=rounds)
    return arguments


def keep_memory() -> None:
    """Restart this program with ``ALLOCATOR`` in its environment, unless it is already set."""
    if any(os.environ.get(key) != value for key, value in ALLOCATOR.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ALLOCATOR})


def interleaved(
    calls: dict[str, Call], rounds: int, max_seconds: float = SECONDS_PER_CONTESTANT
) -> dict[str, list[float]]:
    """Return the seconds of each call; the calls alternate.

    A call is done once its times add up to ``max_seconds``, except that a call is timed up to three
    times within five times that limit.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for round_number in range(rounds):
        for name in names[round_number % len(names) :] + names[: round_number % len(names)]:
            spent = sum(times[name])
            needs_more = len(times[name]) < 3 and spent < 5 * max_seconds
            if spent < max_seconds or needs_more:
                times[name].append(_seconds(calls[name]))
    return times


def _seconds(call: Call) -> float:
    """Return the time of one call that follows a pause and untimed calls of the same function.

    The threads of some runtimes spin for a while when they are idle, which slows the next
    contestant: hence the pause. After it the caches hold other arrays and the contestant's threads
    sleep: for some calls the system wakes them on one core and only then spreads them over all
    cores. Hence the untimed calls.
    """
    time.sleep(0.01)
    begin = time.perf_counter()
    call()
    while time.perf_counter() < begin + SECONDS_OF_WARMUP:
        call()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def milliseconds(times: dict[str, list[float]]) -> dict[str, float]:
    """Return the median time of each call."""
    return {name: 1e3 * statistics.median(seconds) for name, seconds in times.items()}


def versions(*peers: str) -> dict[str, str]:
    """Return the versions of Python, jaxpool, its dependencies and the peers that are installed."""
    versions_by_name = {"python": platform.python_version(), "machine": platform.machine()}
    versions_by_name["cores"] = str(os.cpu_count())
    for name in ("jaxpool", "jax", "jaxlib", "numpy", *peers):
        try:
            versions_by_name[name] = version(name)
        except ModuleNotFoundError:
            pass
    return versions_by_name


def write(path: str | None, report: Any) -> None:
    """Write a report as JSON, if the user asked for a file."""
    if path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(report, indent=1) + "\n")
