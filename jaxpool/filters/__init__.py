"""Filters over the neighbourhood of every element, in the words of ``scipy.ndimage``.

Each takes the arguments of its namesake there (``size``, ``footprint``, ``structure``, ``mode``,
``cval``, ``origin``, ``axes``) and has its results, to the last place of float32 and of integers.
In addition each runs under ``jit``, ``vmap`` and ``grad`` of any order, on any backend, in narrow
floats, and over any batch axes: ``axes`` says which axes are filtered.

What differs:

* there is no ``output`` and no ``brute_force``, and settings after ``footprint`` or ``structure``
  are given by name;
* a contradiction (``size`` beside ``footprint``) is an error and not a warning;
* a binary structure that holds no True is refused;
* sizes, origins, footprints and structures follow the order of ``axes`` in every filter; scipy
  takes footprints and structures in the order of the array, and in ranks, ``generic_filter`` and
  binary filters sizes and origins, too;
* each axis may have a mode of its own in every filter; scipy refuses it with a footprint and in
  ranks;
* ranks leave out the holes of a footprint in arrays of one axis, too; scipy's ranks of windows
  longer than such an array are others;
* where scipy leaves NaN undefined, it propagates;
* a ``cval`` that an integer dtype does not hold is cut to its range;
* to integers every tap of a ``structure`` is added as an integer that wraps (scipy adds that of the
  first tap in float64);
* the origin of a window of one tap is checked as those of others are.
"""

from typing import TYPE_CHECKING, Any

from .._errors import no_attribute as _no_attribute
from ._elsewhere import hint as _hint
from .binary import binary_closing as binary_closing
from .binary import binary_dilation as binary_dilation
from .binary import binary_erosion as binary_erosion
from .binary import binary_opening as binary_opening
from .contrast import black_tophat as black_tophat
from .contrast import morphological_gradient as morphological_gradient
from .contrast import morphological_laplace as morphological_laplace
from .contrast import white_tophat as white_tophat
from .generic import generic_filter as generic_filter
from .max_min import maximum_filter as maximum_filter
from .max_min import maximum_filter1d as maximum_filter1d
from .max_min import minimum_filter as minimum_filter
from .max_min import minimum_filter1d as minimum_filter1d
from .morphology import grey_closing as grey_closing
from .morphology import grey_dilation as grey_dilation
from .morphology import grey_erosion as grey_erosion
from .morphology import grey_opening as grey_opening
from .ranks import median_filter as median_filter
from .ranks import percentile_filter as percentile_filter
from .ranks import rank_filter as rank_filter
from .uniform import uniform_filter as uniform_filter
from .uniform import uniform_filter1d as uniform_filter1d

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


if not TYPE_CHECKING:  # or a checker would know every name

    def __getattr__(name: str) -> Any:
        raise _no_attribute(__name__, name, _hint(name))
