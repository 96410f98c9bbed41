"""Rounding errors of averages and sums in jaxpool, Flax and PyTorch, against float64.

``python benchmarks/numerics.py`` prints the table of docs/semantics.md. The unit is the distance
between neighbouring float32 numbers at the average absolute value of a window, 2^-23 of it. Half a
unit is the error of a correctly rounded result. Each entry is the maximum over windows of numbers
of one sign and of both signs, around 1e-30, 1 and 1e30.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import jaxpool

WINDOWS = (2, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
MAGNITUDES = (1e-30, 1.0, 1e30)
ULP = 2.0**-23

Average = Callable[[np.ndarray, int, int], Any]
"""From numbers, window and stride to averages."""


def jaxpool_average(x: np.ndarray, window: int, stride: int) -> Any:
    return jaxpool.avg_pool(x, window, stride, data_format="W")


def jaxpool_sum(x: np.ndarray, window: int, stride: int) -> Any:
    """Return sums divided by the window, since ``errors`` compares averages."""
    return np.asarray(jaxpool.sum_pool(x, window, stride, data_format="W"), np.float64) / window


def flax_average(x: np.ndarray, window: int, stride: int) -> Any:
    from flax import linen

    return linen.avg_pool(x[None, :, None], (window,), (stride,))[0, :, 0]


def torch_average(x: np.ndarray, window: int, stride: int) -> Any:
    import torch

    return torch.nn.functional.avg_pool1d(torch.from_numpy(x)[None], window, stride)[0].numpy()


def samples(window: int) -> Iterator[np.ndarray]:
    """Yield numbers of one and of both signs, of each magnitude; some windows overlap."""
    rng = np.random.default_rng(window)
    for magnitude, low in itertools.product(MAGNITUDES, (0.5, -1.5)):
        count = max(3 * window, 1_000)
        yield (rng.uniform(low, 1.5, count) * magnitude).astype(np.float32)


def errors(average: Average, x: np.ndarray, window: int) -> np.ndarray:
    """Return the error of each average, in ulps of the average absolute value."""
    stride = max(window // 2, 1)
    averages = np.asarray(average(x, window, stride), np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), window)[::stride]
    assert averages.shape == windows.shape[:1]
    return np.abs(averages - windows.mean(1)) / (np.abs(windows).mean(1) * ULP)


def worst(average: Average, window: int) -> float:
    """Return the largest error over all samples."""
    return max(float(errors(average, x, window).max()) for x in samples(window))


def bound(window: int) -> float:
    """Return jaxpool's error bound: one rounding per level of a tree of sums, and the division."""
    return 1 + 0.5 * math.log2(window)


def main() -> None:
    columns: dict[str, Average] = {
        "jaxpool, average": jaxpool_average,
        "jaxpool, sum": jaxpool_sum,
        "flax, average": flax_average,
        "torch, average": torch_average,
    }
    print("| elements |", " | ".join(columns), "| bound |")
    print("|---" * (len(columns) + 2) + "|")
    for window in WINDOWS:
        found = [f"{worst(average, window):,.1f}" for average in columns.values()]
        print(f"| {window:,} |", " | ".join(found), f"| {bound(window):.1f} |", flush=True)


if __name__ == "__main__":
    main()
