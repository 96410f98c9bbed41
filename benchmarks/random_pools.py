"""Times random pools against ``lax.reduce_window``, forward and backward, in the same layout.

    python benchmarks/random_pools.py [--pools N] [--seed N] [--rounds N] [--out random_pools.json]

Maxima and averages of float32, of random rank, size, layout, window, stride and padding, are drawn
from a seed, which is printed. Results are compared, then both are timed alternately. The ratio is
that of the shortest times, jaxpool's over the other's: above 1 jaxpool is slower. A pool that seems
slower is measured again, in more rounds. The last lines are the pools above 1.25, in order of
decreasing ratio.
"""

import functools
import math
import secrets
import statistics
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from measuring import interleaved, keep_memory, parser, versions, write
from pools import with_gradient

import jaxpool

SLOWER = 1.25
REMEASURED, MORE_ROUNDS = 1.1, 8
MAX_WINDOW = 9
MAX_READS = 2**25
"""Elements of an array times those of a window, which ``lax.reduce_window`` reads."""

TASKS = ("forward", "backward")


class Pool(NamedTuple):
    """A pooling of an array of a shape."""

    op: str
    shape: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: str
    layout: str

    def __str__(self) -> str:
        spatial = f"{self.window} / {self.strides} {self.padding}"
        return f"{self.op} {spatial} of {self.shape} {self.layout}"


def main() -> int:
    options = _options()
    keep_memory()
    rng, rows = np.random.default_rng(options.seed), []
    print(f"seed {options.seed}")
    for _ in range(options.pools):
        rows.append(measure(draw(rng), options.rounds))
        print(line(rows[-1]), flush=True)
        jax.clear_caches()
    print("\n".join(summary(rows)))
    write(options.out, {"versions": versions(), "seed": options.seed, "rows": rows})
    return 0


def _options() -> Any:
    options = parser(__doc__, rounds=9)
    options.add_argument("--pools", type=int, default=300)
    options.add_argument("--seed", type=int, default=secrets.randbits(32))
    return options.parse_args()


def draw(rng: np.random.Generator) -> Pool:
    """Return a random pool."""
    rank = int(rng.integers(1, 4))
    window = tuple(int(n) for n in rng.integers(1, MAX_WINDOW + 1, rank))
    strides = tuple(int(rng.integers(1, length + 1)) for length in window)
    elements = min(2 ** rng.uniform(12, 21), MAX_READS / math.prod(window))
    batch, channels = (int(2 ** rng.uniform(0, max_log)) for max_log in (4, 7))
    mean_size = (elements / (batch * channels)) ** (1 / rank)
    sizes = (max(length, int(mean_size * 2 ** rng.uniform(-1, 1))) for length in window)
    layout = str(rng.choice(["channels_last", "channels_first"]))
    channels_last = layout == "channels_last"
    shape = (batch, *sizes, channels) if channels_last else (batch, channels, *sizes)
    op, padding = str(rng.choice(["max_pool", "avg_pool"])), str(rng.choice(["SAME", "VALID"]))
    return Pool(op, shape, window, strides, padding, layout)


def ours(pool: Pool) -> Callable[[Any], Any]:
    """Return the pool by jaxpool."""
    settings = {"strides": pool.strides, "padding": pool.padding, "data_format": pool.layout}
    return functools.partial(getattr(jaxpool, pool.op), window_shape=pool.window, **settings)


def theirs(pool: Pool) -> Callable[[Any], Any]:
    """Return the pool by ``lax.reduce_window``."""
    channels_last = pool.layout == "channels_last"
    window, strides = (
        (1, *lengths, 1) if channels_last else (1, 1, *lengths)
        for lengths in (pool.window, pool.strides)
    )
    settings = window, strides, pool.padding
    if pool.op == "max_pool":
        return lambda x: lax.reduce_window(x, -np.inf, lax.max, *settings)
    return lambda x: lax.reduce_window(x, 0.0, lax.add, *settings) / math.prod(window)


def measure(pool: Pool, rounds: int) -> dict[str, Any]:
    """Return a row: the pool and its ratio in each task."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=pool.shape), jnp.float32)
    y = jax.eval_shape(ours(pool), x)
    cotangent = jnp.asarray(rng.integers(-8, 8, y.shape), jnp.float32)
    both = {"jaxpool": ours(pool), "reduce_window": theirs(pool)}
    ratios = {}
    for task in TASKS:
        arrays = (x,) if task == "forward" else (x, cotangent)
        programs = {
            n: jax.jit(p if task == "forward" else with_gradient(p)) for n, p in both.items()
        }
        _compare(pool, *(program(*arrays) for program in programs.values()))
        ratios[task] = _ratio(programs, arrays, rounds)
        if ratios[task] > REMEASURED:
            ratios[task] = _ratio(programs, arrays, MORE_ROUNDS * rounds)
    return {**pool._asdict(), "ratios": ratios}


def _compare(pool: Pool, ours: Any, theirs: Any) -> None:
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-4, err_msg=str(pool))


def _ratio(programs: dict[str, Any], arrays: tuple[Any, ...], rounds: int) -> float:
    calls = {
        name: functools.partial(lambda run: jax.block_until_ready(run(*arrays)), program)
        for name, program in programs.items()
    }
    times = interleaved(calls, rounds)
    return min(times["jaxpool"]) / min(times["reduce_window"])


def line(row: dict[str, Any]) -> str:
    """Return a row as text."""
    pool = Pool(**{field: row[field] for field in Pool._fields})
    return "  ".join(f"{task} {row['ratios'][task]:5.2f}" for task in TASKS) + f"  {pool}"


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """Return lines: geometric mean and maximum of each task, and the pools that are slower."""
    lines = []
    for task in TASKS:
        ratios = [row["ratios"][task] for row in rows]
        slower = sum(ratio > SLOWER for ratio in ratios)
        lines.append(
            f"{task}: geometric mean {statistics.geometric_mean(ratios):.2f}, "
            f"worst {max(ratios):.2f}, {slower} of {len(rows)} above {SLOWER}"
        )
    worst_ratio = lambda row: max(row["ratios"].values())  # noqa: E731
    return lines + [
        line(row) for row in sorted(rows, key=worst_ratio)[::-1] if worst_ratio(row) > SLOWER
    ]


if __name__ == "__main__":
    sys.exit(main())
