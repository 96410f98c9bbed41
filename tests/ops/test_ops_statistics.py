"""Variances, deviations, quantiles and global statistics against NumPy, window by window."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import over_windows
from helpers import PLATFORMS, assert_same, check_derivatives, lowered

import jaxpool
from jaxpool._geometry.resolve import Geometry
from jaxpool._numerics import covariances
from jaxpool._numerics.quantiles import METHODS

pytestmark = pytest.mark.grid(6)

W: Any = {"data_format": "W"}
WINDOW: dict[str, Any] = {
    "window_shape": (3, 2),
    "strides": (2, 1),
    "padding": ((2, 1), (0, 1)),
    "dilations": (1, 2),
}


def by_window(x: np.ndarray, where: np.ndarray | None, statistic: Callable[..., Any]) -> np.ndarray:
    """Return ``statistic`` of the elements of each window of one plane; NaN if there are none."""
    found = lambda elements: statistic(elements) if len(elements) else np.nan  # noqa: E731
    mask = None if where is None else where[..., None]
    return over_windows(found, x[..., None], mask, **WINDOW)[..., 0]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("correction", [0, 1])
def test_variances_are_those_of_numpy(
    correction: int, masked: bool, rng: np.random.Generator
) -> None:
    x = rng.standard_normal((7, 8)).astype(np.float32)
    where = rng.random(x.shape) < 0.5 if masked else None

    def variance(elements: np.ndarray) -> float:
        return elements.var(ddof=correction) if len(elements) > correction else np.nan

    want = by_window(x, where, variance).astype(np.float32)
    words = {**WINDOW, "data_format": "HW", "correction": correction, "where": where}
    assert_same(jaxpool.var_pool(x, **words), want, "variance", ulps=4)
    assert_same(jaxpool.std_pool(x, **words), np.sqrt(want), "deviation", ulps=4)


def test_a_large_mean_cancels_nothing(rng: np.random.Generator) -> None:
    noise = rng.integers(-8, 9, 4000).astype(np.float32)
    x = noise + 2.0**20
    got = jaxpool.std_pool(x, 1001, 1, data_format="W")
    want = np.lib.stride_tricks.sliding_window_view(noise.astype(float), 1001).std(-1)
    assert_same(got, want.astype(np.float32), "a mean of 2e5 deviations", ulps=8)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("op", [jaxpool.var_pool, jaxpool.std_pool])
def test_the_spread_of_one_element_is_a_zero_without_a_sign(
    op: Callable[..., Any], platform: str, rng: np.random.Generator
) -> None:
    x = jnp.asarray(rng.standard_normal((5, 6)), jnp.float32)
    for strides in (1, 2):
        y = lowered(lambda x, s=strides: op(x, (1,), s, data_format="NW"), platform, x)(x)
        assert not np.asarray(y).any() and not np.signbit(y).any()


BESIDE: dict[str, Any] = {
    "tiled": {"window_shape": (4, 3), "strides": (4, 3)},
    "overlapping": {"window_shape": (3, 2), "strides": (2, 1), "padding": "SAME"},
    "long": {"window_shape": (9, 8), "strides": (1, 3)},
}


@pytest.mark.grid(13)
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("case", BESIDE)
@pytest.mark.parametrize("op", [jaxpool.var_pool, jaxpool.std_pool])
def test_infinities_and_nan_reach_what_shares_a_window_and_nothing_else(
    op: Callable[..., Any], case: str, platform: str, rng: np.random.Generator
) -> None:
    x = jnp.asarray(rng.permutation(11 * 13).reshape(11, 13), jnp.float32)
    words = {"data_format": "HW", **BESIDE[case]}
    weights = rng.standard_normal(x.shape, np.float32)

    def gradient(x: jax.Array) -> jax.Array:
        return jax.grad(lambda x: op(x, **words).sum())(x)

    def both(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return gradient(x), jax.grad(lambda x: (gradient(x) * weights).sum())(x)

    run = lowered(lambda x: (op(x, **words), *both(x)), platform, x)
    for place, bad in zip([(0, 0), (4, 6), (8, 2)], (np.inf, -np.inf, np.nan), strict=True):
        mark = jnp.zeros_like(x).at[place].set(1)
        windows, back = jax.vjp(lambda x: jaxpool.sum_pool(x, **words), mark)
        beside = np.asarray(back((windows > 0).astype(jnp.float32))[0]) > 0
        y, first, second = run(x.at[place].set(bad))
        assert_same(np.isnan(y), np.asarray(windows > 0), "values")
        assert_same(np.isnan(first), beside, "gradient")
        assert np.isfinite(np.asarray(second)[~beside]).all()


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("beyond", [1e20, math.inf, math.nan])
def test_a_window_does_not_feel_what_lies_behind_its_masked_end(
    beyond: float, platform: str
) -> None:
    x, where = jnp.array([1, 3, 5, beyond, 7, 9]), jnp.array([1, 1, 0, 1, 1, 1], bool)

    def pool(x: jax.Array) -> jax.Array:
        return jaxpool.var_pool(x, 3, 3, where=where, **W)

    run = lowered(lambda x: (pool(x), jax.grad(lambda x: pool(x)[0])(x)), platform, x)
    y, slope = run(x)
    assert y[0] == 1 and not np.isfinite(y[1])
    np.testing.assert_array_equal(slope[:3], [-1, 1, 0])


@pytest.mark.grid(15)
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("beyond", [1e9, math.inf, math.nan])
@pytest.mark.parametrize("window", [(3, 2), (9, 8)])
def test_a_window_that_begins_in_padding_does_not_feel_the_element_after_it(
    window: tuple[int, int], beyond: float, platform: str, rng: np.random.Generator
) -> None:
    """The first row of the window is masked, and the element after that row is not."""
    rows, inside = window[0], window[1] - 1
    x = jnp.asarray(rng.permutation(rows * 16).reshape(rows, 16) / 8, jnp.float32)
    where = np.ones(x.shape, bool)
    where[0, :inside] = False
    words: dict[str, Any] = {"padding": ((0, 0), (1, 0)), "data_format": "HW"}

    def first(x: jax.Array) -> jax.Array:
        return jaxpool.var_pool(x, window, window, where=where, **words)[0, 0]

    run = lowered(jax.value_and_grad(first), platform, x)
    y, slope = run(x.at[0, inside].set(beyond))
    elements = np.asarray(x, float)[1:, :inside]
    np.testing.assert_allclose(y, elements.var(), rtol=1e-6)
    want = 2 * (elements - elements.mean()) / elements.size
    np.testing.assert_allclose(slope[1:, :inside], want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_padding_is_at_no_distance(platform: str) -> None:
    """The square of the elements, and thus of their distance from 0, is infinite."""
    x = jnp.full((6, 5), 1e20)
    words = {"window_shape": 3, "strides": 1, "padding": 2, "data_format": "HW"}
    y = lowered(lambda x: jaxpool.std_pool(x, **words), platform, x)(x)
    assert_same(y, np.zeros((8, 7), np.float32), "equal elements")


ALIKE: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "strided": ((2, 17, 15, 3), {"window_shape": (7, 6), "strides": (3, 2), "padding": 2}),
    "dilated": ((1, 23, 19, 2), {"window_shape": (9, 4), "strides": 1, "dilations": (2, 3)}),
    "masked": ((2, 17, 15, 3), {"window_shape": (8, 7), "strides": (1, 2), "padding": "SAME"}),
    "3-D": ((1, 9, 8, 7, 2), {"window_shape": (4, 3, 5), "strides": (1, 2, 1), "padding": 1}),
    "one axis": ((2, 40, 3), {"window_shape": (16,), "strides": 1, "rounding": "ceil"}),
}
"""Shapes and settings of windows that GPU and TPU join along one axis after the other."""


@pytest.mark.deep
@pytest.mark.parametrize("platform", PLATFORMS[1:])
@pytest.mark.parametrize("case", ALIKE)
def test_platforms_agree(case: str, platform: str, rng: np.random.Generator) -> None:
    shape, words = ALIKE[case]
    where = rng.random(shape) < 0.3 if case == "masked" else None
    x = jnp.asarray(rng.standard_normal(shape) + 50, jnp.float32)

    def both(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        pool = lambda x: jaxpool.var_pool(x, **words, where=where, correction=1)  # noqa: E731
        slope = lambda x: jax.vjp(pool, x)[1](jnp.cos(pool(x)))[0]  # noqa: E731
        return pool(x), slope(x), jax.jvp(slope, (x,), (jnp.sin(x),))[1]

    run = lowered(both, platform, x)
    for image in (x, x.reshape(-1).at[7].set(jnp.nan).at[-9].set(jnp.inf).reshape(shape)):
        for got, want in zip(run(image), jax.jit(both)(image), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.grid(12)
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("case", ALIKE)
def test_windows_do_not_feel_an_outlier_of_others(
    case: str, platform: str, rng: np.random.Generator
) -> None:
    shape, words = ALIKE[case]
    where = rng.random(shape) < 0.7 if case == "masked" else None
    x = jnp.asarray(rng.permutation(math.prod(shape)).reshape(shape) / 64 + 2.0**12, jnp.float32)
    outliers = rng.random(shape) < 0.02
    other = jnp.where(outliers, jnp.asarray(rng.choice([-1e9, 1e18], shape), jnp.float32), x)
    held = jaxpool.sum_pool(outliers.astype(np.float32), **words, where=where) > 0
    weights = jnp.where(held, 0, rng.standard_normal(held.shape, np.float32))

    def both(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        y, back = jax.vjp(lambda x: jaxpool.var_pool(x, **words, where=where), x)
        return jnp.where(held, 0, y), back(jnp.nan_to_num(weights))[0]

    run = lowered(both, platform, x)
    assert np.any(held) and not np.all(held), "the case holds windows of both kinds"
    for got, want in zip(run(other), run(x), strict=True):
        scale = np.nanmax(np.abs(want))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6 * scale)


def variances_at_every_element(x: jax.Array, window: tuple[int, int]) -> jax.Array:
    """Return variances at stride 1 with "SAME" padding, from all elements of all windows."""
    pads = [((k - 1) // 2, k // 2) for k in window]

    def elements(x: jax.Array) -> jax.Array:
        padded, (height, width) = jnp.pad(x, pads), x.shape
        offsets = np.ndindex(window)
        return jnp.stack([padded[i : i + height, j : j + width] for i, j in offsets])

    there, found = elements(jnp.ones_like(x)), elements(x)
    deviation = (found - found.sum(0) / there.sum(0)) * there
    return (deviation**2).sum(0) / there.sum(0)


@pytest.mark.deep
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("window", [(3, 2), (5, 5), (7, 6), (9, 8)])
def test_a_large_mean_cancels_nothing_in_derivatives(
    window: tuple[int, int], platform: str, rng: np.random.Generator
) -> None:
    noise = rng.permutation(99).reshape(9, 11).astype(np.float32) / 8
    first, second = rng.standard_normal((2, 9, 11), np.float32)

    def derivatives(pool: Callable[..., Any]) -> Callable[..., Any]:
        weighed = lambda f, weights: lambda x: (f(x) * weights.astype(x.dtype)).sum()  # noqa: E731
        gradient = jax.grad(weighed(pool, first))
        return lambda x: (pool(x), gradient(x), jax.grad(weighed(gradient, second))(x))

    x = jnp.asarray(noise + 2.0**18)
    pool = lambda x: jaxpool.var_pool(x, window, 1, "SAME", data_format="HW")  # noqa: E731
    got = lowered(derivatives(pool), platform, x)(x)
    with jax.enable_x64(True):
        definition = lambda x: variances_at_every_element(x, window)  # noqa: E731
        want = jax.jit(derivatives(definition))(jnp.asarray(noise, jnp.float64))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6 * np.abs(b).max())


@pytest.mark.grid(12)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_quantiles_are_those_of_numpy(method: Any, masked: bool, rng: np.random.Generator) -> None:
    x = rng.permutation(56).reshape(7, 8).astype(np.float32)
    where = rng.random(x.shape) < 0.6 if masked else None
    for q in (0, 0.3, 0.5, 0.95, 1):
        want = by_window(x, where, lambda v, q=q: np.quantile(v, q, method=method))
        words = {**WINDOW, "data_format": "HW", "method": method, "where": where}
        got = jaxpool.quantile_pool(x, q, **words)
        assert_same(got, want.astype(np.float32), (method, q), ulps=2)


def test_quantiles_of_infinities_and_nan() -> None:
    x = jnp.array([1.0, jnp.inf, 2.0, -jnp.inf, jnp.nan, 3.0, 4.0])
    got = jaxpool.quantile_pool(x, 0.5, 2, 1, data_format="W")
    assert_same(np.isnan(got), np.array([0, 0, 0, 1, 1, 0], bool), "one NaN in two windows")
    low = jaxpool.quantile_pool(x, 0.0, 2, 1, data_format="W", method="linear")
    assert_same(low[:3], np.array([1, 2, -np.inf], np.float32), "minima")
    x, q = jnp.array([1.0, -jnp.inf, -jnp.inf]), 1 - 2e-9  # in float32, the share of 1.0 is 1
    assert jaxpool.quantile_pool(x, q, 3, 1, data_format="W") == -np.inf


@pytest.mark.parametrize("mean", [0, 1e3, 1e6])
def test_a_mean_that_is_large_beside_the_deviation(mean: float, rng: np.random.Generator) -> None:
    """The rounding error of the mean is as large as the deviations."""
    x = (mean + rng.random((3, 1000))).astype(np.float32)
    wide = x.astype(np.float64)
    deviation = jaxpool.global_std_pool(x, data_format="NW", keepdims=False)
    np.testing.assert_allclose(deviation, wide.std(-1), rtol=1e-5)
    slope = jax.grad(lambda x: jaxpool.global_std_pool(x, data_format="NW").sum())(jnp.asarray(x))
    want = (wide - wide.mean(-1, keepdims=True)) / (wide.std(-1, keepdims=True) * 1000)
    np.testing.assert_allclose(slope, want, rtol=1e-4, atol=1e-7)
    for size in (10, 1000):
        same = jnp.full((2, size), 0.1 + mean, jnp.float32)
        y, back = jax.vjp(lambda x: jaxpool.global_std_pool(x, data_format="NW"), same)
        assert not np.any(y) and not np.any(back(jnp.ones_like(y))[0])
    unequal = same.at[0, 3].set(np.nextafter(same[0, 3], np.float32(np.inf)))
    deviation = jaxpool.global_std_pool(unequal, data_format="NW")
    np.testing.assert_allclose(deviation[0], np.asarray(unequal[0], float).std(), rtol=1e-5)


@pytest.mark.parametrize("window", [(1, 7), (1, 16), (3, 3)])
@pytest.mark.parametrize("masked", [False, True])
def test_padded_windows_store_no_difference_of_elements(
    window: tuple[int, int], masked: bool
) -> None:
    """XLA:CPU stored an array for each element along an axis, and took up to 8 times as long."""
    x, mask = jnp.zeros((256, 256)), jnp.ones((256, 256), bool)
    pool = functools.partial(
        jaxpool.std_pool, window_shape=window, strides=1, padding="SAME", data_format="HW"
    )
    program = jax.jit(lambda x, mask: pool(x, where=mask if masked else None))
    memory = program.lower(x, mask).compile().memory_analysis()
    assert memory is not None and memory.temp_size_in_bytes < (8 if masked else 5.8) * 4 * x.size


@pytest.mark.parametrize("window", [2, 3, 5, 6, 7, 11, 13])
def test_equal_elements_have_no_variance(
    window: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On GPU and TPU, whose quotients may be off by units in the last place."""
    inexact = lambda count: jnp.nextafter(jnp.maximum(count, 1), jnp.float32(0))  # noqa: E731
    monkeypatch.setattr(covariances, "_at_least_one", inexact)
    x = jnp.repeat(jnp.asarray(rng.standard_normal((50, 1)), jnp.float32), window, 1)
    axis = jaxpool.geometry((window,), window, 1).axes[0]
    squares = covariances._fused(Geometry((axis,), (-1,)), np.dtype(np.float32), (x,), None)[-1]
    assert squares.shape == (50, 1) and not np.any(squares)


@pytest.mark.deep
@pytest.mark.parametrize("window", [(3, 2), (7, 6)])
def test_statistics_have_derivatives_of_second_order(
    window: tuple[int, int], rng: np.random.Generator
) -> None:
    with jax.enable_x64(True):
        x = jnp.asarray(rng.standard_normal((9, 8)) + 3)
        words: dict[str, Any] = {"padding": 1, "data_format": "HW"}
        where = rng.random(x.shape) < 0.8
        for op in (jaxpool.var_pool, jaxpool.std_pool):
            check_derivatives(lambda x, op=op: op(x, window, 1, **words), x, rng=rng)
            masked = lambda x, op=op: op(x, window, 2, where=where, **words)  # noqa: E731
            check_derivatives(masked, x, rng=rng)
        quantile = lambda x: jaxpool.quantile_pool(x, 0.4, window, 1, **words) ** 2  # noqa: E731
        check_derivatives(quantile, x, rng=rng, eps=1e-6)
        check_derivatives(lambda x: jaxpool.global_std_pool(x, data_format="HW"), x, rng=rng)
        soft = lambda x: jaxpool.global_logsumexp_pool(x, data_format="HW")  # noqa: E731
        check_derivatives(soft, x, rng=rng)


def test_the_derivative_is_zero_where_the_deviation_is_zero_and_where_nothing_counts() -> None:
    x = jnp.ones((6,))
    for words in ({}, {"correction": 2}):
        g = jax.grad(lambda x, w=words: jaxpool.std_pool(x, 2, 2, data_format="W", **w).sum())(x)
        assert_same(g, np.zeros(6, np.float32), words)


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint16", "bool"])
def test_argmin_is_the_argmax_of_what_is_reversed(dtype: str, rng: np.random.Generator) -> None:
    x = rng.integers(0, 5, (2, 7, 8, 3)).astype(dtype)
    reverse = np.negative if dtype == "float32" else np.invert
    cases: list[dict[str, Any]] = [{}, {"index_space": "window"}, {"index_space": 1}]
    for words in cases:
        want = jaxpool.max_pool_with_argmax(reverse(x), **WINDOW, **words)
        got = jaxpool.min_pool_with_argmin(x, **WINDOW, **words)
        assert_same(got[0], reverse(np.asarray(want[0])), "values")
        assert_same(got[1], want[1], words)


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "bool"])
def test_global_minima_and_places(dtype: str, rng: np.random.Generator) -> None:
    x = rng.integers(0, 90, (2, 4, 5, 3)).astype(dtype)
    where = rng.random(x.shape) < 0.7
    want = np.where(where, x, True if dtype == "bool" else 99).astype(dtype).min((1, 2))
    assert_same(jaxpool.global_min_pool(x, where=where, keepdims=False), want, dtype)
    values, places = jaxpool.global_max_pool_with_argmax(x, keepdims=False)
    flat = x.reshape(2, 20, 3)
    assert_same(values, flat.max(1), dtype)
    assert_same(places, flat.argmax(1).astype(np.int32), dtype)


@pytest.mark.parametrize("op", ["var_pool", "std_pool", "global_std_pool"])
def test_too_few_elements_have_no_derivative_in_either_mode(op: str) -> None:
    x, where = jnp.array([[1.0], [3.0], [7.0]]), jnp.array([[True], [False], [False]])
    settings = {"where": where, "correction": 1, "data_format": "WC"}
    window = () if op.startswith("global") else (2, 1)
    pool = lambda x: getattr(jaxpool, op)(x, *window, **settings)  # noqa: E731
    assert np.isnan(pool(x)).all()
    for jacobian in (jax.jacfwd, jax.jacrev):
        np.testing.assert_array_equal(jacobian(pool)(x), 0)


def test_global_deviations_and_smooth_maxima(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 4, 5, 3)).astype(np.float32) + 1000
    where = rng.random((4, 5, 1)) < 0.7
    want = x.astype(float).std((1, 2), ddof=1, where=where).astype(np.float32)
    got = jaxpool.global_std_pool(x, correction=1, where=where, keepdims=False)
    assert_same(got, want, "deviation", ulps=500)  # of a mean of 1000
    exact = np.log(np.exp(x.astype(float) - 1000).sum((1, 2))) + 1000
    got = jaxpool.global_logsumexp_pool(x, keepdims=False)
    assert_same(got, exact.astype(np.float32), "smooth maximum", ulps=2)
    nothing = jaxpool.global_logsumexp_pool(x, where=np.zeros((1, 1, 1), bool), keepdims=False)
    assert np.isneginf(nothing).all() and math.isnan(
        jaxpool.global_std_pool(np.ones(1, np.float32), correction=1, data_format="W")[0]
    )


@pytest.mark.parametrize(
    ("words", "kind", "pattern"),
    [
        ({"q": 1.5}, ValueError, "`q` = 1.5"),
        ({"q": "half"}, TypeError, "`q` = 'half'"),
        ({"q": 0.5, "method": "best"}, ValueError, "`method` = 'best'"),
    ],
)
def test_errors_name_the_argument(words: Any, kind: type[Exception], pattern: str) -> None:
    x = np.zeros((4, 1), np.float32)
    with pytest.raises(kind, match=f"^quantile_pool: {pattern}"):
        jaxpool.quantile_pool(x, window_shape=(2,), strides=1, **words)
    with pytest.raises(ValueError, match="^var_pool: `correction` contains -1"):
        jaxpool.var_pool(x, (2,), 1, correction=-1)
    with pytest.raises(TypeError, match="^std_pool: the array has dtype int32"):
        jaxpool.std_pool(x.astype(np.int32), (2,), 1)


def test_quantiles_of_float64_are_those_of_numpy_with_a_mask_too() -> None:
    with jax.enable_x64(True):
        x = np.random.default_rng(5).standard_normal((9, 1)) * 1e6
        want = np.quantile(np.lib.stride_tricks.sliding_window_view(x[:, 0], 4), 0.3, -1)
        for where in (None, np.ones(x.shape, bool)):
            got = jaxpool.quantile_pool(x, 0.3, (4,), 1, where=where)[:, 0]
            assert got.dtype == np.float64
            np.testing.assert_allclose(got, want, rtol=1e-14)


def test_numbers_near_the_largest() -> None:
    """The differences and sums are infinite, but the result is finite."""
    x = np.array([-3e38, 3.25e38], np.float32)
    for q in (0.25, 0.5, 0.75):
        got, slope = jax.value_and_grad(lambda x, q=q: jaxpool.quantile_pool(x, q, 2, 1, **W)[0])(x)
        np.testing.assert_allclose(got, x[0] * (1 - q) + x[1] * q, rtol=1e-6)
        np.testing.assert_allclose(slope, [1 - q, q])
    same = np.full(7, 2e38, np.float32)
    assert_same(jaxpool.global_std_pool(same, **W), np.zeros(1, np.float32), "their sum is inf")


def test_a_correction_that_no_window_reaches_leaves_nothing() -> None:
    x = jnp.arange(4.0)
    for op in (
        lambda **w: jaxpool.var_pool(x, 2, 1, **w),
        lambda **w: jaxpool.global_std_pool(x, **w),
    ):
        assert np.isnan(op(correction=2**40, **W)).all()
    assert np.isnan(jaxpool.var_pool(x, 2, 1, correction=2**40, where=x > 0, **W)).all()
