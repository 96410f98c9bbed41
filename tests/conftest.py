"""Settings and fixtures of the whole suite: strict JAX, seeded data, the peers in the header."""

import sys
import zlib
from pathlib import Path

import jax
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import peers  # noqa: E402  (found through the line above)

# Callers may forbid JAX's silent promotion of dtypes; then the library's own code raises wherever
# it relies on one. test_transforms.py does the same with ranks.
jax.config.update("jax_numpy_dtype_promotion", "strict")


def pytest_report_header() -> list[str]:
    """Name the versions that the results below were made with."""
    return [f"jax {jax.__version__} on {jax.default_backend()}", peers.report_header()]


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator seeded by the test's own name: the same data on every run and every machine."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))
