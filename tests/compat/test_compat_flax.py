"""Flax's front end: a drop-in replacement of the pools of the installed ``flax.linen``."""

import functools
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import peers
import pytest
from golden import CASES, agrees, read
from helpers import assert_same, permutation
from jax import lax

from jaxpool.compat import flax as ours

peers.require("flax")
from flax.linen import pooling  # noqa: E402


def as_flax_needs(function: Callable) -> Callable:
    """Return a function with promotion of dtypes, which this suite forbids, but Flax needs."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with jax.numpy_dtype_promotion("standard"):
            return function(*args, **kwargs)

    return run


FUNCTIONS = ("max_pool", "min_pool", "avg_pool", "pool")
theirs = SimpleNamespace(**{name: as_flax_needs(getattr(pooling, name)) for name in FUNCTIONS})
RECORDED = {name: case["runs"]["flax"] for name, case in CASES.items() if "flax" in case["runs"]}

# Recorded parts for which the front end has a better result: the reason, and the result.
BETTER: dict[tuple[str, str], tuple[str, list[float]]] = {
    ("avg_int8_halves", "values"): (
        "the sum wraps", [1.5, 2.5, 3.5, -1.5, -2.5, -3.5, 126.5, -127.5, 5.5],
    ),
    ("avg_uint8_halves", "values"): ("the sum wraps", [1.5, 2.5, 3.5, 254.5, 0.5, 5.5]),
    ("avg_int32_sum_overflow", "values"): ("the sum wraps", [2.0**30]),
    ("avg_float16_overflow", "values"): ("the sum overflows", [60000.0]),
    ("avg_bfloat16_ones_1024", "values"): ("the sum stops growing", [1.0]),
    ("max_nan_first_and_mid", "grad_input"): (
        "it goes to the last element, not to the NaN", [1.0, 0.0, 0.0, 0.0],
    ),
    ("max_all_neg_inf_pad1", "grad_input"): (
        "padding takes that of the window that starts in it", [2.0, 1.0, 1.0],
    ),
}  # fmt: skip


def settings_of(case: dict[str, Any]) -> dict[str, Any]:
    attrs = case["attrs"]
    padding: Any = attrs["auto_pad"].upper().replace("SAME_UPPER", "SAME")
    if padding == "EXPLICIT":
        padding = tuple(zip(attrs["pads_begin"], attrs["pads_end"], strict=True))
    call = {"window_shape": tuple(attrs["kernel"]), "strides": tuple(attrs["strides"])}
    call |= {"padding": padding}
    return call | ({"count_include_pad": attrs["include_pad"]} if case["op"] != "max_pool" else {})


@pytest.mark.grid(6)
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_runs(name: str) -> None:
    case, run = CASES[name], RECORDED[name]
    call, function = settings_of(case), getattr(ours, case["op"])
    x = jnp.asarray(np.moveaxis(read(case["x"]), 1, -1))
    if run["status"] == "error":
        with pytest.raises(ValueError, match=f"^{case['op']}: "):
            function(x, **call)
        return
    parts = {"values": lambda: function(x, **call)}
    if "grad_input" in run:
        parts["grad_input"] = lambda: jax.grad(lambda x: function(x, **call).sum())(x)
    for part, compute in parts.items():
        got = np.moveaxis(np.asarray(compute()), -1, 1)
        want = read(run[part])
        assert got.dtype == want.dtype and got.shape == want.shape
        if (name, part) in BETTER:
            assert not agrees(got, want)
            assert got.ravel().tolist() == BETTER[name, part][1]
        else:
            assert agrees(got, want)


def test_every_better_answer_is_of_a_recorded_run() -> None:
    assert all(part in RECORDED[name] for name, part in BETTER)


# --- the installed Flax ---------------------------------------------------------------------------


def test_the_signatures_are_those_of_flax() -> None:
    for name in FUNCTIONS:
        mine, flaxs = (
            {p.name: p.default for p in inspect.signature(getattr(m, name)).parameters.values()}
            for m in (ours, theirs)
        )
        assert mine == flaxs, name


SHAPES = [(6, 7, 3), (2, 6, 7, 3), (2, 1, 6, 7, 3)]


def draw(rng: np.random.Generator) -> dict[str, Any]:
    """Return a configuration that Flax accepts: padding by pairs needs at most one batch axis."""
    shape = SHAPES[rng.integers(3)]
    kernel = tuple(int(k) for k in rng.integers(1, 5, 2))
    call: dict[str, Any] = {"window_shape": kernel}
    if rng.random() < 0.8:
        call["strides"] = tuple(int(s) for s in rng.permutation([1, 2, 3])[:2])
    word = rng.choice(["SAME", "VALID", "SAME_LOWER", "pairs"])
    if word != "pairs":
        call["padding"] = str(word)
    elif len(shape) < 5:
        call["padding"] = [tuple(int(p) for p in rng.integers(-1, 4, 2)) for _ in range(2)]
    return {"shape": shape, "call": call}


def flax_pool(combine: Callable, init: Any) -> Callable[[Any], Callable]:
    def make(module: Any) -> Callable:
        def run(x: Any, window_shape: Any, strides: Any = None, padding: Any = "VALID") -> Any:
            return module.pool(x, init, combine, window_shape, strides, padding)

        return run

    return make


def average(include: bool) -> Callable[[Any], Callable]:
    return lambda module: functools.partial(module.avg_pool, count_include_pad=include)


RUNS: dict[str, Callable[[Any], Callable]] = {
    "max_pool": lambda module: module.max_pool,
    "min_pool": lambda module: module.min_pool,
    "avg_pool, padding counted": average(True),
    "avg_pool, padding not counted": average(False),
    "pool by max from 5": flax_pool(lax.max, 5.0),
    "pool by add": flax_pool(lax.add, 0.0),
    "pool by multiply": flax_pool(lax.mul, 1.0),
}


@pytest.mark.grid(7)
@pytest.mark.parametrize("name", RUNS)
def test_random_configurations(name: str, rng: np.random.Generator) -> None:
    """Values, shapes and dtypes agree; each side runs 8 configurations in one program."""
    configurations = [draw(rng) for _ in range(8)]
    xs = [permutation(c["shape"], np.float32, rng) / 4 for c in configurations]

    def run_all(module: Any, xs: list[Any]) -> list[Any]:
        function = RUNS[name](module)
        return [function(x, **c["call"]) for x, c in zip(xs, configurations, strict=True)]

    with jax.numpy_rank_promotion("raise"):
        got = jax.jit(functools.partial(run_all, ours))(xs)
    want = jax.jit(functools.partial(run_all, theirs))(xs)
    exact = name in ("max_pool", "min_pool", "pool by max from 5")
    for g, w, c in zip(got, want, configurations, strict=True):
        assert_same(g, w, (name, c), ulps=0 if exact else 4)


@pytest.mark.grid(4)
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("include", [True, False])
def test_averages_have_the_dtype_of_flax(include: bool, x64: bool) -> None:
    dtypes = (jnp.bfloat16, jnp.float16, jnp.int8, jnp.int32, jnp.float32)
    x = jnp.arange(12).reshape(1, 3, 4, 1)

    def run_all(module: Any, x: Any) -> list[Any]:
        return [module.avg_pool(x.astype(d), (2, 3), None, "SAME", include) for d in dtypes]

    with jax.enable_x64(x64):
        got, want = (jax.jit(functools.partial(run_all, m))(x) for m in (ours, theirs))
    for mine, flaxs, dtype in zip(got, want, dtypes, strict=True):
        assert_same(mine, flaxs, dtype, ulps=1)


def test_dtypes_of_other_reductions() -> None:
    x = jnp.array([100, 100, -3, 7], jnp.int8)[:, None]
    for init, combine in ((0, lax.add), (1, lax.mul), (-128, lax.max), (127, lax.min)):
        start = np.int8(init)
        mine, flaxs = (m.pool(x, start, combine, (2,), (1,), "VALID") for m in (ours, theirs))
        assert_same(mine, flaxs, combine)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e5m2", "bool"])
def test_an_infinity_starts_windows_of_dtypes_that_have_none(dtype: str) -> None:
    x = jnp.array([[-1, 3, 2, -4], [0, 1, 5, 6]]).astype(dtype)[..., None]
    window = (2,), (2,), ((1, 1),)
    for start, both in ((-np.inf, (lax.max, jnp.maximum)), (np.inf, (lax.min, jnp.minimum))):
        want = theirs.pool(x, start, both[0], *window)
        assert np.isfinite(want.astype(np.float32)).all()
        for reduce_fn in both:  # Flax uses only the first of them
            assert_same(ours.pool(x, start, reduce_fn, *window), want, (dtype, reduce_fn))


def test_a_gradient_that_flax_does_not_have() -> None:
    x = jnp.array([2.0, 3.0, 5.0])[:, None]
    product = lambda m, x: m.pool(x, 1.0, lax.mul, (2,), (1,), "VALID").sum()  # noqa: E731
    assert jax.grad(functools.partial(product, ours))(x).ravel().tolist() == [3.0, 7.0, 3.0]
    with pytest.raises(ValueError, match="Linearization failed"):
        jax.grad(functools.partial(product, theirs))(x)


@pytest.mark.parametrize("padding", ["VALID", ((0, 1), (-2, 0))])
def test_a_window_that_does_not_fit_gives_an_empty_result(padding: Any) -> None:
    x = jnp.ones((2, 4, 3, 5))
    for name in ("max_pool", "avg_pool"):
        mine, flaxs = (getattr(m, name)(x, (2, 4), (1, 2), padding) for m in (ours, theirs))
        assert mine.shape == flaxs.shape and mine.size == 0 and mine.dtype == flaxs.dtype


def test_an_empty_axis_stays_empty() -> None:
    x = jnp.ones((1, 0, 3, 2))
    mine, flaxs = (m.max_pool(x, (2, 2), None, "SAME") for m in (ours, theirs))
    assert mine.shape == flaxs.shape == (1, 0, 3, 2)


def test_settings_may_be_lists_and_arrays() -> None:
    x = jnp.asarray(np.random.default_rng(0).permutation(120).reshape(2, 4, 5, 3), jnp.float32)
    for name in ("max_pool", "avg_pool"):
        pool: Any = getattr(ours, name)
        expected = pool(x, (2, 3), (1, 2), ((1, 0), (0, 2)))
        for kind in (list, np.array):
            settings = kind([2, 3]), kind([1, 2]), kind([kind([1, 0]), kind([0, 2])])
            np.testing.assert_array_equal(pool(x, *settings), expected)
        np.testing.assert_array_equal(pool(x, (2, 3), np.array([], int)), pool(x, (2, 3)))


# --- refusals -------------------------------------------------------------------------------------

X = np.zeros((1, 4, 5, 2), np.float32)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        ({"window_shape": (2, 0)}, "`window_shape` contains 0"),
        ({"window_shape": (2, 2), "strides": (1,)}, "`strides` = .* has 1 entry"),
        ({"window_shape": (1, 1, 1, 1)}, "`window_shape` = .* has 4 entries"),
        ({"window_shape": (2, 2), "padding": "FULL"}, "`padding` = 'FULL' is not a padding"),
        (
            {"window_shape": (2, 2), "padding": ((0, 1),)},
            "not one .low, high. pair per pooled axis",
        ),
        ({"window_shape": (2, 2), "padding": 1}, "not one .low, high. pair per pooled axis"),
    ],
)
def test_what_is_refused(call: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=f"^max_pool: (.|\n)*{match}"):
        ours.max_pool(X, **call)


def test_a_flag_is_a_bool() -> None:
    unchecked: Any = ours
    with pytest.raises(TypeError, match="^avg_pool: `count_include_pad` = 'no' is not a bool"):
        unchecked.avg_pool(X, (2, 2), count_include_pad="no")


def test_what_pool_refuses() -> None:
    with pytest.raises(ValueError, match="ignore"):
        ours.pool(X, 1.0, lax.add, (2, 2), (1, 1), "VALID")
    with pytest.raises(TypeError, match="^pool: `init` = 'a' is not a number"):
        ours.pool(X, "a", lax.add, (2, 2), (1, 1), "VALID")


@pytest.mark.parametrize(
    ("dtype", "init"),
    [("int8", 2.5), ("int8", 300), ("uint8", -1), ("int32", np.nan), ("bool", 2), ("int32", 2**70)],
)
def test_an_initial_value_that_the_dtype_does_not_have(dtype: str, init: Any) -> None:
    x = jnp.ones((1, 4, 4, 1), dtype)
    with pytest.raises(TypeError, match=f"^pool: `init` = .* is not a number of {dtype}"):
        ours.pool(x, init, lax.max, (2, 2), (1, 1), "VALID")


@pytest.mark.parametrize(("dtype", "init"), [("int8", -128), ("uint8", 3.0), ("bool", 1)])
def test_an_initial_value_of_the_dtype(dtype: str, init: Any) -> None:
    x = jnp.array([0, 1, 7, 2], dtype)[None, :, None]
    want = np.maximum(np.asarray(x)[:, :-1], np.asarray(x)[:, 1:])
    got = ours.pool(x, init, lax.max, (2,), (1,), "VALID")
    assert_same(got, np.maximum(want, np.asarray(int(init)).astype(dtype)), dtype)


def test_a_window_is_a_sequence() -> None:
    """Flax refuses an int too; it does not say how many axes are pooled."""
    window: Any = 2
    with pytest.raises(TypeError, match="^max_pool: `window_shape` = 2 is not a sequence"):
        ours.max_pool(X, window)
    with pytest.raises(TypeError):
        theirs.max_pool(X, window)
