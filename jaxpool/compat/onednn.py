"""oneDNN's pooling primitive: forward inference, forward training with a workspace, and backward.

Rules of oneDNN 3.13 on CPU. Dilation counts the cells that are left out between two taps, so 0 is
dense. The output size is ``(L + padding_l + padding_r - Ke) / stride + 1``, truncated; a larger
``padding_r`` stands for ceil rounding.

Max. A window starts from the lowest finite value ``v`` of the dtype at tap 0 and takes each cell
that is greater than what it has. So NaN, -inf and ``v`` never win; where nothing does, the result
is ``v`` and the workspace 0, also if tap 0 lies in padding. In other words the maximum is over the
cells greater than ``v``, and all else, padding too, are ties of ``v``. The workspace holds the tap
that won, row-major in the window; oneDNN calls it opaque, and what it reads and writes is this.
Backward sends each cotangent to its tap and drops what falls into padding.

Average. The divisor is the whole window (``avg_include_padding``) or the real cells in it
(``avg_exclude_padding``). Sums run in float32 and are divided there; integers are then rounded half
to even and saturated.

Source: oneDNN developer guide, pooling primitive; the reference implementation where it is silent.
Measured beyond it: s32 passes through float32 in averages and in ``forward_training``, and loses
what float32 does not hold; ``forward_inference`` of max is exact.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, export, lax
from jax.typing import ArrayLike

from .. import _gather
from .._arguments import integer, per_axis
from .._errors import message, shown
from .._linear import rule_for
from .._pick import empty
from .._window import Geometry
from ..ops._common import Settings, window_of
from ..ops.average import avg_pool
from ..ops.max import max_pool, max_pool_with_argmax
from ._words import in_words, remembered

ALGORITHMS = ("max", "avg_include_padding", "avg_exclude_padding")
TAGS = {
    **dict.fromkeys(("ncw", "nchw", "ncdhw"), "channels_first"),
    **dict.fromkeys(("nwc", "nhwc", "ndhwc"), "channels_last"),
    **dict.fromkeys(("nCw8c", "nChw8c", "nCdhw8c"), "blocked"),
    **dict.fromkeys(("nCw16c", "nChw16c", "nCdhw16c"), "blocked"),
}
"""Memory format tags, and how the array lies. Blocked: (N, C / block, spatial.., block)."""

_FLOATS = ("float32", "bfloat16", "float16")
_INTEGERS = ("int8", "uint8", "int32")
_CONVERSIONS = {("int8", "uint8"), ("uint8", "int8"), ("int8", "float32"), ("float32", "int8")}


def forward_inference(
    src: ArrayLike,
    alg_kind: str,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int] | int = 0,
    padding_l: Sequence[int] | int = 0,
    padding_r: Sequence[int] | int = 0,
    *,
    tag: str | None = None,
    dst_dtype: Any = None,
) -> Array:
    """The primitive with ``prop_kind::forward_inference``.

    Args:
      src: array of f32, bf16, f16, s8, u8 or s32, as ``tag`` says.
      alg_kind: "max", "avg_include_padding" or "avg_exclude_padding".
      kernel: taps per spatial axis.
      strides: cells between windows, an int or one per spatial axis.
      dilation: cells left out between taps; 0 is dense.
      padding_l: cells of padding before the first cell.
      padding_r: cells of padding after the last cell; may be negative, down to ``-stride``.
      tag: memory format of ``src`` and of the result; default "ncw", "nchw" or "ncdhw" by rank.
      dst_dtype: dtype of the result; default that of ``src``. Others: s8 to u8 or f32, u8 to s8,
        f32 to s8, all saturated.
    Returns:
      dst, in the format of ``src``.
    Derivatives: forward and reverse, any order; those of :func:`backward`.
    Raises:
      ValueError: what oneDNN refuses, with its status in the message.
    Example:
      >>> from jaxpool.compat import onednn
      >>> x = jnp.array([[[1.0, 3.0, 2.0, 5.0]]])
      >>> onednn.forward_inference(x, "max", (2,), (1,), dilation=1)[0, 0]
      Array([2., 5.], dtype=float32)
    """
    op = "forward_inference"
    src = jnp.asarray(src)
    words = (kernel, strides, dilation, padding_l, padding_r)
    call = _call(op, src.shape, alg_kind, words, tag)
    dtype = _result_dtype(op, src, dst_dtype)
    with in_words(op, window_shape="kernel"):
        return _forward_only(src, call, dtype)


def forward_training(
    src: ArrayLike,
    alg_kind: str,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int] | int = 0,
    padding_l: Sequence[int] | int = 0,
    padding_r: Sequence[int] | int = 0,
    *,
    tag: str | None = None,
) -> tuple[Array, Array | None]:
    """The primitive with ``prop_kind::forward_training``; arguments as :func:`forward_inference`.

    Returns:
      (dst, workspace). For "max" the workspace has the shape and format of dst and holds the number
      of the tap that won, in uint8 for windows of up to 255 taps, else in int32. For averages it is
      None.
    Derivatives: dst as :func:`forward_inference`; the workspace has none.
    Example:
      >>> from jaxpool.compat import onednn
      >>> x = jnp.array([[[1.0, 3.0, 2.0, 5.0]]])
      >>> onednn.forward_training(x, "max", (2,), (1,))[1]
      Array([[[1, 0, 1]]], dtype=uint8)
    """
    op = "forward_training"
    src = jnp.asarray(src)
    words = (kernel, strides, dilation, padding_l, padding_r)
    call = _call(op, src.shape, alg_kind, words, tag)
    dtype = _result_dtype(op, src, None)
    if alg_kind == "max" and src.size == 0:
        raise _refusal(
            op,
            f"`src` of shape {src.shape} is empty.",
            "oneDNN cannot execute the max of an empty tensor with a workspace.",
            "Use forward_inference.",
        )
    with in_words(op, window_shape="kernel"):
        return _forward(src, call, dtype)


def backward(
    diff_dst: ArrayLike,
    workspace: ArrayLike | None,
    alg_kind: str,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int] | int = 0,
    padding_l: Sequence[int] | int = 0,
    padding_r: Sequence[int] | int = 0,
    *,
    src_shape: Sequence[int],
    tag: str | None = None,
) -> Array:
    """The primitive with ``prop_kind::backward``: from the workspace alone, without the source.

    Args:
      diff_dst: cotangent of dst, f32, bf16 or f16.
      workspace: what :func:`forward_training` returned, or oneDNN; None for averages.
      alg_kind, kernel, strides, dilation, padding_l, padding_r, tag: as in the forward call.
      src_shape: shape of the array ``src``, in the format of ``tag``.
    Returns:
      diff_src, of the dtype of ``diff_dst``. It has no scatter, so it is deterministic.
    Derivatives: linear in ``diff_dst``; forward and reverse, any order.
    Example:
      >>> from jaxpool.compat import onednn
      >>> g, taps = jnp.ones((1, 1, 3)), jnp.array([[[1, 0, 1]]], jnp.uint8)
      >>> onednn.backward(g, taps, "max", (2,), (1,), src_shape=(1, 1, 4))
      Array([[[0., 2., 0., 1.]]], dtype=float32)
    """
    op = "backward"
    diff_dst = jnp.asarray(diff_dst)
    shape = tuple(_size(op, size) for size in src_shape)
    words = (kernel, strides, dilation, padding_l, padding_r)
    call = _call(op, shape, alg_kind, words, tag)
    _check_backward(op, diff_dst, workspace, call, shape)
    return _backward(diff_dst, workspace, call, shape)


def reorder(src: ArrayLike, from_tag: str, to_tag: str, *, channels: int | None = None) -> Array:
    """oneDNN's reorder between memory formats of one tensor.

    Args:
      src: array in the format ``from_tag``.
      from_tag, to_tag: memory format tags of the same rank.
      channels: how many channels the tensor has; needed to drop the padding of a blocked format.
    Returns:
      The tensor in the format ``to_tag``; the last block of channels is padded with zeros.
    Example:
      >>> from jaxpool.compat import onednn
      >>> x = jnp.arange(20.0).reshape(1, 20, 1, 1)
      >>> onednn.reorder(x, "nchw", "nChw16c").shape
      (1, 2, 1, 1, 16)
    """
    op = "reorder"
    src = jnp.asarray(src)
    if _spatial_count(op, from_tag) != _spatial_count(op, to_tag):
        raise _refusal(
            op,
            f"`to_tag` = {shown(to_tag)} has another rank than `from_tag` = {shown(from_tag)}.",
            "A reorder changes how a tensor lies, not its axes.",
            "Give two tags of one rank.",
        )
    _check_rank(op, src.shape, from_tag)
    last = _channels_last(src, from_tag)
    if channels is not None:
        last = last[..., : integer(op, "channels", channels, 1)]
    return _from_channels_last(last, to_tag)


# --- words ----------------------------------------------------------------------------------------


class Call(NamedTuple):
    """A call in the words of the library.

    Attributes:
      alg_kind: what a window computes.
      settings: the window, and the layout of the array with blocks of channels as its channels.
      crop: cells at the end of each spatial axis that a negative ``padding_r`` cuts off.
    """

    alg_kind: str
    settings: Settings
    crop: tuple[int, ...]

    def geometry(self, shape: tuple[int, ...]) -> Geometry:
        """The windows over an array of ``shape`` before it is cropped."""
        left = list(shape)
        for position, cells in zip(self.positions(len(shape)), self.crop, strict=True):
            left[position] -= cells
        return self.settings.geometry(tuple(left))

    def positions(self, rank: int) -> tuple[int, ...]:
        """The spatial axes."""
        last = rank - (self.settings.data_format == "channels_last")
        return tuple(range(last - len(self.crop), last))


@remembered
def _call(
    op: str, shape: tuple[int, ...], alg_kind: str, words: tuple[Any, ...], tag: str | None
) -> Call:
    if alg_kind not in ALGORITHMS:
        raise _refusal(
            op,
            f"`alg_kind` = {shown(alg_kind)} is not an algorithm.",
            f"They are {', '.join(ALGORITHMS)}.",
            "Give one of them.",
        )
    tag = _plain_tag(op, shape) if tag is None else tag
    count = _spatial_count(op, tag)
    _check_rank(op, shape, tag)
    kernel, strides, dilation, padding_l, padding_r = words
    kernel = per_axis(op, "kernel", kernel, count)
    strides = per_axis(op, "strides", strides, count)
    dilations = tuple(d + 1 for d in per_axis(op, "dilation", dilation, count, least=0))
    low = per_axis(op, "padding_l", padding_l, count, least=0)
    high = per_axis(op, "padding_r", padding_r, count, least=-max(strides))
    data_format = "channels_first" if TAGS[tag] == "channels_first" else "channels_last"
    first = len(shape) - count - (data_format == "channels_last")
    sizes = shape[first : first + count]
    pads, crop = [], []
    for axis, (size, k, s, d, before, after) in enumerate(
        zip(sizes, kernel, strides, dilations, low, high, strict=True)
    ):
        if not isinstance(size, int):  # symbolic; the core asks for a bound as large as this
            size = 2 * ((k - 1) * d + 1) + s
        room = size + before + after - (k - 1) * d - 1
        if after < -s or room <= -s:
            raise _refusal(
                op,
                f"`kernel` = {k} does not fit spatial axis {axis}.",
                f"It spans {(k - 1) * d + 1} cells, but the axis has {size} + padding "
                f"({before}, {after}).",
                "Use a smaller kernel or dilation, or more padding.",
            )
        if alg_kind == "avg_exclude_padding":
            _check_overlap(op, axis, size, (k - 1) * d + 1, d, before, after)
        # Division truncates, so a window that does not fit by less than a stride is one window.
        after -= min(room, 0)
        pads.append((before, max(after, 0)))
        crop.append(max(-after, 0))
    window, data_format = window_of(op, kernel, strides, pads, dilations, "floor", data_format)
    return Call(alg_kind, Settings(op, window, data_format), tuple(crop))


def _size(op: str, size: Any) -> Any:
    """The length of an axis of ``src``, which an export may leave open."""
    return size if export.is_symbolic_dim(size) else integer(op, "src_shape", size, 0)


def _check_overlap(
    op: str, axis: int, size: int, span: int, dilation: int, before: int, after: int
) -> None:
    if span <= max(before, after) or dilation - 1 >= size:
        raise _refusal(
            op,
            f"a window may hold no cell of spatial axis {axis}.",
            f"It spans {span} cells at dilation {dilation - 1}, over {size} cells with padding "
            f"({before}, {after}).",
            "Excluding padding would divide by 0; pad or dilate less.",
        )


def _plain_tag(op: str, shape: tuple[int, ...]) -> str:
    tags = {3: "ncw", 4: "nchw", 5: "ncdhw"}
    if len(shape) not in tags:
        raise _refusal(
            op,
            f"an array of shape {shape} has no tag of its own.",
            "Without a tag it has 3, 4 or 5 axes: batch, channels, spatial axes.",
            "Add axes, or give a tag.",
        )
    return tags[len(shape)]


def _spatial_count(op: str, tag: Any) -> int:
    if tag not in TAGS:
        raise _refusal(
            op,
            f"`tag` = {shown(tag)} is not a memory format of pooling.",
            f"The tags are {', '.join(TAGS)}.",
            "Give one of them.",
        )
    return sum(letter in "dhw" for letter in tag)


def _check_rank(op: str, shape: tuple[int, ...], tag: str) -> None:
    rank = _spatial_count(op, tag) + 2 + (TAGS[tag] == "blocked")
    blocked = TAGS[tag] == "blocked"
    if len(shape) != rank or (blocked and shape[-1] != _block(tag)):
        raise _refusal(
            op,
            f"an array of shape {shape} does not lie as {tag}.",
            f"It has {rank} axes{f', the last of length {_block(tag)}' if blocked else ''}.",
            "Give the tag that the array has, or reorder it.",
        )


def _refusal(op: str, what: str, facts: str, advice: str, status: str = "invalid_arguments"):
    return ValueError(message(op, what, f"{facts} oneDNN's status is {status}.", advice))


def _result_dtype(op: str, src: Array, dst_dtype: Any) -> np.dtype:
    dtype = src.dtype if dst_dtype is None else jnp.dtype(dst_dtype)
    known = src.dtype == dtype and dtype.name in _FLOATS + _INTEGERS
    if not known and (src.dtype.name, dtype.name) not in _CONVERSIONS:
        raise _refusal(
            op,
            f"{src.dtype} does not become {dtype}.",
            "Pooling knows f32, bf16, f16, s8, u8 and s32, and s8 to u8 or f32, u8 to s8, f32 to "
            "s8.",
            "Convert the array.",
            status="unimplemented",
        )
    return np.dtype(dtype)


def _check_backward(
    op: str, diff_dst: Array, workspace: Any, call: Call, src_shape: tuple[int, ...]
) -> None:
    if diff_dst.dtype.name not in _FLOATS:
        raise _refusal(
            op,
            f"`diff_dst` has dtype {diff_dst.dtype}.",
            "Backward is defined for f32, bf16 and f16.",
            "Integers have no gradient.",
            status="unimplemented",
        )
    geometry = call.geometry(src_shape)
    expected = geometry.full_shape(src_shape)
    if diff_dst.shape != expected:
        raise _refusal(
            op,
            f"`diff_dst` has shape {diff_dst.shape}.",
            f"A source of shape {src_shape} gives {expected}.",
            "Give the settings of the forward call.",
        )
    dtype = np.dtype(np.uint8 if geometry.taps <= 255 else np.int32)
    found = None if workspace is None else (jnp.shape(workspace), jnp.asarray(workspace).dtype)
    if call.alg_kind == "max" and found != (expected, dtype):
        raise _refusal(
            op,
            "`workspace` is not that of the forward call.",
            f"For these settings it has shape {expected} and dtype {dtype}, not {found}.",
            "Give what forward_training returned.",
        )


# --- arrays ---------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=(1, 2))
def _forward(src: Array, call: Call, dtype: np.dtype) -> tuple[Array, Array | None]:
    if call.alg_kind != "max":
        return _average(src, call, dtype), None
    x = _cropped(src, call)
    if src.dtype == jnp.int32:
        x = x.astype(jnp.float32)
    values, taps = rule_for(x, _scan)(x, call.settings)
    return _saturated(values, dtype), taps


@functools.partial(jax.jit, static_argnums=(1, 2))
def _forward_only(src: Array, call: Call, dtype: np.dtype) -> Array:
    if call.alg_kind != "max":
        return _average(src, call, dtype)
    largest = rule_for(src, _largest)(_cropped(src, call), call.settings)
    return _saturated(largest, dtype)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _backward(diff_dst: Array, workspace: Any, call: Call, src_shape: tuple[int, ...]) -> Array:
    wide = jnp.float32

    def forward(src: Array) -> Array:
        if call.alg_kind != "max":
            return _average(src, call, np.dtype(wide))
        return _gather.read(_cropped(src, call), workspace, call.geometry(src_shape))

    _, send = jax.vjp(forward, jnp.zeros(src_shape, wide))
    return send(diff_dst.astype(wide))[0].astype(diff_dst.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _largest(x: Array, settings: Settings) -> Array:
    """The maximum of the cells greater than the lowest, or the lowest."""
    lowest = _lowest(x)
    return jnp.maximum(_over_windows(max_pool, x, settings, where=x > lowest), lowest)


@_largest.defjvp
def _largest_jvp(settings: Settings, primals, tangents):
    (values, _), (tangent, _) = _scan_jvp(settings, primals, tangents)
    return values, tangent


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _scan(x: Array, settings: Settings) -> tuple[Array, Array]:
    """As :func:`_largest`, with the tap, 0 if there is no such cell."""
    lowest = _lowest(x)
    values, taps = _over_windows(
        max_pool_with_argmax, x, settings, where=x > lowest, index_space="window"
    )
    none = taps == empty(taps.dtype)
    return jnp.maximum(values, lowest), jnp.where(none, np.zeros((), taps.dtype), taps)


@_scan.defjvp
def _scan_jvp(settings: Settings, primals, tangents):
    values, taps = _scan(*primals, settings)
    tangent = _gather.read(tangents[0], taps, settings.geometry(primals[0].shape))
    return (values, taps), (tangent, jax.custom_derivatives.zero_from_primal(taps))


def _lowest(x: Array) -> Array:
    limits = jnp.finfo if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.iinfo
    return jnp.full((), limits(x.dtype).min, x.dtype)


def _over_windows(op: Callable[..., Any], x: Array, settings: Settings, **words: Any) -> Any:
    window = settings.window
    return op(
        x, window.kernel, window.strides, window.padding, dilations=window.dilations,
        data_format=settings.data_format, **words,
    )  # fmt: skip


def _average(src: Array, call: Call, dtype: np.dtype) -> Array:
    whole = call.alg_kind == "avg_include_padding"
    divisor = math.prod(call.settings.window.kernel) if whole else None
    x = _cropped(src, call).astype(jnp.float32)
    words = {"count_include_pad": False, "divisor_override": divisor}
    return _saturated(_over_windows(avg_pool, x, call.settings, **words), dtype)


def _saturated(y: Array, dtype: np.dtype) -> Array:
    """``y`` in another dtype; floats become integers half to even, what is out of range its end."""
    if not jnp.issubdtype(dtype, jnp.integer) or y.dtype == dtype:
        return y.astype(dtype)
    limits = np.iinfo(dtype)
    if jnp.issubdtype(y.dtype, jnp.integer):
        wide = y.astype(jnp.int32)
        return jnp.clip(wide, limits.min, limits.max).astype(dtype)
    y = lax.round(y, lax.RoundingMethod.TO_NEAREST_EVEN)
    over = y >= np.float32(limits.max)  # which float32 rounds up to 2**31 for s32
    safe = jnp.where(over, np.float32(0), jnp.maximum(y, np.float32(limits.min)))
    return jnp.where(over, np.asarray(limits.max, dtype), safe.astype(dtype))


def _cropped(x: Array, call: Call) -> Array:
    for position, cells in zip(call.positions(x.ndim), call.crop, strict=True):
        x = lax.slice_in_dim(x, 0, x.shape[position] - cells, axis=position)
    return x


def _block(tag: str) -> int:
    return 16 if tag.endswith("16c") else 8


def _channels_last(x: Array, tag: str) -> Array:
    if TAGS[tag] == "channels_first":
        return jnp.moveaxis(x, 1, -1)
    if TAGS[tag] == "blocked":
        x = jnp.moveaxis(x, 1, -2)
        return x.reshape(*x.shape[:-2], -1)
    return x


def _from_channels_last(x: Array, tag: str) -> Array:
    if TAGS[tag] == "channels_first":
        return jnp.moveaxis(x, -1, 1)
    if TAGS[tag] == "blocked":
        block = _block(tag)
        x = lax.pad(
            x, np.zeros((), x.dtype), [(0, 0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % block, 0)]
        )
        return jnp.moveaxis(x.reshape(*x.shape[:-1], -1, block), -2, 1)
    return x
