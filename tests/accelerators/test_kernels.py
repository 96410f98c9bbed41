"""The kernels of "mosaic" compile for TPU, and their traffic is only arguments and results."""

import math
from typing import Any

import compilers
import jax
import jax.numpy as jnp
import pytest

import jaxpool

# shape, window, strides, padding, dilations, rounding
CASES: dict[str, tuple[Any, ...]] = {
    "odd sizes": ((3, 9, 7, 5), (3, 3), 2, "SAME", 1, "floor"),
    "blocks in part": ((12, 9, 8, 130), (3, 2), (1, 2), ((2, 1), (0, 1)), 1, "ceil"),
    "gaps": ((2, 11, 9, 3), (2, 3), (5, 4), ((1, 0), (0, 2)), 1, "ceil"),
    "dilated": ((24, 9, 10, 128), (3, 2), (1, 3), ((2, 1), (0, 0)), (2, 3), "floor"),
    "empty windows": ((2, 3, 4, 3), (2, 3), (2, 3), ((4, 0), (0, 7)), 1, "floor"),
    "batch axes": ((2, 3, 14, 14, 40), (3, 3), 2, 1, 1, "ceil_torch"),
    "225 elements": ((8, 20, 20, 128), (15, 15), 1, 7, 1, "floor"),
    "one row of windows": ((16, 15, 80, 128), (15, 3), 1, "VALID", 1, "floor"),
    "all of the memory": ((16, 8, 268, 128), (3, 3), 1, 1, 1, "floor"),
}
STEM: dict[str, Any] = {"window_shape": (3, 3), "strides": 2, "padding": "SAME"}
over_chips = pytest.mark.parametrize("chip", ["v5e", "v6e"])


def step(x: jax.Array, **settings: Any) -> Any:
    """Return values, indices and the gradient of half the sum of squares."""
    pool = lambda x: jaxpool.max_pool_with_argmax(x, **settings, implementation="mosaic")  # noqa: E731
    values, pull, indices = jax.vjp(pool, x, has_aux=True)
    return values, indices, pull(values)[0]


@over_chips
@pytest.mark.parametrize("case", CASES)
def test_kernels_compile(case: str, chip: str) -> None:
    """Both dtypes, and values only, in one program."""
    shape, window, strides, padding, dilations, rounding = CASES[case]
    settings: dict[str, Any] = {
        "window_shape": window,
        "strides": strides,
        "padding": padding,
        "dilations": dilations,
        "rounding": rounding,
    }

    def program(*arrays: jax.Array) -> Any:
        alone = [jaxpool.min_pool(x, **settings, implementation="mosaic") for x in arrays]
        return alone, [step(x, **settings) for x in arrays]

    specs = compilers.specs([(shape, dtype) for dtype in ("float32", "bfloat16")])
    compilers.compiled(chip, program, *specs)


@over_chips
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_step_reads_and_writes_once(chip: str, dtype: str) -> None:
    """Traffic is the array, values, offsets, cotangent and gradient: two kernels and no copy.

    The offsets may stay in vector memory.
    """
    shape, out = (64, 112, 112, 128), (64, 56, 56, 128)
    size = jnp.dtype(dtype).itemsize

    def program(x: jax.Array, g: jax.Array) -> Any:
        values, pull = jax.vjp(lambda x: jaxpool.max_pool(x, **STEM, implementation="mosaic"), x)
        return values, pull(g)[0]

    figures = compilers.costs(chip, program, *compilers.specs([(shape, dtype), (out, dtype)]))
    elements, windows = (a * b * c * d / 1e6 for a, b, c, d in (shape, out))
    least = 2 * elements * size + windows * (2 * size + 2)
    assert figures["kernels"] == 2
    assert figures["megabytes"] <= least * 1.01


@over_chips
@pytest.mark.parametrize("check_vma", [True, False])
def test_kernels_compile_inside_shard_map(chip: str, check_vma: bool) -> None:
    """A batch on four chips; outside shard_map JAX refuses a kernel if types lack the sharding."""
    mesh = jax.sharding.Mesh(compilers.topology(chip).devices, ("x",))
    spread = jax.NamedSharding(mesh, jax.P("x"))
    x = jax.ShapeDtypeStruct((16, 14, 14, 128), jnp.float32, sharding=spread)
    local = lambda x: step(x, **STEM)  # noqa: E731
    inside = jax.shard_map(
        local, mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x"), check_vma=check_vma
    )
    lowered = jax.jit(inside).trace(x).lower(lowering_platforms=("tpu",))
    assert str(lowered.compile().as_text()).count("tpu_custom_call") == 2
    with pytest.raises(NotImplementedError, match="shard_map"):
        jax.jit(local).trace(x).lower(lowering_platforms=("tpu",))


@over_chips
def test_a_single_row_of_windows_is_read_once(chip: str) -> None:
    """Traffic is little more than the array and the gradient: windows cover all rows."""
    shape = (64, 15, 80, 128)
    one_row = {"window_shape": (15, 3), "strides": 1, "implementation": "mosaic"}

    def program(x: jax.Array) -> Any:
        values, pull = jax.vjp(lambda x: jaxpool.max_pool(x, **one_row), x)
        return values, pull(values)[0]

    found = compilers.costs(chip, program, *compilers.specs([(shape, "float32")]))
    assert found["kernels"] == 2, found
    assert found["megabytes"] <= 2.2 * 4 * math.prod(shape) / 1e6, found
