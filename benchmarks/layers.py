"""Times the layers of ``jaxpool.layers`` against the pools of the libraries that they extend.

    python benchmarks/layers.py [--rounds N] [--out results/layers.json]

Both are called inside ``jax.jit``, as a model of that library calls them: forward, and the gradient
of a loss. Results are compared before the timing. Read the ratios: the time of the library's pool
over that of jaxpool's layer.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from measuring import interleaved, keep_memory, milliseconds, parser, versions, write

STEM_SHAPE, BLOCK_SHAPE = (8, 112, 112, 64), (8, 56, 56, 128)
MAXIMUM = {"window_shape": (3, 3), "strides": (2, 2), "padding": "SAME"}
AVERAGE = {"window_shape": (2, 2), "strides": (2, 2), "padding": "VALID"}
PADDED_AVERAGE = {"window_shape": (3, 3), "strides": (1, 1), "padding": "SAME"}
AVERAGE_WITHOUT_PADDING = {**PADDED_AVERAGE, "count_include_pad": False}  # the divisor of Haiku
PADDING = ((1, 1), (1, 1))


class Case(NamedTuple):
    """A pool of jaxpool and of a peer, as functions of an array.

    The array has channels last, except for Equinox.
    """

    peer: str
    name: str
    shape: tuple[int, ...]
    ours: Callable[[Any], Any]
    theirs: Callable[[Any], Any]


def main() -> int:
    options = parser(__doc__, rounds=25).parse_args()
    keep_memory()
    rows = []
    for case in _cases():
        for task in ("forward", "gradient"):
            rows.append(_measure(case, task, options.rounds))
            print(_line(rows[-1]), flush=True)
    write(options.out, {"versions": versions("flax", "dm-haiku", "equinox"), "rows": rows})
    return 0


def _cases() -> Iterator[Case]:
    yield from _flax()
    yield from _haiku()
    yield from _equinox()


def _flax() -> Iterator[Case]:
    from flax import linen, nnx

    from jaxpool.layers import linen as linen_layers
    from jaxpool.layers import nnx as nnx_layers

    def bound(module: Any) -> Callable[[Any], Any]:
        return lambda x: module.apply({}, x)

    for library, theirs, layers, as_function in (
        ("linen", linen, linen_layers, bound),
        ("nnx", nnx, nnx_layers, lambda module: module),
    ):
        for name, shape, layer, pool, settings in (
            ("maximum 3x3/2", STEM_SHAPE, layers.MaxPool, theirs.max_pool, MAXIMUM),
            ("average 2x2/2", BLOCK_SHAPE, layers.AvgPool, theirs.avg_pool, AVERAGE),
            (
                "average 3x3/1",
                BLOCK_SHAPE,
                layers.AvgPool,
                theirs.avg_pool,
                AVERAGE_WITHOUT_PADDING,
            ),
        ):
            ours = as_function(layer(**settings))
            yield Case(library, name, shape, ours, functools.partial(pool, **settings))


def _haiku() -> Iterator[Case]:
    import haiku as hk

    from jaxpool.layers import haiku as pooling

    def transformed(layer_class: Any, words: dict[str, Any]) -> Callable[[Any], Any]:
        settings = {
            **words,
            "window_shape": (*words["window_shape"], 1),
            "strides": (*words["strides"], 1),
        }
        pure = hk.without_apply_rng(hk.transform(lambda x: layer_class(**settings)(x)))
        return lambda x: pure.apply({}, x)

    for name, shape, class_name, words in (
        ("maximum 3x3/2", STEM_SHAPE, "MaxPool", MAXIMUM),
        ("average 2x2/2", BLOCK_SHAPE, "AvgPool", AVERAGE),
        ("average 3x3/1", BLOCK_SHAPE, "AvgPool", PADDED_AVERAGE),
    ):
        ours, theirs = getattr(pooling, class_name), getattr(hk, class_name)
        yield Case("haiku", name, shape, transformed(ours, words), transformed(theirs, words))


def _equinox() -> Iterator[Case]:
    import jax
    from equinox import nn

    from jaxpool.layers import equinox as pooling

    for name, shape, layer, theirs in (
        (
            "maximum 3x3/2",
            STEM_SHAPE,
            pooling.MaxPool((3, 3), (2, 2), PADDING),
            nn.MaxPool2d(3, 2, PADDING),
        ),
        ("average 2x2/2", BLOCK_SHAPE, pooling.AvgPool((2, 2), (2, 2)), nn.AvgPool2d(2, 2)),
        (
            "average 3x3/1",
            BLOCK_SHAPE,
            pooling.AvgPool((3, 3), 1, PADDING),
            nn.AvgPool2d(3, 1, PADDING),
        ),
        (
            "adaptive average to 7x7",
            BLOCK_SHAPE,
            pooling.AdaptiveAvgPool((7, 7)),
            nn.AdaptiveAvgPool2d(7),
        ),
        (
            "adaptive maximum to 7x7",
            BLOCK_SHAPE,
            pooling.AdaptiveMaxPool((7, 7)),
            nn.AdaptiveMaxPool2d(7),
        ),
    ):
        n, h, w, c = shape
        yield Case("equinox", name, (n, c, h, w), jax.vmap(layer), jax.vmap(theirs))


def _measure(case: Case, task: str, rounds: int) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from pools import distinct_numbers

    x = distinct_numbers(case.shape)
    x = jnp.asarray(x / x.size - 0.5)

    def call(pool: Callable[[Any], Any]) -> Callable[[], Any]:
        loss = lambda x: (pool(x) ** 2).sum()  # noqa: E731
        compiled = jax.jit(pool if task == "forward" else jax.grad(loss))
        return lambda: compiled(x).block_until_ready()

    calls = {"jaxpool": call(case.ours), case.peer: call(case.theirs)}
    ours, theirs = (np.asarray(once()) for once in calls.values())
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, err_msg=f"{case.name} {task}")
    times = milliseconds(interleaved(calls, rounds))
    return {"library": case.peer, "case": case.name, "task": task, "milliseconds": times}


def _line(row: dict[str, Any]) -> str:
    ours, theirs = row["milliseconds"].values()
    return (
        f"{row['library']:8} {row['case']:24} {row['task']:9} jaxpool {ours:8.2f} ms  "
        f"{row['library']} {theirs:8.2f} ms ({theirs / ours:.2f})"
    )


if __name__ == "__main__":
    sys.exit(main())
