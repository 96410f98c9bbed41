"""The tests can fail: comparisons reject wrong results, and the oracle agrees with hand results."""

import dataclasses
import doctest
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from differential import Answer, Case, check, compare, expected, traced
from golden import agrees
from helpers import assert_same, check_derivatives, permutation

import jaxpool
from jaxpool import testing
from jaxpool.testing import NAMED_CASES, oracle_argmax, oracle_gradient, oracle_pool

# --- assert_same ----------------------------------------------------------------------------------

NAN = np.nan
RIGHT = np.array([[1.0, NAN, -0.0], [np.inf, 2.0, 3.0]], np.float32)


def changed(index: tuple[int, int], value: float) -> np.ndarray:
    x = RIGHT.copy()
    x[index] = value
    return x


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (changed((1, 1), 2.0000002), r"first at \(1, 1\): 2.0000002\d*, not 2.0"),
        (changed((0, 1), 7.0), r"first at \(0, 1\): 7.0, not nan"),
        (changed((0, 0), NAN), r"first at \(0, 0\): nan, not 1.0"),
        (changed((1, 0), -np.inf), r"1 of 6 elements differ, first at \(1, 0\): -inf, not inf"),
        (changed((1, 0), 3e38), r"first at \(1, 0\)"),
        (RIGHT[:, :2], r"shape is \(2, 2\), not \(2, 3\)"),
        (RIGHT.astype(np.float64), "dtype is float64, not float32"),
        (RIGHT.T, r"shape is \(3, 2\)"),
    ],
)
def test_assert_same_rejects(wrong: np.ndarray, message: str) -> None:
    with pytest.raises(AssertionError, match=message) as caught:
        assert_same(wrong, RIGHT, "the case")
    assert str(caught.value).startswith("the case\n")


@pytest.mark.parametrize("dtype", ["int8", "bool", "bfloat16", "uint32"])
def test_assert_same_rejects_one_wrong_element_of_any_dtype(dtype: str) -> None:
    right = np.array([0, 1, 1, 0]).astype(jnp.dtype(dtype))
    wrong = np.array([0, 1, 0, 0]).astype(jnp.dtype(dtype))
    assert_same(right, right.copy(), "same")
    with pytest.raises(AssertionError, match=r"first at \(2,\)"):
        assert_same(wrong, right, "wrong", ulps=9 if dtype == "bfloat16" else 0)


def test_assert_same_accepts() -> None:
    assert_same(changed((0, 2), 0.0), RIGHT, "zeros of both signs, NaN in the same place")
    assert_same(changed((1, 1), 2.0000002), RIGHT, "an ulp of the largest number", ulps=1)
    with pytest.raises(AssertionError):
        assert_same(changed((1, 1), 2.000002), RIGHT, "eight of them", ulps=1)


def test_permutation_holds_different_integers(rng: np.random.Generator) -> None:
    x = permutation((3, 4, 5), np.int8, rng)
    assert sorted(x.ravel().tolist()) == list(range(-30, 30))
    assert permutation((3, 4), np.uint8, rng).min() == 0
    with pytest.raises(ValueError, match="does not hold 600 different integers"):
        permutation((20, 30), jnp.bfloat16, rng)


def floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_check_derivatives_rejects_a_derivative_of_either_order(
    order: int, rng: np.random.Generator
) -> None:
    """A cube with an error of 0.1 % in the first derivative, in the second, or in none."""

    @jax.custom_jvp
    def slope(x: jax.Array) -> jax.Array:
        return 3 * x**2

    @slope.defjvp
    def _(primals, tangents):
        return slope(*primals), (6.006 if order == 2 else 6) * primals[0] * tangents[0]

    @jax.custom_jvp
    def cube(x: jax.Array) -> jax.Array:
        return x**3

    @cube.defjvp
    def _(primals, tangents):
        return cube(*primals), (1.001 if order == 1 else 1) * slope(*primals) * tangents[0]

    with jax.enable_x64(True):
        x = jnp.asarray(rng.uniform(1, 2, 3))
        if not order:
            return check_derivatives(cube, x, rng=rng)
        name = "forward: " if order == 1 else "forward of forward: "
        with pytest.raises(AssertionError, match=f"^{name}"):
            check_derivatives(cube, x, rng=rng)


def test_golden_comparison_rejects() -> None:
    assert agrees(floats(1, NAN), floats(1, NAN))
    assert agrees(floats(1 / 3), floats(1 / 3 + 3e-8))
    assert not agrees(floats(1 / 3), floats(0.3333339))
    assert not agrees(floats(1, NAN), floats(1, 2))
    assert not agrees(floats(-np.inf), floats(-3.4028235e38))
    assert not agrees(np.array([16777217], np.int32), floats(16777216))
    assert not agrees(floats(1), floats(1)[None])


# --- the differential test catches the mistakes that pooling code makes ---------------------------

PLAIN = Case(
    op="max_pool_with_argmax",
    shape=(2, 7, 6, 3),
    window=(3, 2),
    strides=(2, 1),
    padding=((2, 1), (0, 1)),
    dilations=(1, 2),
    seed=1,
)
AVERAGE = dataclasses.replace(PLAIN, op="avg_pool", rounding="ceil", strides=(3, 2))
MASKED = dataclasses.replace(PLAIN, mask=(7, 6, 1))
MASKED_AVERAGE = dataclasses.replace(AVERAGE, mask=(2, 7, 6, 3))
TIES = dataclasses.replace(PLAIN, data="ties")

# The mistake -> (the case, the case that the faulty code would compute).
FAULTS: dict[str, tuple[Case, dict[str, Any]]] = {
    "padding swapped end for end": (PLAIN, {"padding": ((1, 2), (1, 0))}),
    "padding of the axes swapped": (PLAIN, {"padding": ((0, 1), (2, 1))}),
    "window axes swapped": (PLAIN, {"window": (2, 3)}),
    "stride axes swapped": (PLAIN, {"strides": (1, 2)}),
    "dilation ignored": (PLAIN, {"dilations": (1, 1)}),
    "dilation of the axes swapped": (PLAIN, {"dilations": (2, 1)}),
    "ceil taken for floor": (AVERAGE, {"rounding": "floor"}),
    "minimum for maximum": (dataclasses.replace(PLAIN, op="max_pool"), {"op": "min_pool"}),
    "sum for average": (AVERAGE, {"op": "sum_pool"}),
    "padding counted though excluded": (
        dataclasses.replace(AVERAGE, count_include_pad=False),
        {"count_include_pad": True},
    ),
    "divisor_override forgotten": (
        dataclasses.replace(AVERAGE, divisor_override=7),
        {"divisor_override": None},
    ),
    "mask forgotten": (MASKED, {"mask": None}),
    "mask forgotten in an average": (MASKED_AVERAGE, {"mask": None}),
    "channels taken for space": (PLAIN, {"data_format": "channels_first", "shape": (2, 7, 6, 3)}),
    "index counted from the batch axis": (PLAIN, {"index_space": 0}),
    "tap number for position": (PLAIN, {"index_space": "window"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_setting_is_caught(fault: str) -> None:
    case, change = FAULTS[fault]
    right = expected(case)
    compare(case, right, right)
    with pytest.raises(AssertionError) as caught:
        compare(case, expected(dataclasses.replace(case, **change)), right)
    assert f"check([{case!r}])" in str(caught.value)


def last_tie(x: np.ndarray) -> np.ndarray:
    """Return maxima of reversed windows, whose argmax is the last of equal elements."""
    return x[:, ::-1, ::-1]


def test_the_last_of_equal_elements_is_caught() -> None:
    """Values are equal, but indices and gradient differ."""
    case = dataclasses.replace(TIES, padding="VALID", strides=(1, 1))
    right = expected(case)
    x, cotangent = case.array(), case.cotangent(right.values.shape)
    words: dict[str, Any] = {"dilations": case.dilations}
    values, _, positions = oracle_argmax(last_tie(x), (3, 2), 1, **words)
    row, column = (last_tie(positions[..., axis]) for axis in (0, 1))
    indices = ((6 - row) * 6 + (5 - column)).astype(np.int32)
    gradient = last_tie(
        oracle_gradient(last_tie(x), last_tie(cotangent), "max", (3, 2), 1, **words)
    ).astype(np.float32)
    wrong = Answer(last_tie(values), indices, gradient)
    assert_same(wrong.values, right.values, "values")
    with pytest.raises(AssertionError, match="^indices of"):
        compare(case, wrong, right)
    with pytest.raises(AssertionError, match="^gradient of"):
        compare(case, dataclasses.replace(wrong, indices=right.indices), right)


def test_a_zero_that_pads_is_caught() -> None:
    case = dataclasses.replace(PLAIN, op="max_pool", dtype="float32", data="lowest")
    right = expected(case)
    wrong = dataclasses.replace(right, values=np.maximum(right.values, 0))
    with pytest.raises(AssertionError, match="^values of"):
        compare(case, wrong, right)


def dense(pool: Callable[..., Any]) -> Callable[..., Any]:
    """Return the op without dilation, except in the size of its output."""

    def faulty(x: Any, window: Any, strides: Any, padding: Any, **words: Any) -> Any:
        right = pool(x, window, strides, padding, **words)
        wrong = pool(x, window, strides, padding, **(words | {"dilations": 1}))
        return wrong[tuple(slice(size) for size in right.shape)]

    return faulty


def doubled(pool: Callable[..., Any]) -> Callable[..., Any]:
    """Return the op with right values, and a gradient that is twice too large."""

    def faulty(x: Any, *window: Any, **words: Any) -> Any:
        y = pool(x, *window, **words)
        return y + (y - jax.lax.stop_gradient(y))

    return faulty


@pytest.mark.parametrize(
    ("fault", "part"), [(dense, "values"), (doubled, "gradient")], ids=["dense", "doubled"]
)
def test_a_faulty_library_is_caught(
    fault: Callable[..., Any], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The full path, from the call to the message that names the case."""
    case = dataclasses.replace(PLAIN, op="max_pool")
    fine = dataclasses.replace(case, op="sum_pool")
    check([fine, case])
    monkeypatch.setattr(jaxpool, "max_pool", fault(jaxpool.max_pool))
    with pytest.raises(AssertionError, match=f"^{part} of check") as caught:
        check([fine, case])
    assert repr(case) in str(caught.value)


def test_the_name_of_a_case_is_code() -> None:
    for case in (PLAIN, AVERAGE, MASKED, dataclasses.replace(TIES, index_space=-2)):
        assert eval(repr(case), {"Case": Case}) == case


def test_an_error_names_its_case() -> None:
    case = dataclasses.replace(PLAIN, strides=(0, 1))
    arrays = (PLAIN.array(), None, None)
    with pytest.raises(ValueError) as caught:
        traced(case, *arrays)
    assert f"check([{case!r}])" in caught.value.__notes__


# --- the oracle, by hand --------------------------------------------------------------------------


def row(op: str, numbers: Any, *window: Any, dtype: Any = np.float32, **words: Any) -> np.ndarray:
    """Return the oracle over a vector."""
    return oracle_pool(np.array(numbers, dtype), op, *window, spatial_axes=(0,), **words)


def test_oracle_doctest() -> None:
    found = doctest.testmod(testing, extraglobs={"np": np})
    assert found.attempted >= 5 and not found.failed


def test_oracle_averages_over_padding_and_overhang() -> None:
    """1..6, K=3 S=2, pads 1: the last window is 5, 6, padding; with ceil one of 6, two outside."""
    x = [1, 2, 3, 4, 5, 6]
    assert row("avg", x, (3,), 2, 1, rounding="ceil").tolist() == [1, 3, 5, 3]
    excluded = row("avg", x, (3,), 2, 1, rounding="ceil", count_include_pad=False)
    assert excluded.tolist() == [1.5, 3, 5, 6]
    assert row("avg", x, (3,), 2, 1, rounding="ceil", divisor_override=-3).tolist() == [
        -1, -3, -5, -2,
    ]  # fmt: skip
    mask = np.array([True, True, True, True, True, False])
    masked = row("avg", x, (3,), 2, 1, rounding="ceil", where=mask)
    assert masked.tolist() == [1, 3, 4.5, 0]  # padded taps count, the masked element does not


def test_oracle_empty_windows() -> None:
    words: dict[str, Any] = {"rounding": "ceil"}
    window = ((2,), 4, ((0, 1),))
    assert row("max", [1, 2, 3, 4], *window, **words).tolist() == [2, -np.inf]
    assert row("min", [1, 2, 3, 4], *window, **words).tolist() == [1, np.inf]
    assert row("max", [1, 2, 3, 4], *window, dtype=np.int8, **words).tolist() == [2, -128]
    assert row("min", [1, 2, 3, 4], *window, dtype=np.uint8, **words).tolist() == [1, 255]
    assert row("max", [0, 1, 1, 1], *window, dtype=bool, **words).tolist() == [True, False]
    assert row("avg", [1, 2, 3, 4], *window, count_include_pad=False, **words).tolist() == [1.5, 0]
    assert row("sum", [1, 2, 3, 4], *window, **words).tolist() == [3, 0]


def test_oracle_integers() -> None:
    halves = row("avg", [1, 2, 2, 3, 3, 4, -1, -2, -2, -3], (2,), 2, dtype=np.int8)
    assert halves.tolist() == [2, 2, 4, -2, -2] and halves.dtype == np.int8
    assert row("avg", [2**30] * 4, (4,), 1, dtype=np.int32).tolist() == [2**30]
    assert row("avg", [-128], (1,), 1, divisor_override=-1, dtype=np.int8).tolist() == [127]
    for dtype, result in [("int8", "int32"), ("uint8", "uint32"), ("bool", "int32")]:
        total = row("sum", [1, 1, 1], (3,), 1, dtype=dtype)
        assert total.tolist() == [3] and total.dtype == result
    assert row("sum", [2**31 - 1, 1], (2,), 1, dtype=np.int32).tolist() == [-(2**31)]
    assert row("sum", [100] * 3, (3,), 1, dtype=np.int8).tolist() == [300]


@pytest.mark.parametrize(("dtype", "low"), [(jnp.int4, -8), (jnp.uint4, 0)])
def test_oracle_integers_of_four_bits(dtype: Any, low: int) -> None:
    """Their kind in NumPy is that of the narrow floats."""
    numbers, window = [low + 12, low + 15, low + 14], ((2,), 1, ((2, 0),))
    assert row("max", numbers, *window, dtype=dtype).tolist() == [low, *np.add([12, 15, 15], low)]
    assert row("min", numbers, *window, dtype=dtype)[0] == low + 15
    sums = row("sum", numbers, *window, dtype=dtype)
    assert sums.dtype == ("int32" if low else "uint32")
    assert sums.tolist() == [0, low + 12, 2 * low + 27, 2 * low + 29]
    averages = row("avg", numbers, *window, dtype=dtype, count_include_pad=False)
    assert averages.dtype == dtype and averages.tolist() == [0, *np.add([12, 14, 14], low)]


@pytest.mark.parametrize("dtype", [jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.bfloat16])
def test_oracle_empty_windows_of_narrow_floats(dtype: Any) -> None:
    low, high = (float(row(op, [1.0], (1,), 1, ((1, 0),), dtype=dtype)[0]) for op in ("max", "min"))
    greatest = 448.0 if dtype == jnp.float8_e4m3fn else np.inf
    assert (low, high) == (-greatest, greatest)


def test_oracle_narrow_floats_are_added_wide() -> None:
    assert row("avg", [60000] * 4, (4,), 1, dtype=np.float16).tolist() == [60000]
    assert row("sum", [60000] * 4, (4,), 1, dtype=np.float16).tolist() == [np.inf]
    ones = row("avg", np.ones(1024), (1024,), 1, dtype=jnp.bfloat16)
    assert ones.tolist() == [1] and ones.dtype == jnp.bfloat16


def test_oracle_selects_the_first_nan_and_the_first_tie() -> None:
    for numbers, tap in [
        ([NAN, 1, NAN, 2], 0),
        ([1, NAN, 5, NAN], 1),
        ([1, 3, 3, 2], 1),
        ([-0.0, 0.0, -0.0, 0.0], 0),
        ([-np.inf] * 4, 0),
    ]:
        x = np.array(numbers, np.float32)
        values, taps, positions = oracle_argmax(x, (4,), 1, spatial_axes=(0,))
        assert (taps.tolist(), positions.tolist()) == ([tap], [[tap]])
        np.testing.assert_array_equal(values, x[tap : tap + 1])


def test_oracle_gradient_never_leaves_the_array() -> None:
    """All -inf, pads 1: the four windows of two give 2, 1 and 1 to the three elements."""
    x = np.full(3, -np.inf, np.float32)
    assert oracle_gradient(x, np.ones(4), "max", (2,), 1, 1, spatial_axes=(0,)).tolist() == [
        2,
        1,
        1,
    ]
    x = np.arange(1, 7, dtype=np.float32)
    shares = oracle_gradient(x, np.ones(3), "avg", (3,), 2, 1, spatial_axes=(0,))
    np.testing.assert_allclose(shares, np.array([1, 2, 1, 2, 1, 1]) / 3)


# --- the named cases ------------------------------------------------------------------------------


def test_named_cases_have_names_and_sources() -> None:
    assert len({case.name for case in NAMED_CASES}) == len(NAMED_CASES) >= 21
    assert all(len(case.source) > 20 for case in NAMED_CASES)
    assert {len(case.window) for case in NAMED_CASES} == {1, 2, 3}


@pytest.mark.grid(3)
@pytest.mark.parametrize("case", NAMED_CASES, ids=lambda case: case.name)
def test_named_cases_run(case: testing.NamedCase) -> None:
    """Their settings are those of the public function; batch and channels stay."""
    op = getattr(jaxpool, case.op)
    x = jax.ShapeDtypeStruct(case.shape, jnp.float32)
    got = jax.eval_shape(lambda x: op(x, **case.settings), x)
    keep = {"alexnet-pool1": 27, "resnet-stem": 56, "googlenet-pool1": 56, "yolo-spp-13": 20}
    assert (got.shape[0], got.shape[-1]) == (case.shape[0], case.shape[-1])
    assert got.shape[1] == keep.get(case.name, got.shape[1])
    words = {name: case.settings[name] for name in ("rounding", "dilations")}
    window = (case.window, case.strides, case.padding)
    assert got.shape == jaxpool.output_shape(case.shape, *window, **words)
