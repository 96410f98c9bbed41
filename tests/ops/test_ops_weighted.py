"""Weighted averages against loops in float64, and against ops for special weights."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import over_windows
from helpers import assert_same, check_derivatives

import jaxpool

pytestmark = pytest.mark.grid(6)

WINDOW: dict[str, Any] = {
    "window_shape": (3, 2),
    "strides": (2, 1),
    "padding": ((2, 1), (0, 1)),
    "dilations": (1, 2),
    "rounding": "ceil",
}


def by_window(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted mean of every window of one plane; 0 if the weights add up to 0."""

    def mean(places: np.ndarray) -> float:
        found, shares = x.ravel()[places], weights.ravel()[places]
        return np.average(found, weights=shares) if shares.sum() else 0

    return over_windows(mean, np.arange(x.size).reshape(*x.shape, 1), **WINDOW)[..., 0]


@pytest.mark.parametrize("masked", [False, True])
def test_an_average_is_that_of_numpy(masked: bool, rng: np.random.Generator) -> None:
    x = rng.standard_normal((7, 8)).astype(np.float32)
    weights = rng.integers(0, 4, x.shape).astype(np.float32)
    weights[:3, :3] = 0
    where = rng.random(x.shape) < 0.7 if masked else np.ones(x.shape, bool)
    want = by_window(x.astype(float), weights * where).astype(np.float32)
    words = {**WINDOW, "data_format": "HW", "where": where if masked else None}
    assert_same(jaxpool.avg_pool(x, weights=weights, **words), want, "floats", ulps=4)
    whole = weights.astype(np.int8)
    assert_same(jaxpool.avg_pool(x, weights=whole, **words), want, "integers", ulps=4)
    assert (want == 0).any()


def test_weights_broadcast_and_equal_ones_are_the_average_without_padding(
    rng: np.random.Generator,
) -> None:
    x = rng.standard_normal((2, 7, 8, 3)).astype(np.float32)
    plain = jaxpool.avg_pool(x, **WINDOW, count_include_pad=False)
    for weights in (3.0, np.full((1, 1, 3), 0.5), np.full((2, 1, 1, 1), 2), np.full((8, 1), 7.0)):
        got = jaxpool.avg_pool(x, **WINDOW, weights=weights)
        assert_same(got, plain, np.shape(weights), ulps=4)
    by_row = rng.random((7, 1, 1)).astype(np.float32)
    full = np.broadcast_to(by_row, x.shape)
    got, want = (jaxpool.avg_pool(x, **WINDOW, weights=w) for w in (by_row, full))
    assert_same(got, want, "by row", ulps=4)


def test_derivatives_in_elements_and_weights(rng: np.random.Generator) -> None:
    with jax.enable_x64(True):
        x, weights = (jnp.asarray(rng.random((7, 8)) + 1) for _ in range(2))
        where = rng.random(x.shape) < 0.7
        pool = lambda x, w: (  # noqa: E731
            jaxpool.avg_pool(x, weights=w, where=where, data_format="HW", **WINDOW) ** 2
        )
        check_derivatives(pool, x, weights, rng=rng)


def test_a_window_without_weight_has_no_derivative() -> None:
    x, weights = jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([0.0, 0.0, 1.0, 3.0])
    pool = lambda x, w: jaxpool.avg_pool(x, 2, 2, weights=w, data_format="W")  # noqa: E731
    assert_same(pool(x, weights), np.array([0, 3.75], np.float32), "values")
    slopes = jax.grad(lambda *both: pool(*both).sum(), (0, 1))(x, weights)
    assert_same(slopes[0], np.array([0, 0, 0.25, 0.75], np.float32), "elements")
    assert_same(slopes[1], np.array([0, 0, -0.1875, 0.0625], np.float32), "weights")


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_derivatives_in_weights_of_any_scale(scale: float) -> None:
    x, weights = jnp.array([1.0, 2.0, 5.0, 3.0]), jnp.array([1.0, 2.0, 1.0, 3.0])
    pool = lambda w: jaxpool.avg_pool(x, 2, 1, weights=w, data_format="W").sum()  # noqa: E731
    want = np.asarray(jax.grad(pool)(weights), np.float64)
    np.testing.assert_allclose(want * 72, [-16, -16, 75, -9], rtol=1e-5)
    got = np.asarray(jax.grad(pool)(weights * np.float32(scale)), np.float64)
    np.testing.assert_allclose(got * scale, want, rtol=1e-5)


def test_narrow_floats_are_added_wide() -> None:
    ones = jnp.ones((1, 32, 32, 1), jnp.bfloat16)
    got = jaxpool.avg_pool(ones, (32, 32), 1, weights=ones[0])
    assert_same(got, jnp.ones((1, 1, 1, 1), jnp.bfloat16), "a thousand ones")


@pytest.mark.parametrize(
    ("words", "kind", "pattern"),
    [
        ({"weights": np.ones((4, 2))}, ValueError, r"`weights` of shape \(4, 2\) do not"),
        ({"weights": np.ones((1, 1, 4, 1))}, ValueError, "`weights` of shape"),
        ({"weights": np.ones((4, 1), bool)}, TypeError, "`weights` have dtype bool"),
        ({"weights": "all"}, TypeError, "`weights` is 'all'"),
        ({"weights": 1.0, "divisor_override": 2}, ValueError, "`divisor_override` = 2 is given"),
        ({"weights": 1.0, "x": np.ones((4, 1), int)}, TypeError, "the array has dtype int"),
    ],
)
def test_errors_name_the_argument(
    words: dict[str, Any], kind: type[Exception], pattern: str
) -> None:
    call: dict[str, Any] = {"x": np.ones((4, 1), np.float32), "window_shape": (2,), "strides": 1}
    with pytest.raises(kind, match=f"^avg_pool: {pattern}"):
        jaxpool.avg_pool(**{**call, **words})
