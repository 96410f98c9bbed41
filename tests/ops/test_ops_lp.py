"""Lp and generalised-mean pooling: against loops and PyTorch, and at the limits of the range."""

import functools
import itertools
import math
import re
from collections.abc import Iterable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import SHARED_CASES as CASES
from brute_force import over_windows
from helpers import QUICK, assert_same, check_derivatives, error_lines
from peers import require

import jaxpool

pytestmark = pytest.mark.grid(6)

masked_cases = pytest.mark.parametrize(
    ("case", "masked"),
    [("1-D", True), ("2-D", False), ("2-D", True), ("long", False), ("ceil", True)],
)
EXPONENTS = [0.5, 1, 2, 40.5, math.inf]


def lp(elements: Iterable[float], p: float) -> float:
    """Return the norm with exact scaling, in float64."""
    top = max(map(abs, elements), default=0)
    if p == math.inf or not top:
        return top
    return top * math.fsum((abs(element) / top) ** p for element in elements) ** (1 / p)


@masked_cases
def test_norms_are_those_of_the_definition(
    case: str, masked: bool, rng: np.random.Generator
) -> None:
    x, where = CASES[case].random(masked, rng)
    for p in (0.5, 2) if masked else (1, 40.5, math.inf):
        want = over_windows(lambda elements, p=p: lp(elements, p), x, where, **CASES[case].window)
        got = jaxpool.lp_pool(x, **CASES[case].window, p=p, where=where)
        np.testing.assert_allclose(got, want, rtol=3e-6, err_msg=str(p))
        assert got.dtype == np.float32


def gem(elements: np.ndarray, p: float) -> float:
    if not len(elements):
        return 0
    return (math.fsum(max(element, 1e-6) ** p for element in elements) / len(elements)) ** (1 / p)


@masked_cases
def test_generalised_means_are_those_of_the_definition(
    case: str, masked: bool, rng: np.random.Generator
) -> None:
    x, where = CASES[case].random(masked, rng)
    for p in (0.7, 11.0):
        want = over_windows(lambda elements, p=p: gem(elements, p), x, where, **CASES[case].window)
        got = jaxpool.gem_pool(x, **CASES[case].window, p=p, where=where)
        np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=str(p))


@pytest.mark.parametrize("implementation", ["slices", "doubling"])
@pytest.mark.parametrize("p", [2, 5, math.inf])
def test_lowerings_agree(p: float, implementation: str, rng: np.random.Generator) -> None:
    x, _ = CASES["2-D"].random(False, rng)
    pool = functools.partial(jaxpool.lp_pool, x, **CASES["2-D"].window, p=p)
    assert_same(pool(implementation=implementation), pool(), p, ulps=4)


# --- identities ----------------------------------------------------------------------------------


def test_the_norm_falls_to_the_maximum_as_p_grows(rng: np.random.Generator) -> None:
    x, _ = CASES["2-D"].random(False, rng)
    norms = [np.asarray(jaxpool.lp_pool(x, **CASES["2-D"].window, p=p)) for p in EXPONENTS]
    for lower, higher in zip(norms[1:], norms, strict=False):
        assert (lower <= higher * (1 + 1e-6)).all()
    most = np.prod(CASES["2-D"].window["window_shape"])
    assert (norms[-2] <= norms[-1] * most ** (1 / EXPONENTS[-2]) * (1 + 1e-6)).all()
    assert_same(norms[-1], np.maximum(jaxpool.max_pool(abs(x), **CASES["2-D"].window), 0), "inf")


def test_the_norm_of_one_is_a_sum_and_the_mean_of_one_an_average(rng: np.random.Generator) -> None:
    x, _ = CASES["2-D"].random(False, rng)
    window = CASES["2-D"].window
    assert_same(
        jaxpool.lp_pool(x, **window, p=1), jaxpool.sum_pool(abs(x), **window), "sum", ulps=2
    )
    average = jaxpool.avg_pool(abs(x) + 1, **window, count_include_pad=False)
    assert_same(jaxpool.gem_pool(abs(x) + 1, **window, p=1.0), average, "average", ulps=4)


def test_the_generalised_mean_grows_to_the_maximum(rng: np.random.Generator) -> None:
    x = abs(CASES["2-D"].random(False, rng)[0]) + 0.1
    window = CASES["2-D"].window
    means = [np.asarray(jaxpool.gem_pool(x, **window, p=p)) for p in (1.0, 2.0, 8.0, 300.0)]
    for lower, higher in zip(means, means[1:], strict=False):
        assert (lower <= higher * (1 + 1e-5)).all()
    np.testing.assert_allclose(means[-1], jaxpool.max_pool(x, **window), rtol=0.01)


@pytest.mark.parametrize("p", [2.7, 3, 3.5, 4])
def test_curvature_of_small_windows_is_finite(p: float) -> None:
    """The second window is the first times 1e-5, so its curvature is 1e5 times as large."""
    pool = lambda x: jaxpool.lp_pool(x, 2, 2, p=p, data_format="W").sum()  # noqa: E731
    x, t = jnp.array([2.0, 3.0, 2e-5, 3e-5]), jnp.array([3.0, 2.0, 3.0, 2.0])
    bent = jax.jvp(jax.grad(pool), (x,), (t,))[1]
    np.testing.assert_allclose(bent[2:], bent[:2] * 1e5, rtol=1e-4)


@pytest.mark.parametrize("op", ["lp_pool", "gem_pool", "global_lp_pool"])
def test_curvature_is_that_of_float64_at_every_scale(op: str) -> None:
    """A square of 1e-20 or 1e20 has no float32, but the curvature has."""
    settings: dict[str, Any] = {"data_format": "W", "p": 5.5}
    settings |= {"eps": 1e-30} if op == "gem_pool" else {}
    windows = () if op == "global_lp_pool" else (3, 1)
    pool = lambda x: getattr(jaxpool, op)(x, *windows, **settings).sum()  # noqa: E731
    bent = jax.jit(lambda x, t: jax.jvp(jax.grad(pool), (x,), (t,))[1])
    t = np.array([1.0, 0.5, -0.7, 0.8, 0.2])
    x = np.array([1.0, 1e-20, 2.0, 1e-25, 3.0])
    for data in (x, x.clip(0.5) * 1e-20, x.clip(0.5) * 1e20):
        with jax.enable_x64(True):
            want = np.asarray(bent(data, t))
        got = bent(*(jnp.asarray(a, jnp.float32) for a in (data, t)))
        np.testing.assert_allclose(got, want, rtol=3e-5, atol=1e-5 * abs(want).max())


@pytest.mark.parametrize("p", [2.0**17, 2.0**20])
def test_the_largest_exponents_have_derivatives(p: float) -> None:
    """The power of the second element is that of the first, divided by e."""
    x = np.array([2.0**100, 2.0**100 * (1 - 1 / p), 1], np.float32)
    slopes = jax.grad(lambda x: jaxpool.global_lp_pool(x, p=p, data_format="W")[0])(x)
    share = 1 / (1 + math.exp(-1))
    np.testing.assert_allclose(slopes, [share, 1 - share, 0], rtol=0.02)


@pytest.mark.parametrize("p", [0.7, 2.5, 3, 4, 6.5])
def test_an_infinity_leaves_other_windows_alone(p: float) -> None:
    x = np.array([np.inf, 0.0, 3e25, 4e25, -2e25], np.float32)
    pool = lambda x: jaxpool.lp_pool(x, 2, 1, p=p, data_format="W")  # noqa: E731
    y, back = jax.vjp(pool, jnp.asarray(x))
    want = [np.inf, 3e25, *(lp([a, b], p) for a, b in ((3e25, 4e25), (4e25, 2e25)))]
    np.testing.assert_allclose(y, np.array(want, np.float32), rtol=2e-6)
    gradient = np.asarray(back(jnp.ones_like(y))[0])
    assert gradient[1] == 0 and np.isfinite(gradient[2:]).all() and gradient[2:].all()


@pytest.mark.parametrize("p", [0.7, 3, 3.5, 6.5, 60])
def test_powers_neither_overflow_nor_vanish(p: float) -> None:
    def pool(x: jax.Array) -> jax.Array:
        return jaxpool.lp_pool(x, 2, 1, p=p, data_format="W")

    for scale in (1e-30, 1e-18, 1.0, 1e18, 1e30):
        x = np.array([3.0, 4.0, 0.0, -2.0, 1e-3], np.float32) * np.float32(scale)
        y, back = jax.vjp(pool, jnp.asarray(x))
        want = np.array([lp([float(a), float(b)], p) for a, b in itertools.pairwise(x)])
        np.testing.assert_allclose(y, want, rtol=2e-6, err_msg=str(scale))
        slopes = np.zeros(5)
        for element, window in ((0, 0), (1, 0), (1, 1), (3, 2), (3, 3), (4, 3)):
            slopes[element] += np.sign(x[element]) * (abs(float(x[element])) / want[window]) ** (
                p - 1
            )
        gradient = back(jnp.ones_like(y))[0]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-6, err_msg=str(scale))


# --- derivatives ---------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1.2, 2.5, 4.3])
def test_norms_agree_with_finite_differences_to_order_two(
    p: float, rng: np.random.Generator
) -> None:
    x, where = CASES["1-D"].random(True, rng)
    with jax.enable_x64(True):
        # The elements avoid zero, where the first derivative is discontinuous.
        x = jnp.asarray(x + np.sign(x) * 0.3, jnp.float64)
        pool = lambda x: jaxpool.lp_pool(x, **CASES["1-D"].window, p=p, where=where) ** 2  # noqa: E731
        check_derivatives(pool, x, rng=rng)


def test_generalised_means_are_differentiable_in_the_exponent(rng: np.random.Generator) -> None:
    x, where = CASES["1-D"].random(True, rng)
    settings = CASES["1-D"].window | {"where": where, "implementation": "slices"}
    with jax.enable_x64(True):
        x = jnp.asarray(abs(x) + 0.2, jnp.float64)
        p = jnp.linspace(1.5, 3, x.shape[-1])
        pool = lambda x, p: jaxpool.gem_pool(x, **settings, p=p)  # noqa: E731
        check_derivatives(pool, x, p, rng=rng)


@pytest.mark.parametrize("p", [0.5, 1, 2, 4, math.inf])
def test_zero_windows_have_zero_derivatives(p: float) -> None:
    pool = lambda x: jaxpool.lp_pool(x, 2, 1, p=p, data_format="W").sum()  # noqa: E731
    derivatives = jax.jit(
        lambda x: (jax.grad(pool)(x), jax.jvp(pool, (x,), (x + 1,))[1], jax.hessian(pool)(x))
    )
    gradient, tangent, hessian = derivatives(jnp.array([0.0, 0.0, 0.0, 2.0, 0.0]))
    np.testing.assert_allclose(gradient, [0, 0, 0, 2, 0], rtol=1e-6)
    np.testing.assert_allclose(tangent, 6, rtol=1e-6)
    assert np.isfinite(hessian).all()


@pytest.mark.parametrize("p", [1, 2.5, 4, math.inf])
def test_edge_cases_of_norms(p: float) -> None:
    x = jnp.array([jnp.nan, 1.0, jnp.inf, -jnp.inf, 2.0, 1.0])
    y = jaxpool.lp_pool(x, 2, 1, p=p, data_format="W")
    np.testing.assert_array_equal(y[:4], [np.nan, np.inf, np.inf, np.inf])
    assert np.isfinite(y[4])
    empty = jaxpool.lp_pool(x[4:], 1, 1, 1, p=p, data_format="W")
    np.testing.assert_array_equal(empty, [0, 2, 1, 0])
    where = jnp.array([False, True, False, False, False, True])
    masked = lambda x: jaxpool.lp_pool(x, 3, 3, p=p, where=where, data_format="W")  # noqa: E731
    np.testing.assert_array_equal(masked(x), [1, 1])
    gradient = jax.grad(lambda x: masked(x).sum())(x)
    np.testing.assert_allclose(gradient, [0, 1, 0, 0, 0, 1], rtol=1e-6)


def test_edge_cases_of_generalised_means() -> None:
    x = jnp.array([jnp.nan, 1.0, jnp.inf, 2.0, -5.0, 1e-9])
    pool = functools.partial(jaxpool.gem_pool, strides=1, data_format="W")
    y = pool(x, 2)
    np.testing.assert_array_equal(y[:3], [np.nan, np.inf, np.inf])
    np.testing.assert_allclose(y[4], 1e-6, rtol=1e-5)
    quick = functools.partial(jax.jit, compiler_options=QUICK)
    np.testing.assert_array_equal(quick(jax.grad(lambda x: pool(x, 2)[1]))(x[3:]), [0, 0, 0])
    where = jnp.array([False, True, False, True, False, False])
    masked = lambda x, p: jaxpool.gem_pool(x, 2, 2, p=p, where=where, data_format="W")  # noqa: E731
    np.testing.assert_allclose(masked(x, 3.0), [1, 2, 0], rtol=1e-6)
    gradients = quick(jax.grad(lambda x, p: masked(x, p).sum(), (0, 1)))(x, 3.0)
    np.testing.assert_allclose(gradients[0], [0, 1, 0, 1, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(gradients[1], 0, atol=1e-6)


# --- dtypes, layouts, transformations ------------------------------------------------------------


@pytest.mark.parametrize("p", [0.1, 0.5, 1, 1.5, 3, 4])
@pytest.mark.parametrize("op", ["lp_pool", "global_lp_pool"])
def test_cotangents_meet_no_scale(op: str, p: float) -> None:
    """The norm of a number is its magnitude, whose derivative is one at every scale."""
    window = () if op.startswith("global") else ((1,), 1)
    pool = lambda x: getattr(jaxpool, op)(x, *window, p=p, data_format="WC")  # noqa: E731
    pairs = (1e-20, 1e-19), (2e-38, 0.5), (1e30, 1e9), (8e37, 100.0), (-3e36, 1e3)
    for number, cotangent in pairs:
        x = jnp.array([[number]])
        for got in (
            jax.vjp(pool, x)[1](jnp.array([[cotangent]]))[0],
            jax.jvp(pool, (x,), (jnp.array([[cotangent]]),))[1],
        ):
            np.testing.assert_allclose(got / cotangent, np.sign([[number]]), rtol=1e-5)


def test_narrow_floats_are_computed_wide() -> None:
    x = jnp.full((1, 1024, 1), 0.5, jnp.bfloat16)
    y = jaxpool.lp_pool(x, (1024,), 1)
    assert y.dtype == x.dtype and y.ravel() == 16
    pool = lambda x: jaxpool.gem_pool(x, (1024,), 1).sum()  # noqa: E731
    mean, gradient = jax.jit(jax.value_and_grad(pool), compiler_options=QUICK)(x)
    assert mean.dtype == gradient.dtype == x.dtype and mean == 0.5


def test_exponents_by_channel_in_any_layout(rng: np.random.Generator) -> None:
    x = abs(rng.standard_normal((2, 6, 8, 3))).astype(np.float32)
    p = jnp.array([1.0, 3.0, 6.0])
    y = jaxpool.gem_pool(x, (2, 3), 2, p=p)
    for channel in range(3):
        one = jaxpool.gem_pool(x[..., channel], 2 * (1,), (2, 2), data_format="NHW", p=1.0)
        assert one.shape == (2, 3, 4)
        alone = jaxpool.gem_pool(x[..., [channel]], (2, 3), 2, p=float(p[channel]))
        assert_same(y[..., [channel]], alone, channel, ulps=4)
    first = jaxpool.gem_pool(
        x.transpose(0, 3, 1, 2), (2, 3), 2, p=p[:, None, None], data_format="channels_first"
    )
    assert_same(first, np.transpose(y, (0, 3, 1, 2)), "channels_first", ulps=4)


def test_vmap_over_arrays_and_exponents(rng: np.random.Generator) -> None:
    x = abs(rng.standard_normal((3, 7, 6, 2))).astype(np.float32)
    p = jnp.array([1.0, 2.0, 5.0])
    pool = lambda x, p: jaxpool.gem_pool(x, (2, 3), 1, 1, p=p)  # noqa: E731
    gradient = jax.grad(lambda x, p: pool(x, p).sum(), (0, 1))
    one = jax.jit(gradient, compiler_options=QUICK)
    each = [one(x[n], p[n]) for n in range(3)]
    with jax.numpy_rank_promotion("raise"):
        got = jax.jit(jax.vmap(gradient), compiler_options=QUICK)(x, p)
    for a, b in zip(got, zip(*each, strict=True), strict=True):
        np.testing.assert_allclose(a, jnp.stack(b), rtol=1e-4, atol=1e-5)


def test_one_program_for_every_platform() -> None:
    def step(x: jax.Array, p: jax.Array) -> jax.Array:
        return (jaxpool.lp_pool(x, (2, 2), 2, p=3) + jaxpool.gem_pool(x, (2, 2), 2, p=p)).sum()

    program = jax.export.export(jax.jit(jax.grad(step, (0, 1))), platforms=("cpu", "cuda", "tpu"))
    shapes = jax.ShapeDtypeStruct((2, 8, 8, 3), jnp.float32), jax.ShapeDtypeStruct((), jnp.float32)
    assert program(*shapes).platforms == ("cpu", "cuda", "tpu")


# --- PyTorch -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("axes", "p"), [(1, 2.0), (2, 2.5), (3, 3.0)])
def test_torch_agrees_on_positive_data(axes: int, p: float, rng: np.random.Generator) -> None:
    """PyTorch takes no absolute value, and rescales partial windows; the data avoid both."""
    torch: Any = require("torch")
    x = (abs(rng.standard_normal((2, 3, *(6, 7, 5)[:axes]))) + 0.01).astype(np.float32)
    kernel, strides = (2, 3, 2)[:axes], (2, 2, 1)[:axes]
    there = torch.tensor(x, requires_grad=True)
    sizes = (kernel, strides) if axes > 1 else (*kernel, *strides)
    want = getattr(torch.nn.functional, f"lp_pool{axes}d")(there, p, *sizes)
    g = rng.integers(1, 9, want.shape).astype(np.float32)
    pool = functools.partial(
        jaxpool.lp_pool, window_shape=kernel, strides=strides, p=p, data_format="channels_first"
    )
    got, back = jax.vjp(pool, jnp.asarray(x))
    np.testing.assert_allclose(got, want.detach().numpy(), rtol=2e-5)
    gradient = torch.autograd.grad(want, there, torch.tensor(g))[0].numpy()
    np.testing.assert_allclose(back(jnp.asarray(g))[0], gradient, rtol=1e-4, atol=1e-5)


# --- errors --------------------------------------------------------------------------------------

X = np.zeros((2, 30, 6, 3), np.float32)
ERRORS: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("lp_pool", {"p": 0}, ValueError, "`p` = 0 is out of range"),
    ("lp_pool", {"p": -2.0}, ValueError, "`p` = -2.0 is out of range"),
    ("lp_pool", {"p": math.nan}, ValueError, "`p` = nan is out of range"),
    ("lp_pool", {"p": 1e-320}, ValueError, "`p` = 1e-320 is out of range"),
    ("lp_pool", {"p": None}, TypeError, "`p` = None is not a real number"),
    ("lp_pool", {"p": jnp.ones(())}, TypeError, "`p` = Array.* is not a real number"),
    ("lp_pool", {"x": X.astype(int)}, TypeError, "dtype int"),
    ("lp_pool", {"x": X > 0}, TypeError, "dtype bool"),
    ("lp_pool", {"p": 5, "implementation": "reduce_window"}, NotImplementedError,
     "'reduce_window' does"),
    ("lp_pool", {"window_shape": (20, 2), "p": 5, "implementation": "slices"}, NotImplementedError,
     "'slices' does not support"),
    ("lp_pool", {"implementation": "fast"}, ValueError, "is not an implementation"),
    ("lp_pool", {"where": X}, TypeError, "`where` has dtype float32"),
    ("gem_pool", {"p": 0.0}, ValueError, "`p` = 0.0 is out of range"),
    ("gem_pool", {"p": math.inf}, ValueError, "`p` = inf is out of range"),
    ("gem_pool", {"p": "3"}, TypeError, "`p` = '3' is not a real number"),
    ("gem_pool", {"p": jnp.ones(2)}, ValueError, r"`p` of shape \(2,\) does not fit"),
    ("gem_pool", {"p": jnp.ones((1, 30, 1, 1))}, ValueError, "does not fit"),
    ("gem_pool", {"p": jnp.ones((1, 2, 1, 1, 1))}, ValueError, "does not fit"),
    ("gem_pool", {"p": jnp.ones(3) > 0}, TypeError, "`p` has dtype bool"),
    ("gem_pool", {"p": np.array(["a"])}, TypeError, r"`p` is array\(\['a'\]"),
    ("gem_pool", {"eps": 0}, ValueError, "`eps` = 0 is out of range"),
    ("gem_pool", {"eps": True}, TypeError, "`eps` = True is not a real number"),
    ("gem_pool", {"x": X.astype(int)}, TypeError, "dtype int"),
    ("gem_pool", {"implementation": "reduce_window"}, NotImplementedError,
     "'reduce_window' does not support"),
]  # fmt: skip


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: f"{case[0]} {case[3]}")
def test_bad_calls(case: tuple[str, dict[str, Any], type[Exception], str]) -> None:
    op, settings, error, pattern = case
    call = {"x": X, "window_shape": (2, 2), "strides": 2} | settings
    lines = error_lines(op, error, lambda: getattr(jaxpool, op)(**call))
    assert re.search(pattern, lines[0]), lines
