"""Every public op compiles for TPU and GPU: results and gradients, in three dtypes."""

from typing import Any

import compilers
import every_op
import jax
import jax.numpy as jnp
import pytest


def programs(name: str) -> dict[str, Any]:
    """An op as functions of arrays of each dtype that it takes."""
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
    """In one program, for its compiling is what takes the time; a failure names op and chip."""
    made = programs(name)

    def all_of_them(*arrays: jax.Array) -> Any:
        return [f(x) for f, x in zip(made.values(), arrays, strict=True)]

    shape = (2, *every_op.SPACE, 3)
    compilers.compiled(chip, all_of_them, *compilers.specs([(shape, dtype) for dtype in made]))
