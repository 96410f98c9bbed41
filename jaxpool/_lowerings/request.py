"""What the plan asks of an implementation, and a row of the table of implementations."""

from types import ModuleType
from typing import Literal, NamedTuple

import numpy as np
from jax import lax

from .._geometry.resolve import Geometry
from ..reductions import Reduction

Verb = Literal["reduce", "argreduce", "gather", "scatter", "sum_transpose"]
Platform = Literal["cpu", "gpu", "tpu"]
PLATFORMS: tuple[Platform, ...] = ("cpu", "gpu", "tpu")


def has_rule(reduction: Reduction) -> bool:
    """Whether the derivative is a rule, of a selection or a sum, and not that of ``combine``."""
    return reduction.comparator is not None or reduction.combine is lax.add


class Request(NamedTuple):
    """One task on one platform.

    Attributes:
      verb: what to compute.
      geometry: the windows.
      reduction: of ``reduce`` and ``argreduce``, else None.
      dtype: of the array; of a pytree of arrays, of the first.
      any_offset: of ``gather`` and ``scatter``, whether offsets may be others than an argmax.
      platform: that the program is lowered for.
    """

    verb: Verb
    geometry: Geometry
    reduction: Reduction | None
    dtype: np.dtype
    any_offset: bool
    platform: Platform

    @property
    def disagreement(self) -> str | None:
        """Why offsets cannot be taken apart, a smaller window at a time, or None."""
        if self.any_offset and not self.geometry.is_non_overlapping:
            return "windows that overlap may disagree about offsets that are no argmax"
        return None


class Row(NamedTuple):
    """An implementation and, for each verb, the platforms on which the plan may choose it."""

    module: ModuleType
    reduce: tuple[Platform, ...] = ()
    argreduce: tuple[Platform, ...] = ()
    gather: tuple[Platform, ...] = ()
    scatter: tuple[Platform, ...] = ()
    sum_transpose: tuple[Platform, ...] = ()

    @property
    def name(self) -> str:
        """The name of the implementation: that of its file."""
        return self.module.__name__.rpartition(".")[2]

    def is_listed(self, request: Request) -> bool:
        """Whether the plan may choose it for the verb on the platform."""
        return request.platform in getattr(self, request.verb)

    def reason(self, request: Request, is_named: bool) -> str | None:
        """Why it does not compute what is asked or, unless it is named, is slower; or None."""
        unsupported = self.module.unsupported_reason(request)
        slower = getattr(self.module, "slower_reason", None)
        if unsupported is not None or is_named or slower is None:
            return unsupported
        return slower(request)
