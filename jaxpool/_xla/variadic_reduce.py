"""Several results from one loop.

For jaxlib 0.10 to 0.12. XLA:CPU generates one loop per result array, and recomputes common
subexpressions in each loop. Only a variadic reduction computes several arrays in one loop. The last
step of a tree reduction of tuples is therefore a variadic reduction over an axis of length two. XLA
fuses it with its operands, and vectorises it unless they contain ``pad`` or ``concatenate``.
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
      combine: a function of two neighbouring tuples of arrays that returns one tuple.
      a, b: the tuples, in order.
      identity: the identity of ``combine``, a scalar for each array.
      unordered: a function with the same result for two tuples in either order, needed if
        ``combine`` depends on the order; ``lax.reduce`` does not guarantee an order.
    """

    def reduce(*tuples: Arrays) -> Any:
        stacks = tuple(jnp.stack(arrays) for arrays in zip(*tuples, strict=True))
        return lax.reduce(stacks, identity, unordered or combine, (0,))

    return by_platform(a, b, cpu=reduce, default=combine)
