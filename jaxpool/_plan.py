"""Which lowering runs: decided from geometry, reduction and dtype, recorded with every refusal."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import Array, lax

from ._errors import message, shown
from ._pick import Pick
from ._reductions import Reduction
from ._window import Geometry
from .lowerings import LOWERINGS
from .lowerings._order import widened

NAMES = ("auto", *LOWERINGS)
_REFERENCE = "reduce_window"


@dataclass(frozen=True)
class Plan:
    """The lowerings chosen for one geometry, reduction and dtype.

    Attributes:
      geometry: the windows.
      reduction: what they compute.
      cpu: name of the lowering on CPU, which finds the winning taps on every other platform.
      other: name of the lowering on every other platform.
      winners: name of the lowering that finds the winning taps on CPU.
      refusals: (name, reason) of each lowering that declined.
    """

    geometry: Geometry
    reduction: Reduction
    cpu: str
    other: str
    winners: str
    refusals: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        lines = [f"{self.reduction.name} over {self.geometry.kernel}: {self.cpu} on CPU, "]
        lines[0] += f"{self.other} elsewhere; winners by {self.winners}"
        lines[0] += f", by {self.cpu} elsewhere" if self.cpu != self.winners else ""
        return "\n".join(lines + [f"  not {name}: {reason}" for name, reason in self.refusals])


def check_name(op: str, lowering: object) -> str:
    """Return ``lowering`` if it is "auto" or the name of a lowering, else raise."""
    if isinstance(lowering, str) and lowering in NAMES:
        return lowering
    raise ValueError(
        message(
            op,
            f"`lowering` = {shown(lowering)} is not a lowering.",
            f"The names are {', '.join(NAMES)}.",
            'Leave it at "auto" unless you compare lowerings.',
        )
    )


@functools.lru_cache(maxsize=4096)
def plan_for(
    op: str, geometry: Geometry, reduction: Reduction, dtype: np.dtype, lowering: str = "auto"
) -> Plan:
    """Return the plan; a named lowering is taken or raises NotImplementedError with its reason."""
    reasons, declined = (
        {n: module.why_not(geometry, reduction, dtype, winners) for n, module in LOWERINGS.items()}
        for winners in (False, True)
    )
    refusals = tuple((name, why) for name, why in reasons.items() if why is not None)
    accepting, finders = ([n for n, w in r.items() if w is None] for r in (reasons, declined))
    if lowering != "auto":
        if reasons[lowering] is not None:
            raise NotImplementedError(
                message(
                    op,
                    f"lowering {lowering!r} declined.",
                    f"It says: {reasons[lowering]}.",
                    f'Use lowering="auto" (would pick {accepting[0]!r} on CPU).',
                )
            )
        accepting = finders = [lowering]
    cpu = accepting[0]
    other = _REFERENCE if lowering == "auto" else cpu
    return Plan(geometry, reduction, cpu, other, finders[0], refusals)


def run(plan: Plan, x: Array) -> Array:
    """Return the reduction of every window, by the lowering of the platform compiled for."""
    wide, reduction = widened(x, plan.reduction)
    y = _by_platform("run", plan.cpu, plan.other, plan.geometry, reduction, wide)
    return y if wide is x else y.astype(x.dtype)


def select(plan: Plan, x: Array, valid: Array | None) -> Pick:
    """Return the winner of every window and the number of its tap."""
    wide, reduction = widened(x, plan.reduction)
    values, taps = _by_platform(
        "select", plan.winners, plan.cpu, plan.geometry, reduction, wide, valid
    )
    return values.astype(x.dtype), taps


def _by_platform(
    task: str,
    on_cpu: str,
    elsewhere: str,
    geometry: Geometry,
    reduction: Reduction,
    *arrays: Array | None,
) -> Any:
    cpu, other = (
        functools.partial(getattr(LOWERINGS[name], task), geometry=geometry, reduction=reduction)
        for name in (on_cpu, elsewhere)
    )
    if on_cpu == elsewhere:
        return cpu(*arrays)
    return lax.platform_dependent(*arrays, cpu=cpu, default=other)
