"""Timing of calls that alternate, so that noise of the machine affects all of them equally."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax

MIN_ROUNDS = 9


def race(contestants: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Return the median time of each call in seconds.

    Args:
      contestants: compiled functions without arguments. Each is run once before the measurement.
        The order of the calls is reversed after every round.
      seconds: duration of the measurement, which lasts at least ``MIN_ROUNDS`` rounds.
    """
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for call in contestants.values():
        jax.block_until_ready(call())
    end, rounds, names = time.perf_counter() + seconds, 0, list(contestants)
    while time.perf_counter() < end or rounds < MIN_ROUNDS:
        for name in names if rounds % 2 else names[::-1]:
            start = time.perf_counter()
            jax.block_until_ready(contestants[name]())
            times[name].append(time.perf_counter() - start)
        rounds += 1
    return {name: statistics.median(row) for name, row in times.items()}
