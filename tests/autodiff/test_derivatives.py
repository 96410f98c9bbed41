"""Derivatives of every op: against finite differences, each other, and results by hand."""

import functools
import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import QUICK, assert_same, check_derivatives
from jax import lax
from jax.test_util import check_grads

import jaxpool
from jaxpool import testing

pytestmark = pytest.mark.grid(12)

Op = Callable[..., jax.Array]


def argmax_values(x: Any, *window: Any, **settings: Any) -> jax.Array:
    """Return the differentiable result of max_pool_with_argmax."""
    return jaxpool.max_pool_with_argmax(x, *window, **settings)[0]


EXTREMES: dict[str, Op] = {
    "max_pool": jaxpool.max_pool,
    "min_pool": jaxpool.min_pool,
    "max_pool_with_argmax": argmax_values,
}
LINEAR: dict[str, Op] = {"avg_pool": jaxpool.avg_pool, "sum_pool": jaxpool.sum_pool}
OPS = EXTREMES | LINEAR

# name -> shape (channels last), window and settings; different on every axis.
CASES: dict[str, tuple[tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = {
    "1-D": ((2, 9, 3), ((3,), (2,)), {}),
    "2-D dilated": ((1, 8, 7, 2), ((2, 3), (3, 1), ((1, 0), (0, 2))), {"dilations": (3, 2)}),
    "2-D strided SAME": ((2, 7, 5, 1), ((3, 2), (2, 3), "SAME"), {}),
    "3-D": ((1, 4, 5, 3, 2), ((2, 3, 1), (1, 2, 3), ((1, 0), (0, 1), (0, 0))), {}),
    "ceil_torch": ((1, 6, 7, 2), ((2, 3), (3, 2), ((1, 0), (0, 1))), {"rounding": "ceil_torch"}),
    "mask": ((2, 5, 6, 2), ((2, 3), (1, 2), 1), {"where": "some"}),
}

over_ops = pytest.mark.parametrize("op", OPS)
over_extremes = pytest.mark.parametrize("op", EXTREMES)
over_cases = pytest.mark.parametrize("case", CASES)


def separated(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return distinct multiples of 16, so that a step of a few units changes no argmax."""
    x = 16 * (rng.permutation(math.prod(shape)).reshape(shape) - math.prod(shape) // 2)
    assert len(np.unique(x)) == x.size
    return x.astype(np.float32)


def pooling(op: str, case: str, rng: np.random.Generator) -> tuple[Callable[[Any], Any], Any]:
    """Return the op at the settings of the case, as a function of ``x``, and an ``x``."""
    shape, window, settings = CASES[case]
    settings = dict(settings)
    if "where" in settings:  # masks a fifth of the elements, but no full window
        step = np.add.outer(np.arange(shape[1]), 2 * np.arange(shape[2]))
        settings["where"] = (step % 5 > 0)[..., None]
    return lambda x: OPS[op](x, *window, **settings), separated(rng, shape)


def row(op: Op, *window: Any, **settings: Any) -> Callable[[Any], Any]:
    """Return the op over a vector."""
    return lambda x: op(x, *window, data_format="W", **settings)


def pairs(op: str) -> Callable[[Any], Any]:
    """Return the op over all pairs of neighbours of a vector."""
    return row(OPS[op], (2,), 1)


def vector(x: Any) -> np.ndarray:
    """Return ``x`` in single precision."""
    return np.array(x, np.float32)


def signed(op: str, x: Any) -> np.ndarray:
    """Return ``x`` for maxima and ``-x`` for minima, so that the same elements are selected."""
    return vector(x) * np.float32(-1 if op == "min_pool" else 1)


def gradient(f: Callable[[Any], Any], x: Any) -> np.ndarray:
    """Return the gradient of the sum of ``f``."""
    return np.asarray(jax.grad(lambda x: f(x).sum())(jnp.asarray(x)))


# --- against brute force --------------------------------------------------------------------------

# Shape, window, strides and dilations of windows that stay inside the array.
WHOLE = (
    ((10, 6), (3, 3), (2, 1), (1, 1)),
    ((13, 15), (3, 2), (2, 3), (2, 5)),
    ((9, 8), (4, 2), (1, 5), (1, 6)),
    ((5, 7, 6), (2, 3, 1), (1, 2, 3), (2, 1, 1)),
)


@pytest.mark.grid(1)
@pytest.mark.parametrize(("shape", "window", "strides", "dilations"), WHOLE)
def test_each_cotangent_goes_to_the_largest_element_of_its_window(
    shape: Any, window: Any, strides: Any, dilations: Any, rng: np.random.Generator
) -> None:
    x = separated(rng, (*shape, 2))
    y, transpose = jax.vjp(lambda x: jaxpool.max_pool(x, window, strides, dilations=dilations), x)
    g = separated(rng, y.shape)
    wanted = np.zeros_like(x)
    for *at, channel in np.ndindex(y.shape):
        elements = tuple(
            slice(o * s, o * s + (k - 1) * d + 1, d)
            for o, k, s, d in zip(at, window, strides, dilations, strict=True)
        )
        where = np.unravel_index(x[(*elements, channel)].argmax(), window)
        wanted[(*elements, channel)][where] += g[(*at, channel)]
    assert_same(transpose(g)[0], wanted, (shape, window))


# --- forward and reverse mode, first and second order ---------------------------------------------


@pytest.mark.grid(16)
@over_cases
@over_ops
def test_both_modes_agree_with_finite_differences_to_order_two(
    op: str, case: str, rng: np.random.Generator
) -> None:
    """The square has a second derivative that is not zero."""
    f, x = pooling(op, case, rng)
    assert np.isfinite(f(x)).all()  # an empty window's infinity has no finite difference
    with jax.enable_x64(True):
        x = jnp.asarray(x, jnp.float64)
        check_derivatives(lambda x: f(x) ** 2, x, rng=rng, eps=1e-4)


@pytest.mark.deep
@over_ops
def test_single_precision_agrees_with_finite_differences(op: str, rng: np.random.Generator) -> None:
    f, x = pooling(op, "2-D dilated", rng)
    check_grads(f, (jnp.asarray(x),), order=2, modes=("fwd", "rev"), eps=1.0)


@pytest.mark.grid(16)
@over_cases
@over_ops
def test_forward_and_reverse_jacobians_are_equal(
    op: str, case: str, rng: np.random.Generator
) -> None:
    f, x = pooling(op, case, rng)
    jacobians = lambda x: (jax.jacfwd(f)(x), jax.jacrev(f)(x))  # noqa: E731
    forward, reverse = jax.jit(jacobians, compiler_options=QUICK)(x)
    np.testing.assert_array_equal(forward, reverse)
    assert np.any(forward)
    if op in EXTREMES:  # one argmax a window
        np.testing.assert_array_equal(np.sum(forward, axis=tuple(range(-x.ndim, 0))), 1)


@pytest.mark.grid(16)
@over_cases
@over_ops
def test_the_transpose_is_the_adjoint(op: str, case: str, rng: np.random.Generator) -> None:
    """<J v, u> == <v, J^T u>."""
    f, x = pooling(op, case, rng)
    v = rng.integers(-9, 10, x.shape).astype(np.float32)
    u = rng.integers(-9, 10, jax.eval_shape(f, x).shape).astype(np.float32)
    forward, backward = jax.jit(
        lambda x, v, u: (jax.jvp(f, (x,), (v,))[1], jax.vjp(f, x)[1](u)[0]),
        compiler_options=QUICK,
    )(x, v, u)
    left, right = np.vdot(forward, u), np.vdot(v, backward)
    assert left != 0
    np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-3)


@over_extremes
def test_third_derivatives_of_a_cube(op: str) -> None:
    """y = x[argmax], so d^3 (y^3) is 6 for each window of an argmax: 4 wins twice, 3 once."""
    x = signed(op, [1.0, 4.0, 2.0, 3.0])
    third = jax.jacfwd(jax.jacrev(jax.grad(lambda x: (pairs(op)(x) ** 3).sum())))
    expected = np.zeros((4, 4, 4))
    expected[1, 1, 1], expected[3, 3, 3] = 12, 6
    np.testing.assert_array_equal(jax.jit(third, compiler_options=QUICK)(x), expected)


@over_extremes
def test_hessian_of_a_sum_of_squares(op: str) -> None:
    """Windows of two over 1 4 2 3: 4 wins twice and 3 once, so H = diag(0, 2 * 2, 0, 2 * 1)."""
    x = signed(op, [1.0, 4.0, 2.0, 3.0])

    def squares(x: jax.Array) -> jax.Array:
        return (pairs(op)(x) ** 2).sum()

    ways = (jax.hessian, lambda f: jax.jacrev(jax.grad(f)), lambda f: jax.jacrev(jax.jacfwd(f)))
    run = jax.jit(lambda x: [way(squares)(x) for way in ways], compiler_options=QUICK)
    for hessian in run(x):
        np.testing.assert_array_equal(hessian, np.diag([0.0, 4.0, 0.0, 2.0]))


def test_hessian_of_a_dilated_max_counts_every_window() -> None:
    """Taps 0 and 2: windows (5, 1), (3, 9), (1, 2), (9, 4) have the maxima 5, 9, 2, 9."""
    x = jnp.array([5.0, 3.0, 1.0, 9.0, 2.0, 4.0])
    pool = row(jaxpool.max_pool, (2,), 1, dilations=2)
    hessian = jax.jit(jax.hessian(lambda x: (pool(x) ** 2).sum()), compiler_options=QUICK)(x)
    np.testing.assert_array_equal(hessian, np.diag([2.0, 0, 0, 4, 2, 0]))


# --- which element receives the gradient ----------------------------------------------------------


@over_extremes
def test_the_first_tap_owns_a_tie(op: str) -> None:
    x = signed(op, [1.0, 3.0, 3.0, 2.0, 3.0])
    np.testing.assert_array_equal(gradient(row(OPS[op], (3,), 1), x), [0, 2, 1, 0, 0])


@over_extremes
def test_the_first_tap_in_row_major_order_owns_a_tie_on_two_axes(op: str) -> None:
    """Both 7s of the window are off the diagonal: (0, 1) comes before (1, 0)."""
    x = signed(op, [[1.0, 7.0], [7.0, 1.0]])
    pool = functools.partial(OPS[op], window_shape=2, strides=1, data_format="HW")
    np.testing.assert_array_equal(gradient(pool, x), [[0, 1], [0, 0]])


@over_extremes
@pytest.mark.parametrize("zeros", [(-0.0, 0.0), (0.0, -0.0)])
def test_signed_zeros_tie(op: str, zeros: tuple[float, float]) -> None:
    np.testing.assert_array_equal(gradient(row(OPS[op], (2,), 1), vector(zeros)), [1, 0])


@over_extremes
@pytest.mark.parametrize("dilation", [1, 2])
def test_the_first_nan_owns_the_gradient(op: str, dilation: int) -> None:
    pool = row(OPS[op], (4,), 1, dilations=dilation)
    for x, expected in {
        (1.0, math.nan, 5.0, math.nan): [0, 1, 0, 0],
        (math.nan, 1.0, math.nan, 2.0): [1, 0, 0, 0],
        (1.0, 5.0, 2.0, math.nan): [0, 0, 0, 1],
    }.items():
        spread = np.zeros(3 * dilation + 1, np.float32)
        spread[::dilation] = x
        got = gradient(pool, spread)
        np.testing.assert_array_equal(got[::dilation], expected)
        assert got.sum() == 1


@over_extremes
def test_padding_never_takes_the_gradient_of_infinities(op: str) -> None:
    """Four windows over three elements, the outer ones half in padding: 2 1 1, and none is lost."""
    x = signed(op, [-np.inf] * 3)
    np.testing.assert_array_equal(gradient(row(OPS[op], (2,), 1, 1), x), [2, 1, 1])
    ceil = row(OPS[op], (2,), 2, rounding="ceil_torch")
    np.testing.assert_array_equal(gradient(ceil, x), [1, 0, 1])


@over_extremes
def test_masked_elements_never_take_the_gradient_of_infinities(op: str) -> None:
    x = signed(op, [-np.inf] * 4)
    pool = row(OPS[op], (2,), 1, where=jnp.array([False, True, True, False]))
    np.testing.assert_array_equal(gradient(pool, x), [0, 2, 1, 0])


@over_extremes
def test_a_nan_tangent_or_cotangent_stays_with_its_element(op: str) -> None:
    """The derivative selects instead of multiplying by zero: other elements have no effect."""
    x = signed(op, [1.0, 4.0, 2.0, 3.0, 0.0])
    tangent = jax.jvp(pairs(op), (x,), (vector([math.nan, 1, math.inf, 2, math.nan]),))[1]
    np.testing.assert_array_equal(tangent, [1, 1, 2, 2])
    backward = jax.vjp(pairs(op), x)[1](jnp.array([1.0, 10.0, math.nan, math.inf]))[0]
    np.testing.assert_array_equal(backward, [0, 11, 0, math.nan, 0])
    backward = jax.vjp(pairs(op), x)[1](jnp.array([math.nan, 10.0, 1.0, 2.0]))[0]
    np.testing.assert_array_equal(backward, [0, math.nan, 0, 3, 0])


@over_ops
def test_a_window_without_an_element_has_no_gradient(op: str) -> None:
    """Empty windows by dilation, with taps -1 and 3 of three elements, and by a mask."""
    hollow = row(OPS[op], (2,), 1, 1, dilations=4)
    np.testing.assert_array_equal(gradient(hollow, vector([1, 2, 3])), [0, 0, 0])
    masked = row(OPS[op], (2,), 2, where=jnp.zeros(4, bool))
    np.testing.assert_array_equal(gradient(masked, vector([1, 2, 3, 4])), [0, 0, 0, 0])
    tangent = jax.jvp(hollow, (jnp.ones(3),), (jnp.ones(3),))[1]
    np.testing.assert_array_equal(tangent, np.zeros(1))


@over_ops
def test_a_masked_nan_reaches_neither_value_nor_gradient(op: str) -> None:
    x = vector([math.nan, 2, 3, math.nan])
    mask = jnp.array([False, True, True, False])
    pool = row(OPS[op], (2,), 1, where=mask)
    values = {"avg_pool": [2, 2.5, 3], "sum_pool": [2, 5, 3], "min_pool": [2, 2, 3]}
    owners = {"avg_pool": [0, 1.5, 1.5, 0], "sum_pool": [0, 2, 2, 0], "min_pool": [0, 2, 1, 0]}
    np.testing.assert_array_equal(pool(x), values.get(op, [2, 3, 3]))
    np.testing.assert_array_equal(gradient(pool, x), owners.get(op, [0, 1, 2, 0]))


def test_the_gradient_of_an_average_divides_by_the_forward_count() -> None:
    """The rows of x = 1..6, K = 3, S = 2, pads 1, as recorded from PyTorch."""
    x = np.arange(1, 7, dtype=np.float32)
    excluded = row(jaxpool.avg_pool, (3,), 2, 1, count_include_pad=False)
    third, sixths = 1 / 3, 5 / 6
    expected = [0.5, sixths, third, 2 * third, third, third]
    np.testing.assert_allclose(gradient(excluded, x), expected, rtol=1e-6)
    included = row(jaxpool.avg_pool, (3,), 2, 1)
    expected = [third, 2 * third, third, 2 * third, third, third]
    np.testing.assert_allclose(gradient(included, x), expected, rtol=1e-6)
    ceil = row(jaxpool.avg_pool, (3,), 2, 1, rounding="ceil_torch")
    expected[-1] += 1 / 2  # the last window: element 6 and one element of padding
    np.testing.assert_allclose(gradient(ceil, x), expected, rtol=1e-6)
    override = row(jaxpool.avg_pool, (3,), 2, 1, divisor_override=-4)
    np.testing.assert_array_equal(gradient(override, x), vector([1, 2, 1, 2, 1, 1]) / -4)


@pytest.mark.parametrize("seed", range(4))
@over_ops
def test_gradients_of_dilated_windows_are_those_of_the_oracle(op: str, seed: int) -> None:
    """Ties, padding, masks and dilation together; the sums of integers are exact."""
    rng = np.random.default_rng(seed)
    kernel, dilations = rng.permutation([1, 2, 3])[:2], rng.permutation([1, 2, 3])[:2]
    shape = (2, *(rng.permutation([5, 6, 7, 8])[:2]), 2)
    words = {
        "window_shape": tuple(kernel.tolist()),
        "strides": tuple(rng.permutation([1, 2, 3])[:2].tolist()),
        "padding": tuple(map(tuple, rng.integers(0, 3, (2, 2)).tolist())),
        "dilations": tuple(dilations.tolist()),
        "rounding": str(rng.choice(["floor", "ceil", "ceil_torch"])),
        "where": rng.random(shape) < 0.8 if seed % 2 else None,
    }
    x = rng.integers(-3, 4, shape).astype(np.float32)
    out, pull = jax.vjp(lambda x: OPS[op](x, **words), x)
    cotangent = rng.integers(-9, 10, out.shape).astype(np.float32)
    name = "max" if op == "max_pool_with_argmax" else op.removesuffix("_pool")
    expected = testing.oracle_gradient(x, cotangent, name, **words)
    assert np.any(expected)
    tolerance = 1e-5 if op == "avg_pool" else 0
    np.testing.assert_allclose(pull(cotangent)[0], expected, 0, tolerance, err_msg=str(words))


@pytest.mark.parametrize("padding", [0, ((2, 0), (0, 0), (0, 0)), "SAME"])
@over_ops
def test_gradients_of_windows_that_are_long_on_the_first_axis_alone(op: str, padding: Any) -> None:
    words = {"window_shape": (17, 1, 1), "strides": (1, 1, 1), "padding": padding}
    x = np.random.default_rng(0).permutation(20 * 2 * 3).reshape(1, 20, 2, 3, 1).astype(np.float32)
    out, pull = jax.vjp(lambda x: OPS[op](x, **words), x)
    cotangent = np.arange(1.0, 1 + out.size, dtype=np.float32).reshape(out.shape)
    name = "max" if op == "max_pool_with_argmax" else op.removesuffix("_pool")
    expected = testing.oracle_gradient(x, cotangent, name, **words)
    np.testing.assert_allclose(pull(cotangent)[0], expected, 1e-5 * (op == "avg_pool"))


@pytest.mark.parametrize(
    "strides, dilations, padding",
    [
        ((1, 1), (1, 1), ((4, 2), (1, 5))),
        ((2, 3), (1, 2), ((4, 2), (1, 5))),
        ((4, 3), (1, 1), ((0, 0), (0, 0))),
    ],
)
@over_ops
def test_gradients_of_long_windows_are_those_of_the_oracle(
    op: str,
    strides: tuple[int, int],
    dilations: tuple[int, int],
    padding: tuple[tuple[int, int], tuple[int, int]],
) -> None:
    """Windows that are too long to be unrolled; their transposes use levels and doubling."""
    rng = np.random.default_rng(0)
    words = {"window_shape": (11, 8), "strides": strides, "padding": padding}
    words |= {"dilations": dilations, "rounding": "ceil_torch"}
    x = rng.permutation(23 * 17).reshape(1, 23, 17, 1).astype(np.float32)
    out, pull = jax.vjp(lambda x: OPS[op](x, **words), x)
    cotangent = rng.integers(-9, 10, out.shape).astype(np.float32)
    name = "max" if op == "max_pool_with_argmax" else op.removesuffix("_pool")
    expected = testing.oracle_gradient(x, cotangent, name, **words)
    tolerance = 1e-5 if op == "avg_pool" else 0
    np.testing.assert_allclose(pull(cotangent)[0], expected, 0, tolerance)


# --- integers and indices -------------------------------------------------------------------------


@over_ops
@pytest.mark.parametrize("dtype", ["int32", "uint8", "int8"])
def test_integers_carry_an_empty_tangent(op: str, dtype: str) -> None:
    x = jnp.arange(12, dtype=dtype).reshape(2, 6)
    no_tangent = np.zeros(x.shape, jax.dtypes.float0)
    pool = functools.partial(OPS[op], window_shape=(2, 3), strides=(1, 2), data_format="HW")
    values, tangent = jax.jvp(pool, (x,), (no_tangent,))
    np.testing.assert_array_equal(values, pool(x))
    assert tangent.dtype == jax.dtypes.float0 and tangent.shape == values.shape


@over_extremes
def test_an_integer_input_beside_a_differentiated_one(op: str) -> None:
    """Pooling integers inside a differentiated function has no effect on the gradient."""
    codes = jnp.array([3, 1, 2], jnp.int32)
    pool = row(OPS[op], (2,), 1)
    grad = jax.grad(lambda x: (pool(x) * pool(codes).astype(x.dtype)).sum())(jnp.arange(3.0))
    expected = {"min_pool": [1, 1, 0]}.get(op, [0, 3, 2])
    np.testing.assert_array_equal(grad, expected)


def test_indices_are_auxiliary_and_carry_no_tangent() -> None:
    x = jnp.array([1.0, 4.0, 2.0, 3.0])
    pool = row(jaxpool.max_pool_with_argmax, (2,), 1)  # type: ignore[arg-type]
    (values, indices), (tangent, none) = jax.jvp(pool, (x,), (jnp.array([1.0, 2.0, 3.0, 4.0]),))
    np.testing.assert_array_equal(values, [4, 4, 3])
    np.testing.assert_array_equal(indices, [1, 1, 3])
    np.testing.assert_array_equal(tangent, [2, 2, 4])
    assert none.dtype == jax.dtypes.float0 and none.shape == (3,)
    values, pull, indices = jax.vjp(pool, x, has_aux=True)
    np.testing.assert_array_equal(pull(jnp.array([1.0, 10.0, 100.0]))[0], [0, 11, 0, 100])


# --- residuals of reverse mode, and its compilation -----------------------------------------------

# name -> input shape, window and settings; the output is never of the input's shape.
KEEPING: dict[str, tuple[tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = {
    "2x2": ((2, 8, 6, 3), ((2, 2), 2), {}),
    "overlapping, padded": ((2, 8, 6, 3), ((3, 2), (2, 1), ((1, 1), (0, 1))), {}),
    "dilated, ceil": ((1, 9, 7, 2), ((2, 3), 2, 1), {"dilations": (3, 2), "rounding": "ceil"}),
    "255 taps": ((1, 20, 19, 1), ((15, 17), 1), {}),
    "mask": ((2, 8, 6, 3), ((2, 3), (2, 1)), {"where": np.eye(8, 6, dtype=bool)[None, :, :, None]}),
    "reduce_window": ((2, 8, 6, 3), ((3, 2), (2, 1)), {"implementation": "reduce_window"}),
    "channels first": ((2, 3, 8, 6), ((2, 2), 2), {"data_format": "NCHW"}),
    "channels first, overlapping": ((2, 3, 8, 6), ((3, 2), 1), {"data_format": "NCHW"}),
}


def kept(tree: Any) -> list[tuple[tuple[int, ...], str]]:
    """Return shape and dtype of the arrays in a tree, without scalars, as the platform index."""
    leaves = jax.tree.leaves(tree)
    return [(leaf.shape, str(leaf.dtype)) for leaf in leaves if leaf.shape]


def residuals(f: Callable[[Any], Any], x: Any) -> list[tuple[tuple[int, ...], str]]:
    """Return the residuals of the backward function, from its shapes only."""
    return kept(jax.eval_shape(lambda x: jax.vjp(f, x)[1], x))


@pytest.mark.grid(24)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", KEEPING)
@over_extremes
def test_extremes_keep_one_byte_for_each_output(op: str, case: str, dtype: str) -> None:
    shape, window, settings = KEEPING[case]
    f = functools.partial(_call, OPS[op], window, settings)
    x = jax.ShapeDtypeStruct(shape, dtype)
    expected = [(jax.eval_shape(f, x).shape, "uint8")]
    assert residuals(f, x) == expected
    assert residuals(jax.jit(f), x) == expected
    assert residuals(jax.vmap(f), jax.ShapeDtypeStruct((5, *shape), dtype)) == [
        ((5, *expected[0][0]), "uint8")
    ]


@over_extremes
def test_the_backward_function_holds_just_these_bytes(op: str) -> None:
    """The same for concrete arrays: run eagerly, and compiled separately from the backward pass."""
    x = jnp.arange(2 * 8 * 6 * 3, dtype=jnp.float32).reshape(2, 8, 6, 3)
    f = functools.partial(_call, OPS[op], ((3, 2), (2, 1), ((1, 1), (0, 1))), {})
    for pull in (jax.vjp(f, x)[1], jax.jit(lambda x: jax.vjp(f, x)[1])(x)):
        assert kept(pull) == [((2, 4, 6, 3), "uint8")]
        assert sum(leaf.nbytes for leaf in jax.tree.leaves(pull)) <= 2 * 4 * 6 * 3 + 8


@pytest.mark.cpu_program
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("window", [(2, 2), (3, 1), (3, 2)], ids=str)
@over_extremes
def test_the_backward_pass_reads_a_materialized_argmax(
    op: str, window: tuple[int, int], data_format: str
) -> None:
    """The backward pass reads the stored offsets, not the array once for each offset."""
    x = jnp.ones((2, 16, 24, 16) if data_format == "NHWC" else (2, 16, 16, 24))
    pool = functools.partial(OPS[op], strides=window[1], data_format=data_format)

    def step(x: Any, g: Any) -> Any:
        y, pull = jax.vjp(lambda x: pool(x, window[0]), x)
        return y, pull(g)[0]

    text = jax.jit(step).lower(x, pool(x, window[0])).compile().as_text()
    assert text is not None
    entry = text[text.index("ENTRY") :]
    made = {line.split()[0]: line for line in entry.splitlines() if " = " in line}
    array = next(name for name, line in made.items() if " parameter(0)" in line)
    gradient = re.search(r"ROOT .* tuple\(\S+, (\S+)\)", entry)
    assert gradient is not None
    waiting, seen = [gradient[1]], set()
    while waiting:  # all ancestors of the gradient, up to the offsets of one byte each
        line = made[waiting.pop()]
        operands = set(re.findall(r"%[\w.]+", line.partition(" = ")[2].partition(", calls=")[0]))
        finished = "conditional(" in line or "u8[" in re.split(r" [\w-]+\(", line)[0]
        waiting += [name for name in operands - seen if name in made and not finished]
        seen |= operands if not finished else set()
    assert array not in seen


@over_extremes
def test_windows_of_more_taps_keep_four_bytes_for_each_output(op: str) -> None:
    x = jnp.ones((1, 20, 19, 1))
    assert residuals(lambda x: OPS[op](x, (16, 16), 1), x) == [((1, 5, 4, 1), "int32")]


@pytest.mark.parametrize("op", LINEAR)
def test_sums_and_averages_keep_nothing(op: str) -> None:
    assert residuals(lambda x: OPS[op](x, (3, 2), (2, 1), 1), jnp.ones((2, 8, 6, 3))) == []


@pytest.mark.cpu_program
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("op", LINEAR)
def test_other_loops_read_materialized_sums_of_windows_that_do_not_overlap(
    op: str, dtype: str
) -> None:
    """Otherwise XLA:CPU recomputes a sum for every element of its window in a gradient."""
    x = jnp.ones((2, 8, 12, 16), dtype)
    pool = lambda x: LINEAR[op](x, (2, 3), (2, 3))  # noqa: E731
    functions: dict[str, Op] = {" reduce(": lambda x: pool(x).sum()}
    if dtype == "float32":
        functions[" exponential("] = jax.grad(lambda x: jnp.exp(pool(x)).sum())
    for consumer, function in functions.items():
        text = jax.jit(function).lower(x).compile().as_text() or ""
        loops = [loop for loop in text.split("\n\n") if consumer in loop and "ENTRY" not in loop]
        assert loops
        assert not any("[2,8,12,16]" in loop for loop in loops)


def test_the_look_at_residuals_sees_what_reduce_window_keeps() -> None:
    assert ((2, 8, 6, 3), "float32") in residuals(_reduce_window_max, jnp.ones((2, 8, 6, 3)))


@pytest.mark.parametrize("case", KEEPING)
@over_extremes
def test_no_gradient_of_an_extreme_scatters(op: str, case: str) -> None:
    """The gradient is then the same on every run and platform."""
    shape, window, settings = KEEPING[case]
    f = functools.partial(_call, OPS[op], window, settings)
    assert not SCATTER.search(lowered(f, jnp.ones(shape)))


@pytest.mark.parametrize("case", ["2x2", "dilated, ceil"])
@over_extremes
def test_no_gradient_of_an_extreme_is_compiled_to_a_scatter(op: str, case: str) -> None:
    shape, window, settings = KEEPING[case]
    f = functools.partial(_call, OPS[op], window, settings)
    assert not SCATTER.search(compiled(f, jnp.ones(shape)))


def test_the_look_for_scatters_finds_that_of_reduce_window() -> None:
    assert SCATTER.search(lowered(_reduce_window_max, jnp.ones((2, 8, 6, 3))))
    assert SCATTER.search(compiled(_reduce_window_max, jnp.ones((2, 8, 6, 3))))


SCATTER = re.compile(r"scatter\(|stablehlo\.\w*scatter")
"""The operation in compiled and in lowered text; names of functions also stand in both."""


def lowered(f: Callable[[Any], Any], x: jax.Array) -> str:
    """Return the gradient's program for all platforms."""
    traced = jax.jit(jax.grad(lambda x: f(x).sum())).trace(x)
    return traced.lower(lowering_platforms=("cpu", "cuda", "tpu")).as_text()


def compiled(f: Callable[[Any], Any], x: jax.Array) -> str:
    """Return the gradient's compiled program for this platform."""
    return jax.jit(jax.grad(lambda x: f(x).sum())).lower(x).compile().as_text() or ""


def _call(op: Op, window: tuple[Any, ...], settings: dict[str, Any], x: Any) -> jax.Array:
    return op(x, *window, **settings)


def _reduce_window_max(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def test_the_exponent_of_a_generalised_mean_learns_from_a_batch(rng: np.random.Generator) -> None:
    """All examples share an exponent: under vmap it has no batch axis, but the array has one."""
    x = rng.uniform(size=(4, 6, 2)).astype(np.float32)

    def total(p: jax.Array) -> jax.Array:
        return jax.vmap(lambda x: jaxpool.gem_pool(x, (3,), 3, p=p))(x).sum()

    p = jnp.float32(3)
    at_once = jax.grad(lambda p: jaxpool.gem_pool(x, (3,), 3, p=p).sum())(p)
    assert_same(jax.grad(total)(p), at_once, "gem_pool", ulps=4)


@pytest.mark.parametrize(("stride", "dilation"), [(3, 1), (5, 2)])
def test_cotangents_of_long_windows_reach_the_argmax(stride: int, dilation: int) -> None:
    x = np.random.default_rng(0).permutation(600).reshape(1, 200, 3).astype(np.float32)
    words = {"window_shape": (70,), "strides": stride, "dilations": dilation, "padding": 9}
    _, indices = jaxpool.max_pool_with_argmax(x, **words)
    got = jax.grad(lambda x: jaxpool.max_pool(x, **words).sum())(x)
    found = np.asarray(indices)[0]
    want = [np.bincount(found[:, c], minlength=200) for c in range(3)]
    np.testing.assert_array_equal(got[0], np.stack(want, -1))


def settings_of(
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilation: int,
    padding: tuple[tuple[int, int], tuple[int, int]],
) -> dict[str, Any]:
    return {
        "window_shape": kernel,
        "strides": strides,
        "dilations": dilation,
        "padding": padding,
    }


def shape_of(data_format: str, height: int, width: int) -> tuple[int, ...]:
    sizes = {"N": 2, "H": height, "W": width, "C": 3}
    return tuple(sizes[letter] for letter in data_format)


@pytest.mark.grid(16)
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW", "NCWH"])
@pytest.mark.parametrize(
    "settings",
    [
        settings_of((2, 3), (2, 3), 1, ((1, 1), (0, 2))),
        settings_of((4, 3), (4, 3), 1, ((5, 0), (1, 1))),
        settings_of((5, 2), (7, 4), 1, ((0, 3), (2, 0))),
        settings_of((3, 4), (5, 9), 2, ((2, 1), (0, 7))),
        settings_of((16, 17), (16, 17), 1, ((2, 0), (0, 15))),
    ],
)
def test_cotangents_of_windows_that_do_not_overlap_reach_the_argmax(
    settings: dict[str, Any], data_format: str, rng: np.random.Generator
) -> None:
    """Windows that are tiled, with gaps or dilated; an empty window has no element."""
    shape = shape_of(data_format, 30, 19)
    x = rng.permutation(math.prod(shape)).reshape(shape).astype(np.float32)
    pool = functools.partial(jaxpool.max_pool, data_format=data_format, **settings)
    y, back = jax.vjp(pool, x)
    _, elements = jaxpool.max_pool_with_argmax(
        x, data_format=data_format, index_space=0, **settings
    )
    g, elements = rng.integers(1, 99, y.shape).astype(np.float32), np.asarray(elements)
    want = np.zeros(x.size, np.float32)
    np.add.at(want, elements[elements >= 0], g[elements >= 0])
    np.testing.assert_array_equal(back(g)[0], want.reshape(shape))


@pytest.mark.grid(24)
@over_ops
@pytest.mark.parametrize("kernel", [(2, 2), (3, 3), (4, 4), (8, 9)])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_windows_on_padding_alone_have_no_gradient(
    op: str, kernel: tuple[int, int], data_format: str
) -> None:
    x = np.ones(shape_of(data_format, 9, 1), np.float32)
    words = settings_of(kernel, kernel, 1, ((0, 0), (kernel[1], 0)))
    y, back = jax.vjp(lambda x: OPS[op](x, data_format=data_format, **words), x)
    assert y.size
    np.testing.assert_array_equal(back(jnp.ones_like(y))[0], np.zeros_like(x))


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize(
    "settings",
    [
        settings_of((9, 8), (9, 8), 1, ((3, 1), (10, 0))),
        settings_of((2, 3), (2, 3), 1, ((1, 1), (0, 0))),
        settings_of((8, 3), (15, 5), 2, ((2, 0), (1, 3))),
        settings_of((3, 8), (7, 22), 3, ((0, 0), (4, 6))),
    ],
)
def test_cotangents_of_tiled_windows_reach_all_their_elements(
    settings: dict[str, Any], data_format: str, rng: np.random.Generator
) -> None:
    """Each window starts at the end of the preceding one; dilated windows skip elements."""
    x = np.zeros(shape_of(data_format, 30, 19), np.float32)
    pool = functools.partial(jaxpool.sum_pool, data_format=data_format, **settings)
    y, back = jax.vjp(pool, x)
    g = rng.integers(1, 99, y.shape).astype(np.float32)
    want, first = np.zeros_like(x), x.shape.index(30)
    kernel, strides, dilation, padding = settings.values()
    outputs = itertools.product(*map(range, y.shape[first : first + 2]))
    for out, taps in itertools.product(outputs, itertools.product(*map(range, kernel))):
        at = [
            o * stride - low + tap * dilation
            for o, stride, (low, _), tap in zip(out, strides, padding, taps, strict=True)
        ]
        if 0 <= at[0] < 30 and 0 <= at[1] < 19:
            before = (slice(None),) * first
            want[(*before, *at)] += g[(*before, *out)]
    assert want.any() and not want.all()
    np.testing.assert_array_equal(back(g)[0], want)


@pytest.mark.parametrize("op", ["max_pool", "avg_pool", "logsumexp_pool", "soft_pool", "lp_pool"])
def test_programs_of_gradients_do_not_grow_with_the_stride(op: str) -> None:
    def lines(stride: int) -> int:
        pool = functools.partial(getattr(jaxpool, op), window_shape=(2,), strides=stride)
        gradient = jax.jit(jax.grad(lambda x: pool(x).sum()))
        return len(gradient.lower(jnp.zeros((1, 4000, 1))).as_text().splitlines())

    assert lines(1000) <= lines(10) + 5
