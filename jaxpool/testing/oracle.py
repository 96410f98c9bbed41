"""Pooling by the definition: loops over rows, windows and taps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .geometry import Position, WindowTaps, per_axis, windows_over
from .numbers import (
    accumulator,
    argmax,
    average,
    divisor,
    identity,
    is_float,
    sum_dtype,
    wrapped,
)


@dataclass(frozen=True)
class _Problem:
    """An array of Python numbers, with the pooled axes last, and the windows over it.

    Attributes:
      numbers: the array.
      mask: False at elements that are masked out.
      sizes, out: lengths of the pooled axes of the array and of the result.
      windows: all windows over the pooled axes.
      axes: the positions of the pooled axes in the original array.
    """

    numbers: np.ndarray
    mask: np.ndarray
    sizes: Position
    out: Position
    windows: list[WindowTaps]
    axes: Position

    @property
    def batch_shape(self) -> Position:
        """The lengths of the axes that are not pooled."""
        return self.numbers.shape[: self.numbers.ndim - len(self.sizes)]

    def visits(self) -> Iterator[tuple[Position, WindowTaps, list[tuple[int, Position]]]]:
        """Yield (row, window, elements that are not masked) for every window of every row."""
        for row in np.ndindex(self.batch_shape):
            for window in self.windows:
                elements = [(tap, row + q) for tap, q in window.elements if self.mask[row + q]]
                yield row, window, elements

    def zeros(self, dtype: Any) -> np.ndarray:
        """Return an array of zeros for the results, pooled axes last."""
        return np.zeros(self.batch_shape + self.out, dtype)

    def restore_axes(self, result: np.ndarray) -> np.ndarray:
        """Return ``result`` with the pooled axes moved to their original positions."""
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
    kernel = per_axis(window_shape, 1)
    if spatial_axes is None:
        spatial_axes = range(x.ndim - 1 - len(kernel), x.ndim - 1)
    axes = tuple(axis % x.ndim for axis in spatial_axes)
    if len(axes) != len(kernel):
        raise ValueError(f"{len(kernel)} window entries for the pooled axes {axes}")
    mask = np.broadcast_to(True if where is None else where, x.shape)
    last = range(-len(axes), 0)
    numbers = x.astype(np.float64) if is_float(x.dtype) else x
    numbers = np.moveaxis(numbers.astype(object), axes, last)
    sizes = numbers.shape[numbers.ndim - len(axes) :]
    out, windows = windows_over(sizes, kernel, strides, padding, dilations, rounding)
    return _Problem(numbers, np.moveaxis(mask, axes, last), sizes, out, windows, axes)


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
    """Return ``x`` pooled by the definition.

    Args:
      x: array of any real dtype; bool for max, min and sum.
      op: "max", "min", "sum" or "avg".
      window_shape, strides, padding, dilations, rounding, where: as in :func:`jaxpool.max_pool`.
      spatial_axes: the axis of ``x`` for each window entry; default: the axes before the last.
      count_include_pad, divisor_override: as in :func:`jaxpool.avg_pool`; other ops ignore them.
    Returns:
      Array of the dtype of ``x``; a sum has the dtype of ``jnp.sum``. Low-precision floats are
      added tap by tap and divided in float32, and rounded once. Integer averages are exact.
    """
    if op in ("max", "min"):
        return _extreme(x, op, window_shape, strides, padding, dilations, rounding,
                        spatial_axes, where)[0]  # fmt: skip
    if op not in ("sum", "avg"):
        raise ValueError(f"op {op!r} is not max, min, sum or avg")
    dtype = np.asarray(x).dtype
    if op == "avg" and dtype == np.bool_:
        raise TypeError("an average of booleans is a fraction, which a boolean cannot represent")
    problem = _problem(x, window_shape, strides, padding, dilations, rounding, spatial_axes, where)
    number = accumulator(dtype)
    result = problem.zeros(dtype if op == "avg" else sum_dtype(dtype))
    with np.errstate(all="ignore"):
        for row, window, elements in problem.visits():
            total = number(0)
            for _, position in elements:
                total = total + number(problem.numbers[position])
            if op == "avg":
                count = divisor(window, elements, count_include_pad, divisor_override)
                value = average(total, count, result.dtype)
            elif is_float(dtype):
                value = total.astype(dtype)
            else:
                value = wrapped(total, result.dtype)
            result[row + window.output] = value
    return problem.restore_axes(result)


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
    """Return the maximum of every window and its position: the first NaN, else the first maximum.

    Args:
      x, window_shape, strides, padding, dilations, rounding, spatial_axes, where: as in
        :func:`oracle_pool`.
    Returns:
      (values, offsets, positions). ``offsets`` are row-major in the window.
      ``positions`` has an additional last axis: the position on each pooled axis, in the order of
      ``window_shape``. Both are -1 for a window without an element.
    """
    return _extreme(x, "max", window_shape, strides, padding, dilations, rounding,
                    spatial_axes, where)  # fmt: skip


def _extreme(x: Any, op: str, *arguments: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    dtype = np.asarray(x).dtype
    problem = _problem(x, *arguments)
    values, offsets = problem.zeros(dtype), problem.zeros(np.int64)
    positions = np.zeros((*values.shape, len(problem.sizes)), np.int64)
    for row, window, elements in problem.visits():
        index = row + window.output
        best = argmax(problem.numbers, elements, op)
        if best is None:
            values[index], offsets[index], positions[index] = identity(op, dtype), -1, -1
        else:
            offsets[index], position = best
            values[index], positions[index] = problem.numbers[position], position[len(row) :]
    each = [problem.restore_axes(positions[..., k]) for k in range(len(problem.sizes))]
    return problem.restore_axes(values), problem.restore_axes(offsets), np.stack(each, axis=-1)


def oracle_indices(
    offsets: np.ndarray,
    positions: np.ndarray,
    shape: Sequence[int],
    index_space: str | int = "spatial",
    *,
    spatial_axes: Sequence[int] | None = None,
) -> np.ndarray:
    """Return the result of :func:`oracle_argmax` as indices in an index space of the library.

    Args:
      offsets, positions: from :func:`oracle_argmax`.
      shape: shape of the pooled array.
      index_space: "window", "spatial" or an int axis, as in :func:`jaxpool.max_pool_with_argmax`.
      spatial_axes: as in :func:`oracle_pool`.
    Returns:
      int64 indices; -1 for a window without an element, in every space.
    """
    if index_space == "window":
        return offsets
    rank = len(shape)
    if spatial_axes is None:
        spatial_axes = range(rank - 1 - positions.shape[-1], rank - 1)
    axes = [axis % rank for axis in spatial_axes]
    counted_axes = sorted(axes) if isinstance(index_space, str) else range(index_space % rank, rank)
    indices = np.full(offsets.shape, -1, np.int64)
    for output in np.ndindex(offsets.shape):
        if offsets[output] < 0:
            continue
        position = list(output)
        for axis, q in zip(axes, positions[output], strict=True):
            position[axis] = int(q)
        index = 0
        for axis in counted_axes:
            index = index * shape[axis] + position[axis]
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
    """Return the gradient of ``sum(cotangent * oracle_pool(x, op, ..))`` with respect to ``x``.

    For a maximum or minimum, the argmax receives the full cotangent of its window. For a sum, every
    element receives the cotangent; for an average, the cotangent divided by the divisor. Padding,
    overhang and masked elements receive no cotangent.

    Returns:
      float64 array of the shape of ``x``.
    """
    problem = _problem(x, window_shape, strides, padding, dilations, rounding, spatial_axes, where)
    cotangents = np.asarray(cotangent).astype(np.float64)
    cotangents = np.moveaxis(cotangents, problem.axes, range(-len(problem.axes), 0))
    gradient = np.zeros(problem.numbers.shape)
    for row, window, elements in problem.visits():
        value = cotangents[row + window.output]
        if op in ("max", "min"):
            best = argmax(problem.numbers, elements, op)
            elements = [] if best is None else [best]
        elif op == "avg":
            value /= divisor(window, elements, count_include_pad, divisor_override) or 1
        for _, position in elements:
            gradient[position] += value
    return problem.restore_axes(gradient)
