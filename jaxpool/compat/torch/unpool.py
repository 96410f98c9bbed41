"""Maxima placed back at their indices."""

from typing import Any

from jax import Array
from jax.typing import ArrayLike

from ..._errors import message, public, renaming_arguments
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
    """Place maxima of one pooled axis at their indices; see :func:`max_unpool2d`."""
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
    """Place the values of a max pooling at their indices, as ``F.max_unpool2d``.

    Args:
      input: array (N, C, H, W) or (C, H, W).
      indices: integers of the same shape, flat over (H, W) of the result.
      kernel_size, stride, padding: settings of the pooling; an axis of the result has the length
        ``(n - 1) * stride + kernel_size - 2 * padding``.
      output_size: another size of the pooled axes, or of all axes, that differs by less than a
        stride.
    Returns:
      Array of the dtype of ``input``, zero where no index points. If indices repeat, the last value
      is kept.
    Derivatives: linear; as :func:`jaxpool.max_unpool`.
    Edge cases: an index may be any element of the result; if each index is in its own window, no
      scatter runs. -1, the index of an empty window, is ignored. Any other index outside the result
      is an error in an eager call, and is dropped inside a transformation, where values are
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
    """Place maxima of three pooled axes at their indices; see :func:`max_unpool2d`."""
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
    # A longer axis has elements after the last window; a shorter axis gets padding at its end.
    pairs = tuple((p, p + max(0, d - n)) for p, d, n in zip(pads, default, shape, strict=True))
    windows = {"window_shape": kernel, "strides": strides, "padding": pairs}
    with renaming_arguments(output_shape="output_size"):
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
                    f"$output_size = {size} is not a valid size of pooled axis {axis}.",
                    f"The default is {usual}; the size must differ from it by less than the "
                    f"stride, {stride}.",
                    "Give the size of the array that was pooled.",
                )
            )
    return sizes
