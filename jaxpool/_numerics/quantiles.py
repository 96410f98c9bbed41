"""Where a quantile lies among sorted numbers.

Of ``n`` numbers ``v[0] <= .. <= v[n - 1]`` the quantile ``q`` lies at a place ``h``, between
``v[floor(h)]`` and the next one. Hyndman and Fan's methods 4 to 9 have

    h = n q + a + q (1 - a - b) - 1,   kept in [0, n - 1],

and take ``v[floor(h)] + (h - floor(h)) (v[floor(h) + 1] - v[floor(h)])``; the others round ``h``,
or take a mean. All is computed in Python's floats, once for each number of elements that a window
can have.

Source: Hyndman and Fan 1996, "Sample quantiles in statistical packages", American Statistician 50.
"""

import functools
import math
from typing import NamedTuple

_LINEAR = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "linear": (1.0, 1.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
"""The numbers ``a`` and ``b`` of a method that interpolates."""

_ROUNDED = (
    "lower",
    "higher",
    "nearest",
    "midpoint",
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
)
METHODS = (*_LINEAR, *_ROUNDED)


class Places(NamedTuple):
    """For every number of elements from 0 up: where a quantile lies.

    Attributes:
      low: the element below.
      high: the element above.
      share: of the one above in the result.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    share: tuple[float, ...]


@functools.lru_cache(maxsize=256)
def places(q: float, method: str, most: int) -> Places:
    """Return where quantile ``q`` lies among 0, 1, .., ``most`` elements."""
    found = [(0, 0, 0.0), *(_place(n, q, method) for n in range(1, most + 1))]
    return Places(*zip(*found, strict=True))


def _place(n: int, q: float, method: str) -> tuple[int, int, float]:
    if method in _LINEAR:
        a, b = _LINEAR[method]
        return _between((n - 1) * q if a == b == 1 else n * q + (a + q * (1 - a - b)) - 1, n)
    if method in ("lower", "higher", "nearest", "midpoint"):
        h = (n - 1) * q
        low, high = math.floor(h), math.ceil(h)
        if method == "midpoint":
            return low, high, 0.5 if low != high else 0.0
        place = {"lower": low, "higher": high, "nearest": round(h)}[method]
        return place, place, 0.0
    h = n * q
    if method == "averaged_inverted_cdf" and h == math.floor(h) and 0 < h < n:
        return int(h) - 1, int(h), 0.5
    place = round(h) if method == "closest_observation" else math.ceil(h)
    place = min(max(place - 1, 0), n - 1)
    return place, place, 0.0


def _between(h: float, n: int) -> tuple[int, int, float]:
    h = min(max(h, 0.0), float(n - 1))
    low = math.floor(h)
    return low, min(low + 1, n - 1), h - low
