"""Results that are kept for the next call.

A cache of the program keeps its keys until it is full. One key is a :class:`Reduction` that a
caller made, whose functions may close over arrays; so what is made for a reduction is kept by that
reduction, and goes with it.
"""

import functools
from collections.abc import Callable
from typing import Any

from ..reductions import Reduction


class Remembered:
    """A function whose results are kept, as by ``functools.lru_cache``.

    Attributes:
      shared: the function for arguments that are no reductions, without a look at them.
    """

    def __init__(self, function: Callable[..., Any], maxsize: int, typed: bool) -> None:
        self.function = function
        self.cached = functools.lru_cache(maxsize=maxsize, typed=typed)
        self.shared = self.cached(function)
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for argument in (*args, *kwargs.values()):
            if isinstance(argument, Reduction):
                return self._kept_by(argument)(*args, **kwargs)
        return self.shared(*args, **kwargs)

    def _kept_by(self, reduction: Reduction) -> Callable[..., Any]:
        kept = reduction.kept.get(self)
        return kept or reduction.kept.setdefault(self, self.cached(self.function))


def remembered(maxsize: int, typed: bool = False) -> Callable[[Callable[..., Any]], Remembered]:
    """Decorate a function: at most ``maxsize`` results are kept, for each reduction and besides."""
    return functools.partial(Remembered, maxsize=maxsize, typed=typed)
