"""Sums and moments of windows: programs of GPU and TPU, run on CPU, against the CPU program."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import lowered

import jaxpool

pytestmark = pytest.mark.grid(13)

WINDOWS: dict[str, dict[str, Any]] = {
    "stride 1": {"window_shape": (3, 2), "strides": 1, "padding": "SAME"},
    "overlapping": {"window_shape": (3, 3), "strides": 2, "padding": ((1, 1), (0, 2))},
    "tiled": {"window_shape": (2, 3), "strides": (2, 3)},
    "gaps": {"window_shape": (2, 1), "strides": (3, 2), "padding": ((2, 0), (0, 1))},
    "dilated": {"window_shape": (2, 3), "strides": (2, 1), "dilations": (3, 2), "padding": 2},
    "empty windows": {"window_shape": (2, 2), "strides": 2, "padding": ((4, 0), (0, 5))},
    "more than at once": {"window_shape": (5, 4), "strides": (1, 2), "padding": "SAME"},
    "long": {"window_shape": (9, 7), "strides": (1, 2), "padding": "SAME"},
}
TEMPERATURE = np.array([0.5, 3.0], np.float32)
OPS: dict[str, Callable[..., Any]] = {
    "soft": jaxpool.soft_pool,
    "log-sum-exp": lambda x, **words: jaxpool.logsumexp_pool(x, temperature=TEMPERATURE, **words),
    "generalized mean": lambda x, **words: jaxpool.gem_pool(x, p=TEMPERATURE + 1, **words),
    "norm": lambda x, **words: jaxpool.lp_pool(x, p=7, **words),
    "variance": lambda x, **words: jaxpool.var_pool(x / 8, **words),  # small arguments of the sine
    "deviation": jaxpool.std_pool,
}


def numbers(dtype: Any) -> jax.Array:
    """Return distinct numbers of both signs, whose exponentials may overflow or underflow."""
    shape = (2, 9, 11, 2)
    x = np.random.default_rng(3).permutation(np.prod(shape)).reshape(shape) / 4.0 - 30
    x[0, 2, 3], x[1, 4, 4], x[1, 0:3, 0:3] = np.nan, np.inf, -np.inf
    return jnp.asarray(x, dtype)


def with_gradient(op: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function: values, and the gradient of a nonlinear function of them."""

    def run(x: jax.Array) -> Any:
        y, back = jax.vjp(op, x)
        return y, back(jnp.sin(y))[0]

    return run


@pytest.mark.grid(93)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("name", OPS)
def test_every_platform_gives_the_same(name: str, windows: str, masked: bool) -> None:
    words = dict(WINDOWS[windows])
    if masked:
        words["where"] = np.random.default_rng(5).random((9, 11, 1)) < 0.6
    f = jax.jit(with_gradient(lambda x: OPS[name](x, **words)))
    x = numbers(jnp.float32)
    platform = "cuda" if masked else "tpu"
    for a, b in zip(lowered(f, platform, x)(x), f(x), strict=True):
        size = np.abs(np.nan_to_num(b, posinf=0, neginf=0)).max()
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5 * size)


@pytest.mark.grid(1)
@pytest.mark.parametrize(
    ("window", "strides", "once"), [((3, 2), 1, True), ((3, 1), 1, False), ((3, 3), 2, False)]
)
def test_a_tpu_makes_terms_once_that_many_windows_read(
    window: tuple[int, int], strides: int, once: bool
) -> None:
    pool = jax.jit(lambda x: jaxpool.soft_pool(x, window, strides))
    program = pool.trace(numbers(jnp.float32)).lower(lowering_platforms=("tpu",)).as_text()
    assert (program.count("stablehlo.exponential ") < math.prod(window)) == once


@pytest.mark.parametrize(("strides", "stored"), [((3, 2), False), ((4, 2), False), ((2, 2), True)])
def test_the_cpu_stores_terms_of_overlapping_windows(
    strides: tuple[int, int], stored: bool
) -> None:
    pool = jax.jit(lambda x: jaxpool.soft_pool(x, (3, 2), strides))
    program = pool.trace(numbers(jnp.float32)).lower(lowering_platforms=("cpu",)).as_text()
    assert "stablehlo.exponential" in program
    assert ("optimization_barrier" in program) == stored


@pytest.mark.grid(3)
@pytest.mark.parametrize("name", ["soft", "log-sum-exp", "generalized mean"])
def test_masked_terms_that_a_tpu_stores(name: str) -> None:
    where = np.random.default_rng(5).random((9, 11, 1)) < 0.6
    f = jax.jit(with_gradient(lambda x: OPS[name](x, where=where, **WINDOWS["stride 1"])))
    x = numbers(jnp.float32)
    for a, b in zip(lowered(f, "tpu", x)(x), f(x), strict=True):
        size = np.abs(np.nan_to_num(b, posinf=0, neginf=0)).max()
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5 * size)


@pytest.mark.grid(4)
@pytest.mark.parametrize("name", ["soft", "variance", "deviation", "blur"])
def test_narrow_floats_are_rounded_once(name: str) -> None:
    x, words = numbers(jnp.bfloat16)[:1, 5:], WINDOWS["overlapping"]
    op = {**OPS, "blur": jaxpool.blur_pool}[name]
    run = with_gradient(lambda x: op(x, **words))
    got, want = lowered(run, "tpu", x)(x), jax.jit(run)(x)
    assert [a.dtype for a in got] == [jnp.bfloat16, jnp.bfloat16]
    (y, dx), (want_y, want_dx) = jax.tree.map(lambda a: np.asarray(a, np.float32), (got, want))
    np.testing.assert_allclose(y, want_y, rtol=2**-8)
    np.testing.assert_allclose(dx, want_dx, rtol=2**-7, atol=2**-8 * np.nanmax(np.abs(want_dx)))
