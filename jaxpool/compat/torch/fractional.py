"""Maxima over windows at random positions."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from ..._errors import message, public, shown
from ..._geometry.arguments import as_bool, is_sequence
from ..._geometry.resolve import check_known
from .. import _checks
from .._checks import index_dtype, ints
from .._rules import fractional_max_by_last_nan
from ._overloads import fractional_max
from .arguments import Sizes, array


@fractional_max
@public(samples="_random_samples")
def fractional_max_pool2d(
    input: ArrayLike,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: ArrayLike | None = None,
    *,
    key: ArrayLike | None = None,
) -> Any:
    """Return the maximum over windows at random positions, as ``F.fractional_max_pool2d``.

    Args:
      input: array (N, C, H, W) or (C, H, W).
      kernel_size: int or a pair.
      output_size: number of windows per axis, int or a pair.
      output_ratio: alternative to ``output_size``: a pair of numbers in [0, 1), by which the sizes
        are multiplied; in 3-D one number or three.
      return_indices: whether to also return the indices of the maxima, flat over (H, W).
      _random_samples: numbers in [0, 1) of shape (N, C, 2), for the width first; (1, C, 2) without
        a batch axis. Additional rows are ignored.
      key: key of :mod:`jax.random`, from which samples are drawn if there are none: JAX has no
        global generator.
    Returns:
      Array of the dtype of ``input``, or (values, indices).
    Derivatives: as :func:`jaxpool.fractional_max_pool`; with NaN, at the last NaN of the window.
    Raises:
      TypeError, ValueError: as :func:`jaxpool.fractional_max_pool`; ValueError also without
        ``output_size`` and ``output_ratio``, or without samples and key.
    References: PyTorch 2.13, ``torch.nn.FractionalMaxPool2d``; Graham 2014 (arXiv:1412.6071).
    Example:
      >>> x, half = jnp.arange(16.0).reshape(1, 4, 4), jnp.full((1, 1, 2), 0.5)
      >>> jaxpool.compat.torch.fractional_max_pool2d(x, 2, 2, _random_samples=half)[0]
      Array([[ 5.,  7.],
             [13., 15.]], dtype=float32)
    """
    return _fractional(
        2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples, key
    )


@fractional_max
@public(samples="_random_samples")
def fractional_max_pool3d(
    input: ArrayLike,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: ArrayLike | None = None,
    *,
    key: ArrayLike | None = None,
) -> Any:
    """Return the maximum over random windows of three axes; see :func:`fractional_max_pool2d`.

    ``input`` is (N, C, T, H, W) or (C, T, H, W); ``_random_samples`` (N, C, 3) are in the order of
    the axes.
    """
    return _fractional(
        3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples, key
    )


def _fractional(
    count: int,
    input: Any,
    kernel_size: Any,
    output_size: Any,
    output_ratio: Any,
    return_indices: Any,
    samples: Any,
    key: Any,
) -> Any:
    x = array(count, input, first=1)
    check_known(x.shape[-count:])
    kernel = ints("kernel_size", kernel_size, count)
    if output_size is None:
        output_size = _output_size_from_ratio(output_ratio, x.shape[-count:])
    sizes = ints("output_size", output_size, count, least=0)
    _check_windows_fit(x, kernel, sizes)
    wants_indices = as_bool("return_indices", return_indices)
    if samples is not None:
        samples = _checked_samples(count, samples, x)
    space = ("spatial", index_dtype(x.shape[-count:])) if wants_indices else ("window", None)
    if 0 in sizes:
        values = jnp.zeros((*x.shape[:-count], *sizes), x.dtype)
        indices = jnp.zeros_like(values, space[1])
    else:
        values, indices = fractional_max_by_last_nan(x, kernel, sizes, samples, key, *space)
    return (values, indices) if wants_indices else values


def _check_windows_fit(x: Array, kernel: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    count = len(sizes)
    for axis, (size, taps, windows) in enumerate(zip(x.shape[-count:], kernel, sizes, strict=True)):
        needed = windows + taps - 1 + (count == 3)  # the 3-D kernel requires one more
        if needed > size:
            raise ValueError(
                message(
                    f"$output_size = {windows} does not fit pooled axis {axis}.",
                    f"{windows} windows of {taps} elements need {needed}, the axis has {size}.",
                    "Ask for fewer windows, or use smaller ones.",
                )
            )


def _output_size_from_ratio(ratio: Any, shape: tuple[int, ...]) -> list[int]:
    # PyTorch's 2-D pool rejects a single number.
    if len(shape) == 3 and isinstance(ratio, (int, float, np.floating)):
        ratio = (ratio,) * 3
    ratios = tuple(ratio) if is_sequence(ratio) else ()
    if len(ratios) != len(shape) or not all(
        isinstance(r, (int, float, np.floating)) and 0 <= r < 1 for r in ratios
    ):
        raise ValueError(
            message(
                f"$output_ratio = {shown(ratio)}, and $output_size is None.",
                f"One of them must give the number of windows; a ratio has {len(shape)} numbers, "
                "at least 0 and less than 1.",
                f"Give $output_size, or for example output_ratio={(0.5,) * len(shape)}.",
            )
        )
    return [int(size * r) for size, r in zip(shape, ratios, strict=True)]


def _checked_samples(count: int, samples: Any, x: Array) -> Array:
    """Return the samples of each plane in the order of the axes, without rows beyond the batch."""
    samples = _checks.array("_random_samples", samples)
    batch = x.shape[:-count] if x.ndim == count + 2 else (1, *x.shape[:-count])
    has_enough_rows = samples.ndim == 3 and samples.shape[0] >= batch[0]
    if not has_enough_rows or samples.shape[1:] != (batch[1], count):
        raise ValueError(
            message(
                f"$_random_samples have shape {samples.shape}.",
                f"$input has shape {x.shape}; there is one number for each plane and axis.",
                f"Give an array of shape {(*batch, count)}, or with more rows.",
            )
        )
    samples = samples[: batch[0], :, ::-1] if count == 2 else samples[: batch[0]]
    return samples if x.ndim == count + 2 else samples[0]
