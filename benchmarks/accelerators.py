"""What the compilers of TPU and GPU make of pooling, beside what ships with JAX.

    python benchmarks/accelerators.py [CASE..] [--chips v5e,H100] [--dtypes bfloat16]
        [--layouts NHWC] [--tasks step] [--pools mosaic] [--cycles]
        [--out results/accelerators.json]

Compiles named cases for a TPU v5e, a TPU v6e and an H100 with their real compilers, on a machine
that has none of them, and writes what each program moves through main memory, its kernels,
temporaries and the seconds to compile; with ``--cycles`` also the cycles of TPU kernels, which
takes several times as long. Figures that are not measured again stay in the file.

These are the compilers' figures and no timings: they rank formulations. A task is values, argmax,
gradient, or step, which is values and gradient in one program. lax is ``lax.reduce_window`` and its
gradient; it has no argmax. mosaic is jaxpool with ``implementation="mosaic"``, on TPU and for the
windows that it takes. Needs ``pip install ".[accelerators]"``.
"""

import argparse
import functools
import itertools
import json
import math
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import compilers

Case = tuple[tuple[int, ...], tuple[int, ...], int, str]
CASES: dict[str, Case] = {
    "resnet-stem": ((64, 112, 112, 128), (3, 3), 2, "SAME"),
    "vgg-pool2": ((64, 112, 112, 128), (2, 2), 2, "VALID"),
    "googlenet-branch": ((64, 28, 28, 192), (3, 3), 1, "SAME"),
    "yolo-sppf-5": ((64, 20, 20, 256), (5, 5), 1, "SAME"),
    "yolo-spp-13": ((64, 20, 20, 256), (13, 13), 1, "SAME"),
    "alexnet-pool1": ((64, 55, 55, 128), (3, 3), 2, "VALID"),
    "dilation-31": ((8, 256, 256, 32), (31, 31), 1, "SAME"),
    "c3d-pool2": ((8, 16, 56, 56, 128), (2, 2, 2), 2, "VALID"),
    "moving-maximum-101": ((32, 16000, 16), (101,), 1, "SAME"),
}
"""Shapes with channels last, windows, strides and padding; batches that do not fit a cache."""

TASKS = ("values", "argmax", "gradient", "step")
POOLS = ("lax", "jaxpool", "mosaic")
Row = dict[str, Any]


def pools(case: Case, layout: str) -> dict[str, Callable[..., Any]]:
    """The maximum by each implementation."""
    import jax.numpy as jnp
    from jax import lax

    import jaxpool

    _, window, stride, padding = case
    words = {"data_format": "channels_last" if layout == "NHWC" else "channels_first"}
    front, behind = ((1,), (1,)) if layout == "NHWC" else ((1, 1), ())
    dims, strides = (*front, *window, *behind), (*front, *[stride] * len(window), *behind)
    ours = functools.partial(
        jaxpool.max_pool, window_shape=window, strides=stride, padding=padding, **words
    )
    return {
        "lax": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, dims, strides, padding),
        "jaxpool": ours,
        "mosaic": functools.partial(ours, implementation="mosaic"),
    }


def argmax(case: Case, layout: str) -> dict[str, Callable[..., Any]]:
    """Values and offsets of the argmax, by each implementation."""
    import jaxpool

    _, window, stride, padding = case
    ours = functools.partial(
        jaxpool.max_pool_with_argmax,
        window_shape=window,
        strides=stride,
        padding=padding,
        index_space="window",
        data_format="channels_last" if layout == "NHWC" else "channels_first",
    )
    return {"jaxpool": ours, "mosaic": functools.partial(ours, implementation="mosaic")}


def has_kernels(case: Case, dtype: str, chip: str) -> bool:
    """Whether the kernels of mosaic take a case on a chip."""
    import numpy as np

    import jaxpool
    from jaxpool._lowerings.implementations import mosaic
    from jaxpool._lowerings.request import Request
    from jaxpool.reductions import MAX

    shape, window, stride, padding = case
    geometry = jaxpool.geometry(shape[1:-1], window, stride, padding)
    request = Request("argreduce", geometry, MAX, np.dtype(dtype), False, "tpu")
    return compilers.CHIPS[chip].platform == "tpu" and not mosaic.unsupported_reason(request)


def program(task: str, pool: Callable[..., Any]) -> Callable[..., Any]:
    """The function of the array, and of a cotangent, that a task compiles."""
    import jax

    def gradient(x: Any, g: Any) -> Any:
        return jax.vjp(pool, x)[1](g)[0]

    def step(x: Any, g: Any) -> Any:
        y, pull = jax.vjp(pool, x)
        return y, pull(g)[0]

    return {"gradient": gradient, "step": step}.get(task, pool)


def out_shape(case: Case) -> tuple[int, ...]:
    """The shape of the result, channels last."""
    import jaxpool

    shape, window, stride, padding = case
    out = jaxpool.geometry(shape[1:-1], window, stride, padding).out_shape
    return (shape[0], *out, shape[-1])


def arguments(case: Case, layout: str, dtype: str, task: str) -> list[Any]:
    """The array, and for a derivative a cotangent."""
    shapes = [case[0], out_shape(case)]
    if layout == "NCHW":
        shapes = [(shape[0], shape[-1], *shape[1:-1]) for shape in shapes]
    return compilers.specs([(shape, dtype) for shape in shapes[: 1 + (task in TASKS[2:])]])


def measured(
    name: str, layout: str, dtype: str, chip: str, task: str, asked: Collection[str]
) -> Row:
    """One row of the results: the figures of every implementation that is asked for."""
    case = CASES[name]
    found = argmax(case, layout) if task == "argmax" else pools(case, layout)
    if not has_kernels(case, dtype, chip):
        del found["mosaic"]
    figures = {
        who: compilers.costs(chip, program(task, pool), *arguments(case, layout, dtype, task))
        for who, pool in found.items()
        if who in asked
    }
    where = {"case": name, "layout": layout, "dtype": dtype, "chip": chip, "task": task}
    return where | {"figures": figures}


def ratio(row: Row) -> float | None:
    """Traffic of jaxpool over that of lax."""
    figures = row["figures"]
    if not {"lax", "jaxpool"} <= set(figures):
        return None
    return figures["jaxpool"]["megabytes"] / figures["lax"]["megabytes"]


def merged(old: list[Row], new: list[Row]) -> list[Row]:
    """All rows, new figures in place of old ones of the same program."""
    key = lambda row: tuple(row[word] for word in ("case", "layout", "dtype", "chip", "task"))  # noqa: E731
    rows: dict[Any, Row] = {}
    for row in [*old, *new]:
        before = rows.get(key(row), {"figures": {}})
        rows[key(row)] = row | {"figures": before["figures"] | row["figures"]}
    return [rows[each] for each in sorted(rows)]


def summary(rows: list[Row]) -> Iterator[str]:
    """The geometric mean of the ratios of each chip and task, and the largest."""
    for chip, task in itertools.product(compilers.CHIPS, TASKS):
        these = [row for row in rows if (row["chip"], row["task"]) == (chip, task)]
        ratios = [found for row in these if (found := ratio(row)) is not None]
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
    asked = parser.parse_args()
    compilers.prepare(schedules=asked.cycles)
    every = (words.split(",") for words in (asked.layouts, asked.dtypes, asked.chips, asked.tasks))
    rows = []
    for job in itertools.product(asked.cases or CASES, *every):
        rows.append(measured(*job, asked=asked.pools.split(",")))
        print(json.dumps(rows[-1]), flush=True)
        if asked.out:
            old = json.loads(asked.out.read_text())["rows"] if asked.out.exists() else []
            asked.out.write_text(json.dumps({"rows": merged(old, rows)}, indent=1) + "\n")
    print("\n".join(summary(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
