"""Pooling and training over the devices of several processes. Run by test_processes.py.

``python many_processes.py FOLDER PORT COUNT INDEX`` is process INDEX of COUNT, with one device
each. It writes the results, gathered from all processes, to FOLDER/COUNT-INDEX.npz.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import jaxpool
from jaxpool._demo import model
from jaxpool.sharding import pool_shards

SHAPE = (4, 8, 5, 3)
"""Every number of processes divides the batch and the first pooled axis."""

WINDOW = {"window_shape": (3, 2), "strides": (2, 1), "padding": "SAME"}
STEPS, BATCH = 3, 16
TRAIN_WITH = (1, 2)
"""Numbers of processes that also train, which takes the longest to compile."""


def with_gradient(pool: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, Any]]:
    """Return a function: the results, and the gradient of half the sum of squares of the first."""

    def both(x: Any) -> tuple[Any, Any]:
        energy = lambda x: (jax.tree.leaves(pool(x))[0] ** 2).sum() / 2  # noqa: E731
        return pool(x), jax.grad(energy)(x)

    return both


def pools(mesh: jax.sharding.Mesh) -> dict[str, tuple[Callable[[Any], Any], Any]]:
    """Return poolings with the partition of their array, by name."""
    batch, space = PartitionSpec("all"), PartitionSpec(None, "all")

    def sharded_over_space(op: Callable[..., Any]) -> Callable[[Any], Any]:
        shard = lambda x: pool_shards(op, x, axis_names=("all", None), **WINDOW)  # noqa: E731
        return jax.shard_map(shard, mesh=mesh, in_specs=space, out_specs=space)

    return {
        "argmax, batch": (lambda x: jaxpool.max_pool_with_argmax(x, **WINDOW), batch),
        "avg, batch": (lambda x: jaxpool.avg_pool(x, **WINDOW), batch),
        "argmax, space": (sharded_over_space(jaxpool.max_pool_with_argmax), space),
        "avg, space": (sharded_over_space(jaxpool.avg_pool), space),
    }


def pooling_results(mesh: jax.sharding.Mesh) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.permutation(np.prod(SHAPE)).reshape(SHAPE).astype(np.float32) - 200
    everywhere = NamedSharding(mesh, PartitionSpec())
    cases = pools(mesh)

    def run_all(arrays: dict[str, Any]) -> dict[str, Any]:
        return {name: with_gradient(pool)(arrays[name]) for name, (pool, _) in cases.items()}

    arrays = {name: distribute(x, mesh, spec) for name, (_, spec) in cases.items()}
    results = jax.jit(run_all, out_shardings=everywhere)(arrays)
    return {
        f"{name} {n}": np.asarray(array)
        for name, both in results.items()
        for n, array in enumerate(jax.tree.leaves(both))
    }


def distribute(x: np.ndarray, mesh: jax.sharding.Mesh, spec: Any) -> jax.Array:
    """Return an array over all processes, of which each creates its own part."""
    return jax.make_array_from_callback(x.shape, NamedSharding(mesh, spec), lambda index: x[index])


def start() -> Any:
    params = model.init(jax.random.key(0))
    zeros = jax.tree.map(jnp.zeros_like, params)
    return params, zeros, zeros


def training_results(mesh: jax.sharding.Mesh) -> dict[str, np.ndarray]:
    """Return the demo's network after some steps on digits that are sharded over processes."""
    digits, _ = model.load_digits()
    everywhere = NamedSharding(mesh, PartitionSpec())
    state = jax.jit(start, out_shardings=everywhere)()
    losses = []
    for step in range(STEPS):
        batch = digits.take(np.arange(step * BATCH, (step + 1) * BATCH))
        parts = [distribute(array, mesh, PartitionSpec("all")) for array in batch]
        state, loss = model._step(state, step + 1, 100, *parts)
        losses.append(np.asarray(loss))
    weights = {f"{k} {n}": np.asarray(a) for k, v in state[0].items() for n, a in enumerate(v)}
    return {"losses": np.stack(losses), **weights}


def main(folder: Path, port: int, count: int, index: int) -> None:
    if count > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(
            f"127.0.0.1:{port}", count, index, initialization_timeout=60,
            heartbeat_timeout_seconds=30,
        )  # fmt: skip
    assert jax.process_count() == jax.device_count() == count
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("all",))
    results = pooling_results(mesh) | (training_results(mesh) if count in TRAIN_WITH else {})
    np.savez(folder / f"{count}-{index}.npz", **results)  # pyright: ignore[reportArgumentType]
    if count > 1:
        jax.distributed.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
