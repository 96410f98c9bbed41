"""Every op under the settings with which JAX forbids frequent mistakes."""

import functools
import gc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_op import EVERY_OP, MASK, SLIDING, numbers, with_gradient

import jaxpool
from jaxpool.compat import onednn, onnx, tensorflow

INTEGER_AVERAGES: dict[str, Callable[[Any], Any]] = {
    "jaxpool": lambda x: jaxpool.avg_pool(x, (3, 2), 1, "SAME", count_include_pad=False),
    "oneDNN": lambda x: onednn.forward_inference(
        x, "avg_exclude_padding", (3, 2), (1, 1), 0, (1, 1), (1, 1)
    ),
    "ONNX": lambda x: onnx.qlinear_average_pool(
        x, np.float32(0.5), np.int8(3), np.float32(0.25), kernel_shape=(3, 2), pads=(1, 1, 0, 0)
    ),
    "TensorFlow Lite": lambda x: tensorflow.tflite_average_pool_2d(x, 3, 2, 2, 1, "SAME"),
}

WITH_NAN_CONSTANTS = ("max_pool", "min_pool_with_argmin", "var_pool", "quantile_pool")

INF = float("inf")

DEFINED_WHEN_EMPTY = (
    "max_pool", "max_pool, large window", "max_pool_with_argmax", "min_pool", "sum_pool", "lp_pool",
    "gem_pool", "logsumexp_pool", "soft_pool", "median_pool", "rank_pool",
)  # fmt: skip
"""Ops that accept a mask and do not return NaN for a window without elements."""

over_ops = pytest.mark.parametrize("name", EVERY_OP)


@pytest.mark.grid(8)
@over_ops
def test_ranks_are_not_promoted(name: str) -> None:
    with jax.numpy_rank_promotion("raise"):
        jax.eval_shape(with_gradient(EVERY_OP[name]), numbers(2, 3))


def test_ranks_are_not_promoted_in_what_finishes_a_mean() -> None:
    mean = jaxpool.reductions.MEAN
    with jax.numpy_rank_promotion("raise"):
        y = jaxpool.pool(jnp.ones((2, 6, 2)), mean, (2,), 1, 1)
    assert y.shape == (2, 7, 2)


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", INTEGER_AVERAGES)
def test_averages_of_integers_promote_neither_ranks_nor_dtypes(name: str, x64: bool) -> None:
    x = jax.ShapeDtypeStruct((2, 3, 7, 6), jnp.int8)
    with (
        jax.enable_x64(x64),
        jax.numpy_rank_promotion("raise"),
        jax.numpy_dtype_promotion("strict"),
    ):
        assert jax.eval_shape(INTEGER_AVERAGES[name], x).dtype == jnp.int8


MAXIMA_OF_FRONT_ENDS: dict[str, Callable[[Any], Any]] = {
    "oneDNN": lambda x: onednn.forward_inference(x, "max", (3, 2), (1, 1), 0, (1, 1), (1, 1)),
    "ONNX": lambda x: onnx.max_pool(x, kernel_shape=(3, 2), pads=(1, 1, 0, 0)),
    "TensorFlow": lambda x: tensorflow.max_pool2d(x, (3, 2), 1, "SAME"),
    "TensorFlow, argmax": lambda x: tensorflow.max_pool_with_argmax(x, (3, 2), 1, "SAME"),
}


@pytest.fixture
def frozen_heap() -> None:
    """Let JAX, which looks for the holder of a tracer among all objects, look among new ones."""
    gc.collect()
    gc.freeze()


@pytest.mark.grid(30)
@pytest.mark.usefixtures("frozen_heap")
@over_ops
def test_no_tracer_is_kept(name: str) -> None:
    with jax.checking_leaks():
        jax.jit(with_gradient(EVERY_OP[name])).lower(numbers(2, 3))


@pytest.mark.usefixtures("frozen_heap")
@pytest.mark.parametrize("name", MAXIMA_OF_FRONT_ENDS)
def test_no_tracer_is_kept_by_front_ends(name: str) -> None:
    with jax.checking_leaks():
        jax.jit(with_gradient(MAXIMA_OF_FRONT_ENDS[name])).lower(numbers(2, 3))


@pytest.mark.grid(20)
@over_ops
def test_no_nan_is_made_on_the_way(name: str) -> None:
    """Not within ``jax.jit``, where JAX would check only the results."""
    with jax.debug_nans(True):
        with_gradient(EVERY_OP[name])(jnp.asarray(numbers(2, 3)))


@pytest.mark.grid(48)
@over_ops
def test_no_nan_is_made_on_the_way_without_jit(name: str) -> None:
    """JAX then runs and checks every operation, also constants that no result contains."""
    with jax.disable_jit(), jax.debug_nans(True):
        with_gradient(EVERY_OP[name])(jnp.asarray(numbers(2, 3)))


@pytest.mark.grid(20)
@pytest.mark.parametrize("mask", ["some elements", "no element"])
@pytest.mark.parametrize("name", DEFINED_WHEN_EMPTY)
def test_no_nan_is_made_of_masked_elements_without_jit(name: str, mask: str) -> None:
    where = MASK if mask == "some elements" else np.zeros_like(MASK)
    masked = functools.partial(SLIDING[name], where=where)
    with jax.disable_jit(), jax.debug_nans(True):
        with_gradient(masked)(jnp.asarray(numbers(1, 1)))


INFINITE: dict[str, tuple[Callable[..., Any], list[float], list[float]]] = {
    "quantile_pool, equal": (functools.partial(jaxpool.quantile_pool, q=0.3), [INF, INF], [INF]),
    "quantile_pool": (functools.partial(jaxpool.quantile_pool, q=0.3), [-INF, 1, INF], [-INF, INF]),
    "median_pool": (jaxpool.median_pool, [-INF, -INF, 1, INF], [-INF, -INF, INF]),
    "gem_pool": (jaxpool.gem_pool, [1, INF, INF], [INF, INF]),
    "logsumexp_pool": (jaxpool.logsumexp_pool, [-INF, -INF, INF, 1], [-INF, INF, INF]),
    "soft_pool": (jaxpool.soft_pool, [-INF, -INF, INF, 1], [-INF, INF, INF]),
}
"""Ops, infinite elements and the results for windows of two of them."""


@pytest.mark.grid(6)
@pytest.mark.parametrize("name", INFINITE)
def test_no_nan_is_made_of_infinities_without_jit(name: str) -> None:
    op, elements, results = INFINITE[name]
    x = jnp.asarray(elements, jnp.float32)[:, None]
    with jax.disable_jit(), jax.debug_nans(True):
        y = op(x, window_shape=(2,), strides=1)
    np.testing.assert_array_equal(y[:, 0], results)


@pytest.mark.parametrize("elements", [[-INF, INF], [np.nan, 1]], ids=str)
def test_nan_in_a_result_is_reported_without_jit(elements: list[float]) -> None:
    x = jnp.asarray(elements, jnp.float32)[:, None]
    with jax.disable_jit(), jax.debug_nans(True), pytest.raises(FloatingPointError):
        jaxpool.median_pool(x, (2,), 1)


def test_checks_of_a_reduction_pass_a_transfer_guard() -> None:
    reduction = jaxpool.Reduction("guarded product", jnp.multiply, 1)
    x = jnp.ones((1, 4, 1))
    with jax.transfer_guard("disallow"):
        jaxpool.pool(x, reduction, (2,), 1)


@pytest.mark.grid(4)
@pytest.mark.parametrize("name", WITH_NAN_CONSTANTS)
def test_no_nan_is_made_in_vmap_without_jit(name: str) -> None:
    with jax.disable_jit(), jax.debug_nans(True):
        y = jax.vmap(EVERY_OP[name])(jnp.asarray(numbers(2, 1)[:, None]))
    want = jax.vmap(EVERY_OP[name])(numbers(2, 1)[:, None])
    jax.tree.map(np.testing.assert_allclose, y, want)


@pytest.mark.grid(2)
@pytest.mark.parametrize("name", ["roi_align", "ps_roi_pool"])
def test_infinite_elements_of_boxes_make_no_nan_without_jit(name: str) -> None:
    x = numbers(1, 1)
    x[0, 1, 1] = np.inf
    with jax.disable_jit(), jax.debug_nans(True):
        y = EVERY_OP[name](jnp.asarray(x))
    assert (y == np.inf).any()
