"""Several results from one loop.

XLA:CPU makes a loop for each array that it computes, and does in each anew what they have in
common; only a reduction of several operands is one loop (jaxlib 0.10.2 and 0.12). So the last step
of a tree of tuples is such a reduction, of two entries. It is fused with what makes the entries,
and vectorised as long as that is no ``pad`` or ``concatenate``.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from ._cut import tree

Arrays = tuple[Array, ...]
Combine = Callable[[Any, Any], Any]


def tree_in_one_loop(
    combine: Combine,
    parts: Sequence[Arrays],
    none: tuple[Any, ...],
    in_any_order: Combine | None = None,
) -> Any:
    """Combine tuples of arrays in balanced trees of halves, on CPU finished by one loop.

    Args:
      combine: makes one tuple of two neighbours.
      parts: the tuples, in order.
      none: the identity, a scalar for each array.
      in_any_order: the same of any two tuples, if ``combine`` needs neighbours: a reduction
        promises no order.
    """
    half = len(parts) // 2
    if not half:
        return parts[0]

    def reduce(*halves: Arrays) -> Any:
        stacks = tuple(jnp.stack(arrays) for arrays in zip(*halves, strict=True))
        return lax.reduce(stacks, none, in_any_order or combine, (0,))

    halves = [tree(combine, part) for part in (parts[:half], parts[half:])]
    return lax.platform_dependent(*halves, cpu=reduce, default=combine)
