"""A cache of canonical arguments, for arguments as a caller wrote them."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Canonical = TypeVar("Canonical")


def cached(canonicalize: Callable[..., Canonical]) -> Callable[..., Canonical]:
    """Cache a function of arguments; other than ints, strings and tuples are no keys.

    1, 1.0 and True are equal as keys of a cache, but not as arguments.
    """
    run_once = functools.lru_cache(maxsize=1024)(canonicalize)

    @functools.wraps(canonicalize)
    def run(*arguments: Any) -> Canonical:
        return (run_once if _is_plain(arguments) else canonicalize)(*arguments)

    return run


def _is_plain(argument: Any) -> bool:
    kind = type(argument)
    return kind in (int, str, type(None)) or (kind is tuple and all(map(_is_plain, argument)))
