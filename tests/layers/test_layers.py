"""The layers of Flax Linen, Flax NNX, Haiku and Equinox: each calls its op, by library conventions.

A layer has no arithmetic, so it is compared only with its op. Each library also trains a small
network with its own pooling and with ours; both must have the same gradients.
"""

import copy
import dataclasses
import functools
import importlib
import inspect
import itertools
import math
import pickle
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, SupportsIndex

import equinox as eqx
import flax.serialization
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax import nnx
from fresh import printed
from helpers import QUICK, assert_same, permutation
from jax.typing import ArrayLike

import jaxpool
from jaxpool._demo.model import load_digits
from jaxpool.layers import haiku as haiku_layers
from jaxpool.layers._common import not_installed

pytestmark = pytest.mark.grid(4)

LIBRARIES = {"linen": "flax", "nnx": "flax", "haiku": "haiku", "equinox": "equinox"}
"""The modules of layers, and the extra that each needs."""

WINDOW: dict[str, Any] = {
    "window_shape": (3, 2),
    "strides": (2, 1),
    "padding": ((1, 0), (0, 1)),
    "dilations": (1, 2),
    "rounding": "ceil",
}
# Layer -> its op, and settings that differ from the defaults.
LAYERS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "MaxPool": (jaxpool.max_pool, WINDOW),
    "MinPool": (jaxpool.min_pool, WINDOW),
    "AvgPool": (jaxpool.avg_pool, {**WINDOW, "count_include_pad": True}),
    "LpPool": (jaxpool.lp_pool, {**WINDOW, "p": 1}),
    "GeMPool": (jaxpool.gem_pool, {**WINDOW, "p": (2.5, 3.0, 1.5), "eps": 1e-3}),
    "MaxPoolWithArgmax": (jaxpool.max_pool_with_argmax, {**WINDOW, "index_space": "window"}),
    "MaxUnpool": (jaxpool.max_unpool, {}),
    "MinPoolWithArgmin": (jaxpool.min_pool_with_argmin, {**WINDOW, "index_space": "window"}),
    "BlurPool": (jaxpool.blur_pool, {**WINDOW, "mode": "edge"}),
    "MaxBlurPool": (jaxpool.max_blur_pool, {**WINDOW, "blur_shape": 2, "mode": "wrap"}),
    "StdPool": (jaxpool.std_pool, {**WINDOW, "correction": 1}),
    "QuantilePool": (jaxpool.quantile_pool, {**WINDOW, "q": 0.3, "method": "lower"}),
    "MedianPool": (jaxpool.median_pool, WINDOW),
    "LogSumExpPool": (jaxpool.logsumexp_pool, {**WINDOW, "temperature": 2.0}),
    "SoftPool": (jaxpool.soft_pool, WINDOW),
    "StochasticPool": (jaxpool.stochastic_pool, {**WINDOW, "deterministic": True}),
    "FractionalMaxPool": (
        jaxpool.fractional_max_pool,
        {"window_shape": (3, 2), "output_size": (3, 4)},
    ),
    "AdaptiveAvgPool": (jaxpool.adaptive_avg_pool, {"output_size": (3, 4)}),
    "AdaptiveMaxPool": (jaxpool.adaptive_max_pool, {"output_size": (3, 4)}),
    "GlobalAvgPool": (jaxpool.global_avg_pool, {"keepdims": False}),
    "GlobalMaxPool": (jaxpool.global_max_pool, {"keepdims": False}),
}
RANDOM_LAYERS = ("StochasticPool", "FractionalMaxPool")
POOLS = [name for name in LAYERS if name not in ("MaxUnpool", *RANDOM_LAYERS)]
SHAPE = (2, 7, 6, 3)

over_libraries = pytest.mark.parametrize("library", LIBRARIES)


def layers(library: str) -> ModuleType:
    return importlib.import_module(f"jaxpool.layers.{library}")


# --- the same layers everywhere -------------------------------------------------------------------


def parameters(library: str, name: str) -> dict[str, Any]:
    """Return the arguments of a layer with their defaults, except those of every module."""
    init = inspect.signature(getattr(layers(library), name).__init__).parameters
    return {
        key: p.default for key, p in init.items() if key not in ("self", "parent", "name")
    }  # fmt: skip


def settings_of(op: Callable[..., Any]) -> dict[str, Any]:
    """Return the static settings of an op with their defaults."""
    arrays = ("x", "where", "y", "indices", "output_shape", "weights", "key", "samples")
    found = inspect.signature(op).parameters.items()
    return {key: p.default for key, p in found if key not in arrays}


@over_libraries
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_has_the_settings_of_its_op(library: str, name: str) -> None:
    found, expected = parameters(library, name), settings_of(LAYERS[name][0])
    if library == "haiku":
        assert found.pop("channel_axis") == -1
    if library in ("haiku", "equinox"):
        del expected["data_format"]
    if (library, name) == ("equinox", "StochasticPool"):
        assert found.pop("inference") is False and expected.pop("deterministic") is False
    if library == "nnx" and name in RANDOM_LAYERS:
        assert found.pop("rngs") is None
    if library == "haiku" and name == "AvgPool":
        assert found.pop("count_include_pad") is False and expected.pop("count_include_pad")
    assert found == expected
    assert getattr(layers(library), name).__doc__


def test_functions_for_haiku_have_the_keywords_of_their_ops_in_the_same_order() -> None:
    module = layers("haiku")
    for name in filter(str.islower, module.__all__):
        keywords, of_op = (
            [p.name for p in inspect.signature(f).parameters.values() if p.kind is p.KEYWORD_ONLY]
            for f in (getattr(module, name), getattr(jaxpool, name))
        )
        found = [key for key in keywords if key != "q"]  # which is positional in the op
        assert found == [key for key in of_op if key not in ("data_format", "weights")], name


def test_layers_show_the_types_of_their_settings() -> None:
    for library, name in itertools.product(LIBRARIES, LAYERS):
        shown = inspect.signature(getattr(layers(library), name)).parameters
        untyped = {(library, name, key) for key, p in shown.items() if p.annotation is Any}
        untyped -= {(library, name, "index_dtype")}  # Any in the ops, too
        assert not untyped
        if "strides" in shown and name != "MaxUnpool":
            assert shown["strides"].annotation == SupportsIndex | Sequence[SupportsIndex]
        if name == "GeMPool":
            assert shown["p"].annotation == float | Sequence[Any] | ArrayLike


@over_libraries
def test_every_library_has_every_layer(library: str) -> None:
    module = layers(library)
    found = {
        key for key, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and key[0] != "_"
    }  # fmt: skip
    assert found == set(LAYERS)


# --- a layer equals its op ------------------------------------------------------------------------


def in_linen(name: str, settings: dict[str, Any], *arrays: Any, **words: Any) -> Any:
    layer = getattr(layers("linen"), name)(**settings)
    return layer.apply(layer.init(jax.random.key(0), *arrays, **words), *arrays, **words)


def in_nnx(name: str, settings: dict[str, Any], *arrays: Any, **words: Any) -> Any:
    return getattr(layers("nnx"), name)(**settings)(*arrays, **words)


def in_haiku(name: str, settings: dict[str, Any], *arrays: Any, **words: Any) -> Any:
    alone = {"padding": (0, 0), "output_size": None}
    spelled = {
        key: (*value, alone.get(key, 1))
        if key in ("window_shape", "strides", "dilations", *alone)
        else value
        for key, value in settings.items()
    }
    run = hk.transform(lambda *arrays: getattr(layers("haiku"), name)(**spelled)(*arrays, **words))
    return run.apply(run.init(None, *arrays), None, *arrays)


def in_equinox(name: str, settings: dict[str, Any], *arrays: Any, **words: Any) -> Any:
    if name == "GeMPool":
        settings = {**settings, "p": np.reshape(settings["p"], (-1, 1, 1))}
    layer = getattr(layers("equinox"), name)(**settings)
    mask = words.pop("where", None)

    def one(arrays: Any, mask: Any) -> Any:
        return layer(*arrays, **words, key=None, **({} if mask is None else {"where": mask}))

    first = jax.tree.map(lambda array: jnp.moveaxis(array, -1, 1), (arrays, mask))
    return jax.tree.map(lambda y: jnp.moveaxis(y, 1, -1), jax.vmap(one)(*first))


RUN = {"linen": in_linen, "nnx": in_nnx, "haiku": in_haiku, "equinox": in_equinox}


@pytest.mark.grid(18)
@over_libraries
@pytest.mark.parametrize("name", POOLS)
def test_a_layer_equals_its_op(library: str, name: str, rng: np.random.Generator) -> None:
    op, settings = LAYERS[name]
    x = permutation(SHAPE, np.float32, rng) / 8
    where = rng.random(SHAPE) < 0.7
    as_op = {k: np.float32(v) if k == "p" and name == "GeMPool" else v for k, v in settings.items()}
    got = RUN[library](name, settings, x, where=where)
    want = op(x, where=where, **as_op)
    jax.tree.map(lambda a, b: assert_same(a, b, (library, name), ulps=2), got, want)


@over_libraries
def test_a_pool_hands_its_indices_to_an_unpool(library: str, rng: np.random.Generator) -> None:
    """A tap number is a position in a window, so unpooling needs the window."""
    x = permutation(SHAPE, np.float32, rng)
    window = {"window_shape": (2, 3), "strides": (2, 3)}
    filled = SHAPE if library == "haiku" else SHAPE[1:-1]
    for settings in ({}, {**window, "index_space": "window"}):
        found = RUN[library]("MaxPoolWithArgmax", {**window, **settings}, x)
        got = RUN[library]("MaxUnpool", settings, *found, output_shape=filled)
        pair = jaxpool.max_pool_with_argmax(x, **{**window, **settings})
        want = jaxpool.max_unpool(*pair, SHAPE[1:-1], **settings)
        assert_same(got, want, (library, settings))


IMAGES = np.random.default_rng(1).random(SHAPE).astype(np.float32)
RANDOM: dict[str, Any] = {"window_shape": (3, 2), "strides": (2, 1)}


def drawn(library: str, seed: int, name: str = "StochasticPool", /, **words: Any) -> jax.Array:
    """Return the result of a random layer, with its library's random state from ``seed``."""
    layer, key = getattr(layers(library), name), jax.random.key(seed)
    settings = LAYERS[name][1] if name == "FractionalMaxPool" else RANDOM
    if library == "linen":
        return layer(**settings).apply({}, IMAGES, rngs={"pooling": key}, **words)
    if library == "nnx":
        return layer(**settings, rngs=nnx.Rngs(pooling=seed))(IMAGES, **words)
    if library == "haiku":
        windows = {key: (*value, None if key == "output_size" else 1)
                   for key, value in settings.items()}  # fmt: skip
        return hk.transform(lambda: layer(**windows)(IMAGES, **words)).apply({}, key)
    one = lambda x, key: layer(**settings)(x, key=key, **words)  # noqa: E731
    first = jax.vmap(one)(np.moveaxis(IMAGES, -1, 1), jax.random.split(key, len(IMAGES)))
    return jnp.moveaxis(first, 1, -1)


@over_libraries
def test_a_random_layer_draws_from_the_state_of_its_library(library: str) -> None:
    expected = jaxpool.stochastic_pool(None, IMAGES, **RANDOM, deterministic=True)
    mode = {"inference" if library == "equinox" else "deterministic": True}
    assert_same(drawn(library, 0, **mode), expected, "expectation", ulps=2)
    first, again, other = (drawn(library, seed) for seed in (0, 0, 1))
    assert_same(first, again, "the same state")
    assert np.any(first != other) and np.any(first != expected)
    elements = jaxpool.windows(IMAGES, **RANDOM)
    assert np.all(np.any(elements == first[..., None], -1))


@over_libraries
def test_a_fractional_layer_draws_its_windows_or_is_told_them(
    library: str, rng: np.random.Generator
) -> None:
    name, (op, settings) = "FractionalMaxPool", LAYERS["FractionalMaxPool"]
    first, again, other = (drawn(library, seed, name) for seed in (0, 0, 1))
    assert_same(first, again, "the same state")
    assert np.any(first != other)
    samples, where = np.array([0.7, 0.2], np.float32), rng.random(SHAPE) < 0.8
    got = RUN[library](name, settings, IMAGES, where=where, samples=samples)
    assert_same(got, op(None, IMAGES, **settings, where=where, samples=samples), "samples")


def test_a_fractional_layer_says_what_it_lacks() -> None:
    settings = LAYERS["FractionalMaxPool"][1]
    with pytest.raises(ValueError, match="^FractionalMaxPool: `rngs` = None is not a stream"):
        layers("nnx").FractionalMaxPool(**settings)(IMAGES)
    with pytest.raises(ValueError, match="^FractionalMaxPool: neither `key` nor `samples`"):
        layers("equinox").FractionalMaxPool(**settings)(np.moveaxis(IMAGES[0], -1, 0))


@pytest.mark.parametrize("name", RANDOM_LAYERS)
def test_nnx_layers_draw_from_streams_of_the_layer_or_of_the_call(name: str) -> None:
    layer, settings = getattr(layers("nnx"), name), LAYERS[name][1] | {}
    settings.pop("deterministic", None)
    want = layer(**settings, rngs=nnx.Rngs(pooling=7))(IMAGES)
    assert_same(layer(**settings, rngs=nnx.Rngs(pooling=7).pooling)(IMAGES), want, "a stream")
    forked = nnx.Rngs(pooling=7).pooling.fork()
    for rngs in (forked(), nnx.Rngs(pooling=7).pooling.fork()):
        assert_same(layer(**settings)(IMAGES, rngs=rngs), want, "of the call")
    with pytest.raises(TypeError, match=f"^{name}: `rngs` = .* is not a stream of random numbers"):
        layer(**settings, rngs=jax.random.key(0))
    with pytest.raises(ValueError, match=f"^{name}: `rngs` = None is not a stream"):
        layer(**settings)(IMAGES)


@pytest.mark.parametrize("name", ["StochasticPool", "FractionalMaxPool"])
def test_random_layers_without_their_stream_say_what_to_give(name: str) -> None:
    sizes = ((2, 2), 2) if name == "StochasticPool" else ((2, 2), (2, 2))
    x = jnp.ones((1, 4, 4, 1))
    with pytest.raises(
        ValueError, match=r"(?s)a stream `pooling`.*nnx.Rngs\(params=0, pooling=1\)"
    ):
        getattr(layers("nnx"), name)(*sizes, rngs=nnx.Rngs(params=0))
    with pytest.raises(ValueError, match=f"(?s)^{name}: no key .*`pooling`.*to init and apply"):
        getattr(layers("linen"), name)(*sizes).apply({}, x)


@pytest.mark.parametrize("library", ["linen", "nnx"])
def test_settings_after_the_padding_are_given_by_name(library: str) -> None:
    module = layers(library)
    for name in module.__all__:
        parameters = inspect.signature(getattr(module, name)).parameters.values()
        positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        assert set(positional) <= {"window_shape", "strides", "padding", "output_size", "q"}, name
    for layer in (module.MaxPool, module.GlobalAvgPool):
        with pytest.raises(TypeError, match="given by position"):
            layer((2, 2), 2, "SAME", 2)


def test_an_nnx_layer_shows_the_signature_of_the_class_that_is_made() -> None:
    class Subclass(layers("nnx").MaxPool):
        def __init__(self, length: int) -> None:
            super().__init__((length, length), length)

    assert [*inspect.signature(Subclass).parameters] == ["length"]
    assert [*inspect.signature(Subclass(2)).parameters] == ["x", "where"]


def test_a_view_of_an_nnx_model_is_deterministic() -> None:
    """The layer has a random state, like ``nnx.Dropout``."""
    pool = layers("nnx").StochasticPool(**RANDOM, rngs=nnx.Rngs(0))
    model = nnx.Sequential(nnx.Dropout(0.5, rngs=nnx.Rngs(0)), pool)
    view = nnx.view(model, deterministic=True)
    expected = jaxpool.stochastic_pool(None, IMAGES, **RANDOM, deterministic=True)
    assert_same(view(IMAGES), expected, "a view")
    assert pool.deterministic is False and "deterministic" in nnx.view_info(pool)


@pytest.mark.parametrize("name", ["MaxPool", "GeMPool", "QuantilePool", "GlobalAvgPool"])
def test_nnx_tabulates_a_layer_and_leaves_its_class_alone(name: str) -> None:
    layer = getattr(layers("nnx"), name)(**LAYERS[name][1])
    want = layer(IMAGES)
    assert name in nnx.tabulate(layer, IMAGES)
    assert_same(layer(IMAGES), want, name)


@over_libraries
def test_a_subclass_has_settings_of_its_own(library: str) -> None:
    base = layers(library).MaxPool
    plain = library in ("linen", "equinox")  # their metaclasses make subclasses dataclasses
    make = (lambda made: made) if plain else dataclasses.dataclass(eq=False, repr=False)

    @make
    class Scaled(base):  # pyright: ignore
        scale: float = 2.0

        def __call__(self, x: Any) -> Any:
            return super().__call__(x) * self.scale

    window: dict[str, Any] = {"window_shape": (3, 2), "strides": (2, 1)}
    want = 3 * jaxpool.max_pool(IMAGES, **window)
    if library == "haiku":
        run = hk.transform(lambda: Scaled((3, 2, 1), (2, 1, 1), scale=3.0)(IMAGES))
        got = run.apply({}, None)
    elif library == "linen":
        got = Scaled(**window, scale=3.0).apply({}, IMAGES)
    elif library == "nnx":
        got = Scaled(**window, scale=3.0)(IMAGES)
    else:
        first = jax.vmap(Scaled(**window, scale=3.0))(np.moveaxis(IMAGES, -1, 1))
        got = jnp.moveaxis(first, 1, -1)
    assert_same(got, want, library)


def test_haiku_modules_print_their_arguments_and_take_a_name_as_haiku_does() -> None:
    ours = layers("haiku")

    def representations() -> list[str]:
        window = (3, 3, 1), 2, "SAME"
        assert ours.MaxPool(*window, -1, "name").module_name == "name"
        return [repr(ours.AvgPool(*window)), repr(ours.QuantilePool(*window, q=0.3))]

    first, second = hk.transform(representations).apply({}, None)
    assert first == "AvgPool(window_shape=(3, 3, 1), strides=2, padding='SAME')"
    assert second == "QuantilePool(window_shape=(3, 3, 1), strides=2, padding='SAME', q=0.3)"


def test_errors_of_equinox_layers_use_their_names() -> None:
    ours, one = layers("equinox"), np.moveaxis(IMAGES[0], -1, 0)
    with pytest.raises(ValueError, match="^MaxPool: `window_shape` = 9 does not fit"):
        ours.MaxPool((9, 9), 2)(one)
    with pytest.raises(ValueError, match="^StochasticPool: `key` is None.\n.*`inference`"):
        ours.StochasticPool((2, 2), 2)(one)


def test_random_layers_follow_the_modes_of_their_libraries() -> None:
    expected = jaxpool.stochastic_pool(None, IMAGES, **RANDOM, deterministic=True)
    layer = layers("nnx").StochasticPool(**RANDOM, rngs=nnx.Rngs(0))
    assert np.any(layer(IMAGES) != layer(IMAGES)), "every call draws anew"
    layer.eval()
    assert_same(layer(IMAGES), expected, "nnx")
    layer.train()
    run = nnx.jit(lambda layer, x: layer(x))
    assert np.any(run(layer, IMAGES) != run(layer, IMAGES))
    equinox = layers("equinox").StochasticPool(**RANDOM)
    one = np.moveaxis(IMAGES[0], -1, 0)
    with pytest.raises(ValueError, match="`key` is None"):
        equinox(one)
    assert_same(
        jnp.moveaxis(eqx.nn.inference_mode(equinox)(one), 0, -1), expected[0], "equinox", ulps=2
    )


# --- networks -------------------------------------------------------------------------------------

Loss = Callable[[Any], jax.Array]


def linen_network(images: Any, score: Callable[..., Any]) -> tuple[Loss, Loss, Any]:
    class Network(nn.Module):
        pool: Callable[..., Any]

        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = self.pool(nn.tanh(nn.Conv(4, (3, 3))(x)))
            return nn.Dense(10)(x.reshape(x.shape[0], -1))

    ours = Network(layers("linen").MaxPool((3, 3), 2, "SAME"))
    theirs = Network(
        functools.partial(nn.max_pool, window_shape=(3, 3), strides=(2, 2), padding="SAME")
    )
    start = jax.jit(ours.init)(jax.random.key(0), images)

    def loss(network: Any) -> Loss:
        return lambda params: score(network.apply(params, images))

    return loss(ours), loss(theirs), start


def nnx_network(images: Any, score: Callable[..., Any]) -> tuple[Loss, Loss, Any]:
    def network(pool: Callable[..., Any]) -> nnx.Sequential:
        rngs = nnx.Rngs(0)
        return nnx.Sequential(
            nnx.Conv(1, 4, (3, 3), rngs=rngs), nnx.tanh, pool,
            lambda x: x.reshape(x.shape[0], -1), nnx.Linear(64, 10, rngs=rngs),
        )  # fmt: skip

    def loss(pool: Callable[..., Any]) -> tuple[Loss, Any]:
        graph, params = nnx.split(network(pool))
        return lambda params: score(nnx.merge(graph, params)(images)), params

    ours, start = loss(layers("nnx").MaxPool((3, 3), 2, "SAME"))
    theirs, _ = loss(lambda x: nnx.max_pool(x, (3, 3), (2, 2), "SAME"))
    return ours, theirs, start


def haiku_network(images: Any, score: Callable[..., Any]) -> tuple[Loss, Loss, Any]:
    def network(pool: Callable[..., Any]) -> Any:
        def forward(x: Any) -> Any:
            stages = [hk.Conv2D(4, 3), jnp.tanh, pool((3, 3, 1), (2, 2, 1), "SAME")]
            return hk.Sequential([*stages, hk.Flatten(), hk.Linear(10)])(x)

        return hk.without_apply_rng(hk.transform(forward))

    def loss(network: Any) -> Loss:
        return lambda params: score(network.apply(params, images))

    ours, theirs = network(layers("haiku").MaxPool), network(hk.MaxPool)
    return loss(ours), loss(theirs), jax.jit(ours.init)(jax.random.key(0), images)


def equinox_network(images: Any, score: Callable[..., Any]) -> tuple[Loss, Loss, Any]:
    images = jnp.moveaxis(images, -1, 1)
    convolve = eqx.nn.Conv2d(1, 4, 3, padding=1, key=jax.random.key(0))
    linear = eqx.nn.Linear(64, 10, key=jax.random.key(1))
    start, static = eqx.partition((convolve, linear), eqx.is_array)

    def loss(pool: Callable[..., Any]) -> Loss:
        def forward(params: Any, x: Any) -> Any:
            convolve, linear = eqx.combine(params, static)
            return linear(jnp.ravel(pool(jnp.tanh(convolve(x)))))

        return lambda params: score(jax.vmap(forward, (None, 0))(params, images))

    ours = layers("equinox").MaxPool((3, 3), 2, 1)
    return loss(ours), loss(eqx.nn.MaxPool2d(3, 2, 1)), start


NETWORKS = {
    "linen": linen_network, "nnx": nnx_network, "haiku": haiku_network, "equinox": equinox_network
}  # fmt: skip


@over_libraries
def test_a_network_learns_and_has_the_gradient_of_the_librarys_own_pooling(
    library: str, rng: np.random.Generator
) -> None:
    digits = load_digits()[0].take(np.arange(64))
    images = digits.images + rng.normal(size=digits.images.shape, scale=0.01).astype(np.float32)

    def score(logits: jax.Array) -> jax.Array:
        log_p = jax.nn.log_softmax(logits)
        return -jnp.take_along_axis(log_p, digits.labels[:, np.newaxis], axis=1).mean()

    ours, theirs, params = NETWORKS[library](images, score)
    step = jax.jit(jax.value_and_grad(ours), compiler_options=QUICK)
    start, grads = step(params)
    want = jax.jit(jax.grad(theirs), compiler_options=QUICK)(params)
    jax.tree.map(lambda a, b: assert_same(a, b, library, ulps=16), grads, want)
    for _ in range(30):
        _, grads = step(params)
        params = jax.tree.map(lambda p, g: p - 0.3 * g, params, grads)
    assert step(params)[0] < 0.8 * start


# --- Flax Linen -----------------------------------------------------------------------------------

X = np.random.default_rng(0).normal(size=(4, 6, 6, 2)).astype(np.float32)


def test_linen_layers_are_values() -> None:
    for name, (_, settings) in LAYERS.items():
        layer = getattr(layers("linen"), name)(**settings)
        for other in (copy.copy(layer), copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert other == layer and hash(other) == hash(layer)
            assert repr(other) == repr(layer)
    assert layers("linen").MaxPool(2, 2) != layers("linen").MaxPool(2, 1)


def test_linen_checkpoint_of_a_learned_exponent() -> None:
    layer = layers("linen").GeMPool((3, 3), 3)
    start = layer.init(jax.random.key(0), X)
    assert jax.tree.map(jnp.shape, start) == {"params": {"p": ()}}
    learned = jax.tree.map(lambda p: p + 0.5, start)
    data = flax.serialization.to_bytes(learned)
    assert flax.serialization.from_bytes(start, data) == {"params": {"p": 3.5}}
    assert_same(layer.apply(learned, X), jaxpool.gem_pool(X, (3, 3), 3, p=3.5), "GeMPool")


# --- Flax NNX -------------------------------------------------------------------------------------


def test_nnx_layers_survive_copies_and_trees() -> None:
    for name, (_, settings) in LAYERS.items():
        layer = getattr(layers("nnx"), name)(**settings)
        others = [copy.copy(layer), copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))]
        others += [nnx.merge(*nnx.split(layer)), jax.tree.map(lambda leaf: leaf, layer)]
        names = [field.name for field in dataclasses.fields(layer)]
        for other in others:
            assert other is not layer
            for field in names:
                assert np.array_equal(getattr(other, field), getattr(layer, field)), (name, field)
        assert len(jax.tree.leaves(layer)) == len(nnx.state(layer)) == (name == "GeMPool")


def test_nnx_layers_in_a_sequence_that_learns_and_is_saved() -> None:
    ours = layers("nnx")
    autoencoder = nnx.Sequential(
        ours.MaxPoolWithArgmax([2, 2], [2, 2]),  # returns two arrays
        lambda y, indices: ours.MaxUnpool()(y, indices, X.shape[1:3]),
        ours.GeMPool((3, 3), 3),
    )
    grads = nnx.jit(nnx.grad(lambda model: model(X).sum()))(autoencoder)
    (slope,) = jax.tree.leaves(grads)
    assert slope > 0
    _, state = nnx.split(autoencoder)
    learned = jax.tree.map(lambda p: p + 0.5, state)
    data = flax.serialization.to_bytes(nnx.to_pure_dict(learned))
    pure = flax.serialization.from_bytes(nnx.to_pure_dict(state), data)
    nnx.replace_by_pure_dict(state, pure)
    nnx.update(autoencoder, state)
    assert autoencoder.layers[2].p[...] == 3.5


@pytest.mark.parametrize("library", ["nnx", "equinox"])
def test_numbers_of_arrays_are_settings_and_not_traced(library: str) -> None:
    made = functools.partial(layers(library).MaxPool, (2, 2))
    x = X if library == "nnx" else jnp.moveaxis(X[0], -1, 0)
    run = jax.jit(lambda layer, x: layer(x))
    plain = made(2)
    want, tree = plain(x), jax.tree.structure(made((2, 2)))
    for strides in (np.int64(2), np.array(2), jnp.int32(2)):
        assert_same(run(made(strides), x), want, (library, type(strides)))
        assert jax.tree.structure(made(strides)) == jax.tree.structure(plain)
    for strides in (np.array([2, 2]), jnp.array([2, 2]), (np.int32(2), 2)):
        assert_same(run(made(strides), x), want, (library, type(strides)))
        assert jax.tree.structure(made(strides)) == tree


@over_libraries
def test_a_dtype_of_indices_may_be_that_of_an_array(library: str) -> None:
    dtype = np.zeros(1, np.int16).dtype
    settings = {"window_shape": (2, 2), "strides": (2, 2), "index_dtype": dtype}
    _, indices = RUN[library]("MaxPoolWithArgmax", settings, X)
    assert indices.dtype == np.int16


def test_a_temperature_for_each_channel() -> None:
    temperature = jnp.array([0.5, 2.0])
    settings = {"window_shape": (2, 2), "strides": 2, "temperature": temperature}
    want = jaxpool.logsumexp_pool(X, **settings)
    for library in ("linen", "nnx"):
        assert_same(RUN[library]("LogSumExpPool", settings, X), want, library)


# --- Haiku ----------------------------------------------------------------------------------------

# Arguments that Haiku's functions also accept: window, strides, padding, channel axis.
SPELLINGS: dict[str, tuple[Any, ...]] = {
    "the last axes": ((2, 3, 1), (2, 1, 1), "SAME"),
    "every axis": ((1, 2, 3, 1), (1, 2, 1, 1), "VALID"),
    "channels before": ((3, 2), (1, 2), "SAME", 1),
    "all but the batch": ((2, 2, 2), (2, 1, 2), "SAME", None),
    "the batch too": ((2, 2, 2, 1), (2, 1, 2, 1), "VALID"),
    "the channels too": ((2, 2), (1, 2), "SAME"),
    "the channels too, by their index": ((2, 3, 1, 2), (1, 2, 1, 1), "VALID", 1),
    "channels thinned": ((2, 2, 1), (1, 1, 2), "VALID"),
    "channels between": ((2, 1, 2), (1, 1, 1), "SAME", 2),
    "channels between, one stride": ((2, 1, 2), 2, "SAME", 2),
    "ints": (3, 2, "SAME"),
    "ints, channels first": (3, 2, "SAME", 1),
    "ints, channels between": (3, 2, "SAME", 2),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_haiku_functions_take_haikus_arguments(spelling: str) -> None:
    for name in ("max_pool", "avg_pool"):
        got = getattr(layers("haiku"), name)(X, *SPELLINGS[spelling])
        with jax.numpy_dtype_promotion("standard"), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Haiku warns about ints
            want = getattr(hk, name)(X, *SPELLINGS[spelling])
        assert_same(got, want, (name, spelling), ulps=2)


@pytest.mark.parametrize(
    ("op", "settings"),
    [
        ("max_pool", {"strides": 2, "padding": 1, "dilations": 2}),
        ("avg_pool", {"strides": 2, "padding": "SAME"}),
        ("blur_pool", {"strides": 2, "padding": 1}),
        ("max_blur_pool", {"strides": 1, "blur_shape": 3}),
    ],
)
def test_single_settings_leave_channels_between_pooled_axes(
    op: str, settings: dict[str, Any]
) -> None:
    function = getattr(layers("haiku"), op)
    between = function(X, (3, 1, 2), channel_axis=2, **settings)
    last = function(jnp.swapaxes(X, 2, 3), (3, 2, 1), **settings)
    assert_same(jnp.swapaxes(between, 2, 3), last, op, ulps=2)


@pytest.mark.parametrize("window", [2, (2, 1, 2)])
def test_haiku_unpools_with_channels_between_pooled_axes(window: Any) -> None:
    ours, want = layers("haiku"), np.zeros_like(X)
    pair = ours.max_pool_with_argmax(X, window, window, channel_axis=2)
    y = ours.max_pool(np.swapaxes(X, 2, 3), (2, 2, 1), (2, 2, 1))
    assert_same(np.swapaxes(pair[0], 2, 3), y, window)
    want.flat[argmax_positions(X, pair[0])] = np.ravel(pair[0])
    assert_same(ours.max_unpool(*pair, X.shape, channel_axis=2), want, window)
    known = {"window_shape": window, "strides": window}
    assert_same(ours.max_unpool(*pair, X.shape, channel_axis=2, **known), want, window)


def argmax_positions(x: Any, maxima: Any) -> Any:
    """Return the flat positions of maxima in an array without equal elements."""
    return np.argmax(np.ravel(x)[None] == np.ravel(maxima)[:, None], axis=1)


@pytest.mark.parametrize("channel_axis", [-1, 1, 0, None])
def test_haiku_functions_of_all_elements(channel_axis: int | None) -> None:
    kept = {0, (channel_axis or 0) % 4}
    axes = tuple(sorted({*range(4)} - kept))
    got = layers("haiku").global_max_pool(X, channel_axis, keepdims=False)
    assert_same(got, X.max(axes), channel_axis)
    got = layers("haiku").adaptive_max_pool(X, 1, channel_axis)
    assert_same(got, X.max(axes, keepdims=True), channel_axis)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda ours: ours.max_pool(X, 2, (1, 1, 2)), r"`strides` .* has 2 for axis 3"),
        (lambda ours: ours.max_pool(X, 2, 1, (0, 1, (0, 1))), r"has \(0, 1\) for axis 3\."),
        (lambda ours: ours.adaptive_max_pool(X, 2, channel_axis=2), "is between pooled axes"),
        (lambda ours: ours.max_pool(X, (2, 2), 1, channel_axis=4), "= 4 is not an axis"),
        (lambda ours: ours.max_pool(X, (2,) * 5, 1), "max_pool: "),
        (lambda ours: ours.adaptive_avg_pool(X, (2, 2, 2)), r"Give None for that axis"),
        (lambda ours: ours.max_unpool(X, X > 0, (9, 9, 9)), r"Give 2 for that axis"),
        (lambda ours: ours.max_pool(X[0, 0], 2, 1), "no axis of the value is pooled with"),
        (lambda ours: ours.global_avg_pool(X[0, 0]), "no axis of the value is pooled with"),
        (lambda ours: ours.adaptive_max_pool(X[0, 0, 0], 2), "no axis of the value is pooled with"),
        (
            lambda ours: ours.max_pool_with_argmax(X, (2,) * 4, 2, index_space=4),
            "`index_space` = 4 is not an axis of the array",
        ),
        (lambda ours: ours.max_pool(X, 2, (2, 2)), r"Give `strides` = \(2, 2, 1\), with an entry"),
        (
            lambda ours: ours.max_pool(X, 2, 1, ((0, 1), (1, 0))),
            r"last axes; .*\n  Give `padding` = \(\(0, 1\), \(1, 0\), 0\), with an entry",
        ),
        (
            lambda ours: ours.adaptive_avg_pool(X, (3, 2)),
            r"Give `output_size` = \(3, 2, None\), with an entry",
        ),
        (
            lambda ours: ours.max_unpool(X, X > 0, (9, 9)),
            r"Give `output_shape` = \(9, 9, 2\), with an entry",
        ),
    ],
)  # fmt: skip
def test_haiku_words_that_do_not_fit(call: Callable[..., Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        call(layers("haiku"))


@pytest.mark.parametrize("name", ["window_shape", "strides", "dilations", "padding"])
def test_haiku_settings_have_at_most_one_entry_per_axis(name: str) -> None:
    """Also if the entries without an axis would leave it unpooled."""
    words: dict[str, Any] = {"window_shape": (2, 2, 1), "strides": 2}
    words[name] = ((0, 0),) * 5 if name == "padding" else (1, 1, 2, 2, 1)
    with pytest.raises(ValueError, match=f"^max_pool: `{name}` = .* has 5 entries"):
        layers("haiku").max_pool(X, **words)


def test_haiku_functions_of_all_elements_have_any_rank() -> None:
    x = X.reshape(4, 2, 3, 2, 3, 2)
    for channel_axis, axes in ((-1, (1, 2, 3, 4)), (1, (2, 3, 4, 5))):
        got = layers("haiku").global_max_pool(x, channel_axis)
        assert_same(got, x.max(axes, keepdims=True), channel_axis)


def test_haiku_unpools_one_example_with_the_windows_that_pooled_it() -> None:
    """The first axis keeps its length, but is pooled."""
    x, ours = X[0, :3], layers("haiku")
    window: dict[str, Any] = {"window_shape": (3, 2, 1), "strides": (1, 2, 1), "padding": "SAME"}
    pair = ours.max_pool_with_argmax(x, **window)
    got = ours.max_unpool(pair[0], pair[1], x.shape, **window)
    assert_same(got, jaxpool.max_unpool(pair[0], pair[1], x.shape[:2]), "unpool")


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [("channel_axis", "C", "'C'"), ("channel_axis", 1.0, "1.0"), ("window_shape", (2, "a"), "'a'")],
)
def test_haiku_settings_that_are_no_integers_are_named(name: str, value: Any, part: str) -> None:
    words = {"window_shape": (2, 2, 1), "strides": 2, name: value}
    with pytest.raises(TypeError, match=f"^max_pool: `{name}` contains {part}, which is not"):
        layers("haiku").max_pool(X, **words)


def test_haiku_modules_are_named_and_learn_one_parameter() -> None:
    ours = layers("haiku")

    def model(x: Any) -> Any:
        assert ours.MaxPool(2, 2).name == "max_pool"
        assert ours.MaxPool(2, 2, name="stem").module_name == "stem"
        return ours.GeMPool((3, 3, 1), 3)(x)

    run = hk.without_apply_rng(hk.transform(model))
    start = run.init(None, X)
    assert start == {"gem_pool": {"p": 3.0}}
    learned = pickle.loads(pickle.dumps(jax.tree.map(lambda p: p + 0.5, start)))
    want = jaxpool.gem_pool(X, (3, 3), 3, p=3.5)
    assert_same(run.apply(learned, X), want, "batch")
    assert_same(jax.vmap(run.apply, (None, 0))(learned, X), want, "vmap", ulps=2)


@pytest.mark.parametrize("space", ["spatial", 0, 1, -2, np.int64(1)])
def test_haiku_indices_of_windows_over_every_axis(space: Any) -> None:
    """Indices are flat over the pooled axes, or from a given axis on."""
    window = (2, 3, 2, 2)
    got = layers("haiku").max_pool_with_argmax(X, window, window, index_space=space)
    first = {"spatial": 0, 0: 0, 1: 1, -2: 2}[space]
    counted = X.reshape(*X.shape[:first], -1)
    for output in np.ndindex(got[0].shape):
        corner = [o * k for o, k in zip(output, window, strict=True)]
        elements = X[tuple(slice(c, c + k) for c, k in zip(corner, window, strict=True))]
        place = np.unravel_index(elements.argmax(), window)
        at = [c + q for c, q in zip(corner, place, strict=True)]
        assert got[1][output] == np.ravel_multi_index(at[first:], X.shape[first:])
        assert counted[(*at[:first], got[1][output])] == got[0][output]


# --- Equinox --------------------------------------------------------------------------------------


def test_equinox_layers_survive_copies_and_trees() -> None:
    for name, (_, settings) in LAYERS.items():
        own = {"inference" if k == "deterministic" else k: v for k, v in settings.items()}
        layer = getattr(layers("equinox"), name)(**own)
        others = [copy.copy(layer), copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))]
        others += [jax.tree.map(lambda leaf: leaf, layer)]
        others += [eqx.combine(*eqx.partition(layer, eqx.is_array))]
        for other in others:
            assert other is not layer and bool(eqx.tree_equal(other, layer))
        assert len(jax.tree.leaves(layer)) == (name in ("GeMPool", "StochasticPool"))


def test_equinox_layers_in_a_sequence_that_learns_and_is_saved(tmp_path: Any) -> None:
    ours = layers("equinox")
    model = eqx.nn.Sequential([ours.MaxPool([2, 2], [2, 2]), ours.GeMPool((3, 3), 3)])
    x = jnp.moveaxis(X, -1, 1)
    run = eqx.filter_jit(lambda model, x: jax.vmap(lambda x: model(x, key=jax.random.key(0)))(x))
    grads = eqx.filter_grad(lambda model: run(model, x).sum())(model)
    assert grads.layers[1].p > 0
    learned = eqx.apply_updates(model, jax.tree.map(lambda g: jnp.full_like(g, 0.5), grads))
    eqx.tree_serialise_leaves(tmp_path / "model", learned)
    again = eqx.tree_deserialise_leaves(tmp_path / "model", model)
    want = jaxpool.gem_pool(jaxpool.max_pool(X, (2, 2), 2), (3, 3), 3, p=3.5)
    assert_same(jnp.moveaxis(run(again, x), 1, -1), want, "model", ulps=2)


EXAMPLES: dict[str, tuple[Callable[..., Any], type[Exception], str]] = {
    "an int": (lambda ours: ours.MaxPool(2, 2)(X[0]), TypeError, "`window_shape` = 2 does not say"),
    "a plane": (lambda ours: ours.AvgPool((2, 2), 2)(X[0, 0]), ValueError, "an example of shape"),
    "a batch": (lambda ours: ours.MaxPool((2, 2), 2)(X), ValueError, "an example of shape"),
    "a batch of sizes": (lambda ours: ours.AdaptiveMaxPool((2, 2))(X), ValueError, "an example of"),
    "nothing": (lambda ours: ours.MinPool((2,), 2)(X[0, :, :, :0]), ValueError, "is empty"),
    "an int size": (lambda ours: ours.AdaptiveAvgPool(2)(X[0]), TypeError, "`output_size` = 2"),
    "a number": (lambda ours: ours.GlobalAvgPool()(X[0, 0, 0, 0]), ValueError, "an example of"),
    "channels": (lambda ours: ours.GlobalMaxPool()(X[0, 0, 0]), ValueError, "an example of"),
    "an int shape": (
        lambda ours: ours.MaxUnpool()(X[0], X[0] > 0, 4), TypeError, "`output_shape` = 4"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_equinox_errors_advise_what_the_layer_accepts(name: str) -> None:
    call, kind, text = EXAMPLES[name]
    with pytest.raises(kind, match=text) as caught:
        call(layers("equinox"))
    assert "data_format" not in str(caught.value) and "NHWC" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 3


# --- a library that is not installed --------------------------------------------------------------

WITHOUT = """
import sys
import jaxpool.layers
frameworks = {"flax", "haiku", "equinox"}
print(frameworks & set(sys.modules))
for name in frameworks:
    sys.modules[name] = None
for name in ("linen", "nnx", "haiku", "equinox"):
    try:
        __import__(f"jaxpool.layers.{name}")
    except ModuleNotFoundError as error:
        print(error)
"""


def test_a_missing_library_is_named_with_its_extra() -> None:
    loaded, *lines = printed("-c", WITHOUT).splitlines()
    assert loaded == "set()"
    for (module, extra), what, facts, advice in zip(
        LIBRARIES.items(), lines[::3], lines[1::3], lines[2::3], strict=True
    ):
        assert what == f"jaxpool.layers.{module}: {extra} is not installed."
        assert facts.startswith("  These layers are modules of that library")
        assert advice == f'  Run pip install "jaxpool[{extra}]".'


def test_a_broken_library_speaks_for_itself() -> None:
    error = ModuleNotFoundError("No module named 'msgpack'", name="msgpack")
    assert not_installed("linen", "flax", error) is error


@over_libraries
@pytest.mark.parametrize("p", [None, 10**400], ids=["None", "too large"])
def test_an_exponent_that_is_no_number_is_named(library: str, p: Any) -> None:
    settings: dict[str, Any] = {"window_shape": (3, 3), "strides": (3, 3), "p": p}
    with pytest.raises(TypeError, match=f"^GeMPool: `p` is {str(p)[:9]}.*: not an array"):
        if library == "equinox":
            layers(library).GeMPool(**settings)
        RUN[library]("GeMPool", settings, X)


@pytest.mark.parametrize("rank", [3, 4, 5, 6])
def test_global_pools_of_haiku_have_channels_on_any_axis_or_on_none(rank: int) -> None:
    shape = (2, 3, 5, 4, 2, 3)[:rank]
    x = np.random.default_rng(rank).permutation(math.prod(shape)).reshape(shape)
    x, where = x.astype(np.float32), x % 3 > 0
    for channel in (None, *range(1, rank)):
        axes = tuple({*range(1, rank)} - {channel})
        if rank == 6 and channel in range(2, 5):
            with pytest.raises(ValueError, match="`channel_axis` = . is between pooled axes"):
                haiku_layers.global_max_pool(x, channel)
            continue
        for keepdims in (True, False):
            words = {"axis": axes, "keepdims": keepdims}
            got = haiku_layers.global_max_pool(x, channel, keepdims=keepdims)
            np.testing.assert_array_equal(got, x.max(**words))
            got = haiku_layers.global_avg_pool(x, channel, keepdims=keepdims, where=where)
            np.testing.assert_allclose(got, x.mean(where=where, **words), rtol=1e-6)
