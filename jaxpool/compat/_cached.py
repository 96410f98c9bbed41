"""A cache for functions that canonicalize the arguments of a caller."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Canonical = TypeVar("Canonical")


def cached(canonicalize: Callable[..., Canonical]) -> Callable[..., Canonical]:
    """Cache ``canonicalize`` for arguments that are ints, strings, None, or tuples of these.

    Other arguments are canonicalized in every call. 1, 1.0 and True are equal as keys of a cache,
    but not as arguments.
    """
    with_cache = functools.lru_cache(maxsize=1024)(canonicalize)

    @functools.wraps(canonicalize)
    def canonicalized(*arguments: Any) -> Canonical:
        return (with_cache if _is_cacheable(arguments) else canonicalize)(*arguments)

    return canonicalized


def _is_cacheable(argument: Any) -> bool:
    kind = type(argument)
    return kind in (int, str, type(None)) or (kind is tuple and all(map(_is_cacheable, argument)))
