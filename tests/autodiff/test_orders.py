"""Derivatives of every op to order two inside JAX's loops and branches.

JAX before 0.12 loses a rule of ``jax.custom_jvp`` in partial evaluation, that is inside ``scan``,
if the rule is called inside another rule, or if its argument is known to an inner differentiation.
Second derivatives are then those of the function without the rule, or zero. So every op is
differentiated inside a loop, in every combination of both modes, and in two arguments sequentially.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_op import EVERY_OP, SPACE, WINDOW
from helpers import assert_same, check_derivatives
from jax import lax

import jaxpool
from jaxpool import filters, reductions
from jaxpool.compat import onednn, tensorflow

Op = Callable[[Any], Any]

CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], bool)
SCATTERED = np.add.outer(np.arange(9), np.arange(9)) % 2 == 0
FILTERS: dict[str, Op] = {
    "maximum_filter": lambda x: filters.maximum_filter(x, 3, axes=(1, 2)),
    "maximum_filter, cross": lambda x: filters.maximum_filter(x, footprint=CROSS, axes=(1, 2)),
    "minimum_filter, scattered": lambda x: filters.minimum_filter(
        x, footprint=SCATTERED, axes=(1, 2)
    ),
    "grey_dilation": lambda x: filters.grey_dilation(x, structure=CROSS / 2.0, axes=(1, 2)),
    "median_filter": lambda x: filters.median_filter(x, 3, axes=(1, 2)),
    "rank_filter, cross": lambda x: filters.rank_filter(x, 1, footprint=CROSS, axes=(1, 2)),
    "uniform_filter": lambda x: filters.uniform_filter(x, 3, axes=(1, 2)),
}

OPS: dict[str, Op] = (
    EVERY_OP
    | FILTERS
    | {
        "lp_pool, p=1.5": lambda x: jaxpool.lp_pool(x, **WINDOW, p=1.5),
        "lp_pool, p=7": lambda x: jaxpool.lp_pool(x, **WINDOW, p=7),
        "lp_pool, p=inf": lambda x: jaxpool.lp_pool(x, **WINDOW, p=math.inf),
        "pool, logsumexp": lambda x: jaxpool.pool(x, reductions.LOGSUMEXP, **WINDOW),
        "pool, absolute": lambda x: jaxpool.pool(x, reductions.lp(1), **WINDOW),
        "adaptive_max_pool, uneven": lambda x: jaxpool.adaptive_max_pool(x, (4, 4)),
        "stochastic_pool, long": lambda x: jaxpool.stochastic_pool(
            jax.random.key(2), x, (7, 6), 1, 3
        ),
        "median_pool, long": lambda x: jaxpool.median_pool(x, (7, 6), 1, 3),
        "onednn": lambda x: onednn.forward_training(x, "max", (3, 1), (2, 1))[0],
        "tensorflow": lambda x: tensorflow.max_pool(x, (3, 2), (2, 1), "SAME"),
        "tensorflow, indices": lambda x: tensorflow.max_pool_with_argmax(x, (3, 2), (2, 1), "SAME")[
            0
        ],
    }
)

QUICK = ("max_pool", "lp_pool", "lp_pool, p=1.5", "logsumexp_pool", "median_pool", "max_unpool",
         "adaptive_max_pool, uneven", "global_max_pool", "rank_filter, cross")  # fmt: skip
"""An op of each rule."""


def values(name: str) -> Op:
    """Return the differentiable result of an op."""
    return lambda x: jax.tree.leaves(OPS[name](x))[0]


def data(rng: np.random.Generator, examples: int) -> np.ndarray:
    """Return distinct numbers from 1 to 2, so that no small step changes an argmax."""
    shape = (examples, 1, *SPACE, 1)
    return 1 + rng.permutation(math.prod(shape)).reshape(shape) / math.prod(shape)


def _scan(op: Op, x: jax.Array) -> jax.Array:
    """Return a sum by ``scan``, whose carry depends on the differentiated argument."""

    def body(total: jax.Array, example: jax.Array) -> tuple[jax.Array, jax.Array]:
        y = op(example)
        return total + y.mean(), y * total

    return lax.scan(body, jnp.ones((), x.dtype), x)[1]


def _cond(op: Op, x: jax.Array) -> jax.Array:
    nothing = lambda example: jnp.zeros_like(op(example))  # noqa: E731
    return jnp.stack([lax.cond(example.sum() > 0, op, nothing, example) for example in x])


LOOPS: dict[str, Callable[[Op, jax.Array], jax.Array]] = {
    "none": lambda op, x: jnp.stack([op(example) for example in x]),
    "map": lax.map,
    "scan": _scan,
    "recomputed scan": lambda op, x: _scan(jax.checkpoint(op), x),
    "cond": _cond,
    "map of vmap": lambda op, x: lax.map(jax.vmap(op), x[:, None]),
}


def check(loop: str, name: str, rng: np.random.Generator) -> None:
    with jax.enable_x64(True):
        x = jnp.asarray(data(rng, 2))
        check_derivatives(lambda x: LOOPS[loop](values(name), x) ** 2, x, rng=rng, eps=1e-4)


@pytest.mark.grid(9)
@pytest.mark.parametrize("name", QUICK)
def test_both_modes_to_order_two_inside_scan(name: str, rng: np.random.Generator) -> None:
    check("scan", name, rng)


@pytest.mark.deep
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", [name for name in OPS if name != "onednn"])  # has no float64
def test_both_modes_to_order_two_inside_every_loop(
    name: str, loop: str, rng: np.random.Generator
) -> None:
    check(loop, name, rng)


@pytest.mark.grid(72)
@pytest.mark.parametrize("name", OPS)
def test_an_inner_derivative_in_a_weight_keeps_the_outer_one(
    name: str, rng: np.random.Generator
) -> None:
    """``d/dx d/dw sum of w^2 y(x) = 2 w dy``; for the inner derivative ``y`` is a constant."""
    op, x = values(name), jnp.asarray(data(rng, 2), jnp.float32)

    def total(w: jax.Array, x: jax.Array) -> jax.Array:
        return lax.map(lambda example: w * w * op(example), x).sum()

    inner = jax.grad(total)
    outer = jax.jit(jax.grad(functools.partial(inner, jnp.float32(1.5))))(x)
    plain = jax.jit(jax.vmap(jax.grad(lambda example: 3 * op(example).sum())))(x)
    assert_same(outer, plain, name, ulps=8)
    assert np.any(plain)


@pytest.mark.grid(9)
@pytest.mark.parametrize("name", QUICK)
def test_forward_mode_twice_through_a_while_loop(name: str, rng: np.random.Generator) -> None:
    """The trip count is known only at run time, so there is no reverse mode."""
    op, x = values(name), jnp.asarray(data(rng, 1)[0], jnp.float32)
    v = jnp.asarray(rng.standard_normal(x.shape), jnp.float32)

    def often(x: jax.Array, times: int | jax.Array) -> jax.Array:
        start = jnp.zeros(jax.eval_shape(op, x).shape, x.dtype)
        return lax.fori_loop(0, times, lambda n, y: y * op(x) + op(x), start)

    def twice(times: int | jax.Array) -> jax.Array:
        first = lambda x: jax.jvp(functools.partial(often, times=times), (x,), (v,))[1]  # noqa: E731
        return jax.jvp(first, (x,), (v,))[1]

    unrolled = jax.jit(functools.partial(twice, 2))()
    assert_same(jax.jit(twice)(2), unrolled, name, ulps=16)
    assert np.any(unrolled)
