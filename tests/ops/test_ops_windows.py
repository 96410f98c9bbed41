"""Windows as an axis, and order statistics: against loops, NumPy, and the maxima of the core."""

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import SHARED_CASES, Case, over_windows
from helpers import QUICK, assert_same, check_derivatives, error_lines, permutation
from peers import require

import jaxpool
from jaxpool._lowerings.ranks.sorting_network import sorted_lanes as in_network

pytestmark = pytest.mark.grid(6)

CASES = SHARED_CASES | {
    "3-D": Case(
        (1, 4, 5, 6, 2),
        {
            "window_shape": (2, 3, 2), "strides": (1, 2, 3), "padding": ((0, 1), (1, 0), (0, 0)),
            "dilations": (1, 1, 2),
        },
    ),
    "many": Case(
        (1, 13, 12, 1),
        {"window_shape": (9, 8), "strides": (2, 3), "padding": ((3, 2), (0, 4))},
    ),
    "very many": Case(
        (1, 6, 60, 1),
        {"window_shape": (4, 35), "strides": (2, 9), "padding": ((1, 0), (5, 3))},
    ),
    "very many rows": Case(
        (1, 60, 6, 1),
        {"window_shape": (35, 4), "strides": (9, 2), "padding": ((5, 3), (1, 0))},
    ),
    "groups": Case(
        (2, 11, 40, 2),
        {"window_shape": (3, 20), "strides": (3, 7), "padding": ((1, 2), (4, 9))},
    ),
    "many groups": Case(
        (1, 210, 2),
        {"window_shape": (150,), "strides": 4, "padding": ((5, 9),)},
    ),
    "apart": Case(
        (2, 13, 12, 3),
        {"window_shape": (2, 3), "strides": (4, 3), "padding": ((1, 3), (2, 1))},
    ),
    "one long": Case(
        (1, 210, 2),
        {"window_shape": (70,), "strides": 20, "padding": ((5, 9),), "dilations": 2},
    ),
}  # fmt: skip
STATISTICS: dict[str, Callable[..., jax.Array]] = {
    "median": jaxpool.median_pool,
    "rank 1": lambda x, *window, **words: jaxpool.rank_pool(x, 1, *window, **words),
    "rank -2": lambda x, *window, **words: jaxpool.rank_pool(x, -2, *window, **words),
}


def data(
    case: str, masked: bool, rng: np.random.Generator, dtype: Any = np.float32
) -> tuple[np.ndarray, Any]:
    """Return data with many ties."""
    shape = CASES[case].shape
    return rng.integers(0, 12, shape).astype(dtype), rng.random(shape) < 0.5 if masked else None


# --- windows -------------------------------------------------------------------------------------


def taps_of(x: np.ndarray, fill: float, where: Any, case: str) -> np.ndarray:
    """Return the windows by the definition, tap by tap, from an array padded on all sides."""
    window = CASES[case].window
    x = x if where is None else np.where(where, x, fill)
    geometry = jaxpool.geometry(x.shape[1:-1], **window)
    ends = [(a.pad_low, max(a.overshoot, 0)) for a in geometry.axes]
    padded = np.pad(x, [(0, 0), *ends, (0, 0)], constant_values=fill)
    parts = []
    for tap in itertools.product(*map(range, window["window_shape"])):
        lines = (
            np.arange(a.out) * a.stride + t * a.dilation
            for a, t in zip(geometry.axes, tap, strict=True)
        )
        index: Any = np.ix_(*map(np.asarray, (range(x.shape[0]), *lines, range(x.shape[-1]))))
        parts.append(padded[index])
    return np.stack(parts, -1)


@pytest.mark.parametrize(
    ("case", "masked"),
    [
        ("1-D", True),
        ("2-D", True),
        ("3-D", False),
        ("many", True),
        ("very many rows", False),
        ("one long", False),
        ("groups", True),
        ("many groups", False),
        ("apart", True),
        ("ceil", False),
    ],
)
def test_taps_are_those_of_the_definition(
    case: str, masked: bool, rng: np.random.Generator
) -> None:
    x, where = data(case, masked, rng)
    got = jaxpool.windows(x, **CASES[case].window, fill=-7, where=where)
    assert_same(got, taps_of(x, -7, where, case), case)


@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4"])
@pytest.mark.parametrize("case", ["3-D", "many"])
def test_windows_of_integers_of_less_than_a_byte(
    case: str, dtype: str, rng: np.random.Generator
) -> None:
    """More than 16 taps of two bits terminated the process on CPU."""
    limits, shape = jnp.iinfo(dtype), CASES[case].shape
    x = rng.integers(int(limits.min), int(limits.max), shape, endpoint=True, dtype=np.int8)
    got = jaxpool.windows(jnp.asarray(x).astype(dtype), **CASES[case].window, fill=1)
    assert got.dtype == dtype
    assert_same(got.astype(jnp.int8), taps_of(x, 1, None, case), case)


def test_functions_of_windows_are_the_ops(rng: np.random.Generator) -> None:
    x = permutation((2, 9, 8, 3), np.float32, rng)
    window = {"window_shape": (3, 2), "strides": (2, 3), "padding": 1}
    taps = jaxpool.windows(x, **window)
    assert_same(taps.sum(-1), jaxpool.sum_pool(x, **window), "sum", ulps=2)
    inside = jaxpool.windows(np.ones_like(x), **window).sum(-1)
    assert_same(
        taps.sum(-1) / inside, jaxpool.avg_pool(x, **window, count_include_pad=False), "avg", ulps=2
    )
    low = jaxpool.windows(x, **window, fill=-np.inf)
    assert_same(low.max(-1), jaxpool.max_pool(x, **window), "max")
    values, taps = jaxpool.max_pool_with_argmax(x, **window, index_space="window")
    assert_same(low.argmax(-1).astype(np.uint8), taps, "argmax")
    first = jaxpool.windows(x.transpose(0, 3, 1, 2), (3, 2), (2, 3), 1, data_format="NCHW")
    assert_same(
        first, np.moveaxis(np.asarray(jaxpool.windows(x, **window)), 3, 1), "channels_first"
    )
    assert values.shape == low.shape[:-1]


@pytest.mark.parametrize(
    ("reduction", "kernel"), [("sum", (7, 7)), ("max", (3, 3)), ("min", (1, 60))]
)
def test_windows_that_feed_a_reduction_are_not_made(reduction: str, kernel: Any) -> None:
    x = jnp.zeros((2, 16, 64, 8))
    taps = jax.eval_shape(lambda x: jaxpool.windows(x, kernel, 1), x)
    reduced = jax.jit(lambda x: getattr(jaxpool.windows(x, kernel, 1), reduction)(-1))
    memory = reduced.lower(x).compile().memory_analysis()
    assert memory is not None and memory.temp_size_in_bytes < taps.size * 4 / 20


def test_the_program_grows_with_the_root_of_a_long_window() -> None:
    def length(kernel: int) -> int:
        lowered = jax.jit(lambda x: jaxpool.windows(x, (kernel,), 1)).lower(jnp.zeros((4000, 2)))
        return len(lowered.as_text().splitlines())

    assert length(2000) < 4 * length(100)


def test_windows_that_do_not_overlap_are_a_reshape() -> None:
    """Also of many taps, and in the gradient."""
    x, patches = jnp.zeros((2, 96, 64, 3)), functools.partial(jaxpool.windows, strides=(32, 16))
    text = jax.jit(jax.value_and_grad(lambda x: patches(x, (32, 16)).std(-1).sum())).lower(x)
    assert "reshape" in text.as_text()
    for operation in ("concatenate", "slice", "pad"):
        assert f"stablehlo.{operation}" not in text.as_text()


@pytest.mark.parametrize("kernel", [(40,), (8,)])
def test_no_slice_has_a_stride(kernel: tuple[int]) -> None:
    """Its transpose is slow, and XLA partitions it wrongly."""
    f = jax.grad(lambda x: jnp.square(jaxpool.windows(x, kernel, 5, 3)).sum())
    slices = re.findall(
        r"stablehlo\.slice %\S+ (\[.*?\])", jax.jit(f).lower(jnp.zeros((2, 60, 3))).as_text()
    )
    assert slices and not any(re.search(r":\d+:", slice_text) for slice_text in slices)


@pytest.mark.parametrize("case", ["2-D", "many", "groups", "apart", "one long"])
def test_windows_are_linear(case: str, rng: np.random.Generator) -> None:
    x, _ = data(case, False, rng)
    taps = functools.partial(jaxpool.windows, **CASES[case].window, fill=3)
    v = rng.integers(-9, 9, x.shape).astype(np.float32)
    y, forward = jax.jvp(taps, (x,), (v,))
    u = rng.integers(-9, 9, y.shape).astype(np.float32)
    back = jax.jit(lambda u: jax.vjp(taps, jnp.asarray(x))[1](u)[0])
    assert np.vdot(forward, u) == np.vdot(v, back(u)) != 0
    assert "scatter" not in back.lower(u).as_text()


def test_a_maximum_of_windows_divides_the_gradient_among_ties() -> None:
    """The documentation recommends it for the derivative of ``jnp.max``."""
    x = jnp.asarray([[1.0], [3.0], [3.0], [0.0], [-2.0]])
    maxima = lambda x: jaxpool.windows(x, (3,), 2, "SAME", fill=-jnp.inf).max(-1)  # noqa: E731
    weights = jnp.asarray([[8.0], [10.0], [6.0]])
    gradient = jax.grad(lambda x: (maxima(x) * weights).sum())(x)
    np.testing.assert_array_equal(gradient[:, 0], [0, 8 + 5, 5, 6, 0])


def test_torch_unfolds_the_same_windows(rng: np.random.Generator) -> None:
    torch: Any = require("torch")
    x = permutation((2, 3, 7, 9), np.float32, rng)
    window: dict[str, Any] = {"stride": (2, 3), "padding": (1, 0), "dilation": (1, 2)}
    want = torch.nn.functional.unfold(torch.tensor(x), (3, 2), **window).numpy()
    got = jaxpool.windows(x, (3, 2), (2, 3), ((1, 1), (0, 0)), dilations=(1, 2), data_format="NCHW")
    blocks = np.moveaxis(np.asarray(got), -1, 2).reshape(2, 18, -1)
    assert_same(blocks, want, "unfold")


# --- order statistics ----------------------------------------------------------------------------


def ranked(elements: Iterable[float], rank: int) -> float:
    ordered = sorted(elements)
    if not ordered:
        return math.inf if rank >= 0 else -math.inf
    return ordered[min(rank, len(ordered) - 1)] if rank >= 0 else ordered[max(rank, -len(ordered))]


@pytest.mark.parametrize(
    ("case", "masked"),
    [("2-D", True), ("3-D", False), ("very many", True), ("ceil", False)],
)
def test_order_statistics_are_those_of_the_definition(
    case: str, masked: bool, rng: np.random.Generator
) -> None:
    x, where = data(case, masked, rng)
    window = CASES[case].window
    want = over_windows(lambda c: np.median(c) if len(c) else 0, x, where, **window)
    got = jaxpool.median_pool(x, **window, where=where)
    assert_same(got, want.astype(np.float32), case)
    for rank in (1, -2) if masked else (1,):
        want = over_windows(lambda c, r=rank: ranked(c, r), x, where, **window)
        got = jaxpool.rank_pool(x, rank, **window, where=where)
        assert_same(got, want.astype(np.float32), (case, rank))


@pytest.mark.parametrize(
    ("dtype", "masked"),
    [("int8", False), ("bool", True), ("bfloat16", True)],
)
def test_the_ends_are_minimum_and_maximum(
    dtype: str, masked: bool, rng: np.random.Generator
) -> None:
    x, where = data("2-D", masked, rng, np.dtype(dtype))
    window = CASES["2-D"].window | {"where": where}
    assert_same(jaxpool.rank_pool(x, 0, **window), jaxpool.min_pool(x, **window), dtype)
    assert_same(jaxpool.rank_pool(x, -1, **window), jaxpool.max_pool(x, **window), dtype)


@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4", "int8", "uint8", "int32"])
def test_integer_medians_are_exact_and_round_half_to_even(
    dtype: str, rng: np.random.Generator
) -> None:
    limits = jnp.iinfo(dtype)
    x = rng.integers(int(limits.min), int(limits.max), 200, endpoint=True)
    x[:4] = limits.max, limits.max - 1, limits.min, limits.min
    got = jaxpool.median_pool(jnp.asarray(x, dtype), 2, 1, data_format="W")
    want = [round((a + b) / 2) for a, b in itertools.pairwise(x.tolist())]
    assert_same(got, np.array(want).astype(jnp.dtype(dtype)), dtype)


def test_means_of_large_floats_do_not_overflow() -> None:
    for dtype in (np.float32, np.float16):
        most = np.finfo(dtype).max
        got = jaxpool.median_pool(np.array([most, most], dtype), 2, 1, data_format="W")
        assert_same(got, np.array([most]), dtype)


@pytest.mark.parametrize(("taps", "name"), [(3, "median"), (3, "rank -2"), (130, "rank 1")])
def test_nan_gives_nan_at_every_rank(taps: int, name: str) -> None:
    x = np.arange(taps + 1, dtype=np.float32)
    x[1] = np.nan
    pool = functools.partial(STATISTICS[name], window_shape=taps, strides=1, data_format="W")
    assert not np.isnan(pool(x, where=~np.isnan(x))).any()
    y, back = jax.vjp(pool, jnp.asarray(x))
    assert np.isnan(y).all()
    np.testing.assert_array_equal(back(jnp.ones(2))[0], 2 * np.eye(taps + 1)[1])


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_the_network_sorts_everything(count: int) -> None:
    """By the zero-one principle: a network that sorts zeros and ones sorts all numbers."""
    rows = np.array(list(itertools.product([0, 1], repeat=count)), np.int8)
    lanes = in_network([jnp.asarray(column) for column in rows.T])
    np.testing.assert_array_equal(np.stack(lanes, -1), np.sort(rows, -1))


@pytest.mark.parametrize(
    ("name", "case"),
    [("median", "2-D"), ("rank 1", "very many"), ("rank -2", "2-D")],
)
def test_gradients_go_to_the_first_element_of_the_value(
    name: str, case: str, rng: np.random.Generator
) -> None:
    x, where = data(case, True, rng)
    pool = functools.partial(STATISTICS[name], **CASES[case].window, where=where)
    y = np.asarray(pool(x))
    g = rng.integers(1, 9, y.shape).astype(np.float32)
    got = jax.vjp(pool, jnp.asarray(x))[1](g)[0]
    assert_same(got, first_elements(name, x, where, g, case), name)


def first_elements(
    name: str, x: np.ndarray, where: np.ndarray, g: np.ndarray, case: str
) -> np.ndarray:
    """Return the gradient by loops over windows of positions instead of values."""
    gradient = np.zeros_like(x)
    places = np.arange(x.size).reshape(x.shape)
    flat, out = x.ravel(), iter(g.ravel())

    def scatter(elements: np.ndarray) -> int:
        cotangent = next(out)
        values = sorted(flat[elements]) if len(elements) else []
        count = len(values)
        if name == "median" and values:
            wanted = [values[(count - 1) // 2], values[count // 2]]
        elif values:
            wanted = [ranked(values, int(name.split()[1]))] * 2
        else:
            wanted = []
        for value in wanted:
            first = next(element for element in elements if flat[element] == value)
            gradient.ravel()[first] += cotangent / 2
        return 0

    over_windows(scatter, places, where, **CASES[case].window)
    return gradient


@pytest.mark.parametrize("name", ["median", "rank -2"])
def test_both_modes_agree_with_finite_differences_to_order_two(
    name: str, rng: np.random.Generator
) -> None:
    with jax.enable_x64(True):
        x = jnp.asarray(permutation(CASES["1-D"].shape, np.float64, rng))
        where = np.asarray(x) % 5 > 0
        pool = lambda x: STATISTICS[name](x, **CASES["1-D"].window, where=where) ** 2  # noqa: E731
        assert np.isfinite(pool(x)).all()
        check_derivatives(pool, x, rng=rng, eps=1e-3)


def test_medians_keep_a_byte_for_each_middle_element() -> None:
    x = jnp.zeros((2, 20, 20, 4))
    y, back = jax.vjp(lambda x: jaxpool.median_pool(x, (3, 3), 1), x)
    kept = [leaf for leaf in jax.tree.leaves(back) if hasattr(leaf, "nbytes") and leaf.nbytes > 64]
    assert [(leaf.dtype, leaf.shape) for leaf in kept] == [(np.uint8, y.shape)]


# --- transformations, sizes, errors --------------------------------------------------------------


def test_vmap_and_ranks_that_may_not_be_promoted(rng: np.random.Generator) -> None:
    x = permutation((3, 7, 6, 2), np.float32, rng)
    pool = functools.partial(jaxpool.median_pool, window_shape=(2, 2), strides=1)
    gradient = jax.grad(lambda x: (pool(x, where=x > -50) ** 2).sum())
    one = jax.jit(gradient, compiler_options=QUICK)
    each = jnp.stack([one(x[n]) for n in range(3)])
    with jax.numpy_rank_promotion("raise"):
        assert_same(jax.jit(jax.vmap(gradient), compiler_options=QUICK)(x), each, "median")
        taps = jax.vmap(lambda x: jaxpool.windows(x, (2, 3), 1, where=x > 0))(x)
    assert_same(taps, jaxpool.windows(x, (2, 3), 1, where=x > 0), "windows")


@pytest.mark.parametrize("shape", [(0, 5, 3), (2, 5, 0)])
def test_empty_results(shape: tuple[int, ...]) -> None:
    x = jnp.zeros(shape)
    out = (shape[0], 4, shape[2])
    assert jaxpool.windows(x, (2,), 1).shape == (*out, 2)
    assert jaxpool.median_pool(x, (2,), 1).shape == jaxpool.rank_pool(x, 1, (2,), 1).shape == out
    assert jax.grad(lambda x: jaxpool.median_pool(x, (2,), 1).sum())(x).shape == shape


@pytest.mark.parametrize("fill", [0, -1.5, np.float32(2), np.inf, float("nan"), True])
def test_fills(fill: Any) -> None:
    x = jnp.ones((2, 1), jnp.bfloat16)
    y = jaxpool.windows(x, (2,), 2, 1, fill=fill)
    assert y.dtype == jnp.bfloat16
    np.testing.assert_array_equal(np.asarray(y[:, 0], float)[0, 0], float(fill))


def test_large_whole_fills_of_floats() -> None:
    assert (
        float(jaxpool.windows(jnp.ones((1, 1), "bfloat16"), (2,), 1, 1, fill=2**70)[0, 0, 0])
        == 2**70
    )


@pytest.mark.parametrize("first", [0.0, -0.0])
def test_signed_zeros_are_two_fills(first: float) -> None:
    x = jnp.ones((2, 1))
    for fill in (first, -first):
        padded = jaxpool.windows(x, (2,), 2, 1, fill=fill)[0, 0, 0]
        assert math.copysign(1, padded.item()) == math.copysign(1, fill)


X = np.zeros((2, 9, 6, 3), np.float32)
ERRORS: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("windows", {"fill": "0"}, TypeError, "`fill` = '0' is not a real number"),
    ("windows", {"fill": None}, TypeError, "`fill` = None is not a real number"),
    ("windows", {"fill": 1j}, TypeError, r"`fill` = 1j is not a real number"),
    ("windows", {"fill": jnp.ones(3)}, TypeError, "is not a real number"),
    ("windows", {"fill": 0.5, "x": X.astype(np.int8)}, ValueError, "0.5 is not a value of int8"),
    ("windows", {"fill": 200, "x": X.astype(np.int8)}, ValueError, "200 is not a value of int8"),
    ("windows", {"fill": np.inf, "x": X.astype(np.int8)}, ValueError, "inf is not a value of int8"),
    ("windows", {"fill": np.nan, "x": X.astype(np.int8)}, ValueError, "nan is not a value of int8"),
    ("windows", {"fill": 2, "x": X > 0}, ValueError, "2 is not a value of bool"),
    ("windows", {"fill": 1e6, "x": X.astype(np.float16)}, ValueError, "not a value of float16"),
    ("windows", {"fill": 10**400}, ValueError, "is not a value of float32"),
    ("windows", {"fill": np.inf, "x": jnp.asarray(X, "float8_e4m3fn")}, ValueError, "not a value"),
    ("windows", {"fill": np.nan, "x": jnp.asarray(X, "float4_e2m1fn")}, ValueError, "not a value"),
    ("windows", {"x": X.astype(complex)}, TypeError, "dtype complex"),
    ("windows", {"where": X}, TypeError, "`where` has dtype float32"),
    ("windows", {"window_shape": 2}, TypeError, "does not say how many axes"),
    ("median_pool", {"x": X > 0}, TypeError, "is boolean"),
    ("median_pool", {"x": X.astype(complex)}, TypeError, "dtype complex"),
    ("median_pool", {"strides": 0}, ValueError, "`strides` contains 0"),
    ("median_pool", {"where": X}, TypeError, "`where` has dtype float32"),
    ("rank_pool", {"rank": 4}, ValueError, "`rank` = 4 is out of range"),
    ("rank_pool", {"rank": -5}, ValueError, "`rank` = -5 is out of range"),
    ("rank_pool", {"rank": 1.0}, TypeError, "`rank` contains 1.0, which is not an integer"),
    ("rank_pool", {"where": X}, TypeError, "`where` has dtype float32"),
]


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: f"{case[0]} {case[3]}")
def test_bad_calls(case: tuple[str, dict[str, Any], type[Exception], str]) -> None:
    op, settings, error, pattern = case
    call = {"x": X, "window_shape": (2, 2), "strides": 2} | settings
    if op == "rank_pool":
        call = {"rank": 0} | call
    lines = error_lines(op, error, lambda: getattr(jaxpool, op)(**call))
    assert re.search(pattern, lines[0]), lines
