"""Any function of a window, by loops: for ops that the oracle of ``jaxpool.testing`` lacks.

The windows are those of the oracle. Arrays have channels last.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxpool.testing.geometry import Position, windows_over


class Case(NamedTuple):
    """The shape of an array, and windows over it as arguments of an op."""

    shape: tuple[int, ...]
    window: dict[str, Any]

    def random(self, masked: bool, rng: np.random.Generator) -> tuple[np.ndarray, Any]:
        """Return normal numbers, and a mask of half of them or None."""
        x = rng.standard_normal(self.shape).astype(np.float32)
        return x, rng.random(self.shape) < 0.5 if masked else None


SHARED_CASES = {
    "1-D": Case((2, 9, 3), {"window_shape": (3,), "strides": 2, "padding": 1}),
    "2-D": Case(
        (1, 8, 7, 2),
        {
            "window_shape": (2, 4), "strides": (2, 1), "padding": ((1, 0), (0, 2)),
            "dilations": (2, 1),
        },
    ),
    "long": Case((1, 40, 2), {"window_shape": (21,), "strides": 3, "padding": ((4, 9),)}),
    "ceil": Case(
        (1, 6, 2), {"window_shape": (2,), "strides": 3, "padding": ((2, 3),), "rounding": "ceil"}
    ),
}  # fmt: skip


def elements_of_windows(
    x: np.ndarray,
    window_shape: Sequence[int],
    strides: Any,
    padding: Any = "VALID",
    dilations: Any = 1,
    rounding: str = "floor",
) -> tuple[Position, Iterator[tuple[Position, list[Position]]]]:
    """Return the output's shape, and for each output the positions of its real elements."""
    first = x.ndim - 1 - len(window_shape)
    sizes = x.shape[first:-1]
    pooled, windows = windows_over(
        sizes, tuple(window_shape), strides, padding, dilations, rounding
    )
    elements = {window.output: [q for _, q in window.elements] for window in windows}
    shape = (*x.shape[:first], *pooled, x.shape[-1])

    def walk() -> Iterator[tuple[Position, list[Position]]]:
        for out in np.ndindex(*shape):
            yield out, [(*out[:first], *q, out[-1]) for q in elements[out[first:-1]]]

    return shape, walk()


def over_windows(
    function: Callable[[np.ndarray], Any], x: np.ndarray, where: Any = True, **window: Any
) -> np.ndarray:
    """Return ``function`` of the real elements of every window that ``where`` does not mask.

    Args:
      function: of a vector, which may be empty, of Python's numbers: float64, int64 or bool.
      x: array, channels last.
      where: mask that broadcasts to ``x``; None masks nothing.
      window: as in :func:`elements_of_windows`.
    """
    wide = np.array(x.tolist())
    mask = np.broadcast_to(True if where is None else where, x.shape)
    shape, walk = elements_of_windows(x, **window)
    y = np.empty(shape)
    for out, places in walk:
        y[out] = function(np.array([wide[place] for place in places if mask[place]], wide.dtype))
    return y
