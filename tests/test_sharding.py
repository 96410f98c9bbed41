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


INDICES = ("argmax", "argmax in uint16", "argmax as taps")
OPS = ("max", "min", *INDICES, "avg", "avg of real cells", "sum")
WINDOWS = ("3x3 stride 2", "dilated", "3x3", "3x2 uneven pads", "2x2 side by side", "gaps")
CHECKS = {
    # two exchanges forward, four backward
    *(f"halo, {op}, {w}" for op in OPS for w in (WINDOWS if op in ("max", "avg") else WINDOWS[:2])),
    # no communication
    *(
        f"{axes}, {op}, {kind}"
        for axes in ("batch", "channels")
        for op in ("max", "avg", "argmax")
        for kind in ("overlapping", "side by side")
    ),
    # the compiler gathers nothing
    *(f"space, {op}" for op in ("max", "avg")),
    # masks are exchanged too
    *(f"mask, {op}" for op in ("avg", "avg of real cells", "argmax")),
    # windows that do not fall evenly are errors
    "uneven",
    # so are indices of which a shard knows too little
    "refused",
    # shardings that are part of types
    *(
        f"explicit axes, {op}"
        for op in (
            "max",
            "argmax",
            "long",
            "masked",
            "global",
            "adaptive",
            "unpool",
            "windows",
            "batch",
        )
    ),
    # inside shard_map, beside constants and arrays that are not spread
    *(
        f"manual axes, {op}"
        for op in (
            "adaptive max",
            "adaptive max, masked",
            "adaptive avg",
            "max, masked",
            "unpool",
            "rank",
        )
    ),
}


def test_arrays_spread_over_eight_devices(monkeypatch: pytest.MonkeyPatch):
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
    monkeypatch.setenv(
        "XLA_FLAGS", f"{flags} --xla_backend_optimization_level=0"
    )  # compiles faster
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    lines = printed(str(FOLDER / "eight_devices.py")).splitlines()
    found: dict[str, str | None] = dict(json.loads(line) for line in lines)
    assert set(found) == CHECKS
    assert not {check: fault for check, fault in found.items() if fault is not None}


def test_only_known_ops_are_pooled_in_shards():
    with pytest.raises(TypeError, match="`op` = .* is not an op that can be pooled in shards"):
        pool_shards(jaxpool.lp_pool, None, (2,), 2, axis_names="x")  # type: ignore[arg-type]
