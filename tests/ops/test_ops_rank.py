"""Medians and ranks of every kind of window against NumPy's sort, and their memory."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import QUICK, assert_same, lowered

import jaxpool

WINDOWS: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "few elements": (
        "NHWC",
        (2, 9, 8, 2),
        {"window_shape": (3, 2), "strides": (1, 2), "padding": 1},
    ),
    "one long axis": ("NWC", (2, 150, 3), {"window_shape": 133, "strides": 2, "padding": 5}),
    "windows on padding": ("NCW", (2, 3, 150), {"window_shape": 140, "strides": 7, "padding": 139}),
    "a plane": (
        "NHWC",
        (2, 20, 18, 2),
        {"window_shape": (12, 13), "strides": (3, 2), "padding": (4, 2)},
    ),
    "one long axis of two": ("HW", (3, 140), {"window_shape": (1, 131), "strides": (1, 4)}),
    "two long rows": ("HW", (3, 140), {"window_shape": (2, 131), "strides": (1, 4)}),
    "a strided row": ("HW", (5, 140), {"window_shape": (1, 131), "strides": (2, 4)}),
    "dilated": ("NWC", (2, 300, 2), {"window_shape": 130, "strides": 3, "dilations": 2}),
}
DATA = ("float", "nan", "int", "masked", "masked nan")


def array(data: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return numbers with many ties, including zeros of both signs."""
    x = rng.integers(-9, 9, shape) * rng.choice([-1.0, 1.0], shape)
    x = x.astype(np.int32 if data == "int" else np.float32)
    return np.where(rng.random(shape) < 0.01, np.nan, x) if "nan" in data else x


def at_rank(elements: np.ndarray, rank: int) -> tuple[Any, int]:
    """Return the element of a rank among the elements, and the first position with this value."""
    if np.isnan(elements).any():
        return np.nan, int(np.argmax(np.isnan(elements)))
    ordered = np.sort(elements)
    value = (
        ordered[min(rank, len(ordered) - 1)] if rank >= 0 else ordered[max(len(elements) + rank, 0)]
    )
    return value, int(np.argmax(elements == value))


def expected(
    x: np.ndarray, there: np.ndarray, rank: int, words: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the result, and the gradient of its sum with the weights 1, 2, 3 and so on."""
    places = np.asarray(jaxpool.windows(np.arange(x.size).reshape(x.shape), **words, fill=-1))
    taps, present = x.ravel()[places], there.ravel()[places] & (places >= 0)
    lowest, highest = (-np.inf, np.inf) if x.dtype.kind == "f" else (-(2**31), 2**31 - 1)
    y, gradient = (
        np.full(taps.shape[:-1], highest if rank >= 0 else lowest, x.dtype),
        np.zeros(x.size),
    )
    for number, window in enumerate(np.ndindex(*y.shape)):
        if present[window].any():
            y[window], first = at_rank(taps[window][present[window]], rank)
            gradient[places[window][present[window]][first]] += number + 1
    return y, gradient.reshape(x.shape)


@pytest.mark.grid(64)
@pytest.mark.parametrize("rank", [0, 4, -2])
@pytest.mark.parametrize("name, data", list(itertools.product(WINDOWS, DATA)))
def test_values_and_gradients(name: str, data: str, rank: int, rng: np.random.Generator) -> None:
    check_values_and_gradients(name, data, rank, rng)


@pytest.mark.deep
@pytest.mark.parametrize("data, rank", [("float", 78), ("masked nan", 4)])
def test_a_plane_of_many_elements(data: str, rank: int, rng: np.random.Generator) -> None:
    """The search goes bit by bit, and is tested in every run; the first case selects zeros."""
    check_values_and_gradients("a plane", data, rank, rng)


def check_values_and_gradients(name: str, data: str, rank: int, rng: np.random.Generator) -> None:
    data_format, shape, words = WINDOWS[name]
    words: Any = words | {"data_format": data_format}
    x, where = array(data, shape, rng), rng.random(shape) < 0.4 if "masked" in data else None
    there = np.ones(shape, bool) if where is None else where
    pool = lambda x: jaxpool.rank_pool(x, rank, **words, where=where)  # noqa: E731
    y, gradient = expected(x, there, rank, words)
    assert_same(pool(x), y, (name, data, rank))
    if data != "int":
        weights = jnp.arange(1.0, 1 + y.size).reshape(y.shape)
        pull = jax.jit(lambda x: jax.vjp(pool, x)[1](weights)[0], compiler_options=QUICK)
        got = pull(jnp.asarray(x))
        np.testing.assert_array_equal(got, gradient, str((name, data, rank)))


def temporaries(function: Any, x: jax.ShapeDtypeStruct) -> int:
    """Return the bytes that a compiled function needs besides its argument and result."""
    held = function.lower(x).compile(QUICK).memory_analysis()
    assert held is not None
    return held.temp_size_in_bytes


@pytest.mark.grid(4)
@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4"])
def test_a_long_window_of_integers_below_a_byte(dtype: str, rng: np.random.Generator) -> None:
    lowest = {"int2": -2, "int4": -8}.get(dtype, 0)
    numbers = rng.integers(0, 2 ** int(dtype[-1]), (3, 150)) + lowest
    x, there = jnp.asarray(numbers).astype(dtype), rng.random(numbers.shape) < 0.5
    words: dict[str, Any] = {"window_shape": 131, "strides": 2, "data_format": "NW"}
    taps = np.lib.stride_tricks.sliding_window_view(numbers, 131, -1)[:, ::2]
    counted = np.lib.stride_tricks.sliding_window_view(there, 131, -1)[:, ::2]
    want = np.sort(np.where(counted, taps, 99), -1)
    for where, ordered in ((None, np.sort(taps, -1)), (there, want)):
        got = jaxpool.rank_pool(x, 40, **words, where=where)
        assert got.dtype == x.dtype
        assert_same(
            got.astype(jnp.int32), ordered[..., 40].astype(np.int32), (dtype, where is None)
        )


@pytest.mark.cpu_program
@pytest.mark.parametrize("window", [(1001,), (3000,)])
def test_memory_does_not_grow_with_the_window(window: tuple[int, ...]) -> None:
    x = jax.ShapeDtypeStruct((20_000,), jnp.float32)
    pool = jax.jit(lambda x: jaxpool.median_pool(x, window, 1, "SAME", data_format="W"))
    held = temporaries(pool, x)
    assert held <= 6 * 4 * 20_000


@pytest.mark.parametrize("op", ["median", "rank"])
def test_planes_hold_at_most_four_arrays(op: str) -> None:
    x = jax.ShapeDtypeStruct((96, 96, 4), jnp.float32)
    pools = {
        "median": jaxpool.median_pool,
        "rank": lambda x, *a, **w: jaxpool.rank_pool(x, 7, *a, **w),
    }
    pool = jax.jit(lambda x: pools[op](x, (31, 29), 1, data_format="HWC"))
    held = temporaries(pool, x)
    assert held <= 4 * 4 * 96 * 96 * 4


@pytest.mark.grid(5)
@pytest.mark.parametrize("window", [(3, 3), (9, 9), (13, 13), (41, 41), (5, 5, 7)])
@pytest.mark.parametrize("op", ["median", "quantile", "rank"])
def test_gradients_hold_at_most_ten_arrays(op: str, window: tuple[int, ...]) -> None:
    pools = {
        "median": jaxpool.median_pool,
        "quantile": lambda x, *a: jaxpool.quantile_pool(x, 0.3, *a),
        "rank": lambda x, *a: jaxpool.rank_pool(x, 2, *a),
    }
    x = jax.ShapeDtypeStruct((2, 64, 64, 8) if len(window) == 2 else (1, 24, 24, 24, 2), "float32")
    gradient = jax.jit(jax.grad(lambda x: (pools[op](x, window, 1, "SAME") ** 2).sum()))
    assert temporaries(gradient, x) <= 10 * 4 * x.size


@pytest.mark.cpu_program
@pytest.mark.parametrize("padding, most", [("VALID", 9), ("SAME", 12)])
def test_gradients_of_long_windows_hold_positions_in_two_bytes(padding: str, most: int) -> None:
    """At the ends, SAME has windows of an even length, which need two elements each."""
    x = jax.ShapeDtypeStruct((16, 4096, 2), jnp.float32)
    gradient = jax.jit(jax.grad(lambda x: (jaxpool.median_pool(x, (201,), 1, padding) ** 2).sum()))
    assert temporaries(gradient, x) <= most * 4 * x.size


@pytest.mark.grid(6)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("op", ["median_pool", "rank_pool", "quantile_pool"])
def test_a_tpu_gives_the_same(op: str, masked: bool, rng: np.random.Generator) -> None:
    """The TPU program for strided windows, run on CPU."""
    x = jnp.asarray(rng.integers(-9, 9, (2, 11, 13, 3)), jnp.float32)  # with ties
    x = x.at[0, 3, 4, 0].set(jnp.nan).at[1, 5, 5, 1].set(jnp.inf)
    words: dict[str, Any] = {"padding": ((1, 2), (0, 1)), "dilations": (1, 2)}
    words |= {"rank": -2} if op == "rank_pool" else {"q": 0.3} if op == "quantile_pool" else {}
    words["where"] = rng.random((11, 13, 1)) < 0.7 if masked else None
    pool = lambda x: getattr(jaxpool, op)(x, window_shape=(3, 2), strides=(2, 3), **words)  # noqa: E731
    g = jnp.asarray(rng.standard_normal(pool(x).shape), jnp.float32)

    @jax.jit
    def run(x: jax.Array, g: jax.Array) -> Any:
        y, back = jax.vjp(pool, x)
        return pool(x), y, back(g)[0]

    for got, want in zip(lowered(run, "tpu", x, g)(x, g), run(x, g), strict=True):
        assert_same(got, want, op, ulps=2)


def test_no_gradient_is_lost_where_xla_rounds_an_input_twice() -> None:
    """Without LLVM's optimiser, two recomputations of an input can be rounded differently."""

    def loss(x: jax.Array) -> jax.Array:
        return jaxpool.median_pool(jnp.sin(x) * 1.3 + 0.2, (3,), 1, "SAME_LOWER").sum()

    x = jnp.asarray(np.random.default_rng(0).standard_normal((4, 144, 3)), jnp.float32)
    got = jax.jit(jax.grad(loss), compiler_options=QUICK)(x) / (1.3 * jnp.cos(x))
    assert round(float(got.sum())) == 4 * 144 * 3


OF_LARGE_PLANES: dict[str, tuple[Callable[..., jax.Array], Callable[[np.ndarray], np.ndarray]]] = {
    "median": (jaxpool.median_pool, lambda taps: np.nanmedian(taps, -1)),
    "second lowest": (
        lambda x, *windows, **words: jaxpool.rank_pool(x, 1, *windows, **words),
        lambda taps: np.sort(taps, -1)[:, 1],
    ),
    "second largest": (
        lambda x, *windows, **words: jaxpool.rank_pool(x, -2, *windows, **words),
        lambda taps: -np.sort(-taps, -1)[:, 1],
    ),
    "quantile": (
        lambda x, *windows, **words: jaxpool.quantile_pool(x, 0.3, *windows, **words),
        lambda taps: np.nanquantile(taps, 0.3, -1),
    ),
}


@pytest.mark.grid(8)
@pytest.mark.parametrize("name", OF_LARGE_PLANES)
@pytest.mark.parametrize("window", [(3, 4), (9, 10)], ids=["few elements", "many elements"])
def test_a_program_has_no_constant_for_each_window(
    window: tuple[int, int], name: str, rng: np.random.Generator
) -> None:
    """Windows at the borders have fewer elements; what is selected there is computed, not stored.

    A mask takes the counts from the array. Every selection is homogeneous.
    """
    pool, definition = OF_LARGE_PLANES[name]
    padding = ((2, 1), (1, 2))

    def both(x: jax.Array, where: jax.Array | None = None) -> Any:
        y, back = jax.vjp(lambda x: pool(x, window, 1, padding, where=where, data_format="HW"), x)
        return y, back(jnp.ones_like(y))[0]

    large = jax.ShapeDtypeStruct((900, 800), jnp.float32)
    assert len(jax.jit(both).lower(large).as_text()) < 1_000_000
    x = rng.standard_normal((80, 70)).astype(np.float32)
    y, slope = jax.jit(both, compiler_options=QUICK)(x)
    taps = np.lib.stride_tricks.sliding_window_view(
        np.pad(x, padding, constant_values=np.nan), window
    )
    want = definition(taps.reshape(-1, np.prod(window))).reshape(y.shape)
    assert_same(y, want.astype(np.float32), name, ulps=2)
    _, of_mask = jax.jit(both, compiler_options=QUICK)(x, np.ones(x.shape, bool))
    np.testing.assert_allclose(slope, of_mask, rtol=1e-6)
    np.testing.assert_allclose((slope * x).sum(), want.sum(), rtol=1e-4)
