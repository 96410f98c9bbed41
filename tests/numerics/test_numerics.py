"""Rounding errors stay within a few units in the last place, whatever the window and magnitude."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pytest

from jaxpool._numerics import quotient


def _load() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "numerics.py"
    spec = importlib.util.spec_from_file_location("numerics", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


numerics = _load()
PAGE = Path(__file__).parents[2] / "docs" / "semantics.md"


@pytest.mark.parametrize("window", numerics.WINDOWS)
@pytest.mark.parametrize("way", ["average", "sum"])
def test_errors_grow_with_the_logarithm_of_the_window_as_the_page_says(
    way: str, window: int
) -> None:
    error = numerics.worst(getattr(numerics, f"jaxpool_{way}"), window)
    assert error <= numerics.bound(window)
    row = re.search(rf"^\| {window:,} \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    assert row is not None
    average, total, *_, bound = map(float, row[1].replace(",", "").split("|"))
    assert abs(error - (average if way == "average" else total)) < 0.1
    assert bound == pytest.approx(numerics.bound(window), abs=0.051)


def test_adding_one_by_one_would_not_pass() -> None:
    def one_by_one(x: np.ndarray, window: int, stride: int) -> np.ndarray:
        starts = range(0, len(x) - window + 1, stride)
        totals = [np.cumsum(x[start : start + window])[-1] for start in starts]
        return np.array(totals, np.float32) / np.float32(window)

    assert numerics.worst(one_by_one, 10_000) > numerics.bound(10_000)


def test_sums_of_whole_numbers_are_exact() -> None:
    """Sums up to 2^24 are exact in any order: no term is lost or counted twice."""
    x = np.random.default_rng(0).integers(-9, 10, 3_000).astype(np.float32)
    for window in (2, 17, 1_000):
        got = numerics.jaxpool_sum(x, window, 7) * window
        want = np.lib.stride_tricks.sliding_window_view(x, window)[::7].sum(1)
        np.testing.assert_allclose(got, want, rtol=1e-15, atol=1e-9)


@pytest.mark.parametrize("units", [-2, -1, 0, 1, 2])
def test_a_quotient_off_by_units_is_corrected(units: int) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.uniform(0.5, 2, 20_000) * 2.0 ** rng.integers(-20, 20, 20_000) for _ in range(2))
    a, b = a.astype(np.float32), b.astype(np.float32)
    a[:5_000], b[:5_000] = rng.integers(1, 1_000, (2, 5_000))
    approximate = ((a / b).view(np.int32) + units).view(np.float32)
    got = quotient.corrected_quotient(jnp.asarray(approximate), jnp.asarray(a), jnp.asarray(b))
    # The quotient of the remainder may round the last unit differently in one of 10^6 quotients.
    assert np.count_nonzero(np.asarray(got) != a / b) <= 1
    np.testing.assert_array_equal(got[:5_000], (a / b)[:5_000])
