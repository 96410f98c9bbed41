"""The choice of an implementation for each operation and platform, made before tracing."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

import jax
import numpy as np
from jax import Array, lax

from .._errors import message, shown
from .._geometry.resolve import Geometry
from .._xla.by_platform import by_platform
from ..reductions import Reduction
from . import IMPLEMENTATIONS
from .parts.argreduce import ValueOffset
from .parts.collapsed import row_length, with_short_rows_collapsed
from .parts.float_order import to_native_dtype
from .parts.shifted_rows import are_shifted, with_rows_shifted
from .request import PLATFORMS, Operation, Platform, Request
from .result_cache import cached_per_reduction

SELECTED: tuple[Operation, ...] = ("argreduce", "gather", "scatter")
"""The operations of a selection whose offsets are read by no one else, see :attr:`Plan.coded`."""

NAMES = ("auto", *(name for name, row in IMPLEMENTATIONS.items() if hasattr(row.module, "reduce")))


@dataclass(frozen=True)
class Choice:
    """The implementations chosen for one operation; calling the choice computes the operation.

    Attributes:
      operation: the operation to compute.
      geometry: the windows.
      cpu, gpu, tpu: name of the implementation on each platform; gpu is cuda and rocm.
      rejected: (platform, name, reason) of every implementation that precedes the chosen one and
        does not compute the operation, or computes it more slowly.
      collapses: whether CPU collapses the last pooled axis with few channels after it.
      shifts: whether TPU sums short rows from shifted arrays where columns lie along tiles.
    """

    operation: Operation
    geometry: Geometry
    cpu: str
    gpu: str
    tpu: str
    rejected: tuple[tuple[Platform, str, str], ...] = ()
    collapses: bool = False
    shifts: bool = False

    def __call__(self, *arrays: Any, **settings: Any) -> Any:
        """Compute the operation by the implementation of the platform that is lowered for."""
        functions = {
            name: functools.partial(
                getattr(IMPLEMENTATIONS[name].module, self.operation),
                geometry=self.geometry,
                **settings,
            )
            for name in (self.cpu, self.gpu, self.tpu)
        }
        cpu, gpu, tpu = functions[self.cpu], functions[self.gpu], functions[self.tpu]
        shape = jax.tree.leaves(arrays)[0].shape
        if self.collapses:
            cpu = with_short_rows_collapsed(cpu, self.geometry, shape)
        if self.shifts:
            tpu = with_rows_shifted(tpu, self.operation, self.geometry, shape)
        return by_platform(*arrays, cpu=cpu, tpu=tpu, default=gpu)

    @property
    def summary(self) -> str:
        """The chosen implementations as text: "tiled on cpu, doubling on gpu and tpu"."""
        names = {platform: getattr(self, platform) for platform in PLATFORMS}
        if len(set(names.values())) == 1:
            return self.cpu
        uses = {name: [p for p in PLATFORMS if names[p] == name] for name in names.values()}
        return ", ".join(f"{name} on {' and '.join(platforms)}" for name, platforms in uses.items())

    def lines(self, shape: tuple[int, ...] | None = None) -> Iterator[str]:
        """Yield the choice as text, and then one line for each distinct name and reason.

        For an array of a known ``shape``, also yield which of its axes are computed otherwise.
        """
        yield self.summary
        if shape is not None:
            yield from self._notes(shape)
        grouped: dict[tuple[str, str], list[str]] = {}
        for platform, name, reason in self.rejected:
            grouped.setdefault((name, reason), []).append(platform)
        for (name, reason), platforms in grouped.items():
            suffix = "" if len(platforms) == len(PLATFORMS) else f" on {' and '.join(platforms)}"
            yield f"not {name}{suffix}: {reason}"

    def _notes(self, shape: tuple[int, ...]) -> Iterator[str]:
        """Yield which axes of an array of ``shape`` are computed otherwise."""
        if self.operation in ("scatter", "sum_transpose"):  # these read an array of windows
            shape = self.geometry.full_shape(shape)
        if self.collapses and (row := row_length(self.geometry, shape)) > 1:
            yield f"on cpu, the {row} elements after the last pooled axis are collapsed with it"
        if self.shifts and are_shifted(self.geometry, shape):
            yield "on tpu, shifted arrays are added along the last pooled axis, before the others"


@dataclass(frozen=True)
class Plan:
    """The implementations chosen for one geometry, reduction and dtype, forward and backward.

    Attributes:
      geometry: the windows.
      reduction: the reduction of the windows.
      implementation: the requested name, or "auto".
      reduce: the choice for the values.
      argreduce: the choice for values and offsets of the argmax; None unless the reduction is a
        selection.
      gather, scatter: the choices for reading elements at the argmax, and for its transpose; None
        unless the reduction is a selection.
      sum_transpose: the choice for the transpose of a sum; None for other reductions.
      coded: the choices for argreduce, gather and scatter if nothing else reads the offsets; empty
        unless the reduction is a selection.
    """

    geometry: Geometry
    reduction: Reduction
    implementation: str
    reduce: Choice
    argreduce: Choice | None = None
    gather: Choice | None = None
    scatter: Choice | None = None
    sum_transpose: Choice | None = None
    coded: tuple[Choice, ...] = ()

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The choices that are not None."""
        every = (getattr(self, name) for name in get_args(Operation))
        return tuple(choice for choice in every if choice is not None)

    def __str__(self) -> str:
        return "\n".join([f"{self.reduction.name} over {self.geometry.kernel}", *self.lines()])

    def lines(self, shape: tuple[int, ...] | None = None) -> Iterator[str]:
        """Yield the lines of every choice, for an array of ``shape`` if it is known."""
        for choice in self.choices:
            for n, line in enumerate(choice.lines(shape)):
                yield f"  {'' if n else choice.operation:14} {line}"
            for coded in self.coded:
                if coded.operation == choice.operation and coded.summary != choice.summary:
                    yield f"  {'':14} without indices: {coded.summary}"


def check_name(implementation: object) -> str:
    """Return ``implementation`` if it is "auto" or the name of an implementation, else raise."""
    if isinstance(implementation, str) and implementation in NAMES:
        return implementation
    raise ValueError(
        message(
            f"$implementation = {shown(implementation)} is not an implementation.",
            f"The names are {', '.join(NAMES)}.",
            'Leave it at "auto" unless you compare implementations.',
        )
    )


@cached_per_reduction(maxsize=4096)
def plan_for(
    geometry: Geometry, reduction: Reduction, dtype: np.dtype, implementation: str = "auto"
) -> Plan:
    """Return the plan for ``reduction`` over ``geometry`` of an array of ``dtype``.

    A named implementation computes every operation that it supports. Raise NotImplementedError with
    its reason if it does not support the values or the argmax.
    """
    settings = {"geometry": geometry, "dtype": dtype, "implementation": implementation}
    at_offsets = functools.partial(choice_of, **settings)
    reducing = functools.partial(choice_of, **settings, reduction=reduction)
    plan = functools.partial(Plan, geometry, reduction, implementation, reducing("reduce"))
    if reduction.comparator is None:
        is_sum = reduction.combine is lax.add
        return plan(sum_transpose=reducing("sum_transpose") if is_sum else None)
    codes = implementation == "auto"  # a named implementation finds offsets, not codes
    coded = tuple(reducing(operation, codes=codes) for operation in SELECTED)
    return plan(reducing("argreduce"), at_offsets("gather"), at_offsets("scatter"), coded=coded)


@cached_per_reduction(maxsize=4096)
def choice_of(
    operation: Operation,
    geometry: Geometry,
    dtype: np.dtype,
    implementation: str = "auto",
    any_offset: bool = False,
    reduction: Reduction | None = None,
    codes: bool = False,
) -> Choice:
    """Return the choice for one operation; see :class:`Request` for the arguments."""
    names: dict[Platform, str] = {}
    rejected: list[tuple[Platform, str, str]] = []
    for platform in PLATFORMS:
        request = Request(operation, geometry, reduction, dtype, any_offset, platform, codes)
        names[platform], reasons = _choose(request, implementation)
        rejected.extend((platform, name, reason) for name, reason in reasons.items())
    is_extreme = reduction is None or reduction.comparator is not None
    collapses = (
        is_extreme and not any_offset and operation in IMPLEMENTATIONS[names["cpu"]].collapses
    )
    is_sum = reduction is not None and reduction.combine is lax.add
    shifts = (
        is_sum and implementation == "auto" and operation in IMPLEMENTATIONS[names["tpu"]].shifts
    )
    return Choice(
        operation, geometry, **names, rejected=tuple(rejected), collapses=collapses, shifts=shifts
    )


def _choose(request: Request, implementation: str) -> tuple[str, dict[str, str]]:
    """Return the name of the chosen implementation, and the reasons against those before it.

    Choose the named implementation if it supports the request, else the first listed one without a
    reason. Raise NotImplementedError if the named one does not support ``reduce`` or ``argreduce``,
    whose results the caller sees.
    """
    rows = IMPLEMENTATIONS.values()
    named = [r for r in rows if r.name == implementation and hasattr(r.module, request.operation)]
    reasons = dict[str, str]()
    for row in (*named, *(row for row in rows if row.is_listed(request))):
        reason = row.reason(request, row.name == implementation)
        if reason is None:
            break
        reasons[row.name] = reason
    else:
        raise AssertionError(f"no implementation of {request}")
    if implementation in reasons and request.operation in ("reduce", "argreduce"):
        raise NotImplementedError(
            message(
                f"$implementation = {implementation!r} does not support these windows.",
                f"The reason: {reasons[implementation]}.",
                f'Use implementation="auto" (would choose {row.name!r} on {request.platform}).',
            )
        )
    return row.name, reasons


def reduce(plan: Plan, x: Any) -> Any:
    """Return the reduction of every window, in the dtype of ``x``."""
    promoted, reduction = to_native_dtype(x, plan.reduction)
    y = plan.reduce(promoted, reduction=reduction)
    return y if promoted is x else y.astype(x.dtype)


def sum_transpose(plan: Plan, g: Array) -> Array:
    """Return, for each element, the sum of the values in ``g`` of all windows that contain it."""
    assert plan.sum_transpose is not None
    return plan.sum_transpose(g)


def argreduce(plan: Plan, x: Array, valid: Array | None, codes: bool = False) -> ValueOffset:
    """Return the value of every window, in the dtype of ``x``, and the offset of its argmax.

    Elements that are not ``valid`` may have any value.

    ``codes``: whether to return codes that ``plan.coded`` reads, in place of offsets.
    """
    choice = plan.coded[0] if codes else plan.argreduce
    assert choice is not None
    promoted, reduction = to_native_dtype(x, plan.reduction)
    values, offsets = choice(promoted, valid, reduction=reduction)
    return values.astype(x.dtype), offsets
