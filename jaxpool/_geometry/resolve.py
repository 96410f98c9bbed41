"""Geometry of a window over a shape: every rule that decides what a window reads.

With the symbols of :mod:`.axis`, the dilated kernel ``Ke = (K - 1) * D + 1`` and
``n = L + PB + PE - Ke``, the number of windows is ``n // S + 1`` (floor), ``cdiv(n, S) + 1``
(ceil), or the latter minus one if the last window would start at or past ``L + PB`` (ceil_torch,
PyTorch's ``ceil_mode``). "SAME" padding is ``max(Ke - (L mod S or S), 0)`` in total (TensorFlow,
OpenVINO). The larger half is at the end (SAME, SAME_UPPER) or at the beginning (SAME_LOWER).

Source: Dumoulin and Visin 2016, arXiv:1603.07285, section 5; OpenVINO opset 14, pooling shape
rules; PyTorch ``pooling_output_shape``.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._errors import counted, message, public, shown
from .arguments import Integers, is_sequence, length_of, per_axis
from .axis import INT32_MAX, Axis, cdiv
from .layout import with_lengths
from .window import CEIL_OR_ONE, Padding, Rounding, Window, check_taps


@dataclass(frozen=True)
class Geometry:
    """Finished geometry of a pooling: one :class:`Axis` per pooled axis, and the array axes.

    A geometry contains everything that array code needs to know about a window, as Python integers.
    It is frozen and hashable, and is built by :func:`geometry`.

    Attributes:
      axes: one Axis per pooled axis, in the order of the array.
      positions: the array axis of each, counted from the end (negative), in ascending order.

    Example:
      >>> shape = geometry((7,), 2, 3, rounding="ceil_torch")
      >>> shape.out_shape, shape.axes[0].overhang, shape.axes[0].counts(include_pad=True)
      ((3,), 1, (2, 2, 1))
    """

    axes: tuple[Axis, ...]
    positions: tuple[int, ...]

    @property
    def placed(self) -> tuple[tuple[Axis, int], ...]:
        """The pairs of an axis and its position."""
        return tuple(zip(self.axes, self.positions, strict=True))

    @property
    def spatial_shape(self) -> tuple[int, ...]:
        """Lengths of the pooled axes of the input."""
        return tuple(axis.size for axis in self.axes)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Lengths of the pooled axes of the output."""
        return tuple(axis.out for axis in self.axes)

    @property
    def kernel(self) -> tuple[int, ...]:
        """Taps per pooled axis."""
        return tuple(axis.kernel for axis in self.axes)

    @property
    def taps(self) -> int:
        """Taps per window."""
        return math.prod(self.kernel)

    @property
    def has_empty_window(self) -> bool:
        """Whether some window contains no element."""
        return any(axis.has_empty_window for axis in self.axes)

    @property
    def is_non_overlapping(self) -> bool:
        """Whether the stride is at least the span on every axis, so that windows do not overlap."""
        return all(axis.stride >= axis.span for axis in self.axes)

    @property
    def is_strided(self) -> bool:
        """Whether some axis has a stride above 1."""
        return any(axis.stride > 1 for axis in self.axes)

    def compact(self) -> "Geometry":
        """Return the geometry with :meth:`Axis.compact` applied to every axis."""
        return Geometry(tuple(axis.compact() for axis in self.axes), self.positions)

    def full_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the output shape of an input of ``shape``: pooled axes get their output length."""
        return with_lengths(shape, self.positions, self.out_shape)


@public
def geometry(
    spatial_shape: Integers,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    dilations: Integers = 1,
    rounding: Rounding = "floor",
) -> Geometry:
    """Return the geometry of a window over an array: sizes, padding, overhang and counts, as ints.

    Tap ``t`` of window ``o`` on an axis reads position ``q = o * stride - pad_low + t * dilation``.
    The function creates no array.

    Args:
      spatial_shape: lengths of the pooled axes (an int for one axis), each >= 1.
      window_shape: taps per pooled axis, >= 1 (an int for one axis).
      strides: int or one per pooled axis, >= 1.
      padding: "VALID", "SAME" (= "SAME_UPPER") or "SAME_LOWER" in any case; an int, one int per
        pooled axis, or (low, high) pairs, in elements, >= 0.
      dilations: int or one per pooled axis, >= 1; 1 is a dense window.
      rounding: "floor", "ceil" (OpenVINO) or "ceil_torch" (PyTorch, ONNX).
    Returns:
      Geometry, whose ``axes`` contain size, kernel, stride, dilation, pad_low, pad_high, overhang,
      out.
    Edge cases: SAME with "ceil" can give one window more than ``ceil(size / stride)`` if the stride
      exceeds the kernel; "ceil" may give windows without an element.
    Raises:
      TypeError: a setting is not an integer. ValueError: it is out of range or does not fit.
    References: Dumoulin and Visin 2016 (arXiv:1603.07285), section 5.
    Example:
      >>> geometry((112, 112), (3, 3), 2, "SAME").out_shape
      (56, 56)
      >>> geometry(5, 2, 2, 1, rounding="ceil").axes[0].counts(include_pad=False)
      (1, 2, 2, 0)
    """
    window = Window(window_shape, strides, padding, dilations, rounding)
    if is_sequence(spatial_shape) and length_of(spatial_shape) != len(window.kernel):
        raise ValueError(
            message(
                f"$spatial_shape = {shown(spatial_shape)} has "
                f"{counted(length_of(spatial_shape), 'entry')}.",
                f"$window_shape has {counted(len(window.kernel), 'entry')}.",
                "Give each of them one entry per pooled axis, such as (112, 112) and (3, 3).",
            )
        )
    sizes = per_axis("spatial_shape", spatial_shape, len(window.kernel), least=0)
    return resolve(window, sizes, tuple(range(-len(sizes), 0)))


def resolve(window: Window, spatial_shape: Sequence[int], positions: tuple[int, ...]) -> Geometry:
    """Return the geometry of ``window`` over pooled axes of sizes ``spatial_shape``.

    ``positions`` are the array axes of the pooled axes.
    """
    axes = tuple(resolve_axis(window, index, size) for index, size in enumerate(spatial_shape))
    check_taps(window.kernel)
    return Geometry(axes, positions)


def resolve_axis(window: Window, index: int, size: int) -> Axis:
    """Return the geometry of pooled axis ``index``."""
    kernel, stride, dilation = window.kernel[index], window.strides[index], window.dilations[index]
    if not isinstance(size, int):
        _check_symbolic(window, index, size)
    check_not_empty(index, size)
    span = span_of(window, index)
    low, high = padding = axis_padding(window, index, size, span)
    padded = size + low + high
    excess = span - padded
    if excess > 0 and (window.rounding != CEIL_OR_ONE or excess >= stride):
        raise ValueError(window_too_long("window_shape", index, kernel, dilation, size, padding))
    _check_length(index, size, padding)
    out = window_count(padded - span, stride, window.rounding, size + low)
    overhang = max(0, (out - 1) * stride + span - padded)
    return Axis(size, kernel, stride, dilation, low, high, overhang, out)


def span_of(window: Window, index: int) -> int:
    """Return the elements from the first to the last tap of a window along a pooled axis."""
    return (window.kernel[index] - 1) * window.dilations[index] + 1


def axis_padding(window: Window, index: int, size: int, span: int) -> tuple[int, int]:
    """Return the elements of padding before and after pooled axis ``index``."""
    if window.padding == "VALID":
        return 0, 0
    if isinstance(window.padding, str):
        return _same_padding(size, span, window.strides[index], window.padding)
    return window.padding[index]


def _same_padding(size: int, span: int, stride: int, word: str) -> tuple[int, int]:
    total = max(span - (size % stride or stride), 0)
    small, big = total // 2, total - total // 2
    return (small, big) if word == "SAME_UPPER" else (big, small)


def window_count(slack: int, stride: int, rounding: str, start_limit: int) -> int:
    """Return the number of windows of an axis, with ``n = slack`` and ``L + PB = start_limit``."""
    if rounding == "floor":
        return slack // stride + 1
    steps = cdiv(slack, stride)
    if rounding == "ceil" or steps * stride < start_limit:
        return steps + 1
    return steps


def check_not_empty(index: int, size: int) -> None:
    """Raise if pooled axis ``index`` is known to have no element."""
    if is_at_least(0, size):
        raise ValueError(
            message(
                f"pooled axis {index} has size {size}.",
                "A window needs at least one element on every pooled axis; only batch and channel "
                "axes may be empty.",
                "Check the shape and $data_format.",
            )
        )


def _check_length(index: int, size: int, padding: tuple[int, int]) -> None:
    padded = size + sum(padding)
    if isinstance(padded, int) and padded > INT32_MAX:
        raise ValueError(
            message(
                f"pooled axis {index} has {padded} elements with its padding.",
                f"It has {size} + padding {padding}; the limit is {INT32_MAX}.",
                "Use less padding." if size <= INT32_MAX else "Split the axis.",
            )
        )


def window_too_long(
    name: str, index: int, kernel: int, dilation: int, size: int, padding: tuple[int, int]
) -> str:
    """Return the message that the window, the argument ``name``, exceeds a padded axis."""
    span = (kernel - 1) * dilation + 1
    return message(
        f"${name} = {kernel} does not fit pooled axis {index}.",
        f"It spans {span} elements at dilation {dilation}, but the axis has {size} "
        f"+ padding {padding} = {size + sum(padding)}.",
        f"Use a smaller window or dilation, or padding of at least {span - size} in total.",
    )


# --- symbolic sizes -------------------------------------------------------------------------------


def is_static(sizes: Sequence[Any]) -> bool:
    """Return whether all sizes are integers; in an export they may be symbolic."""
    return all(isinstance(size, int) for size in sizes)


def check_known(spatial_shape: Sequence[Any]) -> None:
    """Raise if a pooled axis has a symbolic size, as ``jax.export`` allows."""
    for index, size in enumerate(spatial_shape):
        check_known_axis(index, size)


def check_known_axis(index: int, size: Any) -> None:
    """Raise if pooled axis ``index`` has a symbolic size."""
    if not isinstance(size, int):
        raise ValueError(
            message(
                f"pooled axis {index} has the symbolic size {size}.",
                "This op computes the positions of its windows as Python integers.",
                "Export with a number in its place, once for each size.",
            )
        )


def _check_symbolic(window: Window, index: int, size: Any) -> None:
    """Raise unless an axis has the same windows at both ends for every size.

    There may be any number of windows between the ends. Comparisons of expressions of the size,
    such as ``out``, then have the same answer for all sizes, so the expressions can be used like
    Python integers. ``max(a, b)`` evaluates ``b > a``, so its arguments are in the order for which
    the answer is known.
    """
    stride, padding = window.strides[index], window.padding
    drops_remainder = window.rounding == "floor" and (
        padding == "VALID" or (not isinstance(padding, str) and padding[index][1] == 0)
    )
    if stride > 1 and not drops_remainder:
        drops = "no padding at the end" if window.rounding == "floor" else 'rounding "floor"'
        raise ValueError(
            message(
                f"pooled axis {index} has the symbolic size {size}.",
                f"At stride {stride}, with padding at its end or ceil rounding, the elements that "
                "its last window reads depend on the size.",
                f"Use stride 1, or {drops}; or export with a number in its place, once for each "
                "size.",
            )
        )
    span = span_of(window, index)
    check_at_least(
        f"pooled axis {index}", size, span + max(span, stride),
        f"A window spans {span} elements at stride {stride}, and an axis of unknown size must have "
        "space for two windows that do not overlap.",
    )  # fmt: skip


def check_at_least(axis: str, size: Any, min_size: int, reason: str) -> None:
    """Raise with this ``reason`` unless the symbolic ``size`` is known to be >= ``min_size``."""
    if not is_at_least(size, min_size):
        raise ValueError(
            message(
                f"{axis} has the symbolic size {size}, which may be too small.",
                reason,
                f'Bound it: symbolic_shape(..., constraints=["{size} >= {min_size}"]).',
            )
        )


def is_at_least(size: Any, minimum: Any) -> bool:
    """Return whether ``size >= minimum`` is known to hold for all values of symbolic sizes."""
    try:
        return bool(size >= minimum)
    except Exception:  # undecided; not every JAX exports the class of the error
        return False


def bound_of(count: Any, maximum: int, problem: str) -> int:
    """Return ``count``, or the smallest power of two that a symbolic count is known not to exceed.

    ``maximum`` is a power of two. Raise ``problem`` if a symbolic count may exceed it. Return
    ``2 * maximum`` if the count is known to exceed it.
    """
    if isinstance(count, int):
        return count
    bound = maximum if is_at_most(count, maximum, problem) else 2 * maximum
    while bound > 1 and is_at_least(bound // 2, count):
        bound //= 2
    return bound


def is_at_most(value: int, maximum: int, problem: str) -> bool:
    """Return whether ``value <= maximum``; raise ``problem`` if it depends on symbolic sizes."""
    try:
        return bool(value <= maximum)
    except Exception:  # undecided; not every JAX exports the class of the error
        sizes = dict.fromkeys(re.findall(r"[A-Za-z_]\w*\b(?!\()", str(value)))  # skip functions
        bounds = ", ".join(f'"{size} <= 1024"' for size in sizes)
        raise ValueError(
            message(
                f"{problem}.",
                f"They go up to {value}, which is symbolic.",
                f"Bound the sizes, for example symbolic_shape(..., constraints=[{bounds}]).",
            )
        ) from None
