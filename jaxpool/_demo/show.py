"""Train, print the result, and show geometry, implementation and cost of the pooling layers."""

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

import jaxpool

from .._bench.race import race
from .._explain.doctor import platform_here
from . import model
from .model import POOLINGS, Digits, Params, Pooling, jaxpool_layer, reduce_window_layer

GOAL = 0.97
RACE_IMAGES = 512
RACE_SECONDS = 0.5

Rows = list[tuple[str, ...]]


def show() -> int:
    """Run the demo; return 0 if the held-out accuracy reaches the goal, else 1."""
    start = time.perf_counter()
    digits, held_out = model.load_digits()
    _print_task(digits, held_out)
    params = model.train(digits, partial(_progress, held_out, start))
    accuracy = model.accuracy(params, held_out)
    print(
        f"\nresult    {accuracy:.1%} of the held-out digits are classified correctly"
        f" (goal {GOAL:.0%}), after {time.perf_counter() - start:.1f} s"
    )
    digits = digits.take(np.arange(RACE_IMAGES))
    inputs = _pooling_inputs(params, digits.images)
    _print_layers(inputs)
    _print_costs(params, digits, inputs)
    print(f"\ntotal     {time.perf_counter() - start:.1f} s")
    return 0 if accuracy >= GOAL else 1


def _print_task(digits: Digits, held_out: Digits) -> None:
    device = jax.devices()[0]
    print(
        f"jaxpool {jaxpool.__version__} demo, jax {jax.__version__} on {device.device_kind}\n\n"
        f"data      {digits.count + held_out.count} handwritten digits, 8x8 pixels (UCI, 1998): "
        f"{digits.count} for training, {held_out.count} held out\n"
        "network   conv 3x3x32, max_pool 3x3 / conv 3x3x64, max_pool 2x2 / "
        "avg_pool 2x2, dense 10\n"
    )


def _progress(held_out: Digits, start: float, epoch: int, loss: float, params: Params) -> None:
    """Rewrite one line on a terminal; print every tenth epoch elsewhere."""
    last = epoch == model.EPOCHS
    if not (sys.stdout.isatty() or last or epoch % 10 == 0):
        return
    line = (
        f"training  epoch {epoch:2d} of {model.EPOCHS}, loss {loss:.4f}, "
        f"held out {model.accuracy(params, held_out):.1%}, {time.perf_counter() - start:.1f} s"
    )
    if sys.stdout.isatty():
        print(f"\r{line:<79}", end="\n" if last else "", flush=True)
    else:
        print(line, flush=True)


def _print_layers(inputs: list[jax.Array]) -> None:
    print("\nwhat the pooling layers do")
    rows: Rows = [
        ("layer", "op", "input", "window", "stride", "padding", "output", "implementation")
    ]
    rows += [_layer_row(layer, x) for layer, x in zip(POOLINGS, inputs, strict=True)]
    _print_table(rows)
    print("  implementation: what computes the values of this window, dtype and device")


def _layer_row(layer: Pooling, x: jax.Array) -> tuple[str, ...]:
    op = f"{layer.kind}_pool"
    found = jaxpool.explain(x, layer.window, layer.stride, layer.padding, op=op)
    return (
        layer.name,
        op,
        _join_by_x(found.geometry.spatial_shape),
        _join_by_x(layer.window),
        str(layer.stride),
        str(layer.padding),
        _join_by_x(found.geometry.out_shape),
        getattr(found.plan.reduce, platform_here()),
    )


def _print_costs(params: Params, digits: Digits, inputs: list[jax.Array]) -> None:
    """Time both implementations on these images, for each layer and for the network."""
    print(f"\ntime of their gradients, for {digits.count} images at once (alternating, medians)")
    rows: Rows = [
        ("gradient of", "jaxpool", "lax.reduce_window", "ratio", "largest difference of results")
    ]
    for layer, x in zip(POOLINGS, inputs, strict=True):
        rows.append(_cost_row(layer.name, partial(_layer_gradient, layer), x))
    rows.append(_cost_row("whole network", _network_gradient, params, *digits))
    _print_table(rows)
    print("  lax.reduce_window: JAX's own pooling, which its libraries call")


@jax.jit
def _pooling_inputs(params: Params, images: jax.Array) -> list[jax.Array]:
    *inputs, _ = model.stages(params, jaxpool_layer, images)
    return inputs


def _layer_gradient(layer: Pooling, pool: model.PoolFunction, x: jax.Array) -> jax.Array:
    """Return the gradient of half the sum of squares of the layer's output."""
    return jax.grad(lambda x: (pool(layer, x) ** 2).sum() / 2)(x)


def _network_gradient(
    pool: model.PoolFunction, params: Params, images: jax.Array, labels: jax.Array
) -> Params:
    return jax.grad(model.loss)(params, pool, images, labels)


def _cost_row(name: str, gradient: Callable[..., Any], *arguments: Any) -> tuple[str, ...]:
    arguments = jax.device_put(arguments)
    ours = partial(jax.jit(partial(gradient, jaxpool_layer)), *arguments)
    theirs = partial(jax.jit(partial(gradient, reduce_window_layer)), *arguments)
    difference = _largest_difference(ours(), theirs())
    our_seconds, their_seconds = race({"jaxpool": ours, "lax": theirs}, RACE_SECONDS).values()
    times = (
        f"{our_seconds * 1e3:.2f} ms",
        f"{their_seconds * 1e3:.2f} ms",
        f"{their_seconds / our_seconds:.1f}x",
    )
    return (name, *times, f"{difference:.0e}")


def _largest_difference(a: Any, b: Any) -> float:
    differences = jax.tree.map(lambda x, y: np.abs(np.asarray(x) - np.asarray(y)).max(), a, b)
    return float(max(jax.tree.leaves(differences)))


def _print_table(rows: Rows) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(("  " + "  ".join(cells)).rstrip())


def _join_by_x(numbers: tuple[int, ...]) -> str:
    return "x".join(map(str, numbers))
