"""Window geometry in Python integers: every rule that decides what a window sees.

For one pooled axis let ``L`` be its length, ``K, S, D`` the kernel, stride and dilation, ``PB, PE``
the declared padding, ``Ke = (K - 1) * D + 1`` the dilated kernel and ``n = L + PB + PE - Ke``.
Tap ``t`` of window ``o`` reads position ``q = o * S - PB + t * D``; it is a real cell when
``0 <= q < L``, declared padding when ``-PB <= q < L + PE``, and overhang when ``q >= L + PE``.

The number of windows is ``n // S + 1`` (floor), ``cdiv(n, S) + 1`` (ceil), or the latter less one
when the last window would start at or past ``L + PB`` (ceil_torch, PyTorch's ``ceil_mode``).
"SAME" padding is ``max(Ke - (L mod S or S), 0)`` in total (TensorFlow, OpenVINO), the odd cell at
the end (SAME, SAME_UPPER) or at the beginning (SAME_LOWER).

Source: Dumoulin and Visin 2016, arXiv:1603.07285, section 5; OpenVINO opset 14, pooling shape
rules; PyTorch ``pooling_output_shape``.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ._arguments import (
    MOST_AXES,
    check_length,
    entries_of,
    integer,
    is_sequence,
    length_of,
    per_axis,
)
from ._errors import message, shown

ROUNDINGS = ("floor", "ceil", "ceil_torch")
CEIL_OR_ONE = "ceil_torch_or_one"
"""For the front ends: PyTorch's and ONNX's ceil_mode to the letter, which is "ceil_torch" but also
makes one window of a kernel that exceeds the padded axis by less than a stride."""
PADDING_WORDS = ("VALID", "SAME", "SAME_UPPER", "SAME_LOWER")

_LONGEST_AXIS = 2**31 - 1

Pairs = tuple[tuple[int, int], ...]


def cdiv(a: int, b: int) -> int:
    """Return ``a / b`` rounded up, exactly."""
    return -((-a) // b)


# --- from what the caller wrote to a window -------------------------------------------------------


def _padding_word(op: str, word: str) -> str:
    upper = word.upper()
    if upper not in PADDING_WORDS:
        raise ValueError(
            message(
                op,
                f"`padding` = {shown(word)} is not a padding.",
                f"The words are {', '.join(PADDING_WORDS)}, in any case.",
                "Give one of them, an integer, one integer per axis, or (low, high) pairs.",
            )
        )
    return "SAME_UPPER" if upper == "SAME" else upper


def _pair(op: str, entry: Any) -> tuple[int, int]:
    if not is_sequence(entry):
        both = integer(op, "padding", entry, 0)
        return both, both
    if length_of(entry) != 2:
        raise ValueError(
            message(
                op,
                f"`padding` holds the entry {shown(entry)}.",
                f"An axis has two ends, low and high; the entry has {length_of(entry)} numbers.",
                "Give an integer for both ends, or a pair (low, high).",
            )
        )
    low, high = entries_of(op, "padding", entry)
    return integer(op, "padding", low, 0), integer(op, "padding", high, 0)


def _padding(op: str, value: Any, count: int) -> str | Pairs:
    if isinstance(value, str):
        return _padding_word(op, value)
    if not is_sequence(value):
        return (_pair(op, value),) * count
    check_length(op, "padding", value, count)
    return tuple(_pair(op, entry) for entry in entries_of(op, "padding", value))


def _rounding(op: str, value: Any) -> str:
    if not isinstance(value, str) or value not in (*ROUNDINGS, CEIL_OR_ONE):
        raise ValueError(
            message(
                op,
                f"`rounding` = {shown(value)} is not a rounding.",
                f"The roundings are {', '.join(ROUNDINGS)}.",
                'Give "ceil_torch" for the ceil_mode of PyTorch and ONNX, "ceil" for OpenVINO.',
            )
        )
    return value


@dataclass(frozen=True)
class Window:
    """What was asked for: a window before it meets an array.

    Built by a checking constructor: every setting may be written as in the public ops and is held
    as a tuple with one entry per pooled axis. Frozen and hashable.

    Attributes:
      kernel: taps per pooled axis.
      strides: cells between neighbouring windows, per pooled axis.
      padding: "VALID", "SAME_UPPER" or "SAME_LOWER", or one (low, high) pair per pooled axis.
      dilations: cells between neighbouring taps, per pooled axis.
      rounding: "floor", "ceil" or "ceil_torch".

    Raises:
      TypeError: a setting is not an integer. ValueError: a setting is out of range or has the
      wrong length.

    Example:
      >>> Window((3, 2), strides=2, padding="same").padding
      'SAME_UPPER'
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    padding: str | Pairs
    dilations: tuple[int, ...]
    rounding: str

    def __init__(
        self,
        kernel: int | Sequence[int],
        strides: int | Sequence[int],
        padding: Any = "VALID",
        dilations: int | Sequence[int] = 1,
        rounding: str = "floor",
        *,
        op: str = "Window",
    ):
        count = length_of(kernel) if is_sequence(kernel) else 1
        if not 0 < count <= MOST_AXES:
            raise ValueError(
                message(
                    op,
                    f"`window_shape` has {count} entries.",
                    f"It has one per pooled axis, and 1 to {MOST_AXES} axes can be pooled.",
                    "Give for example (2, 2) for images.",
                )
            )
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        put("kernel", per_axis(op, "window_shape", kernel, count))
        put("strides", per_axis(op, "strides", strides, count))
        put("padding", _padding(op, padding, count))
        put("dilations", per_axis(op, "dilations", dilations, count))
        put("rounding", _rounding(op, rounding))


# --- from a window and a shape to finished geometry ----------------------------------------------


class Segment(NamedTuple):
    """Windows ``first <= o < last``, all of whose real cells are the taps ``low <= t < high``."""

    first: int
    last: int
    low: int
    high: int


@dataclass(frozen=True)
class Axis:
    """The finished geometry of one pooled axis; all integers, all in cells of the input.

    Attributes:
      size: length of the axis.
      kernel: number of taps.
      stride: distance between the starts of neighbouring windows.
      dilation: distance between neighbouring taps.
      pad_low: declared padding before the first cell.
      pad_high: declared padding after the last cell.
      overhang: cells that the last window reaches past the declared padding (ceil roundings only).
      out: number of windows.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    pad_low: int
    pad_high: int
    overhang: int
    out: int

    @property
    def span(self) -> int:
        """Cells from the first to the last tap of a window, both included."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def reach(self) -> int:
        """Cells past the end of the axis that the last window reaches; can be negative."""
        return self.start(self.out - 1) + self.span - self.size

    def compact(self) -> "Axis":
        """The same windows with no distance longer than the padded axis, where it has no effect.

        Programs would grow with a stride that skips an axis, or count past the integers of XLA.
        """
        padded = self.size + self.pad_low + self.pad_high
        dilation = min(self.dilation, padded) if self.kernel > 1 else 1
        return replace(self, stride=min(self.stride, padded), dilation=dilation)

    def start(self, window: int) -> int:
        """Position of the first tap of ``window``; negative inside the low padding."""
        return window * self.stride - self.pad_low

    def real_taps(self, window: int) -> tuple[int, int]:
        """The taps ``low <= t < high`` of ``window`` that read a real cell."""
        start = self.start(window)
        low = min(self.kernel, max(cdiv(-start, self.dilation), 0))
        high = min(self.kernel, max(cdiv(self.size - start, self.dilation), low))
        return low, high

    def segments(self) -> tuple[Segment, ...]:
        """All windows in order, neighbours that read the same taps taken together."""
        inner_first = min(cdiv(self.pad_low, self.stride), self.out)
        inner_last = (self.size - self.span + self.pad_low) // self.stride + 1
        inner_last = max(min(inner_last, self.out), inner_first)
        runs: list[Segment] = []
        for first, last in self._runs(inner_first, inner_last):
            low, high = self.real_taps(first)
            if runs and (low, high) == runs[-1][2:]:
                runs[-1] = runs[-1]._replace(last=last)
            else:
                runs.append(Segment(first, last, low, high))
        return tuple(runs)

    def _runs(self, inner_first: int, inner_last: int) -> Iterator[tuple[int, int]]:
        """Border windows one by one, the windows wholly inside the axis as one run."""
        yield from ((o, o + 1) for o in range(inner_first))
        if inner_first < inner_last:
            yield inner_first, inner_last
        for after in range(self.out - inner_last):
            yield inner_last + after, inner_last + after + 1

    def counts(self, include_pad: bool) -> tuple[int, ...]:
        """Taps per window that count in an average.

        Args:
          include_pad: count declared padding as well as real cells. Overhang never counts.
        """
        runs = self.count_runs(include_pad)
        return tuple(count for length, count in runs for _ in range(length))

    def count_runs(self, include_pad: bool) -> list[tuple[int, int]]:
        """As :meth:`counts`, neighbours of one count together: (windows, count) of each run."""
        if not include_pad:
            return [(last - first, high - low) for first, last, low, high in self.segments()]
        end = self.size + self.pad_high
        whole = min(max((end - self.span + self.pad_low) // self.stride + 1, 0), self.out)
        last = (whole + after for after in range(self.out - whole))
        cut = (cdiv(end - self.start(o), self.dilation) for o in last)
        inner = [(whole, self.kernel)] if whole else []
        return inner + [(1, max(count, 0)) for count in cut]

    @property
    def has_empty_window(self) -> bool:
        """Whether some window holds no real cell."""
        return any(run.low == run.high for run in self.segments())


@dataclass(frozen=True)
class Geometry:
    """Finished geometry of a pooling: one :class:`Axis` per pooled axis, and where they lie.

    Everything that array code needs to know about a window is here, as Python integers. Frozen and
    hashable; built by :func:`geometry`.

    Attributes:
      axes: one Axis per pooled axis, in the order of the array.
      positions: the array axis of each, counted from the end (negative), so ascending.

    Example:
      >>> shape = geometry((7,), 2, 3, rounding="ceil_torch")
      >>> shape.out_shape, shape.axes[0].overhang, shape.axes[0].counts(include_pad=True)
      ((3,), 1, (2, 2, 1))
    """

    axes: tuple[Axis, ...]
    positions: tuple[int, ...]

    @property
    def placed(self) -> tuple[tuple[Axis, int], ...]:
        """The axes, each with its position."""
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
        """Whether some window holds no real cell."""
        return any(axis.has_empty_window for axis in self.axes)

    @property
    def is_apart(self) -> bool:
        """Whether strides are no shorter than windows, on every axis: no two share a cell."""
        return all(axis.stride >= axis.span for axis in self.axes)

    def full_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return ``shape``, an input shape, with the pooled axes at their output lengths."""
        out = list(shape)
        for position, axis in zip(self.positions, self.axes, strict=True):
            out[position] = axis.out
        return tuple(out)


def _same_padding(size: int, span: int, stride: int, word: str) -> tuple[int, int]:
    total = max(span - (size % stride or stride), 0)
    small, big = total // 2, total - total // 2
    return (small, big) if word == "SAME_UPPER" else (big, small)


def _axis_padding(window: Window, index: int, size: int, span: int) -> tuple[int, int]:
    if window.padding == "VALID":
        return 0, 0
    if isinstance(window.padding, str):
        return _same_padding(size, span, window.strides[index], window.padding)
    return window.padding[index]


def _window_count(room: int, stride: int, rounding: str, last_start: int) -> int:
    """Windows of an axis; ``room`` is n above, ``last_start`` is L + PB."""
    if rounding == "floor":
        return room // stride + 1
    steps = cdiv(room, stride)
    if rounding == "ceil" or steps * stride < last_start:
        return steps + 1
    return steps


def _span(window: Window, index: int) -> int:
    return (window.kernel[index] - 1) * window.dilations[index] + 1


def _axis(op: str, window: Window, index: int, size: int) -> Axis:
    kernel, stride, dilation = window.kernel[index], window.strides[index], window.dilations[index]
    span = _span(window, index)
    if not isinstance(size, int):
        _check_symbolic(op, window, index, size)
    if size < 1:
        raise ValueError(
            message(
                op,
                f"pooled axis {index} has size {size}.",
                "A window needs at least one cell on every pooled axis; only batch and channel "
                "axes may be empty.",
                "Check the shape and `data_format`.",
            )
        )
    low, high = _axis_padding(window, index, size, span)
    padded = size + low + high
    if span > padded and (window.rounding != CEIL_OR_ONE or span - padded >= stride):
        raise ValueError(
            message(
                op,
                f"`window_shape` = {kernel} does not fit pooled axis {index}.",
                f"It spans {span} cells at dilation {dilation}, but the axis has {size} + padding "
                f"({low}, {high}) = {padded}.",
                f"Use a smaller window or dilation, or padding of at least {span - size} in total.",
            )
        )
    out = _window_count(padded - span, stride, window.rounding, size + low)
    if isinstance(padded, int) and padded > _LONGEST_AXIS:
        raise ValueError(
            message(
                op,
                f"pooled axis {index} has {padded} cells with its padding.",
                f"It has {size} + padding ({low}, {high}); an axis holds at most {_LONGEST_AXIS}.",
                "Use less padding.",
            )
        )
    overhang = max(0, (out - 1) * stride + span - padded)
    return Axis(size, kernel, stride, dilation, low, high, overhang, out)


def check_known(op: str, spatial_shape: Sequence[Any]) -> None:
    """Raise if a pooled axis has a symbolic size, as ``jax.export`` allows."""
    for index, size in enumerate(spatial_shape):
        if not isinstance(size, int):
            raise ValueError(
                message(
                    op,
                    f"pooled axis {index} has the symbolic size {size}.",
                    "This op lays its windows out in Python integers.",
                    "Export with a number in its place, once for each size.",
                )
            )


def _check_symbolic(op: str, window: Window, index: int, size: Any) -> None:
    """Raise unless all axes of a symbolic size have the same windows at both ends.

    Between the ends there may be any number of windows: expressions of the size, such as ``out``,
    then behave as Python integers do, if a comparison asks for what is known of all sizes:
    ``max(a, b)`` asks whether ``b > a``, and is written in the order in which that is known.
    """
    stride, padding = window.strides[index], window.padding
    drops_rest = window.rounding == "floor" and (
        padding == "VALID" or (not isinstance(padding, str) and padding[index][1] == 0)
    )
    if stride > 1 and not drops_rest:
        raise ValueError(
            message(
                op,
                f"pooled axis {index} has the symbolic size {size}.",
                f"At stride {stride}, with padding at its end or a ceil rounding, what its last "
                "window reads depends on the size.",
                'Use stride 1, or rounding "floor" without padding at the end; or export with a '
                "number in its place, once for each size.",
            )
        )
    span = _span(window, index)
    least = span + max(span, stride)
    try:
        enough = bool(size >= least)
    except Exception:  # not known; the name of the error is not JAX's everywhere
        enough = False
    if not enough:
        raise ValueError(
            message(
                op,
                f"pooled axis {index} has the symbolic size {size}, which may be too small.",
                f"A window spans {span} cells at stride {stride}, and an axis of unknown size must "
                "hold two windows that do not overlap.",
                f'Bound it: symbolic_shape(..., constraints=["{size} >= {least}"]).',
            )
        )


def settle(
    op: str, window: Window, spatial_shape: Sequence[int], positions: tuple[int, ...]
) -> Geometry:
    """Return the geometry of ``window`` over pooled axes of these sizes at these array axes."""
    axes = (_axis(op, window, index, size) for index, size in enumerate(spatial_shape))
    return Geometry(tuple(axes), positions)


def geometry(
    spatial_shape: int | Sequence[int],
    window_shape: int | Sequence[int],
    strides: int | Sequence[int],
    padding: Any = "VALID",
    *,
    dilations: int | Sequence[int] = 1,
    rounding: str = "floor",
) -> Geometry:
    """Geometry of a window over an array: sizes, padding, overhang and counts, as Python integers.

    Window ``o`` of an axis reads ``q = o * stride - pad_low + t * dilation`` for each tap ``t``.
    No array is made.

    Args:
      spatial_shape: lengths of the pooled axes (an int for one axis), each >= 1.
      window_shape: taps per pooled axis, >= 1 (an int for one axis).
      strides: int or one per pooled axis, >= 1.
      padding: "VALID", "SAME" (= "SAME_UPPER") or "SAME_LOWER" in any case; an int, one int per
        pooled axis, or (low, high) pairs, in cells, >= 0.
      dilations: int or one per pooled axis, >= 1; 1 is a dense window.
      rounding: "floor", "ceil" (OpenVINO) or "ceil_torch" (PyTorch, ONNX).
    Returns:
      Geometry, whose ``axes`` hold size, kernel, stride, dilation, pad_low, pad_high, overhang,
      out.
    Edge cases: SAME with "ceil" can give one window more than ``ceil(size / stride)`` when stride
      exceeds the kernel; "ceil" may make windows without a real cell.
    Raises:
      TypeError: a setting is not an integer. ValueError: it is out of range or does not fit.
    References: Dumoulin and Visin 2016 (arXiv:1603.07285), section 5.
    Example:
      >>> geometry((112, 112), (3, 3), 2, "SAME").out_shape
      (56, 56)
      >>> geometry(5, 2, 2, 1, rounding="ceil").axes[0].counts(include_pad=False)
      (1, 2, 2, 0)
    """
    op = "geometry"
    window = Window(window_shape, strides, padding, dilations, rounding, op=op)
    sizes = per_axis(op, "spatial_shape", spatial_shape, len(window.kernel), least=0)
    return settle(op, window, sizes, tuple(range(-len(sizes), 0)))
