"""The facts for a bug report: versions, devices, the plan on this machine, known problems."""

import platform
from collections.abc import Iterable, Iterator
from importlib.metadata import version as version_of
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._lowerings.plan import Choice
from .._lowerings.request import Platform
from .._xla.lost_rules import RULES_ARE_LOST
from .._xla.materialize import BARRIER_HOLDS
from .axes import row
from .explain import explain

OLDEST = (0, 10, 2)
"""The oldest supported version of jax, as in pyproject.toml."""

SHAPE = (8, 112, 112, 64)
CASES: tuple[tuple[str, Any, Any], ...] = (
    ("max_pool", (2, 2), 2),
    ("max_pool", (3, 3), 2),
    ("max_pool", (13, 13), 1),
    ("avg_pool", (3, 3), 2),
)
"""The ops, windows and strides whose plans are shown, one of each kind."""


def doctor(version: str) -> Iterator[str]:
    """Yield the lines of the report.

    Args:
      version: the version of jaxpool.
    """
    yield row("jaxpool", version)
    yield row("jax", f"{jax.__version__}, jaxlib {version_of('jaxlib')}")
    yield row("numpy", np.__version__)
    yield row("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield row("64 bits", "on" if jnp.result_type(float) == jnp.float64 else "off (jax_enable_x64)")
    try:
        devices = _devices()
    except RuntimeError as error:  # a driver that does not start
        yield row("devices", f"none: {' '.join(str(error).split())}")
    else:
        yield from _rows("devices", devices)
        yield from _plans(platform_here())
    yield from _rows("problems", list(_problems(jax.__version_info__)) or ["none known"])


def platform_here() -> Platform:
    """Return the platform whose plan applies on this machine; "gpu" for an unknown backend."""
    backend = jax.default_backend()
    return backend if backend in ("cpu", "tpu") else "gpu"


def _rows(name: str, lines: list[str]) -> Iterator[str]:
    return (row("" if n else name, line) for n, line in enumerate(lines))


def _devices() -> list[str]:
    kinds = [f"{device.platform}: {device.device_kind}" for device in jax.devices()]
    processes = f" in {jax.process_count()} processes" if jax.process_count() > 1 else ""
    return [f"{kinds.count(kind)} {kind}{processes}" for kind in dict.fromkeys(kinds)]


def _plans(target: Platform) -> Iterator[str]:
    yield row("plan", f"on {target}, for float32 {SHAPE}, channels last")
    for case in CASES:
        yield from _plan_lines(target, *case)


def _plan_lines(target: Platform, op: str, window: Any, strides: Any) -> Iterator[str]:
    choices = explain(SHAPE, window, strides, op=op).plan.choices
    yield row("", f"{op} {window} by {strides}")
    yield row("", "  " + ", ".join(f"{c.operation} {getattr(c, target)}" for c in choices))
    for name, why in dict.fromkeys(_reasons(target, choices)):
        operations = [c.operation for c in choices if (name, why) in _reasons(target, [c])]
        yield row("", f"  not {name} for {', '.join(operations)}: {why}")


def _reasons(target: Platform, choices: Iterable[Choice]) -> Iterator[tuple[str, str]]:
    """Yield the implementations that were rejected on a platform, with the reasons."""
    reasons = (reason for choice in choices for reason in choice.rejected)
    return ((name, why) for p, name, why in reasons if p == target)


def _problems(version: tuple[int, ...]) -> Iterator[str]:
    """Yield the known problems of a version of jax, and their effects on jaxpool."""
    if version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        yield f"jax is older than {oldest}, the oldest that jaxpool is tested with"
    if RULES_ARE_LOST:
        yield "jax before 0.12 loses rules of jax.custom_jvp in derivatives of derivatives through"
        yield "  jax.lax.scan: jaxpool keeps its own, yours may be lost"
    if not BARRIER_HOLDS:
        yield "jaxlib before 0.11.1 drops optimization barriers on CPU: jaxpool works without them"
