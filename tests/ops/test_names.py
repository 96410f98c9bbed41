"""The name of an op appears in jaxprs, in HLO, and thus in profiles."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from every_op import EVERY_OP, SPACE, public_ops

pytestmark = pytest.mark.grid(24)

X = jnp.linspace(0.5, 2.0, 2 * 7 * 6 * 3).reshape(2, *SPACE, 3)


def first(op: Callable[..., Any]) -> Callable[[Any], jax.Array]:
    """Return the values of an op that may also return indices."""
    return lambda x: jax.tree.leaves(op(x))[0]


def places(function: Callable[..., Any]) -> list[str]:
    """Return the ``op_name`` of every instruction of a compiled program, except its arguments."""
    text = jax.jit(function).lower(X).compile().as_text() or ""
    return [name for name in re.findall(r'op_name="([^"]+)"', text) if "/" in name]


def test_the_table_has_every_op() -> None:
    """Tests of all ops iterate over the table."""
    assert {case.partition(",")[0] for case in EVERY_OP} == public_ops()


@pytest.mark.parametrize("case", EVERY_OP)
def test_programs_bear_the_name_of_the_op(case: str) -> None:
    name, values = case.partition(",")[0], first(EVERY_OP[case])
    assert f"name={name}" in str(jax.make_jaxpr(values)(X))
    ours = ("max_pool_with_argmax", name) if name == "max_unpool" else (name,)
    for function in (values, jax.grad(lambda x: values(x).sum())):
        found = places(function)
        other = [place for place in found if not any(op in place for op in ours)]
        assert found and len(other) <= len(found) / 20, other
