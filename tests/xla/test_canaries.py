"""The reason for each workaround of ``jaxpool._xla``: the fault exists without it.

If a test fails, the installed JAX no longer needs the workaround, which can be removed when the
oldest supported JAX does not need it either.
"""

import cProfile
import functools
import re
import signal
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fresh import python
from jax import lax

import jaxpool
from jaxpool._xla import materialize as module
from jaxpool._xla.any_in_batch import any_in_batch
from jaxpool._xla.call_without_derivative import call_without_derivative
from jaxpool._xla.nan_constant import nan_where
from jaxpool._xla.opaque_divisor import opaque_divisor
from jaxpool._xla.sharding_types import with_sharding_types
from jaxpool._xla.variadic_reduce import variadic_combine

X = np.random.default_rng(0).normal(size=(4, 16, 28, 32)).astype(np.float32)

on_cpu = pytest.mark.skipif(jax.default_backend() != "cpu", reason="of the compiler for CPU")


def compiled(function: Callable[..., Any], *arrays: Any) -> str:
    """Return the optimised program of the CPU."""
    return jax.jit(function).lower(*arrays).compile().as_text() or ""


# --- materialize ----------------------------------------------------------------------------------


def instructions_of_a_gradient(channels: int) -> int:
    """Return the number of instructions for values and gradient of tiles."""

    def both(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        y, pull = jax.vjp(lambda x: jaxpool.max_pool(x, 7, 7, data_format="NCHW"), x)
        return y, pull(y)[0]

    return compiled(both, X[:, :channels, :28, :28]).count(" = ")


@on_cpu
def test_a_barrier_is_dropped_before_0_11_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """From JAX 0.11.1 on a barrier suffices: the program is no longer than with a branch."""
    monkeypatch.setattr(module, "BARRIER_HOLDS", False)
    by_branch = instructions_of_a_gradient(3)
    monkeypatch.setattr(module, "BARRIER_HOLDS", True)
    by_barrier = instructions_of_a_gradient(5)
    dropped = by_barrier > 1.2 * by_branch
    assert dropped == (jax.__version_info__ < (0, 11, 1))


# --- variadic_reduce ------------------------------------------------------------------------------

Pair = tuple[jax.Array, jax.Array]


def count(text: str, instruction: str) -> int:
    """Return the occurrences of an instruction in a program, including fusions."""
    return len(re.findall(rf"= \S+ {instruction}\(", text))


def larger(a: Pair, b: Pair) -> Pair:
    """Return the pair with the larger value."""
    take = b[0] > a[0]
    return jnp.where(take, b[0], a[0]), jnp.where(take, b[1], a[1])


def larger_half(combine: Callable[[Pair, Pair], Pair]) -> Callable[[jax.Array], Any]:
    """Return a function: the larger values of two halves of an array, and their half."""

    def function(x: jax.Array) -> Pair:
        first, second = jnp.sin(x[:2]), jnp.sin(x[2:])
        zeros = jnp.zeros(first.shape, jnp.uint8)
        return combine((first, zeros), (second, zeros + np.uint8(1)))

    return function


def by_one_loop(a: Pair, b: Pair) -> Pair:
    identity = np.asarray(-np.inf, np.float32), np.asarray(255, np.uint8)
    return variadic_combine(larger, a, b, identity)


def loops(text: str) -> int:
    """Return the number of fusions and reductions of the entry computation."""
    entry = text[text.index("ENTRY") :]
    return len(re.findall(r"= [^=]*? (?:fusion|reduce)\(", entry))


@on_cpu
def test_the_cpu_makes_a_loop_for_each_result() -> None:
    assert count(compiled(larger_half(larger), X), "sine") > 2


@on_cpu
def test_a_variadic_reduction_is_one_loop() -> None:
    text = compiled(larger_half(by_one_loop), X)
    assert count(text, "sine") == 2
    assert loops(text) == 1


# --- any_in_batch ---------------------------------------------------------------------------------


def chosen(any_of: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    """Return a function that branches on whether a batch of examples has a NaN."""

    def function(x: jax.Array) -> jax.Array:
        return lax.cond(any_of(x != x), jnp.sin, jnp.cos, x)

    return jax.vmap(function)


def test_vmap_makes_a_branch_by_examples_a_select() -> None:
    assert "cond[" not in str(jax.make_jaxpr(chosen(jnp.any))(X))


def test_one_answer_for_a_batch_is_a_branch() -> None:
    assert "cond[" in str(jax.make_jaxpr(chosen(any_in_batch))(X))


# --- call_without_derivative ----------------------------------------------------------------------


def calls_of_tracing(call: Callable[..., Any]) -> int:
    """Return the number of Python calls that trace a gradient whose rule has long branches."""

    def branch(x: jax.Array) -> jax.Array:
        for _ in range(200):
            x = lax.sin(x)
        return x

    @jax.custom_jvp
    def function(x: jax.Array) -> jax.Array:
        return x

    @function.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        by_platform = functools.partial(lax.platform_dependent, cpu=branch, default=lax.cos)
        return primals[0], call(by_platform, *primals) * tangents[0]

    profile = cProfile.Profile()
    profile.runcall(jax.make_jaxpr(jax.grad(jax.jit(function))), 1.0)
    return sum(entry.callcount for entry in profile.getstats())


def test_linearization_traces_known_branches_again() -> None:
    entered = calls_of_tracing(lambda function, x: function(x))
    assert calls_of_tracing(call_without_derivative) < entered / 2


# --- sharding_types -------------------------------------------------------------------------------


def padded(x: jax.Array) -> jax.Array:
    """Return ``x`` with a row of zeros on either side."""
    zeros = jnp.zeros((1, *x.shape[1:]), x.dtype)
    return lax.concatenate([zeros, x, zeros], 0)


def on_a_mesh() -> tuple[Any, jax.Array]:
    """Return a mesh of one device with an explicit axis, and an array sharded over it."""
    mesh = jax.make_mesh((1,), ("rows",), axis_types=(jax.sharding.AxisType.Explicit,))
    return mesh, jax.device_put(X[:, 0, 0], jax.NamedSharding(mesh, jax.P("rows")))


def test_an_operation_on_explicit_axes_wants_all_shardings_alike() -> None:
    mesh, x = on_a_mesh()
    with jax.set_mesh(mesh), pytest.raises(Exception, match="same sharding"):
        jax.jit(padded)(x)


def test_sharding_types_are_asked_for_the_result_alone() -> None:
    mesh, x = on_a_mesh()
    with jax.set_mesh(mesh):
        y = jax.jit(lambda x: with_sharding_types(padded, x))(x)
        np.testing.assert_array_equal(y, np.pad(X[:, 0, 0], [(1, 1), (0, 0)]))


# --- NaN in reductions of floats ------------------------------------------------------------------


@on_cpu
def test_the_cpu_drops_nan_from_large_reductions_of_floats() -> None:
    """The reason why :mod:`jaxpool._lowerings.parts.float_order` reduces integers."""
    x = np.zeros((64, 4096), np.float32)
    x[:, ::7] = np.nan
    found = jax.jit(lambda x: lax.reduce(x, np.float32(-np.inf), lax.max, (1,)))(x)
    assert not np.isnan(found).all()


# --- narrow_integers ------------------------------------------------------------------------------


@on_cpu
@pytest.mark.parametrize("dtype", ["int2", "uint2"])
def test_the_cpu_aborts_when_it_concatenates_integers_of_two_bits(dtype: str) -> None:
    code = (
        "import jax, jax.numpy as jnp\n"
        "from jax import lax\n"
        "from jaxpool._xla.narrow_integers import concatenate_in_bytes\n"
        f"x = jnp.ones((2, 3), jnp.{dtype})\n"
        "join = lambda concatenate: jax.jit(lambda x: concatenate([x, x], 0))(x).shape\n"
        "print(join(concatenate_in_bytes), flush=True)\n"
        "join(lax.concatenate)\n"
    )
    done = python("-c", code)
    assert done.stdout == "(4, 3)\n"
    assert done.returncode == -signal.SIGABRT


@on_cpu
def test_the_cpu_reads_a_mask_of_int2_wrongly() -> None:
    """The reason why ``jaxpool.reductions.mask_with_identity`` masks in bytes."""
    lowest = jnp.full((2, 1), -2, jnp.int8)

    def masked(x: jax.Array, mask: jax.Array, dtype: Any) -> jax.Array:
        selected = lax.select(mask, x.astype(dtype), jnp.full(x.shape, -2, dtype))
        return lax.concatenate([lowest, selected.astype(jnp.int8), lowest], 1).astype(jnp.int2)

    x, never = jnp.zeros((2, 1), jnp.int2), jnp.zeros((2, 1), bool)
    wide, narrow = (
        jax.jit(masked, static_argnums=2)(x, never, dtype) for dtype in ("int8", "int2")
    )
    assert (wide == -2).all()
    assert (narrow != -2).any() == (jax.__version_info__ >= (0, 12))


# --- nan_constant ---------------------------------------------------------------------------------


def test_a_broadcast_nan_is_reported_without_jit() -> None:
    never = jnp.zeros(3, bool)
    with jax.disable_jit(), jax.debug_nans(True):
        with pytest.raises(FloatingPointError):
            jnp.where(never, np.float32(np.nan), jnp.ones(3))
        assert nan_where(never, jnp.ones(3)).tolist() == [1, 1, 1]
    assert np.isnan(nan_where(~never, jnp.ones(3))).all()


# --- opaque_divisor -------------------------------------------------------------------------------


@on_cpu
@pytest.mark.parametrize("divisor", [7, np.float32(7)])
def test_the_cpu_multiplies_by_the_reciprocal_of_a_constant(divisor: Any) -> None:
    """The divisor 7 is one of those whose rounded reciprocal gives other quotients."""
    direct = jax.jit(lambda x: x / divisor)(X)
    assert (direct != X / np.float32(7)).any()
    opaque = jax.jit(lambda x: x / opaque_divisor(divisor, x))(X)
    np.testing.assert_array_equal(opaque, X / np.float32(7))
