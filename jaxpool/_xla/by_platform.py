"""The one choice by platform.

JAX keeps all branches of ``lax.platform_dependent`` in the traced program and takes one when the
program is lowered, so one program serves every platform and an export for several of them.
"""

from collections.abc import Callable, Mapping
from typing import Any

from jax import lax


def by_platform(functions: Mapping[str, Callable[..., Any]], *arrays: Any) -> Any:
    """Return the result of the function of the platform that the program is lowered for.

    Args:
      functions: of "cpu", "gpu" (cuda and rocm, and any other platform) and "tpu". Equal functions
        make no choice.
      arrays: their arguments.
    """
    gpu = functions["gpu"]
    others = {name: functions[name] for name in ("cpu", "tpu") if functions[name] != gpu}
    return lax.platform_dependent(*arrays, **others, default=gpu) if others else gpu(*arrays)
