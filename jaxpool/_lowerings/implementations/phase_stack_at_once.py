"""Transpose gathers as :mod:`.phase_stack` does, in one step: for XLA:GPU and any offsets.

Steps along one axis after another add values of windows whose offsets agree along the other axes,
as those of windows with the same argmax do. For any other offsets, one step adds all terms of an
element.
"""

import numpy as np
from jax import Array

from ..._geometry.resolve import Geometry
from .. import tuning
from ..parts import phase_sums
from ..request import Request
from .phase_stack import sum_phases


def unsupported_reason(request: Request) -> str | None:
    """Return why a single step does not support ``request``, or None."""
    taps, limit = request.geometry.taps, tuning.MAX_TERMS_AT_ANY_OFFSET_ON_GPU
    return f"windows of {taps} elements; one step is faster up to {limit}" if taps > limit else None


def scatter(g: Array, offsets: Array, geometry: Geometry, dtype: np.dtype) -> Array:
    """Return, for each element, the sum of the values of the windows whose offset selects it."""
    return phase_sums.scatter(g, offsets, geometry, dtype, sum_phases, geometry.taps)
