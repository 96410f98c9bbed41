"""Arrays spread over devices: the checks of eight_devices.py, run in a process of its own.

The number of devices of a process is fixed when JAX starts, and this one has a single one.
"""

import json
import os
from pathlib import Path

import pytest
from fresh import printed

import jaxpool
from jaxpool.sharding import pool_shards

FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def outcome() -> dict[str, str | None]:
    """What was wrong with each check, or None."""
    flags = os.environ.get("XLA_FLAGS", "")
    with pytest.MonkeyPatch.context() as patch:
        flags += " --xla_force_host_platform_device_count=8"
        patch.setenv("XLA_FLAGS", f"{flags} --xla_backend_optimization_level=0")  # compiles faster
        patch.setenv("JAX_PLATFORMS", "cpu")
        lines = printed(str(FOLDER / "eight_devices.py")).splitlines()
    return dict(json.loads(line) for line in lines)


OPS = ("max", "min", "argmax", "avg", "avg of real cells", "sum")


WINDOWS = ("3x3 stride 2", "dilated", "3x3", "3x2 uneven pads", "2x2 side by side", "gaps")


@pytest.mark.parametrize(
    ("op", "window"),
    [(op, w) for op in OPS for w in (WINDOWS if op in ("max", "avg") else WINDOWS[:2])],
)
def test_two_exchanges_forward_and_four_backward(outcome, op: str, window: str):
    assert outcome[f"halo, {op}, {window}"] is None, outcome[f"halo, {op}, {window}"]


@pytest.mark.parametrize("op", ["max", "avg", "argmax"])
@pytest.mark.parametrize("axes", ["batch", "channels"])
def test_batch_and_channels_need_no_communication(outcome, op: str, axes: str):
    assert outcome[f"{axes}, {op}"] is None, outcome[f"{axes}, {op}"]


@pytest.mark.parametrize("op", ["max", "avg"])
def test_the_compiler_gathers_nothing_along_space(outcome, op: str):
    assert outcome[f"space, {op}"] is None, outcome[f"space, {op}"]


@pytest.mark.parametrize("op", ["avg", "avg of real cells", "argmax"])
def test_masks_are_exchanged_too(outcome, op: str):
    assert outcome[f"mask, {op}"] is None, outcome[f"mask, {op}"]


def test_windows_that_do_not_fall_evenly_are_errors(outcome):
    assert outcome["uneven"] is None, outcome["uneven"]


def test_only_known_ops_are_pooled_in_shards():
    with pytest.raises(TypeError, match="`op` = .* is not an op that can be pooled in shards"):
        pool_shards(jaxpool.lp_pool, None, (2,), 2, axis_names="x")  # type: ignore[arg-type]
