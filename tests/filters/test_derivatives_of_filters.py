"""Derivatives of filters against JAX over all taps, in both modes and to second order."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import QUICK, assert_same, permutation

import jaxpool.filters as filters

pytestmark = pytest.mark.grid(8)

NUMPY_MODES: dict[str, Any] = {
    "reflect": "symmetric",
    "mirror": "reflect",
    "nearest": "edge",
    "wrap": "wrap",
}
FOOTPRINT = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 1, 0]], bool)
DISC = np.hypot(*np.mgrid[-6:7, -6:7]) <= 6.2
NOISE = np.random.default_rng(5).random((12, 11)) < 0.5
STRUCTURE = np.array([[0, 3, 1], [2, 5, 4]], np.float32)


def taps(x: Any, footprint: np.ndarray, mode: Any, flip: bool = False) -> jax.Array:
    """Return all taps of all windows as the last axis, by indexing."""
    lows = [n // 2 if not flip else (n - 1) // 2 for n in footprint.shape]
    pads = [(low, n - 1 - low) for low, n in zip(lows, footprint.shape, strict=True)]
    numbers = np.arange(x.size).reshape(x.shape)
    if mode == "constant":
        extended = jnp.pad(x, pads, constant_values=1.5)
    else:
        extended = jnp.ravel(x)[np.pad(numbers, pads, mode=NUMPY_MODES[mode])]
    starts = np.argwhere(np.flip(footprint) if flip else footprint)
    parts = [extended[a : a + x.shape[0], b : b + x.shape[1]] for a, b in starts]
    return jnp.stack(parts, -1)


def whole(*shape: int) -> np.ndarray:
    return np.ones(shape, bool)


def eroded(x: Any, structure: Any, mode: Any) -> jax.Array:
    return (taps(x, whole(2, 3), mode) - jnp.ravel(structure)).min(-1)


def dilated(x: Any, structure: Any, mode: Any) -> jax.Array:
    return (taps(x, whole(2, 3), mode, flip=True) + jnp.ravel(jnp.flip(structure))).max(-1)


Pair = tuple[Callable[..., Any], Callable[..., Any]]
CASES: dict[str, Pair] = {
    "maximum": (
        lambda x, m: filters.maximum_filter(x, (3, 4), mode=m, cval=1.5),
        lambda x, m: taps(x, whole(3, 4), m).max(-1),
    ),
    "minimum of a footprint": (
        lambda x, m: filters.minimum_filter(x, footprint=FOOTPRINT, mode=m, cval=1.5),
        lambda x, m: taps(x, FOOTPRINT, m).min(-1),
    ),
    "maximum of a disc": (
        lambda x, m: filters.maximum_filter(x, footprint=DISC, mode=m, cval=1.5),
        lambda x, m: taps(x, DISC, m).max(-1),
    ),
    "maximum of noise": (
        lambda x, m: filters.maximum_filter(x, footprint=NOISE, mode=m, cval=1.5),
        lambda x, m: taps(x, NOISE, m).max(-1),
    ),
    "median": (
        lambda x, m: filters.median_filter(x, 3, mode=m, cval=1.5),
        lambda x, m: jnp.sort(taps(x, whole(3, 3), m), -1)[..., 4],
    ),
    "rank in a large window": (
        lambda x, m: filters.rank_filter(x, 70, (12, 11), mode=m, cval=1.5),
        lambda x, m: jnp.sort(taps(x, whole(12, 11), m), -1)[..., 70],
    ),
    "mean": (
        lambda x, m: filters.uniform_filter(x, (4, 3), mode=m, cval=1.5),
        lambda x, m: taps(x, whole(4, 3), m).mean(-1),
    ),
    "opening with a structure": (
        lambda x, m: filters.grey_erosion(x, structure=STRUCTURE, mode=m, cval=1.5),
        lambda x, m: eroded(x, STRUCTURE, m),
    ),
    "any function": (
        lambda x, m: filters.generic_filter(x, _norm, (2, 3), mode=m, cval=1.5),
        lambda x, m: jnp.sqrt((taps(x, whole(2, 3), m) ** 2).sum(-1)),
    ),
}


def _norm(window: jax.Array) -> jax.Array:
    return jnp.sqrt((window**2).sum())


@pytest.mark.grid(40)
@pytest.mark.parametrize("mode", ["reflect", "mirror", "wrap", "nearest", "constant"])
@pytest.mark.parametrize("case", CASES)
def test_derivatives_are_those_of_all_taps(case: str, mode: Any, rng: np.random.Generator) -> None:
    """The numbers differ so much that no structure makes two elements equal."""
    x = permutation((7, 9), np.float32, rng) * 16
    u, v = (rng.integers(-4, 5, x.shape).astype(np.float32) for _ in range(2))

    def everything(f: Callable[..., Any]) -> list[Any]:
        loss = lambda x: (u * f(x, mode) ** 2).sum()  # noqa: E731
        gradient = jax.grad(loss)
        return [jax.jvp(gradient, (x,), (v,)), jax.vjp(lambda x: f(x, mode), x)[1](u)]

    both = jax.jit(everything, static_argnums=0, compiler_options=QUICK)
    ours, theirs = map(both, CASES[case])
    jax.tree.map(lambda a, b: assert_same(a, b, (case, mode), ulps=8), ours, theirs)


@pytest.mark.parametrize("name", ["erosion", "dilation"])
def test_a_structure_has_derivatives(name: str, rng: np.random.Generator) -> None:
    x = permutation((6, 7), np.float32, rng) * 16
    u = rng.integers(-4, 5, x.shape).astype(np.float32)
    ours, theirs = {
        "erosion": (filters.grey_erosion, eroded),
        "dilation": (filters.grey_dilation, dilated),
    }[name]

    def both(f: Callable[..., Any]) -> list[Any]:
        moved = jax.jvp(functools.partial(f, x), (STRUCTURE,), (STRUCTURE,))[1]
        return [moved, jax.grad(lambda x, s: (u * f(x, s)).sum(), (0, 1))(x, STRUCTURE)]

    run = jax.jit(both, static_argnums=0, compiler_options=QUICK)
    got = run(lambda x, s: ours(x, structure=s))
    want = run(lambda x, s: theirs(x, s, "reflect"))
    jax.tree.map(lambda a, b: assert_same(a, b, name), got, want)


@pytest.mark.grid(4)
@pytest.mark.parametrize("footprint", [whole(3, 3), FOOTPRINT, DISC, NOISE])
def test_ties_give_the_whole_cotangent_once(footprint: np.ndarray) -> None:
    x = jnp.zeros((5, 6))
    g = jax.grad(lambda x: filters.maximum_filter(x, footprint=footprint).sum())(x)
    assert float(g.sum()) == x.size


def test_reverse_mode_has_no_scatter() -> None:
    x = jnp.zeros((9, 8))
    for call in (
        lambda x: filters.maximum_filter(x, 5),
        lambda x: filters.minimum_filter(x, footprint=DISC, mode="wrap"),
        lambda x: filters.grey_closing(x, structure=STRUCTURE),
        lambda x: filters.median_filter(x, 3),
        lambda x: filters.uniform_filter(x, 40, mode="mirror"),
    ):
        assert "scatter" not in str(jax.make_jaxpr(jax.grad(lambda x, f=call: f(x).sum()))(x))


def test_cotangents_of_narrow_floats_are_added_wide() -> None:
    """In bfloat16, 256 + 1 is 256."""
    footprint = np.arange(599) % 2 == 0
    x = jnp.zeros(1400, jnp.bfloat16).at[700].set(1)
    for name, sign in (("maximum_filter", 1), ("minimum_filter", -1)):
        filtered = functools.partial(getattr(filters, name), footprint=footprint)
        slopes = jax.grad(lambda x, f=filtered: f(x).sum())(sign * x)
        assert float(slopes[700]) == 300, name
