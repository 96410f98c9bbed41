"""The front end of Equinox: the same results as the layers of the installed ``equinox.nn``."""

import inspect
import pickle
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import permutation

import jaxpool
from jaxpool.compat import equinox as ours

pytestmark = [pytest.mark.grid(8), pytest.mark.usefixtures("standard_promotion")]


def axes(name: str) -> int:
    return int(name[-2])


NAMES = [name for name in ours.__all__ if "Adaptive" not in name]
ADAPTIVE = [name for name in ours.__all__ if "Adaptive" in name]


def image(count: int) -> jax.Array:
    return jnp.asarray(
        permutation((2, 9, 7, 8)[: count + 1], "float32", np.random.default_rng(0)) / 7
    )


def settings(count: int) -> list[dict[str, Any]]:
    mixed = (3, 2, 4)[:count]
    return [
        {"kernel_size": 2},
        {"kernel_size": mixed, "stride": (2, 1, 3)[:count]},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 2, "padding": (1, 0, 1)[:count]},
        {"kernel_size": mixed, "stride": 2, "padding": ((1, 0), (0, 2), (1, 1))[:count]},
        {"kernel_size": 4, "stride": 3, "use_ceil": True},
        {"kernel_size": 4, "stride": 2, "padding": 1, "use_ceil": True},
    ]


def test_the_classes_are_those_of_equinox() -> None:
    theirs = {name for name in vars(eqx.nn) if name.endswith("d") and "Pool" in name}
    assert set(ours.__all__) == theirs


@pytest.mark.parametrize("name", ours.__all__)
def test_arguments_and_defaults_are_those_of_equinox(name: str) -> None:
    found = (inspect.signature(getattr(module, name)) for module in (ours, eqx.nn))
    mine, theirs = ([(p.name, p.default) for p in s.parameters.values()] for s in found)
    assert mine == theirs


@pytest.mark.grid(16)
@pytest.mark.parametrize(
    ("name", "case"), [(n, case) for n in NAMES for case in ((0, 4) if axes(n) == 3 else range(7))]
)
def test_windows_give_what_equinox_gives(name: str, case: int) -> None:
    x, words = image(axes(name)), settings(axes(name))[case]
    mine, theirs = (getattr(module, name)(**words) for module in (ours, eqx.nn))
    for field in ("kernel_size", "stride", "padding", "use_ceil"):
        assert getattr(mine, field) == getattr(theirs, field)
    assert mine(x).dtype == theirs(x).dtype
    np.testing.assert_allclose(mine(x), theirs(x), rtol=1e-6, atol=1e-5)
    slopes = (jax.grad(lambda x, f=f: (f(x) ** 2).sum())(x) for f in (mine, theirs))
    np.testing.assert_allclose(*slopes, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "target"), [(n, k) for n in ADAPTIVE for k in ((3,) if axes(n) == 3 else (1, 2, 3, 7))]
)
def test_pieces_are_those_of_equinox(name: str, target: int) -> None:
    """NumPy defines the pieces, also if their number does not divide the axis."""
    x, count = image(axes(name)), axes(name)
    mine = getattr(ours, name)(target)(x)
    reduce = np.mean if "Avg" in name else np.max
    expected = np.asarray(x, np.float64)
    for axis in range(1, count + 1):
        pieces = np.array_split(expected, target, axis)
        expected = np.concatenate([reduce(p, axis, keepdims=True) for p in pieces], axis)
    np.testing.assert_allclose(mine, expected, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(mine, getattr(eqx.nn, name)(target)(x), rtol=1e-6, atol=1e-5)


def test_a_target_per_axis() -> None:
    x = image(2)
    mine, theirs = (module.AdaptiveAvgPool2d((4, 3))(x) for module in (ours, eqx.nn))
    np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-5)


def test_narrow_floats_and_integers_lose_nothing() -> None:
    ones = jnp.ones((1, 32, 32), jnp.bfloat16)
    assert eqx.nn.AvgPool2d(32)(ones).item() == 0.25
    assert ours.AvgPool2d(32)(ones).item() == 1.0
    hundreds = jnp.full((1, 2, 2), 100, jnp.int8)
    assert ours.AvgPool2d(2)(hundreds).item() == 100.0


def test_a_last_window_that_equinox_refuses() -> None:
    x = jnp.arange(7.0)[None]
    with pytest.raises(RuntimeError):
        eqx.nn.MaxPool1d(2, 3, use_ceil=True)(x)
    assert ours.MaxPool1d(2, 3, use_ceil=True)(x).tolist() == [[1.0, 4.0, 6.0]]


def test_a_layer_is_a_tree_without_leaves() -> None:
    layer = ours.MaxPool2d(2, 2)
    assert jax.tree.leaves(layer) == [] and hash(layer) == hash(ours.MaxPool2d((2, 2), (2, 2)))
    assert layer != ours.AvgPool2d(2, 2) and pickle.loads(pickle.dumps(layer)) == layer


@pytest.mark.deep
def test_a_layer_goes_into_models() -> None:
    convolution = eqx.nn.Conv2d(3, 4, 3, key=jax.random.key(0))
    model = eqx.nn.Sequential([convolution, ours.MaxPool2d(2, 2), ours.AdaptiveAvgPool2d(2)])
    theirs = eqx.nn.Sequential([convolution, eqx.nn.MaxPool2d(2, 2), eqx.nn.AdaptiveAvgPool2d(2)])
    x = jax.random.normal(jax.random.key(1), (5, 3, 12, 12))
    loss = eqx.filter_jit(eqx.filter_grad(lambda model: (jax.vmap(model)(x) ** 2).sum()))
    mine, expected = (loss(m).layers[0].weight for m in (model, theirs))
    np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: ours.MaxPool2d((2, 2, 2)),
            r"MaxPool2d.*`kernel_size` = \(2, 2, 2\) has 3 entries",
        ),
        (
            lambda: ours.MaxPool2d(2, 2, [(0, 1, 2), (0, 1)]),
            r"MaxPool2d: `padding` contains \(0, 1, 2\), which has 3 entries",
        ),
        (lambda: ours.MaxPool2d(2)(jnp.ones((1, 1, 4, 4))), "the array has 4 axes"),
        (lambda: ours.AdaptiveAvgPool1d(9)(jnp.ones((1, 4))), "asks for 9 pieces of 4 elements"),
    ],
)
def test_errors_use_the_words_of_equinox(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


def test_padding_may_be_numpy_integers() -> None:
    x = jnp.arange(9.0)[None]
    for window, pads in ((2, -1), (20, 0), (3, 1)):
        for pool in (ours.MaxPool1d, ours.AvgPool1d):
            of_numpy: Any = np.int64(pads)
            want = pool(window, padding=pads)(x)
            np.testing.assert_array_equal(pool(window, padding=of_numpy)(x), want)
            pairs = [(of_numpy, of_numpy)]
            np.testing.assert_array_equal(pool(window, padding=pairs)(x), want)


@pytest.mark.parametrize("padding", [1.5, [(0, 1.0)], [True]])
def test_padding_is_integers(padding: Any) -> None:
    with pytest.raises(TypeError, match="^MaxPool1d: `padding` contains"):
        ours.MaxPool1d(2, padding=padding)


def test_a_flag_is_a_bool() -> None:
    flag: Any = "no"
    with pytest.raises(TypeError, match="^MaxPool2d: `use_ceil` = 'no' is not a bool"):
        ours.MaxPool2d(2, use_ceil=flag)


@pytest.mark.parametrize("setting", [None, "22", 2.0])
def test_a_setting_that_is_no_integer_is_named(setting: Any) -> None:
    for name in ("MaxPool2d", "AvgPool2d"):
        with pytest.raises(TypeError, match=f"^{name}: `kernel_size` contains {setting!r}, which"):
            getattr(ours, name)(setting)
    for name in ("AdaptiveMaxPool2d", "AdaptiveAvgPool2d"):
        with pytest.raises(TypeError, match=f"^{name}: `target_shape` contains {setting!r}, which"):
            getattr(ours, name)(setting)


@pytest.mark.parametrize("name", ["MaxPool2d", "AdaptiveAvgPool2d"])
def test_settings_of_arrays_are_static(name: str) -> None:
    layer: Any = getattr(ours, name)
    made = layer(jnp.array([2, 3]))
    assert made == layer((2, 3)) and hash(made) == hash(layer((2, 3))) and not jax.tree.leaves(made)


def test_the_library_own_adaptive_windows_overlap_and_these_do_not() -> None:
    x = jnp.arange(5.0)[None]
    assert ours.AdaptiveAvgPool1d(3)(x).tolist() == [[0.5, 2.5, 4.0]]
    native = jaxpool.adaptive_avg_pool(x, (3,), data_format="channels_first")
    assert native.tolist() == [[0.5, 2.0, 3.5]]


def test_symbolic_lengths_have_no_last_window_that_may_be_filled_in_part() -> None:
    shape = jax.export.symbolic_shape("c, h, w")
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    cases: list[Any] = [(3, 2, 1), (3, 1), (4, 2), (2, 2)]
    for settings in cases:
        made = jax.export.export(jax.jit(ours.MaxPool2d(*settings)))(x)
        want = eqx.nn.MaxPool2d(*settings)(jnp.ones((2, 8, 9)))
        assert made.call(jnp.ones((2, 8, 9))).shape == want.shape
    with pytest.raises(ValueError, match="^MaxPool2d: pooled axis 0 has the symbolic size"):
        jax.export.export(jax.jit(ours.MaxPool2d(3, 2, 1, use_ceil=True)))(x)


@pytest.mark.parametrize("name", ["MaxPool2d", "AvgPool2d"])
@pytest.mark.parametrize(
    "call",
    [
        (9, 1, 0),
        (9, 2, 0, True),
        (3, 1, -1),
        (3, 2, -1, True),
        (3, 2, ((-2, 0), (1, -3)), True),
        (2, 2, ((1, -1), (0, 1))),
        (3, 1, -4),
    ],
    ids=str,
)
def test_what_does_not_fit_is_empty_and_negative_padding_crops(
    name: str, call: tuple[Any, ...]
) -> None:
    x = jnp.asarray(np.random.default_rng(0).permutation(4 * 8 * 9).reshape(4, 8, 9) / 8)
    mine, theirs = (getattr(module, name)(*call)(x) for module in (ours, eqx.nn))
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)
    assert mine.dtype == theirs.dtype
