"""Threads and processes: concurrent calls are right, caches stay bounded, no other state."""

import ast
import copy
import functools
import gc
import importlib
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_op import EVERY_OP, numbers
from fresh import printed
from jax import lax

import jaxpool

THREADS, ROUNDS, LIMIT = 16, 2, 120.0


def check_line(number: int, turn: int) -> None:
    """Compare a pool of a vector, with a length that no other thread has, with a loop."""
    length, kernel, stride = 20 + number, 2 + turn, 1 + number % 3
    x = np.random.default_rng(number).permutation(length).astype(np.float32)
    words: dict[str, Any] = {"strides": stride, "data_format": "W"}
    starts = range(0, length - kernel + 1, stride)
    tops = [start + int(x[start : start + kernel].argmax()) for start in starts]
    values, indices = jaxpool.max_pool_with_argmax(x, kernel, **words)
    np.testing.assert_array_equal(indices, tops)
    np.testing.assert_array_equal(values, x[tops])
    averages = jaxpool.avg_pool(x, kernel, **words)
    means = [x[start : start + kernel].mean() for start in starts]
    np.testing.assert_allclose(averages, means, rtol=1e-6)
    if turn == 0:
        gradient = jax.grad(lambda x: jaxpool.max_pool(x, kernel, **words).sum())(x)
        np.testing.assert_array_equal(gradient, np.bincount(tops, minlength=length))


@pytest.mark.deep
def test_sixteen_threads_at_once() -> None:
    faults: list[BaseException] = []
    barrier = threading.Barrier(THREADS)

    def work(number: int) -> None:
        try:
            barrier.wait(LIMIT)
            for turn in range(ROUNDS):
                check_line(number, turn)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in threads)
    assert not faults, faults


CHILDREN = """
import multiprocessing
import jax.numpy as jnp, jaxpool

def child(queue):
    queue.put(jaxpool.max_pool(jnp.arange(6.0), 2, 2, data_format="W").tolist())

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        queue = context.SimpleQueue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        print(method, queue.get())
        process.join(60)
"""


@pytest.mark.deep
def test_children_pool_forked_or_spawned(tmp_path: Path) -> None:
    """JAX requires a fork before its first computation; importing jaxpool computes nothing."""
    (tmp_path / "children.py").write_text(CHILDREN)
    assert printed(str(tmp_path / "children.py")) == "".join(
        f"{method} [1.0, 3.0, 5.0]\n" for method in ("fork", "spawn")
    )


ROOT = Path(jaxpool.__file__).parent


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_caches_are_bounded(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    attributes = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
    assert not [n for n in attributes if n.attr in ("cache", "cached_property")]
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    if path.stem == "result_cache":  # its callers set the bounds
        return
    bounds = [c for c in calls if getattr(c.func, "attr", "") == "lru_cache"]
    assert len(bounds) == sum(n.attr == "lru_cache" for n in attributes)
    bounds += [c for c in calls if getattr(c.func, "id", "") == "result_cache"]
    for bound in bounds:
        words = {word.arg: ast.literal_eval(word.value) for word in bound.keywords}
        assert 0 < words["maxsize"] <= 4096


def test_old_settings_leave_the_cache() -> None:
    compiled = importlib.import_module("jaxpool.ops._dispatch")._compiled.shared
    size = compiled.cache_info().maxsize
    for length in range(1, size + 10):  # no array, so nothing is compiled
        with pytest.raises(TypeError):
            jaxpool.adaptive_max_pool("no array", (length,))  # pyright: ignore[reportArgumentType]
    assert compiled.cache_info().currsize == size


class Large:
    """An object in the closure of a reduction's function."""


def _reduction_over(large: Large, kind: str) -> jaxpool.Reduction:
    larger = lambda a, b: (large, jnp.maximum(a, b))[1]  # noqa: E731
    if kind == "combine":
        return jaxpool.Reduction("largest", larger, -np.inf)
    if kind == "comparator":
        comparator = lambda b, a: (large, b > a)[1]  # noqa: E731
        return jaxpool.Reduction("largest", larger, -np.inf, comparator=comparator)
    return jaxpool.Reduction("squares", jnp.add, 0, prepare=lambda x: (large, x * x)[1])


@pytest.mark.grid(3)
@pytest.mark.parametrize("kind", ["combine", "comparator", "prepare"])
def test_a_reduction_and_what_it_closes_over_are_let_go(kind: str) -> None:
    """Only a reduction itself, and JAX, keep its programs, plans and checks."""

    def use() -> list[weakref.ref[Any]]:
        large, x = Large(), numbers(1, 2)
        reduction = _reduction_over(large, kind)
        pool = functools.partial(jaxpool.pool, reduction=reduction, window_shape=(3, 2), strides=1)
        first = pool(x)
        np.testing.assert_array_equal(jax.jit(pool)(x), first)
        jax.grad(lambda x: pool(x).sum())(jnp.asarray(x))
        np.testing.assert_array_equal(jaxpool.pool(x, copy.copy(reduction), (3, 2), 1), first)
        return [weakref.ref(large), weakref.ref(reduction)]

    kept = use()
    jax.clear_caches()
    gc.collect()
    assert [ref() for ref in kept] == [None, None]


@pytest.mark.parametrize("add", [jnp.add, lax.add], ids=["jnp.add", "lax.add"])
def test_jax_keeps_nothing_of_a_sum(add: Any) -> None:
    """Also with the caches of JAX as they are."""

    def use() -> list[weakref.ref[Any]]:
        large = Large()
        squares = jaxpool.Reduction("squares", add, 0, prepare=lambda x: (large, x * x)[1])
        jax.grad(lambda x: jaxpool.pool(x, squares, (3, 2), 1).sum())(jnp.asarray(numbers(1, 2)))
        return [weakref.ref(large), weakref.ref(squares)]

    kept = use()
    gc.collect()
    assert [ref() for ref in kept] == [None, None]


def _largest_of(large: Large, taps: jax.Array) -> jax.Array:
    return (large, taps.max())[1]


class Largest:
    """A function with an attribute."""

    def __init__(self, large: Large) -> None:
        self.large = large

    def __call__(self, taps: jax.Array) -> jax.Array:
        return _largest_of(self.large, taps)


def _function_over(large: Large, kind: str) -> Any:
    return {
        "closure": lambda: lambda taps: _largest_of(large, taps),
        "partial": lambda: functools.partial(_largest_of, large),
        "instance": lambda: Largest(large),
        "jitted": lambda: jax.jit(lambda taps: _largest_of(large, taps)),
    }[kind]()


@pytest.mark.parametrize("kind", ["closure", "partial", "instance", "jitted"])
def test_a_function_of_windows_and_what_it_closes_over_are_let_go(kind: str) -> None:
    """Also while arrays that were computed by it are alive."""

    def use() -> tuple[list[weakref.ref[Any]], Any]:
        large, x = Large(), jnp.asarray(numbers(1, 2))
        function = _function_over(large, kind)
        run = functools.partial(
            jaxpool.filters.generic_filter, function=function, size=(1, 3, 3, 1)
        )
        y = run(x)
        np.testing.assert_array_equal(y, jaxpool.filters.maximum_filter(x, (1, 3, 3, 1)))
        np.testing.assert_array_equal(jax.jit(run)(x), y)
        assert jax.grad(lambda x: run(x).sum())(x).shape == x.shape
        return [weakref.ref(large), weakref.ref(function)], y

    kept, y = use()
    jax.clear_caches()
    gc.collect()
    assert [ref() for ref in kept] == [None, None]
    assert jnp.isfinite(y).all()


def state() -> dict[str, Any]:
    """Return every list, dict and set at module level."""
    return {
        f"{module_name}.{name}": copy.copy(value)
        for module_name, module in list(sys.modules.items())
        if module_name.partition(".")[0] == "jaxpool"
        for name, value in vars(module).items()
        if isinstance(value, (list, dict, set)) and not name.startswith("__")
    }


def test_calls_change_no_state_but_caches() -> None:
    before = state()
    for op in EVERY_OP.values():
        jax.eval_shape(functools.partial(op), numbers(1, 2))
    assert state() == before
