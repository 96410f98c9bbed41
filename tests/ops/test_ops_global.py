"""Global pooling: against NumPy, against windows that cover everything, and its derivatives."""

import itertools
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same, check_derivatives, error_lines, lowered, permutation
from peers import require

import jaxpool
from jaxpool._lowerings import tuning

pytestmark = pytest.mark.grid(6)

OPS: dict[str, Callable[..., jax.Array]] = {
    "global_max_pool": jaxpool.global_max_pool,
    "global_avg_pool": jaxpool.global_avg_pool,
    "global_lp_pool": jaxpool.global_lp_pool,
}
over_ops = pytest.mark.parametrize("op", OPS)

# layout -> shape and pooled axes
LAYOUTS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "channels_last": ((2, 5, 7, 3), (1, 2)),
    "channels_first": ((2, 3, 5, 7), (2, 3)),
    "NDHWC": ((2, 3, 4, 5, 2), (1, 2, 3)),
    "HNWC": ((5, 2, 7, 3), (0, 2)),
    "WH": ((7, 5), (0, 1)),
}


def norm(x: np.ndarray, axes: tuple[int, ...], p: float = 2) -> np.ndarray:
    if p == math.inf:
        return np.abs(x).max(axes, keepdims=True)
    return (np.abs(x.astype(float)) ** p).sum(axes, keepdims=True) ** (1 / p)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_are_those_of_numpy(layout: str, rng: np.random.Generator) -> None:
    shape, axes = LAYOUTS[layout]
    x = permutation(shape, np.float32, rng)
    want = {
        "global_max_pool": x.max(axes, keepdims=True),
        "global_avg_pool": x.mean(axes, keepdims=True, dtype=float).astype(np.float32),
        "global_lp_pool": norm(x, axes).astype(np.float32),
    }
    for name, op in OPS.items():
        keep = layout != "HNWC"
        shaped = want[name] if keep else want[name].squeeze(axes)
        assert_same(op(x, data_format=layout, keepdims=keep), shaped, name, ulps=2)


@pytest.mark.parametrize("p", [0.5, 1, 40, math.inf])
def test_norms_of_every_exponent(p: float, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 6, 9, 3)).astype(np.float32)
    want = norm(x, (1, 2), p).astype(np.float32)
    assert_same(jaxpool.global_lp_pool(x, p=p), want, p, ulps=16)


@over_ops
def test_masked_elements_are_not_there(op: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 6, 4)).astype(np.float32)
    where = rng.random(x.shape) < 0.6
    where[1] = False
    got = OPS[op](jnp.where(where, x, jnp.nan), where=where, keepdims=False)
    numpy = {"max": np.max, "avg": np.mean, "lp": np.linalg.norm}[op.split("_")[1]]
    for n, c in itertools.product((0, 2), range(4)):
        np.testing.assert_allclose(got[n, c], numpy(x[n, where[n, :, c], c]), rtol=1e-6)
    empty = -np.inf if op == "global_max_pool" else 0
    np.testing.assert_array_equal(got[1], np.full(4, empty))
    gradient = jax.grad(lambda x: OPS[op](x, where=where)[1].sum())(jnp.asarray(x))
    np.testing.assert_array_equal(gradient, np.zeros(x.shape))


# --- derivatives ---------------------------------------------------------------------------------


@over_ops
def test_both_modes_agree_with_finite_differences_to_order_two(
    op: str, rng: np.random.Generator
) -> None:
    settings = {"p": 3} if op == "global_lp_pool" else {}
    with jax.enable_x64(True):
        # No element is zero, since a norm is less smooth at zero.
        x = jnp.asarray((permutation((2, 4, 3, 2), np.float64, rng) + 0.5) / 8)
        check_derivatives(lambda x: OPS[op](x, **settings) ** 2, x, rng=rng)


def test_the_first_maximum_takes_all() -> None:
    x = jnp.array([[1.0, 3.0, 2.0], [3.0, 3.0, 0.0]])
    gradient = jax.grad(lambda x: jaxpool.global_max_pool(x, data_format="HW").sum())(x)
    np.testing.assert_array_equal(gradient, [[0, 1, 0], [0, 0, 0]])
    column_major = jax.grad(lambda x: jaxpool.global_max_pool(x, data_format="WH").sum())(x)
    np.testing.assert_array_equal(column_major, [[0, 1, 0], [0, 0, 0]])


def test_nan_and_minus_infinity() -> None:
    pool = lambda x, **mask: jaxpool.global_max_pool(x, data_format="W", **mask)[0]  # noqa: E731
    x = jnp.array([-jnp.inf, jnp.nan, 5.0, jnp.nan])
    assert np.isnan(pool(x))
    np.testing.assert_array_equal(jax.grad(pool)(x), [0, 1, 0, 0])
    np.testing.assert_array_equal(jax.grad(pool)(jnp.full(3, -jnp.inf)), [1, 0, 0])
    mask = jnp.array([False, True, True])
    masked = jax.grad(lambda x: pool(x, where=mask))(jnp.full(3, -jnp.inf))
    np.testing.assert_array_equal(masked, [0, 1, 0])
    for op in (jaxpool.global_avg_pool, jaxpool.global_lp_pool):
        assert np.isnan(op(x, data_format="W")[0])


def test_nan_is_found_among_many() -> None:
    """XLA:CPU's reduction of large float arrays loses NaN."""
    x = np.random.default_rng(0).standard_normal((512, 512, 2)).astype(np.float32)
    x[300, 411, 1] = np.nan
    narrow = jaxpool.global_max_pool(x.astype(jnp.float8_e4m3fn), data_format="HWC").ravel()
    np.testing.assert_array_equal(np.isnan(np.asarray(narrow, np.float32)), [False, True])
    y, back = jax.vjp(lambda x: jaxpool.global_max_pool(x, data_format="HWC"), jnp.asarray(x))
    np.testing.assert_array_equal(y.ravel(), [x[..., 0].max(), np.nan])
    gradient = back(jnp.ones_like(y))[0]
    assert gradient[300, 411, 1] == 1 and gradient.sum() == 2
    assert np.isnan(jaxpool.global_lp_pool(x, p=np.inf, data_format="HWC")).ravel()[1]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_short_planes_of_a_large_array(dtype: str, rng: np.random.Generator) -> None:
    """On CPU, arrays of at least 2**20 elements are reduced along the axes sequentially."""
    x = rng.integers(-99, 100, (16, 5, 7, 1901)).astype(dtype)
    if dtype != "int32":
        x[1, 4, 2, 3], x[2, 0, 6, 5] = np.nan, np.inf
        x[3, :, :, 7], x[4, 2, 2, 8] = -np.inf, -np.inf
    whole = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        average, most = whole.mean((1, 2), keepdims=True), whole.max((1, 2), keepdims=True)
    if dtype == "int32":
        average = np.round(average)  # half to even
    got = jaxpool.global_avg_pool(x)
    assert_same(got, average.astype(dtype), "average", ulps=1)
    assert_same(jaxpool.global_max_pool(x), most.astype(dtype), "maximum")
    if dtype == "int32":
        return
    flat = np.where(np.isnan(whole), np.inf, whole).reshape(16, 35, 1901)
    first = np.arange(35)[:, None] == flat.argmax(1)[:, None]
    gradient = jax.grad(lambda x: jaxpool.global_max_pool(x).sum())(jnp.asarray(x))
    np.testing.assert_array_equal(np.asarray(gradient, np.float64), first.reshape(x.shape))


def test_reverse_mode_of_the_maximum_keeps_one_number_for_each_result() -> None:
    x = jnp.zeros((4, 9, 9, 8))
    back = jax.vjp(jaxpool.global_max_pool, x)[1]
    kept = [leaf for leaf in jax.tree.leaves(back) if hasattr(leaf, "nbytes")]
    assert sum(leaf.nbytes for leaf in kept) <= 32 + 64
    text = jax.jit(lambda x, g: jax.vjp(jaxpool.global_max_pool, x)[1](g)).lower(
        x, jnp.zeros((4, 1, 1, 8))
    )
    assert "scatter" not in text.as_text()


# --- dtypes and other systems --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_integer_averages_are_exact(dtype: str, rng: np.random.Generator) -> None:
    limits = np.iinfo(dtype)
    x = rng.integers(limits.max - 3, limits.max, (50, 40), dtype, endpoint=True)
    mean = round(Fraction(sum(x.ravel().tolist()), x.size))
    assert_same(jaxpool.global_avg_pool(x, data_format="HW"), np.array([[mean]], dtype), dtype)
    assert_same(jaxpool.global_max_pool(x, data_format="HW"), x.max(keepdims=True), dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_computed_wide(dtype: str) -> None:
    x = jnp.full((1, 64, 64, 2), 60000 if dtype == "float16" else 1, dtype)
    for name in ("global_avg_pool", "global_max_pool"):
        y = OPS[name](x)
        assert y.dtype == dtype and (y == x[0, 0, 0]).all(), name
    small = jnp.full((1, 64, 64, 2), 0.5, dtype)
    assert (jaxpool.global_lp_pool(small) == 32).all()


def test_booleans_have_a_maximum() -> None:
    x = np.array([[False, True], [False, False]])
    np.testing.assert_array_equal(
        jaxpool.global_max_pool(x, data_format="NW", keepdims=False), [True, False]
    )


@pytest.mark.parametrize("kind", ["avg", "max"])
def test_torch_agrees(kind: str, rng: np.random.Generator) -> None:
    torch: Any = require("torch")
    x = rng.integers(-9, 9, (3, 4, 5, 6)).astype(np.float32)
    there = torch.tensor(x, requires_grad=True)
    want = getattr(torch.nn.functional, f"adaptive_{kind}_pool2d")(there, 1)
    g = rng.integers(1, 9, want.shape).astype(np.float32)
    op = OPS[f"global_{kind}_pool"]
    got, back = jax.vjp(lambda x: op(x, data_format="channels_first"), jnp.asarray(x))
    assert_same(got, want.detach().numpy(), kind, ulps=2)
    gradient = torch.autograd.grad(want, there, torch.tensor(g))[0].numpy()
    assert_same(back(jnp.asarray(g))[0], gradient, kind, ulps=2)


# --- transformations, sizes, errors --------------------------------------------------------------


@pytest.mark.parametrize("op", ["global_max_pool", "global_lp_pool"])
def test_vmap_and_ranks_that_may_not_be_promoted(op: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 3, 5, 6, 2)).astype(np.float32)
    settings = {"p": 3} if op == "global_lp_pool" else {}
    gradient = jax.grad(lambda x: (OPS[op](x, where=x > -1, **settings) ** 2).sum())
    with jax.numpy_rank_promotion("raise"):
        each = jnp.stack([gradient(x[n]) for n in range(2)])
        np.testing.assert_allclose(jax.vmap(gradient)(x), each, rtol=1e-5, atol=1e-6)


@over_ops
def test_one_program_for_every_platform(op: str) -> None:
    gradient = jax.jit(jax.grad(lambda x: OPS[op](x).sum()))
    program = jax.export.export(gradient, platforms=("cpu", "cuda", "tpu"))
    platforms = program(jax.ShapeDtypeStruct((2, 7, 8, 3), jnp.float32)).platforms
    assert platforms == ("cpu", "cuda", "tpu")


@over_ops
@pytest.mark.parametrize(
    ("layout", "shape"), [("channels_last", (2, 5, 9, 3)), ("HNWC", (5, 2, 9, 3))]
)
def test_small_planes_on_gpu(
    op: str,
    layout: str,
    shape: tuple[int, ...],
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each plane is the window of one thread; no other test has these shapes, which are cached."""
    monkeypatch.setattr(tuning, "MIN_PLANES", 6)
    x = jnp.asarray(permutation(shape, np.float32, rng))

    def both(x: jax.Array) -> list[jax.Array]:
        y, pull = jax.vjp(lambda x: OPS[op](x, data_format=layout), x)
        return [y, pull(jnp.cos(y))[0]]

    text = jax.jit(both).trace(x).lower(lowering_platforms=("cuda",)).as_text()
    assert "stablehlo.reduce_window" in text
    run = lowered(both, "cuda", x)
    monkeypatch.undo()
    for image in (x, x.reshape(-1).at[5].set(jnp.nan).at[-9].set(-jnp.inf).reshape(shape)):
        for got, want in zip(run(image), both(image), strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-7)


@over_ops
@pytest.mark.parametrize("shape", [(0, 4, 4, 3), (2, 4, 4, 0)])
def test_empty_results(op: str, shape: tuple[int, ...]) -> None:
    assert OPS[op](jnp.zeros(shape)).shape == (shape[0], 1, 1, shape[3])
    assert jax.grad(lambda x: OPS[op](x).sum())(jnp.zeros(shape)).shape == shape


X = np.zeros((2, 4, 5, 3), np.float32)
ERRORS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"x": X[0, 0]}, ValueError, "the array has 2 axes, too few for 'channels_last'"),
    ({"x": X, "data_format": "HWC"}, ValueError, "the array has 4 axes"),
    ({"x": X, "data_format": "NC"}, ValueError, "is not a layout"),
    ({"x": X, "keepdims": 1}, TypeError, "`keepdims` = 1 is not a bool"),
    ({"x": X[:, :0]}, ValueError, "pooled axis 0 has size 0"),
    ({"x": X, "where": X}, TypeError, "`where` has dtype float32"),
    ({"x": X, "where": X[0, 0, 0, :2] > 0}, ValueError, "does not broadcast"),
    ({"x": X.astype(complex)}, TypeError, "dtype complex"),
]
P_ERRORS: list[tuple[Any, type[Exception], str]] = [
    (0, ValueError, "`p` = 0 is out of range"),
    (-math.inf, ValueError, "`p` = -inf is out of range"),
    (math.nan, ValueError, "`p` = nan is out of range"),
    ("2", TypeError, "`p` = '2' is not a real number"),
    (True, TypeError, "`p` = True is not a real number"),
]


def check_error(op: str, settings: dict[str, Any], error: type[Exception], pattern: str) -> None:
    lines = error_lines(op, error, lambda: getattr(jaxpool, op)(**settings))
    assert re.search(pattern, lines[0]), lines


@over_ops
@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case[2])
def test_bad_calls(op: str, case: tuple[dict[str, Any], type[Exception], str]) -> None:
    check_error(op, *case)


@pytest.mark.parametrize("temperature", [0, -1.5, math.inf, math.nan])
def test_bad_temperatures(temperature: float) -> None:
    settings = {"x": X, "temperature": temperature}
    pattern = f"`temperature` = {temperature} is out of range"
    check_error("global_logsumexp_pool", settings, ValueError, pattern)


def test_an_infinity_beside_the_largest_numbers() -> None:
    """``exp(3e38)`` is as small beside ``exp(inf)`` as any number."""
    pool = lambda x: jaxpool.global_logsumexp_pool(x, data_format="W").sum()  # noqa: E731
    y, slope = jax.value_and_grad(pool)(jnp.array([3e38, jnp.inf, 2.0], jnp.float32))
    assert y == jnp.inf
    np.testing.assert_array_equal(slope, [0.0, 1.0, 0.0])


def test_the_logarithm_of_a_plane_stores_few_arrays() -> None:
    """Its gradient stored three or four arrays of the size of the input, and took twice as long."""
    x = jnp.zeros((4, 32, 32, 16))
    program = jax.jit(jax.grad(lambda x: jaxpool.global_logsumexp_pool(x).sum()))
    memory = program.lower(x).compile().memory_analysis()
    assert memory is not None and memory.temp_size_in_bytes < 2.5 * 4 * x.size


@pytest.mark.parametrize("case", P_ERRORS, ids=lambda case: case[2])
def test_bad_exponents(case: tuple[Any, type[Exception], str]) -> None:
    p, error, pattern = case
    check_error("global_lp_pool", {"x": X, "p": p}, error, pattern)


def test_averages_and_norms_refuse_what_they_cannot_hold() -> None:
    check_error("global_avg_pool", {"x": X > 0}, TypeError, "is boolean")
    check_error("global_lp_pool", {"x": X.astype(int)}, TypeError, "dtype int")
