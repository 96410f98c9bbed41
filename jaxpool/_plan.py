"""Which lowering runs: decided from geometry, reduction and dtype, recorded with every refusal."""

import functools
from dataclasses import dataclass

import numpy as np
from jax import Array, lax

from ._errors import message, shown
from ._pick import Pick
from ._reductions import Reduction
from ._window import Geometry
from .lowerings import LOWERINGS

NAMES = ("auto", *LOWERINGS)
_REFERENCE = "reduce_window"


@dataclass(frozen=True)
class Plan:
    """The lowerings chosen for one geometry, reduction and dtype.

    Attributes:
      geometry: the windows.
      reduction: what they compute.
      cpu: name of the lowering on CPU, which finds the winning taps on every platform.
      other: name of the lowering on every other platform.
      refusals: (name, reason) of each lowering that declined.
    """

    geometry: Geometry
    reduction: Reduction
    cpu: str
    other: str
    refusals: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        lines = [f"{self.reduction.name} over {self.geometry.kernel}: {self.cpu} on CPU, "]
        lines[0] += f"{self.other} elsewhere; winners by {self.cpu}"
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
    reasons = {
        name: module.why_not(geometry, reduction, dtype) for name, module in LOWERINGS.items()
    }
    refusals = tuple((name, why) for name, why in reasons.items() if why is not None)
    accepting = [name for name, why in reasons.items() if why is None]
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
        accepting = [lowering]
    cpu = accepting[0]
    other = _REFERENCE if lowering == "auto" else cpu
    return Plan(geometry, reduction, cpu, other, refusals)


def run(plan: Plan, x: Array) -> Array:
    """Return the reduction of every window, by the lowering of the platform compiled for."""
    cpu, other = (
        functools.partial(LOWERINGS[name].run, geometry=plan.geometry, reduction=plan.reduction)
        for name in (plan.cpu, plan.other)
    )
    return cpu(x) if plan.cpu == plan.other else lax.platform_dependent(x, cpu=cpu, default=other)


def select(plan: Plan, x: Array, valid: Array | None) -> Pick:
    """Return the winner of every window and the number of its tap."""
    return LOWERINGS[plan.cpu].select(x, valid, plan.geometry, plan.reduction)
