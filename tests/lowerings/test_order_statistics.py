"""Order statistics of ranges along an axis, against NumPy's sort."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import lowered

import jaxpool
from jaxpool._lowerings import tuning
from jaxpool._lowerings.ranks.order_statistics import kth, kth_of_axis, replace_by_first_nan
from jaxpool._lowerings.ranks.order_statistics import window_ranges as ranges_of

KTH: Any = jax.jit(kth)
WITH_NAN: Any = jax.jit(replace_by_first_nan)

pytestmark = pytest.mark.grid(4)

ROWS = {
    "permutation": lambda rng, n: rng.permutation(n).astype(np.float32),
    "ties": lambda rng, n: rng.integers(-3, 4, n).astype(np.float32),
    "equal": lambda rng, n: np.zeros(n, np.float32),
    "infinities": lambda rng, n: rng.choice([-np.inf, -1, -0.0, 0, 2, np.inf], n).astype("f4"),
    "int8": lambda rng, n: rng.integers(-128, 128, n).astype(np.int8),
    "bfloat16": lambda rng, n: rng.integers(-99, 99, n).astype(jnp.bfloat16),
}


def ranges(rng: np.random.Generator, n: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    ends = np.sort(rng.integers(0, n, (2, count)), 0)
    return ends[0].astype(np.int32), (ends[1] + 1).astype(np.int32)


@pytest.mark.grid(11)
@pytest.mark.parametrize("n", [1, 2, 3, 17, 64, 131])
@pytest.mark.parametrize("name", ROWS)
def test_the_first_element_of_that_rank(name: str, n: int, rng: np.random.Generator) -> None:
    x = np.stack([ROWS[name](rng, n) for _ in range(3)])
    starts, stops = ranges(rng, n, 40)
    k = (rng.random((3, 40)) * (stops - starts)).astype(np.int32)
    found = np.asarray(KTH(x, None, starts, stops, k))
    for row, window in np.ndindex(3, 40):
        elements = x[row, starts[window] : stops[window]]
        value = np.sort(elements)[k[row, window]]
        assert found[row, window] == starts[window] + np.argmax(elements == value)


def test_no_scan_is_left_for_jax_to_take_apart() -> None:
    """With ``scan``, it depended on garbage collection whether a gradient raised."""
    x, windows = jnp.zeros((2, 200)), jnp.arange(9)
    jaxpr = str(jax.make_jaxpr(kth)(x, x > 0, windows, windows + 3, windows % 3))
    assert "scan[" not in jaxpr and "while[" in jaxpr


@pytest.mark.grid(10)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("length", [120, 119, 9])
@pytest.mark.parametrize(("window", "stride"), [(2, 5), (3, 2), (7, 1)])
def test_blocks_of_windows_find_what_all_at_once_find(
    window: int,
    stride: int,
    length: int,
    masked: bool,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tuning, "LONGEST_ORDERED", 8)
    pads = {120: (0, 0), 119: (window - 1, 1), 9: (40, 60)}[length]
    (axis,) = jaxpool.geometry((length,), (window,), stride, (pads,)).axes
    x = rng.integers(-9, 9, (2, 1, length)).astype(np.float32)
    gone = rng.random(x.shape) < 0.2 if masked else None
    k = rng.integers(0, window, (2, 1, axis.out)).astype(np.int32)
    want = KTH(x, gone, *ranges_of(axis), k)
    got = jax.jit(lambda x, gone, k: kth_of_axis(x, gone, axis, k)[0])(x, gone, k)
    known = np.broadcast_to(counts(axis, gone) > k, want.shape)  # others: any position
    np.testing.assert_array_equal(np.where(known, got, 0), np.where(known, want, 0))


def counts(axis: Any, absent: np.ndarray | None) -> np.ndarray:
    """Return the number of elements of each window."""
    starts, stops = ranges_of(axis)
    there = np.ones(axis.size) if absent is None else ~absent
    before = np.concatenate([np.zeros((*there.shape[:-1], 1)), there.cumsum(-1)], -1)
    return before[..., stops] - before[..., starts]


@pytest.mark.cpu_program
def test_a_block_is_a_fraction_of_a_long_axis() -> None:
    """Memory of a rolling median: a few copies of the array."""
    x = jax.ShapeDtypeStruct((2**18,), jnp.float32)
    pool = lambda x: jaxpool.median_pool(x, 1001, 1, data_format="W")  # noqa: E731
    held = jax.jit(pool).lower(x).compile().memory_analysis()
    assert held is not None and held.temp_size_in_bytes < 5 * 4 * x.size


def test_absent_elements_come_last(rng: np.random.Generator) -> None:
    x, absent = rng.integers(-9, 9, (2, 50)).astype(np.float32), rng.random((2, 50)) < 0.5
    starts, stops = ranges(rng, 50, 30)
    for row, window in np.ndindex(2, 30):
        there = np.flatnonzero(~absent[row, starts[window] : stops[window]]) + starts[window]
        for k in range(len(there)):
            found = KTH(x, absent, starts, stops, np.full((2, 30), k, np.int32))[row, window]
            value = np.sort(x[row, there])[k]
            assert found == there[np.argmax(x[row, there] == value)]
        if window > 3:
            break


def test_the_first_nan_of_a_window(rng: np.random.Generator) -> None:
    x = np.where(rng.random((2, 60)) < 0.1, np.nan, rng.random((2, 60))).astype(np.float32)
    starts, stops = ranges(rng, 60, 50)
    found = np.asarray(WITH_NAN(x, starts, stops, np.full((2, 50), -7)))
    for row, window in np.ndindex(2, 50):
        nan = np.flatnonzero(np.isnan(x[row, starts[window] : stops[window]]))
        assert found[row, window] == (starts[window] + nan[0] if len(nan) else -7)


def test_other_platforms_sort_to_the_same_order(rng: np.random.Generator) -> None:
    x, (starts, stops) = rng.integers(0, 5, (2, 40)).astype(np.float32), ranges(rng, 40, 20)
    k = (stops - starts) // 2
    run = lambda x: KTH(x, None, starts, stops, k)  # noqa: E731
    np.testing.assert_array_equal(lowered(run, "tpu", x)(x), run(x))
