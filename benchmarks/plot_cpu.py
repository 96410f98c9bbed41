"""Draws the results of run.py: the time of each contestant over that of jaxpool.

    python benchmarks/plot_cpu.py results/cpu.json results/cpu.svg

There is one panel per task, one row per case, and one dot per contestant and layout. To the right
of the line, jaxpool is faster. Needs matplotlib.
"""

import json
import sys
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

TITLES = {"forward": "forward", "backward": "forward and backward", "argmax": "with indices"}
COLOURS = {
    "reduce_window": ("#7f7f7f", "lax.reduce_window (Flax)"),
    "torch": ("#d62728", "PyTorch"),
    "onnxruntime": ("#2ca02c", "ONNX Runtime"),
    "openvino": ("#9467bd", "OpenVINO"),
}
MARKERS = {"NHWC": "o", "NCHW": "s"}


def main(source: str, target: str) -> int:
    rows = [r for r in json.loads(Path(source).read_text())["rows"] if r["dtype"] == "float32"]
    tasks = [task for task in TITLES if any(row["task"] == task for row in rows)]
    cases = list(dict.fromkeys(row["case"] for row in rows))
    figure = Figure(figsize=(4 * len(tasks) + 2, 0.3 * len(cases) + 1.6), layout="constrained")
    panels = figure.subplots(1, len(tasks), sharey=True, squeeze=False)[0]
    for panel, task in zip(panels, tasks, strict=True):
        _draw(panel, [row for row in rows if row["task"] == task], cases)
        panel.set_title(TITLES[task])
        panel.set_xlabel("time divided by jaxpool's time", fontsize=9)
    panels[0].set_yticks(range(len(cases)), cases)
    panels[0].invert_yaxis()
    add_legend(figure, COLOURS, MARKERS)
    figure.savefig(target)
    return 0


def add_legend(
    figure: Figure, colours: dict[str, tuple[str, str]], markers: dict[str, str]
) -> None:
    """Add a legend of labelled colours and of markers below the panels."""
    key = [("o", colour, colour, label) for colour, label in colours.values()]
    key += [(marker, "black", "white", label) for label, marker in markers.items()]
    handles = [
        Line2D([], [], marker=marker, linestyle="", color=edge, mfc=face, label=label)
        for marker, edge, face, label in key
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8)


def _draw(panel, rows: list[dict], cases: list[str]) -> None:
    panel.axvline(1, color="black", lw=1)
    for row in rows:
        times = row["milliseconds"]
        for name, (colour, _) in COLOURS.items():
            if name in times:
                ratio = times[name] / times["jaxpool"]
                y = cases.index(row["case"]) + (0.18 if row["layout"] == "NCHW" else -0.18)
                panel.plot(ratio, y, MARKERS[row["layout"]], color=colour, ms=4.5, alpha=0.8)
    panel.set_xscale("log")
    panel.set_xticks([0.5, 1, 2, 5, 10, 20, 50, 100, 200], minor=False)
    panel.set_xticklabels(["½", "1", "2", "5", "10", "20", "50", "100", "200"])
    panel.minorticks_off()
    panel.grid(axis="both", alpha=0.25)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
