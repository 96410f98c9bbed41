"""The examples in the docstrings of the front ends give the results that they show."""

import doctest
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool

LEAST = dict.fromkeys(jaxpool.compat.__all__, 5) | {"flax": 3, "keras": 3, "equinox": 0}
"""The number of examples that each front end has at least."""


@pytest.mark.parametrize("name", LEAST)
def test_docstring_examples(name: str) -> None:
    module = importlib.import_module(f"jaxpool.compat.{name}")
    names = {**vars(module), "jaxpool": jaxpool, "jax": jax, "jnp": jnp, "np": np}
    runner, failures = doctest.DocTestRunner(verbose=False), list[str]()
    sources = {str(getattr(getattr(module, key), "__module__", "")) for key in module.__all__}
    for source in {module.__name__, *(s for s in sources if s.startswith(module.__name__))}:
        for test in doctest.DocTestFinder().find(importlib.import_module(source), globs=names):
            runner.run(test, out=failures.append)
    assert not failures, "".join(failures)
    assert runner.summarize(verbose=False).attempted >= LEAST[name]
