"""Every op in every variant of a call: compiled or not, on a device, from fresh equal settings."""

import copy
import re
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import parameterized
from every_op import EVERY_OP, WINDOW, numbers, with_gradient

import jaxpool

pytestmark = pytest.mark.grid(8)

X = numbers(2, 3)
NAMED = [(name.replace(" ", "_").replace(",", ""), name) for name in EVERY_OP]
EVERY_RUN, FURTHER = NAMED[::9], [row for n, row in enumerate(NAMED) if n % 9]
compiled = chex.variants(with_jit=True)
uncompiled = chex.variants(without_jit=True, with_device=True)
in_all_variants = chex.variants(with_jit=True, without_jit=True, with_device=True)


def check_variant(test: Any, name: str) -> None:
    both = with_gradient(EVERY_OP[name])
    got, want = test.variant(both)(X), both(X)
    chex.assert_tree_all_finite(got)
    chex.assert_trees_all_equal_shapes_and_dtypes(got, want)
    chex.assert_trees_all_close(got, want, rtol=2e-6, atol=1e-6)


class VariantsTest(chex.TestCase):
    """Results and gradients of some ops, compiled."""

    @compiled  # pyright: ignore
    @parameterized.named_parameters(*EVERY_RUN)
    def test_every_variant_agrees(self, name: str) -> None:
        check_variant(self, name)


@pytest.mark.deep
class FurtherVariantsTest(chex.TestCase):
    """Results and gradients without compilation, and of all other ops."""

    @uncompiled  # pyright: ignore
    @parameterized.named_parameters(*EVERY_RUN)
    def test_every_other_variant_agrees(self, name: str) -> None:
        check_variant(self, name)

    @in_all_variants  # pyright: ignore
    @parameterized.named_parameters(*FURTHER)
    def test_every_variant_agrees(self, name: str) -> None:
        check_variant(self, name)


@pytest.mark.grid(24)
@pytest.mark.parametrize("name", EVERY_OP)
def test_numpy_arrays_are_accepted_in_every_variant(name: str) -> None:
    op, x = EVERY_OP[name], np.asarray(X)
    want = op(X)
    chex.assert_trees_all_equal(op(x), want)
    with jax.disable_jit():
        without_jit = op(x)
    chex.assert_trees_all_close(jax.jit(lambda: op(x))(), without_jit, want, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", EVERY_OP)
def test_a_weak_type_is_not_kept(name: str) -> None:
    """Whether a result is weak may not depend on the implementation."""
    weak = jax.ShapeDtypeStruct(X.shape, X.dtype, weak_type=True)
    results = jax.tree.leaves(jax.eval_shape(EVERY_OP[name], weak))
    assert not any(result.weak_type for result in results)


@pytest.mark.parametrize(
    ("size", "dtype"), [(4, np.float32), (5, np.float64), (6, np.uint64), (7, bool)]
)
def test_a_numpy_array_needs_no_program_but_that_of_the_op(
    size: int, dtype: Any, caplog: Any
) -> None:
    x = np.eye(5, size, dtype=dtype)
    with jax.log_compiles():
        jaxpool.max_pool(x, 2, 1, data_format="HW", where=x > 0)
    assert compiled_names(caplog.text) == ["max_pool"]


def test_a_python_number_needs_no_program_but_that_of_the_op(caplog: Any) -> None:
    x = np.eye(5, 8, dtype=np.float32)
    with jax.log_compiles():
        for p in (3.0, 2.5, 2):
            jaxpool.gem_pool(x, 2, 1, data_format="HW", p=p)
    assert compiled_names(caplog.text) == ["gem_pool"] * 2  # of a float and of an int


def compiled_names(log: str) -> list[str]:
    """Return the names of the programs that were compiled."""
    return re.findall(r"Compiling (?:jit\()?(\w+)", log)


@pytest.mark.parametrize("op", [jaxpool.max_pool, jaxpool.avg_pool, jaxpool.soft_pool])
def test_fresh_equal_settings_are_traced_once(op: Any) -> None:
    """An outer function is one program if it receives new but equal settings."""
    chex.clear_trace_counter()

    @chex.assert_max_traces(n=1)
    def traced(x: Any, settings: Any) -> Any:
        return op(x, *settings)

    outer = jax.jit(traced, static_argnums=1)
    for _ in range(3):
        outer(X, copy.deepcopy(((3, 2), (2, 1), ((1, 0), (0, 1)))))


def test_fresh_equal_lists_are_traced_once_in_eager_calls() -> None:
    """A reduction is traced together with its op."""
    # Once for the laws, once for the op.
    prepare: Any = chex.assert_max_traces(lambda x: x * 2, n=2)
    twice = jaxpool.Reduction("sum of doubles", jnp.add, 0, prepare=prepare)
    for _ in range(3):
        settings: Any = {key: list(v) if isinstance(v, tuple) else v for key, v in WINDOW.items()}
        jaxpool.pool(X, twice, **settings)
