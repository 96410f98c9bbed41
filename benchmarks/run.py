"""Times jaxpool beside what ships with JAX, torch, ONNX Runtime and OpenVINO, in one run.

    python benchmarks/run.py [--cases NAME ...] [--tasks ...] [--rounds N] [--out results/cpu.json]

Contestants take turns in every round, after warming up, and their results are compared before
anything is timed. Read the ratios: absolute times are those of one machine at one moment.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path

# Fresh memory for large arrays is mapped and unmapped on every call, which can cost more than the
# pooling itself and differs from contestant to contestant; keep the memory for all of them alike.
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "4294967296",
    "MALLOC_TOP_PAD_": "268435456",
    "OMP_NUM_THREADS": "2",
}
SECONDS_PER_CONTESTANT = 2.0
TASKS = ("forward", "backward", "argmax")
REFERENCE = "x + 1"


def main() -> int:
    options = _options()
    if any(os.environ.get(key) != value for key, value in ALLOCATOR.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ALLOCATOR})
    from contestants import Job

    from jaxpool.testing import NAMED_CASES

    rows = []
    for task in options.tasks:
        print(f"\n{task}: milliseconds, and in brackets the ratio to jaxpool")
        for case in NAMED_CASES:
            if options.cases and case.name not in options.cases:
                continue
            if task == "argmax" and case.op != "max_pool":
                continue
            for layout in options.layouts:
                for dtype in options.dtypes:
                    if dtype == "int8" and (task != "forward" or case.op != "max_pool"):
                        continue
                    job = Job(case, layout, dtype, task)
                    rows.append(_measure(job, options.rounds))
                    print(_line(rows[-1]), flush=True)
        if options.out:  # after every task, so that a run cut short is not lost
            _write(Path(options.out), rows)
    for line in _summary_lines(_summary(rows)):
        print(line)
    return 0


def _write(path: Path, rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    report = {"versions": versions(), "rows": rows, "summary": _summary(rows)}
    path.write_text(json.dumps(report, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", help="names of jaxpool.testing.NAMED_CASES")
    parser.add_argument("--tasks", nargs="*", default=TASKS, choices=TASKS)
    parser.add_argument("--layouts", nargs="*", default=("NHWC", "NCHW"))
    parser.add_argument("--dtypes", nargs="*", default=("float32",))
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--out", help="JSON file for the results")
    return parser.parse_args()


def _measure(job, rounds: int) -> dict:
    from contestants import contestants

    entrants = contestants(job)
    _compare(job, {name: result() for name, (_, result) in entrants.items() if name != REFERENCE})
    times = interleaved({name: once for name, (once, _) in entrants.items()}, rounds)
    return {
        "case": job.case.name,
        "task": job.task,
        "layout": job.layout,
        "dtype": job.dtype,
        "milliseconds": {name: statistics.median(t) * 1e3 for name, t in times.items()},
        "best": {name: min(t) * 1e3 for name, t in times.items()},
    }


def interleaved(calls: dict, rounds: int) -> dict[str, list[float]]:
    """Seconds of each call, the calls taking turns; slow ones have fewer turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            spent = sum(times[name])
            few = len(times[name]) < 3 and spent < 5 * SECONDS_PER_CONTESTANT
            if spent < SECONDS_PER_CONTESTANT or few:
                times[name].append(_seconds(calls[name]))
    return times


def _seconds(once) -> float:
    """Time of a call that follows one of its own, after a pause.

    Some runtimes' threads spin for a while when they have nothing to do, at the cost of the next
    contestant, which also finds the caches full of other arrays.
    """
    time.sleep(0.01)
    once()
    start = time.perf_counter()
    once()
    return time.perf_counter() - start


def _compare(job, results: dict) -> None:
    """Raise unless every contestant computed what jaxpool computed."""
    import numpy as np

    want = np.asarray(results["jaxpool"], np.float64)
    # Sums of sixteenths are exact in float32; bfloat16 rounds results, and gradients as they add.
    loose = 0.05 if job.dtype == "bfloat16" else 1e-5
    for name, got in results.items():
        np.testing.assert_allclose(
            np.asarray(got, np.float64), want, rtol=loose, atol=loose, err_msg=f"{name}: {job}"
        )


def _line(row: dict) -> str:
    times = row["milliseconds"]
    own = times["jaxpool"]
    cells = [f"{name} {t:.2f} ({t / own:.2f})" for name, t in times.items() if name != "jaxpool"]
    head = f"{row['case']:22} {row['layout']} {row['dtype']:8} jaxpool {own:8.2f}"
    return f"{head}  " + "  ".join(cells)


def _summary(rows: list[dict]) -> list[dict]:
    """Per task and dtype: geometric mean and worst ratio of jaxpool's time to each other's."""
    found = []
    for task, dtype in sorted({(row["task"], row["dtype"]) for row in rows}):
        chosen = [row for row in rows if (row["task"], row["dtype"]) == (task, dtype)]
        ratios: dict[str, list[float]] = {}
        for row in chosen:
            times = row["milliseconds"]
            for name, t in times.items():
                if name != "jaxpool":
                    ratios.setdefault(name, []).append(times["jaxpool"] / t)
        best = _best_peer_ratios(chosen)
        if best:
            ratios["best peer of each case"] = best
        for name, values in ratios.items():
            found.append(
                {
                    "task": task,
                    "dtype": dtype,
                    "against": name,
                    "cases": len(values),
                    "geometric_mean": statistics.geometric_mean(values),
                    "worst": max(values),
                }
            )
    return found


def _best_peer_ratios(rows: list[dict]) -> list[float]:
    """jaxpool's time over that of the fastest other runtime in either layout."""
    peers = ("torch", "onnxruntime", "openvino")
    ratios = []
    for row in rows:
        same = [r for r in rows if r["case"] == row["case"]]
        times = [r["milliseconds"][p] for r in same for p in peers if p in r["milliseconds"]]
        if times:
            ratios.append(row["milliseconds"]["jaxpool"] / min(times))
    return ratios


def _summary_lines(summary: list[dict]) -> list[str]:
    lines = ["", "jaxpool's time / the other's time: below 1 jaxpool is faster"]
    for entry in summary:
        lines.append(
            f"  {entry['task']:9} {entry['dtype']:9} {entry['against']:24} "
            f"geometric mean {entry['geometric_mean']:6.3f}  worst {entry['worst']:6.2f}  "
            f"({entry['cases']} cases)"
        )
    return lines


def versions(*others: str) -> dict[str, str]:
    others = others or ("torch", "onnxruntime", "openvino")
    names = ("jaxpool", "jax", "jaxlib", "numpy", *others)
    found = {"python": platform.python_version(), "machine": platform.machine()}
    found["cores"] = str(os.cpu_count())
    for name in names:
        try:
            found[name] = version(name)
        except ModuleNotFoundError:
            pass
    return found


if __name__ == "__main__":
    sys.exit(main())
