"""Rounding errors of averages and sums, against float64: jaxpool, Flax and PyTorch side by side.

``python benchmarks/numerics.py`` prints the table of docs/semantics.md. Its unit is the distance of
neighbouring float32 numbers at the average of the absolute values of a window, 2^-23 of it: half of
one is the least that a rounded result must be allowed. Each entry is the worst over windows of
numbers of one sign and of both, around 1e-30, 1 and 1e30.
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
    """Sums, as averages: ``errors`` compares with these."""
    return np.asarray(jaxpool.sum_pool(x, window, stride, data_format="W"), np.float64) / window


def flax_average(x: np.ndarray, window: int, stride: int) -> Any:
    from flax import linen

    return linen.avg_pool(x[None, :, None], (window,), (stride,))[0, :, 0]


def torch_average(x: np.ndarray, window: int, stride: int) -> Any:
    import torch

    return torch.nn.functional.avg_pool1d(torch.from_numpy(x)[None], window, stride)[0].numpy()


def samples(window: int) -> Iterator[np.ndarray]:
    """Numbers of one sign and of both, of each magnitude, in which some windows overlap."""
    rng = np.random.default_rng(window)
    for magnitude, low in itertools.product(MAGNITUDES, (0.5, -1.5)):
        count = max(3 * window, 1_000)
        yield (rng.uniform(low, 1.5, count) * magnitude).astype(np.float32)


def errors(average: Average, x: np.ndarray, window: int) -> np.ndarray:
    """The error of each average, in units in the last place of the average absolute value."""
    stride = max(window // 2, 1)
    got = np.asarray(average(x, window, stride), np.float64)
    wide = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), window)[::stride]
    assert got.shape == wide.shape[:1]
    return np.abs(got - wide.mean(1)) / (np.abs(wide).mean(1) * ULP)


def worst(average: Average, window: int) -> float:
    """The largest error over all samples."""
    return max(float(errors(average, x, window).max()) for x in samples(window))


def bound(window: int) -> float:
    """What jaxpool keeps to: a rounding for each level of a tree of sums, and for the division."""
    return 1 + 0.5 * math.log2(window)


def main() -> None:
    columns: dict[str, Average] = {
        "jaxpool, average": jaxpool_average,
        "jaxpool, sum": jaxpool_sum,
        "flax, average": flax_average,
        "torch, average": torch_average,
    }
    print("| taps |", " | ".join(columns), "| bound |")
    print("|---" * (len(columns) + 2) + "|")
    for window in WINDOWS:
        found = [f"{worst(average, window):,.1f}" for average in columns.values()]
        print(f"| {window:,} |", " | ".join(found), f"| {bound(window):.1f} |", flush=True)


if __name__ == "__main__":
    main()
