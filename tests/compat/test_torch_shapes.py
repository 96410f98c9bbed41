"""Empty axes, sequences and sizes that ``torch.nn.functional`` accepts or refuses."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import assert_same
from peers import require

from jaxpool.compat import torch as front

pytestmark = pytest.mark.grid(4)

torch: Any = require("torch")
functional: Any = torch.nn.functional

COUNTS = pytest.mark.parametrize("count", [1, 2, 3])
FRACTIONAL = pytest.mark.parametrize("count", [2, 3])


def outcome(function: Callable[..., Any], *arrays: Any, **settings: Any) -> Any:
    """Return the shapes of the results, or None for an error."""
    try:
        result = function(*arrays, **settings)
    except (TypeError, ValueError, RuntimeError, IndexError):
        return None
    return [tuple(y.shape) for y in (result if isinstance(result, tuple) else (result,))]


def check_same(name: str, *arrays: np.ndarray, **settings: Any) -> None:
    """Fail unless both have the same shapes, or both refuse."""
    tensors = {
        key: torch.tensor(value) if isinstance(value, np.ndarray) else value
        for key, value in settings.items()
    }
    mine = outcome(getattr(front, name), *arrays, **settings)
    theirs = outcome(getattr(functional, name), *map(torch.tensor, arrays), **tensors)
    assert mine == theirs, (name, [array.shape for array in arrays], settings)


LEADS = [(2, 0), (0, 3), (0, 0), (0,), (3,)]
"""Leading axes: batch and channels, or channels alone."""


@COUNTS
@pytest.mark.parametrize("lead", LEADS)
def test_empty_axes(lead: tuple[int, ...], count: int) -> None:
    for size in (4, 0):
        x = np.zeros(lead + (size,) * count, np.float32)
        for name in ("max_pool", "avg_pool"):
            check_same(f"{name}{count}d", x, kernel_size=2)
        check_same(f"lp_pool{count}d", x, norm_type=2.0, kernel_size=2)
        check_same(f"max_unpool{count}d", x, x.astype(np.int64), kernel_size=2)
        for name in ("adaptive_max_pool", "adaptive_avg_pool"):
            check_same(f"{name}{count}d", x, output_size=2)


@FRACTIONAL
@pytest.mark.parametrize("lead", LEADS)
def test_empty_axes_of_fractional_pooling(lead: tuple[int, ...], count: int) -> None:
    planes = (1, *lead) if len(lead) == 1 else lead
    samples = np.full((*planes, count), 0.5, np.float32)
    for size in (5, 0):
        x = np.zeros(lead + (size,) * count, np.float32)
        settings = {"kernel_size": 2, "output_size": 2, "_random_samples": samples}
        check_same(f"fractional_max_pool{count}d", x, **settings)


SIZES: tuple[Any, ...] = (2, (2,), [2], (), (2, 2), (2, 2, 2))


@pytest.mark.grid(18)
@COUNTS
@pytest.mark.parametrize("value", SIZES, ids=str)
def test_sequences(value: Any, count: int) -> None:
    x = np.zeros((2, 3) + (8,) * count, np.float32)
    for key in ("kernel_size", "stride", "padding", "dilation"):
        settings = {"kernel_size": 4, key: value}
        check_same(f"max_pool{count}d", x, **settings)
        if key != "dilation":
            check_same(f"avg_pool{count}d", x, **settings)
            if not isinstance(value, tuple) or len(value) <= count:  # PyTorch reads no further
                check_same(f"max_unpool{count}d", x, x.astype(np.int64), **settings)
        if key in ("kernel_size", "stride"):
            check_same(f"lp_pool{count}d", x, norm_type=2.0, **settings)
    for name in ("adaptive_max_pool", "adaptive_avg_pool"):
        check_same(f"{name}{count}d", x, output_size=value)


@FRACTIONAL
def test_sizes_and_ratios_of_fractional_pooling(count: int) -> None:
    x = np.zeros((2, 3) + (8,) * count, np.float32)
    samples = np.full((2, 3, count), 0.5, np.float32)
    settings = {"_random_samples": samples, "return_indices": True}
    name = f"fractional_max_pool{count}d"
    for value in SIZES:
        check_same(name, x, kernel_size=value, output_size=3, **settings)
    for size in (*SIZES, 0, (0, 3), (3, 0), (3, 0, 2), -1):
        check_same(name, x, kernel_size=2, output_size=size, **settings)
    for ratio in (0.5, (0.5,), (0.5, 0.75), (0.5, 0.6, 0.75), 1.5, (0.5, 0.0)):
        check_same(name, x, kernel_size=2, output_ratio=ratio, **settings)


@FRACTIONAL
def test_rows_of_samples_beyond_the_batch_are_not_read(count: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3) + (8,) * count).astype(np.float32)
    samples = rng.random((5, 3, count)).astype(np.float32)
    name = f"fractional_max_pool{count}d"
    for some in (x, x[0]):
        for rows in (1, 2, 3, 5):
            settings = {"output_size": 3, "_random_samples": samples[:rows]}
            check_same(name, some, kernel_size=2, **settings)
        got = getattr(front, name)(some, 2, 3, _random_samples=samples)
        want = getattr(functional, name)(
            torch.tensor(some), 2, 3, _random_samples=torch.tensor(samples)
        )
        assert_same(got, want.numpy(), (count, some.ndim))


@pytest.mark.cpu_program
def test_subnormal_numbers_are_zero_on_purpose() -> None:
    assert "subnormal numbers as zero" in " ".join((front.__doc__ or "").split())
    tiny = np.array([[[1e-45, 3e-45, 2e-45]]], np.float32)
    assert functional.max_pool1d(torch.tensor(tiny), 3, return_indices=True)[1].item() == 1
    assert front.max_pool1d(tiny, 3, return_indices=True)[1].item() == 0


def test_differences_on_purpose() -> None:
    assert "averages of int64 are exact" in " ".join((front.__doc__ or "").split())
    with jax.enable_x64(True):
        most = np.full((1, 1, 2), 2**62 + 2**61, np.int64)
        assert functional.avg_pool1d(torch.tensor(most), 2).item() < 0
        assert front.avg_pool1d(jnp.asarray(most), 2).item() == 2**62 + 2**61
