"""Times pooling on the accelerator of this machine, against lax.reduce_window and PyTorch.

    python benchmarks/device.py [CASE..] [--dtypes bfloat16] [--layouts NHWC] [--tasks step]
        [--out results/device.json]

The cases and tasks of maxima are those of accelerators.py; averages and other ops have the tasks
values and step. Batches are so large that an array has 256 MiB: a call takes longer than its
launch, and no cache can contain its array. Contestants alternate. In each turn, a contestant
enqueues calls for 5 ms, alternately on two arrays, and waits for the last call. Results are
compared before the timing.

lax is ``lax.reduce_window`` and its gradient. torch runs on a GPU if PyTorch is installed, in the
layout of the row. PyTorch pads both ends equally; if JAX does not, PyTorch's windows begin an
element earlier, and its results are not compared. The other ops are timed against PyTorch only.
Figures that are not measured again stay in the file. Read the ratios.
"""

import argparse
import functools
import importlib
import importlib.util
import itertools
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import accelerators
import numpy as np
from measuring import DATA_FORMATS, versions

BYTES, SECONDS_PER_TURN, TURNS = 2**28, 0.005, 7

Run = Callable[[int], Any]
"""Enqueues the number of calls, waits for the last and returns its result."""


class Case(NamedTuple):
    """An op in three libraries, and a shape with channels last; ``BYTES`` sets the batch.

    ``ours`` and ``lax`` accept an array and a data format, ``torch`` accepts a tensor with channels
    first. The results of ``torch`` are compared in the layouts ``comparable``.
    """

    shape: tuple[int, ...]
    tasks: tuple[str, ...]
    ours: Callable[[Any, str], Any]
    lax: Callable[[Any, str], Any] | None
    torch: Callable[[Any], Any] | None
    comparable: tuple[str, ...] = ("NHWC", "NCHW")
    argmax: Callable[[Any, str], Any] | None = None
    torch_argmax: Callable[[Any], Any] | None = None


def cases() -> dict[str, Case]:
    """Return maxima, averages, and the ops other than sliding maxima and averages, by name."""
    cases_by_name = {name: _maximum(case) for name, case in accelerators.MAXIMA.items()}
    windows = {
        "average, 2x2 at stride 2": ((112, 112, 128), (2, 2), 2, 0, True),
        "average, 3x3 at stride 1": ((28, 28, 192), (3, 3), 1, 1, False),
        "average, 3x3 at stride 2": ((113, 113, 128), (3, 3), 2, 1, True),
        "average, 31x31 at stride 1": ((112, 112, 32), (31, 31), 1, 15, False),
    }
    cases_by_name |= {name: _average(*window) for name, window in windows.items()}
    return cases_by_name | _other_ops() if _has_torch() else cases_by_name


def _has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def _torch_pool(name: str, *settings: Any, **keywords: Any) -> Callable[[Any], Any]:
    """Return a function of ``torch.nn.functional``; torch is imported when it is called."""

    def pool(x: Any) -> Any:
        return getattr(importlib.import_module("torch.nn.functional"), name)(
            x, *settings, **keywords
        )

    return pool


def _maximum(case: accelerators.Case) -> Case:
    axes, window = case.geometry.axes, case.window
    layout = lambda data_format: "NHWC" if data_format == "channels_last" else "NCHW"  # noqa: E731
    keywords: dict[str, Any] = {"kernel_size": window, "stride": case.stride}
    keywords["padding"] = tuple(axis.pad_high for axis in axes)
    torch_function = functools.partial(_torch_pool, f"max_pool{len(window)}d", **keywords)
    return Case(
        case.shape[1:],
        accelerators.TASKS,
        lambda x, f: accelerators.pools(case, layout(f))["jaxpool"](x),
        lambda x, f: accelerators.pools(case, layout(f))["lax"](x),
        torch_function(),
        ("NHWC", "NCHW") if all(axis.pad_low == axis.pad_high for axis in axes) else (),
        lambda x, f: accelerators.argmax(case, layout(f))["jaxpool"](x),
        torch_function(return_indices=True),
    )


def _average(
    shape: tuple[int, ...], window: tuple[int, int], stride: int, padding: int, include_pad: bool
) -> Case:
    import jax.numpy as jnp
    from jax import lax

    import jaxpool

    def reduce_window_average(x: Any, data_format: str) -> Any:
        spatial = (1, 2) if data_format == "channels_last" else (2, 3)
        dims, strides, edges = [1] * 4, [1] * 4, [(0, 0)] * 4
        for axis, side in zip(spatial, window, strict=True):
            dims[axis], strides[axis], edges[axis] = side, stride, (padding, padding)
        zero = np.zeros((), x.dtype)
        total = lax.reduce_window(x, zero, lax.add, dims, strides, edges)
        if include_pad:
            return total / math.prod(window)
        ones = jnp.ones([n if a in spatial else 1 for a, n in enumerate(x.shape)], x.dtype)
        return total / lax.reduce_window(ones, zero, lax.add, dims, strides, edges)

    settings: dict[str, Any] = {"padding": padding, "count_include_pad": include_pad}
    ours = functools.partial(jaxpool.avg_pool, window_shape=window, strides=stride, **settings)
    return Case(
        shape,
        ("values", "step"),
        lambda x, f: ours(x, data_format=f),
        reduce_window_average,
        _torch_pool("avg_pool2d", window, stride, **settings),
        ("NCHW",) if padding else ("NHWC", "NCHW"),  # github.com/pytorch/pytorch/issues/188344
    )


def _other_ops() -> dict[str, Case]:
    import ops

    return {
        case.name: Case(
            case.shape[2:] + case.shape[1:2], ("values", "step"), case.ours, None, case.theirs
        )
        for case in ops._cases()
    }


# --- contestants ----------------------------------------------------------------------------------


class Job(NamedTuple):
    """A case in a layout and dtype."""

    name: str
    case: Case
    layout: str
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        size = math.prod(self.case.shape) * (2 if self.dtype == "bfloat16" else 4)
        images = max(1, BYTES // size)
        *sides, channels = self.case.shape
        return (images, *sides, channels) if self.layout == "NHWC" else (images, channels, *sides)

    @property
    def out_shape(self) -> tuple[int, ...]:
        import jax

        pool = functools.partial(_positional, self.case.ours, DATA_FORMATS[self.layout])
        return jax.eval_shape(pool, jax.ShapeDtypeStruct(self.shape, self.dtype)).shape

    def shapes(self, task: str) -> list[tuple[int, ...]]:
        """Return the shape of the array, and for a derivative also that of a cotangent."""
        return [self.shape, self.out_shape][: 2 if task in ("gradient", "step") else 1]

    def arrays(self, shape: tuple[int, ...], limit: int) -> list[Any]:
        """Return two arrays of hashed multiples of 1/16, whose sums are exact in every dtype."""
        return [
            _hashed_array_function()(shape, self.dtype, np.uint32(limit), np.uint32(n))
            for n in (3, 5)
        ]


@functools.cache
def _hashed_array_function() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    @functools.partial(jax.jit, static_argnums=(0, 1))
    def hashed_array(shape: tuple[int, ...], dtype: str, limit: Any, factor: Any) -> Any:
        hashed = jnp.arange(math.prod(shape), dtype=jnp.uint32) * jnp.uint32(2654435761) * factor
        numbers = (hashed >> 12) % (2 * limit)
        return ((numbers.astype(jnp.float32) - limit) / 16).astype(dtype).reshape(shape)

    return hashed_array


def compiled(job: Job) -> dict[tuple[str, str], Any]:
    """Return the compiled program of each task, by jaxpool and by lax."""
    import jax

    f = DATA_FORMATS[job.layout]
    programs_by_key = {}
    for task in job.case.tasks:
        ours = job.case.argmax if task == "argmax" else job.case.ours
        theirs = None if task == "argmax" else job.case.lax
        for library, pool in (("jaxpool", ours), ("lax", theirs)):
            if pool is not None:
                program = accelerators.program(task, functools.partial(_positional, pool, f))
                specs = [jax.ShapeDtypeStruct(shape, job.dtype) for shape in job.shapes(task)]
                programs_by_key[task, library] = jax.jit(program).lower(*specs).compile()
    return programs_by_key


def _positional(pool: Callable[..., Any], data_format: str, x: Any) -> Any:
    return pool(x, data_format)


def programs(job: Job, compiled_programs: dict[tuple[str, str], Any]) -> dict[tuple[str, str], Run]:
    """Return a ``Run`` of each task, by jaxpool and by lax."""
    xs = job.arrays(job.shape, 64)
    gs = job.arrays(job.out_shape, 8)
    inputs, inputs_and_cotangents = [(x,) for x in xs], [*zip(xs, gs, strict=True)]
    return {
        (task, library): functools.partial(
            _run, f, inputs_and_cotangents if task in ("gradient", "step") else inputs
        )
        for (task, library), f in compiled_programs.items()
    }


def _run(compiled: Callable[..., Any], arguments: list[Any], calls: int) -> Any:
    import jax

    out = None
    for call in range(calls):
        out = compiled(*arguments[call % 2])
    return jax.block_until_ready(out)


def torch_programs(job: Job) -> dict[tuple[str, str], Run]:
    """Return a ``Run`` of each task by PyTorch on the GPU; none without PyTorch or a GPU."""
    import jax

    if jax.default_backend() != "gpu" or not _has_torch():
        return {}
    import torch

    if not torch.cuda.is_available():
        return {}
    xs = [_tensor(job, x) for x in job.arrays(job.shape, 64)]
    gs = [_tensor(job, g) for g in job.arrays(job.out_shape, 8)]

    def forward(pool: Callable[[Any], Any], calls: int) -> Any:
        with torch.no_grad():
            for call in range(calls):
                result = pool(xs[call % 2])
        torch.cuda.synchronize()
        return result

    def step(calls: int) -> Any:
        for call in range(calls):
            x = xs[call % 2].requires_grad_()
            y = job.case.torch(x)
            result = y, torch.autograd.grad(y, x, gs[call % 2])[0]
        torch.cuda.synchronize()
        return result

    runs = {
        "values": functools.partial(forward, job.case.torch),
        "argmax": functools.partial(forward, job.case.torch_argmax),
        "step": step,
    }
    return {(task, "torch"): runs[task] for task in job.case.tasks if task in runs}


def _tensor(job: Job, array: Any) -> Any:
    """Return a tensor with channels first that shares the memory of the array."""
    import torch

    tensor = torch.from_dlpack(array)
    return tensor.movedim(-1, 1) if job.layout == "NHWC" else tensor


# --- comparing and timing -------------------------------------------------------------------------


def compare(job: Job, runs: dict[tuple[str, str], Run]) -> None:
    """Raise unless all contestants of a task agree; of an argmax only values are compared.

    lax adds bfloat16 in bfloat16, so its averages of bfloat16 are not compared.
    """
    import jax

    for task in job.case.tasks:
        ours = jax.tree.leaves(runs[task, "jaxpool"](1))
        for library in ("lax", "torch"):
            differs_by_design = (
                job.layout not in job.case.comparable
                if library == "torch"
                else job.dtype == "bfloat16" and job.case.argmax is None
            )
            if differs_by_design or (task, library) not in runs:
                continue
            theirs = jax.tree.leaves(runs[task, library](1))
            for a, b in [*zip(ours, theirs, strict=True)][: 1 if task == "argmax" else None]:
                b = _array(job, b) if library == "torch" else b
                error = float(_difference()(a, b))
                # lax accumulates bfloat16 cotangents in bfloat16.
                if not error < (1e-5 if job.dtype == "float32" else 0.1):
                    configuration = f"{job.name} {job.layout} {job.dtype} {task}"
                    raise AssertionError(f"{configuration}: {error} of the norm from {library}")


@functools.cache
def _difference() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    def difference(a: Any, b: Any) -> Any:
        a, b = a.astype(jnp.float32).ravel(), b.astype(jnp.float32).ravel()
        return jnp.linalg.norm(a - b) / jnp.linalg.norm(b)

    return jax.jit(difference)


def _array(job: Job, tensor: Any) -> Any:
    import jax.numpy as jnp

    tensor = tensor.detach()
    tensor = tensor.movedim(1, -1) if job.layout == "NHWC" else tensor
    return jnp.from_dlpack(tensor.contiguous())


def microseconds(runs: dict[str, Run]) -> dict[str, float]:
    """Return the median time of a call of each contestant; slow calls have fewer turns."""
    calls = {library: _calls(run) for library, run in runs.items()}
    times: dict[str, list[float]] = {library: [] for library in runs}
    for turn in range(TURNS):
        for library, run in runs.items():
            if turn < 3 or sum(times[library]) * calls[library] < TURNS * SECONDS_PER_TURN * 2:
                times[library].append(_seconds(run, calls[library]) / calls[library])
    return {
        library: round(1e6 * statistics.median(seconds), 1) for library, seconds in times.items()
    }


def _calls(run: Run) -> int:
    run(1)
    return max(1, math.ceil(SECONDS_PER_TURN / _seconds(run, 2) * 2))


def _seconds(run: Run, calls: int) -> float:
    start = time.perf_counter()
    run(calls)
    return time.perf_counter() - start


def measured(job: Job, compiled_programs: dict[tuple[str, str], Any]) -> Iterator[dict[str, Any]]:
    """Yield a row for each task."""
    runs = programs(job, compiled_programs) | torch_programs(job)
    compare(job, runs)
    for task in job.case.tasks:
        times = microseconds(
            {library: run for (task_of_run, library), run in runs.items() if task_of_run == task}
        )
        configuration = {"case": job.name, "layout": job.layout, "dtype": job.dtype, "task": task}
        yield configuration | {"shape": job.shape, "microseconds": times}


def summary(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the mean and the maximum of jaxpool's time over each opponent's, for each task."""
    for task, opponent in itertools.product(accelerators.TASKS, ("lax", "torch")):
        times_of_rows = [row["microseconds"] for row in rows if row["task"] == task]
        ratios = [
            times["jaxpool"] / times[opponent] for times in times_of_rows if opponent in times
        ]
        if ratios:
            mean = statistics.geometric_mean(ratios)
            yield f"{task:9} jaxpool / {opponent:6} mean {mean:.2f}, largest {max(ratios):.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--layouts", default="NHWC,NCHW")
    parser.add_argument("--tasks", default=",".join(accelerators.TASKS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch needs memory as well
    import jax

    jobs, rows = jobs_of(options), []
    with ThreadPoolExecutor() as threads:
        compiled_programs = list(threads.map(compiled, jobs))  # all of them before the timing
    for job, programs_of_job in zip(jobs, compiled_programs, strict=True):
        for row in measured(job, programs_of_job):
            rows.append(row)
            print(json.dumps(row), flush=True)
        if options.out:
            report = {"device": jax.devices()[0].device_kind, "versions": versions("torch")}
            old = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
            options.out.write_text(
                json.dumps(report | {"rows": merged(old, rows)}, indent=1) + "\n"
            )
    print("\n".join(summary(rows)))
    return 0


def jobs_of(options: argparse.Namespace) -> list[Job]:
    """Return the jobs that the options select."""
    all_cases, tasks = cases(), options.tasks.split(",")
    names, layouts, dtypes = (
        options.cases or all_cases,
        options.layouts.split(","),
        options.dtypes.split(","),
    )
    jobs = []
    for name, layout, dtype in itertools.product(names, layouts, dtypes):
        case = all_cases[name]
        case = case._replace(tasks=tuple(task for task in case.tasks if task in tasks))
        jobs.append(Job(name, case, layout, dtype))
    return jobs


def merged(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all rows, where new ones replace old ones of the same program."""
    key = lambda row: tuple(row[word] for word in ("case", "layout", "dtype", "task"))  # noqa: E731
    return [*({key(row): row for row in [*old, *new]}).values()]


if __name__ == "__main__":
    sys.exit(main())
