"""Errors of the ops, in the words of another system."""

import contextlib
from collections.abc import Iterator

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
