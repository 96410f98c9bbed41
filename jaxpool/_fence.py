"""A fence between a selection and its uses, so that XLA:CPU computes it once.

The way back reads winning taps once per tap, and XLA:CPU would rather fuse the whole selection into
each of these reads than store one byte per window. It drops ``lax.optimization_barrier`` before it
fuses (jaxlib 0.10.2), but keeps a choice that is made at run time.
"""

import numpy as np
from jax import Array, lax

# Neither one of up to 254 taps, which are numbered from 0, nor the mark of an empty window, 255.
_UNUSED = np.uint8(254)


def computed_once(g: Array, taps: Array, most: int) -> tuple[Array, Array]:
    """Return cotangents and the numbers of up to ``most`` taps, both as they are, but finished."""
    if 0 in taps.shape or most > 254:
        return g, taps
    return lax.platform_dependent(g, taps, cpu=_choice, default=lambda g, taps: (g, taps))


def _choice(g: Array, taps: Array) -> tuple[Array, Array]:
    """A choice that always goes one way; only this function knows."""
    first = lax.slice(taps, (0,) * taps.ndim, (1,) * taps.ndim).reshape(())
    never = first == _UNUSED
    return lax.cond(never, lambda g, taps: (-g, taps), lambda g, taps: (g, taps), g, taps)
