"""The lowerings: one algorithm a file, each with the same functions.

``why_not(geometry, reduction, dtype, winners)`` returns the reason to decline results, or winners
on CPU, or None;
``run(x, geometry, reduction)`` returns the reduction of every window;
``select(x, valid, geometry, reduction)`` returns winners and their taps, of maxima and minima.
All lowerings agree exactly, sums to the rounding of another order.
"""

from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from . import doubling, reduce_window, reshape, slices

LOWERINGS: Mapping[str, ModuleType] = MappingProxyType(
    {
        "slices": slices,
        "reshape": reshape,
        "doubling": doubling,
        "reduce_window": reduce_window,
    }
)
"""In order of preference where several accept."""
