"""Rules of ``jax.custom_jvp`` that JAX loses.

Before JAX 0.12, partial evaluation replaces a call of a ``custom_jvp`` function with an unknown
argument by the undecorated function. In ``lax.scan`` and ``lax.map``, values that change with the
iteration count as unknown, even those that do not depend on the differentiated input. A second
derivative then differentiates the undecorated function and ignores the rule. An example is the
derivative with respect to ``x`` of the derivative with respect to ``w`` of a scan whose body
computes ``w * f(x[i])``. The derivative of the undecorated function must therefore equal the rule.
"""

import jax

RULES_ARE_LOST = jax.__version_info__ < (0, 12)
"""Whether the installed JAX loses rules (0.10.2, 0.11.0 and 0.11.2 do, 0.12.0 does not)."""
