"""Compiled for TPU and GPU, what is rounded as by another system is rounded at the same steps."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import compilers
import jax
import numpy as np
import pytest

from jaxpool import filters


def divisions(chip: str, f: Callable[..., Any], spec: Any, folder: Path) -> tuple[int, int]:
    """Return the number of divisions in ``f``, and of those whose quotient is corrected.

    Each has an error of up to two units in the last place. A correction splits the quotient by a
    mask, multiplies the halves, and divides the remainder.
    """
    dumps = {"xla_dump_to": str(folder), "xla_gpu_dump_llvmir": True, "xla_dump_emitter_re": ".*"}
    compilers.compiled(chip, f, spec, compiler_options=dumps)
    text = "".join(path.read_text() for path in folder.glob("*.ptx"))
    quotients = re.findall(r"div\.full\.f32\s+(%\w+),", text)
    halved = re.findall(r"and\.b32\s+%\w+, (%\w+), (?:-4096|2147479552);", text)
    return len(quotients), len(set(quotients) & set(halved))


@pytest.mark.parametrize("chip", ["H100"])
@pytest.mark.parametrize("window", [7, 14])
def test_means_divide_with_a_correction(window: int, chip: str, tmp_path: Path) -> None:
    """An error in the last place rounds a mean halfway between two floats to the wrong side."""
    mean = lambda x: filters.uniform_filter1d(x, window, 0)  # noqa: E731
    spec = jax.ShapeDtypeStruct((40, 37), np.float32)
    assert divisions(chip, mean, spec, tmp_path) == (2, 1)
