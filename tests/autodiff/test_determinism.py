"""Equal inputs have bitwise equal results: repeated, on other threads, with and without ``jit``."""

import json
import os
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from digests import NAMES, array, compiled, digests
from every_op import EVERY_OP, numbers, with_gradient
from fresh import printed

SCRIPT = str(Path(__file__).parents[1] / "support" / "digests.py")
ROUNDED = ("avg_pool", "lp_pool", "logsumexp_pool")
"""XLA may round a product and a sum at once where it compiles them together."""

OPS = sorted({*NAMES, *ROUNDED})


@pytest.mark.deep
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a process to processors")
def test_threads_and_processes_give_the_same_bits() -> None:
    assert len(os.sched_getaffinity(0)) >= 1
    run = compiled()
    here = {name: digests(both) for name, both in run(array()).items()}
    assert {name: digests(both) for name, both in run(array()).items()} == here
    one_thread = json.loads(printed(SCRIPT, "1"))
    assert set(here) == set(NAMES)
    for name, want in here.items():
        assert one_thread[name] == want, name
    changed = {name: digests(both) for name, both in run(array() + 1).items()}
    assert all(changed[name] != here[name] for name in NAMES)


@pytest.mark.grid(6)
@pytest.mark.parametrize("name", OPS)
def test_values_and_indices_are_the_same_under_jit(name: str) -> None:
    op, x = EVERY_OP[name], numbers(3, 5) * np.float32(1.1)
    assert digests(op(x)) == digests(jax.jit(op)(x))


@pytest.mark.grid(2)
@pytest.mark.parametrize("name", ["max_pool_with_argmax", "max_unpool"])
def test_gradients_are_the_same_under_jit(name: str) -> None:
    both, x = with_gradient(EVERY_OP[name]), numbers(3, 5) * np.float32(1.1)
    assert digests(both(x)) == digests(jax.jit(both)(x))


@pytest.mark.grid(3)
@pytest.mark.parametrize("name", ROUNDED)
def test_gradients_of_averages_and_norms_are_the_same_to_the_last_places(name: str) -> None:
    both, x = with_gradient(EVERY_OP[name]), numbers(3, 5) * np.float32(1.1)
    for a, b in zip(jax.tree.leaves(both(x)), jax.tree.leaves(jax.jit(both)(x)), strict=True):
        np.testing.assert_array_max_ulp(np.asarray(a), np.asarray(b), maxulp=4)
