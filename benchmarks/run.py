"""Times jaxpool, lax.reduce_window, PyTorch, ONNX Runtime and OpenVINO in one run.

    python benchmarks/run.py [--cases NAME ...] [--tasks ...] [--rounds N] [--out results/cpu.json]

Contestants alternate in every round, after warming up, and their results are compared before the
timing. Read the ratios: absolute times are those of one machine at one moment.
"""

import argparse
import statistics
import sys

from measuring import interleaved, keep_memory, milliseconds, parser, versions, write

TASKS = ("forward", "backward", "argmax")
REFERENCE = "x + 1"


def main() -> int:
    options = _options()
    keep_memory()
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
        write(options.out, _report(rows))  # after every task: an aborted run keeps its rows
    for line in _summary_lines(_summary(rows)):
        print(line)
    return 0


def _report(rows: list[dict]) -> dict:
    found = versions("torch", "onnxruntime", "openvino")
    return {"versions": found, "rows": rows, "summary": _summary(rows)}


def _options() -> argparse.Namespace:
    options = parser(__doc__, rounds=25)
    options.add_argument("--cases", nargs="*", help="names of jaxpool.testing.NAMED_CASES")
    options.add_argument("--tasks", nargs="*", default=TASKS, choices=TASKS)
    options.add_argument("--layouts", nargs="*", default=("NHWC", "NCHW"))
    options.add_argument("--dtypes", nargs="*", default=("float32",))
    return options.parse_args()


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
        "milliseconds": milliseconds(times),
        "best": {name: min(t) * 1e3 for name, t in times.items()},
    }


def _compare(job, results: dict) -> None:
    """Raise unless all results equal that of jaxpool, up to rounding."""
    import numpy as np

    expected = np.asarray(results["jaxpool"], np.float64)
    # Sums of multiples of 1/16 are exact in float32. In bfloat16 results are rounded, and other
    # libraries also round every partial sum of a gradient, whose terms may cancel.
    is_bfloat16 = job.dtype == "bfloat16"
    largest = np.abs(expected).max() if is_bfloat16 and job.task == "backward" else 1
    tolerance = 0.05 if is_bfloat16 else 1e-5
    for name, actual in results.items():
        actual = np.asarray(actual, np.float64)
        np.testing.assert_allclose(
            actual, expected, tolerance, tolerance * largest, err_msg=f"{name}: {job}"
        )


def _line(row: dict) -> str:
    times = row["milliseconds"]
    ours = times["jaxpool"]
    cells = [f"{name} {t:.2f} ({t / ours:.2f})" for name, t in times.items() if name != "jaxpool"]
    head = f"{row['case']:22} {row['layout']} {row['dtype']:8} jaxpool {ours:8.2f}"
    return f"{head}  " + "  ".join(cells)


def _summary(rows: list[dict]) -> list[dict]:
    """Return the mean and maximum of jaxpool's time over each other's, per task and dtype.

    The mean is the geometric mean.
    """
    entries = []
    for task, dtype in sorted({(row["task"], row["dtype"]) for row in rows}):
        selected = [row for row in rows if (row["task"], row["dtype"]) == (task, dtype)]
        ratios: dict[str, list[float]] = {}
        for row in selected:
            times = row["milliseconds"]
            for name, t in times.items():
                if name != "jaxpool":
                    ratios.setdefault(name, []).append(times["jaxpool"] / t)
        best = _best_peer_ratios(selected)
        if best:
            ratios["best peer of each case"] = best
        for name, values in ratios.items():
            entries.append(
                {
                    "task": task,
                    "dtype": dtype,
                    "against": name,
                    "cases": len(values),
                    "geometric_mean": statistics.geometric_mean(values),
                    "worst": max(values),
                }
            )
    return entries


def _best_peer_ratios(rows: list[dict]) -> list[float]:
    """Return jaxpool's time over that of the fastest other runtime in any layout, for each row."""
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


if __name__ == "__main__":
    sys.exit(main())
