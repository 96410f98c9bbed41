"""Pooling with custom reductions: against NumPy over every window, and refusals."""

import functools
import inspect
import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import over_windows
from helpers import PORTABLE, assert_same, check_derivatives, error_lines, permutation
from jax import lax

import jaxpool
from jaxpool import Reduction, pool, reductions

pytestmark = pytest.mark.grid(6)

# --- reductions, and the same by NumPy from the elements of a window ------------------------------


def logsumexp(elements: np.ndarray) -> Any:
    return np.logaddexp.reduce(elements, initial=-np.inf)


def norm(p: float) -> Callable[[np.ndarray], Any]:
    return lambda elements: np.sum(np.abs(elements) ** p) ** (1 / p)


NUMPY: dict[str, tuple[Reduction, Callable[[np.ndarray], Any]]] = {
    "max": (reductions.MAX, lambda elements: np.max(elements, initial=-np.inf)),
    "min": (reductions.MIN, lambda elements: np.min(elements, initial=np.inf)),
    "sum": (reductions.SUM, np.sum),
    "mean": (reductions.MEAN, lambda elements: np.mean(elements) if elements.size else 0),
    "product": (reductions.PRODUCT, np.prod),
    "logsumexp": (reductions.LOGSUMEXP, logsumexp),
    "any": (reductions.ANY, lambda elements: np.any(elements > 0)),
    "all": (reductions.ALL, lambda elements: np.all(elements > 0)),
    "lp(1)": (reductions.lp(1), norm(1)),
    "lp(2)": (reductions.lp(2), norm(2)),
    "lp(2.5)": (reductions.lp(2.5), norm(2.5)),
    "lp(3)": (reductions.lp(3), norm(3)),
    "lp(inf)": (reductions.lp(np.inf), lambda elements: np.max(np.abs(elements), initial=0)),
}
OWN: dict[str, tuple[Reduction, Callable[[np.ndarray], Any]]] = {
    "root mean square": (
        Reduction(
            "root mean square",
            jnp.add,
            0,
            prepare=jnp.square,
            finish=lambda total, count: jnp.sqrt(total / jnp.maximum(count, 1)),
        ),
        lambda elements: np.sqrt(np.mean(elements**2)) if elements.size else 0,
    ),
    "soft minimum": (
        Reduction("soft minimum", lambda a, b: -jnp.logaddexp(-a, -b), jnp.inf),
        lambda elements: -logsumexp(-elements),
    ),
    "hypotenuse": (
        Reduction("hypotenuse", jnp.hypot, 0, prepare=jnp.abs),
        lambda elements: np.sqrt(np.sum(elements**2)),
    ),
}
ALL = NUMPY | OWN
BOOLEAN = ("any", "all")

WINDOWS: dict[str, dict[str, Any]] = {
    "padded": {"window_shape": (3, 2), "strides": (2, 1), "padding": ((1, 0), (0, 2))},
    "dilated, ceil": {
        "window_shape": (2, 3), "strides": 2, "padding": 1, "dilations": (3, 2), "rounding": "ceil",
    },
    "whole": {"window_shape": (8, 7), "strides": 3, "padding": ((4, 5), (6, 3))},
}  # fmt: skip
SHAPE = (2, 8, 7, 2)


def data(name: str, rng: np.random.Generator, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Return numbers of both signs near 1, or zeros and ones for a boolean."""
    if name in BOOLEAN:
        return (rng.random(shape) < (0.15 if name == "any" else 0.85)).astype(np.float32)
    return (permutation(shape, np.float32, rng) / np.float32(math.prod(shape) / 3)).astype("f")


@pytest.mark.parametrize(
    ("name", "window"),
    [
        *zip(
            [n for n in ALL if n not in ("max", "min", "sum", "lp(1)", "lp(3)")],
            itertools.cycle(WINDOWS),
            strict=False,
        ),
        ("product", "whole"),
    ],
)
def test_a_reduction_is_numpy_over_every_window(
    name: str, window: str, rng: np.random.Generator
) -> None:
    reduction, numpy = ALL[name]
    x = data(name, rng)
    want = over_windows(numpy, x, **WINDOWS[window])
    got = pool(x, reduction, **WINDOWS[window])
    assert got.dtype == (bool if name in BOOLEAN else np.float32)
    assert_same(got, want.astype(got.dtype), (name, window), ulps=4)
    assert len(np.unique(want)) > 1


@pytest.mark.parametrize("name", ["mean", "product", "any", "lp(2.5)"])
def test_masked_elements_are_not_there(name: str, rng: np.random.Generator) -> None:
    reduction, numpy = ALL[name]
    x, where = data(name, rng), rng.random((8, 7, 1)) < 0.3
    window = WINDOWS["padded"]
    want = over_windows(numpy, x, where, **window)
    got = pool(np.where(where, x, np.float32(np.nan)), reduction, **window, where=where)
    assert_same(got, want.astype(got.dtype), name, ulps=4)


@pytest.mark.parametrize("masked", [0, np.inf, np.nan])
def test_masked_elements_have_no_derivative(masked: float) -> None:
    """The derivative of a prepare may be infinite or NaN there."""
    x, where = jnp.array([1.0, 2.0, masked, 4.0]), np.array([True, True, False, True])
    for prepare, slope in ((jnp.log, lambda x: 1 / x), (lambda x: x**3, lambda x: 3 * x**2)):
        own = Reduction("sum", jnp.add, 0, prepare=prepare)
        total = lambda x, own=own: pool(x, own, 4, 1, data_format="W", where=where)[0]  # noqa: E731
        want = np.where(where, slope(jnp.where(where, x, 1)), 0)
        for gradient in (jax.grad(total), jax.jacfwd(total)):
            np.testing.assert_allclose(gradient(x), want, rtol=1e-6)


LAYOUTS = {
    "channels_first": ((0, 3, 1, 2), (3, 2)),
    "NCHW": ((0, 3, 1, 2), (3, 2)),
    "CHW": ((3, 1, 2), (3, 2)),
    "HW": ((1, 2), (3, 2)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_are_those_of_every_op(layout: str, rng: np.random.Generator) -> None:
    order, _ = LAYOUTS[layout]
    x = data("sum", rng, (1 if len(order) < 4 else 2, 8, 7, 1 if len(order) < 3 else 2))
    y = pool(x, reductions.PRODUCT, **WINDOWS["padded"])
    dropped = [axis for axis in range(4) if axis not in order]
    move = lambda a: np.transpose(np.asarray(a), (*dropped, *order)).reshape(  # noqa: E731
        [a.shape[axis] for axis in order]
    )
    got = pool(move(x), reductions.PRODUCT, **WINDOWS["padded"], data_format=layout)
    assert_same(got, move(y), layout)


SAME = {
    "max": (reductions.MAX, jaxpool.max_pool, {}),
    "min": (reductions.MIN, jaxpool.min_pool, {}),
    "sum": (reductions.SUM, jaxpool.sum_pool, {}),
    "mean": (reductions.MEAN, jaxpool.avg_pool, {"count_include_pad": False}),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("max", "bfloat16"),
        ("max", "bool"),
        ("min", "float32"),
        ("min", "int8"),
        ("sum", "int8"),
        ("sum", "bfloat16"),
        ("mean", "bfloat16"),  # for integers use avg_pool
    ],
)
def test_the_same_as_the_op_of_that_name(name: str, dtype: str, rng: np.random.Generator) -> None:
    reduction, op, settings = SAME[name]
    x = rng.integers(-100, 100, SHAPE).astype(jnp.dtype(dtype))
    window, where = WINDOWS["dilated, ceil"], rng.random((8, 7, 1)) < 0.7
    got = pool(x, reduction, **window, where=where)
    assert_same(got, op(x, **window, where=where, **settings), name)


@pytest.mark.parametrize("name", ["max", "sum"])
def test_derivatives_are_those_of_the_op_of_that_name(name: str, rng: np.random.Generator) -> None:
    reduction, op, settings = SAME[name]
    x = data(name, rng)
    window = WINDOWS["padded"]
    square = lambda f: lambda x: (f(x) ** 2).sum()  # noqa: E731
    got, want = (
        jax.grad(square(f))(x)
        for f in (lambda x: pool(x, reduction, **window), lambda x: op(x, **window, **settings))
    )
    assert_same(got, want, name)


# --- dtypes ---------------------------------------------------------------------------------------

INTEGERS = ("int8", "uint8", "int32")
FLOATS = ("float8_e5m2", "float16", "bfloat16", "float32")
FLOATS_ONLY = ("mean", "logsumexp", "lp(2)", "lp(inf)")


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, *FLOATS])
@pytest.mark.parametrize("name", [*FLOATS_ONLY, "max", "sum", "product", "any"])
def test_the_dtype_of_the_result(name: str, dtype: str) -> None:
    reduction = NUMPY[name][0]
    x = jax.ShapeDtypeStruct((4, 1), dtype)
    shape_of = lambda: jax.eval_shape(lambda x: pool(x, reduction, (2,), 1), x)  # noqa: E731
    if name in FLOATS_ONLY and dtype not in FLOATS:
        with pytest.raises(TypeError, match=f"does not accept {dtype}") as error:
            shape_of()
        assert "x.astype(jnp.float32)" in str(error.value)
        return
    expected = {
        "sum": jax.eval_shape(jnp.sum, x).dtype,
        "product": jax.eval_shape(jnp.prod, x).dtype,
        "any": np.dtype(bool),
    }
    assert shape_of().dtype == expected.get(name, x.dtype)


def test_narrow_floats_are_combined_in_float32() -> None:
    ones = jnp.ones((32, 32), jnp.bfloat16)
    own = Reduction("sum", jnp.add, 0)
    assert pool(ones, own, 32, 1, data_format="HW").item() == 1024
    narrow = Reduction("narrow sum", lambda a, b: a + b, 0, accumulator=lambda dtype: dtype)
    assert pool(ones, narrow, 32, 1, data_format="HW").item() == 1024  # in pairs: exact as well
    small = jnp.full((400,), 1.01, jnp.bfloat16)
    got = pool(small, reductions.PRODUCT, 400, 1, data_format="W")
    want = np.prod(np.full(400, small[0], np.float64)).astype(jnp.bfloat16)
    assert_same(got, want[None], "one rounding at the end")


@pytest.mark.parametrize("implementation", ["auto", "reduce_window", "tiled"])
def test_the_sum_of_jax_numpy_is_the_sum(implementation: str, rng: np.random.Generator) -> None:
    """``jnp.add`` has the derivative rule of ``lax.add``, with every lowering and as fast."""
    own = Reduction("own sum", jnp.add, 0, prepare=jnp.square)
    x = rng.standard_normal((2, 6, 4, 3)).astype(np.float32)

    def energy(x: Any, reduction: Reduction) -> Any:
        y = jaxpool.pool(x, reduction, (3, 2), (3, 2), implementation=implementation)
        return (y * y).sum()

    slopes = [
        jax.make_jaxpr(jax.grad(energy), static_argnums=1)(x, r)
        for r in (own, Reduction("own sum", lax.add, 0, prepare=jnp.square))
    ]
    assert str(slopes[0]) == str(slopes[1])
    y = (x * x).reshape(2, 2, 3, 2, 2, 3).sum((2, 4))
    wide = y.repeat(3, 1).repeat(2, 2)
    np.testing.assert_allclose(jax.grad(energy)(x, own), 4 * wide * x, rtol=1e-5)


def test_booleans_are_added_as_before() -> None:
    either = Reduction("or", jnp.add, False)
    x = jnp.array([[True], [False], [False]])
    assert jaxpool.pool(x, either, (2,), 1)[:, 0].tolist() == [True, False]


def test_integers_of_your_own(rng: np.random.Generator) -> None:
    """``prepare`` maps numbers into the domain of the laws."""
    x = rng.integers(-40, 40, SHAPE).astype(np.int32)
    window: dict[str, Any] = {"window_shape": (3, 2), "strides": 1}
    modular = lambda a, b: a * b % 97  # noqa: E731
    for own, numpy in (
        (Reduction("xor", jnp.bitwise_xor, 0), np.bitwise_xor.reduce),
        (Reduction("gcd", jnp.gcd, 0, prepare=jnp.abs, idempotent=True), np.gcd.reduce),
        (
            Reduction("modulo 97", modular, 1, prepare=lambda x: x % 97),
            lambda elements: functools.reduce(modular, elements % 97),
        ),
    ):
        want = over_windows(numpy, x, **window).astype(np.int32)
        assert_same(pool(x, own, **window), want, own.name)


def test_a_finish_is_given_the_number_of_real_elements() -> None:
    counts = Reduction("count", jnp.add, 0, finish=lambda total, count: count + 0 * total)
    where = np.array([[1, 1, 0], [1, 1, 1]], bool)
    x = jnp.ones((2, 3))
    got = pool(x, counts, 2, 1, 1, data_format="HW", where=where)
    np.testing.assert_array_equal(got, [[1, 2, 1, 0], [2, 4, 3, 1], [1, 2, 2, 1]])
    assert got.dtype == jnp.float32
    whole = Reduction("count", jnp.add, 0, finish=lambda total, count: count)
    got = pool(x.astype(jnp.int8), whole, 2, 1, data_format="HW")
    assert_same(np.broadcast_to(got, (1, 2)), np.full((1, 2), 4, np.int8), "integers")


# --- lowerings and platforms ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["logsumexp", "any", "root mean square"])
def test_every_implementation_gives_the_same(name: str, rng: np.random.Generator) -> None:
    reduction, _ = ALL[name]
    x, window = data(name, rng), {"window_shape": (3, 2), "strides": (3, 2), "padding": 1}
    want = pool(x, reduction, **window)
    for implementation in PORTABLE:
        assert_same(
            pool(x, reduction, **window, implementation=implementation),
            want,
            implementation,
            ulps=8,
        )


SMOOTH = ["product", "logsumexp", "lp(2.5)", "root mean square", "soft minimum"]


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_lower_for_every_platform(name: str) -> None:
    reduction = ALL[name][0]
    f = lambda x: pool(x, reduction, **WINDOWS["padded"]).sum()  # noqa: E731
    for g in (f, jax.grad(f), jax.hessian(f)):
        traced = jax.jit(g).trace(jax.ShapeDtypeStruct((1, 8, 7, 1), jnp.float32))
        text = traced.lower(lowering_platforms=("cpu", "cuda", "tpu")).as_text()
        assert "stablehlo" in text
        if reduction.combine not in (jnp.add, lax.add):
            assert "reduce_window" not in text


def test_jax_itself_has_no_derivative_of_such_a_window() -> None:
    """JAX cannot differentiate ``reduce_window`` of this reduction, so the plan does not use it."""
    x, settings = jnp.ones((4,)), {"window_shape": 2, "strides": 1, "data_format": "W"}
    f = lambda x: pool(x, reductions.LOGSUMEXP, **settings, implementation="reduce_window")  # noqa: E731
    assert_same(f(x), pool(x, reductions.LOGSUMEXP, **settings), "forward", ulps=4)
    with pytest.raises((ValueError, NotImplementedError)):
        jax.grad(lambda x: f(x).sum())(x)


# --- derivatives ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["product", "lp(2.5)", "soft minimum"])
def test_derivatives_to_order_two_in_both_modes(name: str, rng: np.random.Generator) -> None:
    reduction = ALL[name][0]
    with jax.enable_x64(True):
        x = jnp.asarray(rng.uniform(0.5, 1.5, (1, 5, 3, 1)) * rng.choice([-1, 1], (1, 5, 3, 1)))
        f = lambda x: pool(x, reduction, (3, 2), (2, 1), ((1, 0), (0, 1))) ** 2  # noqa: E731
        check_derivatives(f, x, rng=rng)


LEARNED: dict[str, tuple[Callable[[Any], Reduction], Callable[[np.ndarray, float], Any]]] = {
    "power mean": (
        lambda p: Reduction(
            "power mean",
            jnp.add,
            0,
            prepare=lambda x: x**p,
            finish=lambda total, count: (total / count) ** (1 / p),
        ),
        lambda elements, p: np.mean(elements**p) ** (1 / p),
    ),
    "in combine": (
        lambda p: Reduction("own", lambda a, b: a + b + p * a * b, 0),
        lambda elements, p: (np.prod(1 + p * elements) - 1) / p,
    ),
    "selection": (
        lambda p: Reduction(
            "own", jnp.maximum, -jnp.inf, prepare=lambda x: jnp.sin(p * x), comparator=jnp.greater
        ),
        lambda elements, p: np.max(np.sin(p * elements)),
    ),
    "of two": (
        lambda p: Reduction(
            "own",
            lambda a, b: (a[0] + b[0], jnp.minimum(a[1], b[1])),
            (0, jnp.inf),
            prepare=lambda x: (x**p, x * p),
            finish=lambda both, _: both[0] * both[1],
        ),
        lambda elements, p: np.sum(elements**p) * np.min(elements * p),
    ),
}
"""Reductions with a parameter, and the same by NumPy."""


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", LEARNED)
def test_a_reduction_may_contain_a_learned_parameter(
    name: str, masked: bool, rng: np.random.Generator
) -> None:
    """The laws cannot be tested with a traced value, but the reduction can be computed."""
    reduction, of_elements = LEARNED[name]
    with jax.enable_x64(True):
        x = (permutation((1, 5, 4, 2), np.float64, rng) + 21) / 40
        where = rng.random(x.shape) < 0.8 if masked else None
        settings = {"window_shape": (3, 2), "strides": (2, 1), "padding": ((1, 0), (0, 0))}
        pooled = lambda p, x: pool(x, reduction(p), **settings, where=where)  # noqa: E731
        powers = jnp.array([1.5, 2.25])
        for got, p in zip(jax.vmap(pooled, (0, None))(powers, x), powers, strict=True):
            numpy = lambda elements, p=float(p): of_elements(elements, p)  # noqa: E731
            want = over_windows(numpy, x, where, **settings)
            np.testing.assert_allclose(got, want, rtol=1e-12)
        check_derivatives(pooled, powers[0], jnp.asarray(x), rng=rng)


PAIR = Reduction(
    "number, soft minimum",
    lambda a, b: (a[0] + b[0], -jnp.logaddexp(-a[1], -b[1])),
    (0, jnp.inf),
    prepare=lambda x: (jnp.ones(x.shape, jnp.int32), x),
    finish=lambda both, _: both[1],
    result=lambda dtype: dtype,
)


@pytest.mark.deep
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("reduction", [OWN["soft minimum"][0], PAIR], ids=["one", "of two"])
def test_tangents_do_not_meet_those_of_padding_with_padding(
    reduction: Reduction, window: str, masked: bool, rng: np.random.Generator
) -> None:
    """Those would be NaN, like the tangents of ``jnp.logaddexp`` of two infinities."""
    where = rng.random(SHAPE) < 0.4 if masked else np.ones(SHAPE, bool)
    x, t, u = (rng.standard_normal(SHAPE) for _ in range(3))
    words = WINDOWS[window]
    with jax.enable_x64(True):
        f = lambda x: pool(x, reduction, **words, where=where if masked else None)  # noqa: E731
        slope = lambda x: jax.jvp(f, (x,), (t,))[1]  # noqa: E731
        first, second = jax.jvp(slope, (x,), (u,))
        gradient = jax.grad(lambda x: jnp.where(jnp.isfinite(y := f(x)), y, 0).sum())
        third = jax.jvp(gradient, (x,), (t,))[1]

    def total(a: np.ndarray) -> np.ndarray:
        return over_windows(np.sum, a * np.exp(-x), where, **words)

    weight = np.where(total(np.ones(SHAPE)) > 0, total(np.ones(SHAPE)), 1)
    mean_t, mean_u, mean_tu = (total(a) / weight for a in (t, u, t * u))
    np.testing.assert_allclose(first, mean_t, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(second, mean_t * mean_u - mean_tu, rtol=1e-9, atol=1e-12)
    assert np.isfinite(third).all()


def test_the_gradient_of_a_product_is_the_product_of_the_others() -> None:
    """Also for elements that are zero, and for second derivatives."""
    x = jnp.array([2.0, 0.0, 5.0, 0.0, 3.0, 7.0])
    f = lambda x: pool(x, reductions.PRODUCT, 3, 1, data_format="W")  # noqa: E731
    want = np.zeros((4, 6), np.float32)
    for o, i in itertools.product(range(4), range(3)):
        want[o, o + i] = np.prod(np.delete(x[o : o + 3], i))
    assert_same(jax.jit(jax.jacrev(f))(x), want, "reverse")
    assert_same(jax.jit(jax.jacfwd(f))(x), want, "forward")
    second = jax.jit(jax.hessian(lambda x: f(x)[0]))(x)
    assert_same(second[:3, :3], np.array([[0, 5, 0], [5, 0, 2], [0, 2, 0]], np.float32), "x0 x1 x2")


def test_the_gradient_of_logsumexp_is_the_softmax(rng: np.random.Generator) -> None:
    x = rng.standard_normal(7).astype(np.float32)
    x[2:4] = x[2]  # a tie
    f = lambda x: pool(x, reductions.LOGSUMEXP, 7, 1, data_format="W")[0]  # noqa: E731
    p = np.asarray(jax.nn.softmax(x), np.float64)
    np.testing.assert_allclose(jax.grad(f)(x), p, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(jax.hessian(f))(x), np.diag(p) - np.outer(p, p), atol=1e-6)


STRIDED: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "end to end": ((11,), {"window_shape": (4,), "strides": 4}),
    "overlapping": ((14,), {"window_shape": (5,), "strides": 4}),
    "apart": ((12,), {"window_shape": (2,), "strides": 3, "padding": ((2, 0),)}),
    "dilated": ((17,), {"window_shape": (3,), "strides": 6, "dilations": 2}),
    "two axes": ((8, 9), {"window_shape": (3, 2), "strides": (3, 4), "padding": 1}),
}


@pytest.mark.parametrize("name", STRIDED)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_gradient_is_of_its_own_windows(name: str, bad: float, rng: np.random.Generator) -> None:
    """NaN or infinities in another window, or in no window, do not affect it."""
    shape, window = STRIDED[name]
    letters = "HW"[-len(shape) :]
    f = lambda x: pool(x, reductions.PRODUCT, **window, data_format=letters)  # noqa: E731
    x = np.asarray(1 + rng.random(shape), np.float32)
    x.flat[::7] = bad
    got = np.asarray(jax.grad(lambda x: f(x).sum())(jnp.asarray(x))).ravel()
    want, touched, read = np.zeros(x.size), np.zeros(x.size, bool), []
    numbers = np.arange(x.size).reshape(1, *shape, 1)
    over_windows(lambda elements: read.append(elements) or 0, numbers, **window)
    for elements in read:
        touched[elements] |= not np.isfinite(x.flat[elements]).all()
        for e in elements:
            want[e] += np.prod(x.flat[elements[elements != e]])
    assert touched.any() and not touched.all()
    np.testing.assert_allclose(got[~touched], want[~touched], rtol=1e-5)


def test_a_gradient_is_finite_where_what_no_window_multiplies_is_not() -> None:
    x = jnp.array([2.0, 1.0, 1.0, 1e25, 1e25, 1.0, 1.0, 4.0])
    f = lambda x: pool(x, reductions.PRODUCT, 4, 4, data_format="W").sum()  # noqa: E731
    want = [1e25, 2e25, 2e25, 2, 4, 4e25, 4e25, 1e25]
    np.testing.assert_allclose(jax.grad(f)(x), want, rtol=1e-6)


@pytest.mark.parametrize("kernel", [2, 9])
def test_logsumexp_of_infinities_has_no_nan(kernel: int) -> None:
    """Neither for elements nor for padding; a window with only -inf has no derivative."""
    x = jnp.array([-jnp.inf, -jnp.inf, -jnp.inf, 1.0, -jnp.inf, 2.0, 700.0, 710.0, 5.0])
    f = lambda x: pool(x, reductions.LOGSUMEXP, kernel, 1, kernel, data_format="W")  # noqa: E731
    y, forward, reverse = jax.jit(lambda x: (f(x), jax.jacfwd(f)(x), jax.jacrev(f)(x)))(x)
    np.testing.assert_allclose(forward, reverse, rtol=1e-6)
    total = np.sum(reverse, axis=1)
    np.testing.assert_allclose(total, np.where(np.isfinite(y), 1.0, 0.0), rtol=1e-5)
    assert np.isneginf(y[0]) and not np.isnan(y).any()
    finite = lambda x: jnp.where(jnp.isfinite(f(x)), f(x), 0).sum()  # noqa: E731
    assert not np.isnan(jax.jit(jax.hessian(finite))(x)).any()
    assert np.isnan(f(x.at[3].set(jnp.nan))).any()


@pytest.mark.parametrize("p", [0.5, 1, 2, np.inf])
def test_an_lp_norm_of_zeros_has_no_derivative_and_the_right_curvature(p: float) -> None:
    x = jnp.array([0.0, 0.0, 0.0, -3.0])
    f = lambda x: pool(x, reductions.lp(p), 2, 2, data_format="W").sum()  # noqa: E731
    y, first, second = jax.jit(lambda x: (f(x), jax.grad(f)(x), jax.hessian(f)(x)))(x)
    np.testing.assert_allclose(y, 3, rtol=1e-6)
    np.testing.assert_allclose(first, [0, 0, 0, -1], atol=1e-6)
    assert np.isfinite(second).all()
    if p == 2:
        np.testing.assert_allclose(second[2, 2], 1 / 3, rtol=1e-6)  # of sqrt(x^2 + 9) at 0


def test_the_lp_norm_goes_to_the_largest_absolute_value(rng: np.random.Generator) -> None:
    x, window = rng.uniform(0.5, 1.5, SHAPE).astype("f"), WINDOWS["padded"]
    largest = pool(x, reductions.lp(np.inf), **window)
    of_numbers = jnp.maximum(jaxpool.max_pool(np.abs(x), **window), 0)
    assert_same(largest, of_numbers, "p = inf")
    norms = (pool(x, reductions.lp(p), **window) for p in (1, 4, 16, 32))
    distance = [np.max(np.abs(norm - largest)) for norm in norms]
    assert distance == sorted(distance, reverse=True) and distance[-1] < 0.1


@pytest.mark.parametrize(
    ("p", "error"), [(0, ValueError), (-1, ValueError), (np.nan, ValueError), ("2", TypeError)]
)
def test_a_power_is_a_positive_number(p: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"lp: `p` = {p!r} is not a positive number") as caught:
        reductions.lp(p)
    assert str(caught.value).count("\n") == 2


# --- transformations ------------------------------------------------------------------------------


def test_vmap_is_a_batch_and_jit_changes_nothing(rng: np.random.Generator) -> None:
    x = data("product", rng, (3, 2, 8, 7, 2))
    f = lambda x: pool(x, reductions.PRODUCT, (2, 2), 2, 1)  # noqa: E731
    g = jax.grad(lambda x: f(x).sum())
    assert_same(jax.vmap(g)(x), g(x), "vmap", ulps=2)
    assert_same(jax.jit(f)(x), f(x), "jit", ulps=2)
    assert f(x[:, :0]).shape == f(x)[:, :0].shape and g(x[..., :0]).size == 0


def test_a_reduction_is_compiled_once() -> None:
    traces = []
    own = Reduction("own", jnp.add, 0, prepare=lambda x: traces.append(1) or x)
    x = jnp.ones((4, 1))
    pool(x, own, (2,), 1)
    first = len(traces)
    for _ in range(3):
        pool(x, own, (2,), 1)
    assert len(traces) == first > 0


# --- laws -----------------------------------------------------------------------------------------

BROKEN: dict[str, tuple[Reduction, str, str]] = {
    "difference": (
        Reduction("difference", jnp.subtract, 0),
        "the combine of reduction 'difference' is not commutative",
        r"a = -2.0, b = -0.5: combine\(a, b\) = -1.5, combine\(b, a\) = 1.5\.$",
    ),
    "average of averages": (
        Reduction("middle", lambda a, b: (a + b) / 2, 0),
        "the combine of reduction 'middle' is not associative",
        r"a = -2.0, b = -2.0, c = -0.5: combine\(combine\(a, b\), c\) = -1.25, combine\(a, ",
    ),
    "the first of two": (
        Reduction("first", lambda a, b: a + 0 * b, 0), "is not commutative", "combine",
    ),
    "sign of opposites": (
        Reduction("largest", lambda a, b: jnp.where(jnp.abs(a) >= jnp.abs(b), a, b), 0),
        "is not commutative",
        r"a = -0.5, b = 0.5: combine\(a, b\) = -0.5, combine\(b, a\) = 0.5",
    ),
    "rounded": (
        Reduction("rounded", lambda a, b: jnp.round(a + b), 0), "is not associative", "combine",
    ),
    "wrong identity": (
        Reduction("product", jnp.multiply, 0),
        "the combine of reduction 'product' does not ignore its identity",
        r"a = -2.0: combine\(a, identity\) = -0.0, a = -2.0\.$",
    ),
    "identity of the lowest": (
        Reduction("largest", jnp.maximum, 0), "does not ignore its identity", "a = -2.0",
    ),
    "not idempotent": (
        Reduction("sum", jnp.add, 0, idempotent=True), "is not idempotent", "combine",
    ),
    "of one of several arrays": (
        Reduction(
            "own", lambda a, b: (a[0] + b[0], a[1] - b[1]), (0, 0), prepare=lambda x: (x, x)
        ),
        "the combine of reduction 'own' is not commutative",
        r"a = \(-2.0, -2.0\), b = \(-0.5, -0.5\): combine\(a, b\) = \(-2.5, -1.5\), combine\(b, ",
    ),
    "wrong identity of several arrays": (
        Reduction(
            "own", lambda a, b: [a[0] + b[0], a[1] * b[1]], [0, 0], prepare=lambda x: [x, x]
        ),
        "does not ignore its identity",
        r"a = \[-2.0, -2.0\]: combine\(a, identity\) = \[-2.0, -0.0\], a = \[-2.0, -2.0\]\.$",
    ),
    "declared not associative": (
        Reduction("own", jnp.add, 0, associative=False), "is declared not associative", "in any o",
    ),
    "declared not commutative": (
        Reduction("own", jnp.add, 0, commutative=False), "is declared not commutative", "in any o",
    ),
}  # fmt: skip


def test_the_end_of_the_order_that_a_selection_prefers_is_checked() -> None:
    words: Any = {"comparator": jnp.greater, "extremum": "largest"}
    reduction = Reduction("own", jnp.maximum, -jnp.inf, **words)
    lines = error_lines("pool", ValueError, lambda: pool(jnp.ones((4, 1)), reduction, (2,), 1))
    assert "extremum='largest'" in lines[0] and '"max"' in lines[2]


@pytest.mark.parametrize(
    ("case", "inside_jit"), [*((case, False) for case in BROKEN), ("difference", True)]
)
def test_a_broken_law_is_an_error_with_a_counterexample(case: str, inside_jit: bool) -> None:
    reduction, what, facts = BROKEN[case]
    f = lambda x: pool(x, reduction, (2, 2), 1)  # noqa: E731
    call = jax.jit(f) if inside_jit else f
    lines = error_lines("pool", ValueError, lambda: call(jnp.ones((1, 3, 3, 1))))
    assert re.search(what, lines[0]) and re.search(facts, lines[1]), lines


def test_the_counterexample_is_one() -> None:
    """The numbers in the message reproduce the reported violation."""
    lines = error_lines(
        "pool", ValueError, lambda: pool(jnp.ones((4, 1)), BROKEN["rounded"][0], (2,), 1)
    )
    a, b, c = (float(n) for n in re.findall(r"[abc] = (-?[\d.]+)", lines[1])[:3])
    left, right = (float(n) for n in re.findall(r"\) = (-?\d+\.\d*)", lines[1]))
    combine: Callable[..., Any] = BROKEN["rounded"][0].combine
    assert float(combine(combine(a, b), c)) == left != right == float(combine(a, combine(b, c)))


def test_laws_are_tried_for_every_dtype() -> None:
    own = Reduction("own", lambda a, b: a + b - a * b, 0)
    for dtype in (jnp.float32, jnp.int32, jnp.bool_):
        x = jnp.ones((4, 1), dtype)
        if dtype == jnp.bool_:
            with pytest.raises(TypeError):  # booleans have no negative
                pool(x, own, (2,), 1)
        else:
            assert_same(pool(x, own, (2,), 1), np.ones((3, 1), dtype), dtype)
    modular = Reduction("own", lambda a, b: (a + b) % jnp.asarray(4, a.dtype), 0)
    with pytest.raises(ValueError, match="does not ignore its identity"):
        pool(jnp.ones((4, 1), jnp.int32), modular, (2,), 1)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint32"])
def test_lawful_reductions_pass(name: str, dtype: str) -> None:
    """Also if the sides of a law differ in the last places by rounding."""
    reduction = ALL[name][0]
    if name in (*FLOATS_ONLY, "lp(1)", "lp(2.5)", "lp(3)", *OWN) and "float" not in dtype:
        return
    with jax.enable_x64(dtype == "float64"):
        jax.eval_shape(lambda x: pool(x, reduction, (2,), 1), jax.ShapeDtypeStruct((4, 1), dtype))


def test_a_function_may_be_undefined_at_the_numbers_of_the_trial() -> None:
    """JAX reports NaN and infinities of the array, not those of the numbers that are tried."""
    x = jnp.array([1.0, 2.0, 4.0])
    for prepare in (jnp.log, jnp.reciprocal):
        own = Reduction(f"sum of {prepare.__name__}", jnp.add, 0, prepare=prepare)
        with jax.debug_nans(True), jax.debug_infs(True):
            y = jaxpool.pool(x, own, 2, 1, data_format="W")
        np.testing.assert_allclose(y, prepare(x)[1:] + prepare(x)[:-1], rtol=1e-6)


def test_the_trial_needs_no_numbers_of_the_array() -> None:
    """The check runs during tracing, in every transformation, at the first use."""
    new = lambda: Reduction("own", jnp.logaddexp, -jnp.inf)  # noqa: E731
    x = jnp.ones((3, 4, 1))
    f = lambda r: lambda x: pool(x, r, (2,), 1).sum()  # noqa: E731
    jax.jit(f(new()))(x)
    jax.vmap(f(new()))(x)
    jax.grad(f(new()))(x)
    jax.eval_shape(f(new()), x)
    scanned = f(new())
    jax.lax.scan(lambda carry, x: (carry, scanned(x)), 0, x)


@pytest.mark.parametrize("taps", [4, 40, 300])
def test_a_selection_that_ignores_nan_does_so_in_windows_of_any_length(taps: int) -> None:
    beats = lambda b, a: (b > a) | ((a != a) & (b == b))  # noqa: E731
    largest_number = Reduction("largest number", jnp.fmax, -jnp.inf, comparator=beats)
    x = np.arange(2.0 * taps, dtype=np.float32)
    x[[1, taps]] = np.nan
    gradient = jax.grad(lambda x: pool(x, largest_number, taps, taps, data_format="W").sum())(x)
    assert np.flatnonzero(gradient).tolist() == [taps - 1, 2 * taps - 1]


@pytest.mark.parametrize("name", ["product", "sum", "max", "logsumexp"])
def test_the_last_window_may_end_before_the_first_element(name: str) -> None:
    x, (reduction, of_elements) = np.full((2, 4, 1), 3, np.float32), NUMPY[name]
    y = pool(x, reduction, (1,), 6, ((2, 1),), rounding="ceil_torch")
    assert_same(y, np.full((2, 1, 1), of_elements(x[0, :0]), np.float32), name)


def test_a_traced_comparator() -> None:
    def nearest(v: Any) -> jax.Array:
        def nearer(b: Any, a: Any) -> Any:
            distances = jnp.abs(b - v), jnp.abs(a - v)
            return (distances[0] < distances[1]) | ((distances[0] == distances[1]) & (b > a))

        combine = lambda a, b: jnp.where(nearer(b, a), b, a)  # noqa: E731
        x = jnp.array([[1.0], [5.0], [2.0], [7.0]])
        return pool(x, Reduction("nearest", combine, jnp.inf, comparator=nearer), (2,), 2).sum()

    assert nearest(2.0) == 3
    with pytest.raises(TypeError, match="the comparator of reduction 'nearest' contains a traced"):
        jax.grad(nearest)(2.0)


def test_a_traced_identity() -> None:
    with pytest.raises(TypeError, match="the identity of reduction 'own' is traced"):
        jax.grad(lambda v: pool(jnp.ones((4, 1)), Reduction("own", jnp.maximum, v), (2,), 2))(2.0)


OTHER: dict[str, tuple[Any, Any, type[Exception], str]] = {
    "a function": (jnp.maximum, np.float32, TypeError, "is not a Reduction"),
    "a name": ("max", np.float32, TypeError, "`reduction` = 'max' is not a Reduction"),
    "another dtype": (
        Reduction("greater", jnp.greater, 0), np.float32, TypeError,
        "the combine of reduction 'greater' does not keep shape and dtype",
    ),
    "another shape": (
        Reduction("own", lambda a, b: (a + b).sum(), 0), np.float32, TypeError, "does not keep sh",
    ),
    "an identity of another dtype": (
        Reduction("largest", jnp.maximum, -np.inf), np.int32, ValueError,
        "the identity of reduction 'largest' does not fit int32",
    ),
    "complex numbers": (reductions.SUM, np.complex64, TypeError, "dtype complex64"),
    "a combine of NumPy": (
        Reduction("own", np.maximum, -np.inf), np.float32, TypeError,
        "the combine of reduction 'own' needs concrete values, but is traced",
    ),
    "a combine that decides": (
        Reduction("own", lambda a, b: a if (a > b).all() else b, -np.inf), np.float32, TypeError,
        "the combine of reduction 'own' needs concrete values",
    ),
    "a prepare of NumPy": (
        Reduction("own", jnp.add, 0, prepare=np.square), np.float32, TypeError,
        "the prepare of reduction 'own' needs concrete values",
    ),
    "a finish of NumPy": (
        Reduction("own", jnp.add, 0, finish=lambda total, count: np.divide(total, count)),
        np.float32, TypeError, "the finish of reduction 'own' needs concrete values",
    ),
    "no combine": (
        Reduction("own", None, 0), np.float32, TypeError,  # pyright: ignore[reportArgumentType]
        "the combine of reduction 'own' cannot be called",
    ),
    "a combine of one operand": (
        Reduction("own", lambda a: a, 0),  # pyright: ignore[reportArgumentType]
        np.float32, TypeError, "the combine of reduction 'own' cannot be called with 2 arguments",
    ),
    "a finish without the count": (
        Reduction("own", jnp.add, 0, finish=lambda total: total),  # pyright: ignore
        np.float32, TypeError, "the finish of reduction 'own' cannot be called with 2 arguments",
    ),
    "a result without a dtype": (
        Reduction("own", jnp.add, 0, result=lambda: np.float32),  # pyright: ignore
        np.float32, TypeError, "the result of reduction 'own' cannot be called with 1 argument\\.",
    ),
    "an array": (
        np.ones((9, 9)), np.float32, TypeError, r"= array.{60,75}\.\.\. is not a Reduction\.",
    ),
    "no function of a dtype": (
        Reduction("own", jnp.add, 0, accumulator="float32"),  # pyright: ignore[reportArgumentType]
        np.float32, TypeError, "the accumulator of reduction 'own' cannot be called",
    ),
}  # fmt: skip


def added(a: Any, b: Any) -> Any:
    return jax.tree.map(jnp.add, a, b)


def twice(x: Any) -> Any:
    return {"one": x, "two": jnp.ones(x.shape, jnp.int32)}


ZEROS = {"one": 0, "two": 0}
TWICE = "{'one': float32[7], 'two': int32[7]}"
OF_PYTREES: dict[str, tuple[Reduction, type[Exception], str, str]] = {
    "another structure": (
        Reduction("own", lambda a, b: (a["one"], b["two"]), ZEROS, prepare=twice),
        TypeError,
        "the combine of reduction 'own' does not keep the structure of its operands.",
        f"For two operands {TWICE} it returns (float32[7], int32[7]).",
    ),
    "an array less": (
        Reduction("own", lambda a, b: {"one": a["one"]}, ZEROS, prepare=twice),
        TypeError,
        "the combine of reduction 'own' does not keep the structure of its operands.",
        f"For two operands {TWICE} it returns {{'one': float32[7]}}.",
    ),
    "several of one": (
        Reduction("own", lambda a, b: (a, b), 0),
        TypeError,
        "the combine of reduction 'own' does not keep the structure of its operands.",
        "For two operands float32[7] it returns (float32[7], float32[7]).",
    ),
    "another dtype": (
        Reduction("own", lambda a, b: {**a, "two": a["two"] > b["two"]}, ZEROS, prepare=twice),
        TypeError,
        "the combine of reduction 'own' does not keep shape and dtype.",
        f"For two operands {TWICE} it returns {{'one': float32[7], 'two': bool[7]}}.",
    ),
    "another shape": (
        Reduction("own", lambda a, b: {**a, "one": a["one"].sum()}, ZEROS, prepare=twice),
        TypeError,
        "the combine of reduction 'own' does not keep shape and dtype.",
        f"For two operands {TWICE} it returns {{'one': float32[], 'two': int32[7]}}.",
    ),
    "a number for each window": (
        Reduction("own", added, (0, 0), prepare=lambda x: (x, 1)),
        TypeError,
        "the prepare of reduction 'own' does not keep the shape.",
        "For float32[7] it returns (float32[7], int32[]).",
    ),
    "no array": (
        Reduction("own", added, (), prepare=lambda x: ()),
        TypeError,
        "the prepare of reduction 'own' does not keep the shape.",
        "For float32[7] it returns ().",
    ),
    "an identity for all": (
        Reduction("own", added, 0, prepare=twice),
        ValueError,
        "the identity of reduction 'own' does not fit {'one': float32, 'two': int32}.",
        "It is 0.",
    ),
    "an identity of another structure": (
        Reduction("own", added, lambda dtypes: (0, 0), prepare=twice),
        ValueError,
        "the identity of reduction 'own' does not fit {'one': float32, 'two': int32}.",
        "It is (0, 0).",
    ),
    "an identity of another dtype": (
        Reduction("own", added, {"one": 0, "two": -np.inf}, prepare=twice),
        ValueError,
        "the identity of reduction 'own' does not fit {'one': float32, 'two': int32}.",
        "It is {'one': 0, 'two': -inf}.",
    ),
    "an identity for one array with several numbers": (
        Reduction("own", jnp.add, (0, 0)),
        ValueError,
        "the identity of reduction 'own' does not fit float32.",
        "It is (0, 0).",
    ),
    "an identity with axes": (
        Reduction("own", jnp.add, np.zeros(2)),
        ValueError,
        "the identity of reduction 'own' does not fit float32.",
        "It is array([0., 0.]).",
    ),
    "a selection": (
        Reduction("own", added, ZEROS, prepare=twice, comparator=jnp.greater),
        TypeError,
        "reduction 'own' is a selection of several arrays.",
        f"Its prepare returns {TWICE}; a selection is from one array.",
    ),
    "other results": (
        Reduction("own", added, ZEROS, prepare=twice, result=lambda dtype: (dtype, dtype)),
        ValueError,
        "the result of reduction 'own' has a different structure.",
        "Its dtypes are (dtype('float32'), dtype('float32')), for {'one': float32[3, 1], "
        "'two': int32[3, 1]}.",
    ),
}


@pytest.mark.parametrize("case", OF_PYTREES)
def test_errors_of_several_arrays(case: str) -> None:
    reduction, error, what, facts = OF_PYTREES[case]
    lines = error_lines("pool", error, lambda: pool(jnp.ones((4, 1)), reduction, (2,), 1))
    assert lines[:2] == [f"pool: {what}", f"  {facts}"]


@pytest.mark.parametrize("case", OTHER)
def test_other_errors(case: str) -> None:
    reduction, dtype, error, what = OTHER[case]
    x = np.ones((4, 1), dtype)
    assert re.search(what, error_lines("pool", error, lambda: pool(x, reduction, (2,), 1))[0])


def test_a_finish_without_the_count_says_what_it_gets() -> None:
    mean = Reduction("own", jnp.add, 0, finish=lambda total: total)  # pyright: ignore
    lines = error_lines("pool", TypeError, lambda: pool(np.ones((4, 1)), mean, (2,), 1))
    assert "with the combined values and the number of elements of each window." in lines[1]
    assert lines[2] == "  Give a function of 2 arguments."


class Sum:
    """A sum whose signature is unknown, as that of some functions written in C."""

    __signature__ = "unknown"

    def __call__(self, a: Any, b: Any) -> Any:
        return a + b


def test_a_function_without_a_signature_is_called() -> None:
    with pytest.raises((TypeError, ValueError)):
        inspect.signature(Sum())
    x = np.array([[1.0], [3.0], [2.0]], np.float32)
    assert pool(x, Reduction("own", Sum(), 0), (2,), 1)[:, 0].tolist() == [4, 5]


@pytest.mark.parametrize(
    ("words", "error", "what"),
    [
        ({"window_shape": (9, 2)}, ValueError, "`window_shape` = 9 does not fit"),
        ({"strides": 0}, ValueError, "`strides` contains 0"),
        ({"where": np.ones((3, 3), np.float32)}, TypeError, "`where` has dtype float32"),
        ({"implementation": "best"}, ValueError, "`implementation` = 'best'"),
        ({"implementation": "tiled"}, NotImplementedError, "'tiled' does not support these"),
    ],
)
def test_errors_of_every_op_are_in_the_name_of_this_one(
    words: dict[str, Any], error: type[Exception], what: str
) -> None:
    settings = {"window_shape": (2, 2), "strides": 1} | words
    x = np.ones((1, 4, 4, 1), np.float32)
    assert what in error_lines("pool", error, lambda: pool(x, reductions.PRODUCT, **settings))[0]


def test_a_mask_is_counted_by_any_implementation() -> None:
    """A count is a sum, which the implementation of a maximum may not support."""
    x = np.arange(18, dtype=np.float32).reshape(1, 6, 3)
    run = functools.partial(pool, window_shape=(2,), strides=2, implementation="tiled")
    for reduction in (reductions.MAX, reductions.MEAN):
        got = run(x, reduction, where=x > 4)
        want = pool(x, reduction, (2,), 2, where=x > 4, implementation="reduce_window")
        assert_same(got, want, reduction.name)
    kernels = functools.partial(
        pool, reduction=reductions.MAX, window_shape=(2, 2), strides=2, implementation="mosaic"
    )
    masked = jax.eval_shape(lambda x: kernels(x, where=x > 0), np.ones((1, 8, 8, 3), np.float32))
    assert masked.shape == (1, 4, 4, 3)


@pytest.mark.parametrize("op", [jaxpool.gem_pool, jaxpool.soft_pool])
def test_a_mask_of_joined_terms_is_counted_too(op: Callable[..., Any]) -> None:
    """By slices, terms are merged over longer windows than integers are added."""
    x = np.arange(1, 41, dtype=np.float32)[:, None]
    got, want = (
        op(x, window_shape=(12,), strides=1, where=x > 15, implementation=name)
        for name in ("slices", "auto")
    )
    assert_same(got, want, op.__name__, ulps=8)
