"""Times the ops other than sliding maxima and averages against PyTorch, in one run.

    python benchmarks/ops.py [--rounds N] [--out results/ops.json]

The tasks are forward, and forward with the gradient; PyTorch's memory format is the layout of the
row. Results are compared before the timing. Read the ratios: PyTorch's time over jaxpool's.
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

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


class Case(NamedTuple):
    """An op in both libraries.

    ``ours`` accepts an array and a data format, ``theirs`` a tensor with channels first.
    """

    name: str
    shape: tuple[int, int, int, int]
    ours: Callable[[Any, str], Any]
    theirs: Callable[[Any], Any]


def main() -> int:
    options = parser(__doc__, rounds=25).parse_args()
    keep_memory()
    rows = []
    for case in _cases():
        for layout in DATA_FORMATS:
            for task in ("forward", "backward"):
                rows.append(_measure(case, layout, task, options.rounds))
                print(_line(rows[-1]), flush=True)
    write(options.out, {"versions": versions("torch"), "rows": rows})
    return 0


def _cases() -> list[Case]:
    import torch.nn.functional as F

    import jaxpool

    def pool(op: str, *window: Any, **settings: Any) -> Callable[[Any, str], Any]:
        return lambda x, f: getattr(jaxpool, op)(x, *window, data_format=f, **settings)

    def pool_and_unpool(x, data_format):
        y, indices = jaxpool.max_pool_with_argmax(x, (2, 2), 2, data_format=data_format)
        spatial_shape = x.shape[1:3] if data_format == "channels_last" else x.shape[2:]
        return jaxpool.max_unpool(y, indices, spatial_shape, data_format=data_format)

    def torch_pool_and_unpool(x):
        return F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)

    def torch_lp(p: float) -> Callable[[Any], Any]:
        return lambda x: F.lp_pool2d(x.abs(), p, 3, 2)

    large, medium, small = (8, 64, 112, 112), (8, 64, 56, 56), (32, 1024, 7, 7)
    return [
        Case("adaptive average to 7", medium, pool("adaptive_avg_pool", (7, 7)),
             lambda x: F.adaptive_avg_pool2d(x, 7)),
        Case("adaptive average to 5", medium, pool("adaptive_avg_pool", (5, 5)),
             lambda x: F.adaptive_avg_pool2d(x, 5)),
        Case("adaptive average to 6", medium, pool("adaptive_avg_pool", (6, 6)),
             lambda x: F.adaptive_avg_pool2d(x, 6)),
        Case("adaptive maximum to 7", medium, pool("adaptive_max_pool", (7, 7)),
             lambda x: F.adaptive_max_pool2d(x, 7)),
        Case("adaptive maximum to 5", medium, pool("adaptive_max_pool", (5, 5)),
             lambda x: F.adaptive_max_pool2d(x, 5)),
        Case("adaptive maximum to 6", medium, pool("adaptive_max_pool", (6, 6)),
             lambda x: F.adaptive_max_pool2d(x, 6)),
        Case("global average", small, pool("global_avg_pool"),
             lambda x: F.adaptive_avg_pool2d(x, 1)),
        Case("global maximum", small, pool("global_max_pool"),
             lambda x: F.adaptive_max_pool2d(x, 1)),
        Case("maximum and unpooling", large, pool_and_unpool, torch_pool_and_unpool),
        Case("lp, p = 2", large, pool("lp_pool", (3, 3), 2, p=2), torch_lp(2)),
        Case("lp, p = 3", large, pool("lp_pool", (3, 3), 2, p=3), torch_lp(3)),
        Case("lp, p = 3.5", large, pool("lp_pool", (3, 3), 2, p=3.5), torch_lp(3.5)),
        Case("lp, p = 1.2", large, pool("lp_pool", (3, 3), 2, p=1.2), torch_lp(1.2)),
    ]  # fmt: skip


def _measure(case: Case, layout: str, task: str, rounds: int) -> dict[str, Any]:
    import numpy as np
    from pools import distinct_numbers

    x = distinct_numbers(case.shape)
    x = x / x.size - 0.5
    calls = {"jaxpool": _jaxpool(case, x, layout, task), "torch": _torch(case, x, layout, task)}
    ours, theirs = (np.asarray(call()) for call in calls.values())
    ours = ours if layout == "NCHW" else np.moveaxis(ours, -1, 1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5, err_msg=f"{case.name} {task}")
    times = milliseconds(interleaved(calls, rounds))
    return {"case": case.name, "layout": layout, "task": task, "milliseconds": times}


def _jaxpool(case: Case, x: Any, layout: str, task: str) -> Callable[[], Any]:
    import jax
    import jax.numpy as jnp

    array = jnp.asarray(x if layout == "NCHW" else x.transpose(0, 2, 3, 1))
    forward = jax.jit(lambda x: case.ours(x, DATA_FORMATS[layout]))
    backward = jax.jit(jax.grad(lambda x: (case.ours(x, DATA_FORMATS[layout]) ** 2).sum()))
    compiled = forward if task == "forward" else backward
    return lambda: compiled(array).block_until_ready()


def _torch(case: Case, x: Any, layout: str, task: str) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(THREADS)
    memory = torch.contiguous_format if layout == "NCHW" else torch.channels_last
    tensor = torch.from_numpy(x).contiguous(memory_format=memory)
    if task == "forward":
        return lambda: case.theirs(tensor)
    tensor.requires_grad_(True)
    return lambda: torch.autograd.grad((case.theirs(tensor) ** 2).sum(), tensor)[0]


def _line(row: dict[str, Any]) -> str:
    ours, theirs = row["milliseconds"]["jaxpool"], row["milliseconds"]["torch"]
    return (
        f"{row['case']:24} {row['layout']} {row['task']:9} jaxpool {ours:8.2f} ms  "
        f"torch {theirs:8.2f} ms ({theirs / ours:.2f})"
    )


if __name__ == "__main__":
    sys.exit(main())
