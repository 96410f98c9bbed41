"""The compilation of functions that are more than one op."""

import functools
from collections.abc import Callable
from typing import Any

import jax

from .._xla.sharding_types import with_sharding_types


def compiled(*static: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function of arrays and of the ``static`` keyword arguments to compile it.

    Shardings that are part of types are those of the first array, as in an op.
    """

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        @functools.partial(jax.jit, static_argnames=static)
        @functools.wraps(body)
        def run(*arrays: Any, **options: Any) -> Any:
            return with_sharding_types(functools.partial(body, **options), *arrays)

        return run

    return decorate
