"""Every dtype: results keep it, sums do not wrap or lose bits, averages are exact."""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from every_op import EVERY_OP, SPACE
from helpers import x64_for

import jaxpool
from jaxpool import testing

pytestmark = pytest.mark.grid(8)

NARROW_FLOATS = ["float16", "bfloat16"]
FLOAT8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz"]
FLOATS = ["float64", "float32", *NARROW_FLOATS]
INTEGERS = ["int8", "int16", "int32", "uint8", "uint16", "uint32"]
WIDE_INTEGERS = ["int64", "uint64"]

OPS: dict[str, Callable[..., jax.Array]] = {
    "max": jaxpool.max_pool,
    "min": jaxpool.min_pool,
    "avg": jaxpool.avg_pool,
    "sum": jaxpool.sum_pool,
}


def row(values: Any, dtype: str) -> np.ndarray:
    """Return a vector of the dtype, without conversion through floats."""
    return np.array(values, np.dtype(dtype))


def pooled(op: str, x: np.ndarray, *window: Any, **settings: Any) -> list[Any]:
    """Return the op over a vector, as Python numbers."""
    return np.asarray(OPS[op](x, *window, data_format="W", **settings)).tolist()


def random_numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return integers of the full range, with frequent limits, or small floats."""
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return rng.random(shape) < 0.5
    if kind.kind not in "iu":
        return rng.integers(-8, 9, shape).astype(kind)
    limits = np.iinfo(kind)
    x = rng.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)
    ends = rng.choice(np.array([limits.min, limits.max, limits.max - 1], kind), shape)
    return np.where(rng.random(shape) < 0.5, ends, x)


# --- dtypes of results ----------------------------------------------------------------------------

SETTINGS: dict[str, Any] = {
    "window_shape": (3, 2),
    "strides": (1, 2),
    "padding": ((1, 2), (0, 1)),
    "dilations": (2, 1),
    "rounding": "ceil_torch",
}


@pytest.mark.grid(16)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [*FLOATS, *FLOAT8, *INTEGERS, *WIDE_INTEGERS, "bool"])
@pytest.mark.parametrize("op", OPS)
def test_every_dtype_agrees_with_the_oracle(
    op: str, dtype: str, masked: bool, rng: np.random.Generator
) -> None:
    x = random_numbers(rng, (2, 6, 7, 2), dtype)
    settings = dict(SETTINGS, where=rng.random(x.shape) < 0.7 if masked else None)
    with x64_for(dtype):
        if op == "avg" and dtype == "bool":
            with pytest.raises(TypeError, match="boolean"):
                OPS[op](x, **settings)
            return
        got = np.asarray(OPS[op](x, **settings))
        expected_dtype = jnp.sum(x).dtype if op == "sum" else x.dtype
    assert got.dtype == expected_dtype
    expected = testing.oracle_pool(x, op, **settings)
    if np.dtype(dtype).kind in "biu":
        np.testing.assert_array_equal(got, expected)
    else:  # one rounding of exact sums; a division by a constant may differ in its last bit
        wide_got, wide_expected = got.astype(np.float64), expected.astype(np.float64)
        if dtype in FLOAT8 and not jnp.isinf(jnp.asarray(jnp.inf, dtype)):
            # NumPy makes NaN of the infinity of an empty window; the numbers drawn hold none.
            limit = float(jnp.finfo(dtype).max) * (-1 if op == "max" else 1)
            wide_expected = np.where(np.isnan(wide_expected), limit, wide_expected)
        tolerance = float(jnp.finfo(x.dtype).eps) if op == "avg" and dtype not in FLOAT8 else 0
        np.testing.assert_allclose(wide_got, wide_expected, tolerance)


@pytest.mark.parametrize("dtype", [*FLOATS, *FLOAT8, *INTEGERS, *WIDE_INTEGERS, "bool"])
def test_argmax_takes_every_dtype(dtype: str, rng: np.random.Generator) -> None:
    x = random_numbers(rng, (2, 6, 7, 2), dtype)
    with x64_for(dtype):
        values, indices = jaxpool.max_pool_with_argmax(x, **SETTINGS)
    expected, taps, positions = testing.oracle_argmax(x, **SETTINGS)
    assert values.dtype == x.dtype
    assert indices.dtype == jnp.int32
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(indices, testing.oracle_indices(taps, positions, x.shape))


@pytest.mark.parametrize("dtype", [*FLOATS, *FLOAT8])
@pytest.mark.parametrize("op", OPS)
def test_gradients_have_the_dtype_of_the_array(op: str, dtype: str) -> None:
    with x64_for(dtype):
        x = jnp.arange(12).astype(dtype).reshape(3, 4)
        values, pull = jax.vjp(lambda x: OPS[op](x, 2, 1, data_format="HW"), x)
        (gradient,) = pull(jnp.ones_like(values))
        assert gradient.dtype == x.dtype
        total = 2 * 3 * (4 if op == "sum" else 1)
        assert float(gradient.astype(jnp.float32).sum()) == total


@pytest.mark.parametrize("op", OPS)
def test_results_do_not_depend_on_64_bit_types(op: str, rng: np.random.Generator) -> None:
    x = random_numbers(rng, (6, 7, 2), "float32")
    plain = OPS[op](x, **SETTINGS)
    with jax.enable_x64(True):
        enabled = OPS[op](x, **SETTINGS)
        assert jaxpool.max_pool_with_argmax(x, **SETTINGS)[1].dtype == jnp.int32
    assert enabled.dtype == plain.dtype == jnp.float32
    np.testing.assert_array_equal(enabled, plain)


def test_booleans_are_any_all_and_counted() -> None:
    x = row([True, False, False, True, True], "bool")
    assert pooled("max", x, (2,), 1) == [True, False, True, True]
    assert pooled("min", x, (2,), 1) == [False, False, False, True]
    assert pooled("sum", x, (2,), 1) == [1, 0, 1, 2]
    assert pooled("max", ~x & x, (2,), 1, 1) == [False] * 6
    assert pooled("min", x | True, (2,), 1, 1) == [True] * 6


@pytest.mark.parametrize("dtype", [*INTEGERS, *WIDE_INTEGERS])
def test_padding_never_wins_over_the_worst_integer(dtype: str) -> None:
    limits = np.iinfo(dtype)
    with x64_for(dtype):
        assert pooled("max", row([limits.min] * 3, dtype), (2,), 1, 1) == [limits.min] * 4
        assert pooled("min", row([limits.max] * 3, dtype), (2,), 1, 1) == [limits.max] * 4
        values, indices = jaxpool.max_pool_with_argmax(
            row([limits.min] * 3, dtype), (2,), 1, 1, data_format="W"
        )
    np.testing.assert_array_equal(values, limits.min)
    np.testing.assert_array_equal(indices, [0, 0, 1, 2])


@pytest.mark.parametrize("dtype", [*INTEGERS, *WIDE_INTEGERS])
def test_windows_without_an_element_of_integers(dtype: str) -> None:
    """Taps -1 and 3 of three elements."""
    limits = np.iinfo(dtype)
    with x64_for(dtype):
        x = row([1, 2, 3], dtype)
        got = [pooled(op, x, (2,), 1, 1, dilations=4) for op in OPS]
    assert got == [[limits.min], [limits.max], [0], [0]]


# --- low-precision floats -------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(32, 32), (64, 16), (20, 20), (1024,), (4, 16, 16)])
@pytest.mark.parametrize("dtype", [*NARROW_FLOATS, *FLOAT8])
def test_an_average_of_ones_is_one(dtype: str, shape: tuple[int, ...]) -> None:
    x = jnp.ones((1, *shape, 1), dtype)
    assert float(jaxpool.avg_pool(x, shape, 1).squeeze()) == 1.0
    assert float(jaxpool.avg_pool(x, shape, 1, implementation="reduce_window").squeeze()) == 1.0


def test_a_large_half_precision_average_does_not_overflow() -> None:
    x = jnp.full((4, 4), 60000, jnp.float16)
    np.testing.assert_array_equal(jaxpool.avg_pool(x, 2, 2, data_format="HW"), np.full((2, 2), 6e4))
    np.testing.assert_array_equal(jaxpool.sum_pool(x, 2, 2, data_format="HW"), np.inf)


@pytest.mark.parametrize("order", sorted(set(itertools.permutations([0, 1, 1]))))
@pytest.mark.parametrize(("dtype", "large"), [("bfloat16", 256), ("float16", 2048)])
def test_narrow_sums_round_once(dtype: str, large: int, order: tuple[int, ...]) -> None:
    """The dtype has ``large`` + 2 but not ``large`` + 1; sums are also gradients."""
    numbers = row([one or large for one in order], dtype)
    assert pooled("sum", numbers, (3,), 1) == [large + 2]
    for op in OPS:
        peak = row([0, 0, -1 if op == "min" else 1, 0, 0], dtype)  # in each of three windows
        _, pull = jax.vjp(lambda x, op=op: OPS[op](x, (3,), 1, data_format="W"), peak)
        expected = (large + 2) / 3 if op == "avg" else large + 2
        assert float(pull(jnp.asarray(numbers))[0][2]) == float(np.asarray(expected, dtype)), op


@pytest.mark.parametrize("dtype", [*NARROW_FLOATS, "float8_e5m2"])
def test_narrow_infinities_and_nan_behave_as_wide_ones(dtype: str) -> None:
    x = row([-np.inf, -np.inf, np.nan, 1, np.inf], dtype)
    got = np.asarray(jaxpool.max_pool(x, (2,), 1, 1, data_format="W")).astype(np.float32)
    np.testing.assert_array_equal(got, [-np.inf, -np.inf, np.nan, np.nan, np.inf, np.inf])
    got = np.asarray(jaxpool.min_pool(x, (2,), 1, 1, data_format="W")).astype(np.float32)
    np.testing.assert_array_equal(got, [-np.inf, -np.inf, np.nan, np.nan, 1, np.inf])


def test_float8_without_infinity_has_its_lowest_number_in_empty_windows() -> None:
    x = jnp.ones(3, jnp.float8_e4m3fn)
    got = jaxpool.max_pool(x, (2,), 1, 1, dilations=4, data_format="W")
    assert got.astype(jnp.float32).tolist() == [float(jnp.finfo(jnp.float8_e4m3fn).min)]


def test_double_precision_is_not_narrowed() -> None:
    with jax.enable_x64(True):
        x = row([1.0, 1.0 + 2**-40, 2**60 + 2.0**10, 1.0], "float64")
        assert pooled("max", x, (2,), 2) == [1.0 + 2**-40, 2**60 + 2.0**10]
        assert pooled("avg", x, (2,), 2) == [1.0 + 2**-41, 2**59 + 2.0**9]


# --- integer averages -----------------------------------------------------------------------------


def average(numbers: Any, divisor: int, dtype: str) -> int:
    """Return sum over divisor in Python integers, rounded half to even, saturated."""
    limits = np.iinfo(dtype)
    return min(max(round(Fraction(sum(map(int, numbers)), divisor)), limits.min), limits.max)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_halves_round_to_even(dtype: str) -> None:
    with x64_for(dtype):
        pairs = row([1, 2, 2, 3, 3, 4, -1, -2, -2, -3, -3, -4, 127, 126, -128, -127], dtype)
        assert pooled("avg", pairs, (2,), 2) == [2, 2, 4, -2, -2, -4, 126, -128]


@pytest.mark.parametrize("dtype", [*INTEGERS, *WIDE_INTEGERS])
def test_averages_do_not_wrap(dtype: str) -> None:
    limits = np.iinfo(dtype)
    with x64_for(dtype):
        for number in (100, limits.max, limits.max - 1, limits.min, limits.max // 2 + 1):
            x = np.full((32, 32), number, dtype)
            got = jaxpool.avg_pool(x, 32, 1, data_format="HW")
            assert np.asarray(got).tolist() == [[number]]


def test_four_large_integers() -> None:
    assert pooled("avg", row([2**30] * 4, "int32"), (4,), 1) == [2**30]
    assert pooled("avg", row([2**31] * 4, "uint32"), (4,), 1) == [2**31]


@pytest.mark.parametrize("dtype", [*INTEGERS, *WIDE_INTEGERS])
@pytest.mark.parametrize("seed", range(6))
def test_averages_of_extremes_are_exact(dtype: str, seed: int) -> None:
    """Random windows over the full range, against Python integers."""
    rng = np.random.default_rng(seed)
    settings = {
        "window_shape": tuple(rng.permutation(np.arange(1, 7))[:2].tolist()),
        "strides": tuple(rng.permutation([1, 2, 3])[:2].tolist()),
        "padding": tuple(map(tuple, rng.integers(0, 3, (2, 2)).tolist())),
        "dilations": tuple(rng.permutation([1, 2])[:2].tolist()),
        "rounding": ("floor", "ceil", "ceil_torch")[seed % 3],
        "count_include_pad": seed % 2 == 0,
        "divisor_override": [None, None, -7, 3, -1, 129][seed],
    }
    x = random_numbers(rng, (12, 13, 3), dtype)
    with x64_for(dtype):
        got = np.asarray(jaxpool.avg_pool(x, **settings))
    expected = testing.oracle_pool(x, "avg", **settings)
    assert got.dtype == x.dtype
    assert len(np.unique(got)) > 5 or settings["divisor_override"] is not None
    np.testing.assert_array_equal(got, expected, err_msg=str(settings))


@pytest.mark.grid(16)
@pytest.mark.parametrize("dtype", ["int8", "int16", "uint16", "int32"])
@pytest.mark.parametrize("divisor", [2, 3, 6, 10, 14, 22, 46, 49, 82, 94, 98, 106, 127, 128, -98])
def test_every_sum_divides_exactly(dtype: str, divisor: int) -> None:
    """All sums around all halves: a reciprocal instead of the division would fail some."""
    limits = np.iinfo(dtype)
    low, high = max(limits.min, -(2**15)), min(limits.max, 2**16 - 1)
    x = np.arange(low, high + 1).astype(dtype)
    got = jaxpool.avg_pool(x, (1,), 1, divisor_override=divisor, data_format="W")
    expected = [average([number], divisor, dtype) for number in x.tolist()]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("taps", [6, 10, 49, 82, 98])
def test_every_sum_of_a_window_divides_exactly(taps: int) -> None:
    """The same with the number of taps as the divisor: every sum of ``taps`` int8 numbers."""
    sums = np.arange(-128 * taps, 127 * taps + 1)
    x = (sums[:, None] + np.arange(taps)) // taps  # the parts of each sum, as equal as can be
    assert np.array_equal(x.sum(1), sums) and x.min() == -128 and x.max() == 127
    got = jaxpool.avg_pool(x.astype(np.int8), (1, taps), 1, data_format="HW")
    expected = [average([total], taps, "int8") for total in sums.tolist()]
    np.testing.assert_array_equal(got[:, 0], expected)


@pytest.mark.parametrize("dtype", [*INTEGERS, "int64"])
def test_windows_of_more_than_65535_taps(dtype: str, rng: np.random.Generator) -> None:
    limits = np.iinfo(dtype)
    x = np.stack(
        [
            np.full(70_000, limits.max),
            np.full(70_000, limits.min),
            rng.integers(limits.min, limits.max, 70_000, endpoint=True, dtype=dtype),
            np.arange(70_000) % 3 + limits.max - 2,
        ]
    ).astype(dtype)
    with x64_for(dtype):
        got = jaxpool.avg_pool(x, (1, 70_000), 1, data_format="HW")
    assert np.asarray(got)[:, 0].tolist() == [average(numbers, 70_000, dtype) for numbers in x]


def test_a_square_window_of_more_than_65535_taps(rng: np.random.Generator) -> None:
    x = rng.integers(-(2**31), 2**31 - 1, (270, 260), endpoint=True, dtype=np.int32)
    got = jaxpool.avg_pool(x, (270, 260), 1, data_format="HW")
    assert int(got[0, 0]) == average(x.ravel(), 270 * 260, "int32")


@pytest.mark.deep
@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4"])
def test_averages_of_millions_of_narrow_integers(dtype: str, rng: np.random.Generator) -> None:
    """The digits of the sums are shorter than a byte, or longer than the integers."""
    limits = jnp.iinfo(dtype)
    counts = np.array([2**20, 2**19, 2**25])  # of the lowest, the highest and the second number
    numbers = [int(limits.min), int(limits.max), int(limits.min) + 1]
    mean = sum(n * int(c) for n, c in zip(numbers, counts, strict=True)) / counts.sum()
    x = jnp.asarray(rng.permutation(np.repeat(np.array(numbers, np.int8), counts))).astype(dtype)
    assert jaxpool.global_avg_pool(x, data_format="W").item() == round(mean)


@pytest.mark.parametrize("dtype", ["int2", "uint2"])
def test_masked_extremes_of_integers_of_two_bits(dtype: str, rng: np.random.Generator) -> None:
    """With jaxlib 0.12, XLA:CPU would read a mask of int2 wrongly."""
    lowest, highest = int(jnp.iinfo(dtype).min), int(jnp.iinfo(dtype).max)
    for length, kernel, stride, pad in [(1, 1, 1, 1), (1, 4, 3, 3), (3, 2, 2, 1), (7, 3, 1, 2)]:
        x = rng.integers(lowest, highest + 1, (2, length, 1))
        for share in (0.0, 0.5):
            where = rng.random(x.shape) < share
            settings: dict[str, Any] = {"where": where}
            window = (kernel,), stride, pad
            maxima = jaxpool.max_pool(jnp.asarray(x, dtype), *window, **settings)
            minima = jaxpool.min_pool(jnp.asarray(x, dtype), *window, **settings)
            starts = range(-pad, length + pad - kernel + 1, stride)
            for r in range(2):
                elements = [
                    [
                        x[r, n, 0]
                        for n in range(max(o, 0), min(o + kernel, length))
                        if where[r, n, 0]
                    ]
                    for o in starts
                ]
                assert maxima[r, :, 0].tolist() == [max(e, default=lowest) for e in elements]
                assert minima[r, :, 0].tolist() == [min(e, default=highest) for e in elements]


@pytest.mark.parametrize("dtype", [*INTEGERS, *WIDE_INTEGERS])
def test_a_divisor_of_ones_own_saturates(dtype: str) -> None:
    limits = np.iinfo(dtype)
    rows = [[limits.max] * 4, [limits.min] * 4, [3, 2, 0, 0], [1, 2, 0, 0], [7, 7, 7, 7]]
    with x64_for(dtype):
        for divisor in (1, -1, -2, 3, -(2**20), 2**28):
            settings: dict[str, Any] = {"divisor_override": divisor, "data_format": "HW"}
            got = jaxpool.avg_pool(row(rows, dtype), (1, 4), 1, **settings)
            expected = [average(numbers, divisor, dtype) for numbers in rows]
            assert np.asarray(got)[:, 0].tolist() == expected, divisor


def test_integer_averages_by_hand() -> None:
    """The rows of semantics.md 4.1 and the contract: saturation, negative divisors, halves."""
    assert pooled("avg", row([100] * 4, "int8"), (4,), 1) == [100]
    assert pooled("avg", row([100] * 4, "int8"), (4,), 1, divisor_override=1) == [127]
    assert pooled("avg", row([100] * 4, "int8"), (4,), 1, divisor_override=-1) == [-128]
    assert pooled("avg", row([100] * 4, "uint8"), (4,), 1, divisor_override=-1) == [0]
    assert pooled("avg", row([3, 2], "int8"), (2,), 1, divisor_override=-2) == [-2]
    assert pooled("avg", row([4, 3], "int8"), (2,), 1, divisor_override=-2) == [-4]
    assert pooled("avg", row([200, 200, 200], "uint8"), (3,), 1) == [200]
    assert pooled("avg", row([16777217, 16777217], "int32"), (2,), 1) == [16777217]


@pytest.mark.parametrize("divisor", [3, -3, 2**20])
def test_a_divisor_of_ones_own_divides_floats(divisor: int) -> None:
    got = pooled("avg", row([1.0, 2.0, 6.0], "float32"), (3,), 1, divisor_override=divisor)
    np.testing.assert_allclose(got, [9 / divisor], rtol=1e-6)


# --- integer sums ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTEGERS)
def test_sums_of_narrow_integers_are_those_of_jax(dtype: str, rng: np.random.Generator) -> None:
    x = random_numbers(rng, (40,), dtype)
    got = jaxpool.sum_pool(x, (40,), 1, data_format="W")
    assert got.dtype == jnp.sum(x).dtype
    np.testing.assert_array_equal(got[0], jnp.sum(x))
    with jax.enable_x64(True):
        got = jaxpool.sum_pool(x, (40,), 1, data_format="W")
        assert got.dtype == jnp.sum(x).dtype and got.dtype.itemsize == 8
        assert int(got[0]) == sum(map(int, x))


def test_sums_of_four_bits() -> None:
    """``jnp.sum`` does not accept them."""
    for dtype, elements in (("int4", [7, 7, -8]), ("uint4", [15, 15, 14])):
        x = jnp.array(elements, dtype)
        got = jaxpool.sum_pool(x, (2,), 1, data_format="W")
        assert got.dtype == ("int32" if dtype == "int4" else "uint32")
        assert got.tolist() == [elements[0] + elements[1], elements[1] + elements[2]]


# --- index dtypes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_indices_in_a_dtype_that_holds_them(dtype: str) -> None:
    x = np.arange(120.0, dtype=np.float32).reshape(10, 12)
    values, indices = jaxpool.max_pool_with_argmax(x, 2, 2, data_format="HW", index_dtype=dtype)
    assert indices.dtype == dtype
    np.testing.assert_array_equal(indices, values)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_wide_indices_need_64_bit_types(dtype: str) -> None:
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    with pytest.raises(ValueError, match="64-bit"):
        jaxpool.max_pool_with_argmax(x, 2, 2, data_format="HW", index_dtype=dtype)
    with jax.enable_x64(True):
        indices = jaxpool.max_pool_with_argmax(x, 2, 2, data_format="HW", index_dtype=dtype)[1]
        assert indices.dtype == dtype
        np.testing.assert_array_equal(indices, [[5, 7]])


# (shape, window, index space, dtype): the last index, or the sentinel, does not fit.
TOO_NARROW: list[tuple[tuple[int, ...], tuple[int, ...], str | int, str]] = [
    ((10, 13, 1), (2, 2), "spatial", "int8"),
    ((257, 1, 1), (2, 1), "spatial", "uint8"),
    ((2, 5, 13, 1), (2, 2), 0, "int8"),
    ((182, 181, 1), (2, 2), "spatial", "int16"),
    ((16, 16, 1), (16, 16), "window", "uint8"),
    ((16, 16, 1), (13, 10), "window", "int8"),
    ((2**16, 2**15 + 1, 1), (2, 2), "spatial", "int32"),
    ((3, 2**15, 2**15, 1), (2, 2), 0, "int32"),
]


@pytest.mark.parametrize(("shape", "window", "space", "dtype"), TOO_NARROW)
def test_an_index_that_does_not_fit_is_an_error(
    shape: tuple[int, ...], window: tuple[int, ...], space: Any, dtype: str
) -> None:
    def pool(x: jax.Array, dtype: Any) -> Any:
        return jaxpool.max_pool_with_argmax(x, window, 1, index_space=space, index_dtype=dtype)

    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    with pytest.raises(ValueError, match=dtype):
        jax.eval_shape(lambda x: pool(x, dtype), x)
    if dtype == "int32":  # the default, then
        with pytest.raises(ValueError, match="int32"):
            jax.eval_shape(lambda x: pool(x, None), x)
    narrower = (1 if axis == max(shape) else axis for axis in shape)  # one element, one tap
    fits = jax.ShapeDtypeStruct(tuple(narrower), jnp.float32)
    one = lambda x: jaxpool.max_pool_with_argmax(  # noqa: E731
        x, (1,) * len(window), 1, index_space=space, index_dtype=dtype
    )
    assert jax.eval_shape(one, fits)[1].dtype == dtype


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
def test_an_unsigned_index_cannot_mark_an_empty_window(dtype: str) -> None:
    x = np.ones(3, np.float32)
    hollow: dict[str, Any] = {"window_shape": (2,), "strides": 1, "padding": 1, "dilations": 4}
    with pytest.raises(ValueError, match=dtype):
        jaxpool.max_pool_with_argmax(x, **hollow, data_format="W", index_dtype=dtype)
    taps = jaxpool.max_pool_with_argmax(
        x, **hollow, data_format="W", index_space="window", index_dtype=dtype
    )[1]
    assert taps.tolist() == [np.iinfo(dtype).max]


def test_tap_numbers_are_bytes_up_to_255_taps() -> None:
    x = jnp.arange(20.0 * 20).reshape(20, 20)
    for window, dtype in (((15, 17), "uint8"), ((16, 16), "int32"), ((1, 1), "uint8")):
        taps = jaxpool.max_pool_with_argmax(x, window, 1, data_format="HW", index_space="window")[1]
        assert taps.dtype == dtype
        np.testing.assert_array_equal(taps, math.prod(window) - 1)


def test_the_tables_above_name_every_dtype_once() -> None:
    names = list(itertools.chain(FLOATS, FLOAT8, INTEGERS, WIDE_INTEGERS))
    assert len(set(names)) == len(names) == 15


def test_averages_along_a_long_axis_divide_by_the_real_elements() -> None:
    """The counts of the inner windows are computed differently from those at the ends."""
    x = np.random.default_rng(0).permutation(3000).astype(np.float32)
    words: dict[str, Any] = {"count_include_pad": False, "data_format": "W"}
    y = jaxpool.avg_pool(x, 5, 1, ((3, 1),), **words)
    means = [x[max(o - 3, 0) : o + 2].astype(np.float64).mean() for o in range(3000)]
    np.testing.assert_allclose(y, means, rtol=1e-6)


@pytest.mark.parametrize("name", ["float6_e2m3fn", "float6_e3m2fn", "float8_e8m0fnu"])
def test_floats_that_the_compiler_cannot_compute_with_are_refused(name: str) -> None:
    """On CPU a maximum of six bits would terminate the process, and one of e8m0 would be NaN."""
    x = jax.ShapeDtypeStruct((1, *SPACE, 1), np.dtype(getattr(ml_dtypes, name)))
    for op in EVERY_OP.values():
        with pytest.raises(TypeError, match=rf": the array has dtype {name}\.(.|\n)*astype"):
            jax.eval_shape(op, x)
