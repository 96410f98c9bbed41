"""Maxima and averages over adaptive windows."""

from typing import Any

from jax import Array
from jax.typing import ArrayLike

from ..._errors import public
from ..._geometry.arguments import as_bool, is_sequence
from .._averages import adaptive_average_by
from .._checks import index_dtype, ints
from .._rules import adaptive_max_by, adaptive_max_with_argmax_by
from ._overloads import adaptive_max
from .arguments import OutputSize, array


@adaptive_max
@public
def adaptive_max_pool1d(
    input: ArrayLike, output_size: OutputSize, return_indices: bool = False
) -> Any:
    """Return the maximum over adaptive windows of one axis; see :func:`adaptive_max_pool2d`."""
    return _adaptive_max(1, input, output_size, return_indices)


@adaptive_max
@public
def adaptive_max_pool2d(
    input: ArrayLike, output_size: OutputSize, return_indices: bool = False
) -> Any:
    """Return the maximum over adaptive windows, as ``F.adaptive_max_pool2d``.

    Args:
      input: array (N, C, H, W) or (C, H, W).
      output_size: number of windows per axis, an int or a pair; None keeps the length of the axis.
      return_indices: whether to also return the indices of the maxima, flat over (H, W).
    Returns:
      Array of the dtype of ``input``, or (values, indices).
    Derivatives: as :func:`jaxpool.adaptive_max_pool`; with NaN, at the last NaN of the window.
    Raises:
      TypeError, ValueError: as :func:`max_pool2d`.
    References: PyTorch 2.13, ``torch.nn.AdaptiveMaxPool2d``.
    Example:
      >>> x = jnp.array([[[3.0, 1.0, 2.0, 5.0, 4.0]]])
      >>> jaxpool.compat.torch.adaptive_max_pool1d(x, 3, return_indices=True)[1][0, 0]
      Array([0, 3, 3], dtype=int32)
    """
    return _adaptive_max(2, input, output_size, return_indices)


@adaptive_max
@public
def adaptive_max_pool3d(
    input: ArrayLike, output_size: OutputSize, return_indices: bool = False
) -> Any:
    """Return the maximum over adaptive windows of three axes; see :func:`adaptive_max_pool2d`."""
    return _adaptive_max(3, input, output_size, return_indices)


def _adaptive_max(count: int, input: Any, output_size: Any, return_indices: Any) -> Any:
    x = array(count, input, first=1)
    sizes = _output_size(count, output_size)
    if not as_bool("return_indices", return_indices):
        return adaptive_max_by("last_nan", x, sizes)
    dtype = index_dtype(x.shape[-count:])
    return adaptive_max_with_argmax_by("last_nan", x, sizes, index_dtype=dtype)


@public
def adaptive_avg_pool1d(input: ArrayLike, output_size: OutputSize) -> Array:
    """Return the average over adaptive windows of one axis; see :func:`adaptive_avg_pool2d`."""
    return _adaptive_average(1, input, output_size)


@public
def adaptive_avg_pool2d(input: ArrayLike, output_size: OutputSize) -> Array:
    """Return the average over adaptive windows, as ``F.adaptive_avg_pool2d``.

    Args:
      input, output_size: as in :func:`adaptive_max_pool2d`.
    Returns:
      Array of the dtype of ``input``.
    Derivatives: linear; as :func:`jaxpool.adaptive_avg_pool`.
    Raises:
      TypeError, ValueError: as :func:`max_pool2d`.
    References: PyTorch 2.13, ``torch.nn.AdaptiveAvgPool2d``.
    Example:
      >>> x = jnp.arange(1.0, 8.0).reshape(1, 1, 7)
      >>> jaxpool.compat.torch.adaptive_avg_pool1d(x, 3)[0, 0]
      Array([2., 4., 6.], dtype=float32)
    """
    return _adaptive_average(2, input, output_size)


@public
def adaptive_avg_pool3d(input: ArrayLike, output_size: OutputSize) -> Array:
    """Return the average over adaptive windows of three axes; see :func:`adaptive_avg_pool2d`."""
    return _adaptive_average(3, input, output_size)


def _adaptive_average(count: int, input: Any, output_size: Any) -> Array:
    # PyTorch's 1-D and 2-D averages accept zero channels, its 3-D average does not.
    x = array(count, input, first=1 if count == 3 else -count)
    return adaptive_average_by("trunc", x, _output_size(count, output_size))


def _output_size(count: int, output_size: Any) -> tuple[int | None, ...]:
    if not is_sequence(output_size):
        output_size = (output_size,) * count
    numbers = [0 if size is None else size for size in output_size]
    sizes = ints("output_size", numbers, count, least=0)
    return tuple(
        None if requested is None else size
        for requested, size in zip(output_size, sizes, strict=True)
    )
