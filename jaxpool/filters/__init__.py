"""Filters over the neighbourhood of every element, with the interface of ``scipy.ndimage``.

Each filter accepts the arguments of the scipy function of the same name (``size``, ``footprint``,
``structure``, ``mode``, ``cval``, ``origin``, ``axes``) and returns the same results, exact to the
last place for float32 and integers. It also supports ``jit``, ``vmap`` and ``grad`` of any order,
on any backend, in low-precision floats, and over batch axes: ``axes`` selects the filtered axes.

Differences from scipy:

* ``output`` and ``brute_force`` do not exist, and settings that scipy lists after ``output`` are
  keyword-only;
* contradictory arguments (``size`` together with ``footprint``) are an error, not a warning;
* a binary structure without a True is an error;
* sizes, origins, footprints and structures follow the order of ``axes`` in every filter. In scipy,
  footprints and structures follow the order of the axes of the array; in the rank filters,
  ``generic_filter`` and the binary filters, sizes and origins do so too;
* each axis may have a different mode in every filter. Scipy does not allow this with a footprint or
  in the rank filters;
* rank filters ignore the elements at the holes of a footprint in arrays of one axis as well. Scipy
  computes other ranks for windows at least as long as such an array;
* integers of 64 bits are exact, and results of ``generic_filter`` that exceed the range of integers
  are clipped to it; scipy computes the former in float64, and leaves the latter undefined;
* NaN propagates where its effect in scipy is undefined;
* ``cval`` is converted to the dtype of the array: for integers it is truncated and clipped to their
  range. In ``uniform_filter``, scipy adds it as a float;
* every tap of a ``structure`` is added to integers as an integer that wraps. Scipy adds the first
  tap in float64;
* a bool array and a ``structure`` are added as int32, and every extremum except 0 is True. Scipy
  adds them as bytes without a sign, and stores numbers such as 2 and 255 in its array of bools;
* the origin of a window of one tap is checked like any other origin.
"""

from typing import TYPE_CHECKING

from .._errors.missing_names import getter as _getter
from ._alternatives import hint as _hint
from .binary import binary_closing, binary_dilation, binary_erosion, binary_opening
from .generic import generic_filter
from .max_min import maximum_filter, maximum_filter1d, minimum_filter, minimum_filter1d
from .morphology import grey_closing, grey_dilation, grey_erosion, grey_opening
from .ranks import median_filter, percentile_filter, rank_filter
from .residues import black_tophat, morphological_gradient, morphological_laplace, white_tophat
from .uniform import uniform_filter, uniform_filter1d

__all__ = [
    "binary_closing",
    "binary_dilation",
    "binary_erosion",
    "binary_opening",
    "black_tophat",
    "generic_filter",
    "grey_closing",
    "grey_dilation",
    "grey_erosion",
    "grey_opening",
    "maximum_filter",
    "maximum_filter1d",
    "median_filter",
    "minimum_filter",
    "minimum_filter1d",
    "morphological_gradient",
    "morphological_laplace",
    "percentile_filter",
    "rank_filter",
    "uniform_filter",
    "uniform_filter1d",
    "white_tophat",
]


def __dir__() -> list[str]:
    return list(__all__)


if not TYPE_CHECKING:  # or a type checker would accept every name
    __getattr__ = _getter(__name__, _hint)
