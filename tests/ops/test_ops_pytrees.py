"""Reductions that combine several arrays: against NumPy over every window, by loops."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import elements_of_windows
from helpers import PORTABLE, QUICK, assert_same, check_derivatives
from jax import lax

import jaxpool
from jaxpool import Reduction, pool

pytestmark = pytest.mark.grid(4)

# --- reductions ----------------------------------------------------------------------------------


class Moments(NamedTuple):
    """Number, mean and sum of squared deviations."""

    count: Any
    mean: Any
    squares: Any


def joined(a: Moments, b: Moments) -> Moments:
    """Return the moments of the union of two sets: Chan, Golub and LeVeque 1983."""
    count, distance = a.count + b.count, b.mean - a.mean
    share = b.count / jnp.maximum(count, 1)
    squares = a.squares + b.squares + distance**2 * a.count * share
    return Moments(count, a.mean + distance * share, squares)


VARIANCE = Reduction(
    "variance",
    joined,
    Moments(0, 0, 0),
    prepare=lambda x: Moments(jnp.ones_like(x), x, jnp.zeros_like(x)),
    finish=lambda moments, count: moments.squares / jnp.maximum(count, 1),
)


def preferred(a: Any, b: Any) -> Any:
    """Return the preferred pair: NaN, else the larger value, else the smaller index."""
    (p, i), (q, j) = a, b
    larger = jnp.where(jnp.isnan(q), ~jnp.isnan(p), q > p)
    equal = (p == q) | (jnp.isnan(p) & jnp.isnan(q))
    take = larger | (equal & (j < i))
    return jnp.where(take, q, p), jnp.where(take, j, i)


ARGMAX = Reduction(
    "value and index",
    preferred,
    (-np.inf, 2**31 - 1),
    idempotent=True,
    prepare=lambda x: (x, jnp.arange(x.size, dtype=jnp.int32).reshape(x.shape)),
)


def summed(a: Any, b: Any) -> Any:
    """Return the sum of ``e^high * total`` of both, without overflow."""
    high = jnp.maximum(a["high"], b["high"])
    finite = jnp.where(jnp.isfinite(high), high, 0)
    return {
        "high": high,
        "total": sum(part["total"] * jnp.exp(part["high"] - finite) for part in (a, b)),
    }


def logarithm(made: Any, count: Any) -> Any:
    empty = made["total"] == 0
    return jnp.where(empty, -jnp.inf, made["high"] + jnp.log(jnp.where(empty, 1, made["total"])))


LOGSUMEXP = Reduction(
    "scaled sum",
    summed,
    {"high": -np.inf, "total": 0},
    prepare=lambda x: {"high": x, "total": jnp.where(x == -jnp.inf, 0, jnp.ones_like(x))},
    finish=logarithm,
)

PRODUCT = Reduction(
    "complex product",
    lambda z, w: (z[0] * w[0] - z[1] * w[1], z[0] * w[1] + z[1] * w[0]),
    (1, 0),
    prepare=lambda x: (x, 1 - x),
)

RANGE = Reduction(
    "least and largest",
    lambda a, b: [jnp.minimum(a[0], b[0]), jnp.maximum(a[1], b[1])],
    lambda dtypes: [jnp.iinfo(dtypes[0]).max, jnp.iinfo(dtypes[1]).min],
    idempotent=True,
    prepare=lambda x: [x, x],
)


# --- the same in NumPy, from the numbers of a window and their positions --------------------------


def complex_product(elements: np.ndarray, flat: np.ndarray) -> tuple[Any, ...]:
    product = np.prod(elements + 1j * (1 - elements))
    return product.real, product.imag


def value_and_index(elements: np.ndarray, flat: np.ndarray) -> tuple[Any, ...]:
    if not elements.size:
        return -np.inf, 2**31 - 1
    place = np.argmax(elements)  # the first NaN, else the first of the largest
    return elements[place], flat[place]


def log_of_sum(elements: np.ndarray, flat: np.ndarray) -> tuple[Any, ...]:
    with np.errstate(invalid="ignore"):
        return (np.logaddexp.reduce(elements, initial=-np.inf),)


Oracle = Callable[[np.ndarray, np.ndarray], tuple[Any, ...]]
CASES: dict[str, tuple[Reduction, Oracle]] = {
    "variance": (VARIANCE, lambda elements, flat: (np.var(elements) if elements.size else 0,)),
    "argmax": (ARGMAX, value_and_index),
    "logsumexp": (LOGSUMEXP, log_of_sum),
    "complex": (PRODUCT, complex_product),
    "range": (
        RANGE,
        lambda elements, flat: (elements.min(initial=127), elements.max(initial=-128)),
    ),
}
SMOOTH = ("variance", "logsumexp", "complex")


def expected(
    oracle: Oracle, x: np.ndarray, window: dict[str, Any], where: Any = True
) -> list[np.ndarray]:
    """Return the results of every window, in float64."""
    wide, flat = x.astype(np.float64), np.arange(x.size).reshape(x.shape)
    mask = np.broadcast_to(where, x.shape)
    shape, walk = elements_of_windows(x, **window)
    made = []
    for _, places in walk:
        held = [place for place in places if mask[place]]
        made.append(oracle(np.array([wide[p] for p in held]), np.array([flat[p] for p in held])))
    return [np.array(column).reshape(shape) for column in zip(*made, strict=True)]


WINDOWS: dict[str, dict[str, Any]] = {
    "padded": {
        "window_shape": (3, 2), "strides": (2, 1), "padding": ((1, 0), (0, 2)),
    },
    "dilated, ceil": {
        "window_shape": (2, 3), "strides": (2, 2), "padding": ((1, 1), (1, 1)), "dilations": (3, 2),
        "rounding": "ceil",
    },
    "empty windows": {
        "window_shape": (5, 4), "strides": (1, 3), "padding": ((5, 6), (4, 4)),
    },
    "tiles": {
        "window_shape": (3, 2), "strides": (3, 2), "padding": ((1, 0), (0, 1)),
    },
}  # fmt: skip
SHAPE = (2, 8, 7, 2)


def data(name: str, rng: np.random.Generator, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    if name == "range":
        return rng.integers(-128, 128, shape).astype(np.int8)
    x = rng.uniform(-1.5, 1.5, shape).astype(np.float32)
    return np.round(2 * x) / 2 if name == "argmax" else x  # with ties


def assert_as_expected(got: Any, want: list[np.ndarray], case: Any) -> None:
    for a, b in zip(jax.tree.leaves(got), want, strict=True):
        assert_same(a, b.astype(a.dtype), case, ulps=16)


# --- values --------------------------------------------------------------------------------------


@pytest.mark.grid(20)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", CASES)
def test_it_is_numpy_over_every_window(name: str, window: str, rng: np.random.Generator) -> None:
    reduction, oracle = CASES[name]
    x, where = data(name, rng), rng.random((8, 7, 1)) < 0.4
    got = pool(x, reduction, **WINDOWS[window])
    assert_as_expected(got, expected(oracle, x, WINDOWS[window]), (name, window))
    masked = pool(x, reduction, **WINDOWS[window], where=where)
    assert_as_expected(masked, expected(oracle, x, WINDOWS[window], where), (name, "masked"))


@pytest.mark.grid(5)
@pytest.mark.parametrize("name", CASES)
def test_every_implementation_gives_the_same(name: str, rng: np.random.Generator) -> None:
    reduction, oracle = CASES[name]
    x = data(name, rng)
    want = expected(oracle, x, WINDOWS["tiles"])
    for implementation in PORTABLE:
        got = pool(x, reduction, **WINDOWS["tiles"], implementation=implementation)
        assert_as_expected(got, want, implementation)


def test_the_structure_is_that_of_prepare(rng: np.random.Generator) -> None:
    moments = Reduction("moments", joined, VARIANCE.identity, prepare=VARIANCE.prepare)
    made = pool(data("variance", rng), moments, **WINDOWS["padded"])
    assert type(made) is Moments and made.count.max() == 6
    assert type(pool(data("range", rng), RANGE, **WINDOWS["padded"])) is list


def test_axes_of_any_layout(rng: np.random.Generator) -> None:
    x = data("complex", rng, (1, 8, 7, 2))
    want = pool(x, PRODUCT, **WINDOWS["padded"])
    got = pool(np.moveaxis(x, -1, 1), PRODUCT, **WINDOWS["padded"], data_format="NCHW")
    one = pool(x[0, ..., 0], PRODUCT, **WINDOWS["padded"], data_format="HW")
    for a, b, c in zip(got, want, one, strict=True):
        assert_same(np.moveaxis(a, 1, -1), b, "channels first", ulps=2)
        assert_same(c, b[0, ..., 0], "one image", ulps=2)


def test_nan_infinities_and_ties(rng: np.random.Generator) -> None:
    x, window = data("argmax", rng), WINDOWS["padded"]
    x[0, 2:6, 1:4] = -np.inf
    x[1, 1:3, 2] = np.nan
    for name in ("argmax", "logsumexp"):
        reduction, oracle = CASES[name]
        assert_as_expected(pool(x, reduction, **window), expected(oracle, x, window), name)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "float32"])
def test_one_result_has_the_dtype_of_the_array_and_several_their_own(dtype: str) -> None:
    x = jnp.arange(1, 5).astype(dtype)
    pair = Reduction(
        "sum and number",
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        (0, 0),
        prepare=lambda x: (x, jnp.ones(x.shape, jnp.int32)),
    )
    window: dict[str, Any] = {"window_shape": 4, "strides": 1, "data_format": "W"}
    total, number = pool(x, pair, **window)
    assert total.dtype == (dtype if dtype == "int8" else "float32") and number.dtype == "int32"
    mean = lambda made, count: made[0] / made[1].astype(jnp.float32)  # noqa: E731
    one = pool(x, _with(pair, finish=mean) if dtype != "int8" else _with(pair, _first), **window)
    assert one.dtype == dtype
    named = pool(x, _with(pair, result=lambda dtype: (dtype, np.uint8)), **window)
    assert [a.dtype for a in named] == [dtype, "uint8"]
    alike = pool(x, _with(pair, result=lambda dtype: np.float32), **window)
    assert [a.dtype for a in alike] == ["float32"] * 2
    assert [a.item() for a in alike] == [10, 4]


def _first(made: Any, count: Any) -> Any:
    return made[0]


def _with(reduction: Reduction, finish: Any = None, result: Any = None) -> Reduction:
    words = reduction.combine, reduction.identity
    return Reduction(
        reduction.name, *words, prepare=reduction.prepare, finish=finish, result=result
    )


def test_a_count_has_the_first_float_dtype() -> None:
    seen: list[Any] = []
    for dtypes in ((np.int32, np.float16), (np.int32, np.uint8)):
        own = Reduction(
            "own",
            lambda a, b: (a[0] + b[0], a[1] + b[1]),
            (0, 0),
            prepare=lambda x, d=dtypes: tuple(x.astype(dtype) for dtype in d),
            finish=lambda made, count: seen.append(count) or made[0],
        )
        pool(jnp.ones((4, 1)), own, (2,), 1)
    assert [count.dtype for count in seen] == [np.float16, np.int32]


def test_an_empty_batch(rng: np.random.Generator) -> None:
    value, index = pool(data("argmax", rng)[:0], ARGMAX, **WINDOWS["padded"])
    assert value.shape == index.shape == (0, 4, 8, 2) and index.dtype == np.int32


# --- derivatives ---------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_to_order_two_in_both_modes(name: str, rng: np.random.Generator) -> None:
    with jax.enable_x64(True):
        x = jnp.asarray(rng.uniform(0.5, 1.5, (1, 5, 3, 1)))
        where = rng.random((5, 3, 1)) < 0.8
        window = WINDOWS["padded"]
        check_derivatives(lambda x: _weighted(pool(x, CASES[name][0], **window)), x, rng=rng)
        check_derivatives(
            lambda x: _weighted(pool(x, CASES[name][0], **window, where=where)), x, rng=rng
        )


def _weighted(made: Any) -> jax.Array:
    """Return an array that is nonlinear in each finite result."""
    arrays = [jnp.where(jnp.isfinite(a), a, 0) for a in jax.tree.leaves(made)]
    return jnp.stack([(n + 1) * a**2 for n, a in enumerate(arrays)])


def test_the_gradient_of_a_variance_is_the_known_one(rng: np.random.Generator) -> None:
    x, window = data("variance", rng), {"window_shape": (3, 2), "strides": (2, 1), "padding": 1}
    total = lambda op: lambda x: (op(x, **window) ** 2).sum()  # noqa: E731
    ours = jax.grad(total(lambda x, **window: pool(x, VARIANCE, **window)))(x)
    assert_same(ours, jax.grad(total(jaxpool.var_pool))(x), "variance", ulps=16)


def test_a_value_beside_its_index_has_the_derivative_of_that_element() -> None:
    x = jnp.array([3.0, 5.0, 5.0, -jnp.inf, -jnp.inf, 1.0])
    f = lambda x: pool(x, ARGMAX, 3, 1, ((0, 2),), data_format="W")  # noqa: E731
    index = f(x)[1]
    want = np.eye(6, dtype=np.float32)[index]
    assert index.tolist() == [1, 1, 2, 5, 5, 5]
    assert_same(jax.jacrev(lambda x: f(x)[0])(x), want, "reverse")
    assert_same(jax.jacfwd(lambda x: f(x)[0])(x), want, "forward")


@pytest.mark.grid(3)
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_lower_for_every_platform(name: str) -> None:
    f = lambda x: _weighted(pool(x, CASES[name][0], **WINDOWS["padded"])).sum()  # noqa: E731
    for g in (f, jax.grad(f), jax.hessian(f)):
        traced = jax.jit(g).trace(jax.ShapeDtypeStruct((1, 8, 7, 1), jnp.float32))
        text = traced.lower(lowering_platforms=("cpu", "cuda", "tpu")).as_text()
        assert "stablehlo" in text and "reduce_window" not in text


def test_the_program_grows_with_the_logarithm_of_the_window() -> None:
    def size(kernel: int) -> int:
        f = lambda x: pool(x, VARIANCE, kernel, 1, data_format="W").sum()  # noqa: E731
        text = jax.jit(jax.grad(f)).trace(jax.ShapeDtypeStruct((2048,), jnp.float32)).lower()
        return len(text.as_text().splitlines())

    sizes = [size(kernel) for kernel in (4, 32, 256)]
    assert sizes[2] - sizes[1] < 1.2 * (sizes[1] - sizes[0])


# --- transformations -----------------------------------------------------------------------------


@pytest.mark.grid(5)
@pytest.mark.parametrize("name", CASES)
def test_vmap_is_a_batch_and_jit_changes_nothing(name: str, rng: np.random.Generator) -> None:
    reduction, x = CASES[name][0], data(name, rng, (3, *SHAPE))
    f = lambda x: pool(x, reduction, **WINDOWS["padded"])  # noqa: E731
    want = [f(example) for example in x]
    for got in (jax.vmap(f)(x), jax.jit(jax.vmap(f))(x), lax.map(f, x)):
        for n, example in enumerate(want):
            for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(example), strict=True):
                assert_same(a[n], b, name, ulps=4)


@pytest.mark.deep
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_of_a_scan(name: str, rng: np.random.Generator) -> None:
    """Second-order derivatives, through the carry and the inputs of the loop."""
    reduction, x = CASES[name][0], rng.uniform(0.5, 1.5, (3, 5, 4, 1)).astype(np.float32)

    def step(w: Any, x: Any) -> Any:
        y = _weighted(pool(w * x, reduction, **WINDOWS["padded"])).sum()
        return w + y / 256, y

    scanned = lambda w, x: lax.scan(step, w, x)[1].sum()  # noqa: E731

    def unrolled(w: Any, x: Any) -> Any:
        total = jnp.zeros(())
        for example in x:
            w, y = step(w, example)
            total += y
        return total

    mixed = [jax.jit(_mixed(f), compiler_options=QUICK)(x) for f in (scanned, unrolled)]
    np.testing.assert_allclose(mixed[0], mixed[1], rtol=1e-4, atol=1e-4)
    assert np.abs(mixed[0]).max() > 0


def _mixed(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return the derivative in ``x`` of the derivative in ``w``."""
    return jax.grad(lambda x: jax.grad(f)(jnp.float32(1), x))
