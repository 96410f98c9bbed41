"""Calls of ops that have no sliding window: one ``jax.jit`` per settings, found by the words."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._common import Op


def call(op: Op, x: Any, where: Any, *words: Any) -> Any:
    """Run ``op`` on arrays; ``words`` are its settings as written.

    ``op.settle(op.name, *words)`` returns the settled settings, the first argument of ``op.body``.
    """
    try:
        compiled = _compiled(op, *words)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        compiled = _jitted(op, op.settle(op.name, *words))
    if not isinstance(x, (jax.Array, np.ndarray)):
        x = jnp.asarray(x)
    return compiled(x, where)


@functools.lru_cache(maxsize=1024, typed=True)
def _compiled(op: Op, *words: Any) -> Callable[..., Any]:
    return _jitted(op, op.settle(op.name, *words))


@functools.lru_cache(maxsize=1024)
def _jitted(op: Op, settings: tuple[Any, ...]) -> Callable[..., Any]:
    return jax.jit(functools.partial(op.body, settings))
