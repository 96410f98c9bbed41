"""Random pooling: PyTorch's fractional windows, and the distribution of stochastic choices."""

import functools
import itertools
import math
import re
from typing import Any

import brute_force
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import QUICK, assert_same, check_derivatives, error_lines, permutation
from peers import require

import jaxpool

pytestmark = pytest.mark.grid(6)

KEY = jax.random.key(7)
Fractional = jaxpool.fractional_max_pool_with_argmax

# --- fractional: the rule, written out ------------------------------------------------------------


def starts(size: int, kernel: int, out: int, u: Any) -> list[int]:
    """Return the window starts by PyTorch's rule, in the dtype of the sample."""
    number = type(u)
    alpha = number(size - kernel) / number(max(out - 1, 1))
    inner = [int((number(i) + u) * alpha) - int(u * alpha) for i in range(out - 1)]
    return [*inner, size - kernel]


def by_rule(
    x: np.ndarray, kernel: tuple[int, ...], out: tuple[int, ...], samples: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return values and spatial indices of an array with the pooled axes last."""
    lead = x.shape[: x.ndim - len(kernel)]
    spatial = x.shape[len(lead) :]
    samples = np.broadcast_to(samples, (*lead, len(kernel)))
    values, indices = np.zeros((*lead, *out), x.dtype), np.zeros((*lead, *out), np.int32)
    for plane in np.ndindex(*lead):
        lines = [starts(*words) for words in zip(spatial, kernel, out, samples[plane], strict=True)]
        for place in np.ndindex(*out):
            begin = [line[o] for line, o in zip(lines, place, strict=True)]
            cut = tuple(slice(b, b + k) for b, k in zip(begin, kernel, strict=True))
            window = x[plane][cut]
            best = np.unravel_index(np.argmax(window), kernel)
            element = tuple(int(b + t) for b, t in zip(begin, best, strict=True))
            values[plane + place] = x[plane + element]
            indices[plane + place] = np.ravel_multi_index(element, spatial)
    return values, indices


# name -> lengths, windows, number of windows
SIZES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "1-D": ((23,), (3,), (9,)),
    "2-D": ((9, 12), (2, 3), (5, 4)),
    "3-D": ((6, 5, 7), (2, 1, 3), (3, 4, 2)),
    "one window": ((7, 6), (3, 2), (1, 5)),
    "whole": ((4, 5), (4, 5), (1, 1)),
    "40 taps": ((17, 14), (8, 5), (4, 3)),
}


@pytest.mark.parametrize(
    ("case", "alike"), [*zip(SIZES, itertools.cycle([False, True]), strict=False)]
)
def test_windows_lie_where_the_rule_says(case: str, alike: bool, rng: np.random.Generator) -> None:
    size, kernel, out = SIZES[case]
    x = permutation((2, 3, *size), np.float32, rng)
    samples = rng.random(len(size) if alike else (2, 3, len(size))).astype(np.float32)
    want = by_rule(x, kernel, out, samples)
    got = Fractional(None, x, kernel, out, samples=samples, data_format="channels_first")
    assert_same(got[0], want[0], case)
    assert_same(got[1], want[1], case)


def test_starts_are_those_of_float32(rng: np.random.Generator) -> None:
    """Long axes, where float64 places some windows differently; samples may be float64."""
    found = 0
    while found < 2:
        size, out = int(rng.integers(2000, 4000)), int(rng.integers(500, 1900))
        u = np.float32(rng.random())
        if starts(size, 1, out, u) == starts(size, 1, out, np.float64(u)):
            continue
        found += 1
        x = np.arange(size, dtype=np.float32)
        f = lambda u, x=x, n=out: jaxpool.fractional_max_pool(  # noqa: E731
            None, x, 1, n, samples=u[None], data_format="W"
        )
        assert_same(f(u), np.array(starts(size, 1, out, u), np.float32), size)
        with jax.enable_x64(True):
            assert_same(
                f(np.float64(u)), np.array(starts(size, 1, out, np.float64(u)), np.float32), size
            )


def test_every_sample_near_the_ends_stays_inside() -> None:
    """Samples of 0 and just below 1, and through jit even those outside [0, 1)."""
    x = np.arange(12, dtype=np.float32)
    f = lambda u, n: jaxpool.fractional_max_pool(  # noqa: E731
        None, x, 2, n, samples=u, data_format="W"
    )
    for n, u in itertools.product((1, 2, 5, 11), (0.0, np.nextafter(np.float32(1), 0))):
        y = np.asarray(f(np.array([u], np.float32), n))
        assert_same(y, np.array(starts(12, 2, n, np.float32(u)), np.float32) + 1, (n, u))
        assert (np.diff(y) >= 0).all() and y[-1] == 11
    for u in (-1.5, 1.0, 9.0, np.nan):
        y = np.asarray(jax.jit(f, static_argnums=1)(np.array([u], np.float32), 5))
        assert (y >= 1).all() and (y <= 11).all()


@pytest.mark.parametrize("layout", ["channels_last", "HWC", "HNW"])
def test_layouts_and_samples_that_broadcast(layout: str, rng: np.random.Generator) -> None:
    orders = {
        "channels_last": (0, 2, 3, 1), "NHWC": (0, 2, 3, 1), "HWC": (2, 3, 1), "HW": (2, 3),
        "HNW": (2, 0, 3),
    }  # fmt: skip
    order = orders[layout]
    shape = [n if axis in order else 1 for axis, n in enumerate((2, 3, 9, 8))]
    x = permutation(tuple(shape), np.float32, rng)
    samples = rng.random((*shape[:2], 2)).astype(np.float32)
    want, index = by_rule(x, (2, 3), (4, 3), samples)
    dropped = [axis for axis in range(4) if axis not in order]
    move = lambda a: np.transpose(a, (*dropped, *order)).reshape(  # noqa: E731
        [a.shape[axis] for axis in order]
    )
    lead = [n for axis, n in enumerate(shape) if axis in order and axis < 2]
    given = samples.reshape([*lead, 2])
    got = Fractional(None, move(x), (2, 3), (4, 3), samples=given, data_format=layout)
    assert_same(got[0], move(want), layout)
    assert_same(got[1], move(index), layout)


def test_samples_broadcast_to_planes(rng: np.random.Generator) -> None:
    x = permutation((2, 9, 8, 3), np.float32, rng)
    f = lambda u: jaxpool.fractional_max_pool(None, x, (2, 3), (4, 3), samples=u)  # noqa: E731
    for shape in ((2,), (3, 2), (1, 3, 2), (2, 1, 2)):
        samples = rng.random(shape).astype(np.float32)
        assert_same(f(samples), f(np.broadcast_to(samples, (2, 3, 2)).copy()), shape)


def test_a_key_draws_every_plane_apart_and_gives_the_same_again() -> None:
    x = jnp.broadcast_to(jnp.arange(40.0)[None, :, None], (4, 40, 5))
    f = lambda key: jaxpool.fractional_max_pool(key, x, (2,), (15,))  # noqa: E731
    y = np.asarray(f(KEY))
    planes = {tuple(plane) for plane in y.transpose(0, 2, 1).reshape(20, 15)}
    assert len(planes) >= 4
    assert_same(f(KEY), y, "again")
    assert_same(f(jax.random.key_data(KEY)), y, "a raw key")
    assert_same(jax.jit(f)(KEY), y, "jit")
    assert not np.array_equal(f(jax.random.key(8)), y)
    u = jax.random.uniform(KEY, (4, 5, 1))
    assert_same(jaxpool.fractional_max_pool(None, x, (2,), (15,), samples=u), y, "its samples")
    keys = jax.random.split(KEY, 3)
    assert_same(jax.vmap(f)(keys), np.stack([f(key) for key in keys]), "vmap over keys")


@pytest.mark.parametrize(("space", "masked"), [("spatial", False), (1, True), ("window", True)])
def test_indices_of_every_space(space: Any, masked: bool, rng: np.random.Generator) -> None:
    x = permutation((2, 9, 8, 3), np.float32, rng)
    where = rng.random((9, 8, 1)) < 0.15 if masked else None
    f = functools.partial(Fractional, KEY, x, (2, 3), (4, 3), where=where)
    values, indices = f(index_space=space)
    assert_same(jaxpool.fractional_max_pool(KEY, x, (2, 3), (4, 3), where=where), values, space)
    empty = np.isneginf(values)
    assert empty.any() == masked and not empty.all()
    if space == "window":
        assert indices.dtype == np.uint8
        assert (np.asarray(indices)[~empty] < 6).all() and (np.asarray(indices)[empty] == 255).all()
        return
    assert (np.asarray(indices)[empty] == -1).all()
    settings = {"index_space": space, "data_format": "NHWC"}
    back = jaxpool.max_unpool(jnp.where(empty, 0, values), indices, (9, 8), **settings)
    won = np.isin(x, np.asarray(values)[~empty])
    assert_same(back, np.where(won, x, np.float32(0)), space)
    if where is not None:
        assert np.broadcast_to(where, x.shape)[won].all()


@pytest.mark.parametrize("dtype", ["bool", "bfloat16"])
def test_every_dtype(dtype: str, rng: np.random.Generator) -> None:
    x = rng.integers(0, 2 if dtype == "bool" else 9, (1, 2, 9, 8)).astype(jnp.dtype(dtype))
    samples = rng.random(2).astype(np.float32)
    got = Fractional(None, x, (2, 3), (4, 3), samples=samples, data_format="NCHW")
    want = by_rule(x.astype(np.float32), (2, 3), (4, 3), samples)
    assert got[0].dtype == x.dtype
    assert_same(np.asarray(got[0], np.float32), want[0], dtype)
    assert_same(got[1], want[1], "the first of equals")


def test_nan_wins_and_its_first_element() -> None:
    x = jnp.array([1.0, jnp.nan, 2.0, jnp.nan, 5.0])
    values, index = Fractional(None, x, 4, 2, samples=jnp.array([0.3]), data_format="W")
    assert np.isnan(values).all()
    np.testing.assert_array_equal(index, [1, 1])


@pytest.mark.deep
def test_fractional_derivatives_to_order_two(rng: np.random.Generator) -> None:
    size, kernel, out = SIZES["3-D"]
    x = 16 * permutation((1, *size, 1), np.float32, rng)
    samples = rng.random(len(size)).astype(np.float32)
    f = jax.jit(lambda x: jaxpool.fractional_max_pool(None, x, kernel, out, samples=samples))
    y, index = Fractional(None, x, kernel, out, samples=samples)
    want = np.zeros(math.prod(size), np.float32)
    np.add.at(want, np.ravel(index), 2 * np.ravel(y))
    square = lambda x: (f(x) ** 2).sum()  # noqa: E731
    assert_same(jax.grad(square)(x).ravel(), want, "first")
    diagonal = jax.jvp(jax.grad(square), (x,), (jnp.ones_like(x),))[1]
    times = np.bincount(np.ravel(index), minlength=want.size)
    assert_same(diagonal.ravel(), np.float32(2 * times), "second")


@pytest.mark.deep
def test_a_batch_of_arrays_of_samples_or_of_both(rng: np.random.Generator) -> None:
    x = permutation((3, 2, 9, 8, 1), np.float32, rng)
    samples = rng.random((3, 2)).astype(np.float32)
    f = lambda x, u: jaxpool.fractional_max_pool(None, x, (2, 3), (4, 3), samples=u)  # noqa: E731
    g = lambda x, u: jax.grad(lambda x: (f(x, u) ** 2).sum())(x)  # noqa: E731
    for h, axes in ((g, (0, 0)), (f, (None, 0))):
        pairs = list(zip((x, samples), axes, strict=True))
        arguments = [a[0] if axis is None else a for a, axis in pairs]
        calls = [[a[0 if axis is None else n] for a, axis in pairs] for n in range(3)]
        assert_same(jax.vmap(h, axes)(*arguments), np.stack([h(*call) for call in calls]), axes)
    assert jaxpool.fractional_max_pool(KEY, x[0, :0], (2, 3), (4, 3)).shape == (0, 4, 3, 1)


LIVE = [(2, 0), (2, 1), (3, 0)]


@pytest.mark.parametrize(("pooled", "seed"), LIVE)
def test_values_indices_and_gradients_are_those_of_torch(pooled: int, seed: int) -> None:
    torch = require("torch")
    rng = np.random.default_rng([pooled, seed])
    kernel = tuple(int(k) for k in rng.integers(1, 4, pooled))
    size = tuple(k + int(n) for k, n in zip(kernel, rng.integers(1, 9, pooled), strict=True))
    out = tuple(int(rng.integers(1, n - k + 1)) for n, k in zip(size, kernel, strict=True))
    x = permutation((2, 3, *size), np.float32, rng)
    samples = rng.random((2, 3, pooled)).astype(np.float32)
    theirs = samples[..., ::-1].copy() if pooled == 2 else samples  # 2-D: width first
    t = torch.tensor(x, requires_grad=True)
    y, index = getattr(torch.nn.functional, f"fractional_max_pool{pooled}d")(
        t, kernel, output_size=out, return_indices=True, _random_samples=torch.tensor(theirs)
    )
    g = permutation(tuple(y.shape), np.float32, rng)
    (gradient,) = torch.autograd.grad(y, t, torch.tensor(g))
    f = lambda x: Fractional(  # noqa: E731
        None, x, kernel, out, samples=samples, data_format="channels_first"
    )
    values, pull, indices = jax.vjp(f, x, has_aux=True)
    case = (size, kernel, out)
    assert_same(values, y.detach().numpy(), case)
    assert_same(indices, index.numpy().astype(np.int32), case)
    assert_same(pull(jnp.asarray(g))[0], gradient.numpy(), case)


@pytest.mark.parametrize("way", ["values", "gradient"])
def test_the_program_of_fractional_windows_grows_with_their_logarithm(way: str) -> None:
    def lines(window: int) -> int:
        f = lambda x: jaxpool.fractional_max_pool(KEY, x, window, 9, data_format="W").sum()  # noqa: E731
        run = f if way == "values" else jax.grad(f)
        return jax.jit(run).lower(jnp.zeros(1200)).as_text().count("\n")

    assert lines(512) < 1.5 * lines(64)


# --- stochastic -----------------------------------------------------------------------------------

# name -> window over an array of shape (2, 6, 5, 2)
WINDOWS: dict[str, dict[str, Any]] = {
    "tiled": {"window_shape": (2, 2), "strides": 2},
    "overlapping, padded": {"window_shape": (3, 2), "strides": (2, 1), "padding": 1},
    "dilated, ceil": {
        "window_shape": (2, 3), "strides": 3, "padding": (1, 2), "dilations": (3, 2),
        "rounding": "ceil_torch",
    },
    "36 taps": {"window_shape": (6, 6), "strides": 1, "padding": ((2, 1), (1, 1))},
}  # fmt: skip
over_windows = pytest.mark.parametrize("window", WINDOWS)


def activations(rng: np.random.Generator, shape: tuple[int, ...] = (2, 6, 5, 2)) -> np.ndarray:
    """Return distinct positive numbers, with some zeros and negative numbers."""
    x = permutation(shape, np.float32, rng)
    return np.where(x < -math.prod(shape) // 3, 0, x + math.prod(shape) // 4).astype(np.float32)


@pytest.mark.parametrize("window", ["dilated, ceil"])
def test_elements_are_chosen_as_often_as_they_are_large(
    window: str, rng: np.random.Generator
) -> None:
    """Frequencies of 2,000 draws, within five standard deviations."""
    x, draws = activations(rng), 2000
    f = jax.jit(jax.vmap(lambda key: jaxpool.stochastic_pool(key, x, **WINDOWS[window])))
    y = np.asarray(f(jax.random.split(KEY, draws)))
    for out, places in brute_force.elements_of_windows(x, **WINDOWS[window])[1]:
        got = y[(slice(None), *out)]
        elements = np.array([x[place] for place in places])
        weights = np.maximum(elements, 0)
        if not weights.sum():
            assert not got.any()
            continue
        p = weights / weights.sum()
        counts = np.array([(got == element).sum() if element > 0 else 0 for element in elements])
        assert counts.sum() == draws
        deviation = np.sqrt(draws * p * (1 - p))
        assert (np.abs(counts - draws * p) <= 5 * deviation + 1).all(), (out, counts, p * draws)


def test_windows_that_share_elements_choose_apart() -> None:
    """Two windows choose their shared element independently, not always together."""
    x = jnp.array([1.0, 2.0, 3.0])
    f = jax.vmap(lambda key: jaxpool.stochastic_pool(key, x, 2, 1, data_format="W"))
    y = np.asarray(f(jax.random.split(KEY, 8000)))
    shared = (y[:, 0] == 2).mean(), (y[:, 1] == 2).mean(), (y == 2).all(axis=1).mean()
    np.testing.assert_allclose(shared, (2 / 3, 2 / 5, 4 / 15), atol=0.03)


@over_windows
def test_the_expectation_is_that_of_the_probabilities(
    window: str, rng: np.random.Generator
) -> None:
    x = activations(rng)

    def expectation(elements: np.ndarray) -> float:
        weights = np.maximum(elements, 0)
        return (weights * weights).sum() / weights.sum() if weights.sum() else 0

    want = brute_force.over_windows(expectation, x, **WINDOWS[window])
    f = functools.partial(jaxpool.stochastic_pool, **WINDOWS[window], deterministic=True)
    assert_same(f(None, x), want.astype(np.float32), window, ulps=4)
    assert_same(f(KEY, x), f(None, x), "the key does not matter")


def test_masked_elements_are_neither_chosen_nor_counted(rng: np.random.Generator) -> None:
    x, where = activations(rng), rng.random((6, 5, 1)) < 0.5
    hidden = np.where(where, x, np.float32(np.nan))
    for settings in ({"deterministic": True}, {}):
        f = functools.partial(jaxpool.stochastic_pool, KEY, **WINDOWS["tiled"], **settings)
        assert_same(f(hidden, where=where), f(np.where(where, x, 0)), settings)


def test_the_same_key_chooses_the_same() -> None:
    """The numbers were recorded on CPU; threefry and fixed sum orders repeat them everywhere."""
    x = jnp.arange(1.0, 17.0).reshape(4, 4)
    f = lambda key: jaxpool.stochastic_pool(key, x, 2, 1, data_format="HW")  # noqa: E731
    y = f(jax.random.key(3))
    assert_same(y, np.array(RECORDED, np.float32), "recorded")
    assert_same(jax.jit(f)(jax.random.key(3)), y, "jit")
    assert_same(f(jax.random.PRNGKey(3)), y, "a raw key")
    assert not np.array_equal(f(jax.random.key(4)), y)


RECORDED = [[2, 7, 8], [10, 7, 11], [9, 11, 12]]


@pytest.mark.parametrize("window", ["overlapping, padded", "36 taps"])
def test_the_derivative_is_that_of_the_chosen_element(
    window: str, rng: np.random.Generator
) -> None:
    x = jnp.asarray(activations(rng, (1, 6, 5, 1)))
    f = lambda x: jaxpool.stochastic_pool(KEY, x, **WINDOWS[window])  # noqa: E731
    square = lambda x: (f(x) ** 2).sum()  # noqa: E731

    def derivatives(x: jax.Array) -> list[jax.Array]:
        (y, pull), one = jax.vjp(f, x), jnp.ones_like(x)
        twice = jax.jvp(jax.grad(square), (x,), (one,))[1]
        return [y, pull(jnp.ones_like(y))[0], jax.jacrev(f)(x), jax.jvp(f, (x,), (x,))[1], twice]

    run = jax.jit(derivatives, compiler_options=QUICK)
    y, pulled, jacobian, tangent, twice = run(x)
    np.testing.assert_array_equal(tangent, y)
    np.testing.assert_array_equal(np.unique(jacobian), [0, 1])
    np.testing.assert_array_equal(jnp.tensordot(jacobian, x, x.ndim), y)
    np.testing.assert_array_equal(np.sum(jacobian, (-4, -3, -2, -1)), y > 0)
    assert not np.any(np.sum(jacobian, (0, 1, 2, 3))[x <= 0])
    assert_same(twice, 2 * pulled, window)


@pytest.mark.parametrize("window", ["overlapping, padded", "36 taps"])
def test_derivatives_of_the_expectation(window: str, rng: np.random.Generator) -> None:
    f = functools.partial(jaxpool.stochastic_pool, None, **WINDOWS[window], deterministic=True)
    with jax.enable_x64(True):
        x = jnp.asarray(rng.uniform(0.5, 1.5, (1, 6, 5, 1)) * (rng.random((1, 6, 5, 1)) < 0.8))
        x = jnp.where(x == 0, -1.0, x)  # a negative element has no derivative; 0 would be a corner
        check_derivatives(f, x, rng=rng)


@pytest.mark.parametrize("deterministic", [False, True])
def test_special_elements(deterministic: bool) -> None:
    f = lambda x: jaxpool.stochastic_pool(  # noqa: E731
        KEY, jnp.array(x), 2, 2, data_format="W", deterministic=deterministic
    )
    nan, inf = np.nan, np.inf
    got = f([0.0, 0.0, -1.0, -2.0, nan, 1.0, 1.0, nan, nan, inf])
    np.testing.assert_array_equal(got, [0, 0, nan, nan, nan])
    got = f([inf, 1.0, 2.0, inf])
    np.testing.assert_array_equal(got, [nan, nan] if deterministic else [inf, inf])
    gradient = jax.grad(lambda x: f(x).sum())(np.array([0, 0, -1, -2, 3, 0], np.float32))
    np.testing.assert_array_equal(gradient, [0, 0, 0, 0, 1, 0])


@pytest.mark.deep
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_largest_floats_are_chosen_too(dtype: str) -> None:
    """An overflow of the sum differs from an infinity among the elements."""
    x = jnp.array([2e38, 3e38, 3e38, 0, 1, np.inf], dtype)
    f = lambda x: jaxpool.stochastic_pool(KEY, x, 2, 2, data_format="W")  # noqa: E731
    assert float(f(x)[0]) in x[:2].tolist() and f(x)[1:].tolist() == [x[2], np.inf]
    small = jnp.array([3e38, 3e38, 2e-38, 1.5e-38], dtype)
    assert float(f(small)[1]) in small[2:].tolist()  # other windows have no effect
    with jax.disable_jit():
        assert f(x)[1:].tolist() == [x[2], np.inf]
    for taps in (2, 3, 4, 6, 33):
        many = jnp.full(taps, 3e38, dtype)
        assert jaxpool.stochastic_pool(KEY, many, taps, 1, data_format="W").tolist() == [many[0]]
    gradient = jax.grad(lambda x: f(x)[:2].sum().astype(jnp.float32))(x)
    assert gradient[:2].sum() == 1 and gradient[2:].tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize(("dtype", "deterministic"), [("bfloat16", False), ("float16", True)])
def test_narrow_floats_are_added_in_float32(dtype: str, deterministic: bool) -> None:
    x = jnp.ones((32, 32), dtype)
    y = jaxpool.stochastic_pool(KEY, x, 32, 1, data_format="HW", deterministic=deterministic)
    assert y.dtype == x.dtype and float(y[0, 0]) == 1


@pytest.mark.parametrize("op", ["fractional", "choice", "expectation"])
def test_programs_lower_and_export_for_every_platform(op: str, rng: np.random.Generator) -> None:
    x = activations(rng, (4, 6, 5, 2))
    f = {
        "fractional": lambda x: jaxpool.fractional_max_pool(KEY, x, (2, 3), (3, 2)),
        "choice": lambda x: jaxpool.stochastic_pool(KEY, x, (3, 2), 2),
        "expectation": lambda x: jaxpool.stochastic_pool(None, x, (3, 2), 2, deterministic=True),
    }[op]
    for g in (f, jax.grad(lambda x: (f(x) ** 2).sum())):
        text = jax.jit(g).trace(x).lower(lowering_platforms=("cpu", "cuda", "tpu")).as_text()
        assert "stablehlo" in text
        if op == "choice":
            assert "scatter" not in text
    (batch,) = jax.export.symbolic_shape("batch")
    argument = jax.ShapeDtypeStruct((batch, *x.shape[1:]), x.dtype)
    exported = jax.export.export(jax.jit(f), platforms=("cpu", "cuda", "tpu"))(argument)
    assert_same(exported.call(x), f(x), op, ulps=2)


def test_a_choice_keeps_one_byte_for_each_output() -> None:
    x = jnp.ones((2, 6, 5, 2))
    f = lambda x: jaxpool.stochastic_pool(KEY, x, (3, 2), (2, 1))  # noqa: E731
    leaves = jax.tree.leaves(jax.eval_shape(lambda x: jax.vjp(f, x)[1], x))
    kept = [(leaf.shape, str(leaf.dtype)) for leaf in leaves if leaf.shape]
    assert kept == [((2, 2, 4, 2), "uint8")]


# --- errors ---------------------------------------------------------------------------------------

X = np.ones((2, 6, 5, 3), np.float32)
HALF = np.full(2, 0.5, np.float32)
FRACTIONAL_ERRORS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "neither": ({"key": None}, ValueError, "neither `key` nor `samples` is given"),
    "both": ({"samples": HALF}, ValueError, "`key` and `samples` are both given"),
    "a seed": ({"key": 0}, TypeError, "`key` is not a random key"),
    "the array first": ({"key": X, "x": KEY}, TypeError, "`key` is not a random key"),
    "many keys": ({"key": jax.random.split(KEY, 2)}, TypeError, "`key` is not a random key"),
    "an old key of a wrong length": (
        {"key": np.zeros(3, np.uint32)}, TypeError, r"`key` is not a random key.\n.*uint32\[3\]",
    ),
    "too many windows": ({"output_size": (6, 2)}, ValueError, "`output_size` = 6 does not fit poo"),
    "no windows": ({"output_size": (0, 2)}, ValueError, "`output_size` contains 0"),
    "a ratio": ({"output_size": (0.5, 0.5)}, TypeError, "`output_size` contains 0.5"),
    "sizes of other axes": ({"output_size": (2, 2, 2)}, ValueError, "`output_size` = .* 3 entries"),
    "a large window": ({"window_shape": (7, 2)}, ValueError, "`window_shape` = 7 does not fit"),
    "samples of integers": (
        {"key": None, "samples": np.zeros(2, int)}, TypeError, "`samples` are int64",
    ),
    "a number": ({"key": None, "samples": np.float32(0.5)}, TypeError, "`samples` are float32"),
    "samples of other planes": (
        {"key": None, "samples": np.zeros((3, 3, 2), "f")}, ValueError, "do not fit the array",
    ),
    "samples of other axes": (
        {"key": None, "samples": np.zeros(3, "f")}, ValueError, "`samples` of shape .3,. do not",
    ),
    "a sample of 1": ({"key": None, "samples": HALF * 2}, ValueError, "`samples` contain 1.0"),
    "a sample of NaN": ({"key": None, "samples": HALF * np.nan}, ValueError, "contain nan"),
    "complex": ({"x": X.astype(np.complex64)}, TypeError, "dtype complex64"),
    "a mask of floats": ({"where": X}, TypeError, "`where` has dtype float32"),
    "an unknown layout": ({"data_format": "XY"}, ValueError, "`data_format` = 'XY'"),
}  # fmt: skip
STOCHASTIC_ERRORS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no key": ({"key": None}, ValueError, "`key` is None"),
    "a seed": ({"key": 0}, TypeError, "`key` is not a random key"),
    "integers": ({"x": X.astype(int)}, TypeError, "dtype int"),
    "not a bool": ({"deterministic": 1}, TypeError, "`deterministic` = 1 is not a bool"),
    "a large window": ({"window_shape": (7, 2)}, ValueError, "`window_shape` = 7 does not fit"),
    "no stride": ({"strides": 0}, ValueError, "`strides` contains 0"),
}


@pytest.mark.parametrize("case", FRACTIONAL_ERRORS)
def test_errors_of_fractional_max_pool(case: str) -> None:
    words, error, what = FRACTIONAL_ERRORS[case]
    words = {"key": KEY, "x": X, "window_shape": (2, 2), "output_size": (3, 2)} | words
    for op in ("fractional_max_pool", "fractional_max_pool_with_argmax"):
        call = functools.partial(getattr(jaxpool, op), **words)
        assert re.search(what, "\n".join(error_lines(op, error, call)))


@pytest.mark.parametrize("case", STOCHASTIC_ERRORS)
def test_errors_of_stochastic_pool(case: str) -> None:
    words, error, what = STOCHASTIC_ERRORS[case]
    words = {"key": KEY, "x": X, "window_shape": (2, 2), "strides": 2} | words
    call = functools.partial(jaxpool.stochastic_pool, **words)
    assert re.search(what, error_lines("stochastic_pool", error, call)[0])


def test_numbers_for_many_axes_are_those_of_random_uniform_and_drawn_in_few() -> None:
    """As a vector on CPU, which compiles faster, and as a matrix elsewhere."""
    x = jnp.ones((2, 12, 4, 3)).at[:, 1::2].set(2)
    pool = lambda x: jaxpool.stochastic_pool(KEY, x, (2, 1), (2, 1))  # noqa: E731
    run = jax.jit(pool, compiler_options=QUICK)
    for platform, products in {"cpu": 0, "cuda": 1, "tpu": 1}.items():
        text = run.trace(x).lower(lowering_platforms=(platform,)).as_text()
        drawn = re.findall(r"stablehlo.iota dim = \d : tensor<([0-9x]+)xui", text)
        assert drawn and {shape.count("x") for shape in drawn} == {products}, (platform, drawn)
    second = 3 * jax.random.uniform(KEY, (2, 6, 4, 3)) >= 1
    np.testing.assert_array_equal(run(x), jnp.where(second, 2.0, 1.0))
