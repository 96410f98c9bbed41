"""The windows of adaptive pooling: a given number of windows divides an axis.

Window ``i`` of ``O`` over an axis of ``L`` elements is ``[i * L // O, ceil((i + 1) * L / O))``, in
exact integers. If ``O`` divides ``L``, the windows tile the axis. If ``L mod O`` is 1, they have
the same length and stride, and neighbouring windows overlap by one element. Otherwise their
lengths differ by at most one element.

Source: PyTorch, ``adaptive_avg_pool2d``; OpenVINO AdaptiveAvgPool-8.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from .._autodiff import ragged, rules
from .._autodiff.ragged import RaggedWindows
from .._errors import counted, message, shown
from .._geometry import layout as layouts
from .._geometry.arguments import entries_of, integer, is_sequence
from .._geometry.ragged import RaggedAxis, adaptive_windows
from .._geometry.resolve import Geometry, check_known, check_known_axis, check_not_empty
from .._geometry.window import check_taps
from .._lowerings import tuning
from .._lowerings.parts.axis_slicing import reshape_along
from .._lowerings.plan import Plan, plan_for
from .._lowerings.ragged import ragged_offsets
from .._numerics import indices
from .._numerics.indices import IndexSpace
from ..reductions import SUM, Reduction

_MAX_WINDOWS = 2**22


def canonical_sizes(output_size: Any, data_format: Any) -> dict[str, Any]:
    """Return the number of windows per pooled axis and the layout, checked.

    None in place of a number keeps the axis.
    """
    data_format = layouts.check(data_format)
    explicit = layouts.is_explicit(data_format)
    count = layouts.spatial_count(data_format)
    if is_sequence(output_size):
        output_size = entries_of("output_size", output_size)
    else:
        layouts.check_repeatable("output_size", output_size, data_format, 7)
        output_size = (output_size,) * count
    if not len(output_size) or (explicit and len(output_size) != count):
        raise ValueError(_wrong_length_message(output_size, data_format))
    sizes = tuple(None if n is None else _checked_size(n) for n in output_size)
    return {"output_size": sizes, "data_format": data_format}


def canonical_with_indices(
    output_size: Any, data_format: Any, index_space: Any, index_dtype: Any
) -> dict[str, Any]:
    """Return the options of an op that returns indices, checked."""
    sizes = canonical_sizes(output_size, data_format)
    if isinstance(index_space, str) and index_space == "window":
        raise ValueError(
            message(
                '$index_space = "window" has no meaning here.',
                "A window offset needs windows of one shape; adaptive windows have several.",
                'Give "spatial", or the first axis that the flat index counts.',
            )
        )
    return {**sizes, **indices.canonical(index_space, index_dtype)}


def _checked_size(size: Any) -> int:
    size = integer("output_size", size, 0)
    if size > _MAX_WINDOWS:
        raise ValueError(
            message(
                f"$output_size contains {size}.",
                f"An axis has at most {_MAX_WINDOWS} windows.",
                "Give a smaller number, or None for an axis to keep as it is.",
            )
        )
    return size


def _wrong_length_message(output_size: Any, data_format: str) -> str:
    return message(
        f"$output_size = {shown(output_size)} has {counted(len(output_size), 'entry')}.",
        f"It has one per pooled axis; data_format is {data_format!r}.",
        "Give one entry for each pooled axis, None for one to keep as it is.",
    )


Sizes = tuple[int | None, ...]
"""The number of windows per pooled axis; None keeps an axis."""


class Partition(RaggedWindows):
    """The windows of adaptive pooling over some axes of an array."""

    @property
    def geometry(self) -> Geometry | None:
        """The windows as those of fixed pooling, or None.

        They have a geometry if on each axis all windows have the same length and stride.
        """
        axes = tuple(axis.sliding() for axis in self.axes)
        resolved = tuple(axis for axis in axes if axis is not None)
        return Geometry(resolved, self.positions) if len(resolved) == len(axes) else None

    def plan(self, reduction: Reduction, dtype: Any) -> Plan | None:
        """Return the plan of fixed pooling if the windows have a geometry and it is faster.

        Otherwise return None. Overlapping long windows are faster as ragged windows.
        """
        geometry = self.geometry
        if geometry is None:
            return None
        is_long = max(geometry.kernel) > tuning.LONGEST_ADAPTIVE_SLID
        if is_long and not geometry.is_non_overlapping:
            return None
        return plan_for(geometry, reduction, np.dtype(dtype), "tiled" if is_long else "auto")

    def out_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return ``shape`` with the pooled axes at their output lengths."""
        return layouts.with_lengths(shape, self.positions, [len(axis.starts) for axis in self.axes])

    def total(self, x: Array) -> Array:
        """Return the sum of every window."""
        plan = self.plan(SUM, x.dtype)
        if plan is not None:
            return rules.window_sum(x, plan)
        return ragged.ragged_sum(x, self)

    def lengths(self, rank: int) -> Any:
        """Return the number of elements of each window.

        It is an int if all are equal, else an array that broadcasts to a result of ``rank`` axes.
        """
        lengths = np.ones((1,) * rank, np.int32)
        for position, axis in zip(self.positions, self.axes, strict=True):
            lengths = lengths * reshape_along(np.array(axis.lengths, np.int32), position, rank)
        return int(lengths.flat[0]) if lengths.min() == lengths.max() else jnp.asarray(lengths)

    def indices(
        self,
        offsets: Array,
        shape: tuple[int, ...],
        space: IndexSpace,
        dtype: np.dtype | None,
        masked: bool,
        spatial: tuple[int, ...],
    ) -> Array:
        """Return ragged offsets as flat indices of an array of ``shape``; -1 for an empty window.

        Windows can be empty only if ``masked``. A "spatial" index counts the axes ``spatial``.
        """
        axes = indices.counted_axes(space, spatial, len(shape))
        coordinates = ragged_offsets.coordinates(offsets, *self)
        nonempty = offsets != ragged_offsets.sentinel(offsets) if masked else None
        return indices.flat(space, coordinates, nonempty, shape, axes, dtype)


def spatial_axes(shape: tuple[int, ...], output_size: Sizes, data_format: str) -> tuple[int, ...]:
    """Return the axes that a "spatial" index counts, also those that ``output_size`` keeps."""
    return layouts.pooled_axes(data_format, len(output_size), shape)


def partition(shape: tuple[int, ...], output_size: Sizes, data_format: str) -> Partition:
    """Return the windows over an array of ``shape``, or raise if a pooled axis is empty.

    An axis that ``output_size`` keeps has a window for each element; none if its size is symbolic.
    """
    positions = spatial_axes(shape, output_size, data_format)
    sizes = [shape[position] for position in positions]
    axes: dict[int, RaggedAxis] = {}
    for index, (position, size, windows) in enumerate(
        zip(positions, sizes, output_size, strict=True)
    ):
        if windows is None and not isinstance(size, int):
            continue
        check_known_axis(index, size)
        check_not_empty(index, size)
        axes[position] = adaptive_windows(size, size if windows is None else windows)
    if not axes:
        check_known(sizes)
    check_taps([axis.longest for axis in axes.values()])
    return Partition(tuple(axes), tuple(axes.values()))
