"""Times the layers of ``jaxpool.layers`` against the pools of the libraries they are for.

    python benchmarks/layers.py [--rounds N] [--out results/layers.json]

Both are called as a model of that library calls them, inside ``jax.jit``: forward, and the gradient
of a loss. Results are compared before anything is timed. Read the ratios: the time of the library's
own pool over that of jaxpool's layer.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from run import ALLOCATOR, interleaved, versions

STEM, EVEN = (8, 112, 112, 64), (8, 56, 56, 128)
MAXIMUM = {"window_shape": (3, 3), "strides": (2, 2), "padding": "SAME"}
AVERAGE = {"window_shape": (2, 2), "strides": (2, 2), "padding": "VALID"}
BORDERED = {"window_shape": (3, 3), "strides": (1, 1), "padding": "SAME"}
AROUND = ((1, 1), (1, 1))


class Case(NamedTuple):
    """A pool in a library: two functions of an array, channels last but in Equinox."""

    library: str
    name: str
    shape: tuple[int, ...]
    ours: Callable[[Any], Any]
    theirs: Callable[[Any], Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--out", help="JSON file for the results")
    options = parser.parse_args()
    if any(os.environ.get(key) != value for key, value in ALLOCATOR.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ALLOCATOR})
    rows = []
    for case in _cases():
        for task in ("forward", "gradient"):
            rows.append(_measure(case, task, options.rounds))
            print(_line(rows[-1]), flush=True)
    if options.out:
        Path(options.out).parent.mkdir(parents=True, exist_ok=True)
        found = versions("flax", "dm-haiku", "equinox")
        Path(options.out).write_text(json.dumps({"versions": found, "rows": rows}, indent=1) + "\n")
    return 0


def _cases() -> Iterator[Case]:
    yield from _linen()
    yield from _nnx()
    yield from _haiku()
    yield from _equinox()


def _linen() -> Iterator[Case]:
    from flax import linen as nn

    from jaxpool.layers import linen as pooling

    def layer(module: Any) -> Callable[[Any], Any]:
        return lambda x: module.apply({}, x)

    yield Case(
        "linen",
        "maximum 3x3/2",
        STEM,
        layer(pooling.MaxPool(**MAXIMUM)),
        lambda x: nn.max_pool(x, **MAXIMUM),
    )
    yield Case(
        "linen",
        "average 2x2/2",
        EVEN,
        layer(pooling.AvgPool(**AVERAGE)),
        lambda x: nn.avg_pool(x, **AVERAGE),
    )
    yield Case("linen", "average 3x3/1", EVEN,
               layer(pooling.AvgPool(**BORDERED, count_include_pad=False)),
               lambda x: nn.avg_pool(x, **BORDERED, count_include_pad=False))  # fmt: skip


def _nnx() -> Iterator[Case]:
    from flax import nnx

    from jaxpool.layers import nnx as pooling

    yield Case(
        "nnx",
        "maximum 3x3/2",
        STEM,
        pooling.MaxPool(**MAXIMUM),
        lambda x: nnx.max_pool(x, **MAXIMUM),
    )
    yield Case(
        "nnx",
        "average 2x2/2",
        EVEN,
        pooling.AvgPool(**AVERAGE),
        lambda x: nnx.avg_pool(x, **AVERAGE),
    )
    yield Case("nnx", "average 3x3/1", EVEN, pooling.AvgPool(**BORDERED, count_include_pad=False),
               lambda x: nnx.avg_pool(x, **BORDERED, count_include_pad=False))  # fmt: skip


def _haiku() -> Iterator[Case]:
    import haiku as hk

    from jaxpool.layers import haiku as pooling

    def module(make: Any, words: dict[str, Any]) -> Callable[[Any], Any]:
        settings = {
            **words,
            "window_shape": (*words["window_shape"], 1),
            "strides": (*words["strides"], 1),
        }
        pure = hk.without_apply_rng(hk.transform(lambda x: make(**settings)(x)))
        return lambda x: pure.apply({}, x)

    for name, shape, kind, words in (
        ("maximum 3x3/2", STEM, "MaxPool", MAXIMUM),
        ("average 2x2/2", EVEN, "AvgPool", AVERAGE),
        ("average 3x3/1", EVEN, "AvgPool", BORDERED),
    ):
        ours, theirs = getattr(pooling, kind), getattr(hk, kind)
        yield Case("haiku", name, shape, module(ours, words), module(theirs, words))


def _equinox() -> Iterator[Case]:
    import equinox as eqx
    import jax

    from jaxpool.layers import equinox as pooling

    def case(name: str, shape: tuple[int, ...], ours: Any, theirs: Any) -> Case:
        n, h, w, c = shape
        return Case("equinox", name, (n, c, h, w), jax.vmap(ours), jax.vmap(theirs))

    yield case(
        "maximum 3x3/2",
        STEM,
        pooling.MaxPool((3, 3), (2, 2), AROUND),
        eqx.nn.MaxPool2d(3, 2, AROUND),
    )
    yield case("average 2x2/2", EVEN, pooling.AvgPool((2, 2), (2, 2)), eqx.nn.AvgPool2d(2, 2))
    yield case(
        "average 3x3/1", EVEN, pooling.AvgPool((3, 3), 1, AROUND), eqx.nn.AvgPool2d(3, 1, AROUND)
    )
    yield case(
        "adaptive average to 7x7",
        EVEN,
        pooling.AdaptiveAvgPool((7, 7)),
        eqx.nn.AdaptiveAvgPool2d(7),
    )
    yield case("adaptive maximum to 7x7", EVEN, pooling.AdaptiveMaxPool((7, 7)),
               eqx.nn.AdaptiveMaxPool2d(7))  # fmt: skip


def _measure(case: Case, task: str, rounds: int) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    import numpy as np

    x = np.random.default_rng(0).permutation(int(np.prod(case.shape))).astype(np.float32)
    x = jnp.asarray((x / x.size - 0.5).reshape(case.shape))

    def call(pool: Callable[[Any], Any]) -> Callable[[], Any]:
        loss = lambda x: (pool(x) ** 2).sum()  # noqa: E731
        run = jax.jit(pool if task == "forward" else jax.grad(loss))
        return lambda: run(x).block_until_ready()

    calls = {"jaxpool": call(case.ours), case.library: call(case.theirs)}
    ours, theirs = (np.asarray(once()) for once in calls.values())
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, err_msg=f"{case.name} {task}")
    times = interleaved(calls, rounds)
    milliseconds = {name: 1e3 * statistics.median(found) for name, found in times.items()}
    return {"library": case.library, "case": case.name, "task": task, "milliseconds": milliseconds}


def _line(row: dict[str, Any]) -> str:
    ours, theirs = row["milliseconds"].values()
    return (
        f"{row['library']:8} {row['case']:24} {row['task']:9} jaxpool {ours:8.2f} ms  "
        f"{row['library']} {theirs:8.2f} ms ({theirs / ours:.2f})"
    )


if __name__ == "__main__":
    sys.exit(main())
