"""The recorded runs of the real runtimes, ``data/golden_cases.json``, and their comparison."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

GOLDEN = json.loads((Path(__file__).parent / "data" / "golden_cases.json").read_text())
CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in GOLDEN["cases"]}


def read(tensor: dict[str, Any]) -> np.ndarray:
    """Return a recorded tensor; its floats may be the words nan, inf and -inf."""
    dtype = np.dtype(jnp.dtype(tensor["dtype"]))
    data = tensor["data"] if dtype.kind in "iu" else [float(number) for number in tensor["data"]]
    return np.array(data, dtype).reshape(tensor["shape"])


def recorded_runs(*systems: str) -> Iterator[tuple[str, str]]:
    """Yield (case, system) of every recorded run of these systems."""
    for name, case in CASES.items():
        yield from ((name, system) for system in case["runs"] if system in systems)


def agrees(got: np.ndarray, want: np.ndarray) -> bool:
    """Return whether integers are equal, and floats to two units in the last place.

    Zeros of both signs are equal.
    """
    if got.shape != want.shape:
        return False
    numbers, recorded = got.astype(np.float64), want.astype(np.float64)
    rtol = 0 if got.dtype.kind in "iu" else 2.5e-7
    return bool(np.allclose(numbers, recorded, rtol=rtol, atol=0, equal_nan=True))
