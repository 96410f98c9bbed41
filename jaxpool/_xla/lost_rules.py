"""Rules of ``jax.custom_jvp`` that JAX loses.

Before JAX 0.12, partial evaluation replaces a call of a ``custom_jvp`` whose arguments are known by
its plain function. A derivative of a derivative through ``lax.scan`` or ``lax.map`` then uses the
derivative of that function and not the rule: for example, the derivative in ``x`` of a derivative
in ``w`` of a scan whose body computes ``w * f(x[i])``. So the function must have the derivative of
the rule by itself.
"""

import jax

RULES_ARE_LOST = jax.__version_info__ < (0, 12)
"""Whether this JAX loses rules (0.10.2, 0.11.0 and 0.11.2 do, 0.12.0 does not)."""
