"""The programs for TPU, CUDA and ROCm, run on CPU, have the results of the CPU program.

``jax.export`` lowers for a platform without its devices, and without its platform check the program
runs on CPU. So the branch of every platform is compared, on data with NaN and infinities.
"""

from collections.abc import Callable
from typing import Any

import every_op
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same, lowered

import jaxpool

SUMS = (
    *("avg", "sum", "lp", "gem", "logsumexp", "soft", "stochastic", "adaptive_avg", "blur"),
    *("roi_align", "ps_roi_pool", "var_pool", "std_pool"),
)
"""Ops whose terms are added, in an order that differs by platform."""

pytestmark = pytest.mark.deep


def hostile(seed: int) -> jax.Array:
    """Return numbers with ties, and a few NaN and infinities."""
    rng = np.random.default_rng(seed)
    x = every_op.numbers(2, 3)
    odd = rng.random(x.shape)
    x = np.where(odd < 0.03, np.nan, np.where(odd < 0.06, np.inf, x))
    return jnp.asarray(np.where(odd > 0.9, -np.inf, x), jnp.float32)


def results(op: Callable[[Any], Any], platform: str, x: jax.Array) -> Any:
    """Return values and gradient by the program that is lowered for a platform."""
    f = every_op.with_gradient(op)
    return jax.jit(f)(x) if platform == "cpu" else lowered(f, platform, x)(x)


@pytest.mark.parametrize("name", every_op.EVERY_OP)
def test_every_platform_gives_the_same(name: str) -> None:
    op, arrays = every_op.EVERY_OP[name], (jnp.asarray(every_op.numbers(2, 3)), hostile(1))
    for x in arrays:
        want = jax.tree.leaves(results(op, "cpu", x))
        for platform in ("tpu", "cuda", "rocm"):
            got = jax.tree.leaves(results(op, platform, x))
            for a, b in zip(got, want, strict=True):
                if any(word in name for word in SUMS):
                    np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6, err_msg=platform)
                else:
                    assert_same(np.asarray(a), np.asarray(b), (name, platform))


def test_elements_that_no_window_reads_have_the_gradient_zero() -> None:
    """Dilated windows at this stride read one phase of several."""
    op = lambda x: jaxpool.max_pool(x, (2, 2), 2, dilations=2)  # noqa: E731
    x = jnp.asarray(every_op.numbers(2, 3))
    want = results(op, "cpu", x)
    for got, expected in zip(
        jax.tree.leaves(results(op, "tpu", x)), jax.tree.leaves(want), strict=True
    ):
        assert_same(np.asarray(got), np.asarray(expected), "tpu")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("pool", [jaxpool.max_pool, jaxpool.min_pool])
def test_derivatives_by_codes_are_those_by_offsets(pool: Any, dtype: str) -> None:
    """A TPU encodes the argmax of these windows; masked elements and indices need offsets."""

    def derivatives(x: jax.Array, t: jax.Array) -> Any:
        pooled = lambda x: pool(x, (3, 3), 1, "SAME", dilations=(1, 2))  # noqa: E731
        squared = lambda x: (pooled(x) ** 2 * t).sum()  # noqa: E731
        first = jax.grad(squared)
        return jax.jvp(pooled, (x,), (t,)), first(x), jax.jvp(first, (x,), (t,))

    x = hostile(2).astype(dtype)
    t = jnp.asarray(np.random.default_rng(3).integers(-4, 5, x.shape), dtype)
    want = jax.tree.leaves(jax.jit(derivatives)(x, t))
    text = jax.export.export(jax.jit(derivatives), platforms=["tpu"])(x, t).mlir_module()
    assert "scatter" not in text
    got = jax.tree.leaves(lowered(derivatives, "tpu", x, t)(x, t))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.float32(a), np.float32(b), rtol=2e-2, atol=2e-2)
        assert np.isnan(np.float32(a)).any() == np.isnan(np.float32(b)).any()
