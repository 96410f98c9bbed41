"""Networks in Equinox, whose modules accept one image, channels first; ``vmap`` adds the batch."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .common import Program

ModuleFactory = Callable[[jax.Array], eqx.Module]
RELU = eqx.nn.Lambda(jax.nn.relu)


def _program(build: ModuleFactory) -> Program:
    def is_array(leaf: Any) -> bool:
        return isinstance(leaf, jax.ShapeDtypeStruct)

    shapes = eqx.filter_eval_shape(build, jax.random.key(0))
    static = eqx.partition(shapes, is_array)[1]

    def init(key: jax.Array, x: jax.Array) -> tuple[Any, None]:
        del x
        return eqx.partition(build(key), eqx.is_array)[0], None

    def apply(parameters: Any, state: None, x: jax.Array) -> jax.Array:
        del state
        network: Any = eqx.combine(parameters, static)
        return jax.vmap(network)(x.transpose(0, 3, 1, 2)).reshape(len(x), -1)

    return Program(init, apply)


# --- SqueezeNet -----------------------------------------------------------------------------------


class Fire(eqx.Module):
    """A 1x1 convolution to few channels, then 1x1 and 3x3 convolutions to many, concatenated."""

    squeeze: eqx.nn.Conv2d
    one: eqx.nn.Conv2d
    three: eqx.nn.Conv2d

    def __init__(self, channels: int, few: int, many: int, key: jax.Array):
        keys = jax.random.split(key, 3)
        self.squeeze = eqx.nn.Conv2d(channels, few, 1, key=keys[0])
        self.one = eqx.nn.Conv2d(few, many, 1, key=keys[1])
        self.three = eqx.nn.Conv2d(few, many, 3, padding=1, key=keys[2])

    def __call__(self, x: jax.Array, *, key: Any = None) -> jax.Array:
        x = jax.nn.relu(self.squeeze(x))
        return jax.nn.relu(jnp.concatenate([self.one(x), self.three(x)]))


FIRES = (64, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128)
FIRES += (256, 48, 192), (384, 48, 192), (384, 64, 256), (512, 64, 256)
POOLED_FIRES = (1, 3)
"""Indices of the modules that a pool follows."""


def squeezenet(x: jax.Array) -> Program:
    """Return the program of SqueezeNet 1.1, with 10 classes and without dropout.

    Iandola et al., "SqueezeNet", 2016. The pools are 3x3 maxima with strides 2 and ceil rounding,
    and an adaptive average at the end.
    """
    del x

    def build(key: jax.Array) -> eqx.Module:
        first, last, *keys = jax.random.split(key, 2 + len(FIRES))
        layers: list[Any] = [eqx.nn.Conv2d(3, 64, 3, 2, key=first), RELU, _ceil_maximum()]
        for n, (fire, fire_key) in enumerate(zip(FIRES, keys, strict=True)):
            layers += [Fire(*fire, fire_key), *([_ceil_maximum()] if n in POOLED_FIRES else [])]
        layers += [eqx.nn.Conv2d(512, 10, 1, key=last), RELU, eqx.nn.AdaptiveAvgPool2d(1)]
        return eqx.nn.Sequential(layers)

    return _program(build)


def _ceil_maximum() -> eqx.nn.MaxPool2d:
    return eqx.nn.MaxPool2d(3, 2, use_ceil=True)


# --- VGG ------------------------------------------------------------------------------------------

GROUPS = (64,), (128,), (256, 256), (512, 512), (512, 512)
HEAD = 512
"""Width of the head; the published 4,096 has most parameters, and no pool is in the head."""


def vgg(x: jax.Array) -> Program:
    """Return the program of column A: a 2x2 maximum after each group of convolutions.

    Simonyan and Zisserman, 2014.
    """
    features = GROUPS[-1][-1] * (x.shape[1] // 2 ** len(GROUPS)) ** 2

    def build(key: jax.Array) -> eqx.Module:
        keys, channels, layers = iter(jax.random.split(key, 16)), 3, list[Any]()
        for group in GROUPS:
            for width in group:
                layers += [eqx.nn.Conv2d(channels, width, 3, padding=1, key=next(keys)), RELU]
                channels = width
            layers.append(eqx.nn.MaxPool2d(2, 2))
        layers += [eqx.nn.Lambda(jnp.ravel), eqx.nn.Linear(features, HEAD, key=next(keys)), RELU]
        return eqx.nn.Sequential([*layers, eqx.nn.Linear(HEAD, 10, key=next(keys))])

    return _program(build)
