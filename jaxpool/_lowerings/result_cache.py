"""Caches of results that do not keep reductions alive.

A global ``functools.lru_cache`` keeps its keys alive until it is full. A key may be a
:class:`Reduction` defined by the caller, whose functions may close over arrays. Results for a
reduction are therefore cached on that reduction, and are freed together with it.
"""

import functools
from collections.abc import Callable
from typing import Any

from ..reductions import Reduction


class CachedPerReduction:
    """A function that caches its results, as ``functools.lru_cache`` does.

    Attributes:
      shared: the cached function for calls without a :class:`Reduction`; it does not inspect its
        arguments.
    """

    def __init__(self, function: Callable[..., Any], maxsize: int, typed: bool) -> None:
        self.function = function
        self.cached = functools.lru_cache(maxsize=maxsize, typed=typed)
        self.shared = self.cached(function)
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for argument in (*args, *kwargs.values()):
            if isinstance(argument, Reduction):
                return self._cached_on(argument)(*args, **kwargs)
        return self.shared(*args, **kwargs)

    def _cached_on(self, reduction: Reduction) -> Callable[..., Any]:
        existing = reduction.cached_results.get(self)
        return existing or reduction.cached_results.setdefault(self, self.cached(self.function))


def cached_per_reduction(
    maxsize: int, typed: bool = False
) -> Callable[[Callable[..., Any]], CachedPerReduction]:
    """Decorate a function to cache its results.

    At most ``maxsize`` results are cached for each reduction, and as many for calls without one.
    """
    return functools.partial(CachedPerReduction, maxsize=maxsize, typed=typed)
