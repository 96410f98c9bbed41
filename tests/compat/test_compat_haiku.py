"""The front end of Haiku: the same results as the functions of the installed ``haiku``."""

import inspect
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import permutation

from jaxpool.compat import haiku as ours

pytestmark = pytest.mark.usefixtures("standard_promotion")

X = permutation((2, 9, 7, 4), "float32", np.random.default_rng(0)) / 7

CALLS = [
    ((1, 3, 2, 1), (1, 2, 3, 1), "SAME"),
    ((3, 2, 1), (2, 1, 1), "VALID"),
    ((3, 2), (2, 1), "SAME"),  # the channels are pooled
    ((2, 1, 3, 1), (1, 1, 2, 1), "SAME"),  # the batch is pooled
    ((1, 1, 3, 2), (1, 1, 2, 1), "VALID", 1),
    ((1, 2, 1, 1), (1, 1, 2, 1), "VALID"),  # a stride without a window
    ((1, 1, 1, 1), (1, 1, 1, 1), "SAME"),
    (2, (1, 2, 2, 1), "SAME"),
    (2, 3, "VALID"),
    (2, 2, "SAME", 1),
    (2, 2, "SAME", None),
    ((2, 3, 2, 3), (1, 2, 2, 1), "VALID"),  # every axis is pooled
    ((2, 3, 2, 3), (2, 2, 1, 1), "SAME"),
    ((3, 3, 2, 3), (1, 1, 1, 1), "VALID"),  # it does not fit
]


@pytest.mark.grid(16)
@pytest.mark.filterwarnings("ignore:When running under vmap")
@pytest.mark.parametrize("name", ["max_pool", "avg_pool"])
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_functions_give_what_haiku_gives(name: str, call: tuple[Any, ...]) -> None:
    x, whole = jnp.asarray(X), jnp.asarray(X).astype("int32")
    mine, theirs = (getattr(module, name) for module in (ours, hk))
    for array in (x, whole):
        found = (jax.eval_shape(lambda x, f=f: f(x, *call), array) for f in (mine, theirs))
        assert len({(y.dtype, y.shape) for y in found}) == 1
    np.testing.assert_allclose(mine(x, *call), theirs(x, *call), rtol=1e-6, atol=1e-5)
    slopes = (jax.grad(lambda x, f=f: (f(x, *call) ** 2).sum())(x) for f in (mine, theirs))
    np.testing.assert_allclose(*slopes, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", ["max_pool", "avg_pool"])
def test_arguments_and_defaults_are_those_of_haiku(name: str) -> None:
    found = (inspect.signature(getattr(module, name)) for module in (ours, hk))
    mine, theirs = ([(p.name, p.default) for p in s.parameters.values()] for s in found)
    assert mine == theirs


def test_narrow_floats_and_integers_lose_nothing() -> None:
    ones = jnp.ones((1, 32, 32, 1), jnp.bfloat16)
    window = (1, 32, 32, 1), (1, 1, 1, 1), "VALID"
    assert (hk.avg_pool(ones, *window).item(), ours.avg_pool(ones, *window).item()) == (0.25, 1.0)
    hundreds = jnp.full((1, 2, 2, 1), 100, jnp.int8)
    assert ours.avg_pool(hundreds, (2, 2, 1), (1, 1, 1), "VALID").item() == 100.0


@pytest.mark.grid(2)
@pytest.mark.parametrize("x64", [False, True])
def test_averages_have_the_dtype_of_haiku(x64: bool) -> None:
    for dtype in ("bfloat16", "float32", "int8", "uint32"):
        for padding in ("SAME", "VALID"):
            with jax.enable_x64(x64):
                x = jnp.arange(4, dtype=dtype).reshape(1, 4, 1)
                call = x, (1, 2, 1), (1, 1, 1), padding
                mine, theirs = (module.avg_pool(*call) for module in (ours, hk))
            assert mine.dtype == theirs.dtype, (dtype, padding)
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (((2, 2, 1), 1, ((0, 0),)), r"max_pool: `padding` = \(\(0, 0\),\) is neither SAME nor"),
        (((1, 1, 2, 2, 1), 1, "SAME"), r"`window_shape` = \(1, 1, 2, 2, 1\) has 5 entries"),
        ((2, 1, "SAME", 4), r"`channel_axis` = 4 is not a channel axis of the value"),
        ((2, 1, "SAME", -4), r"`channel_axis` = -4 is not a channel axis of the value"),
    ],
)
def test_errors_use_the_words_of_haiku(words: tuple[Any, ...], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ours.max_pool(X, *words)


@pytest.mark.parametrize("channel_axis", ["C", 0.5, 1.0, True])
def test_a_channel_axis_is_an_integer(channel_axis: Any) -> None:
    with pytest.raises(TypeError, match=f"^max_pool: `channel_axis` contains {channel_axis!r}"):
        ours.max_pool(X, 2, 1, "SAME", channel_axis)


def test_an_integer_may_be_one_of_numpy() -> None:
    got = ours.max_pool(X, unchecked(np.int64(2)), unchecked(np.int32(2)), "SAME")
    np.testing.assert_array_equal(got, ours.max_pool(X, 2, 2, "SAME"))
    for setting in (2.0, None, "2"):
        with pytest.raises(TypeError, match="^avg_pool: `window_shape` contains "):
            ours.avg_pool(X, unchecked(setting), 1, "SAME")


@pytest.mark.parametrize("name", ["max_pool", "avg_pool"])
@pytest.mark.filterwarnings("ignore:When running under vmap")
@pytest.mark.parametrize("strides", [1, 2, (3,)])
def test_a_value_of_one_axis_has_only_a_batch(name: str, strides: Any) -> None:
    """An int does not pool the first axis, but strides of one entry thin it out."""
    x = jnp.arange(9.0)
    mine, theirs = (getattr(module, name)(x, 2, strides, "SAME", None) for module in (ours, hk))
    np.testing.assert_array_equal(mine, theirs)


def unchecked(setting: Any) -> Any:
    return setting


@pytest.mark.parametrize("name", ["max_pool", "avg_pool"])
@pytest.mark.parametrize(
    "call",
    [((20, 2, 1), (3, 2, 1)), ((2, 20, 1), (1, 1, 1)), ((3, 3, 9), (1, 1, 1)), (20, 2)],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:When running under vmap")
def test_a_window_that_does_not_fit_gives_an_empty_array(name: str, call: tuple[Any, ...]) -> None:
    x = jnp.ones((2, 8, 9, 4))
    mine, theirs = (getattr(module, name)(x, *call, "VALID") for module in (ours, hk))
    assert mine.shape == theirs.shape and mine.dtype == theirs.dtype and 0 in mine.shape


@pytest.mark.grid(4)
@pytest.mark.parametrize("window", [3, 4])
@pytest.mark.parametrize("strides", [1, 2])
def test_symbolic_lengths_are_exported(window: int, strides: int) -> None:
    shape = jax.export.symbolic_shape("n, h, w, c", constraints=["h >= 4", "w >= 4"])
    for free in (shape, jax.export.symbolic_shape("n, h, w, c")):
        pool = lambda x: ours.max_pool(x, (window,) * 2 + (1,), (strides,) * 2 + (1,), "VALID")  # noqa: E731
        made = jax.export.export(jax.jit(pool))(jax.ShapeDtypeStruct(free, jnp.float32))
        x = jnp.asarray(np.random.default_rng(0).random((2, 7, 9, 3)), jnp.float32)
        np.testing.assert_array_equal(made.call(x), pool(x))


def test_a_stride_of_zero_is_an_error_in_words() -> None:
    with pytest.raises(ValueError, match="^max_pool: `strides` contains 0"):
        ours.max_pool(jnp.ones((1, 4, 4, 1)), (1, 2, 2, 1), (1, 0, 1, 1), "VALID")
