"""As :mod:`.phase_stack`, in one step: for XLA:GPU and offsets that are no argmax.

Steps along one axis after the other add up values of windows that agree about the other axes, as
windows with the same argmax do. Of any offsets, all terms of an element are added at once.
"""

import numpy as np
from jax import Array

from ..._geometry.resolve import Geometry
from .. import tuning
from ..parts import phase_sums
from ..request import Request
from .phase_stack import summed


def unsupported_reason(request: Request) -> str | None:
    """Return why one step does not compute what is asked, or None."""
    taps, most = request.geometry.taps, tuning.MOST_TERMS_AT_ANY_OFFSET_ON_GPU
    return f"windows of {taps} elements; one step pays up to {most}" if taps > most else None


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return the sum, for each element, of the values of the windows whose offset names it."""
    return phase_sums.scatter(g, offsets, geometry, dtype, summed, geometry.taps)
