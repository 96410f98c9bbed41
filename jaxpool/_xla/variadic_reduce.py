"""Several results from one loop.

For jaxlib 0.10 to 0.12. XLA:CPU makes a loop for each array that it computes, and repeats in each
what they have in common; only a reduction of several operands is one loop. So the last step of a
tree of tuples is such a reduction, of two entries. It is fused with what makes the entries, and
vectorised as long as that is no ``pad`` or ``concatenate``.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from .by_platform import by_platform

Arrays = tuple[Array, ...]
Combine = Callable[[Any, Any], Any]


def variadic_combine(
    combine: Combine,
    a: Arrays,
    b: Arrays,
    identity: tuple[Any, ...],
    unordered: Combine | None = None,
) -> Any:
    """Return ``combine(a, b)``, on CPU by one loop.

    Args:
      combine: makes one tuple of two neighbours.
      a, b: the tuples, in order.
      identity: a scalar for each array.
      unordered: the same of any two tuples, if ``combine`` needs neighbours: a reduction promises
        no order.
    """

    def reduce(*both: Arrays) -> Any:
        stacks = tuple(jnp.stack(arrays) for arrays in zip(*both, strict=True))
        return lax.reduce(stacks, identity, unordered or combine, (0,))

    return by_platform({"cpu": reduce, "gpu": combine, "tpu": combine}, a, b)
