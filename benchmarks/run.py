"""Times jaxpool beside what ships with JAX, torch, ONNX Runtime and OpenVINO, in one run.

    python benchmarks/run.py [--cases NAME ...] [--tasks ...] [--rounds N] [--out results/cpu.json]

Contestants take turns in every round, after warming up, and their results are compared before
anything is timed. Read the ratios: absolute times are those of one machine at one moment.
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
        write(options.out, _report(rows))  # after every task, so a run cut short is not lost
    for line in _summary_lines(_summary(rows)):
        print(line)
    return 0


def _report(rows: list[dict]) -> dict:
    found = versions("torch", "onnxruntime", "openvino")
    return {"versions": found, "rows": rows, "summary": _summary(rows)}


def _options() -> argparse.Namespace:
    found = parser(__doc__, rounds=25)
    found.add_argument("--cases", nargs="*", help="names of jaxpool.testing.NAMED_CASES")
    found.add_argument("--tasks", nargs="*", default=TASKS, choices=TASKS)
    found.add_argument("--layouts", nargs="*", default=("NHWC", "NCHW"))
    found.add_argument("--dtypes", nargs="*", default=("float32",))
    return found.parse_args()


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
    """Raise unless every contestant computed what jaxpool computed."""
    import numpy as np

    want = np.asarray(results["jaxpool"], np.float64)
    # Sums of sixteenths are exact in float32. bfloat16 rounds results, and others also round each
    # gradient that they add to others, of whatever sign.
    narrow = job.dtype == "bfloat16"
    largest = np.abs(want).max() if narrow and job.task == "backward" else 1
    loose = 0.05 if narrow else 1e-5
    for name, got in results.items():
        got = np.asarray(got, np.float64)
        np.testing.assert_allclose(got, want, loose, loose * largest, err_msg=f"{name}: {job}")


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


if __name__ == "__main__":
    sys.exit(main())
