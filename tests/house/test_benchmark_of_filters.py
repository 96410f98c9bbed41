"""The benchmark of filters runs on small arrays, covers every filter, and compares results."""

import json
import sys
from typing import Any

import numpy as np
import pytest
from fresh import ROOT
from peers import require

import jaxpool.filters

sys.path.insert(0, str(ROOT / "benchmarks"))
require("scipy")
require("pandas")

import filters  # noqa: E402

pytestmark = pytest.mark.grid(8)

CASES = {case.name: case for case in filters.cases(side=24, samples=1100)}


def test_every_filter_is_measured() -> None:
    measured = {name.partition(",")[0] for name in CASES}
    assert set(jaxpool.filters.__all__) <= measured


@pytest.mark.grid(24)
@pytest.mark.parametrize("name", CASES)
def test_a_row_has_every_figure(name: str) -> None:
    row = filters.measure(CASES[name], rounds=1)
    assert set(row["milliseconds"]) == {"jaxpool", CASES[name].peer}
    assert all(value > 0 for value in row["milliseconds"].values())
    assert row["temporaries_per_input"] >= 0
    assert json.loads(json.dumps(row)) == row
    assert filters.line(row).startswith(name)


@pytest.mark.parametrize("peer", ["scipy", "pandas"])
def test_a_wrong_result_is_noticed(peer: str) -> None:
    case = next(case for case in CASES.values() if case.peer == peer)

    def wrong(x: Any) -> Any:
        return case.ours(x) * np.float32(1.01)

    with pytest.raises(AssertionError, match=case.name.split(",")[0]):
        filters.measure(case._replace(ours=wrong), rounds=1)
