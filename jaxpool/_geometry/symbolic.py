"""Windows over axes whose sizes an export leaves open.

Where an axis has the same windows at both ends for every size, its geometry is that of Python
integers, see :mod:`.resolve`. Any other axis is made such an axis: with its padding around it, and
some more elements behind, it holds at least two windows and drops the rest. The windows that reach
the additional elements are the last ones, and are left out.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from .axis import Axis, cdiv
from .resolve import is_at_least, resolve
from .window import Window


class Ends(NamedTuple):
    """What is put around an axis.

    Attributes:
      axis: in its own coordinates; only of the number of its windows and where they lie is anything
        known. The number is negative where a window is too long.
      low, high: the elements of padding that are put around it.
      more: elements behind the padding.
    """

    axis: Axis
    low: Any
    high: Any
    more: int


def ends_of(window: Window, spatial_shape: Sequence[Any]) -> tuple[Ends | None, ...]:
    """Return what is put around each pooled axis, None around one that needs nothing.

    That is one whose windows :func:`resolve` finds, or one, such as with a ceil rounding at a
    longer stride, of which it says what its size depends on.
    """
    return tuple(
        None if isinstance(size, int) else _ends(window, index, size)
        for index, size in enumerate(spatial_shape)
    )


def inner_window(
    window: Window, spatial_shape: Sequence[Any], ends: Sequence[Ends | None]
) -> Window:
    """The windows over an array that has ``ends`` around it."""
    pairs = []
    for index, (size, around) in enumerate(zip(spatial_shape, ends, strict=True)):
        pairs.append((0, 0) if around else _declared(window, index, size))
    return Window(window.kernel, window.strides, pairs, window.dilations, window.rounding)


def _declared(window: Window, index: int, size: Any) -> tuple[int, int]:
    padding = window.padding if isinstance(window.padding, str) else (window.padding[index],)
    along = (window.kernel[index], window.strides[index], padding, window.dilations[index])
    (axis,) = resolve(Window(*along, window.rounding), (size,), (-1,)).axes
    return axis.pad_low, axis.pad_high


def _ends(window: Window, index: int, size: Any) -> Ends | None:
    kernel, stride, dilation = window.kernel[index], window.strides[index], window.dilations[index]
    span, same = (kernel - 1) * dilation + 1, window.padding in ("SAME_UPPER", "SAME_LOWER")
    if stride > 1 and (window.rounding != "floor" or (same and 1 < span < stride)):
        return None
    low, high = _same(window, size, span, stride) if same else _explicit(window, index)
    covers = same and span > 1  # as lax writes them: equal expressions may not be known to be equal
    out = cdiv(size, stride) if covers else (size + low + high - span) // stride + 1
    least = span + max(span, stride)
    if is_at_least(size, least) and (stride == 1 or (isinstance(high, int) and not high)):
        return None
    more = 0 if is_at_least(size + low + high, least) else least
    return Ends(Axis(size, kernel, stride, dilation, low, high, 0, out), low, high, more)


def _explicit(window: Window, index: int) -> tuple[int, int]:
    return (0, 0) if isinstance(window.padding, str) else window.padding[index]


def _same(window: Window, size: Any, span: int, stride: int) -> tuple[Any, Any]:
    """ "SAME" padding of windows that leave no gaps, which is never negative."""
    total = (cdiv(size, stride) - 1) * stride + span - size if span > 1 else 0
    small, big = total // 2, total - total // 2
    return (small, big) if window.padding == "SAME_UPPER" else (big, small)
