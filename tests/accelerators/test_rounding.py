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
from jaxpool.compat import onednn, onnx


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


NAMES = {"grey_opening": 2, "grey_closing": 2, "white_tophat": 3, "black_tophat": 3}
"""The filters that subtract and add the same number, with the number of their operations."""


@pytest.mark.parametrize("chip", ["v5e", "H100"])
@pytest.mark.parametrize("name", NAMES)
def test_a_structure_of_one_element_rounds_twice(name: str, chip: str) -> None:
    structure = np.full((1, 1), 1.7, np.float32)
    of = lambda x: getattr(filters, name)(x, structure=structure)  # noqa: E731
    text = compilers.compiled(chip, of, jax.ShapeDtypeStruct((8, 128), np.float32)).as_text()
    assert len(re.findall(r" = f32\S* (?:add|subtract)\(", text)) == NAMES[name]


SCALES = np.float32(0.3), np.uint8(7), np.float32(0.7), np.uint8(9)
AVERAGES: dict[str, tuple[Callable[..., Any], Any, int]] = {
    "onnx": (lambda x: onnx.qlinear_average_pool(x, *SCALES, kernel_shape=(3, 2)), np.uint8, 2),
    "onnx_global": (lambda x: onnx.qlinear_global_average_pool(x, *SCALES), np.uint8, 1),
    "onednn_int8": (
        lambda x: onednn.forward_inference(x, "avg_exclude_padding", (3, 2), (1, 1), 0, 1, 1),
        np.int8,
        1,
    ),
    "onednn_int32": (
        lambda x: onednn.forward_inference(x, "avg_include_padding", (3, 2), (1, 1)),
        np.int32,
        1,
    ),
}
"""Averages of integers from quotients of floats: a function, its dtype and number of quotients."""


@pytest.mark.parametrize("chip", ["H100"])
@pytest.mark.parametrize("name", AVERAGES)
def test_averages_of_integers_divide_with_a_correction(
    name: str, chip: str, tmp_path: Path
) -> None:
    of, dtype, quotients = AVERAGES[name]
    spec = jax.ShapeDtypeStruct((2, 3, 8, 7), dtype)
    assert divisions(chip, of, spec, tmp_path) == (2 * quotients, quotients)
