"""The positions of quantiles among sorted numbers.

The quantile ``q`` of ``n`` numbers ``v[0] <= .. <= v[n - 1]`` has a position ``h``, between the
indices ``floor(h)`` and ``floor(h) + 1``. Hyndman and Fan's methods 4 to 9 define

    h = n q + a + q (1 - a - b) - 1,   clipped to [0, n - 1],

and interpolate: ``v[floor(h)] + (h - floor(h)) (v[floor(h) + 1] - v[floor(h)])``. The other methods
round ``h``, or return a mean of two numbers. Positions are computed in Python floats, once for each
number of elements that a window can have.

Source: Hyndman and Fan 1996, "Sample quantiles in statistical packages", American Statistician 50.
"""

import functools
import math
from typing import Literal, NamedTuple, get_args

Method = Literal[
    "interpolated_inverted_cdf", "hazen", "weibull", "linear", "median_unbiased", "normal_unbiased",
    "lower", "higher", "nearest", "midpoint", "inverted_cdf", "averaged_inverted_cdf",
    "closest_observation",
]  # fmt: skip
METHODS: tuple[Method, ...] = get_args(Method)

_LINEAR = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "linear": (1.0, 1.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
"""The parameters ``a`` and ``b`` of each method that interpolates."""


class QuantilePositions(NamedTuple):
    """The position of a quantile among ``n`` sorted elements, for every ``n`` from 0.

    Attributes:
      low: index of the element below the quantile.
      high: index of the element above the quantile.
      share: weight of the element above; the element below has the weight ``1 - share``.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    share: tuple[float, ...]


@functools.lru_cache(maxsize=256)
def quantile_positions(q: float, method: Method, max_elements: int) -> QuantilePositions:
    """Return the positions of quantile ``q`` among 0, 1, .., ``max_elements`` elements."""
    positions = [(0, 0, 0.0), *(_position(n, q, method) for n in range(1, max_elements + 1))]
    return QuantilePositions(*zip(*positions, strict=True))


def _position(n: int, q: float, method: Method) -> tuple[int, int, float]:
    if method in _LINEAR:
        a, b = _LINEAR[method]
        return _interpolated((n - 1) * q if a == b == 1 else n * q + (a + q * (1 - a - b)) - 1, n)
    if method in ("lower", "higher", "nearest", "midpoint"):
        h = (n - 1) * q
        low, high = math.floor(h), math.ceil(h)
        if method == "midpoint":
            return low, high, 0.5 if low != high else 0.0
        index = {"lower": low, "higher": high, "nearest": round(h)}[method]
        return index, index, 0.0
    h = n * q
    if method == "averaged_inverted_cdf" and h == math.floor(h) and 0 < h < n:
        return int(h) - 1, int(h), 0.5
    index = round(h) if method == "closest_observation" else math.ceil(h)
    index = min(max(index - 1, 0), n - 1)
    return index, index, 0.0


def _interpolated(h: float, n: int) -> tuple[int, int, float]:
    h = min(max(h, 0.0), float(n - 1))
    low = math.floor(h)
    return low, min(low + 1, n - 1), h - low
