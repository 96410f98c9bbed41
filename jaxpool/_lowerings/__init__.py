"""The computation of windows: the table of implementations that the plan chooses from.

    tuning, request     tuned constants; the request that the plan makes to an implementation
    result_cache        results that are cached with the reduction that they belong to
    parts/              building blocks of implementations
    implementations/    one file each
    ranks/, ragged/     ranks, and windows of any start and length; the plan does not choose these
    boxes               sums and maxima of the bins of boxes; the plan does not choose these
    plan                the choice for each platform

A row is a module with ``unsupported_reason(request)``, which returns None or the reason, and with
any of the operations

    reduce(x, geometry, reduction)                   the reduction of every window, ``x`` a pytree
                                                     of arrays if the reduction combines several
    argreduce(x, valid, geometry, reduction)         values and offsets of a maximum or minimum of
                                                     the valid elements; others may have any value
    gather(x, offsets, geometry)                     the elements of ``x`` at the offsets
    scatter(g, offsets, geometry, dtype)             its transpose; the caller rounds to ``dtype``
    sum_transpose(g, geometry)                       the transpose of the sum of every window

For an operation and a platform, the plan chooses the first row that lists the platform under the
operation and has no reason against the request. A module may also have ``slower_reason(request)``,
which only the plan regards. The implementation named by ``implementation=`` is used on every
platform; a row that lists no platform is used only if it is named. The reasons of a row may depend
on the platform, so a limit that was measured on one platform applies only there.

A row that lists platforms under ``codes`` returns codes in place of offsets, which only its own
``gather`` and ``scatter`` can read. The plan chooses all three or none, and only where nothing else
reads the offsets.

All implementations return equal results, except that sums may be rounded in a different order.
"""

from collections.abc import Mapping
from types import MappingProxyType

from .implementations import (
    axis_by_axis,
    axis_codes,
    blocks,
    broadcast_steps,
    doubling,
    loop,
    match_chain,
    mosaic,
    padded_slices,
    phase_pads,
    phase_stack,
    phase_stack_at_once,
    reduce_window,
    select_chain,
    separable,
    slices,
    tiled,
)
from .request import PLATFORMS, Row

_TABLE = (
    Row(axis_codes, codes=("tpu",)),
    Row(match_chain, argreduce=("tpu",)),
    Row(phase_pads, scatter=("tpu",)),
    Row(select_chain, argreduce=("gpu",)),
    Row(phase_stack, scatter=("gpu",)),
    Row(phase_stack_at_once, scatter=("gpu",)),
    Row(
        slices,
        reduce=("cpu",),
        argreduce=("cpu", "tpu"),
        gather=PLATFORMS,
        scatter=PLATFORMS,
        collapses=("reduce", "argreduce"),
    ),
    Row(tiled, reduce=("cpu", "gpu"), argreduce=PLATFORMS, scatter=("cpu",)),
    Row(blocks, reduce=("cpu", "gpu"), argreduce=("cpu", "gpu"), sum_transpose=("cpu", "gpu")),
    Row(
        doubling,
        reduce=PLATFORMS,
        argreduce=PLATFORMS,
        gather=PLATFORMS,
        scatter=("cpu",),
        collapses=("reduce", "argreduce", "gather", "scatter"),
    ),
    Row(broadcast_steps, sum_transpose=PLATFORMS),
    Row(padded_slices, sum_transpose=("cpu",)),
    Row(axis_by_axis, sum_transpose=PLATFORMS),
    Row(loop, gather=PLATFORMS, scatter=PLATFORMS),
    Row(
        separable,
        reduce=("gpu", "tpu"),
        argreduce=("gpu",),
        sum_transpose=("gpu", "tpu"),
        shifts=("reduce", "sum_transpose"),
    ),
    Row(
        reduce_window,
        reduce=PLATFORMS,
        argreduce=PLATFORMS,
        sum_transpose=("gpu", "tpu"),
        shifts=("reduce", "sum_transpose"),
    ),
    Row(mosaic),
)

IMPLEMENTATIONS: Mapping[str, Row] = MappingProxyType({row.name: row for row in _TABLE})
"""By name, in order of preference."""
