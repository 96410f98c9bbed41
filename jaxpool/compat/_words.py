"""The words of another system: settled once for each call as written, and used in errors."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

Settled = TypeVar("Settled")

_RAISED = (TypeError, ValueError, NotImplementedError)


@contextlib.contextmanager
def in_words(op: str, **names: str) -> Iterator[None]:
    """Let errors of the ops name the function and the arguments that the caller wrote.

    Args:
      op: the front end's function.
      names: the caller's name of each argument that the ops call otherwise.
    """
    try:
        yield
    except _RAISED as error:
        head, colon, rest = str(error).partition(": ")
        if type(error) not in _RAISED or not colon or "\n  " not in rest:
            raise  # not one of our messages
        for ours, theirs in names.items():
            rest = rest.replace(f"`{ours}`", f"`{theirs}`")
        raise type(error)(f"{op}: {rest}") from None


def remembered(settle: Callable[..., Settled]) -> Callable[..., Settled]:
    """Cache a function of words; of words that are not ints, strings or tuples, call it each time.

    1, 1.0 and True are equal as keys of a cache, but not as settings.
    """
    cached = functools.lru_cache(maxsize=1024)(settle)

    @functools.wraps(settle)
    def run(*words: Any) -> Settled:
        return cached(*words) if _is_plain(words) else settle(*words)

    return run


def _is_plain(word: Any) -> bool:
    kind = type(word)
    return kind in (int, str, type(None)) or (kind is tuple and all(map(_is_plain, word)))
