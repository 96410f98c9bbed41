"""Calls of ops that have no sliding window: their own settings are all that there are."""

from typing import Any

from ._common import Op, run


def call(op: Op, x: Any, arrays: Any, *words: Any) -> Any:
    """Run ``op`` on arrays; ``words`` are its settings as written.

    ``op.settle(op.name, *words)`` returns the settled settings, the first argument of ``op.body``.
    """
    return run(op, _settle, x, arrays, words)


def _settle(op: Op, *words: Any) -> Any:
    return op.settle(op.name, *words)
