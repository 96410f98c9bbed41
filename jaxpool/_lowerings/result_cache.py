"""Caches of results that do not keep the caller's functions alive.

A global ``functools.lru_cache`` keeps its keys alive until it is full. A key may be a
:class:`Reduction` defined by the caller, whose functions may close over arrays. Results for a
reduction are therefore cached on that reduction, in its ``cached_results``, and are freed together
with it. An op of a caller's function has such a dictionary as well.
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
                return self.cached_in(argument.cached_results)(*args, **kwargs)
        return self.shared(*args, **kwargs)

    def cached_in(self, results: dict[Any, Any]) -> Callable[..., Any]:
        """Return the function that caches its results in ``results``, the caches of an object."""
        return results.get(self) or results.setdefault(self, self.cached(self.function))


def cached_per_reduction(
    maxsize: int, typed: bool = False
) -> Callable[[Callable[..., Any]], CachedPerReduction]:
    """Decorate a function to cache its results.

    At most ``maxsize`` results are cached for each reduction, and as many for calls without one.
    """
    return functools.partial(CachedPerReduction, maxsize=maxsize, typed=typed)
