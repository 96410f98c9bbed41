"""Every op under every transform of JAX, and with every kind of argument."""

import functools
from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_op import EVERY_OP, SLIDING, numbers
from helpers import QUICK, counted_compilations

import jaxpool

pytestmark = pytest.mark.grid(8)

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
    f"{name} by reduce_window": (OPS[name][0], OPS[name][1] | {"implementation": "reduce_window"})
    for name in ("max", "min", "argmax", "avg", "sum")
}
over_ops = pytest.mark.parametrize("name", OPS)
over_all = pytest.mark.parametrize("name", OPS | BY_REDUCE_WINDOW)


def pooling(name: str) -> Callable[..., Any]:
    """Return the op of the table as a function of the array only."""
    op, settings = (OPS | BY_REDUCE_WINDOW)[name]
    return functools.partial(op, **settings)


def values_of(result: Any) -> jax.Array:
    return result[0] if isinstance(result, tuple) else result


def loss(pool: Callable[..., Any]) -> Callable[[Any], jax.Array]:
    """Return a twice differentiable scalar function with distinct weights for all outputs."""

    def scalar(x: Any) -> jax.Array:
        values = values_of(pool(x))
        return jnp.vdot(jnp.arange(values.size, dtype=values.dtype), values.ravel() ** 2)

    return scalar


def data(rng: np.random.Generator, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Return few distinct integers, with ties, whose sums are exact in any order."""
    return rng.integers(-5, 6, shape).astype(np.float32)


def assert_equal(got: Any, want: Any) -> None:
    """Compare trees of arrays exactly, dtypes included."""
    chex.assert_trees_all_equal(got, want, strict=False)
    chex.assert_trees_all_equal_dtypes(got, want)


assert_close = functools.partial(chex.assert_trees_all_close, rtol=2e-6, atol=1e-4)
"""Compare up to the rounding of a division compiled in another place."""


# --- batching -------------------------------------------------------------------------------------


@pytest.mark.grid(24)
@pytest.mark.parametrize("axis", range(-1, 4))
@over_ops
def test_vmap_over_any_axis_is_a_loop(name: str, axis: int, rng: np.random.Generator) -> None:
    pool, x = pooling(name), data(rng, (4, *SHAPE))
    loop = [pool(part) for part in x]
    stacked = jax.tree.map(lambda *parts: np.stack(parts), *loop)
    assert_close(jax.vmap(pool, in_axes=axis)(np.moveaxis(x, 0, axis)), stacked)


def _assert_tangents_are_a_loop(op: Callable[..., Any], axis: int) -> None:
    """Check tangents against a loop; equal axis lengths reveal swapped batch axes."""
    result = lambda x: jnp.tanh(jax.tree.leaves(op(x))[0])  # noqa: E731
    x = np.stack([numbers(2, 3) / 40, numbers(2, 3)[::-1] / 30])
    t = np.cos(7 * x)

    def tangents(f: Callable[[Any], Any], x: np.ndarray, t: np.ndarray) -> Any:
        return jax.jvp(f, (x,), (t,))

    compiled = jax.jit(tangents, static_argnums=0, compiler_options=QUICK)
    loop = [compiled(result, part, tangent) for part, tangent in zip(x, t, strict=True)]
    x, t = np.moveaxis(x, 0, axis), np.moveaxis(t, 0, axis)
    got = compiled(jax.vmap(result, in_axes=axis), x, t)
    stacked = jax.tree.map(lambda *parts: np.stack(parts), *loop)
    chex.assert_trees_all_close(got, stacked, rtol=1e-4, atol=1e-5)


# JAX (0.12) confuses the batch axes of a function and of its rule if they differ.


@pytest.mark.grid(70)  # no multiple of the axes, so that the cases of a run differ in theirs
@pytest.mark.parametrize("axis", range(1, 5))
@pytest.mark.parametrize("name", EVERY_OP)
def test_tangents_under_vmap_over_any_axis_are_a_loop(name: str, axis: int) -> None:
    _assert_tangents_are_a_loop(EVERY_OP[name], axis)


@pytest.mark.grid(3)
@pytest.mark.parametrize("implementation", ["doubling", "reduce_window"])
@pytest.mark.parametrize("name", ["sum_pool", "avg_pool", "max_pool", "lp_pool"])
def test_so_they_are_by_every_implementation(name: str, implementation: str) -> None:
    op = functools.partial(SLIDING[name], implementation=implementation)
    _assert_tangents_are_a_loop(op, 1)


@pytest.mark.grid(1)
def test_so_are_those_of_ranks() -> None:
    """Sorted slices keep the position of a batch axis."""
    _assert_tangents_are_a_loop(EVERY_OP["rank_pool"], 1)


@pytest.mark.parametrize("op", [jaxpool.max_pool, jaxpool.avg_pool, jaxpool.max_pool_with_argmax])
def test_vmap_over_masks(op: Callable[..., Any], rng: np.random.Generator) -> None:
    """One array with several masks, and each array with its mask."""
    masks, x = rng.random((3, *SHAPE)) < 0.6, data(rng, (3, *SHAPE))
    pool = lambda x, mask: op(x, **SETTINGS, where=mask)  # noqa: E731
    for axes, arrays in (((None, 0), [x[0]] * 3), ((0, 0), x)):
        loop = [pool(part, mask) for part, mask in zip(arrays, masks, strict=True)]
        stacked = jax.tree.map(lambda *parts: np.stack(parts), *loop)
        assert_close(jax.vmap(pool, in_axes=axes)(x[0] if axes[0] is None else x, masks), stacked)


def long_maxima(x: jax.Array) -> jax.Array:
    """Return maxima of planes that are so long that the CPU first searches for NaN."""
    return jaxpool.global_max_pool(x)


def unpool_overlapping(y: jax.Array) -> jax.Array:
    """Unpool windows of which some name an element of another window."""
    taps = jnp.where(y > 100, 2, 0)
    words = {"window_shape": (3, 3), "strides": 2, "index_space": "window"}
    return jaxpool.max_unpool(y, taps, (11, 11), **words)


@pytest.mark.parametrize(
    ("function", "shape"), [(long_maxima, (2, 150, 140, 3)), (unpool_overlapping, (2, 5, 5, 3))]
)
def test_a_batch_has_one_choice(
    function: Callable[[jax.Array], jax.Array], shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    """If vmap turned the choice into a selection, both branches would run."""
    x = rng.permutation(3 * np.prod(shape)).astype(np.float32).reshape(3, *shape)
    x[1, 1, 3, 2, 1] = np.nan
    batch = jax.jit(jax.vmap(function))
    assert_close(batch(x), np.stack([function(part) for part in x]))
    programs = batch.lower(x).compile(), jax.jit(function).lower(x[0]).compile()
    several, one = ((program.as_text() or "").count(" conditional(") for program in programs)
    assert several == one
    assert one > 0 or jax.default_backend() != "cpu"


@over_ops
def test_gradient_under_vmap_under_jit_is_a_loop(name: str, rng: np.random.Generator) -> None:
    grad, x = jax.grad(loss(pooling(name))), data(rng, (3, *SHAPE))
    assert_close(jax.jit(jax.vmap(grad))(x), np.stack([grad(part) for part in x]))


@pytest.mark.parametrize("name", [name for name in OPS if "axis 0" not in name])
def test_leading_axes_are_batch_axes(name: str, rng: np.random.Generator) -> None:
    """Two batch axes equal one axis of their product, and no batch axis equals one example."""
    pool, x = pooling(name), data(rng, (6, *SHAPE[1:]))
    flat = pool(x)
    split = jax.tree.map(lambda a: np.reshape(a, (2, 3, *a.shape[1:])), flat)
    assert_close(pool(x.reshape(2, 3, *SHAPE[1:])), split)
    assert_close(pool(x[4]), jax.tree.map(lambda a: a[4], flat))


# --- compiling and recomputing --------------------------------------------------------------------


@pytest.mark.grid(10)
@over_ops
def test_jit_and_no_jit_at_all_equal_the_plain_call(name: str, rng: np.random.Generator) -> None:
    pool, x = pooling(name), data(rng)
    assert_close(jax.jit(pool)(x), pool(x))
    with jax.disable_jit():
        assert_close(pool(x), jax.jit(pool)(x))


@over_ops
def test_gradients_survive_checkpoint_and_jit(name: str, rng: np.random.Generator) -> None:
    pool, x = pooling(name), data(rng)
    plain = jax.grad(loss(pool))(x)
    assert np.any(plain)
    assert_close(jax.grad(loss(jax.checkpoint(pool)))(x), plain)
    assert_close(jax.jit(jax.grad(jax.checkpoint(loss(pool))))(x), plain)


@over_ops
def test_linearize_is_jvp(name: str, rng: np.random.Generator) -> None:
    pool, x, v = pooling(name), data(rng), data(rng)
    first, tangent = jax.jvp(lambda x: values_of(pool(x)), (x,), (v,))
    second, linear = jax.linearize(lambda x: values_of(pool(x)), x)
    assert_close(second, first)
    assert_close(linear(v), tangent)
    assert np.any(tangent)


@pytest.mark.grid(16)
@over_ops
def test_scan_over_the_op_is_a_loop(name: str, rng: np.random.Generator) -> None:
    """Values of the body, and the gradient through the whole scan."""
    pool, x = pooling(name), data(rng, (3, *SHAPE))

    def body(total: jax.Array, part: jax.Array) -> tuple[jax.Array, Any]:
        result = pool(part)
        return total + values_of(result).sum(), result

    total, stacked = jax.lax.scan(body, jnp.zeros(()), jnp.asarray(x))
    loop = [pool(part) for part in x]
    assert_close(stacked, jax.tree.map(lambda *parts: np.stack(parts), *loop))
    grad = jax.grad(lambda x: jax.lax.scan(body, jnp.zeros(()), x)[0])(x)
    one = jax.grad(lambda x: values_of(pool(x)).sum())
    assert_close(grad, np.stack([one(part) for part in x]))
    assert_close(total, np.sum([values_of(result).sum() for result in loop], dtype=np.float32))


@pytest.mark.parametrize("name", [name for name in OPS if "argmax" not in name])
def test_a_donated_array_is_used_up_and_pooled_right(name: str, rng: np.random.Generator) -> None:
    """Stride 1 and SAME: the result has the shape of the input and may reuse its memory."""
    op, settings = OPS[name]
    pool = functools.partial(op, **settings | {"strides": 1, "padding": "SAME"})
    x = data(rng)
    want, donated = pool(x), jnp.array(x)
    assert_close(jax.jit(pool, donate_argnums=0)(donated), want)
    assert donated.is_deleted()


@pytest.mark.parametrize("shape", [(0, *SHAPE[1:]), (*SHAPE[:-1], 0)])
@over_all
def test_an_empty_batch_or_no_channels_give_an_empty_result(
    name: str, shape: tuple[int, ...]
) -> None:
    pool, x = pooling(name), jnp.zeros(shape)
    expected = jaxpool.output_shape(shape, **SETTINGS)
    assert 0 in expected
    result = pool(x)
    assert {leaf.shape for leaf in jax.tree.leaves(result)} == {expected}
    assert values_of(result).dtype == x.dtype
    assert jax.grad(loss(pool))(x).shape == shape
    assert values_of(jax.vmap(pool)(x[None])).shape == (1, *expected)


@pytest.mark.grid(24)
@pytest.mark.parametrize("name", [name for name in OPS if "masked" not in name])
@pytest.mark.parametrize(
    ("data_format", "shape"),
    [
        ("channels_last", (7, 5, 3)),
        ("channels_last", (2, 1, 7, 5, 3)),
        ("channels_first", (2, 3, 7, 5)),
        ("NHWC", (2, 7, 5, 3)),
        ("NCHW", (2, 3, 7, 5)),
        ("HWC", (7, 5, 3)),
        ("CHW", (3, 7, 5)),
        ("HW", (7, 5)),
    ],
)
def test_eval_shape_is_output_shape(name: str, data_format: str, shape: tuple[int, ...]) -> None:
    expected = jaxpool.output_shape(shape, **SETTINGS, data_format=data_format)
    pool = functools.partial(pooling(name), data_format=data_format)
    promised = jax.eval_shape(pool, jax.ShapeDtypeStruct(shape, jnp.float32))
    for result in (promised, pool(jnp.zeros(shape))):
        assert {leaf.shape for leaf in jax.tree.leaves(result)} == {expected}


@over_all
def test_checks_for_nan_find_none_where_there_is_none(name: str) -> None:
    """Windows without an element do not divide 0 by 0, also in the derivative."""
    op, settings = (OPS | BY_REDUCE_WINDOW)[name]
    hollow = {"window_shape": (2, 2), "strides": 1, "padding": 1, "dilations": (4, 1)}
    none = {"where": False} if "masked" in name else {}
    pool = functools.partial(op, **settings | hollow | none)
    with jax.debug_nans(True):
        values, pull = jax.vjp(lambda x: values_of(pool(x)), jnp.ones((3, 4, 1)))
        assert not np.any(pull(jnp.ones_like(values))[0])


# --- other platforms ------------------------------------------------------------------------------


@over_all
def test_forward_and_gradient_lower_for_every_platform(name: str) -> None:
    """Each lowering and each rule exists for a platform; no device is needed."""
    pool = pooling(name)
    for f in (pool, jax.grad(loss(pool)), jax.hessian(loss(pool))):
        traced = jax.jit(f).trace(jax.ShapeDtypeStruct(SHAPE, jnp.float32))
        text = traced.lower(lowering_platforms=("cpu", "cuda", "tpu")).as_text()
        assert "stablehlo" in text


@over_ops
def test_one_export_serves_every_platform_and_batch(name: str, rng: np.random.Generator) -> None:
    pool, x = pooling(name), data(rng, (4, *SHAPE[1:]))
    (batch,) = jax.export.symbolic_shape("batch", constraints=["batch <= 1024"])  # int32 indices
    arguments = jax.ShapeDtypeStruct((batch, *SHAPE[1:]), jnp.float32)
    exported = jax.export.export(jax.jit(pool), platforms=("cpu", "cuda", "tpu"))(arguments)
    assert_close(exported.call(x), pool(x))


# --- kinds of arguments ---------------------------------------------------------------------------


def test_settings_may_be_static_arguments_of_an_outer_jit(rng: np.random.Generator) -> None:
    outer = jax.jit(jaxpool.max_pool, static_argnums=(1, 2, 3), static_argnames="dilations")
    x = data(rng)
    got = outer(x, (3, 2), (2, 1), ((1, 0), (0, 2)), dilations=(1, 2))
    assert_equal(got, jaxpool.max_pool(x, (3, 2), (2, 1), ((1, 0), (0, 2)), dilations=(1, 2)))


@over_ops
def test_numpy_arrays_lists_and_jax_arrays_are_pooled_alike(
    name: str, rng: np.random.Generator
) -> None:
    pool, x = pooling(name), data(rng)
    want = pool(jnp.asarray(x))
    assert_equal(pool(x), want)
    assert_equal(pool(x.tolist()), want)
    assert_equal(pool(tuple(map(list, x.tolist()))), want)
    assert_equal(pool(x.astype(np.float64)), want)  # narrowed to float32, as jnp.asarray does


@pytest.mark.parametrize("name", ["max", "min", "argmax", "avg", "sum"])
def test_settings_may_be_lists_arrays_and_numpy_integers(name: str) -> None:
    op, x = OPS[name][0], jnp.arange(35.0).reshape(7, 5, 1)
    want = op(x, (3, 2), (2, 1), ((1, 0), (0, 1)), dilations=(1, 2))
    assert_equal(op(x, [3, 2], [2, 1], [[1, 0], [0, 1]], dilations=[1, 2]), want)
    window, strides, padding = np.array([3, 2]), np.array([2, 1]), np.array([[1, 0], [0, 1]])
    assert_equal(op(x, window, strides, padding, dilations=np.array([1, 2])), want)
    one, two = np.uint8(1), np.int64(2)
    assert_equal(op(x, (3, two), (two, one), ((one, 0), (0, one)), dilations=(one, two)), want)


@over_all
def test_callers_may_forbid_the_promotion_of_ranks(name: str) -> None:
    pool = pooling(name)
    with jax.numpy_rank_promotion("raise"):
        for f in (pool, jax.grad(loss(pool)), jax.vmap(pool)):
            jax.eval_shape(f, jax.ShapeDtypeStruct((2, *SHAPE), jnp.float32))


@over_all
def test_a_configuration_is_compiled_once(name: str) -> None:
    op, settings = (OPS | BY_REDUCE_WINDOW)[name]
    x, wider = jnp.zeros((1, 9, 8, 1)), jnp.zeros((1, 9, 9, 1))
    settings = settings | ({"where": jnp.ones(x.shape, bool)} if "where" in settings else {})
    with counted_compilations() as found:
        op(x, **settings)
        assert len(found) == 1
        op(x, **settings)
        op(x, **dict(reversed(settings.items())))
        assert len(found) == 1
        if "where" not in settings:
            op(wider, **settings)
            assert len(found) == 2
