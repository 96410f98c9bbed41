"""Where one implementation overtakes another on this CPU: the reasons for the planner's thresholds.

    python benchmarks/thresholds.py [--out results/thresholds.json]

Runs the lowerings on square windows, asking none whether it declines, and prints times as ratios to
one pass over memory (x + 1) in the same rounds. The planner's constants, ``slices.MAX_KERNEL``,
``slices.MAX_JOINT_TAPS``, ``_send.MOST_TAPS_AT_ONCE`` and ``_send.MOST_TAPS_UNROLLED``, are read
off it; and off the windows side by side, the numbers of cells in ``lowerings/reshape.py`` and
``slices.MAX_KERNEL_APART``.
"""

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from measuring import interleaved, milliseconds, parser, versions, write

import jaxpool
from jaxpool._lowerings import IMPLEMENTATIONS, doubling, offset_levels, offset_slices, tiled
from jaxpool._lowerings.float_order import reduce_slices
from jaxpool.reductions import MAX, SUM

KERNELS = (2, 3, 4, 5, 6, 7, 8, 10, 13)
SHAPES = {"channels last": (8, 56, 56, 64), "channels first": (8, 64, 56, 56)}
SIDE_BY_SIDE = (2, 4, 7, 8, 14, 28, 56)
BATCHES = (1, 8)
POSITIONS = {"channels last": (-3, -2), "channels first": (-2, -1)}


def main() -> int:
    options = parser(__doc__).parse_args()
    rows = []
    for layout in SHAPES:
        for stride in (1, 2):
            for kernel in KERNELS:
                rows.append(_row(layout, stride, kernel))
                print(_line(rows[-1]), flush=True)
    for layout in SHAPES:
        for batch in BATCHES:
            for kernel in SIDE_BY_SIDE:
                rows.append(_side_by_side(layout, batch, kernel))
                print(_line(rows[-1]), flush=True)
    write(options.out, {"versions": versions(), "rows": rows})
    return 0


def _row(layout: str, stride: int, kernel: int) -> dict[str, Any]:
    spatial = [SHAPES[layout][position] for position in POSITIONS[layout]]
    made = jaxpool.geometry(spatial, (kernel, kernel), stride, kernel // 2)
    geometry = jaxpool.Geometry(made.axes, POSITIONS[layout])
    x = jnp.asarray(np.random.default_rng(0).normal(size=SHAPES[layout]), jnp.float32)
    programs: dict[str, Callable[[], Any]] = {"x + 1": _program(lambda x: x + 1, x)}
    for name in ("slices", "doubling", "reduce_window"):
        implementation = IMPLEMENTATIONS[name].module
        if name != "reduce_window" or kernel <= 5:
            programs[f"max {name}"] = _program(
                lambda x, m=implementation: m.reduce(x, geometry, MAX), x
            )
            programs[f"sum {name}"] = _program(
                lambda x, m=implementation: m.reduce(x, geometry, SUM), x
            )
        if name != "reduce_window":
            argreduce = lambda x, m=implementation: m.argreduce(x, None, geometry, MAX)  # noqa: E731
            programs[f"argreduce {name}"] = _program(argreduce, x)
    values, offsets = jax.jit(lambda x: doubling.argreduce(x, None, geometry, MAX))(x)
    for name, module in {"slices": offset_slices, "doubling": offset_levels}.items():
        if kernel <= 5 or name == "doubling":
            scatter = lambda g, t, m=module: m.scatter(g, t, geometry, g.dtype)  # noqa: E731
            programs[f"scatter {name}"] = _program(scatter, values, offsets)
    times = milliseconds(interleaved(programs, rounds=9))
    ratios = {name: t / times["x + 1"] for name, t in times.items() if name != "x + 1"}
    batch = SHAPES[layout][0]
    return {
        "layout": layout, "batch": batch, "stride": stride, "kernel": kernel, "ratios": ratios,
    }  # fmt: skip


def _side_by_side(layout: str, batch: int, kernel: int) -> dict[str, Any]:
    """Reductions of windows of ``kernel`` cells a side, at once and along one axis at a time."""
    shape, positions = (batch, *SHAPES[layout][1:]), POSITIONS[layout]
    split = [(size,) for size in shape]
    for position in positions:
        split[position] = (shape[position] // kernel, kernel)
    axes = tiled.window_axes(positions, len(shape))
    x = np.random.default_rng(0).normal(size=shape)
    x = jnp.asarray(x.reshape([size for sizes in split for size in sizes]), jnp.float32)
    ways = {
        "max at once": lambda x: tiled._with_nan(x, axes, MAX),
        "max in passes": lambda x: tiled._in_passes(x, axes, lambda c: reduce_slices(MAX, c)),
        "sum at once": lambda x: tiled._at_once(x, axes, SUM),
        "sum in passes": lambda x: tiled._in_passes(x, axes, lambda c: reduce_slices(SUM, c)),
    }
    programs = {"x + 1": _program(lambda x: x + 1, x)}
    whole = x.reshape(shape)
    made = jaxpool.geometry([shape[position] for position in positions], (kernel, kernel), kernel)
    geometry = jaxpool.Geometry(made.axes, positions)
    for name in ("slices", "tiled"):
        module = IMPLEMENTATIONS[name].module
        argreduce = lambda x, m=module: m.argreduce(x, None, geometry, MAX)  # noqa: E731
        programs[f"argreduce {name}"] = _program(argreduce, whole)
    programs |= {name: _program(way, x) for name, way in ways.items()}
    times = milliseconds(interleaved(programs, rounds=15))
    ratios = {name: t / times["x + 1"] for name, t in times.items() if name != "x + 1"}
    return {
        "layout": layout, "batch": batch, "stride": kernel, "kernel": kernel, "ratios": ratios,
    }  # fmt: skip


def _program(run: Callable, *arrays: jax.Array) -> Callable[[], Any]:
    compiled = jax.jit(run)
    return lambda: jax.block_until_ready(compiled(*arrays))


def _line(row: dict[str, Any]) -> str:
    cells = "  ".join(f"{name} {ratio:.2f}" for name, ratio in row["ratios"].items())
    place = f"{row['layout']:14} batch {row['batch']} stride {row['stride']:2}"
    return f"{place} {row['kernel']:2}x{row['kernel']:<2}  {cells}"


if __name__ == "__main__":
    sys.exit(main())
