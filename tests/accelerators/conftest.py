"""The production compilers of TPU and GPU, without a device: ``pip install ".[accelerators]"``."""

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import compilers  # noqa: E402  (found through the line above)

INSTALLED = all(map(importlib.util.find_spec, ["libtpu", "jax_plugins.xla_cuda12"]))

if INSTALLED:
    compilers.prepare()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that compile, if the compilers are not installed."""
    skip = pytest.mark.skip(reason='needs the compilers: pip install ".[accelerators]"')
    for item in items:
        if "chip" in getattr(item, "fixturenames", ()) and not INSTALLED:
            item.add_marker(skip)
