"""The only choice that depends on the platform.

JAX keeps all branches of ``lax.platform_dependent`` in the traced program and selects one when the
program is lowered. One traced program therefore serves every platform, and an export for several.
"""

from collections.abc import Callable, Mapping
from typing import Any

from jax import lax


def by_platform(functions: Mapping[str, Callable[..., Any]], *arrays: Any) -> Any:
    """Return ``functions[platform](*arrays)`` for the platform that the program is lowered for.

    Args:
      functions: the functions for "cpu", "gpu" (cuda, rocm and any other platform) and "tpu". If
        all are equal, no branch is traced.
      arrays: the arguments of the function.
    """
    gpu = functions["gpu"]
    others = {name: functions[name] for name in ("cpu", "tpu") if functions[name] != gpu}
    return lax.platform_dependent(*arrays, **others, default=gpu) if others else gpu(*arrays)
