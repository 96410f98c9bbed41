"""Every filter against scipy.ndimage, on random calls: results are bitwise equal."""

from typing import Any

import jax
import numpy as np
import pytest
from filter_calls import EXTREMES, FILTERS, Call, random_call
from helpers import QUICK, assert_same
from scipy import ndimage

import jaxpool.filters
from jaxpool.filters import _mean

pytestmark = pytest.mark.grid(4)

CHUNKS = 40
CALLS_OF_A_CHUNK = 25
ARRAYS_OF_A_CALL = 10


def check(call: Call, rng: np.random.Generator, count: int) -> None:
    """Fail unless one program has scipy's results for several arrays."""
    arrays = call.arrays(rng, count)
    ours = jax.vmap(lambda x: call.run(jaxpool.filters, x))
    # The mean must be robust to LLVM's optimisations, which change rounding errors.
    options = {} if "uniform" in call.name else QUICK
    got = jax.jit(ours, compiler_options=options)(arrays)
    assert_same(got, np.stack([call.expected(x) for x in arrays]), str(call))


@pytest.mark.parametrize("name", FILTERS)
def test_random_calls(name: str, rng: np.random.Generator) -> None:
    for _ in range(3):
        check(random_call(rng, name), rng, 3)


@pytest.mark.deep
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_ten_thousand_random_calls(chunk: int, rng: np.random.Generator) -> None:
    for _ in range(CALLS_OF_A_CHUNK):
        check(random_call(rng), rng, ARRAYS_OF_A_CALL)


@pytest.mark.parametrize("size", [2, 3, 7, 31, 64, 101])
def test_means_of_long_windows_are_rounded_as_in_twice_the_digits(
    size: int, rng: np.random.Generator
) -> None:
    """Numbers of similar size: scipy's running sums keep the rounding errors of large ones."""
    x = rng.standard_normal((40, 150))
    for array in (x.astype(np.float32), np.round(x * 4e8).astype(np.int32)):
        got = jaxpool.filters.uniform_filter(array, size)
        assert_same(got, ndimage.uniform_filter(array, size), size)


@pytest.mark.parametrize("size", [11, 12, 13, 14, 31])
@pytest.mark.parametrize("length", [5, 40, 41, 43])
def test_means_of_long_windows_across_rows(
    size: int, length: int, rng: np.random.Generator
) -> None:
    """Sums of blocks of rows: every phase, of arrays that blocks do not divide."""
    x = rng.standard_normal((3, length, 5, 4)).astype(np.float32)
    words: dict[str, Any] = {"axis": 1, "mode": "wrap", "origin": -2}
    got = jaxpool.filters.uniform_filter1d(x, size, **words)
    assert_same(got, ndimage.uniform_filter1d(x, size, **words), (size, length))


def test_means_across_rows_store_no_array_of_sums_in_twice_the_digits() -> None:
    x = jax.ShapeDtypeStruct((256, 256), np.float32)
    mean = jax.jit(lambda x: jaxpool.filters.uniform_filter1d(x, 31, axis=0))
    held = mean.lower(x).compile().memory_analysis()
    assert held is not None
    assert held.temp_size_in_bytes < 2 * x.size * x.dtype.itemsize


@pytest.mark.parametrize("at_once", [7, 32])
@pytest.mark.parametrize("size", [2, 3, 7, 31, 101])
def test_means_of_pairs_are_those_of_float64(
    size: int, at_once: int, rng: np.random.Generator
) -> None:
    """GPU and TPU accumulate in pairs of floats, the CPU and scipy in float64."""
    x = rng.standard_normal((40, 150)).astype(np.float32)
    of_pairs = jax.jit(lambda x: _mean.from_pairs(x, size, 1, at_once))
    want = ndimage.uniform_filter1d(x, size, origin=-(size // 2))[:, : 151 - size]
    assert_same(of_pairs(x), want, size)


def test_means_of_very_long_windows(rng: np.random.Generator) -> None:
    x = rng.standard_normal(9000).astype(np.float32)
    got = jaxpool.filters.uniform_filter1d(x, 5001, mode="wrap")
    assert_same(got, ndimage.uniform_filter1d(x, 5001, mode="wrap"), "5001 taps")


@pytest.mark.parametrize("mode", ["reflect", "mirror", "wrap"])
def test_a_window_of_many_periods_of_the_axis(mode: Any, rng: np.random.Generator) -> None:
    """The program does not grow with the number of periods: 100,000 would not compile."""
    x = rng.standard_normal((3, 6)).astype(np.float32)
    words: dict[str, Any] = {"axis": -1, "mode": mode}
    got = jaxpool.filters.uniform_filter1d(x, 50_001, **words)
    assert_same(got, ndimage.uniform_filter1d(x, 50_001, **words), mode)
    program = jax.jit(lambda x: jaxpool.filters.uniform_filter1d(x, 600_001, **words)).lower(x)
    assert len(program.as_text()) < 100_000


@pytest.mark.parametrize("name", ["grey_opening", "grey_closing", "white_tophat", "black_tophat"])
def test_a_structure_of_one_element_rounds_twice(name: str, rng: np.random.Generator) -> None:
    """Subtracting and adding a number rounds the element; XLA must not simplify it away."""
    x = rng.standard_normal((5, 7)).astype(np.float32)
    structure = np.full((1, 1), 1.7, np.float32)
    got = jax.jit(lambda x: getattr(jaxpool.filters, name)(x, structure=structure))(x)
    assert_same(got, getattr(ndimage, name)(x, structure=structure), name)


@pytest.mark.grid(10)
@pytest.mark.parametrize("mode", ["reflect", "mirror", "nearest", "wrap", "constant"])
@pytest.mark.parametrize("size", [(31, 12), (1, 64), (80, 200)], ids=str)
@pytest.mark.parametrize("name", EXTREMES)
def test_extrema_of_long_windows(
    name: str, size: tuple[int, int], mode: Any, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((33, 70)).astype(np.float32)
    words = {"size": size, "mode": mode, "cval": 0.5}
    got = getattr(jaxpool.filters, name)(x, **words)
    assert_same(got, getattr(ndimage, name)(x, **words), (name, words))


HOLES = np.random.default_rng(0).random((15, 17)) < 0.7


@pytest.mark.grid(3)
@pytest.mark.parametrize(
    "words",
    [{"size": (1, 201)}, {"size": (31, 9)}, {"footprint": HOLES}],
    ids=["along one axis", "in a plane", "in a footprint"],
)
@pytest.mark.parametrize("mode", ["reflect", "constant"])
def test_medians_of_many_elements(
    mode: Any, words: dict[str, Any], rng: np.random.Generator
) -> None:
    """A wavelet matrix along one axis, or a search bit by bit in a plane or footprint."""
    x = rng.standard_normal((37, 400)).astype(np.float32)
    x[3] = np.round(x[3])
    got = jaxpool.filters.median_filter(x, mode=mode, **words)
    assert_same(got, ndimage.median_filter(x, mode=mode, **words), (words, mode))


def test_ranks_leave_out_the_holes_of_a_footprint_along_one_axis() -> None:
    """In scipy, ranks of a plane of one row do, and ranks of a vector do not."""
    x = np.array([70, 58, 30, 47, 90, 12], np.int16)
    for footprint in ([True, True, True, True, False], [True, False, True, True]):
        want = ndimage.rank_filter(x[None], 1, footprint=[footprint])[0]
        assert_same(jaxpool.filters.rank_filter(x, 1, footprint=footprint), want, footprint)


Y, X = np.mgrid[-7:8, -7:8]
FOOTPRINTS = {
    "disc": Y * Y + X * X <= 49,
    "frame": np.maximum(abs(Y), abs(X)) == 7,
    "cross": (abs(Y) <= 1) | (abs(X) <= 1),
    "diamond": abs(Y) + abs(X) <= 7,
    "noise": np.random.default_rng(0).random((15, 15)) < 0.5,
    "dots": (Y % 2 == 0) & (X % 2 == 0),
}


@pytest.mark.grid(3)
@pytest.mark.parametrize("name", FOOTPRINTS)
def test_footprints_of_many_shapes(name: str, rng: np.random.Generator) -> None:
    image = rng.standard_normal((40, 50)).astype(np.float32)
    got = jaxpool.filters.maximum_filter(image, footprint=FOOTPRINTS[name])
    assert_same(got, ndimage.maximum_filter(image, footprint=FOOTPRINTS[name]), name)


def test_until_nothing_changes(rng: np.random.Generator) -> None:
    x, mask = rng.random((12, 13)) < 0.05, rng.random((12, 13)) < 0.7
    got = jaxpool.filters.binary_dilation(x, iterations=0, mask=mask)
    assert_same(got, ndimage.binary_dilation(x, iterations=0, mask=mask), "a region grows")


@pytest.mark.parametrize("name", ["grey_erosion", "grey_dilation"])
@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64", "int8", "int64", "bool"])
def test_a_structure_of_any_integers_is_cast_before_it_is_negated(
    name: str, dtype: str, rng: np.random.Generator
) -> None:
    x = rng.permutation(20).reshape(4, 5).astype(np.float64)
    top = 1 if dtype == "bool" else np.iinfo(dtype).max
    structure = np.array([[0, 1, 0], [1, top, 1]], dtype)
    with jax.enable_x64(True):
        got = getattr(jaxpool.filters, name)(x, structure=structure)
        assert_same(got, getattr(ndimage, name)(x, structure=structure.astype(np.float64)), name)


def test_integers_with_a_structure_of_fractions(rng: np.random.Generator) -> None:
    x = rng.integers(20, 90, (9, 8)).astype(np.int16)
    structure = np.array([[1, 1.25, -0.5], [0, 2, 0.75]], np.float32)
    for name in ("grey_erosion", "grey_dilation"):
        first = np.flip(structure) if name == "grey_dilation" else structure
        first.flat[0] = np.trunc(first.flat[0])  # scipy does not truncate the first
        got = getattr(jaxpool.filters, name)(x, structure=structure)
        assert_same(got, getattr(ndimage, name)(x, structure=structure), name)


def test_booleans_with_a_structure_are_sums_of_integers_unlike_those_of_scipy() -> None:
    x = np.array([False, False, True, True, False, True, True, True, False])
    structure = np.array([1, 2, 1])
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x.astype(int), 1, "symmetric"), 3)
    least, most = (windows - structure).min(-1), (windows + structure).max(-1)
    assert_same(jaxpool.filters.grey_erosion(x, structure=structure), least != 0, "erosion")
    assert_same(jaxpool.filters.grey_dilation(x, structure=structure), most != 0, "dilation")
    bytes_of_scipy = ndimage.grey_dilation(x, structure=structure).view(np.uint8)
    assert_same(bytes_of_scipy, most.astype(np.uint8), "scipy's array of bools")
    assert most.max() > 1


IN_ORDER: dict[str, tuple[Any, dict[str, Any]]] = {
    "maximum_filter": ((), {"size": (3, 2), "origin": (1, 0)}),
    "minimum_filter": ((), {"footprint": [[1, 0, 1], [0, 1, 0]]}),
    "median_filter": ((), {"size": (3, 2), "origin": (1, 0)}),
    "percentile_filter": ((30,), {"footprint": [[1, 0, 1], [0, 1, 0]]}),
    "grey_dilation": ((), {"structure": [[1, 0, 2], [0.5, 1, 3]]}),
    "binary_dilation": ((), {"structure": [[1, 0, 1], [0, 1, 0]], "origin": (0, 1)}),
}


@pytest.mark.grid(2)
@pytest.mark.parametrize("name", IN_ORDER)
def test_settings_follow_the_order_of_axes(name: str, rng: np.random.Generator) -> None:
    """scipy uses array order for some of them: the test reverses the array."""
    before, settings = IN_ORDER[name]
    settings = {k: np.array(v) if k[0] in "fs" and k != "size" else v for k, v in settings.items()}
    x = rng.permutation(42).reshape(7, 6).astype(np.float32) * (rng.random((7, 6)) < 0.3)
    want = getattr(ndimage, name)(x.T.copy(), *before, **settings).T
    got = getattr(jaxpool.filters, name)(x, *before, **settings, axes=(1, 0))
    assert_same(got, want, name)
