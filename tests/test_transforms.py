"""Every op under every transform of JAX, and the ways in which a call reaches it."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool

SHAPE = (2, 7, 5, 3)
WINDOW = {"window_shape": (3, 2), "strides": (2, 1), "padding": ((1, 0), (0, 2))}
SETTINGS = WINDOW | {"dilations": (1, 2), "rounding": "ceil_torch"}
MASK = np.random.default_rng(7).random((7, 5, 1)) < 0.8

# name -> op and settings, over arrays of SHAPE
OPS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "max": (jaxpool.max_pool, SETTINGS),
    "min": (jaxpool.min_pool, SETTINGS),
    "argmax": (jaxpool.max_pool_with_argmax, SETTINGS),
    "argmax from axis 0": (jaxpool.max_pool_with_argmax, SETTINGS | {"index_space": 0}),
    "argmax tap": (jaxpool.max_pool_with_argmax, SETTINGS | {"index_space": "window"}),
    "avg": (jaxpool.avg_pool, SETTINGS),
    "avg excluding padding": (jaxpool.avg_pool, SETTINGS | {"count_include_pad": False}),
    "avg with divisor": (jaxpool.avg_pool, SETTINGS | {"divisor_override": 4}),
    "sum": (jaxpool.sum_pool, SETTINGS),
    "masked max": (jaxpool.max_pool, SETTINGS | {"where": MASK}),
    "masked avg": (jaxpool.avg_pool, SETTINGS | {"where": MASK}),
}
BY_REDUCE_WINDOW = {
    f"{name} by reduce_window": (OPS[name][0], OPS[name][1] | {"lowering": "reduce_window"})
    for name in ("max", "min", "argmax", "avg", "sum")
}
over_ops = pytest.mark.parametrize("name", OPS)
over_all = pytest.mark.parametrize("name", OPS | BY_REDUCE_WINDOW)


def pooling(name: str) -> Callable[..., Any]:
    """The op of the table as a function of the array alone."""
    op, settings = (OPS | BY_REDUCE_WINDOW)[name]
    return functools.partial(op, **settings)


def values_of(result: Any) -> jax.Array:
    return result[0] if isinstance(result, tuple) else result


def loss(pool: Callable[..., Any]) -> Callable[[Any], jax.Array]:
    """A scalar function in which every output counts differently, twice differentiable."""

    def scalar(x: Any) -> jax.Array:
        values = values_of(pool(x))
        return jnp.vdot(jnp.arange(values.size, dtype=values.dtype), values.ravel() ** 2)

    return scalar


def data(rng: np.random.Generator, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Few distinct integers: ties, and sums that are exact in any order."""
    return rng.integers(-5, 6, shape).astype(np.float32)


def assert_equal(got: Any, want: Any) -> None:
    """Compare trees of arrays exactly, dtypes included."""
    jax.tree.map(np.testing.assert_array_equal, got, want)
    assert [a.dtype for a in jax.tree.leaves(got)] == [a.dtype for a in jax.tree.leaves(want)]


def assert_close(got: Any, want: Any) -> None:
    """Compare up to the rounding of a division compiled in another place."""
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=2e-6, atol=1e-4), got, want)


# --- batching ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", range(-1, 4))
@over_ops
def test_vmap_over_any_axis_is_a_loop(name: str, axis: int, rng: np.random.Generator) -> None:
    pool, x = pooling(name), data(rng, (4, *SHAPE))
    loop = [pool(part) for part in x]
    stacked = jax.tree.map(lambda *parts: np.stack(parts), *loop)
    assert_close(jax.vmap(pool, in_axes=axis)(np.moveaxis(x, 0, axis)), stacked)


@pytest.mark.parametrize("op", [jaxpool.max_pool, jaxpool.avg_pool, jaxpool.max_pool_with_argmax])
def test_vmap_over_masks(op: Callable[..., Any], rng: np.random.Generator) -> None:
    """One array under many masks, and each array under its own."""
    masks, x = rng.random((3, *SHAPE)) < 0.6, data(rng, (3, *SHAPE))
    pool = lambda x, mask: op(x, **SETTINGS, where=mask)  # noqa: E731
    for axes, arrays in (((None, 0), [x[0]] * 3), ((0, 0), x)):
        loop = [pool(part, mask) for part, mask in zip(arrays, masks, strict=True)]
        stacked = jax.tree.map(lambda *parts: np.stack(parts), *loop)
        assert_close(jax.vmap(pool, in_axes=axes)(x[0] if axes[0] is None else x, masks), stacked)


@over_ops
def test_gradient_under_vmap_under_jit_is_a_loop(name: str, rng: np.random.Generator) -> None:
    grad, x = jax.grad(loss(pooling(name))), data(rng, (3, *SHAPE))
    assert_close(jax.jit(jax.vmap(grad))(x), np.stack([grad(part) for part in x]))


@over_ops
def test_leading_axes_are_batch_axes(name: str, rng: np.random.Generator) -> None:
    """Two batch axes give what one of their product gives; none gives its only slice."""
    if name == "argmax from axis 0":
        pytest.skip("its indices count the batch axes") if False else None
    pool, x = pooling(name), data(rng, (6, 7, 5, 3))
    flat = pool(x)
    split = jax.tree.map(lambda a: np.reshape(a, (2, 3, *a.shape[1:])), flat)
    if name != "argmax from axis 0":
        assert_equal(pool(x.reshape(2, 3, 7, 5, 3)), split)
        assert_equal(pool(x[4]), jax.tree.map(lambda a: a[4], flat))
