"""The three directions of the primitive, and the reorder between its memory formats."""

from collections.abc import Sequence
from typing import SupportsIndex

from jax import Array
from jax.typing import ArrayLike, DTypeLike

from ..._errors import public, shown
from ..._geometry.arguments import Integers, integer
from .._checks import array
from . import programs
from .call import canonical_call, check_backward, result_dtype, source_shape
from .formats import (
    channels_last,
    check_channels,
    check_rank,
    from_channels_last,
    spatial_count,
    status_error,
)


@public(window_shape="kernel")
def forward_inference(
    src: ArrayLike,
    alg_kind: str,
    kernel: Sequence[SupportsIndex],
    strides: Sequence[SupportsIndex],
    dilation: Integers = 0,
    padding_l: Integers = 0,
    padding_r: Integers = 0,
    *,
    tag: str | None = None,
    dst_dtype: DTypeLike | None = None,
) -> Array:
    """Run the primitive with ``prop_kind::forward_inference``.

    Args:
      src: array of f32, bf16, f16, s8, u8 or s32, in the format ``tag``.
      alg_kind: "max", "avg_include_padding" or "avg_exclude_padding".
      kernel: number of taps per spatial axis.
      strides: elements between windows, an int or one per spatial axis.
      dilation: elements skipped between two taps; 0 is dense.
      padding_l: elements of padding before the first element.
      padding_r: elements of padding after the last element; may be negative, down to ``-stride``.
      tag: memory format of ``src`` and of the result; the default and "any" mean "ncw", "nchw" or
        "ncdhw" by rank.
      dst_dtype: dtype of the result; default that of ``src``. Possible conversions are s8 to u8 or
        f32, u8 to s8, and f32 to s8, all saturated.
    Returns:
      dst, in the format of ``src``.
    Derivatives: forward and reverse, any order; they agree with :func:`backward`.
    Raises:
      ValueError: oneDNN rejects the call; the message contains its status.
    Example:
      >>> from jaxpool.compat import onednn
      >>> x = jnp.array([[[1.0, 3.0, 2.0, 5.0]]])
      >>> onednn.forward_inference(x, "max", (2,), (1,), dilation=1)[0, 0]
      Array([2., 5.], dtype=float32)
    """
    src = array("src", src)
    window_arguments = (kernel, strides, dilation, padding_l, padding_r)
    call = canonical_call(src.shape, alg_kind, window_arguments, tag)
    dtype = result_dtype(src, dst_dtype)
    return programs.forward_only(src, call=call, dtype=dtype)


@public(window_shape="kernel")
def forward_training(
    src: ArrayLike,
    alg_kind: str,
    kernel: Sequence[SupportsIndex],
    strides: Sequence[SupportsIndex],
    dilation: Integers = 0,
    padding_l: Integers = 0,
    padding_r: Integers = 0,
    *,
    tag: str | None = None,
) -> tuple[Array, Array | None]:
    """Run ``prop_kind::forward_training``; the arguments are those of :func:`forward_inference`.

    Returns:
      (dst, workspace). For "max" the workspace has the shape and format of dst and contains the
      window offset of the argmax, in uint8 for windows of up to 255 taps, otherwise in int32. For
      averages it is None.
    Derivatives: dst as :func:`forward_inference`; the workspace has none.
    Example:
      >>> from jaxpool.compat import onednn
      >>> x = jnp.array([[[1.0, 3.0, 2.0, 5.0]]])
      >>> onednn.forward_training(x, "max", (2,), (1,))[1]
      Array([[[1, 0, 1]]], dtype=uint8)
    """
    src = array("src", src)
    window_arguments = (kernel, strides, dilation, padding_l, padding_r)
    call = canonical_call(src.shape, alg_kind, window_arguments, tag)
    dtype = result_dtype(src, None)
    if alg_kind == "max" and src.size == 0:
        raise status_error(
            f"$src of shape {src.shape} is empty.",
            "oneDNN cannot execute the max of an empty tensor with a workspace.",
            "Use forward_inference.",
        )
    return programs.forward(src, call=call, dtype=dtype)


@public
def backward(
    diff_dst: ArrayLike,
    workspace: ArrayLike | None,
    alg_kind: str,
    kernel: Sequence[SupportsIndex],
    strides: Sequence[SupportsIndex],
    dilation: Integers = 0,
    padding_l: Integers = 0,
    padding_r: Integers = 0,
    *,
    src_shape: Sequence[SupportsIndex],
    tag: str | None = None,
) -> Array:
    """Run the primitive with ``prop_kind::backward``, from the workspace without the source.

    Args:
      diff_dst: cotangent of dst, f32, bf16 or f16.
      workspace: workspace from :func:`forward_training` or from oneDNN; None for averages.
      alg_kind, kernel, strides, dilation, padding_l, padding_r, tag: as in the forward call.
      src_shape: shape of the array ``src``, in the format of ``tag``.
    Returns:
      diff_src, of the dtype of ``diff_dst``. The program has no scatter, so it is deterministic.
    Derivatives: linear in ``diff_dst``; forward and reverse, any order.
    Example:
      >>> from jaxpool.compat import onednn
      >>> g, taps = jnp.ones((1, 1, 3)), jnp.array([[[1, 0, 1]]], jnp.uint8)
      >>> onednn.backward(g, taps, "max", (2,), (1,), src_shape=(1, 1, 4))
      Array([[[0., 2., 0., 1.]]], dtype=float32)
    """
    diff_dst = array("diff_dst", diff_dst)
    shape = source_shape(src_shape)
    window_arguments = (kernel, strides, dilation, padding_l, padding_r)
    call = canonical_call(shape, alg_kind, window_arguments, tag)
    check_backward(diff_dst, workspace, call, shape)
    return programs.backward(diff_dst, workspace, call=call, src_shape=shape)


@public
def reorder(src: ArrayLike, from_tag: str, to_tag: str, *, channels: int | None = None) -> Array:
    """Convert a tensor to another memory format, as oneDNN's reorder.

    Args:
      src: array in the format ``from_tag``.
      from_tag, to_tag: memory format tags of the same rank.
      channels: number of channels of the tensor; needed to drop the padding of a blocked format.
    Returns:
      The tensor in the format ``to_tag``; the last block of channels is padded with zeros.
    Raises:
      ValueError: a tag is unknown, the tags differ in rank, ``src`` does not have its format, or it
        does not have as many ``channels``.
    Example:
      >>> from jaxpool.compat import onednn
      >>> x = jnp.arange(20.0).reshape(1, 20, 1, 1)
      >>> onednn.reorder(x, "nchw", "nChw16c").shape
      (1, 2, 1, 1, 16)
    """
    src = array("src", src)
    if spatial_count(from_tag) != spatial_count(to_tag):
        raise status_error(
            f"$to_tag = {shown(to_tag)} differs in rank from $from_tag = {shown(from_tag)}.",
            "A reorder changes the memory layout of a tensor, not its axes.",
            "Give two tags of the same rank.",
        )
    check_rank(src.shape, from_tag)
    last = channels_last(src, from_tag)
    if channels is not None:
        channels = integer("channels", channels, 0)
        check_channels(channels, last.shape[-1], from_tag)
        last = last[..., :channels]
    return from_channels_last(last, to_tag)
