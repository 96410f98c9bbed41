"""Several processes on this machine, connected by ``jax.distributed``, against one process."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from fresh import PACKAGE_PARENT
from many_processes import TRAIN_WITH

pytestmark = pytest.mark.deep

SCRIPT = Path(__file__).parents[1] / "support" / "many_processes.py"
LIMIT = 240
"""Seconds for all processes together; a few are enough on an idle machine."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(folder: Path, count: int) -> list[dict[str, np.ndarray]]:
    """Return the results of ``count`` processes, all of which end before this call returns."""
    flags = "--xla_backend_optimization_level=0 --xla_cpu_multi_thread_eigen=false"
    environment = {
        **os.environ,
        "PYTHONPATH": str(PACKAGE_PARENT),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": flags,
    }
    command = [sys.executable, str(SCRIPT), str(folder), str(free_port()), str(count)]
    children = []
    end = time.monotonic() + LIMIT
    try:
        for index in range(count):
            with (folder / f"{count}-{index}.txt").open("w") as output:
                child = subprocess.Popen(
                    [*command, str(index)], env=environment, stdout=output, stderr=output
                )
            children.append(child)
        for index, child in enumerate(children):
            status = child.wait(timeout=max(end - time.monotonic(), 0))
            assert status == 0, (folder / f"{count}-{index}.txt").read_text()
    finally:
        for child in children:
            child.kill()
            child.wait()
    return [load(folder / f"{count}-{index}.npz") for index in range(count)]


def load(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    (found,) = run(tmp_path_factory.mktemp("alone"), 1)
    return found


@pytest.mark.parametrize("count", [2, 4])
def test_many_processes_find_what_one_finds(
    count: int, alone: dict[str, np.ndarray], tmp_path: Path
) -> None:
    first, *others = run(tmp_path, count)
    for other in others:
        for name, array in first.items():
            np.testing.assert_array_equal(other[name], array, err_msg=name)
    assert set(first) <= set(alone)
    pooled = [name for name in first if "batch" in name or "space" in name]
    assert len(pooled) == 10
    for name in pooled:
        rounding = 2e-6 if "avg" in name else 0  # relative to the largest term, since terms cancel
        within = {"rtol": rounding, "atol": rounding * np.abs(alone[name]).max()}
        np.testing.assert_allclose(first[name], alone[name], err_msg=name, **within)
    trained = [name for name in first if name not in pooled]
    assert bool(trained) == (count in TRAIN_WITH)
    for name in trained:
        np.testing.assert_allclose(first[name], alone[name], rtol=1e-4, atol=1e-5, err_msg=name)
    for way in ("argmax", "avg"):
        np.testing.assert_array_equal(first[f"{way}, batch 0"].shape, (4, 4, 5, 3))
        np.testing.assert_allclose(first[f"{way}, batch 0"], first[f"{way}, space 0"], rtol=2e-6)


def test_training_learns(alone: dict[str, np.ndarray]) -> None:
    """Otherwise a comparison of constant losses would pass."""
    losses = alone["losses"]
    assert len(set(losses.tolist())) == len(losses) and np.isfinite(losses).all()
