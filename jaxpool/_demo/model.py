"""A small convolutional network for 8x8 digits in plain JAX: data, layers, training."""

import math
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import jaxpool

BATCH = 64
EPOCHS = 30
HOLD_OUT_EVERY = 5
PEAK_RATE = 3e-3
SEED = 0

Params = dict[str, tuple[jax.Array, jax.Array]]


class Pooling(NamedTuple):
    """One pooling layer of the network."""

    name: str
    kind: str
    window: tuple[int, int]
    stride: int
    padding: int


FIRST = Pooling("pool1", "max", (3, 3), 2, 1)
SECOND = Pooling("pool2", "max", (2, 2), 1, 0)
HEAD = Pooling("head", "avg", (2, 2), 1, 0)
POOLINGS = (FIRST, SECOND, HEAD)

PoolFunction = Callable[[Pooling, jax.Array], jax.Array]


class Digits(NamedTuple):
    """Images as float32 (count, 8, 8, 1) in [0, 1], labels as int32 (count,)."""

    images: np.ndarray
    labels: np.ndarray

    @property
    def count(self) -> int:
        return self.labels.size

    def take(self, rows: np.ndarray) -> "Digits":
        return Digits(self.images[rows], self.labels[rows])


def load_digits() -> tuple[Digits, Digits]:
    """Return the digits to train on, and the held-out digits, every fifth one of the file."""
    with (files("jaxpool") / "_demo" / "digits.npz").open("rb") as file, np.load(file) as data:
        images = data["images"][..., np.newaxis].astype(np.float32) / 16
        digits = Digits(images, data["labels"].astype(np.int32))
    held_out = np.arange(digits.count) % HOLD_OUT_EVERY == 0
    return digits.take(~held_out), digits.take(held_out)


def jaxpool_layer(layer: Pooling, x: jax.Array) -> jax.Array:
    """Run a pooling layer by jaxpool."""
    pool = jaxpool.max_pool if layer.kind == "max" else jaxpool.avg_pool
    return pool(x, layer.window, layer.stride, layer.padding)


def reduce_window_layer(layer: Pooling, x: jax.Array) -> jax.Array:
    """Run the same layer by JAX's windowed reduction, which other libraries call."""
    window = (1, *layer.window, 1)
    strides = (1, layer.stride, layer.stride, 1)
    pad = (layer.padding, layer.padding)
    padding = ((0, 0), pad, pad, (0, 0))
    if layer.kind == "max":
        return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, padding)
    return lax.reduce_window(x, 0.0, lax.add, window, strides, padding) / math.prod(window)


def init(key: jax.Array) -> Params:
    """Return He-normal weights and zero biases of two convolutions and the output layer."""
    shapes = {"conv1": (3, 3, 1, 32), "conv2": (3, 3, 32, 64), "dense": (2 * 2 * 64, 10)}
    keys = jax.random.split(key, len(shapes))
    return {
        name: (
            jax.random.normal(k, shape) * (2 / math.prod(shape[:-1])) ** 0.5,
            jnp.zeros(shape[-1]),
        )
        for k, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def stages(params: Params, pool: PoolFunction, images: jax.Array) -> Iterator[jax.Array]:
    """Yield the input of each pooling layer in order, then the class scores."""
    x = _convolve(params["conv1"], images)
    yield x
    x = _convolve(params["conv2"], pool(FIRST, x))
    yield x
    x = pool(SECOND, x)
    yield x
    x = pool(HEAD, x)
    weights, bias = params["dense"]
    yield x.reshape(x.shape[0], -1) @ weights + bias


def scores(params: Params, pool: PoolFunction, images: jax.Array) -> jax.Array:
    """Return the class scores, shape (count, 10)."""
    *_, last = stages(params, pool, images)
    return last


def loss(params: Params, pool: PoolFunction, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the mean cross-entropy."""
    log_p = jax.nn.log_softmax(scores(params, pool, images))
    return -jnp.take_along_axis(log_p, labels[:, np.newaxis], axis=1).mean()


def accuracy(params: Params, digits: Digits) -> float:
    """Return the fraction of the digits whose highest score is the correct class."""
    correct = _jit_scores(params, digits.images).argmax(-1) == digits.labels
    return float(correct.mean())


def train(digits: Digits, report: Callable[[int, float, Params], None]) -> Params:
    """Train by Adam with a cosine schedule; call ``report(epoch, loss, params)`` each epoch."""
    shuffle = np.random.default_rng(SEED)
    params = init(jax.random.key(SEED))
    state = (params, jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))
    batches = digits.count // BATCH
    for epoch in range(EPOCHS):
        order = shuffle.permutation(digits.count)[: batches * BATCH].reshape(batches, BATCH)
        losses = []
        for number, rows in enumerate(order, start=epoch * batches + 1):
            state, value = _step(state, number, EPOCHS * batches, *digits.take(rows))
            losses.append(value)
        report(epoch + 1, float(np.mean(losses)), state[0])
    return state[0]


@jax.jit
def _jit_scores(params: Params, images: jax.Array) -> jax.Array:
    return scores(params, jaxpool_layer, images)


@jax.jit
def _step(state: Any, number: int, total: int, images: jax.Array, labels: jax.Array) -> Any:
    """Run one step of Adam (Kingma & Ba 2015) with the usual decay rates."""
    params, mean, square = state
    value, grads = jax.value_and_grad(loss)(params, jaxpool_layer, images, labels)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, grads)
    rate = PEAK_RATE * 0.5 * (1 + jnp.cos(jnp.pi * number / total))
    bias1, bias2 = 1 - 0.9**number, 1 - 0.999**number

    def update(p: jax.Array, m: jax.Array, s: jax.Array) -> jax.Array:
        return p - rate * (m / bias1) / (jnp.sqrt(s / bias2) + 1e-8)

    return (jax.tree.map(update, params, mean, square), mean, square), value


def _convolve(layer: tuple[jax.Array, jax.Array], x: jax.Array) -> jax.Array:
    weights, bias = layer
    numbers = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(x, weights, (1, 1), "SAME", dimension_numbers=numbers)
    return jax.nn.relu(y + bias)
