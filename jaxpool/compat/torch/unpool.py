"""Maxima put back where they were."""

from typing import Any

from jax import Array
from jax.typing import ArrayLike

from ..._errors import message, public
from ..._geometry.arguments import is_sequence
from ..._geometry.resolve import check_known
from ...ops.unpool import max_unpool
from .._checks import ints
from .arguments import Sizes, array


@public
def max_unpool1d(
    input: ArrayLike,
    indices: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sizes | None = None,
) -> Array:
    """Values of a max pooling of one axis at their indices; see :func:`max_unpool2d`."""
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


@public
def max_unpool2d(
    input: ArrayLike,
    indices: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sizes | None = None,
) -> Array:
    """Values of a max pooling put back at their indices, as ``F.max_unpool2d``.

    Args:
      input: array (N, C, H, W) or (C, H, W).
      indices: integers of the same shape, flat over (H, W) of the result.
      kernel_size, stride, padding: of the pooling; the result has the size ``(n - 1) * stride +
        kernel_size - 2 * padding`` on each axis.
      output_size: another size, less than a stride away: of the pooled axes, or of all.
    Returns:
      Array of the dtype of ``input``, zero where no index points; of equal indices the last is
        kept.
    Derivatives: linear; as :func:`jaxpool.max_unpool`.
    Edge cases: an index may name any element of the result; if each is in its own window, there is
      no scatter. -1, the index of an empty window, is passed over. Any other index outside the
      result is an error in an eager call, and dropped inside a transformation, where values are
      unknown.
    Raises:
      TypeError, ValueError: as :func:`max_pool2d`.
    References: PyTorch 2.13, ``torch.nn.MaxUnpool2d``.
    Example:
      >>> y, indices = jnp.array([[[5.0, 7.0]]]), jnp.array([[[1, 2]]])
      >>> jaxpool.compat.torch.max_unpool1d(y, indices, 2)[0, 0]
      Array([0., 5., 7., 0.], dtype=float32)
    """
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


@public
def max_unpool3d(
    input: ArrayLike,
    indices: ArrayLike,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sizes | None = None,
) -> Array:
    """Values of a max pooling of three axes at their indices; see :func:`max_unpool2d`."""
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)


def _unpool(
    count: int,
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    output_size: Any,
) -> Array:
    y = array(count, input, first=1)
    kernel = ints("kernel_size", kernel_size, count)
    strides = kernel if stride is None else ints("stride", stride, count)
    pads = ints("padding", padding, count, 0)
    check_known(y.shape[-count:])
    rows = zip(y.shape[-count:], kernel, strides, pads, strict=True)
    default = [(size - 1) * s + k - 2 * p for size, k, s, p in rows]
    shape = default if output_size is None else _unpooled_size(output_size, default, strides)
    if min(shape) < 1:
        raise ValueError(
            message(
                f"the result would have size {tuple(shape)}.",
                f"An axis of n has (n - 1) * stride + kernel_size - 2 * padding; $input has shape "
                f"{y.shape}.",
                "Give the settings of the pooling that the indices come from.",
            )
        )
    # Elements that no window needs lie at the end; padding there stands for those that are missing.
    ends = tuple((p, p + max(0, d - n)) for p, d, n in zip(pads, default, shape, strict=True))
    windows = {"window_shape": kernel, "strides": strides, "padding": ends}
    return max_unpool(y, indices, tuple(shape), **windows, data_format="channels_first")


def _unpooled_size(
    output_size: Any, default: list[int], strides: tuple[int, ...]
) -> tuple[int, ...]:
    count = len(default)
    if is_sequence(output_size) and len(output_size) == count + 2:
        output_size = output_size[2:]
    sizes = ints("output_size", output_size, count, int_for_all=False)
    for axis, (size, usual, stride) in enumerate(zip(sizes, default, strides, strict=True)):
        if not usual - stride < size < usual + stride:
            raise ValueError(
                message(
                    f"$output_size = {size} is no size of pooled axis {axis}.",
                    f"Without it the axis has {usual}; it lies within a stride, {stride}, of that.",
                    "Give the size of the array that was pooled.",
                )
            )
    return sizes
