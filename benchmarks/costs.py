"""Measures other costs of pooling than time: memory, residuals, program size, dispatch.

    python benchmarks/costs.py [--out results/costs.json]

Prints one table per question. Sizes are exact; times are ratios of medians from one run.
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from measuring import DATA_FORMATS, parser, write
from pools import reduce_window_settings, with_gradient

import jaxpool
from jaxpool.testing import NAMED_CASES, NamedCase

WINDOWS = (2, 3, 5, 8, 16, 31, 64, 128)
GOOGLENET = (
    (112, 64, 2), (56, 192, 2), (28, 192, 1), (28, 256, 1), (28, 480, 2), (14, 480, 1),
    (14, 512, 1), (14, 528, 1), (14, 832, 2),
)  # fmt: skip
"""Height, channels and stride of the 3x3 pools of GoogLeNet."""
TURNS = 7


def main() -> int:
    options = parser(__doc__).parse_args()
    report = {
        "gradient_memory": [
            _gradient_memory(case, layout) for layout in DATA_FORMATS for case in _max_cases()
        ],
        "growth": [_growth(kernel) for kernel in WINDOWS],
        "googlenet": _googlenet(),
        "long_window": _long_window(),
        "dispatch": _dispatch(),
    }
    _print_report(report)
    write(options.out, report)
    return 0


def _max_cases() -> list[NamedCase]:
    return [case for case in NAMED_CASES if case.op == "max_pool"]


def _gradient_memory(case: NamedCase, layout: str) -> dict[str, Any]:
    """Return the bytes that a forward and backward pass needs between and inside its two steps."""
    batch, *sizes, channels = case.shape
    shape = case.shape if layout == "NHWC" else (batch, channels, *sizes)
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    pool = lambda x: jaxpool.max_pool(x, **case.settings, data_format=DATA_FORMATS[layout])  # noqa: E731
    y = jax.eval_shape(pool, x)
    residuals = jax.eval_shape(lambda x: jax.vjp(pool, x)[1], x)
    residual_bytes = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(residuals))
    return {
        "case": case.name,
        "layout": layout,
        "window": list(case.window),
        "input": 4 * int(np.prod(case.shape)),
        "output": 4 * y.size,
        "residual_bytes_per_output": residual_bytes / y.size,
        "temporaries": _temporaries(pool, x, y),
        "temporaries_of_reduce_window": _temporaries(_by_reduce_window(case, layout), x, y),
    }


def _temporaries(pool: Callable, x: Any, y: Any) -> int | None:
    """Return the scratch bytes of a jitted forward and backward pass; None if JAX has no rule."""
    try:
        compiled = jax.jit(with_gradient(pool)).lower(x, y).compile()
    except NotImplementedError:
        return None
    return compiled.memory_analysis().temp_size_in_bytes


def _by_reduce_window(case: NamedCase, layout: str) -> Callable:
    settings = reduce_window_settings(case, layout)
    return lambda x: lax.reduce_window(x, -np.inf, lax.max, **settings)


def _growth(kernel: int) -> dict[str, Any]:
    """Return program size, compile time and run time of a square window of this length."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(1, 256, 256, 16)), jnp.float32)
    pool = lambda x: jaxpool.max_pool(x, (kernel, kernel), 1, "SAME")  # noqa: E731
    grad = jax.grad(lambda x: pool(x).sum())
    row: dict[str, Any] = {"window": kernel}
    for name, run in {"forward": pool, "gradient": grad}.items():
        lowered = jax.jit(run).lower(x)
        start = time.perf_counter()
        compiled = lowered.compile()
        row[f"{name}_compile_seconds"] = time.perf_counter() - start
        row[f"{name}_instructions"] = compiled.as_text().count(" = ")
        row[f"{name}_milliseconds"] = 1e3 * _median(lambda c=compiled: c(x), 9)
    return row


def _googlenet() -> dict[str, dict[str, float]]:
    """Return the seconds of each step until values and gradients of GoogLeNet's pools can run.

    The sides take turns, with empty caches at each turn. The result has the median of each step.
    """
    pools: dict[str, Callable] = {
        "jaxpool": lambda x, stride: jaxpool.max_pool(x, (3, 3), stride, "SAME"),
        "reduce_window": lambda x, stride: lax.reduce_window(
            x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, stride, stride, 1), "SAME"
        ),
    }
    turns: dict[str, list[dict[str, float]]] = {name: [] for name in pools}
    for _ in range(TURNS):
        for name, pool in pools.items():
            jax.clear_caches()
            turns[name].append(_until_it_runs(pool))
    return {
        name: {step: statistics.median(turn[step] for turn in each) for step in each[0]}
        for name, each in turns.items()
    }


def _until_it_runs(pool: Callable) -> dict[str, float]:
    """Return the seconds that each step before the first run takes."""

    def loss(arrays: list[jax.Array]) -> jax.Array:
        values = [pool(x, stride) for x, (*_, stride) in zip(arrays, GOOGLENET, strict=True)]
        return sum((y**2).sum() for y in values)

    arrays = [
        jax.ShapeDtypeStruct((8, size, size, channels), jnp.float32)
        for size, channels, _ in GOOGLENET
    ]
    stage: Any = jax.jit(jax.value_and_grad(loss))
    seconds = {}
    for step, arguments in {"trace": (arrays,), "lower": (), "compile": ()}.items():
        start = time.perf_counter()
        stage = getattr(stage, step)(*arguments)
        seconds[step] = time.perf_counter() - start
    return seconds


def _median(run: Callable, rounds: int) -> float:
    jax.block_until_ready(run())
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _long_window() -> dict[str, float]:
    """Return the seconds of a window of a million taps over an axis of a million elements."""
    x = jnp.zeros((10**6, 1), jnp.float32)
    seconds = {}
    for name in ("max_pool", "avg_pool"):
        pool = getattr(jaxpool, name)
        start = time.perf_counter()
        jax.block_until_ready(pool(x, (10**6,), 1))
        seconds[name] = time.perf_counter() - start
    return seconds


def _dispatch() -> dict[str, float]:
    """Return the times of eager calls on a tiny array over that of a jitted ``reduce_window``."""
    x = jnp.ones((1, 8, 8, 1))
    config = ((1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    bare = jax.jit(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, *config))
    calls: dict[str, Callable] = {
        "bare jit": lambda: bare(x),
        "max_pool": lambda: jaxpool.max_pool(x, (2, 2), 2),
        "avg_pool": lambda: jaxpool.avg_pool(x, (2, 2), 2),
        "max_pool_with_argmax": lambda: jaxpool.max_pool_with_argmax(x, (2, 2), 2),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(30):
        for name, run in calls.items():
            run()
            start = time.perf_counter()
            for _ in range(200):
                run()
            times[name].append((time.perf_counter() - start) / 200)
    medians = {name: statistics.median(t) for name, t in times.items()}
    return {name: t / medians["bare jit"] for name, t in medians.items()}


def _print_report(report: dict[str, Any]) -> None:
    mib = lambda n: "none" if n is None else f"{n / 2**20:.1f}"  # noqa: E731
    print("gradient memory, MiB (forward and backward in one program, float32)")
    print(f"  {'case':27} {'input':>8} {'output':>8} {'jaxpool':>8} {'JAX':>8}  residual/output")
    for row in report["gradient_memory"]:
        print(
            f"  {row['case']:22} {row['layout']} {mib(row['input']):>8} {mib(row['output']):>8} "
            f"{mib(row['temporaries']):>8} {mib(row['temporaries_of_reduce_window']):>8}  "
            f"{row['residual_bytes_per_output']:.0f} byte"
        )
    print("\nmax_pool k x k, stride 1, on (1, 256, 256, 16)")
    for row in report["growth"]:
        print(
            f"  k = {row['window']:4}  "
            + "  ".join(
                f"{name}: {row[f'{name}_instructions']:4} instructions, compiled in "
                f"{row[f'{name}_compile_seconds']:.2f} s, {row[f'{name}_milliseconds']:7.2f} ms"
                for name in ("forward", "gradient")
            )
        )
    print(
        "\nnine 3x3 pools of GoogLeNet, values and gradients in one program, seconds until it runs:"
    )
    for name, steps in report["googlenet"].items():
        print(f"  {name:14}" + "".join(f" {step} {seconds:.2f}" for step, seconds in steps.items()))
    print("\nwindow of 10**6 on an axis of 10**6, first call, seconds:", report["long_window"])
    print("\neager call on (1, 8, 8, 1), ratio to a bare jitted function:")
    for name, ratio in report["dispatch"].items():
        print(f"  {name:22} {ratio:.2f}")


if __name__ == "__main__":
    sys.exit(main())
