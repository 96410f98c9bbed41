"""The notebooks run from the first cell to the last, and print their stored outputs."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from fresh import ROOT, printed

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MAX_BYTES = 200_000

# Reads the cells as JSON, runs them in one namespace, writes what each printed as JSON.
RUN_CELLS = """
import contextlib, io, json, sys
import matplotlib
matplotlib.use("Agg")
namespace, outputs = {"__name__": "__main__"}, []
for number, cell in enumerate(json.load(sys.stdin), start=1):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(cell, f"<cell {number}>", "exec"), namespace)
    outputs.append(output.getvalue())
json.dump(outputs, sys.stdout)
"""


def code_cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def run(sources: list[str]) -> list[str]:
    return json.loads(printed("-c", RUN_CELLS, stdin=json.dumps(sources)))


def stored_text(cell: dict[str, Any]) -> str:
    """Return the output of a cell when it was saved."""
    return "".join("".join(output.get("text", ())) for output in cell["outputs"])


def test_the_notebooks_are_numbered() -> None:
    numbers = sorted(int(path.name.partition("_")[0]) for path in NOTEBOOKS)
    assert len(numbers) >= 4 and numbers == list(range(1, len(numbers) + 1))


@pytest.mark.deep
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_it_says(path: Path) -> None:
    cells = code_cells(path)
    outputs = run(["".join(cell["source"]) for cell in cells])
    assert outputs == [stored_text(cell) for cell in cells]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_saved_whole_and_small(path: Path) -> None:
    cells = code_cells(path)
    assert path.stat().st_size <= MAX_BYTES
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"stream", "display_data"}
    pictures = [output["data"]["image/png"] for output in outputs if "data" in output]
    assert pictures and all(base64.b64decode(p).startswith(b"\x89PNG") for p in pictures)


def test_the_runner_notices_a_failing_cell_and_another_output() -> None:
    assert run(["x = 1", "print(x + 1)"]) == ["", "2\n"]
    with pytest.raises(RuntimeError, match=r'"<cell 2>", line 1(.|\n)*ZeroDivisionError'):
        run(["x = 0", "print(1 / x)"])
