"""Windows over axes of symbolic size, as in ``jax.export``.

If an axis has the same windows at both ends for every size, :mod:`.resolve` computes its geometry
as for Python integers. Any other axis is extended until this is true: the array is explicitly
padded, and a few more elements are appended, so that the extended axis has at least two windows and
drops the remainder. The windows that read the appended elements are the last ones, and are cropped.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from .axis import Axis, cdiv
from .resolve import axis_padding, is_at_least, resolve_axis, span_of, window_count
from .window import Window


class Ends(NamedTuple):
    """The extension of an axis of symbolic size.

    Attributes:
      axis: the geometry before the extension. Only the padding, the number of windows and their
        positions are valid; the number is negative if a window is too long.
      more: elements appended after the padding.
    """

    axis: Axis
    more: int


def ends_of(window: Window, spatial_shape: Sequence[Any]) -> tuple[Ends | None, ...]:
    """Return the extension of each pooled axis, or None for an axis that needs no extension.

    For such an axis, :mod:`.resolve` either computes the windows or raises an error about what
    depends on the size, such as for a ceil rounding with a stride above 1.
    """
    return tuple(
        None if isinstance(size, int) else _extension(window, index, size)
        for index, size in enumerate(spatial_shape)
    )


def inner_window(
    window: Window, spatial_shape: Sequence[Any], ends: Sequence[Ends | None]
) -> Window:
    """Return the window to apply to the array that is extended by ``ends``."""
    pairs = []
    for index, (size, extension) in enumerate(zip(spatial_shape, ends, strict=True)):
        axis = None if extension else resolve_axis(window, index, size)
        pairs.append((axis.pad_low, axis.pad_high) if axis else (0, 0))
    return replace(window, padding=tuple(pairs))


def _extension(window: Window, index: int, size: Any) -> Ends | None:
    kernel, stride, dilation = window.kernel[index], window.strides[index], window.dilations[index]
    span, same = span_of(window, index), window.padding in ("SAME_UPPER", "SAME_LOWER")
    if stride > 1 and window.rounding != "floor":
        return None
    padding = _same_padding if same else axis_padding
    low, high = padding(window, index, size, span)
    covers = same and span > 1
    # Write the sizes as lax does: JAX may not recognise that different expressions are equal.
    slack = size + low + high - span
    out = cdiv(size, stride) if covers else window_count(slack, stride, window.rounding, size + low)
    min_size = span + max(span, stride)
    if is_at_least(size, min_size) and (stride == 1 or (isinstance(high, int) and not high)):
        return None
    more = 0 if is_at_least(size + low + high, min_size) else min_size
    return Ends(Axis(size, kernel, stride, dilation, low, high, 0, out), more)


def _same_padding(window: Window, index: int, size: Any, span: int) -> tuple[Any, Any]:
    """Return "SAME" padding; with gaps between windows, there is more at the end, up to a stride.

    The total is ``max(missing, 0)``. Without gaps, ``missing`` is never negative.
    """
    stride = window.strides[index]
    out = cdiv(size, stride)
    missing = (out - 1) * stride + span - size if span > 1 else 0
    # Python would have to know the sign. The quotient is -1 if it is negative, otherwise 0.
    total = missing * (missing // stride + 1) if 1 < span < stride else missing
    small, big = total // 2, total - total // 2
    low, high = (small, big) if window.padding == "SAME_UPPER" else (big, small)
    # JAX has to recognise that the windows fit, so the padded length is a simple expression.
    return (low, out * stride - size - low) if 1 < span < stride else (low, high)
