"""Networks in Flax: several in Linen, one in NNX."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import nnx

from .common import Program


def of_linen(network: nn.Module) -> Callable[[jax.Array], Program]:
    """Return a function that makes the program of a Linen module; its state has the batch norms."""

    def init(key: jax.Array, x: jax.Array) -> tuple[Any, Any]:
        variables = dict(network.init(key, x))
        return variables.pop("params"), variables

    def apply(parameters: Any, state: Any, x: jax.Array) -> jax.Array:
        result: Any = network.apply({"params": parameters, **state}, x, mutable=list(state))
        return result[0]

    return lambda x: Program(init, apply)


class Normed(nn.Module):
    """A 3x3 convolution, batch norm, and a ReLU."""

    channels: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Conv(self.channels, (3, 3), use_bias=False)(x)
        return nn.relu(nn.BatchNorm(use_running_average=False)(x))


# --- ResNet ---------------------------------------------------------------------------------------


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions, with a projection if the shape changes."""

    width: int
    strides: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        conv = partial(nn.Conv, use_bias=False)
        norm = partial(nn.BatchNorm, use_running_average=False)
        y = nn.relu(norm()(conv(self.width, (1, 1))(x)))
        y = nn.relu(norm()(conv(self.width, (3, 3), self.strides)(y)))
        y = norm()(conv(4 * self.width, (1, 1))(y))
        if x.shape != y.shape:
            x = norm()(conv(4 * self.width, (1, 1), self.strides)(x))
        return nn.relu(x + y)


class ResNet50(nn.Module):
    """The network of ``examples/imagenet`` in Flax's repository."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Conv(64, (7, 7), 2, padding=[(3, 3), (3, 3)], use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=False)(x))
        x = nn.max_pool(x, (3, 3), strides=(2, 2), padding="SAME")
        for group, blocks in enumerate((3, 4, 6, 3)):
            for block in range(blocks):
                strides = 2 if group and not block else 1
                x = Bottleneck(64 * 2**group, strides)(x)
        return nn.Dense(10)(jnp.mean(x, axis=(1, 2)))


# --- networks that downsample and upsample --------------------------------------------------------


class UNet(nn.Module):
    """Ronneberger et al., 2015: four 2x2 maxima, four skip connections; a quarter of the widths."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        skips = []
        for channels in (16, 32, 64, 128):
            skips.append(self._twice(x, channels))
            x = nn.max_pool(skips[-1], (2, 2), strides=(2, 2))
        x = self._twice(x, 256)
        for skip in reversed(skips):
            x = nn.ConvTranspose(skip.shape[-1], (2, 2), (2, 2))(x)
            x = self._twice(jnp.concatenate([skip, x], -1), skip.shape[-1])
        return nn.Conv(4, (1, 1))(x)

    def _twice(self, x: jax.Array, channels: int) -> jax.Array:
        for _ in range(2):
            x = nn.relu(nn.Conv(channels, (3, 3))(x))
        return x


class SegNet(nn.Module):
    """Badrinarayanan et al., 2015: unpools to the positions of the maxima; a quarter of the widths.

    Flax has no unpooling, so the transpose of the pool, which is its gradient, replaces it.
    """

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        groups, unpools = ((16, 2), (32, 2), (64, 3), (128, 3), (128, 3)), []
        for channels, convs in groups:
            for _ in range(convs):
                x = Normed(channels)(x)
            x, unpool = jax.vjp(lambda x: nn.max_pool(x, (2, 2), strides=(2, 2)), x)
            unpools.append(unpool)
        for level in reversed(range(len(groups))):
            channels, convs = groups[level]
            (x,) = unpools[level](x)
            for _ in range(convs - 1):
                x = Normed(channels)(x)
            x = Normed(groups[level - 1][0])(x) if level else nn.Conv(4, (3, 3))(x)
        return x


# --- PoolFormer -----------------------------------------------------------------------------------


class LayerScale(nn.Module):
    """A learned factor for each channel, initially small."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return x * self.param("scale", nn.initializers.constant(1e-5), x.shape[-1:])


class PoolFormer(nn.Module):
    """Yu et al., "MetaFormer Is Actually What You Need for Vision", 2022, model S12.

    3x3 averages, which leave padding out of the divisor, mix the tokens in place of attention.
    """

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for stage, (width, blocks) in enumerate(((64, 2), (128, 2), (320, 6), (512, 2))):
            size, stride, pad = (3, 2, 1) if stage else (7, 4, 2)
            x = nn.Conv(width, (size, size), stride, padding=pad)(x)
            for _ in range(blocks):
                y = nn.GroupNorm(1)(x)
                mixed = nn.avg_pool(y, (3, 3), (1, 1), "SAME", count_include_pad=False) - y
                x = x + LayerScale()(mixed)
                y = nn.Dense(width)(nn.gelu(nn.Dense(4 * width)(nn.GroupNorm(1)(x))))
                x = x + LayerScale()(y)
        return nn.Dense(10)(nn.LayerNorm()(x.mean((1, 2))))


# --- NNX ------------------------------------------------------------------------------------------


class SmallCNN(nnx.Module):
    """Three 3x3 convolutions, each followed by a 2x2 maximum, and a linear head."""

    def __init__(self, pixels: int, rngs: nnx.Rngs):
        widths = 3, 32, 64, 128
        pairs = zip(widths, widths[1:], strict=False)
        self.convs = nnx.List([nnx.Conv(a, b, (3, 3), rngs=rngs) for a, b in pairs])
        self.head = nnx.Linear(widths[-1] * (pixels // 8) ** 2, 10, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        for conv in self.convs:
            x = nnx.max_pool(nnx.relu(conv(x)), (2, 2), strides=(2, 2))
        return self.head(x.reshape(x.shape[0], -1))


def small_cnn(x: jax.Array) -> Program:
    """Return the program of ``SmallCNN``, a network as in a first tutorial."""

    def build(key: jax.Array) -> SmallCNN:
        return SmallCNN(x.shape[1], nnx.Rngs(params=key))

    graph, _ = nnx.split(nnx.eval_shape(lambda: build(jax.random.key(0))))

    def init(key: jax.Array, x: jax.Array) -> tuple[Any, None]:
        del x
        return nnx.split(build(key))[1], None

    def apply(parameters: Any, state: None, x: jax.Array) -> jax.Array:
        del state
        return nnx.merge(graph, parameters)(x)

    return Program(init, apply)
