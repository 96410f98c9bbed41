"""How windows are computed: the table of implementations that the plan chooses from.

    tuning, request     tuned constants; what the plan asks of an implementation
    parts/              what implementations are made of
    implementations/    one file each
    ranks/, ragged/     ranks, and windows of any start and length: no choice of the plan
    boxes               sums and maxima of the bins of boxes: likewise
    plan                the choice for each platform

A row is a module that has ``unsupported_reason(request)``, None or the reason, and any of the verbs

    reduce(x, geometry, reduction)                   the reduction of every window, ``x`` a pytree
                                                     of arrays if the reduction combines several
    argreduce(x, valid, geometry, reduction)         values and offsets of a maximum or minimum
    gather(x, offsets, geometry)                     the elements of ``x`` at the offsets
    scatter(g, offsets, geometry, dtype)             its transpose; the caller rounds to ``dtype``
    sum_transpose(g, geometry)                       the transpose of the sum of every window

For a verb and a platform, the plan takes the first row that lists the platform under the verb and
has no reason against the request; ``slower_reason(request)``, where a module has it, is a reason
for the plan alone. A name given as ``implementation=`` is taken on every platform.
A row that lists no platform is taken by its name alone.
A row may give other reasons on other platforms, so a limit that was measured on one is its own.
All implementations agree exactly, sums to the rounding of another order.
"""

from collections.abc import Mapping
from types import MappingProxyType

from .implementations import (
    axis_by_axis,
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
from .request import PLATFORMS, Platform, Row

_CPU: tuple[Platform, ...] = ("cpu",)
_GPU: tuple[Platform, ...] = ("gpu",)
_TPU: tuple[Platform, ...] = ("tpu",)
_TABLE = (
    Row(match_chain, argreduce=_TPU),
    Row(phase_pads, scatter=_TPU),
    Row(select_chain, argreduce=_GPU),
    Row(phase_stack, scatter=_GPU),
    Row(phase_stack_at_once, scatter=_GPU),
    Row(slices, reduce=_CPU, argreduce=PLATFORMS, gather=PLATFORMS, scatter=PLATFORMS),
    Row(tiled, reduce=_CPU, argreduce=PLATFORMS, scatter=PLATFORMS),
    Row(doubling, reduce=PLATFORMS, argreduce=PLATFORMS, gather=PLATFORMS, scatter=PLATFORMS),
    Row(broadcast_steps, sum_transpose=(*_GPU, *_TPU)),
    Row(padded_slices, sum_transpose=_CPU),
    Row(axis_by_axis, sum_transpose=PLATFORMS),
    Row(loop, gather=PLATFORMS, scatter=PLATFORMS),
    Row(separable, reduce=(*_GPU, *_TPU), argreduce=_GPU, sum_transpose=(*_GPU, *_TPU)),
    Row(reduce_window, reduce=PLATFORMS, argreduce=PLATFORMS, sum_transpose=PLATFORMS),
    Row(mosaic),
)

IMPLEMENTATIONS: Mapping[str, Row] = MappingProxyType({row.name: row for row in _TABLE})
"""By name, in order of preference."""
