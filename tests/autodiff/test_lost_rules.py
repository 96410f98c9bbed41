"""The canary of :mod:`jaxpool._xla.lost_rules`: fails when the workaround is obsolete."""

import jax
import jax.numpy as jnp
from jax import lax

from jaxpool._xla.lost_rules import RULES_ARE_LOST


@jax.custom_jvp
def _nothing(x: jax.Array) -> jax.Array:
    """Return zeros, with the derivative of ``x * x``."""
    return jnp.zeros_like(x)


@_nothing.defjvp
def _nothing_jvp(primals, tangents):  # type: ignore[no-untyped-def]
    return _nothing(*primals), 2 * primals[0] * tangents[0]


def test_this_jax_loses_rules_if_it_is_said_to() -> None:
    def total(w: jax.Array, x: jax.Array) -> jax.Array:
        return lax.map(lambda x: w * w * _nothing(x), x).sum()

    mixed = jax.grad(lambda x: jax.grad(total)(jnp.float32(1), x))(jnp.ones(2))
    assert (not mixed.any()) == RULES_ARE_LOST, "jaxpool._xla.lost_rules can be changed or go"
