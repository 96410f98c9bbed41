"""Log-sum-exp and softmax-weighted pooling: against loops, at their limits, and derivatives."""

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import SHARED_CASES, Case, over_windows
from helpers import QUICK, assert_same, check_derivatives, error_lines

import jaxpool
from jaxpool._lowerings import tuning
from jaxpool._numerics import float_bits

pytestmark = pytest.mark.grid(6)

CASES = SHARED_CASES | {
    "2-D separable": Case(
        (1, 9, 8, 2),
        {
            "window_shape": (5, 3), "strides": (2, 3), "padding": ((2, 1), (1, 1)),
            "dilations": (1, 2),
        },
    ),
}  # fmt: skip
masked_cases = pytest.mark.parametrize(
    ("case", "masked"),
    [("1-D", True), ("2-D", False), ("2-D separable", True), ("long", False), ("ceil", True)],
)
OPS: dict[str, Callable[..., jax.Array]] = {
    "logsumexp_pool": jaxpool.logsumexp_pool,
    "soft_pool": jaxpool.soft_pool,
}
over_implementations = pytest.mark.parametrize("implementation", ["slices", "doubling"])
over_ops = pytest.mark.parametrize("op", OPS)


def data(case: str, masked: bool, rng: np.random.Generator) -> tuple[np.ndarray, Any]:
    x, where = CASES[case].random(masked, rng)
    return 3 * x, where


def logsumexp(elements: np.ndarray, t: float) -> float:
    if not len(elements):
        return -math.inf
    top = max(elements)
    return top + t * math.log(math.fsum(math.exp((element - top) / t) for element in elements))


def soft(elements: np.ndarray) -> float:
    if not len(elements):
        return 0
    weights = [math.exp(element - max(elements)) for element in elements]
    return math.fsum(w * c for w, c in zip(weights, elements, strict=True)) / math.fsum(weights)


@masked_cases
def test_values_are_those_of_the_definitions(
    case: str, masked: bool, rng: np.random.Generator
) -> None:
    x, where = data(case, masked, rng)
    window = CASES[case].window
    for t in (0.05, 1.0, 30.0):
        want = over_windows(
            lambda elements, t=t: logsumexp(elements, t), x, where, **CASES[case].window
        )
        got = jaxpool.logsumexp_pool(x, **window, temperature=t, where=where)
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6 * t, err_msg=str(t))
    want = over_windows(soft, x, where, **CASES[case].window)
    got = jaxpool.soft_pool(x, **window, where=where)
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)
    assert got.dtype == np.float32


WITHOUT_INFINITY = ("float8_e4m3fn", "float8_e4m3b11fnuz", "float4_e2m1fn")


@pytest.mark.parametrize("dtype", (*WITHOUT_INFINITY, "float8_e5m2"))
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 3), (3, 3, 2), (3, 1, 4)])
@pytest.mark.parametrize("masked", [False, True])
def test_padding_is_no_element_in_any_format(
    dtype: str, kernel: int, stride: int, padding: int, masked: bool, rng: np.random.Generator
) -> None:
    x = (rng.permutation(11) - 5).astype(np.float32).astype(jnp.dtype(dtype))
    where = rng.permutation(11) > 3 if masked else None
    window = {"window_shape": (kernel,), "strides": (stride,), "padding": ((padding, padding),)}
    eps = float(jnp.finfo(dtype).eps)
    reference = x.astype(np.float32)[:, None], where if where is None else where[:, None]
    for op, of_window in (("soft_pool", soft), ("logsumexp_pool", lambda v: logsumexp(v, 1.0))):
        want = over_windows(of_window, *reference, **window)[:, 0]
        want = want.astype(np.float32).astype(x.dtype).astype(np.float32)
        pool = functools.partial(OPS[op], **window, where=where, data_format="W")
        got = pool(jnp.asarray(x))
        assert got.dtype == x.dtype
        np.testing.assert_allclose(np.asarray(got, np.float32), want, rtol=eps, err_msg=op)
        slope = jax.grad(lambda x, pool=pool: pool(x).astype(np.float32).sum())(jnp.asarray(x))
        assert jnp.isfinite(slope.astype(np.float32)).all(), op


@over_ops
@over_implementations
def test_lowerings_agree(op: str, implementation: str, rng: np.random.Generator) -> None:
    x, _ = data("2-D separable", False, rng)
    pool = functools.partial(OPS[op], x, **CASES["2-D separable"].window)
    assert_same(pool(implementation=implementation), pool(), op, ulps=4)


# --- limits --------------------------------------------------------------------------------------


def test_the_logarithm_falls_to_the_maximum_with_the_temperature(rng: np.random.Generator) -> None:
    x, _ = data("2-D", False, rng)
    window = CASES["2-D"].window
    top = np.asarray(jaxpool.max_pool(x, **window))
    taps = math.prod(CASES["2-D"].window["window_shape"])
    for t in (2.0, 0.3, 1e-2, 1e-6, 1e-30):
        y = np.asarray(jaxpool.logsumexp_pool(x, **window, temperature=t))
        slack = 4e-7 * abs(top)
        assert (y >= top - slack).all(), t
        assert (y <= top + t * math.log(taps) + slack).all(), t


def test_a_low_temperature_has_the_gradient_of_the_maximum(rng: np.random.Generator) -> None:
    x, _ = data("2-D", False, rng)
    window = CASES["2-D"].window
    smooth, sharp = (
        jax.jit(jax.grad(lambda x, f=f: f(x, **window).sum()), compiler_options=QUICK)(x)
        for f in (functools.partial(jaxpool.logsumexp_pool, temperature=1e-4), jaxpool.max_pool)
    )
    np.testing.assert_allclose(smooth, sharp, atol=1e-5)


def test_the_soft_average_lies_between_average_and_maximum(rng: np.random.Generator) -> None:
    x, where = data("2-D separable", True, rng)
    settings = CASES["2-D separable"].window | {"where": where}
    low = jaxpool.avg_pool(x, **settings, count_include_pad=False)
    high = jaxpool.max_pool(x, **settings)
    high = jnp.where(high == -jnp.inf, 0, high)
    for scale in (1e-3, 1.0, 50.0):
        y = jaxpool.soft_pool(x * np.float32(scale), **settings) / np.float32(scale)
        assert (low - 1e-5 <= y).all() and (y <= high + 1e-5).all()
        if scale == 50:
            np.testing.assert_allclose(y, high, atol=0.02)
        if scale == 1e-3:
            np.testing.assert_allclose(y, low, atol=0.02)


def test_the_gradient_of_the_logarithm_is_the_softmax(rng: np.random.Generator) -> None:
    x = rng.standard_normal(12).astype(np.float32)
    pool = lambda x: jaxpool.logsumexp_pool(x, 4, 4, data_format="W").sum()  # noqa: E731
    softmax = jax.nn.softmax(x.reshape(3, 4), -1).ravel()
    np.testing.assert_allclose(jax.grad(pool)(x), softmax, rtol=1e-5)
    means = jaxpool.soft_pool(x, 4, 4, data_format="W")
    np.testing.assert_allclose(means, (softmax * x).reshape(3, 4).sum(-1), rtol=1e-5)


def softmax_slopes(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max())
    return weights / weights.sum()


def soft_slopes(x: np.ndarray) -> np.ndarray:
    weights = softmax_slopes(x)
    return weights * (1 + x - (weights * x).sum())


@pytest.mark.grid(12)
@masked_cases
@pytest.mark.parametrize("implementation", ["auto", "doubling"])
@pytest.mark.parametrize(
    ("op", "slopes"), [("logsumexp_pool", softmax_slopes), ("soft_pool", soft_slopes)]
)
def test_gradients_are_those_of_the_definitions(
    op: str,
    slopes: Callable[[np.ndarray], np.ndarray],
    implementation: str,
    case: str,
    masked: bool,
    rng: np.random.Generator,
) -> None:
    """The numbers differ so much that the elements of a window have distinct scales."""
    x, where = data(case, masked, rng)
    x *= 12
    windows: list[np.ndarray] = []
    numbers = np.arange(x.size, dtype=np.float64).reshape(x.shape)
    over_windows(
        lambda elements: windows.append(elements) or 0, numbers, where, **CASES[case].window
    )

    pool = functools.partial(
        OPS[op], **CASES[case].window, where=where, implementation=implementation
    )
    y, back = jax.vjp(pool, jnp.asarray(x))
    g = rng.standard_normal(y.shape).astype(np.float32)
    want = np.zeros(x.size)
    for sent, window in zip(g.ravel(), windows, strict=True):
        if len(window):
            elements = window.astype(int)
            want[elements] += sent * slopes(x.ravel()[elements].astype(np.float64))
    np.testing.assert_allclose(back(jnp.asarray(g))[0].ravel(), want, rtol=2e-5, atol=2e-5)


@over_ops
@pytest.mark.parametrize("offset", [-1e30, -1e9, -5000.0, 88.0, 3e4, 1e37])
def test_large_numbers_neither_overflow_nor_vanish(op: str, offset: float) -> None:
    steps = np.float32(abs(offset)) * np.array([0, 1, 0, 0, -1], np.float32)
    x = np.float32(offset) + steps * np.float32(2**-20)
    y = OPS[op](x, 2, 1, data_format="W")
    np.testing.assert_allclose(y, np.maximum(x[1:], x[:-1]), rtol=2e-6, atol=1)
    gradient = jax.grad(lambda x: OPS[op](x, 2, 1, data_format="W").sum())(x)
    assert np.isfinite(gradient).all()


# --- derivatives ---------------------------------------------------------------------------------


@over_implementations
def test_the_logarithm_agrees_with_finite_differences_to_order_two(
    implementation: str, rng: np.random.Generator
) -> None:
    x, where = data("1-D", True, rng)
    settings = CASES["1-D"].window | {"where": where, "implementation": implementation}
    with jax.enable_x64(True):
        x = jnp.asarray(x, jnp.float64)
        t = jnp.linspace(0.7, 2, x.shape[-1])

        def pool(x: jax.Array, t: jax.Array) -> jax.Array:
            y = jaxpool.logsumexp_pool(x, **settings, temperature=t)
            return jnp.where(jnp.isfinite(y), y, 0) ** 2

        check_derivatives(pool, x, t, rng=rng)


def test_the_soft_average_agrees_with_finite_differences_to_order_two(
    rng: np.random.Generator,
) -> None:
    x, where = data("1-D", True, rng)
    settings = CASES["1-D"].window | {"where": where, "implementation": "doubling"}
    with jax.enable_x64(True):
        x = jnp.asarray(x, jnp.float64)
        check_derivatives(lambda x: jaxpool.soft_pool(x, **settings), x, rng=rng)


# --- edge cases ----------------------------------------------------------------------------------


def test_infinities_nan_and_empty_windows() -> None:
    inf, nan = np.inf, np.nan
    x = jnp.array([nan, 1, inf, inf, 2, -inf, -inf, 0.5])
    log = lambda x: jaxpool.logsumexp_pool(x, 2, 1, data_format="W")  # noqa: E731
    mean = lambda x: jaxpool.soft_pool(x, 2, 1, data_format="W")  # noqa: E731
    quick = functools.partial(jax.jit, compiler_options=QUICK)
    for pool in (log, mean):
        np.testing.assert_allclose(pool(x), [nan, inf, inf, inf, 2, -inf, 0.5], rtol=1e-6)
        gradient = quick(jax.grad(lambda x, f=pool: f(x).sum()))(x[4:])
        np.testing.assert_allclose(gradient, [1, 0, 0, 1], rtol=1e-6)
    np.testing.assert_array_equal(quick(jax.grad(lambda x: log(x)[2]))(x)[2:4], [0.5, 0.5])
    for pool, nothing in ((jaxpool.logsumexp_pool, -inf), (jaxpool.soft_pool, 0)):
        pool = functools.partial(pool, window_shape=2, strides=2, data_format="W")
        where = jnp.array([False, True, False, False, True, False, False, False])
        np.testing.assert_allclose(pool(x, where=where), [1, nothing, 2, nothing], rtol=1e-6)
        gradient = quick(jax.grad(lambda x, f=pool, w=where: f(x, where=w).sum()))(x)
        np.testing.assert_allclose(gradient, where, rtol=1e-6)


def test_the_gradient_of_the_temperature_survives_empty_windows_and_minus_infinity() -> None:
    x = jnp.array([1.0, 1.0, 2.0, -jnp.inf, -jnp.inf, -jnp.inf])
    pool = lambda t: jaxpool.logsumexp_pool(  # noqa: E731
        x, 2, 2, ((2, 0),), temperature=t, data_format="W"
    )
    quick = functools.partial(jax.jit, compiler_options=QUICK)
    for derivative in (quick(jax.jacfwd(pool))(1.5), quick(jax.jacrev(pool))(1.5)):
        np.testing.assert_allclose(derivative, [0, math.log(2), 0, 0], atol=1e-6)


# --- dtypes, layouts, transformations ------------------------------------------------------------


def test_narrow_floats_are_computed_wide() -> None:
    x = jnp.ones((1, 1024, 1), jnp.bfloat16)
    y = jaxpool.logsumexp_pool(x, (1024,), 1)
    assert y.dtype == x.dtype
    np.testing.assert_allclose(float(y.ravel()[0]), 1 + math.log(1024), rtol=0.004)
    both = jax.value_and_grad(lambda x: jaxpool.soft_pool(x, (1024,), 1).sum())
    mean, gradient = jax.jit(both, compiler_options=QUICK)(x)
    assert mean.dtype == gradient.dtype == x.dtype and mean == 1


def test_temperatures_by_channel_in_any_layout(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 6, 8, 3)).astype(np.float32)
    t = jnp.array([0.1, 1.0, 6.0])
    y = jaxpool.logsumexp_pool(x, (2, 3), 2, temperature=t)
    for channel in range(3):
        alone = jaxpool.logsumexp_pool(x[..., [channel]], (2, 3), 2, temperature=float(t[channel]))
        assert_same(y[..., [channel]], alone, channel, ulps=4)
    first = jaxpool.logsumexp_pool(
        x.transpose(0, 3, 1, 2), (2, 3), 2, temperature=t[:, None, None],
        data_format="channels_first",
    )  # fmt: skip
    assert_same(first, np.transpose(y, (0, 3, 1, 2)), "channels_first", ulps=4)


def test_vmap_and_ranks_that_may_not_be_promoted(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 7, 6, 2)).astype(np.float32)
    pool = lambda x: jaxpool.soft_pool(x, (2, 3), 1, 1, where=x[..., :1] < 1.5)  # noqa: E731
    gradient = jax.grad(lambda x: (pool(x) ** 2)[1:-1, 1:-1].sum())
    one = jax.jit(gradient, compiler_options=QUICK)
    each = jnp.stack([one(x[n]) for n in range(3)])
    with jax.numpy_rank_promotion("raise"):
        mapped = jax.jit(jax.vmap(gradient), compiler_options=QUICK)(x)
    np.testing.assert_allclose(mapped, each, rtol=1e-4, atol=1e-5)


def test_one_program_for_every_platform() -> None:
    def step(x: jax.Array, t: jax.Array) -> jax.Array:
        log = jaxpool.logsumexp_pool(x, (2, 2), 2, temperature=t)
        return (log + jaxpool.soft_pool(x, (2, 2), 2)).sum()

    program = jax.export.export(jax.jit(jax.grad(step, (0, 1))), platforms=("cpu", "cuda", "tpu"))
    shapes = jax.ShapeDtypeStruct((2, 8, 8, 3), jnp.float32), jax.ShapeDtypeStruct((), jnp.float32)
    assert program(*shapes).platforms == ("cpu", "cuda", "tpu")


# --- errors --------------------------------------------------------------------------------------

X = np.zeros((2, 30, 6, 3), np.float32)
ERRORS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"x": X.astype(int)}, TypeError, "dtype int"),
    ({"x": X > 0}, TypeError, "dtype bool"),
    ({"x": X.astype(complex)}, TypeError, "dtype complex"),
    ({"implementation": "reduce_window"}, NotImplementedError, "'reduce_window' does not support"),
    (
        {"window_shape": (20, 2), "implementation": "slices"},
        NotImplementedError,
        "'slices' does not support",
    ),
    ({"implementation": "fast"}, ValueError, "is not an implementation"),
    ({"where": X}, TypeError, "`where` has dtype float32"),
    ({"window_shape": (31, 2)}, ValueError, "does not fit pooled axis 0"),
]
TEMPERATURES: list[tuple[Any, type[Exception], str]] = [
    (0, ValueError, "`temperature` = 0 is out of range"),
    (-1.0, ValueError, "`temperature` = -1.0 is out of range"),
    (math.nan, ValueError, "`temperature` = nan is out of range"),
    (None, TypeError, "`temperature` = None is not a real number"),
    (jnp.ones(2), ValueError, r"`temperature` of shape \(2,\) does not fit"),
    (jnp.ones((6, 1)), ValueError, "does not fit"),
    (jnp.ones(3, bool), TypeError, "`temperature` has dtype bool"),
]


def check_error(op: str, settings: dict[str, Any], error: type[Exception], pattern: str) -> None:
    call = {"x": X, "window_shape": (2, 2), "strides": 2} | settings
    lines = error_lines(op, error, lambda: OPS[op](**call))
    assert re.search(pattern, lines[0]), lines


@over_ops
@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case[2])
def test_bad_calls(op: str, case: tuple[dict[str, Any], type[Exception], str]) -> None:
    check_error(op, *case)


@pytest.mark.parametrize("case", TEMPERATURES, ids=lambda case: case[2])
def test_bad_temperatures(case: tuple[Any, type[Exception], str]) -> None:
    temperature, error, pattern = case
    check_error("logsumexp_pool", {"temperature": temperature}, error, pattern)


@pytest.mark.cpu_program
@pytest.mark.parametrize("op", [jaxpool.logsumexp_pool, jaxpool.soft_pool, jaxpool.gem_pool])
def test_windows_that_a_long_window_is_made_of_are_stored(op: Any) -> None:
    """XLA:CPU would recompute them for each window, 31 x 31 times."""
    compiled = (
        jax.jit(lambda x: op(x, (31, 31), 1, "SAME")).lower(jnp.ones((1, 64, 64, 8))).compile()
    )
    loops = (compiled.as_text() or "").split("\n\n")
    assert max(loop.count(" slice(") for loop in loops) <= 3 * tuning.JOIN_RADIX


@pytest.mark.cpu_program
@pytest.mark.parametrize("op", [jaxpool.logsumexp_pool, jaxpool.soft_pool, jaxpool.gem_pool])
def test_powers_of_two_are_not_made_by_conversions(op: Any) -> None:
    """A conversion to integers saturates: XLA:CPU would need several comparisons per power."""
    compiled = jax.jit(lambda x: op(x, (31, 31), 1)).lower(jnp.ones((1, 64, 64, 8))).compile()
    text = compiled.as_text() or ""
    assert " bitcast-convert(" in text
    assert not re.search(r"= s32\[\d[\d,]*\]\S* convert\(", text)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_of_two_are_exact(dtype: str) -> None:
    with jax.enable_x64(dtype == "float64"):
        top = np.finfo(dtype).maxexp
        n = np.array([*range(-2 * top, top + 1), -np.inf], dtype)
        want = np.array([0 if k < 2 - top else math.inf if k == top else 2.0**k for k in n])
        got = float_bits.two_to(jnp.asarray(n))
    np.testing.assert_array_equal(got, want)


def test_windows_without_padding_are_not_stored_twice() -> None:
    """A padded program stores the array and the padded array; the other only the array."""
    held = []
    for padding in ("VALID", "SAME"):
        pool = jax.jit(lambda x, padding=padding: jaxpool.soft_pool(x, (3, 3), 1, padding))
        traced = pool.trace(jnp.ones((1, 64, 64, 8)))
        text = traced.lower(lowering_platforms=("cpu",)).as_text()
        held.append(text.count("optimization_barrier"))
    assert held[0] < held[1]
