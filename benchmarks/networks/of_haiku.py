"""Networks in Haiku."""

from collections.abc import Callable, Sequence
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp

from .common import Program


def _program(network: Callable[[jax.Array], Any]) -> Program:
    pure = hk.without_apply_rng(hk.transform_with_state(network))
    return Program(pure.init, lambda parameters, state, x: pure.apply(parameters, state, x)[0])


def resnet(x: jax.Array) -> Program:
    """Return the program of Haiku's ResNet-50."""
    del x
    head = {"w_init": hk.initializers.VarianceScaling()}  # the default is zeros
    return _program(lambda x: hk.nets.ResNet50(10, logits_config=head)(x, is_training=True))


# --- Inception v3 ---------------------------------------------------------------------------------


def inception(x: jax.Array) -> Program:
    """Return the program of Inception v3.

    Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", 2015. Widths are
    those of TensorFlow's ``slim``, without the auxiliary head. The 3x3 averages at stride 1 leave
    padding out of the divisor, as Haiku's averages do.
    """
    del x
    return _program(_inception)


def _conv(x: jax.Array, channels: int, size: Any = 1, stride: int = 1, pad: str = "SAME") -> Any:
    x = hk.Conv2D(channels, size, stride, padding=pad, with_bias=False)(x)
    return jax.nn.relu(hk.BatchNorm(True, True, 0.9)(x, is_training=True))


def _chain(x: jax.Array, *convs: Sequence[Any]) -> jax.Array:
    for conv in convs:
        x = _conv(x, *conv)
    return x


def _average(x: jax.Array) -> jax.Array:
    return hk.avg_pool(x, (3, 3, 1), (1, 1, 1), "SAME")


def _maximum(x: jax.Array) -> jax.Array:
    return hk.max_pool(x, (3, 3, 1), (2, 2, 1), "VALID")


def _concatenated(*branches: jax.Array) -> jax.Array:
    return jnp.concatenate(branches, -1)


def _block_a(x: jax.Array, pooled: int) -> jax.Array:
    five = _chain(x, (48,), (64, 5))
    three = _chain(x, (64,), (96, 3), (96, 3))
    return _concatenated(_conv(x, 64), five, three, _conv(_average(x), pooled))


def _block_c(x: jax.Array, n: int) -> jax.Array:
    single = _chain(x, (n,), (n, (1, 7)), (192, (7, 1)))
    double = _chain(x, (n,), (n, (7, 1)), (n, (1, 7)), (n, (7, 1)), (192, (1, 7)))
    return _concatenated(_conv(x, 192), single, double, _conv(_average(x), 192))


def _block_e(x: jax.Array) -> jax.Array:
    single, double = _conv(x, 384), _chain(x, (448,), (384, 3))
    crosses = [_conv(y, 384, size) for y in (single, double) for size in ((1, 3), (3, 1))]
    return _concatenated(_conv(x, 320), *crosses, _conv(_average(x), 192))


def _inception(x: jax.Array) -> jax.Array:
    x = _maximum(_chain(x, (32, 3, 2, "VALID"), (32, 3, 1, "VALID"), (64, 3)))
    x = _maximum(_chain(x, (80, 1, 1, "VALID"), (192, 3, 1, "VALID")))
    for pooled in (32, 64, 64):
        x = _block_a(x, pooled)
    three = _chain(x, (64,), (96, 3), (96, 3, 2, "VALID"))
    x = _concatenated(_conv(x, 384, 3, 2, "VALID"), three, _maximum(x))
    for n in (128, 160, 160, 192):
        x = _block_c(x, n)
    three = _chain(x, (192,), (320, 3, 2, "VALID"))
    seven = _chain(x, (192,), (192, (1, 7)), (192, (7, 1)), (192, 3, 2, "VALID"))
    x = _concatenated(three, seven, _maximum(x))
    x = _block_e(_block_e(x))
    x = hk.avg_pool(x, (*x.shape[1:3], 1), (1, 1, 1), "VALID")
    return hk.Linear(10)(hk.Flatten()(x))
