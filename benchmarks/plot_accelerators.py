"""Draws the results of accelerators.py: the traffic of each program, over the least possible.

    python benchmarks/plot_accelerators.py results/accelerators.json results/accelerators.svg

There is one row of panels per chip, one column per task, and one line per case in channels last.
The figures are estimates by the compilers, not timings. The least traffic is one read of the
arguments and one write of the results, and for a gradient also one read of the array, to find the
argmax. On a TPU arrays are padded to tiles, so the least may be out of reach. Needs matplotlib.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

import accelerators
import compilers
import numpy as np
from matplotlib.figure import Figure
from plot_cpu import add_legend

TITLES = {
    "values": "values",
    "argmax": "values and argmax",
    "gradient": "gradient",
    "step": "values and gradient",
}
COLOURS = {
    "lax": ("#7f7f7f", "lax.reduce_window and its gradient"),
    "jaxpool": ("#1f77b4", "jaxpool"),
    "mosaic": ("#2ca02c", 'jaxpool, implementation="mosaic"'),
}
MARKERS = {"float32": "o", "bfloat16": "s"}
HEADING = (
    "Megabytes through main memory by the figures of the compilers, not timings; 1 is the least"
)


def min_megabytes(row: dict[str, Any]) -> float:
    """Return the megabytes that a program must move: arguments, results, and x for a gradient."""
    case = accelerators.CASES[row["case"]]
    shape, window, *_ = case
    size = 2 if row["dtype"] == "bfloat16" else 4
    windows = math.prod(accelerators.out_shape(case))
    array_bytes = {"x": math.prod(shape) * size, "y": windows * size}
    array_bytes["offsets"] = windows * (1 if math.prod(window) <= 255 else 4)
    arrays = {
        "values": "x y",
        "argmax": "x y offsets",
        "gradient": "x y x",
        "step": "x y y x",
    }
    return sum(array_bytes[name] for name in arrays[row["task"]].split()) / 1e6


def main(source: str, target: str) -> int:
    all_rows = json.loads(Path(source).read_text())["rows"]
    maxima = accelerators.MAXIMA
    rows = [row for row in all_rows if row["layout"] == "NHWC" and row["case"] in maxima]
    cases = [case for case in maxima if any(row["case"] == case for row in rows)]
    chips = list(compilers.CHIPS)
    size = 3 * len(TITLES) + 2, len(chips) * (0.26 * len(cases) + 0.7) + 1.2
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(chips), len(TITLES), sharex=True, sharey=True, squeeze=False)
    for (line, column), panel in np.ndenumerate(panels):
        chip, task = chips[line], list(TITLES)[column]
        _draw(panel, [row for row in rows if (row["chip"], row["task"]) == (chip, task)], cases)
        panel.set_title(f"{chip}: {TITLES[task]}", fontsize=10)
    panels[0][0].invert_yaxis()
    figure.suptitle(HEADING, fontsize=11)
    add_legend(figure, COLOURS, MARKERS)
    figure.savefig(target)
    return 0


def _draw(panel: Any, rows: list[dict[str, Any]], cases: list[str]) -> None:
    panel.axvline(1, color="black", lw=1)
    for row in rows:
        for name, figures in row["figures"].items():
            shift = 0.18 if row["dtype"] == "bfloat16" else -0.18
            panel.plot(
                figures["megabytes"] / min_megabytes(row),
                cases.index(row["case"]) + shift,
                MARKERS[row["dtype"]],
                color=COLOURS[name][0],
                ms=7 if name == "lax" else 4.5,
                alpha=0.8,
            )
    panel.set_yticks(range(len(cases)), cases, fontsize=8)
    panel.set_xscale("log")
    panel.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"], minor=False, fontsize=8)
    panel.minorticks_off()
    panel.grid(axis="both", alpha=0.25)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
