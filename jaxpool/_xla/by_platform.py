"""The only choice that depends on the platform.

JAX keeps all branches of ``lax.platform_dependent`` in the traced program and selects one when the
program is lowered. One traced program therefore serves every platform, and an export for several.
"""

from collections.abc import Callable
from typing import Any

from jax import lax


def by_platform(*arrays: Any, default: Callable[..., Any], **functions: Callable[..., Any]) -> Any:
    """Return :func:`lax.platform_dependent`, without a branch if all functions are the same.

    Args:
      arrays: the arguments of the function.
      default: the function for cuda, rocm and all platforms without another one.
      functions: other functions, for "cpu" and "tpu".
    """
    others = {name: function for name, function in functions.items() if function != default}
    if not others:
        return default(*arrays)
    return lax.platform_dependent(*arrays, **others, default=default)
