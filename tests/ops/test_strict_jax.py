"""Every op under the settings with which JAX forbids frequent mistakes."""

import jax
import jax.numpy as jnp
import pytest
from every_op import EVERY_OP, numbers, with_gradient

import jaxpool

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


@pytest.mark.grid(8)
@over_ops
def test_no_nan_is_made_on_the_way(name: str) -> None:
    """Not within ``jax.jit``, where JAX would check only the results."""
    with jax.debug_nans(True):
        with_gradient(EVERY_OP[name])(jnp.asarray(numbers(2, 3)))


@pytest.mark.grid(8)
@over_ops
def test_no_nan_is_made_on_the_way_without_jit(name: str) -> None:
    """JAX then runs and checks every operation, also constants that no result contains."""
    with jax.disable_jit(), jax.debug_nans(True):
        with_gradient(EVERY_OP[name])(jnp.asarray(numbers(2, 3)))
