"""Description of a pooling before it runs, without arrays: sizes, windows, divisors, cost, plan."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from .._errors import message, public, shown
from .._geometry.arguments import Integers, entries_of, is_sequence, per_axis
from .._geometry.resolve import Geometry, is_static
from .._geometry.window import Padding, Rounding, Window
from .._lowerings.implementations.reduce_window import lax_settings
from .._lowerings.plan import Plan
from .._numerics.checks import check_real
from .._numerics.divisors import check_averageable
from ..ops._dispatch import WindowArguments, configure
from ..ops.average import canonical_divisor
from ..reductions import MAX, MIN, SUM, Reduction, sum_accumulator, sum_dtype
from .axes import axis_lines, in_runs, row

_REDUCTIONS: dict[str, Reduction] = {
    "max_pool": MAX,
    "max_pool_with_argmax": MAX,
    "min_pool": MIN,
    "min_pool_with_argmin": MIN,
    "sum_pool": SUM,
    "avg_pool": SUM,
}
WITH_INDICES = "max_pool_with_argmax", "min_pool_with_argmin"


@dataclass(frozen=True)
class Explanation:
    """The result of :func:`explain`. ``str`` gives a page of text, :meth:`plot` a picture.

    Attributes:
      op: name of the op.
      input_shape: full shape of the array.
      output_shape: full shape of the result.
      dtype: dtype of the array.
      window: the settings of the window.
      geometry: the geometry of the window over this array.
      plan: the implementation of every step on each platform, forward and backward, with reasons.
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
        """Per pooled axis, the count of each window; a divisor is the product over the axes."""
        return tuple(axis.counts(self.count_include_pad) for axis in self.geometry.axes)

    @property
    def operations(self) -> int:
        """Comparisons or additions if each window is evaluated separately, padding included."""
        return math.prod(self.output_shape) * (self.geometry.taps - 1)

    @property
    def bytes(self) -> int:
        """Bytes of the array and of the result with its indices, each read or written once."""
        out_dtype = sum_dtype(self.dtype) if self.op == "sum_pool" else self.dtype
        per_window = out_dtype.itemsize + (4 if self.op in WITH_INDICES else 0)
        elements, windows = math.prod(self.input_shape), math.prod(self.output_shape)
        return elements * self.dtype.itemsize + windows * per_window

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    @public
    def plot(self, path: Any = None, *, window: Sequence[int] | None = None) -> Any:
        """Draw the padded array, its windows and the elements of one window.

        Args:
          path: file to write, whose suffix determines the format; an open file, for PNG; or None.
          window: index of the highlighted window on each pooled axis; None is the middle window.
        Returns:
          The matplotlib figure.
        Raises:
          TypeError, ValueError: ``window`` is not the index of a window that the picture shows, or
            ``path`` cannot be written.
          ModuleNotFoundError: matplotlib is not installed; ``pip install "jaxpool[plot]"``.
        """
        try:
            from .picture import draw
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                message(
                    "matplotlib is not installed.",
                    "Pictures need it; the text of an explanation does not.",
                    'Run pip install "jaxpool[plot]".',
                )
            ) from None
        title = f"{self.op} {self.input_shape} to {self.output_shape}"
        return draw(self.geometry, len(self.input_shape), title, path, window)


@public
def explain(
    x_or_shape: Any,
    window_shape: Integers,
    strides: Integers,
    padding: Padding = "VALID",
    *,
    op: str = "max_pool",
    dilations: Integers = 1,
    rounding: Rounding = "floor",
    data_format: str = "channels_last",
    dtype: DTypeLike | None = None,
    count_include_pad: bool = True,
    implementation: str = "auto",
) -> Explanation:
    """Describe what a pooling does to a shape: sizes, windows, divisors, cost and plan.

    Tap ``t`` of window ``o`` reads position ``o * stride - pad_low + t * dilation`` of each pooled
    axis. The text lists the first windows, the last window, and the elements that no window reads.

    Args:
      x_or_shape: an array (any object with a shape and a dtype), or a full shape.
      window_shape, strides, padding, dilations, rounding, data_format, implementation: as in
        :func:`max_pool`.
      op: "max_pool", "max_pool_with_argmax", "min_pool", "min_pool_with_argmin", "sum_pool" or
        "avg_pool".
      dtype: dtype of the array; None means the dtype of the array, or float32 for a shape.
      count_include_pad: as in :func:`avg_pool`.
    Returns:
      Explanation, which prints as text and can be plotted.
    Raises:
      TypeError: a setting is not an integer, or the op does not accept the dtype. ValueError: a
      setting is out of range or does not fit, or ``op`` is not in the list. NotImplementedError:
      the named implementation does not support the windows.
    Example:
      >>> print(str(explain((1, 7, 1), (3,), 2, 1)).splitlines()[1])
        output         (1, 4, 1), from float32 (1, 7, 1)
    """
    if not isinstance(op, str) or op not in _REDUCTIONS:
        raise ValueError(
            message(
                f"$op = {shown(op)} is not an op that explain describes.",
                f"The ops are {', '.join(_REDUCTIONS)}.",
                'Give for example op="avg_pool".',
            )
        )
    counts = canonical_divisor(count_include_pad, None)["count_include_pad"]
    shape, default = _shape_and_dtype(x_or_shape)
    is_given = dtype is not None
    dtype = _dtype("dtype", dtype) if is_given else _dtype("x_or_shape.dtype", default)
    windows = WindowArguments(
        window_shape, strides, padding, dilations, rounding, data_format, implementation
    )
    (check_averageable if op == "avg_pool" else check_real)(jax.ShapeDtypeStruct(shape, dtype))
    config = configure(windows)
    geometry = config.geometry(shape)
    reduction = _REDUCTIONS[op]
    reduced = sum_accumulator(dtype) if reduction is SUM else dtype
    plan = config.plan(shape, reduced, reduction)
    out = geometry.full_shape(shape)
    return Explanation(op, shape, out, dtype, config.window, geometry, plan, counts)


def _dtype(name: str, dtype: Any) -> np.dtype:
    try:
        return np.dtype(jnp.dtype(dtype))
    except Exception:  # whatever the object's own conversion raises
        raise TypeError(
            message(
                f"${name} = {shown(dtype)} is not a dtype.",
                "It is the dtype of the array, which determines the number of bytes.",
                "Give for example jnp.bfloat16.",
            )
        ) from None


def _check_is_static(shape: tuple[Any, ...]) -> None:
    if not is_static(shape):
        raise ValueError(
            message(
                f"$x_or_shape has the symbolic shape ({', '.join(map(str, shape))}).",
                "An explanation consists of numbers.",
                "Give a number in place of each symbol.",
            )
        )


def _shape_and_dtype(x_or_shape: Any) -> tuple[tuple[int, ...], Any]:
    shape = getattr(x_or_shape, "shape", None)
    if isinstance(shape, tuple) and hasattr(x_or_shape, "dtype"):
        _check_is_static(shape)
        return shape, x_or_shape.dtype
    if not is_sequence(x_or_shape):
        raise TypeError(
            message(
                f"$x_or_shape = {shown(x_or_shape)} is neither an array nor a shape.",
                "A shape has one length for each axis, batch and channel axes included.",
                "Give an array, or for example (8, 112, 112, 64).",
            )
        )
    lengths = entries_of("x_or_shape", x_or_shape)
    return per_axis("x_or_shape", lengths, len(lengths), least=0), np.float32


# --- text -----------------------------------------------------------------------------------------


def _lines(result: Explanation) -> Iterator[str]:
    window, rank = result.window, len(result.input_shape)
    yield (
        f"{result.op}  window {window.kernel}, strides {window.strides}, padding {window.padding}, "
        f"dilations {window.dilations}, rounding {window.rounding}"
    )
    yield row("output", f"{result.output_shape}, from {result.dtype} {result.input_shape}")
    for axis, position in result.geometry.placed:
        yield from axis_lines(axis, rank + position)
    if result.op == "avg_pool":
        runs = (axis.count_runs(result.count_include_pad) for axis in result.geometry.axes)
        yield row("divisors", " x ".join(f"({in_runs(run)})" for run in runs))
    yield row(
        "work", f"{result.operations:,} operations, each window separately; {result.bytes:,} bytes"
    )
    yield from result.plan.lines(result.input_shape)
    for n, (name, value) in enumerate(lax_settings(result.geometry, rank).items()):
        yield row("" if n else "XLA", f"{name} = {value}")
