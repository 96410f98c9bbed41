"""Reports what the compilers of TPU and GPU make of pools, and of ``lax.reduce_window``.

    python benchmarks/accelerators.py [CASE..] [--chips v5e,H100] [--dtypes bfloat16]
        [--layouts NHWC] [--tasks step] [--pools mosaic] [--cycles]
        [--out results/accelerators.json]

Compiles named cases for a TPU v5e, a TPU v6e and an H100 with their production compilers, on a
machine that has none of them. Writes the main-memory traffic, kernels, temporaries and compile
seconds of each program; with ``--cycles`` also the cycles of TPU kernels, which takes several times
as long. Figures that are not measured again stay in the file.

These are estimates by the compilers, not timings: they rank formulations. A task is values, argmax,
gradient, or step, which is values and gradient in one program. lax is ``lax.reduce_window`` and its
gradient; it has no argmax, and neither has an average. mosaic is jaxpool with
``implementation="mosaic"``, on TPU and for the maxima whose windows it supports. Needs
``pip install ".[accelerators]"``.
"""

import argparse
import functools
import itertools
import json
import math
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import compilers
from measuring import DATA_FORMATS


class Case(NamedTuple):
    """A shape with channels last, a window, a stride for every axis, padding, and the op."""

    shape: tuple[int, ...]
    window: tuple[int, ...]
    stride: int
    padding: str
    op: str = "max_pool"

    @property
    def geometry(self) -> Any:
        """The windows over the spatial axes."""
        import jaxpool

        return jaxpool.geometry(self.shape[1:-1], self.window, self.stride, self.padding)


MAXIMA = {
    "resnet-stem": Case((64, 112, 112, 128), (3, 3), 2, "SAME"),
    "vgg-pool2": Case((64, 112, 112, 128), (2, 2), 2, "VALID"),
    "googlenet-branch": Case((64, 28, 28, 192), (3, 3), 1, "SAME"),
    "yolo-sppf-5": Case((64, 20, 20, 256), (5, 5), 1, "SAME"),
    "yolo-spp-13": Case((64, 20, 20, 256), (13, 13), 1, "SAME"),
    "alexnet-pool1": Case((64, 55, 55, 128), (3, 3), 2, "VALID"),
    "dilation-31": Case((8, 256, 256, 32), (31, 31), 1, "SAME"),
    "c3d-pool2": Case((8, 16, 56, 56, 128), (2, 2, 2), 2, "VALID"),
    "moving-maximum-101": Case((32, 16000, 16), (101,), 1, "SAME"),
}
"""The batches exceed the caches."""

CASES = MAXIMA | {
    "average-3-of-12": Case((12, 56, 56, 128), (3, 3), 1, "SAME", "avg_pool"),
    "average-5-of-12": Case((12, 56, 56, 128), (5, 5), 1, "SAME", "avg_pool"),
}
"""Also averages on so few images that arrays of a TPU stay in its vector memory."""

TASKS = ("values", "argmax", "gradient", "step")
POOLS = ("lax", "jaxpool", "mosaic")
Row = dict[str, Any]


def pools(case: Case, layout: str) -> dict[str, Callable[..., Any]]:
    """Return the maximum or average by each implementation."""
    import jax.numpy as jnp
    from jax import lax

    import jaxpool

    _, window, stride, padding, op = case
    leading, trailing = ((1,), (1,)) if layout == "NHWC" else ((1, 1), ())
    dims, strides = (*leading, *window, *trailing), (*leading, *[stride] * len(window), *trailing)
    ours = functools.partial(
        getattr(jaxpool, op),
        window_shape=window,
        strides=stride,
        padding=padding,
        data_format=DATA_FORMATS[layout],
    )

    def by_lax(x: Any) -> Any:
        if op == "max_pool":
            return lax.reduce_window(x, -jnp.inf, lax.max, dims, strides, padding)
        return lax.reduce_window(x, 0.0, lax.add, dims, strides, padding) / math.prod(window)

    return {
        "lax": by_lax,
        "jaxpool": ours,
        "mosaic": functools.partial(ours, implementation="mosaic"),
    }


def argmax(case: Case, layout: str) -> dict[str, Callable[..., Any]]:
    """Return the values and offsets of the argmax, by each implementation."""
    import jaxpool

    _, window, stride, padding, _ = case
    ours = functools.partial(
        jaxpool.max_pool_with_argmax,
        window_shape=window,
        strides=stride,
        padding=padding,
        index_space="window",
        data_format=DATA_FORMATS[layout],
    )
    return {"jaxpool": ours, "mosaic": functools.partial(ours, implementation="mosaic")}


def has_kernels(case: Case, dtype: str, chip: str) -> bool:
    """Return whether the kernels of mosaic support a case on a chip."""
    import numpy as np

    from jaxpool._lowerings.implementations import mosaic
    from jaxpool._lowerings.request import Request
    from jaxpool.reductions import MAX

    if case.op != "max_pool" or compilers.CHIPS[chip].platform != "tpu":
        return False
    request = Request("argreduce", case.geometry, MAX, np.dtype(dtype), False, "tpu")
    return not mosaic.unsupported_reason(request)


def program(task: str, pool: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a task compiles: of the array, and if needed of a cotangent."""
    from pools import with_gradient

    step = with_gradient(pool)
    return {"gradient": lambda x, g: step(x, g)[1], "step": step}.get(task, pool)


def out_shape(case: Case) -> tuple[int, ...]:
    """Return the shape of the result, channels last."""
    return (case.shape[0], *case.geometry.out_shape, case.shape[-1])


def arguments(case: Case, layout: str, dtype: str, task: str) -> list[Any]:
    """Return the specs of the array, and for a derivative also of a cotangent."""
    shapes = [case[0], out_shape(case)]
    if layout == "NCHW":
        shapes = [(shape[0], shape[-1], *shape[1:-1]) for shape in shapes]
    return compilers.specs([(shape, dtype) for shape in shapes[: 1 + (task in TASKS[2:])]])


def measured(
    name: str, layout: str, dtype: str, chip: str, task: str, asked: Collection[str]
) -> Row:
    """Return a row of the results: the figures of every implementation in ``asked``."""
    case = CASES[name]
    contestants = argmax(case, layout) if task == "argmax" else pools(case, layout)
    if not has_kernels(case, dtype, chip):
        del contestants["mosaic"]
    figures = {
        contestant: compilers.costs(
            chip, program(task, pool), *arguments(case, layout, dtype, task)
        )
        for contestant, pool in contestants.items()
        if contestant in asked
    }
    configuration = {"case": name, "layout": layout, "dtype": dtype, "chip": chip, "task": task}
    return configuration | {"figures": figures}


def ratio(row: Row) -> float | None:
    """Return the traffic of jaxpool over that of lax; None if either is missing."""
    figures = row["figures"]
    if not {"lax", "jaxpool"} <= set(figures):
        return None
    return figures["jaxpool"]["megabytes"] / figures["lax"]["megabytes"]


def merged(old: list[Row], new: list[Row]) -> list[Row]:
    """Return all rows, where new figures replace old ones of the same program."""
    key = lambda row: tuple(row[word] for word in ("case", "layout", "dtype", "chip", "task"))  # noqa: E731
    rows: dict[Any, Row] = {}
    for row in [*old, *new]:
        existing = rows.get(key(row), {"figures": {}})
        rows[key(row)] = row | {"figures": existing["figures"] | row["figures"]}
    return [rows[program_key] for program_key in sorted(rows)]


def summary(rows: list[Row]) -> Iterator[str]:
    """Yield the geometric mean and the maximum of the ratios of each chip and task."""
    for chip, task in itertools.product(compilers.CHIPS, TASKS):
        selected = [row for row in rows if (row["chip"], row["task"]) == (chip, task)]
        ratios = [value for row in selected if (value := ratio(row)) is not None]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            yield f"{chip:5} {task:9} traffic / lax: mean {mean:.2f}, largest {max(ratios):.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", choices=[*CASES, []])
    parser.add_argument("--chips", default=",".join(compilers.CHIPS))
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--layouts", default="NHWC,NCHW")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--pools", default=",".join(POOLS))
    parser.add_argument("--cycles", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    compilers.prepare(schedules=options.cycles)
    choices = (
        names.split(",")
        for names in (options.layouts, options.dtypes, options.chips, options.tasks)
    )
    rows = []
    for job in itertools.product(options.cases or CASES, *choices):
        if job[0] not in MAXIMA and job[-1] == "argmax":
            continue
        rows.append(measured(*job, asked=options.pools.split(",")))
        print(json.dumps(rows[-1]), flush=True)
        if options.out:
            old = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
            options.out.write_text(json.dumps({"rows": merged(old, rows)}, indent=1) + "\n")
    print("\n".join(summary(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
