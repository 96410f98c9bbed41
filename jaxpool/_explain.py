"""What a pooling will do, before it runs: sizes, windows, divisors, cost, lowering. No arrays.

The receptive field of a stack of windows follows Araujo, Norris and Sim 2019, "Computing receptive
fields of convolutional neural networks" (distill.pub): with ``r`` the field, ``j`` the distance
between neighbouring fields and ``s`` the first cell of the first one, a window of dilated size
``Ke``, stride ``S`` and low padding ``P`` makes ``r += (Ke - 1) * j``, ``s -= P * j``, ``j *= S``.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from ._arguments import entries_of, flag, is_sequence, per_axis
from ._errors import message, shown
from ._picture import draw
from ._plan import Plan, check_name
from ._reductions import MAX, MIN, SUM, Reduction, sum_dtype
from ._window import Axis, Geometry, Window, settle
from .lowerings.reduce_window import configuration
from .ops._common import Settings, window_of

_REDUCTIONS: dict[str, Reduction] = {
    "max_pool": MAX,
    "max_pool_with_argmax": MAX,
    "min_pool": MIN,
    "sum_pool": SUM,
    "avg_pool": SUM,
}
_SHOWN = 3
"""Windows listed at each end of an axis."""
_LONGEST_LISTED = 2**24
"""Cells of the longest axis that is searched for cells that no window reads."""


@dataclass(frozen=True)
class Explanation:
    """What :func:`explain` found. ``str`` gives a page of text, :meth:`plot` a picture.

    Attributes:
      op: name of the op.
      input_shape: full shape of the array.
      output_shape: full shape of the result.
      dtype: dtype of the array.
      window: what was asked for.
      geometry: what it means for this array.
      plan: the lowering of each platform, and why the others declined.
      count_include_pad: whether declared padding counts in an average.
    """

    op: str
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    dtype: np.dtype
    window: Window
    geometry: Geometry
    plan: Plan
    count_include_pad: bool = True

    @property
    def divisors(self) -> tuple[tuple[int, ...], ...]:
        """Per pooled axis, the taps of each window that count; a divisor is their product."""
        return tuple(axis.counts(self.count_include_pad) for axis in self.geometry.axes)

    @property
    def operations(self) -> int:
        """Comparisons or additions of a window-by-window evaluation, padding included."""
        return math.prod(self.output_shape) * (self.geometry.taps - 1)

    @property
    def bytes(self) -> int:
        """Bytes that must be read and written once: the array and the result, with its indices."""
        written = sum_dtype(self.dtype) if self.op == "sum_pool" else self.dtype
        each = written.itemsize + (4 if self.op == "max_pool_with_argmax" else 0)
        cells, windows = math.prod(self.input_shape), math.prod(self.output_shape)
        return cells * self.dtype.itemsize + windows * each

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def plot(self, path: Any = None, *, window: Sequence[int] | None = None) -> Any:
        """Draw the padded array, its windows and the taps of one window.

        Args:
          path: file to write (its suffix names the format), or None.
          window: number of the highlighted window on each pooled axis; None is the middle one.
        Returns:
          The matplotlib figure.
        Raises:
          ModuleNotFoundError: matplotlib is not installed; ``pip install "jaxpool[plot]"``.
        """
        title = f"{self.op} {self.input_shape} to {self.output_shape}"
        return draw(self.geometry, len(self.input_shape), title, path, window)


def explain(
    x_or_shape: Any,
    window_shape: Any,
    strides: Any,
    padding: Any = "VALID",
    *,
    op: str = "max_pool",
    dilations: Any = 1,
    rounding: str = "floor",
    data_format: str = "channels_last",
    dtype: Any = None,
    count_include_pad: bool = True,
    lowering: str = "auto",
) -> Explanation:
    """Say what a pooling does to a shape: sizes, windows, divisors, cost and lowering.

    Tap ``t`` of window ``o`` reads ``o * stride - pad_low + t * dilation`` of each pooled axis; the
    text lists the first windows and the last one, and the cells that no window reads.

    Args:
      x_or_shape: an array (anything with a shape and a dtype), or a full shape.
      window_shape, strides, padding, dilations, rounding, data_format, lowering: as in
        :func:`max_pool`.
      op: "max_pool", "max_pool_with_argmax", "min_pool", "sum_pool" or "avg_pool".
      dtype: dtype of the array; None is that of the array, float32 for a shape.
      count_include_pad: as in :func:`avg_pool`.
    Returns:
      Explanation, which prints as text and draws itself.
    Raises:
      TypeError: a setting is not an integer. ValueError: it is out of range or does not fit, or
      ``op`` is none of these. NotImplementedError: the named lowering declines.
    Example:
      >>> print(str(explain((1, 7, 1), (3,), 2, 1)).splitlines()[1])
        output       (1, 4, 1), from float32 (1, 7, 1)
    """
    if not isinstance(op, str) or op not in _REDUCTIONS:
        raise ValueError(
            message(
                "explain",
                f"`op` = {shown(op)} is not an op over sliding windows.",
                f"The ops are {', '.join(_REDUCTIONS)}.",
                'Give for example op="avg_pool".',
            )
        )
    meaning = "It says whether declared padding counts in the divisor."
    counts = flag("explain", "count_include_pad", count_include_pad, meaning)
    shape, own = _shape_and_dtype(x_or_shape)
    dtype = _dtype(own if dtype is None else dtype)
    window, layout = window_of(
        "explain", window_shape, strides, padding, dilations, rounding, data_format
    )
    settings = Settings("explain", window, layout, check_name("explain", lowering))
    geometry = settings.geometry(shape)
    plan = settings.plan(shape, dtype, _REDUCTIONS[op])
    out = geometry.full_shape(shape)
    return Explanation(op, shape, out, dtype, window, geometry, plan, counts)


def _dtype(dtype: Any) -> np.dtype:
    try:
        return np.dtype(jnp.dtype(dtype))
    except Exception:  # whatever the object's own conversion raises
        raise TypeError(
            message(
                "explain",
                f"`dtype` = {shown(dtype)} is not a dtype.",
                "It says what the array holds, and so how many bytes there are.",
                "Give for example jnp.bfloat16.",
            )
        ) from None


def _shape_and_dtype(x_or_shape: Any) -> tuple[tuple[int, ...], Any]:
    shape = getattr(x_or_shape, "shape", None)
    if isinstance(shape, tuple) and hasattr(x_or_shape, "dtype"):
        return shape, x_or_shape.dtype
    if not is_sequence(x_or_shape):
        raise TypeError(
            message(
                "explain",
                f"`x_or_shape` = {shown(x_or_shape)} is neither an array nor a shape.",
                "A shape has one length for each axis, batch and channel axes included.",
                "Give an array, or for example (8, 112, 112, 64).",
            )
        )
    lengths = entries_of("explain", "x_or_shape", x_or_shape)
    return per_axis("explain", "x_or_shape", lengths, len(lengths), least=0), np.float32


# --- text -----------------------------------------------------------------------------------------


def _lines(found: Explanation) -> Iterator[str]:
    window, rank = found.window, len(found.input_shape)
    yield (
        f"{found.op}  window {window.kernel}, strides {window.strides}, padding {window.padding}, "
        f"dilations {window.dilations}, rounding {window.rounding}"
    )
    yield _row("output", f"{found.output_shape}, from {found.dtype} {found.input_shape}")
    for axis, position in found.geometry.placed:
        yield from axis_lines(axis, rank + position)
    if found.op == "avg_pool":
        runs = (axis.count_runs(found.count_include_pad) for axis in found.geometry.axes)
        yield _row("divisors", " x ".join(f"({_in_runs(run)})" for run in runs))
    yield _row("work", f"{found.operations:,} operations window by window; {found.bytes:,} bytes")
    cpu, other = found.plan.cpu, found.plan.other
    yield _row("lowering", cpu if cpu == other else f"{cpu} on CPU, {other} elsewhere")
    for name, reason in found.plan.refusals:
        yield _row("", f"not {name}: {reason}")
    for n, (name, value) in enumerate(configuration(found.geometry, rank).items()):
        yield _row("" if n else "XLA", f"{name} = {value}")


def _row(head: str, text: str) -> str:
    return f"  {head:12} {text}".rstrip()


def axis_lines(axis: Axis, number: int) -> Iterator[str]:
    """An axis in words: its windows, what they read, and the cells that none reads."""
    overhang = f", {axis.overhang} past it" if axis.overhang else ""
    yield _row(
        f"axis {number}",
        f"{axis.size} cells, padding ({axis.pad_low}, {axis.pad_high}){overhang}: "
        f"{axis.out} windows over {axis.span} cells each",
    )
    shown_windows = sorted({*range(min(_SHOWN, axis.out)), *range(max(axis.out - 1, 0), axis.out)})
    reads = (f"{o}: {_cells(axis, o)}" for o in shown_windows)
    yield _row("", "reads " + "; ".join(reads))
    unread = unread_cells(axis) if axis.size <= _LONGEST_LISTED else []
    if unread:
        yield _row("", f"never read: {_in_ranges(unread)}")


def _cells(axis: Axis, window: int) -> str:
    """The first and the last real cell that a window reads, and how many it reads."""
    low, high = axis.real_taps(window)
    if low == high:
        return "no cell"
    first, last = (axis.start(window) + tap * axis.dilation for tap in (low, high - 1))
    return f"cell {first}" if first == last else f"cells {first} to {last}" + _step(axis.dilation)


def _step(dilation: int) -> str:
    return "" if dilation == 1 else f" by {dilation}"


def unread_cells(axis: Axis) -> list[int]:
    """The cells of an axis that no window reads."""
    read = np.zeros(axis.size, bool)
    for first, last, low, high in axis.segments():
        start, windows = axis.start(first), last - first
        if high - low < windows:  # the shorter loop, over taps or over windows
            for tap in range(low, high):
                cell = start + tap * axis.dilation
                read[cell : cell + windows * axis.stride : axis.stride] = True
        else:
            for cell in range(start, start + windows * axis.stride, axis.stride):
                read[cell + low * axis.dilation : cell + high * axis.dilation : axis.dilation] = (
                    True
                )
    return np.flatnonzero(~read).tolist()


def _in_runs(runs: Sequence[tuple[int, int]]) -> str:
    """Counts of neighbouring windows, equal ones together: ``2, 3 x 54, 2``."""
    together = (
        (count, sum(windows for windows, _ in group))
        for count, group in itertools.groupby(runs, key=lambda run: run[1])
    )
    return ", ".join(str(count) if n == 1 else f"{count} x {n}" for count, n in together)


def _in_ranges(cells: Sequence[int]) -> str:
    """Rows of neighbours, the first and the last few of them."""
    breaks = [i for i in range(1, len(cells)) if cells[i] != cells[i - 1] + 1]
    rows = list(itertools.pairwise([0, *breaks, len(cells)]))
    words = [f"{cells[a]}" if b == a + 1 else f"{cells[a]} to {cells[b - 1]}" for a, b in rows]
    if len(words) > 2 * _SHOWN:
        words = [*words[:_SHOWN], "..", *words[-_SHOWN:]]
    return ", ".join(words)


# --- receptive fields -----------------------------------------------------------------------------


@dataclass(frozen=True)
class ReceptiveField:
    """What one output of a stack of windows sees of its input, per pooled axis.

    Attributes:
      size: cells from the first to the last one seen.
      stride: cells between the fields of neighbouring outputs.
      start: first cell seen by the first output; negative inside padding.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    start: tuple[int, ...]


def _check_layers(layers: Any) -> None:
    advice = "Give one Window per layer, the first layer first."
    if not isinstance(layers, (list, tuple)) or not all(isinstance(a, Window) for a in layers):
        what = f"`layers` = {shown(layers)} is no list of windows."
        facts = "A layer is described by a Window, and all of them by a list or tuple."
        raise TypeError(message("receptive_field", what, facts, advice))
    counts = {len(layer.kernel) for layer in layers}
    if len(counts) != 1:
        what = "`layers` have different numbers of axes." if counts else "`layers` is empty."
        facts = f"They have {sorted(counts)}." if counts else "The field of no layer is a cell."
        raise ValueError(message("receptive_field", what, facts, advice))


def receptive_field(spatial_shape: int | Sequence[int], layers: Sequence[Window]) -> ReceptiveField:
    """What one output of a stack of windows sees, such as of convolutions and poolings.

    With ``r`` the field, ``j`` the distance between neighbouring fields and ``s`` the first cell, a
    window makes ``r += (span - 1) * j``, ``s -= pad_low * j`` and then ``j *= stride``.

    Args:
      spatial_shape: lengths of the pooled axes of the first layer's input. "SAME" padding depends
        on it.
      layers: the windows, the first layer first; a convolution is described by its window.
    Returns:
      ReceptiveField, in cells of the first layer's input.
    Raises:
      TypeError: ``layers`` is not a list of windows, or a length is not an integer.
      ValueError: a window does not fit what the layers before it leave.
    References: Araujo, Norris and Sim 2019, doi:10.23915/distill.00021.
    Example:
      >>> stem = [Window((7, 7), 2, 3), Window((3, 3), 2, 1)]
      >>> receptive_field((224, 224), stem)
      ReceptiveField(size=(11, 11), stride=(4, 4), start=(-5, -5))
    """
    _check_layers(layers)
    count = len(layers[0].kernel)
    sizes = per_axis("receptive_field", "spatial_shape", spatial_shape, count)
    size, jump, start = [1] * count, [1] * count, [0] * count
    for layer in layers:
        settled = settle("receptive_field", layer, sizes, tuple(range(-count, 0)))
        for i, axis in enumerate(settled.axes):
            size[i] += (axis.span - 1) * jump[i]
            start[i] -= axis.pad_low * jump[i]
            jump[i] *= axis.stride
        sizes = settled.out_shape
    return ReceptiveField(tuple(size), tuple(jump), tuple(start))
