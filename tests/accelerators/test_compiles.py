"""Every public op and filter compiles for TPU and GPU: results and gradients, in three dtypes."""

import functools
from pathlib import Path
from typing import Any

import compilers
import every_op
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool import filters


def programs(name: str) -> dict[str, Any]:
    """Return an op as a function of arrays, for each dtype that it accepts."""
    op = every_op.EVERY_OP[name]
    made: dict[str, Any] = {dtype: every_op.with_gradient(op) for dtype in ("float32", "bfloat16")}
    spec = jax.ShapeDtypeStruct((2, *every_op.SPACE, 3), jnp.int8)
    try:
        jax.eval_shape(op, spec)
    except TypeError:
        return made
    return made | {"int8": op}


@pytest.mark.parametrize("chip", ["v5e", "H100"])
@pytest.mark.parametrize("name", every_op.EVERY_OP)
def test_every_op_compiles(name: str, chip: str) -> None:
    """All in one program, because compiling is slow; a failure names op and chip."""
    made = programs(name)

    def all_of_them(*arrays: jax.Array) -> Any:
        return [f(x) for f, x in zip(made.values(), arrays, strict=True)]

    shape = (2, *every_op.SPACE, 3)
    compilers.compiled(chip, all_of_them, *compilers.specs([(shape, dtype) for dtype in made]))


@pytest.mark.parametrize("chip", ["v5e"])
@pytest.mark.parametrize(
    ("sizes", "windows"),
    [((13, 13), (6, 6)), ((13, 14), (6, 6)), ((28, 30), (9, 9)), ((7, 10), (3, 4))],
)
def test_adaptive_maxima_compile(
    chip: str, sizes: tuple[int, int], windows: tuple[int, int]
) -> None:
    """XLA:TPU aborted on its own program for slices of every second or third element."""
    spec = jax.ShapeDtypeStruct((32, *sizes, 256), jnp.float32)
    pool = lambda x: (jaxpool.adaptive_max_pool(x, windows) ** 2).sum()  # noqa: E731
    compilers.compiled(chip, jax.value_and_grad(pool), spec)


@pytest.mark.parametrize("chip", ["v5e", "H100"])
def test_what_combines_may_have_a_loop(chip: str) -> None:
    """XLA:GPU terminates the process if a window's function has a loop, and XLA:TPU raises."""
    divisor = jaxpool.Reduction("gcd", jnp.gcd, 0, prepare=jnp.abs, idempotent=True)
    pool = lambda x: jaxpool.pool(x, divisor, (3, 2), 1)  # noqa: E731
    compilers.compiled(chip, pool, jax.ShapeDtypeStruct((2, 8, 7, 2), jnp.int32))


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "maximum_filter1d": (3,),
    "minimum_filter1d": (3,),
    "uniform_filter1d": (13, 0),
    "rank_filter": (1, 3),
    "percentile_filter": (30, 3),
    "generic_filter": (lambda taps: taps.max() - taps.min(), 3),
}
"""Of the filters whose arguments are more than a size of 3."""


@pytest.mark.parametrize("chip", ["v5e", "H100"])
@pytest.mark.parametrize("name", filters.__all__)
def test_every_filter_compiles(name: str, chip: str) -> None:
    op, binary, words = getattr(filters, name), name.startswith("binary"), {}
    arguments = ARGUMENTS.get(name, () if binary else (3,))
    if name.startswith("grey"):
        arguments, words = (), {"structure": np.array([[0, 1], [2, 5]])}
    of = lambda x: op(x, *arguments, **words)  # noqa: E731

    def all_of_them(*arrays: jax.Array) -> Any:
        gradient = jax.value_and_grad(lambda x: of(x).astype(np.float32).sum())
        real = lambda x: jnp.issubdtype(x.dtype, jnp.floating)  # noqa: E731
        return [gradient(x) if real(x) else of(x) for x in arrays]

    dtypes = ("bool",) if binary else ("float32", "bfloat16", "int32")
    compilers.compiled(chip, all_of_them, *compilers.specs([((12, 14), d) for d in dtypes]))


@pytest.mark.parametrize("chip", ["H100"])
@pytest.mark.parametrize(
    ("implementation", "window", "strides"),
    [
        ("auto", (2,), 1),
        ("auto", (3, 3), 1),
        ("auto", (31, 1), 1),
        ("slices", (3,), 2),
        ("slices", (3, 3), 2),
        ("doubling", (9, 1), 1),
        ("tiled", (2, 3), (2, 3)),
        ("blocks", (4, 2), (2, 1)),
        ("separable", (3, 3), 2),
        ("reduce_window", (3, 3), 2),
    ],
)
def test_no_masked_argmax_adds_with_saturation(
    implementation: str, window: tuple[int, ...], strides: Any, chip: str, tmp_path: Path
) -> None:
    """ptxas of CUDA 12.8 to 13.0 inverts a comparison of such a sum with its limit."""
    shape = (2, *[32] * len(window), 3)
    settings: dict[str, Any] = {"padding": "SAME", "implementation": implementation}
    pool = functools.partial(jaxpool.max_pool_with_argmax, **settings)
    dumps = {"xla_dump_to": str(tmp_path), "xla_gpu_dump_llvmir": True, "xla_dump_emitter_re": ".*"}
    specs = compilers.specs([(shape, "float32"), (shape, "int32"), (shape, "bool")])
    compilers.compiled(
        chip,
        lambda x, n, mask: [pool(a, window, strides, where=mask) for a in (x, n)],
        *specs,
        compiler_options=dumps,
    )
    kernels = [path.read_text() for path in tmp_path.glob("*.ir-with-opt.ll")]
    assert kernels and not any("llvm.uadd.sat" in kernel for kernel in kernels)
