"""``jaxpool.patch("keras")``: Keras on its JAX backend pools in jaxpool, and is restored."""

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import peers
import pytest
from fresh import printed
from helpers import QUICK, permutation

import jaxpool
from jaxpool._patch import route

NAMES = ("max_pool", "average_pool", "adaptive_max_pool", "adaptive_average_pool")
ONES = np.ones((1, 32, 32, 1), jnp.bfloat16)
IMAGES = permutation((2, 9, 7, 3), "float32", np.random.default_rng(0)) / 10


@pytest.fixture
def keras() -> Iterator[Any]:
    os.environ["KERAS_BACKEND"] = "jax"
    found = peers.require("keras")
    jaxpool.unpatch()
    layout = found.config.image_data_format()
    with jax.numpy_dtype_promotion("standard"):
        yield found
    found.config.set_image_data_format(layout)
    jaxpool.unpatch()


def test_keras_is_replaced_and_restored(keras: Any) -> None:
    average = lambda: float(keras.ops.average_pool(jnp.asarray(ONES), 32, 32).ravel()[0])  # noqa: E731
    codes = [getattr(keras.ops, name).__code__ for name in NAMES]
    assert average() == 0.25
    for _ in range(2):
        made = jaxpool.patch("keras")
        assert made.replaced == tuple(f"keras.ops.{name}" for name in NAMES)
        assert average() == 1.0
    assert jaxpool.unpatch() == ("keras",)
    assert average() == 0.25
    assert [getattr(keras.ops, name).__code__ for name in NAMES] == codes
    with jaxpool.patch("keras"):
        assert average() == 1.0
    assert average() == 0.25
    assert set(made.replaced) == {name for name in route._REPLACEMENTS if name.startswith("keras")}


def test_keras_must_be_named(keras: Any) -> None:
    assert "keras" not in jaxpool.patch().libraries


CALLS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "max_pool": lambda keras: lambda x: keras.ops.max_pool(x, (3, 2), (2, 1), "SAME"),
    "average_pool": lambda keras: lambda x: keras.ops.average_pool(x, 3, 2, padding="same"),
    "channels first": lambda keras: (
        lambda x: keras.ops.max_pool(x, 2, 2, data_format="channels_first")
    ),
    "MaxPooling2D": lambda keras: keras.layers.MaxPooling2D((3, 2)),
    "AveragePooling2D": lambda keras: keras.layers.AveragePooling2D(3, 1, "same"),
    "AveragePooling2D, first": lambda keras: keras.layers.AveragePooling2D(
        2, data_format="channels_first"
    ),
    "AdaptiveMaxPooling2D": lambda keras: keras.layers.AdaptiveMaxPooling2D((4, 3)),
    "AdaptiveAveragePooling2D": lambda keras: keras.layers.AdaptiveAveragePooling2D((4, 3)),
}


@pytest.mark.grid(3)
@pytest.mark.parametrize("name", CALLS)
def test_results_stay_and_are_jaxpools(name: str, keras: Any) -> None:
    call = CALLS[name](keras)
    x = jnp.asarray(IMAGES)
    program = lambda: str(jax.make_jaxpr(lambda x: call(x))(x))  # noqa: E731
    before, text = call(x), program()
    with jaxpool.patch("keras"):
        after, patched = call(x), program()
    assert (after.shape, after.dtype) == (before.shape, before.dtype)
    np.testing.assert_allclose(after, before, rtol=2e-6, atol=1e-6)
    op = re.compile(r"name=(adaptive_)?" + ("avg_pool" if "verage" in name else "max_pool"))
    assert op.search(patched) and not op.search(text)


def test_the_layout_of_the_configuration_is_read(keras: Any) -> None:
    keras.config.set_image_data_format("channels_first")
    before = keras.ops.max_pool(jnp.asarray(IMAGES), 2, 2)
    with jaxpool.patch("keras"):
        after = keras.ops.max_pool(jnp.asarray(IMAGES), 2, 2)
    assert after.shape == (2, 9, 3, 1)
    np.testing.assert_array_equal(after, before)


def test_a_model_has_the_same_outputs_and_gradients(keras: Any) -> None:
    """Built before the block, or inside it from symbolic tensors, which Keras pools."""

    def build() -> Any:
        keras.utils.set_random_seed(0)
        inputs = keras.Input((9, 7, 3))
        x = keras.layers.Conv2D(4, 3, padding="same", activation="relu")(inputs)
        x = keras.layers.MaxPooling2D(3, 2, "same")(x)
        x = keras.layers.AveragePooling2D(2)(keras.layers.Conv2D(5, 1)(x))
        return keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Flatten()(x)))

    def step(model: Any) -> Any:
        weights = [variable.value for variable in model.trainable_variables]

        def loss(weights: Any) -> Any:
            y, _ = model.stateless_call(weights, [], jnp.asarray(IMAGES))
            return (y**2).sum(), y

        run = jax.jit(jax.value_and_grad(loss, has_aux=True), compiler_options=QUICK)
        (_, y), slopes = run(weights)
        return [y, *slopes]

    model = build()
    expected = step(model)
    with jaxpool.patch("keras"):
        found = [step(model), step(build())]
    for result in found:
        for mine, other in zip(result, expected, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4)


def test_errors_are_those_of_the_library(keras: Any) -> None:
    call = lambda: keras.ops.max_pool(jnp.asarray(IMAGES), 2, 2, padding="full")  # noqa: E731
    with pytest.raises(ValueError) as before:
        call()
    with jaxpool.patch("keras"), pytest.raises(ValueError) as after:
        call()
    assert str(after.value) == str(before.value)


def test_another_backend_is_refused(keras: Any) -> None:
    program = """
import os
os.environ["KERAS_BACKEND"] = "numpy"
import jaxpool, keras
before = keras.ops.max_pool.__code__
try:
    jaxpool.patch("keras")
except NotImplementedError as error:
    print(error)
print(keras.ops.max_pool.__code__ is before)
"""
    lines = printed("-c", program).splitlines()
    assert lines[0] == "patch: Keras runs on the backend 'numpy'." and lines[-1] == "True"
