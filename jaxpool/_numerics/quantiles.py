"""The positions of quantiles among sorted numbers.

The quantile ``q`` of ``n`` numbers ``v[0] <= .. <= v[n - 1]`` has a position ``h``, between the
indices ``floor(h)`` and ``floor(h) + 1``. Hyndman and Fan's methods 4 to 9 define

    h = n q + a + q (1 - a - b) - 1,   clipped to [0, n - 1],

and interpolate: ``v[floor(h)] + (h - floor(h)) (v[floor(h) + 1] - v[floor(h)])``. The other methods
round ``h``, or return a mean of two numbers. Positions are computed in float64, for each number of
elements that a window can have.

Source: Hyndman and Fan 1996, "Sample quantiles in statistical packages", American Statistician 50.
"""

from typing import Literal, NamedTuple, get_args

import numpy as np

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
      low: int32 indices of the element below the quantile.
      high: int32 indices of the element above the quantile.
      share: weights of the element above; the element below has the weight ``1 - share``.
    """

    low: np.ndarray
    high: np.ndarray
    share: np.ndarray


def quantile_positions(q: float, method: Method, max_elements: int) -> QuantilePositions:
    """Return the positions of quantile ``q`` among 0, 1, .., ``max_elements`` elements."""
    n = np.arange(1, max_elements + 1)
    low, high, share = _positions(n, q, method)
    low, high = (np.append(0, index.clip(0, n - 1)).astype(np.int32) for index in (low, high))
    return QuantilePositions(low, high, np.append(0.0, share))


def _positions(n: np.ndarray, q: float, method: Method) -> tuple[np.ndarray, ...]:
    """Return ``low``, ``high`` and ``share`` for each ``n``; indices may be out of range."""
    if method in _LINEAR:
        a, b = _LINEAR[method]
        h = (n - 1) * q if a == b == 1 else n * q + (a + q * (1 - a - b)) - 1
        h = h.clip(0, n - 1)
        low = np.floor(h)
        return low, low + 1, h - low
    if method in ("lower", "higher", "nearest", "midpoint"):
        h = (n - 1) * q
        low, high = np.floor(h), np.ceil(h)
        if method == "midpoint":
            return low, high, np.where(low != high, 0.5, 0.0)
        index = {"lower": low, "higher": high, "nearest": np.rint(h)}[method]
        return index, index, np.zeros(n.shape)
    h = n * q
    index = (np.rint(h) if method == "closest_observation" else np.ceil(h)) - 1
    if method != "averaged_inverted_cdf":
        return index, index, np.zeros(n.shape)
    is_between = (h == np.floor(h)) & (0 < h) & (h < n)
    return index, index + is_between, np.where(is_between, 0.5, 0.0)
