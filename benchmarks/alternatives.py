"""Times alternatives for results that jaxpool is slow at: ideas that were tried, and their costs.

    python benchmarks/alternatives.py [--questions NAME ...] [--rounds N]
        [--out results/alternatives.json]

A question is a pool or its gradient in one layout. This file contains the ideas for it, which are
timed with jaxpool's implementation and PyTorch's, alternately in one run. All of them compute the
same result, which is compared before the timing. Read the ratios: an idea's time over jaxpool's,
below 1 if the idea is faster. The last column is the memory that the compiled program needs in
addition to arguments and results.
"""

import argparse
import functools
import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as F
from jax import Array, lax
from measuring import (
    DATA_FORMATS,
    THREADS,
    interleaved,
    keep_memory,
    milliseconds,
    parser,
    versions,
    write,
)
from pools import distinct_numbers, geometry_of, reduce_window_settings, with_gradient

import jaxpool
from jaxpool._lowerings.implementations import slices
from jaxpool._lowerings.parts import offset_levels, offset_slices
from jaxpool._lowerings.parts.axis_slicing import pad, slice_axis, tree_reduce, window_levels
from jaxpool._lowerings.parts.float_order import reduce_in_integers, reduce_slices
from jaxpool._xla.materialize import materialize
from jaxpool.reductions import MAX
from jaxpool.testing import NAMED_CASES, NamedCase

YARDSTICK = "3x3 instead"  # has a different result: timed, not compared

Run = Callable[..., Any]
Ideas = dict[str, tuple[Run, tuple[Any, ...]]]
"""By name: a function and its arguments, arrays of JAX or tensors of PyTorch."""


def main() -> int:
    options = _options()
    keep_memory()
    torch.set_num_threads(THREADS)
    rows = []
    for question in options.questions:
        build_ideas, settings = QUESTIONS[question]
        for setting in settings:
            new_rows = _measure(question, build_ideas, Setting(*setting), options.rounds)
            print(_table(new_rows), flush=True)
            rows += new_rows
    write(options.out, {"versions": versions("torch"), "rows": rows})
    return 0


def _options() -> argparse.Namespace:
    options = parser(__doc__, rounds=15)
    options.add_argument("--questions", nargs="*", default=QUESTIONS, choices=QUESTIONS)
    return options.parse_args()


@dataclass(frozen=True)
class Setting:
    """One of ``NAMED_CASES`` in a layout and dtype."""

    name: str
    layout: str
    dtype: str = "float32"

    @property
    def case(self) -> NamedCase:
        return next(case for case in NAMED_CASES if case.name == self.name)

    @property
    def axes(self) -> tuple[int, ...]:
        """The pooled axes."""
        first = 1 if self.layout == "NHWC" else 2
        return tuple(range(first, first + len(self.case.window)))

    @property
    def pool_settings(self) -> dict[str, Any]:
        """The settings of jaxpool's function, including the layout."""
        return {**self.case.settings, "data_format": DATA_FORMATS[self.layout]}

    @property
    def geometry(self) -> jaxpool.Geometry:
        return geometry_of(self.case, self.layout)

    @property
    def window(self) -> dict[str, Any]:
        """The settings of ``lax.reduce_window``."""
        return reduce_window_settings(self.case, self.layout)

    @property
    def out_shape(self) -> tuple[int, ...]:
        """The shape of the result, channels last."""
        return self.case.shape[0], *self.geometry.out_shape, self.case.shape[-1]

    def ideas(self, ours: dict[str, Run], theirs: Run, *values: np.ndarray) -> Ideas:
        """Return the ideas in JAX and PyTorch's, with their arguments: ``values`` in the layout.

        ``values`` have channels last.
        """
        channels_first = [np.ascontiguousarray(np.moveaxis(value, -1, 1)) for value in values]
        in_layout = values if self.layout == "NHWC" else channels_first
        arrays = tuple(jnp.asarray(value, self.dtype) for value in in_layout)
        # PyTorch supports channels last only for two pooled axes.
        is_channels_last = self.layout == "NHWC" and values[0].ndim == 4
        memory = torch.channels_last if is_channels_last else torch.contiguous_format
        dtype = getattr(torch, self.dtype)
        tensors = (torch.from_numpy(value).to(dtype) for value in channels_first)
        tensors = tuple(tensor.contiguous(memory_format=memory) for tensor in tensors)
        return {name: (run, arrays) for name, run in ours.items()} | {"torch": (theirs, tensors)}


# --- small planes: the average of all elements of each --------------------------------------------


def _small_planes(setting: Setting) -> Ideas:
    axes, count = setting.axes, setting.geometry.taps
    h, w = axes
    elements = np.random.default_rng(0).integers(-64, 64, setting.case.shape) / 16  # exact sums

    def axis_by_axis(x):
        rows = lax.optimization_barrier(lax.reduce_sum(x, (w,)))  # otherwise XLA merges the sums
        return _average(lax.reduce_sum(rows, (h,)), axes, count)

    def sum_transposed(x):
        """Sum a transposed array: pooled axes first if they were last, else last."""
        others = [axis for axis in range(x.ndim) if axis not in axes]
        order = [*axes, *others] if axes[-1] == x.ndim - 1 else [*others, *axes]
        moved = lax.optimization_barrier(lax.transpose(x, order))  # otherwise XLA fuses it
        return _average(lax.reduce_sum(moved, [order.index(axis) for axis in axes]), axes, count)

    ours = {
        "jaxpool": functools.partial(jaxpool.avg_pool, **setting.pool_settings),
        "reduce_window": lambda x: lax.reduce_window(x, 0.0, lax.add, **setting.window) / count,
        "reduce_sum": lambda x: _average(lax.reduce_sum(x, axes), axes, count),
        "tree of slices": lambda x: tree_reduce(lax.add, _taps(x, setting)) / count,
        "product with ones": lambda x: _average(
            _sum_by_product(x, axes, batched=False), axes, count
        ),
        "product with ones, batched": lambda x: _average(
            _sum_by_product(x, axes, True), axes, count
        ),
        "axis after axis": axis_by_axis,
        "transposed, then a sum": sum_transposed,
    }
    return setting.ideas(ours, lambda x: F.avg_pool2d(x, 7, 1), elements.astype(np.float32))


def _small_planes_after_relu(setting: Setting) -> Ideas:
    """Compare after a ReLU: XLA fuses a producer with a sum, but not with a product."""
    axes, count = setting.axes, setting.geometry.taps
    elements = np.random.default_rng(0).integers(-64, 64, setting.case.shape) / 16
    product = lambda x: _average(_sum_by_product(x, axes, True), axes, count)  # noqa: E731
    ours = {
        "jaxpool": lambda x: jaxpool.avg_pool(jax.nn.relu(x), **setting.pool_settings),
        "product with ones, batched": lambda x: product(jax.nn.relu(x)),
    }
    theirs = lambda x: F.avg_pool2d(F.relu(x), 7, 1)  # noqa: E731
    return setting.ideas(ours, theirs, elements.astype(np.float32))


def _average(total: Array, axes: Sequence[int], count: int) -> Array:
    return jnp.expand_dims(total, axes) / count


def _sum_by_product(x: Array, axes: Sequence[int], batched: bool) -> Array:
    """Return the sums of planes, as products with a vector of ones or with a vector per image."""
    count, flat = math.prod(x.shape[axis] for axis in axes), axes[0]
    x = x.reshape(*x.shape[:flat], count, *x.shape[axes[-1] + 1 :])
    images = x.shape[:1] if batched else ()
    batch = (tuple(range(len(images))),) * 2
    ones, contracted = jnp.ones((*images, count), x.dtype), ((len(images),), (flat,))
    return lax.dot_general(ones, x, (contracted, batch), precision=lax.Precision.HIGHEST)


def _taps(x: Array, setting: Setting) -> list[Array]:
    """Return the elements of each tap of the windows, in row-major order; without padding."""
    elements_of_taps = []
    for taps in itertools.product(*map(range, setting.geometry.kernel)):
        elements = x
        for tap, axis, array_axis in zip(taps, setting.geometry.axes, setting.axes, strict=True):
            elements = slice_axis(elements, array_axis, tap * axis.dilation, axis.out, axis.stride)
        elements_of_taps.append(elements)
    return elements_of_taps


# --- values and indices, of tiled windows ---------------------------------------------------------


def _values_and_indices(setting: Setting) -> Ideas:
    both = functools.partial(jaxpool.max_pool_with_argmax, **setting.pool_settings)
    start = np.float32(-np.inf), np.int32(np.iinfo(np.int32).max)

    def two_operand_window(x):
        numbers = jnp.broadcast_to(_element_numbers(setting), x.shape)
        return lax.reduce_window((x, numbers), start, _first_of_larger, **setting.window)

    def two_operand_reduce(x):
        numbers = jnp.broadcast_to(_element_numbers(setting), x.shape)
        split = _tiles(x, setting), _tiles(numbers, setting)
        return lax.reduce(split, start, _first_of_larger, range(2, split[0].ndim, 2))

    def taps_and_numbers(x):
        return zip(_taps(x, setting), _taps(_element_numbers(setting), setting), strict=True)

    def values_first(x):
        values = jaxpool.max_pool(x, **setting.pool_settings)
        *earlier, (_, indices) = taps_and_numbers(x)
        for elements, place in earlier[::-1]:
            indices = jnp.where(elements == values, place, indices)
        return values, jnp.broadcast_to(indices, values.shape)

    def taps_first(x, finish=lambda taps: taps):
        taps = finish(both(x, index_space="window")[1])
        (values, indices), *later = taps_and_numbers(x)
        for number, (elements, place) in enumerate(later, 1):
            is_argmax = taps == np.asarray(number, taps.dtype)
            values, indices = (
                jnp.where(is_argmax, elements, values),
                jnp.where(is_argmax, place, indices),
            )
        return values, indices

    ours = {
        "jaxpool": both,
        "two-operand reduce_window": two_operand_window,
        "two-operand reduce": two_operand_reduce,
        "values, then taps": values_first,
        "taps, then values": taps_first,
        "taps finished, then values": lambda x: taps_first(x, materialize),
        "image by image": lambda x: lax.map(both, x),
    }
    pool, case = getattr(F, f"max_pool{len(setting.axes)}d"), setting.case
    theirs = lambda x: pool(x, case.window, case.strides, return_indices=True)  # noqa: E731
    return setting.ideas(ours, theirs, distinct_numbers(setting.case.shape))


def _element_numbers(setting: Setting) -> Array:
    """Return the number of each element, flat over the pooled axes."""
    shape = [1] * len(setting.case.shape)
    for axis, size in zip(setting.axes, setting.geometry.spatial_shape, strict=True):
        shape[axis] = size
    return lax.iota(jnp.int32, math.prod(shape)).reshape(shape)


def _first_of_larger(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    takes_b = (b[0] > a[0]) | ((b[0] == a[0]) & (b[1] < a[1]))
    return jnp.where(takes_b, b[0], a[0]), jnp.where(takes_b, b[1], a[1])


def _tiles(x: Array, setting: Setting) -> Array:
    """Return the array with each pooled axis split into windows and elements; channels last."""
    axes = setting.geometry.axes
    split = itertools.chain.from_iterable((axis.out, axis.kernel) for axis in axes)
    return x.reshape(x.shape[0], *split, x.shape[-1])


# --- 31x31 ----------------------------------------------------------------------------------------

_LOWEST = np.asarray(np.iinfo(np.int32).min, np.int32)


def _large_window(setting: Setting) -> Ideas:
    pool = functools.partial(jaxpool.max_pool, **setting.pool_settings)
    kernel, (h, w) = setting.case.window[0], setting.axes
    margin = kernel // 2

    def in_integers(run: Run) -> Run:
        """Map floats to integers, as jaxpool does, so that the rule about NaN costs no more."""
        return lambda x: reduce_in_integers(lambda keys, _: run(keys), x, MAX)

    def by_axis(one_axis: Run, **settings: Any) -> Run:
        """Pool the columns, then the rows."""
        return in_integers(
            lambda x: one_axis(one_axis(x, w, kernel, **settings), h, kernel, **settings)
        )

    def both_axes_per_level(x):
        x = pad(pad(x, h, margin, margin, _LOWEST), w, margin, margin, _LOWEST)
        for _, shifts in window_levels(kernel, 2)[::-1]:
            rows = [slice_axis(x, h, shift, x.shape[h] - shifts[-1], 1) for shift in shifts]
            width = x.shape[w] - shifts[-1]
            x = tree_reduce(
                lax.max, [slice_axis(row, w, shift, width, 1) for row in rows for shift in shifts]
            )
        return x

    def tiles_of_channels(x):
        tiles = jnp.moveaxis(x.reshape(*x.shape[:-1], 4, -1), -2, 0)
        return jnp.moveaxis(lax.map(pool, tiles), 0, -2).reshape(x.shape)

    ours = {
        "jaxpool": pool,
        "levels of thirds": by_axis(_pool_by_levels, radix=3),
        "van Herk by cummax": by_axis(_pool_by_van_herk, cumulative=lax.cummax),
        "van Herk by scan": by_axis(_pool_by_van_herk, cumulative=_cummax_by_scan),
        "tiles of 4 channels": tiles_of_channels,
        "both axes in each level": in_integers(both_axes_per_level),
        YARDSTICK: lambda x: jaxpool.max_pool(x, (3, 3), 1, 1),
    }
    return setting.ideas(
        ours, lambda x: F.max_pool2d(x, kernel, 1, margin), distinct_numbers(setting.case.shape)
    )


def _pool_by_levels(x: Array, axis: int, kernel: int, radix: int) -> Array:
    """Return maxima of windows that are composed of ``radix`` overlapping smaller windows."""
    x = pad(x, axis, kernel // 2, kernel // 2, _LOWEST)
    for _, shifts in window_levels(kernel, radix)[::-1]:
        count = x.shape[axis] - shifts[-1]
        x = tree_reduce(lax.max, [slice_axis(x, axis, shift, count, 1) for shift in shifts])
    return x


def _pool_by_van_herk(x: Array, axis: int, kernel: int, cumulative: Run) -> Array:
    """Return maxima of windows: each is the end of a block and the start of the next block."""
    size, margin = x.shape[axis], kernel // 2
    x = pad(x, axis, margin, margin + -(size + 2 * margin) % kernel, _LOWEST)
    blocks = x.reshape(*x.shape[:axis], -1, kernel, *x.shape[axis + 1 :])
    starts, ends = (
        cumulative(blocks, axis + 1, reverse=reverse).reshape(x.shape) for reverse in (False, True)
    )
    return lax.max(
        slice_axis(ends, axis, 0, size, 1), slice_axis(starts, axis, kernel - 1, size, 1)
    )


def _cummax_by_scan(x: Array, axis: int, reverse: bool) -> Array:
    """Return ``lax.cummax`` in n steps over one row each, not log(n) steps over the array."""
    step = lambda best, row: (lax.max(best, row),) * 2  # noqa: E731
    rows = jnp.moveaxis(x, axis, 0)
    first = jnp.full_like(rows[0], _LOWEST)
    return jnp.moveaxis(lax.scan(step, first, rows, reverse=reverse)[1], 0, axis)


# --- spaced taps: two, two elements apart, at every element ---------------------------------------


def _spaced_taps(setting: Setting) -> Ideas:
    h, w = setting.axes
    ours = {
        "jaxpool": functools.partial(jaxpool.max_pool, **setting.pool_settings),
        "segments joined": lambda x: _pool_by_segments(_pool_by_segments(x, w), h),
        "segments joined, rows first": lambda x: _pool_by_segments(_pool_by_segments(x, h), w),
        "padded at once": lambda x: _pool_by_padding(x, h, w),
        "padded, one axis after the other": lambda x: _pool_by_padding(_pool_by_padding(x, w), h),
        "rows joined, columns padded": lambda x: _pool_by_padding(_pool_by_segments(x, h), w),
        "reduce_window": lambda x: _reduce_window_maximum(x, setting),
    }
    return setting.ideas(
        ours, lambda x: F.max_pool2d(x, 2, 1, 1, 2), distinct_numbers(setting.case.shape)
    )


def _pool_by_segments(x: Array, axis: int) -> Array:
    """Concatenate the first and last window, which are copies of an element, with the others."""
    size, part = x.shape[axis], functools.partial(slice_axis, x, axis, stride=1)
    between = reduce_slices(MAX, [part(0, size - 2), part(2, size - 2)])
    return lax.concatenate([part(1, 1), between, part(size - 2, 1)], axis)


def _pool_by_padding(x: Array, *axes: int) -> Array:
    shape, lowest = x.shape, np.asarray(-np.inf, x.dtype)
    elements = [functools.reduce(lambda x, axis: pad(x, axis, 1, 1, lowest), axes, x)]
    for axis in axes:
        elements = [
            slice_axis(element, axis, start, shape[axis], 1)
            for element in elements
            for start in (0, 2)
        ]
    return reduce_slices(MAX, elements)


def _reduce_window_maximum(x: Array, setting: Setting) -> Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, **setting.window)


# --- low-precision dtypes on small maps: rows shorter than a vector -------------------------------


def _low_precision_dtypes(setting: Setting) -> Ideas:
    def channels_last(x):
        y = jaxpool.max_pool(jnp.moveaxis(x, 1, -1), **setting.case.settings)
        return jnp.moveaxis(y, -1, 1)

    def in_integers(one_axis: bool) -> Run:
        return lambda x: reduce_in_integers(
            lambda keys, _: _pool_flat_rows(keys, setting, one_axis), x, MAX
        )

    ours = {
        "jaxpool": functools.partial(jaxpool.max_pool, **setting.pool_settings),
        "rows end to end, all taps": in_integers(False),
        "rows end to end, one axis after the other": in_integers(True),
        "channels last and back": channels_last,
        "in float32": lambda x: jaxpool.max_pool(
            x.astype(jnp.float32), **setting.pool_settings
        ).astype(x.dtype),
        "reduce_window": lambda x: lax.reduce_window(x, x.dtype.type(0), lax.max, **setting.window),
    }
    pads = tuple(axis.pad_low for axis in setting.geometry.axes)
    theirs = lambda x: F.max_pool2d(x, setting.case.window, 1, pads)  # noqa: E731
    shape = setting.case.shape
    return setting.ideas(ours, theirs, np.random.default_rng(0).integers(0, 128, shape))


def _pool_flat_rows(x: Array, setting: Setting, one_axis: bool) -> Array:
    """Pool padded planes as long vectors, in which the next row is one row length away."""
    lowest = np.asarray(np.iinfo(x.dtype).min, x.dtype)
    (rows, columns), (height, width) = setting.geometry.kernel, x.shape[2:]
    for axis, array_axis in zip(setting.geometry.axes, setting.axes, strict=True):
        x = pad(x, array_axis, axis.pad_low, axis.pad_high, lowest)
    step, size = x.shape[3], x.shape[2] * x.shape[3]
    x, length = x.reshape(*x.shape[:2], size), (height - 1) * step + width
    if one_axis:
        count = size - columns + 1
        x = tree_reduce(lax.max, [slice_axis(x, 2, column, count, 1) for column in range(columns)])
        columns = 1
    taps = [row * step + column for row in range(rows) for column in range(columns)]
    y = tree_reduce(lax.max, [slice_axis(x, 2, tap, length, 1) for tap in taps])
    y = pad(y, 2, 0, height * step - length, lowest)
    return y.reshape(*y.shape[:2], height, step)[..., :width]


# --- the backward pass: a maximum and its gradient in one program ---------------------------------


def _backward(setting: Setting) -> Ideas:
    settings, geometry = setting.pool_settings, setting.geometry

    def by_offsets(scatter: Run) -> Run:
        def run(x, cotangent):
            y, taps = slices.argreduce(x, None, geometry, MAX)
            return y, scatter(cotangent, materialize(taps), geometry, cotangent.dtype)

        return run

    def by_scatter_add(x, cotangent):
        y, indices = jaxpool.max_pool_with_argmax(x, **settings)
        flat = lambda a: a.reshape(*a.shape[:2], -1)  # noqa: E731
        plane = lambda g, i: jnp.zeros(math.prod(x.shape[2:]), g.dtype).at[i].add(g)  # noqa: E731
        return y, jax.vmap(jax.vmap(plane))(flat(cotangent), flat(indices)).reshape(x.shape)

    def theirs(x, cotangent):
        x = x.detach().requires_grad_()
        y = F.max_pool2d(x, setting.case.window, setting.case.strides, 1)
        return y, torch.autograd.grad(y, x, cotangent)[0]

    ours = {
        "jaxpool": with_gradient(lambda x: jaxpool.max_pool(x, **settings)),
        "all axes at once": by_offsets(offset_slices.scatter),
        "one axis after the other": by_offsets(offset_levels.scatter),
        "scatter-add": by_scatter_add,
        "reduce_window": with_gradient(lambda x: _reduce_window_maximum(x, setting)),
    }
    cotangent = np.random.default_rng(1).integers(-8, 8, setting.out_shape)  # exact sums
    return setting.ideas(
        ours, theirs, distinct_numbers(setting.case.shape), cotangent.astype(np.float32)
    )


QUESTIONS: dict[str, tuple[Callable[[Setting], Ideas], list[tuple[str, ...]]]] = {
    "whole-small-planes": (_small_planes, [("resnet-head", "NHWC"), ("resnet-head", "NCHW")]),
    "small-planes-after-a-relu": (_small_planes_after_relu, [("resnet-head", "NHWC")]),
    "values-and-indices": (
        _values_and_indices,
        [("vgg-pool2", "NHWC"), ("audio-m5-pool1", "NHWC")],
    ),
    "31x31": (_large_window, [("dilation-31", "NHWC")]),
    "spaced-taps": (_spaced_taps, [("dense-vgg-pool2", "NCHW")]),
    "narrow-dtypes": (
        _low_precision_dtypes,
        [("googlenet-branch", "NCHW", "bfloat16"), ("yolo-sppf-5", "NCHW", "int8")],
    ),
    "backward": (_backward, [("googlenet-branch", "NCHW"), ("resnet-stem", "NCHW")]),
}


# --- measuring ------------------------------------------------------------------------------------


def _measure(
    question: str, build_ideas: Run, setting: Setting, rounds: int
) -> list[dict[str, Any]]:
    """Return a row per idea."""
    prepared = {name: _prepare(*idea) for name, idea in build_ideas(setting).items()}
    calls = {name: call for name, (call, _) in prepared.items()}
    _compare(setting, {name: call() for name, call in calls.items() if name != YARDSTICK})
    times = milliseconds(interleaved(calls, rounds))
    return [
        {
            "question": question,
            "case": setting.name,
            "layout": setting.layout,
            "dtype": setting.dtype,
            "idea": name,
            "milliseconds": times[name],
            "temporaries": temporaries,
            "outputs": math.prod(setting.out_shape),
        }
        for name, (_, temporaries) in prepared.items()
    ]


def _prepare(run: Run, arrays: tuple[Any, ...]) -> tuple[Callable[[], Any], int | None]:
    """Return a call that waits for its result, and the scratch bytes of a JAX program."""
    if not isinstance(arrays[0], Array):
        return lambda: run(*arrays), None
    compiled = jax.jit(run).lower(*arrays).compile()
    scratch = compiled.memory_analysis().temp_size_in_bytes
    return lambda: jax.block_until_ready(compiled(*arrays)), scratch


def _compare(setting: Setting, results: dict[str, Any]) -> None:
    """Raise unless the results of all ideas equal that of jaxpool."""
    tolerance = 0 if setting.case.op == "max_pool" else 1e-6  # averages differ in rounding
    channels = -1 if setting.layout == "NHWC" else 1
    expected_leaves = jax.tree.leaves(results["jaxpool"])
    for name, result in results.items():
        for expected, actual in zip(expected_leaves, jax.tree.leaves(result), strict=True):
            if isinstance(actual, torch.Tensor):
                actual = np.moveaxis(actual.detach().to(torch.float64).numpy(), 1, channels)
            message = f"{name}: {setting}"
            actual, expected = (np.asarray(value, np.float64) for value in (actual, expected))
            np.testing.assert_allclose(
                actual, expected, rtol=tolerance, atol=tolerance, err_msg=message
            )


def _table(rows: list[dict[str, Any]]) -> str:
    ours = next(row["milliseconds"] for row in rows if row["idea"] == "jaxpool")
    lines = ["\n{question}: {case} {layout} {dtype}".format(**rows[0])]
    for row in rows:
        milliseconds, scratch = row["milliseconds"], row["temporaries"]
        line = f"  {row['idea']:34} {milliseconds / ours:7.2f} {milliseconds:10.2f} ms"
        if scratch is not None:
            line += f" {scratch / row['outputs']:8.1f} bytes an output"
        lines.append(line)
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
