"""What the library is tested and measured with: an oracle by brute force and real-network cases.

The oracle is the definition of every op, written as plain loops over windows and taps with Python
numbers. It shares no code with the library, imports NumPy alone, and finds its geometry by walking
along the axes and counting, so that a slip in a closed form of the library cannot repeat itself
here. It is slow, and meant for arrays of a few hundred cells.

One pooled axis has ``size`` cells, numbered from 0. Window ``o`` starts at ``o * stride - low`` and
has a tap every ``dilation`` cells, ``kernel`` of them. A tap at ``0 <= q < size`` reads a cell. A
tap at any other ``-low <= q < size + high`` lies on declared padding. A tap further on, which only
the ceil roundings make, is overhang.

Example:
  >>> x = np.array([[1.0, 5.0, 2.0, 4.0]])
  >>> oracle_pool(x, "max", (2,), 1, spatial_axes=(1,))
  array([[5., 5., 4.]])
  >>> values, taps, positions = oracle_argmax(x, (2,), 2, 1, spatial_axes=(1,))
  >>> values, taps, positions[..., 0]
  (array([[1., 5., 4.]]), array([[1, 0, 0]]), array([[0, 1, 3]]))
  >>> oracle_gradient(x, np.ones((1, 3)), "max", (2,), 1, spatial_axes=(1,))
  array([[0., 2., 0., 1.]])
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

Position = tuple[int, ...]

# --- geometry, by counting ------------------------------------------------------------------------


def window_starts(
    size: int,
    kernel: int,
    stride: int,
    low: int,
    high: int,
    dilation: int = 1,
    rounding: str = "floor",
) -> list[int]:
    """Position of the first tap of every window of one axis; negative inside the low padding.

    floor: every window that ends inside the padded axis. ceil: one more if cells are left over.
    ceil_torch: as ceil, without the last window if it starts past the cells and the low padding.
    """
    taps = range(0, kernel * dilation, dilation)
    end = size + high
    start = -low
    starts = []
    while start + taps[-1] < end:
        starts.append(start)
        start += stride
    if not starts:
        raise ValueError(f"{kernel} taps at dilation {dilation} do not fit {size} + {low} + {high}")
    cells_left_over = starts[-1] + taps[-1] + 1 < end
    if rounding != "floor" and cells_left_over:
        starts.append(start)
    if rounding == "ceil_torch" and starts[-1] >= size:
        starts.pop()
    return starts


def same_padding(
    size: int, kernel: int, stride: int, dilation: int = 1, word: str = "SAME"
) -> tuple[int, int]:
    """Padding that makes one window for every ``stride``-th cell; the odd one high, or low."""
    last_start = range(0, size, stride)[-1]
    last_tap = last_start + (kernel - 1) * dilation
    total = max(last_tap + 1 - size, 0)
    less, more = total // 2, total - total // 2
    return (more, less) if word.upper() == "SAME_LOWER" else (less, more)


class _Window(NamedTuple):
    """One window of all pooled axes together.

    Attributes:
      output: where its result goes.
      cells: (tap number, position) of each tap that reads a cell; taps are counted row-major.
      padded: number of taps that lie on declared padding.
    """

    output: Position
    cells: list[tuple[int, Position]]
    padded: int


def _per_axis(value: Any, count: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Sequence) else (value,) * count


def _padding_pairs(
    padding: Any, sizes: Position, kernel: Position, strides: Position, dilations: Position
) -> list[tuple[int, int]]:
    if isinstance(padding, str):
        if padding.upper() == "VALID":
            return [(0, 0)] * len(sizes)
        rows = zip(sizes, kernel, strides, dilations, strict=True)
        return [same_padding(*row, word=padding) for row in rows]
    ends = (_per_axis(entry, 2) for entry in _per_axis(padding, len(sizes)))
    return [(low, high) for low, high in ends]


def _windows(
    sizes: Position, kernel: Position, strides: Any, padding: Any, dilations: Any, rounding: str
) -> tuple[Position, list[_Window]]:
    """The lengths of the output, and all windows."""
    strides, dilations = _per_axis(strides, len(sizes)), _per_axis(dilations, len(sizes))
    pads = _padding_pairs(padding, sizes, kernel, strides, dilations)
    starts = [
        window_starts(size, taps, stride, low, high, dilation, rounding)
        for size, taps, stride, (low, high), dilation in zip(
            sizes, kernel, strides, pads, dilations, strict=True
        )
    ]
    ends = tuple(size + high for size, (_, high) in zip(sizes, pads, strict=True))
    windows = []
    for output in itertools.product(*(range(len(axis)) for axis in starts)):
        first_tap = tuple(axis[o] for axis, o in zip(starts, output, strict=True))
        windows.append(_window(output, first_tap, kernel, dilations, sizes, ends))
    return tuple(len(axis) for axis in starts), windows


def _window(
    output: Position,
    first_tap: Position,
    kernel: Position,
    dilations: Position,
    sizes: Position,
    ends: Position,
) -> _Window:
    cells, padded = [], 0
    for number, tap in enumerate(itertools.product(*map(range, kernel))):
        position = tuple(s + t * d for s, t, d in zip(first_tap, tap, dilations, strict=True))
        if all(0 <= q < size for q, size in zip(position, sizes, strict=True)):
            cells.append((number, position))
        elif all(q < end for q, end in zip(position, ends, strict=True)):
            padded += 1
    return _Window(output, cells, padded)


# --- the definitions ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Problem:
    """An array with its pooled axes last, as Python numbers, and the windows over it."""

    numbers: np.ndarray
    there: np.ndarray
    sizes: Position
    out: Position
    windows: list[_Window]
    axes: Position

    @property
    def lead(self) -> Position:
        """The lengths of the axes that are not pooled."""
        return self.numbers.shape[: self.numbers.ndim - len(self.sizes)]

    def visits(self) -> Iterator[tuple[Position, _Window, list[tuple[int, Position]]]]:
        """Every window of every row: the row, the window, and its cells that are not masked."""
        for row in np.ndindex(self.lead):
            for window in self.windows:
                cells = [(tap, row + q) for tap, q in window.cells if self.there[row + q]]
                yield row, window, cells

    def result(self, dtype: Any) -> np.ndarray:
        """An array for the results, pooled axes last."""
        return np.zeros(self.lead + self.out, dtype)

    def restored(self, result: np.ndarray) -> np.ndarray:
        """``result`` with its pooled axes back in their places."""
        return np.moveaxis(result, range(-len(self.sizes), 0), self.axes)


def _problem(
    x: Any,
    window_shape: Any,
    strides: Any,
    padding: Any,
    dilations: Any,
    rounding: str,
    spatial_axes: Sequence[int] | None,
    where: Any,
) -> _Problem:
    x = np.asarray(x)
    kernel = _per_axis(window_shape, 1)
    if spatial_axes is None:
        spatial_axes = range(x.ndim - 1 - len(kernel), x.ndim - 1)
    axes = tuple(axis % x.ndim for axis in spatial_axes)
    if len(axes) != len(kernel):
        raise ValueError(f"{len(kernel)} window entries for the pooled axes {axes}")
    there = np.broadcast_to(True if where is None else where, x.shape)
    last = range(-len(axes), 0)
    numbers = x.astype(np.float64) if _is_float(x.dtype) else x
    numbers = np.moveaxis(numbers.astype(object), axes, last)
    sizes = numbers.shape[numbers.ndim - len(axes) :]
    out, windows = _windows(sizes, kernel, strides, padding, dilations, rounding)
    return _Problem(numbers, np.moveaxis(there, axes, last), sizes, out, windows, axes)


def _is_float(dtype: Any) -> bool:
    """Whether ``dtype`` is a float; the narrow ones that ml_dtypes adds have no NumPy kind."""
    return np.dtype(dtype).kind not in "biu"


def _is_nan(number: Any) -> bool:
    return number != number


def _winner(numbers: np.ndarray, cells: list[tuple[int, Position]], op: str) -> Any:
    """(tap number, position) of the best cell: the first NaN, else the first extreme, or None."""
    best = None
    for tap, position in cells:
        if best is None:
            best = tap, position
            continue
        new, old = numbers[position], numbers[best[1]]
        better = new > old if op == "max" else new < old
        if not _is_nan(old) and (_is_nan(new) or better):
            best = tap, position
    return best


def _worst(op: str, dtype: Any) -> Any:
    """What a window without a cell gives: the lowest value for max, the highest for min."""
    if np.dtype(dtype) == np.bool_:
        return op == "min"
    if _is_float(dtype):
        return -math.inf if op == "max" else math.inf
    limits = np.iinfo(dtype)
    return limits.min if op == "max" else limits.max


def _accumulator(dtype: Any) -> Callable[[Any], Any]:
    """The numbers that sums of ``dtype`` are made of: exact integers, or floats of 32 bits up."""
    if not _is_float(dtype):
        return int
    return np.float64 if np.dtype(dtype).itemsize == 8 else np.float32


def _sum_dtype(dtype: np.dtype) -> np.dtype:
    """The result dtype of a sum, as ``jnp.sum`` without 64-bit types."""
    if _is_float(dtype) or dtype.itemsize >= 4:
        return dtype
    return np.dtype(np.uint32 if dtype.kind == "u" else np.int32)


def _wrapped(number: int, dtype: Any) -> int:
    limits = np.iinfo(dtype)
    return (number - int(limits.min)) % (1 << limits.bits) + int(limits.min)


def _saturated(number: int, dtype: Any) -> int:
    limits = np.iinfo(dtype)
    return min(max(number, int(limits.min)), int(limits.max))


def _divisor(
    window: _Window,
    cells: list[tuple[int, Position]],
    count_include_pad: bool,
    divisor_override: int | None,
) -> int:
    if divisor_override is not None:
        return divisor_override
    return len(cells) + (window.padded if count_include_pad else 0)


def _average(total: Any, divisor: int, dtype: np.dtype) -> Any:
    if divisor == 0:
        return 0
    if not _is_float(dtype):
        return _saturated(round(Fraction(total, divisor)), dtype)  # Python rounds half to even
    accumulator = _accumulator(dtype)
    return (total / accumulator(divisor)).astype(dtype)


def oracle_pool(
    x: Any,
    op: str,
    window_shape: Any,
    strides: Any,
    padding: Any = "VALID",
    *,
    dilations: Any = 1,
    rounding: str = "floor",
    spatial_axes: Sequence[int] | None = None,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    where: Any = None,
) -> np.ndarray:
    """Pool ``x`` by the definition.

    Args:
      x: array of any real dtype; bool for max, min and sum.
      op: "max", "min", "sum" or "avg".
      window_shape, strides, padding, dilations, rounding, where: as in :func:`jaxpool.max_pool`.
      spatial_axes: the axis of ``x`` for each window entry; default: those before the last.
      count_include_pad, divisor_override: as in :func:`jaxpool.avg_pool`; other ops ignore them.
    Returns:
      Array of the dtype of ``x``; a sum has the dtype of ``jnp.sum``. Narrow floats are added and
      divided in float32 and rounded once, tap by tap; integer averages are exact.
    """
    if op in ("max", "min"):
        return _extreme(x, op, window_shape, strides, padding, dilations, rounding,
                        spatial_axes, where)[0]  # fmt: skip
    if op not in ("sum", "avg"):
        raise ValueError(f"op {op!r} is not max, min, sum or avg")
    dtype = np.asarray(x).dtype
    if op == "avg" and dtype == np.bool_:
        raise TypeError("an average of booleans is a fraction, which a boolean cannot hold")
    problem = _problem(x, window_shape, strides, padding, dilations, rounding, spatial_axes, where)
    accumulator = _accumulator(dtype)
    result = problem.result(dtype if op == "avg" else _sum_dtype(dtype))
    with np.errstate(all="ignore"):
        for row, window, cells in problem.visits():
            total = accumulator(0)
            for _, position in cells:
                total = total + accumulator(problem.numbers[position])
            if op == "avg":
                divisor = _divisor(window, cells, count_include_pad, divisor_override)
                value = _average(total, divisor, result.dtype)
            elif _is_float(dtype):
                value = total.astype(dtype)
            else:
                value = _wrapped(total, result.dtype)
            result[row + window.output] = value
    return problem.restored(result)


def oracle_argmax(
    x: Any,
    window_shape: Any,
    strides: Any,
    padding: Any = "VALID",
    *,
    dilations: Any = 1,
    rounding: str = "floor",
    spatial_axes: Sequence[int] | None = None,
    where: Any = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Maximum of every window and where it is: the first NaN, else the first maximum.

    Args:
      x, window_shape, strides, padding, dilations, rounding, spatial_axes, where: as in
        :func:`oracle_pool`.
    Returns:
      (values, taps, positions). ``taps`` holds the row-major number of the tap in its window.
      ``positions`` has one more axis, last: the position on each pooled axis, in the order of
      ``window_shape``. Both are -1 for a window without a cell.
    """
    return _extreme(x, "max", window_shape, strides, padding, dilations, rounding,
                    spatial_axes, where)  # fmt: skip


def _extreme(x: Any, op: str, *words: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    dtype = np.asarray(x).dtype
    problem = _problem(x, *words)
    values, taps = problem.result(dtype), problem.result(np.int64)
    positions = np.zeros((*values.shape, len(problem.sizes)), np.int64)
    for row, window, cells in problem.visits():
        here = row + window.output
        winner = _winner(problem.numbers, cells, op)
        if winner is None:
            values[here], taps[here], positions[here] = _worst(op, dtype), -1, -1
        else:
            taps[here], position = winner
            values[here], positions[here] = problem.numbers[position], position[len(row) :]
    each = [problem.restored(positions[..., k]) for k in range(len(problem.sizes))]
    return problem.restored(values), problem.restored(taps), np.stack(each, axis=-1)


def oracle_indices(
    taps: np.ndarray,
    positions: np.ndarray,
    shape: Sequence[int],
    index_space: str | int = "spatial",
    *,
    spatial_axes: Sequence[int] | None = None,
) -> np.ndarray:
    """The result of :func:`oracle_argmax` as indices in one of the library's index spaces.

    Args:
      taps, positions: from :func:`oracle_argmax`.
      shape: shape of the pooled array.
      index_space: "window", "spatial" or an int axis, as in :func:`jaxpool.max_pool_with_argmax`.
      spatial_axes: as in :func:`oracle_pool`.
    Returns:
      int64 indices; -1 for a window without a cell, in every space.
    """
    if index_space == "window":
        return taps
    rank = len(shape)
    if spatial_axes is None:
        spatial_axes = range(rank - 1 - positions.shape[-1], rank - 1)
    axes = [axis % rank for axis in spatial_axes]
    counted = sorted(axes) if isinstance(index_space, str) else range(index_space % rank, rank)
    indices = np.full(taps.shape, -1, np.int64)
    for output in np.ndindex(taps.shape):
        if taps[output] < 0:
            continue
        cell = list(output)
        for axis, q in zip(axes, positions[output], strict=True):
            cell[axis] = int(q)
        index = 0
        for axis in counted:
            index = index * shape[axis] + cell[axis]
        indices[output] = index
    return indices


def oracle_gradient(
    x: Any,
    cotangent: Any,
    op: str,
    window_shape: Any,
    strides: Any,
    padding: Any = "VALID",
    *,
    dilations: Any = 1,
    rounding: str = "floor",
    spatial_axes: Sequence[int] | None = None,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    where: Any = None,
) -> np.ndarray:
    """The gradient of ``sum(cotangent * oracle_pool(x, op, ..))`` with respect to ``x``.

    The winner of a max or min takes the whole cotangent of its window; a sum gives it to every
    cell, an average its share. Padding, overhang and masked cells receive nothing.

    Returns:
      float64 array of the shape of ``x``.
    """
    problem = _problem(x, window_shape, strides, padding, dilations, rounding, spatial_axes, where)
    arriving = np.asarray(cotangent).astype(np.float64)
    arriving = np.moveaxis(arriving, problem.axes, range(-len(problem.axes), 0))
    gradient = np.zeros(problem.numbers.shape)
    for row, window, cells in problem.visits():
        share = arriving[row + window.output]
        if op in ("max", "min"):
            winner = _winner(problem.numbers, cells, op)
            cells = [] if winner is None else [winner]
        elif op == "avg":
            share /= _divisor(window, cells, count_include_pad, divisor_override) or 1
        for _, position in cells:
            gradient[position] += share
    return problem.restored(gradient)


# --- real networks --------------------------------------------------------------------------------


@dataclass(frozen=True)
class NamedCase:
    """A pooling that a published network or method really runs.

    Attributes:
      name: short and unique, usable as a test or benchmark id.
      source: where the layer is described.
      shape: input, channels last, batch first.
      op: name of the public function, such as "max_pool".
      window, strides, padding, rounding, dilations: settings of that function.
      count_include_pad: for "avg_pool".
    """

    name: str
    source: str
    shape: tuple[int, ...]
    op: str
    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: str | tuple[tuple[int, int], ...] = "VALID"
    rounding: str = "floor"
    dilations: tuple[int, ...] | int = 1
    count_include_pad: bool = True

    @property
    def settings(self) -> dict[str, Any]:
        """Everything after ``x`` as keyword arguments of the public function."""
        words: dict[str, Any] = {
            "window_shape": self.window,
            "strides": self.strides,
            "padding": self.padding,
            "rounding": self.rounding,
            "dilations": self.dilations,
        }
        if self.op == "avg_pool":
            words["count_include_pad"] = self.count_include_pad
        return words


_RESNET = "He et al. 2015, arXiv:1512.03385, table 1"
_GOOGLENET = "Szegedy et al. 2014, arXiv:1409.4842, table 1"
_YOLO_SPP = "Bochkovskiy et al. 2020, arXiv:2004.10934, block SPP"
_C3D = "Tran et al. 2015, arXiv:1412.0767, section 3.2"
_AROUND = (1, 1)

NAMED_CASES: tuple[NamedCase, ...] = (
    NamedCase("alexnet-pool1", "Krizhevsky et al. 2012, section 3.4 (overlapping pooling)",
              (8, 55, 55, 96), "max_pool", (3, 3), (2, 2)),
    NamedCase("vgg-pool2", "Simonyan and Zisserman 2014, arXiv:1409.1556, section 2.1",
              (4, 112, 112, 128), "max_pool", (2, 2), (2, 2)),
    NamedCase("resnet-stem", _RESNET,
              (8, 112, 112, 64), "max_pool", (3, 3), (2, 2), (_AROUND, _AROUND)),
    NamedCase("googlenet-pool1", _GOOGLENET + "; ceil_mode of torchvision's GoogLeNet",
              (8, 112, 112, 64), "max_pool", (3, 3), (2, 2), rounding="ceil_torch"),
    NamedCase("googlenet-branch", _GOOGLENET,
              (8, 28, 28, 192), "max_pool", (3, 3), (1, 1), (_AROUND, _AROUND)),
    NamedCase("inception-v3-average", "Szegedy et al. 2015, arXiv:1512.00567; TensorFlow's SAME",
              (8, 35, 35, 192), "avg_pool", (3, 3), (1, 1), (_AROUND, _AROUND),
              count_include_pad=False),
    NamedCase("densenet-transition", "Huang et al. 2016, arXiv:1608.06993, table 1",
              (8, 56, 56, 128), "avg_pool", (2, 2), (2, 2)),
    NamedCase("mobilenet-head", "Howard et al. 2017, arXiv:1704.04861, table 1: a global average",
              (32, 7, 7, 1024), "avg_pool", (7, 7), (1, 1)),
    NamedCase("resnet-head", _RESNET + ": a global average",
              (32, 7, 7, 2048), "avg_pool", (7, 7), (1, 1)),
    NamedCase("yolo-sppf-5", "YOLOv5, block SPPF of the ultralytics repository",
              (4, 20, 20, 256), "max_pool", (5, 5), (1, 1), ((2, 2), (2, 2))),
    NamedCase("yolo-spp-9", _YOLO_SPP,
              (4, 20, 20, 256), "max_pool", (9, 9), (1, 1), ((4, 4), (4, 4))),
    NamedCase("yolo-spp-13", _YOLO_SPP,
              (4, 20, 20, 256), "max_pool", (13, 13), (1, 1), ((6, 6), (6, 6))),
    NamedCase("unet-pool2", "Ronneberger et al. 2015, arXiv:1505.04597, figure 1",
              (1, 280, 280, 128), "max_pool", (2, 2), (2, 2)),
    NamedCase("c3d-pool1", _C3D,
              (1, 16, 112, 112, 64), "max_pool", (1, 2, 2), (1, 2, 2)),
    NamedCase("c3d-pool2", _C3D,
              (1, 16, 56, 56, 128), "max_pool", (2, 2, 2), (2, 2, 2)),
    NamedCase("i3d-branch", "Carreira and Zisserman 2017, arXiv:1705.07750, figure 3",
              (1, 32, 28, 28, 192), "max_pool", (3, 3, 3), (1, 1, 1), "SAME"),
    NamedCase("audio-m5-pool1", "Dai et al. 2016, arXiv:1610.00087, table 1",
              (8, 8000, 128), "max_pool", (4,), (4,)),
    NamedCase("moving-maximum-101", "peak picking over one second of sound at 16 kHz",
              (8, 16000, 16), "max_pool", (101,), (1,), "SAME"),
    NamedCase("dark-channel-15", "He, Sun and Tang 2009, single image haze removal: 15x15 minimum",
              (1, 400, 600, 1), "min_pool", (15, 15), (1, 1), "SAME"),
    NamedCase("dilation-31", "grey dilation by a flat square (Serra 1982)",
              (1, 512, 512, 16), "max_pool", (31, 31), (1, 1), ((15, 15), (15, 15))),
    NamedCase("dense-vgg-pool2", "Li, Zhao and Wang 2014, arXiv:1412.4526: pixelwise, spaced taps",
              (1, 128, 128, 128), "max_pool", (2, 2), (1, 1), "SAME", dilations=(2, 2)),
)  # fmt: skip
"""Poolings of real networks, for tests, benchmarks and pictures."""
