"""Test and benchmark support: a brute-force oracle and poolings of real networks.

The oracle computes maxima, minima, averages and sums, the indices of extrema, and their gradients
from the definition, by loops over windows and taps with Python numbers. It shares no code with the
library and imports only NumPy. It determines the geometry by stepping along the axes and counting,
so an error in a closed form of the library cannot occur here as well. It is slow, and intended for
arrays of a few hundred elements.

Let a pooled axis have ``size`` elements, numbered from 0. Window ``o`` starts at
``o * stride - low`` and has ``kernel`` taps, ``dilation`` elements apart. A tap at
``0 <= q < size`` reads an element. A tap at any other ``-low <= q < size + high`` is on declared
padding. Later taps, which occur only with the ceil roundings, are overhang.

Example:
  >>> x = np.array([[1.0, 5.0, 2.0, 4.0]])
  >>> oracle_pool(x, "max", (2,), 1, spatial_axes=(1,))
  array([[5., 5., 4.]])
  >>> values, offsets, positions = oracle_argmax(x, (2,), 2, 1, spatial_axes=(1,))
  >>> values, offsets, positions[..., 0]
  (array([[1., 5., 4.]]), array([[1, 0, 0]]), array([[0, 1, 3]]))
  >>> oracle_gradient(x, np.ones((1, 3)), "max", (2,), 1, spatial_axes=(1,))
  array([[0., 2., 0., 1.]])
"""

from .cases import NAMED_CASES as NAMED_CASES
from .cases import NamedCase as NamedCase
from .geometry import same_padding as same_padding
from .geometry import window_starts as window_starts
from .oracle import oracle_argmax as oracle_argmax
from .oracle import oracle_gradient as oracle_gradient
from .oracle import oracle_indices as oracle_indices
from .oracle import oracle_pool as oracle_pool

__all__ = [
    "NAMED_CASES",
    "NamedCase",
    "oracle_argmax",
    "oracle_gradient",
    "oracle_indices",
    "oracle_pool",
    "same_padding",
    "window_starts",
]


def __dir__() -> list[str]:
    return list(__all__)
