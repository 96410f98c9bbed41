"""Networks as users of each library write them, with that library's own pools.

No word of jaxpool is in them. Each maker takes a key and a batch of images, channels last, and
returns a function of parameters and images, and the parameters.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
from flax import linen as nn
from flax import nnx

Apply = Callable[[Any, jax.Array], jax.Array]


class Network(NamedTuple):
    """A network, the library that it is written in, and the images that it is measured with."""

    name: str
    library: str
    make: Callable[[jax.Array, jax.Array], tuple[Apply, Any]]
    batch: int
    pixels: int

    def images(self) -> jax.Array:
        """Images of noise, no two numbers of which are likely to be equal."""
        return jax.random.normal(jax.random.key(0), (self.batch, self.pixels, self.pixels, 3))


# --- Haiku ----------------------------------------------------------------------------------------


def _of_haiku(network: Callable[[jax.Array], Any], key: jax.Array, x: jax.Array) -> Any:
    pure = hk.without_apply_rng(hk.transform_with_state(network))
    parameters, state = jax.jit(pure.init)(key, x)
    return lambda p, x: pure.apply(p, state, x)[0], parameters


def haiku_resnet(key: jax.Array, x: jax.Array) -> tuple[Apply, Any]:
    """Haiku's own network, one block to a group: its stem pools by 3x3, strides 2."""

    def network(x: jax.Array) -> jax.Array:
        head = {"w_init": hk.initializers.VarianceScaling()}  # by default all zeros
        widths = (64, 128, 256, 512)
        net = hk.nets.ResNet((1, 1, 1, 1), 10, channels_per_group=widths, logits_config=head)
        return net(x, is_training=True)

    return _of_haiku(network, key, x)


def haiku_inception(key: jax.Array, x: jax.Array) -> tuple[Apply, Any]:
    """Two blocks of four branches, one of them a maximum of 3x3 at strides 1, as in GoogLeNet."""

    def conv(x: jax.Array, channels: int, size: int) -> jax.Array:
        return jax.nn.relu(hk.Conv2D(channels, size)(x))

    def block(x: jax.Array, n: int) -> jax.Array:
        pooled = hk.max_pool(x, (3, 3, 1), (1, 1, 1), "SAME")
        branches = [conv(x, n, 1), conv(conv(x, n, 1), n, 3), conv(conv(x, n // 2, 1), n, 5)]
        return jnp.concatenate([*branches, conv(pooled, n, 1)], -1)

    def network(x: jax.Array) -> jax.Array:
        x = hk.MaxPool((3, 3, 1), (2, 2, 1), "SAME")(conv(x, 32, 5))
        x = hk.max_pool(block(block(x, 16), 24), (3, 3, 1), (2, 2, 1), "SAME")
        x = hk.avg_pool(block(x, 32), (4, 4, 1), (4, 4, 1), "SAME")
        return hk.Linear(10)(hk.Flatten()(x))

    return _of_haiku(network, key, x)


# --- Equinox --------------------------------------------------------------------------------------


class Fire(eqx.Module):
    """SqueezeNet's module: 1x1 to few channels, then 1x1 and 3x3 side by side."""

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


def equinox_squeezenet(key: jax.Array, x: jax.Array) -> tuple[Apply, Any]:
    """SqueezeNet 1.1: maxima of 3x3 at strides 2 with ceil, and an adaptive average at the end."""
    keys = jax.random.split(key, 6)
    pool = lambda: eqx.nn.MaxPool2d(3, 2, use_ceil=True)  # noqa: E731
    layers = [eqx.nn.Conv2d(3, 32, 3, 2, key=keys[0]), eqx.nn.Lambda(jax.nn.relu), pool()]
    layers += [Fire(32, 8, 32, keys[1]), Fire(64, 8, 32, keys[2]), pool()]
    layers += [Fire(64, 16, 64, keys[3]), Fire(128, 16, 64, keys[4]), pool()]
    layers += [eqx.nn.Conv2d(128, 10, 1, key=keys[5]), eqx.nn.AdaptiveAvgPool2d(1)]
    arrays, rest = eqx.partition(eqx.nn.Sequential(layers), eqx.is_array)

    def apply(parameters: Any, x: jax.Array) -> jax.Array:
        network = eqx.combine(parameters, rest)
        return jax.vmap(network)(x.transpose(0, 3, 1, 2))[..., 0, 0]

    return apply, arrays


# --- Flax -----------------------------------------------------------------------------------------


def _of_linen(network: nn.Module) -> Callable[[jax.Array, jax.Array], tuple[Apply, Any]]:
    apply: Any = network.apply
    return lambda key, x: (apply, jax.jit(network.init)(key, x))


class Residual(nn.Module):
    channels: int
    strides: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        y = nn.Conv(self.channels, (3, 3), self.strides, use_bias=False)(x)
        y = nn.Conv(self.channels, (3, 3), use_bias=False)(nn.relu(nn.GroupNorm(8)(y)))
        x = x if x.shape == y.shape else nn.Conv(self.channels, (1, 1), self.strides)(x)
        return nn.relu(x + nn.GroupNorm(8)(y))


class ResNet(nn.Module):
    """The stem of every ResNet, and two groups of blocks."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.relu(nn.GroupNorm(8)(nn.Conv(64, (7, 7), 2, use_bias=False)(x)))
        x = nn.max_pool(x, (3, 3), strides=(2, 2), padding="SAME")
        x = Residual(128, 2)(Residual(64, 1)(x))
        return nn.Dense(10)(nn.avg_pool(x, x.shape[1:3])[:, 0, 0])


class UNet(nn.Module):
    """Two levels down by maxima of 2x2, two up by resizing, with skips."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        skips = []
        for channels in (16, 32):
            skips.append(nn.relu(nn.Conv(channels, (3, 3))(x)))
            x = nn.max_pool(skips[-1], (2, 2), strides=(2, 2))
        x = nn.relu(nn.Conv(64, (3, 3))(x))
        for skip in reversed(skips):
            x = jax.image.resize(x, (*skip.shape[:3], x.shape[-1]), "nearest")
            x = nn.relu(nn.Conv(skip.shape[-1], (3, 3))(jnp.concatenate([x, skip], -1)))
        return nn.Conv(4, (1, 1))(x)


class SegNet(nn.Module):
    """Unpooling to the places of the maxima: the transpose of the pool, which is its gradient."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        places = []
        for channels in (16, 32):
            x = nn.relu(nn.Conv(channels, (3, 3))(x) + 1.0)
            x, unpool = jax.vjp(lambda x: nn.max_pool(x, (2, 2), strides=(2, 2)), x)
            places.append(unpool)
        for channels, unpool in ((16, places[1]), (4, places[0])):
            (x,) = unpool(x)
            x = nn.Conv(channels, (3, 3))(x)
        return x


class PoolFormer(nn.Module):
    """Averages of 3x3 over real elements mix the tokens, as attention would."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Conv(64, (7, 7), 4)(x)
        for _ in range(3):
            y = nn.GroupNorm(1)(x)
            x = x + nn.avg_pool(y, (3, 3), (1, 1), "SAME", count_include_pad=False) - y
            y = nn.Dense(128)(nn.GroupNorm(1)(x))
            x = x + nn.Dense(64)(nn.gelu(y))
        return nn.Dense(10)(x.mean((1, 2)))


def nnx_vgg(key: jax.Array, x: jax.Array) -> tuple[Apply, Any]:
    """VGG: convolutions of 3x3, and a maximum of 2x2 after each group."""

    class VGG(nnx.Module):
        def __init__(self, rngs: nnx.Rngs):
            widths = 3, 32, 64, 128
            pairs = zip(widths, widths[1:], strict=False)
            self.groups = nnx.List([nnx.Conv(a, b, (3, 3), rngs=rngs) for a, b in pairs])
            self.head = nnx.Linear(128 * (x.shape[1] // 8) ** 2, 10, rngs=rngs)

        def __call__(self, x: jax.Array) -> jax.Array:
            for conv in self.groups:
                x = nnx.max_pool(nnx.relu(conv(x)), (2, 2), strides=(2, 2))
            return self.head(x.reshape(x.shape[0], -1))

    graph, parameters = nnx.split(VGG(nnx.Rngs(params=key)))
    return lambda p, x: nnx.merge(graph, p)(x), parameters


NETWORKS: tuple[Network, ...] = (
    Network("ResNet of haiku.nets", "haiku", haiku_resnet, 4, 64),
    Network("Inception blocks", "haiku", haiku_inception, 4, 64),
    Network("SqueezeNet", "equinox", equinox_squeezenet, 8, 95),
    Network("ResNet stem", "flax", _of_linen(ResNet()), 4, 96),
    Network("VGG", "flax", nnx_vgg, 4, 64),
    Network("U-Net", "flax", _of_linen(UNet()), 2, 96),
    Network("SegNet", "flax", _of_linen(SegNet()), 2, 96),
    Network("PoolFormer", "flax", _of_linen(PoolFormer()), 4, 96),
)
