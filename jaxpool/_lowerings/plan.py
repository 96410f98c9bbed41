"""Which implementation computes what on which platform: decided before tracing, and printable."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from jax import Array, lax

from .._errors import message, shown
from .._geometry.resolve import Geometry
from .._xla.by_platform import by_platform
from ..reductions import Reduction
from . import IMPLEMENTATIONS
from .parts.argreduce import ValueOffset
from .parts.float_order import widened
from .remembered import remembered
from .request import PLATFORMS, Platform, Request, Verb

NAMES = ("auto", *(name for name, row in IMPLEMENTATIONS.items() if hasattr(row.module, "reduce")))


@dataclass(frozen=True)
class Choice:
    """Which implementation computes one verb; called with arrays, it does so.

    Attributes:
      verb: what is computed.
      geometry: of these windows.
      cpu, gpu, tpu: name of the implementation on each platform; gpu is cuda and rocm.
      passed_over: (platform, name, reason) of every implementation that comes before the chosen one
        and does not compute the verb, or does so more slowly.
    """

    verb: Verb
    geometry: Geometry
    cpu: str
    gpu: str
    tpu: str
    passed_over: tuple[tuple[Platform, str, str], ...] = ()

    def __call__(self, *arrays: Any, **settings: Any) -> Any:
        """Return the verb of ``arrays``, by the implementation of the platform lowered for."""
        made = {
            name: functools.partial(
                getattr(IMPLEMENTATIONS[name].module, self.verb), geometry=self.geometry, **settings
            )
            for name in (self.cpu, self.gpu, self.tpu)
        }
        return by_platform({p: made[getattr(self, p)] for p in PLATFORMS}, *arrays)

    @property
    def chosen(self) -> str:
        """The implementations in a few words."""
        names = {platform: getattr(self, platform) for platform in PLATFORMS}
        if len(set(names.values())) == 1:
            return self.cpu
        on = {name: [p for p in PLATFORMS if names[p] == name] for name in names.values()}
        return ", ".join(f"{name} on {' and '.join(platforms)}" for name, platforms in on.items())

    def lines(self) -> Iterator[str]:
        """The choice in words, and then each reason."""
        yield self.chosen
        platforms: dict[tuple[str, str], list[str]] = {}
        for platform, name, reason in self.passed_over:
            platforms.setdefault((name, reason), []).append(platform)
        for (name, reason), on in platforms.items():
            there = "" if len(on) == len(PLATFORMS) else f" on {' and '.join(on)}"
            yield f"not {name}{there}: {reason}"


@dataclass(frozen=True)
class Plan:
    """The implementations chosen for one geometry, reduction and dtype, forward and backward.

    Attributes:
      geometry: the windows.
      reduction: what they compute.
      implementation: the name that was asked for, or "auto".
      reduce: who computes the values.
      argreduce: who computes values and offsets of the argmax; None for no maximum or minimum.
      gather, scatter: who reads elements at the argmax, and the transpose; likewise.
      sum_transpose: who computes the transpose of a sum; None for another reduction.
    """

    geometry: Geometry
    reduction: Reduction
    implementation: str
    reduce: Choice
    argreduce: Choice | None
    gather: Choice | None
    scatter: Choice | None
    sum_transpose: Choice | None

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The choices of all verbs that the reduction has."""
        every = (getattr(self, verb) for verb in get_args(Verb))
        return tuple(choice for choice in every if choice is not None)

    def __str__(self) -> str:
        return "\n".join([f"{self.reduction.name} over {self.geometry.kernel}", *self.lines()])

    def lines(self) -> Iterator[str]:
        """A line for each verb, and one for each implementation that was passed over."""
        for choice in self.choices:
            for n, line in enumerate(choice.lines()):
                yield f"  {'' if n else choice.verb:14} {line}"


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


@remembered(maxsize=4096)
def plan_for(
    geometry: Geometry, reduction: Reduction, dtype: np.dtype, implementation: str = "auto"
) -> Plan:
    """Return the plan.

    A named implementation computes every verb that it supports. It raises NotImplementedError with
    its reason if it does not compute the values or the argmax.
    """
    forward = functools.partial(choice_of, reduction=reduction)
    made: dict[Verb, Callable[..., Choice]] = {"reduce": forward}
    if reduction.comparator is not None:
        made |= {"argreduce": forward, "gather": choice_of, "scatter": choice_of}
    elif reduction.combine is lax.add:
        made["sum_transpose"] = forward
    choices = {verb: make(verb, geometry, dtype, implementation) for verb, make in made.items()}
    backward = (choices.get(verb) for verb in get_args(Verb)[1:])
    return Plan(geometry, reduction, implementation, choices["reduce"], *backward)


@remembered(maxsize=4096)
def choice_of(
    verb: Verb,
    geometry: Geometry,
    dtype: np.dtype,
    implementation: str = "auto",
    any_offset: bool = False,
    reduction: Reduction | None = None,
) -> Choice:
    """Return who computes one verb, see :class:`Request` for the arguments."""
    chosen: dict[Platform, str] = {}
    passed_over: list[tuple[Platform, str, str]] = []
    for platform in PLATFORMS:
        request = Request(verb, geometry, reduction, dtype, any_offset, platform)
        chosen[platform], reasons = _chosen(request, implementation)
        passed_over.extend((platform, name, why) for name, why in reasons.items())
    return Choice(verb, geometry, **chosen, passed_over=tuple(passed_over))


def _chosen(request: Request, implementation: str) -> tuple[str, dict[str, str]]:
    """The implementation that was named, else the first listed one without a reason.

    Also the reasons of those that come before it. A named one that does not compute what the caller
    sees, values or offsets, is an error.
    """
    rows = IMPLEMENTATIONS.values()
    named = [r for r in rows if r.name == implementation and hasattr(r.module, request.verb)]
    reasons = dict[str, str]()
    for row in (*named, *(row for row in rows if row.is_listed(request))):
        why = row.reason(request, row.name == implementation)
        if why is None:
            break
        reasons[row.name] = why
    else:
        raise AssertionError(f"no implementation of {request}")
    if implementation in reasons and request.verb in ("reduce", "argreduce"):
        raise NotImplementedError(
            message(
                f"$implementation = {implementation!r} does not support these windows.",
                f"The reason: {reasons[implementation]}.",
                f'Use implementation="auto" (would take {row.name!r} on {request.platform}).',
            )
        )
    return row.name, reasons


def reduce(plan: Plan, x: Any) -> Any:
    """Return the reduction of every window."""
    wide, reduction = widened(x, plan.reduction)
    y = plan.reduce(wide, reduction=reduction)
    return y if wide is x else y.astype(x.dtype)


def sum_transpose(plan: Plan, g: Array) -> Array:
    """Return for each element the sum of the values of all windows that hold it."""
    assert plan.sum_transpose is not None
    return plan.sum_transpose(g)


def argreduce(plan: Plan, x: Array, valid: Array | None) -> ValueOffset:
    """Return the value of every window and the offset of its argmax."""
    assert plan.argreduce is not None
    wide, reduction = widened(x, plan.reduction)
    values, offsets = plan.argreduce(wide, valid, reduction=reduction)
    return values.astype(x.dtype), offsets
