"""Writes the tables of ``results/models.json``: a short one in README.md, the full one in docs.

    python benchmarks/models.py --out benchmarks/results/models.json
    python benchmarks/models_table.py

The second command writes both tables between the marks on README.md and docs/performance/cpu.md.
A ratio is the library's figure over jaxpool's, so above 1 jaxpool takes less.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "models.json"
BEGIN, END = "<!-- benchmarks/models_table.py -->", "<!-- end -->"

Row = dict[str, Any]

LARGE = 1e-5
"""Above this, the page also shows the difference that changing the images by one ulp makes."""

LIBRARIES = {"flax": "Flax", "haiku": "Haiku", "equinox": "Equinox"}
SHORT = {
    "haiku.nets.ResNet50": "ResNet-50 (Haiku)",
    "ResNet-50 of Flax's ImageNet example": "ResNet-50 (Flax)",
    "SqueezeNet 1.1": "SqueezeNet",
    "PoolFormer-S12": "PoolFormer",
}
FIGURES = {
    "step": "step_milliseconds",
    "compile": "compile_seconds",
    "temporaries": "temporary_bytes",
}


def ratio(row: Row, figure: str) -> float:
    """Return the library's figure over jaxpool's."""
    return row[FIGURES[figure]]["library"] / row[FIGURES[figure]]["jaxpool"]


def full(rows: list[Row]) -> str:
    """Return a table with a line for each network."""
    lines = [
        f"| network | library | {' | '.join(FIGURES)} | outputs differ by | gradients differ by |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ratios = (f"{ratio(row, figure):.2f}" for figure in FIGURES)
        differences = (_difference(row, name) for name in ("outputs", "gradients"))
        cells = row["network"], LIBRARIES[row["library"]], *ratios, *differences
        lines.append(_line(*cells))
    return "\n".join([*lines, ""])


def short(rows: list[Row]) -> str:
    """Return a sentence, and a table with a column for each network."""
    names = [SHORT.get(row["network"], row["network"]) for row in rows]
    lines = [
        "Training steps of whole networks: time, compile time and temporaries as they are, over",
        "those after `jaxpool.patch()`. Above 1, jaxpool takes less.",
        "",
        _line("", *names),
        "|" + "---|" * (len(rows) + 1),
    ]
    for figure in FIGURES:
        lines.append(_line(figure, *(f"{ratio(row, figure):.2f}" for row in rows)))
    return "\n".join([*lines, ""])


def _difference(row: Row, name: str) -> str:
    """Return the difference as text; if it is large, followed by that of a change by one ulp."""
    difference, floor = (
        row[key][name] for key in ("largest_difference", "difference_by_last_place")
    )
    return f"{difference:.0e} ({floor:.0e})" if difference > LARGE else f"{difference:.0e}"


PAGES: dict[str, Callable[[list[Row]], str]] = {
    "docs/performance/cpu.md": full,
    "README.md": short,
}


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def filled(page: str, text: str) -> str:
    """Return a page with the text, which consists of full lines, between the marks."""
    if (page.count(BEGIN), page.count(END)) != (1, 1):
        raise ValueError(f"{BEGIN} and {END} must be on the page once each")
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{text}{END}{rest.partition(END)[2]}"


def main() -> int:
    rows = json.loads(RESULTS.read_text())["rows"]
    for name, table in PAGES.items():
        path = ROOT / name
        path.write_text(filled(path.read_text(), table(rows)))
        print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
