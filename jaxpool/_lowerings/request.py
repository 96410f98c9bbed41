"""The request that the plan makes to an implementation, and a row of the implementation table."""

from types import ModuleType
from typing import Literal, NamedTuple, get_args

import numpy as np
from jax import lax

from .._geometry.resolve import Geometry
from ..reductions import Reduction

Operation = Literal["reduce", "argreduce", "gather", "scatter", "sum_transpose"]
Platform = Literal["cpu", "gpu", "tpu"]
PLATFORMS: tuple[Platform, ...] = get_args(Platform)

READ_ONCE = "windows do not overlap, so each element is read once"
"""The reason against implementations that save reads of overlapping windows."""
MATCH_MAY_DIFFER = "an element may match the extreme and differ from it"
"""The reason against implementations that find an argmax by comparing elements with the extreme."""


def has_rule(reduction: Reduction) -> bool:
    """Return whether jaxpool differentiates ``reduction`` by its own rule for selections or sums.

    Otherwise JAX differentiates through ``combine``.
    """
    return reduction.comparator is not None or reduction.combine is lax.add


class Request(NamedTuple):
    """One operation to compute on one platform.

    Attributes:
      operation: the operation to compute.
      geometry: the windows.
      reduction: the reduction; it may be None for ``gather`` and ``scatter``.
      dtype: dtype of the array; for a pytree of arrays, dtype of the first.
      any_offset: for ``gather`` and ``scatter``, whether offsets may differ from the argmax.
      platform: the platform that the program is lowered for.
      codes: whether codes may take the place of offsets, since only ``gather`` and ``scatter`` read
        them.
    """

    operation: Operation
    geometry: Geometry
    reduction: Reduction | None
    dtype: np.dtype
    any_offset: bool
    platform: Platform
    codes: bool = False

    @property
    def window_rank(self) -> int:
        """The number of axes along which a window has several elements."""
        return sum(count > 1 for count in self.geometry.kernel)

    @property
    def row_kernel(self) -> int:
        """The number of elements of a window along the contiguous axis; 1 if it is not pooled."""
        return next((axis.kernel for axis, position in self.geometry.placed if position == -1), 1)

    @property
    def windows_adjoin(self) -> bool:
        """Whether windows adjoin along every axis, or there is one: each element is read once."""
        return all(axis.out == 1 or axis.stride == axis.span for axis in self.geometry.axes)

    @property
    def tiles_need_copy(self) -> bool:
        """Whether tiles need a padded or cropped copy, as they do not end where the array ends."""
        return any(axis.pad_low or axis.overshoot for axis in self.geometry.axes)

    @property
    def unsplittable_reason(self) -> str | None:
        """The reason why a long window cannot be split into smaller windows by offset, or None."""
        if self.any_offset and not self.geometry.is_non_overlapping:
            return "overlapping windows may disagree about offsets that are not an argmax"
        return None


class Row(NamedTuple):
    """An implementation and, for each operation, the platforms on which the plan may choose it.

    ``codes`` are the platforms for an argmax whose codes take the place of offsets, its gather and
    its scatter. ``collapses`` are the operations of extremes for which CPU collapses the last
    pooled axis with the few elements that may follow. ``shifts`` are those for which TPU may sum
    rows from shifted arrays, before the other axes.
    """

    module: ModuleType
    reduce: tuple[Platform, ...] = ()
    argreduce: tuple[Platform, ...] = ()
    gather: tuple[Platform, ...] = ()
    scatter: tuple[Platform, ...] = ()
    sum_transpose: tuple[Platform, ...] = ()
    codes: tuple[Platform, ...] = ()
    collapses: tuple[Operation, ...] = ()
    shifts: tuple[Operation, ...] = ()

    @property
    def name(self) -> str:
        """The name of the implementation, which is the name of its file."""
        return self.module.__name__.rpartition(".")[2]

    def is_listed(self, request: Request) -> bool:
        """Return whether the plan may choose the implementation for this operation and platform."""
        listed = getattr(self, request.operation) + (self.codes if request.codes else ())
        return request.platform in listed

    def reason(self, request: Request, is_named: bool) -> str | None:
        """Return why the implementation is rejected, or None.

        A named implementation is rejected only if it does not support the request, any other
        also if it is slower.
        """
        unsupported = self.module.unsupported_reason(request)
        slower = getattr(self.module, "slower_reason", None)
        if unsupported is not None or is_named or slower is None:
            return unsupported
        return slower(request)
