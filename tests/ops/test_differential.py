"""Values, indices and gradients of every op against the brute-force oracle, at random."""

import math
import sys
from collections import Counter

import pytest
from differential import LETTERS, ORACLE_OPS, Case, batch_of, check
from helpers import QUICK

from jaxpool.testing import oracle_argmax

pytestmark = pytest.mark.grid(48)

HALF = 53
BATCHES = range(HALF) if sys.version_info < (3, 12) else range(HALF, 2 * HALF)
"""A run of CI draws over 2,000 cases, half of them on each of its Pythons."""


@pytest.mark.parametrize("batch", BATCHES)
def test_random_cases_agree_with_the_oracle(batch: int) -> None:
    check(batch_of(batch), QUICK if batch % 4 else None)


# --- the draws reach every special case -----------------------------------------------------------


def corners(case: Case) -> set[str]:
    """Return the names of the special properties of a case."""
    found = {case.op, case.dtype, case.data, case.rounding, case.data_format, case.implementation}
    found |= {f"{len(case.window)}-D", "gradient" if case.has_gradient else "values"}
    found.add(case.padding if isinstance(case.padding, str) else "pairs")
    if case.op == "max_pool_with_argmax":
        space = case.index_space
        found.add(space if isinstance(space, str) else "axis < 0" if space < 0 else "axis >= 0")
        x, where = case.array(), case.where()
        words = {"dilations": case.dilations, "rounding": case.rounding, "where": where}
        windows = (case.window, case.strides, case.padding)
        taps = oracle_argmax(x, *windows, spatial_axes=case.spatial_axes, **words)[1]
        found |= {"window without an element"} if (taps < 0).any() else set()
    if case.op == "avg_pool":
        found.add("divisor_override" if case.divisor_override else str(case.count_include_pad))
    found |= {"mask"} if case.mask is not None else set()
    found |= {"dilated"} if max(case.dilations) > 1 else set()
    found |= {"tiled"} if case.window == case.strides else set()
    found |= {"large window"} if math.prod(case.window) > 32 else set()
    found |= {"more than 255 taps"} if math.prod(case.window) > 255 else set()
    if not isinstance(case.padding, str):
        rows = zip(case.padding, case.window, strict=True)
        found |= {"padding >= kernel"} if any(max(pair) >= k for pair, k in rows) else set()
        found |= {"asymmetric padding"} if any(low != high for low, high in case.padding) else set()
    return found


def test_every_corner_is_reached_often() -> None:
    """Of 1,060 cases, 10 have each corner, so that a change of the draws cannot lose one."""
    cases = [case for number in BATCHES for case in batch_of(number)]
    assert len(set(map(repr, cases))) >= 1000
    counts = Counter(corner for case in cases for corner in corners(case))
    wanted = {
        *ORACLE_OPS, "1-D", "2-D", "3-D",
        "float32", "bfloat16", "float16", "int8", "uint8", "int32", "bool",
        "permutation", "ties", "special", "lowest", "highest", "extremes",
        "floor", "ceil", "ceil_torch", "VALID", "SAME", "SAME_LOWER", "pairs",
        "channels_last", "channels_first", "auto", "reduce_window", "gradient", "values",
        "spatial", "window", "axis < 0", "axis >= 0", "window without an element",
        "divisor_override", "True", "False", "mask", "dilated",
        "padding >= kernel", "asymmetric padding",
        "tiled", "large window", "more than 255 taps",
    }  # fmt: skip
    rare = {corner: counts[corner] for corner in wanted if counts[corner] < 10}
    assert not rare, f"drawn too rarely: {rare}"
    formats = {case.data_format for case in cases}
    assert formats >= {letters for group in LETTERS.values() for letters in group}
