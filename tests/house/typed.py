"""Types of the public names: checked by pyright, not run.

``assert_type`` fails if a type is lost, and a comment that ignores an error fails if there is no
error: see ``reportUnnecessaryTypeIgnoreComment``.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from typing import assert_type

import jax.numpy as jnp
from jax import Array

import jaxpool
from jaxpool import filters
from jaxpool.layers import equinox, haiku, linen, nnx

x = jnp.zeros((2, 8, 8, 3))


def functions() -> None:
    assert_type(jaxpool.max_pool(x, (2, 2), 2), Array)
    assert_type(jaxpool.max_pool_with_argmax(x, (2, 2), 2, index_space=1), tuple[Array, Array])
    assert_type(filters.maximum_filter(x, 3), Array)
    assert_type(filters.maximum_filter(x, 3, mode=["wrap", "nearest"]), Array)
    assert_type(jaxpool.patch("flax"), jaxpool.Patch)
    jaxpool.max_pool()  # pyright: ignore[reportCallIssue]
    jaxpool.max_pool(x, (2, 2), 2, windw=3)  # pyright: ignore[reportCallIssue]
    jaxpool.max_pool(x, "2", 2)  # pyright: ignore[reportArgumentType]
    jaxpool.avg_pool(x, 2, 2, rounding="up")  # pyright: ignore[reportArgumentType]
    jaxpool.blur_pool(x, (3, 3), 2, mode="zeros")  # pyright: ignore[reportArgumentType]
    jaxpool.quantile_pool(x, 0.5, (2, 2), 2, method="low")  # pyright: ignore[reportArgumentType]
    filters.maximum_filter(x, 3, mode="edge")  # pyright: ignore[reportArgumentType]
    filters.maximum_filter(x, 3, foot=1)  # pyright: ignore[reportCallIssue]
    jaxpool.compat.torch.max_pool2d(x, 2, ceil=True)  # pyright: ignore[reportCallIssue]


def names() -> None:
    jaxpool.max_pol  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018
    jaxpool.layers.lnen  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018
    filters.median_filer  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018
    jaxpool.compat.torch.max_pol2d  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018
    nnx.MaxPol  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018
    jaxpool.compat.troch  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018


def layers() -> None:
    assert_type(equinox.MaxPool((2, 2), 2, "SAME", dilations=2), equinox.MaxPool)
    assert_type(linen.MaxPool((2, 2), 2, "SAME", dilations=2), linen.MaxPool)
    assert_type(nnx.MaxPool((2, 2), 2, "SAME", dilations=2), nnx.MaxPool)
    haiku.MaxPool((2, 2), 2, "SAME", -1, "name", dilations=2)
    linen.BlurPool((3, 3), 2, mode="zeros")  # pyright: ignore[reportArgumentType]
    assert_type(equinox.AvgPool((2, 2), 2)(x[0]), Array)
    assert_type(linen.AvgPool((2, 2), 2)(x), Array)
    assert_type(nnx.AvgPool((2, 2), 2)(x), Array)
    assert_type(equinox.MinPoolWithArgmin((2, 2), 2)(x[0]), tuple[Array, Array])
    assert_type(linen.MinPoolWithArgmin((2, 2), 2)(x), tuple[Array, Array])
    assert_type(nnx.MinPoolWithArgmin((2, 2), 2)(x), tuple[Array, Array])
    nnx.GlobalAvgPool(keepdims=False)
    equinox.QuantilePool((2, 2), 2, q=0.3)
    linen.QuantilePool((2, 2), 2, q=0.3)
    nnx.QuantilePool((2, 2), 2, q=0.3)
    equinox.MaxPool()  # pyright: ignore[reportCallIssue]
    linen.MaxPool()  # pyright: ignore[reportCallIssue]
    nnx.MaxPool()  # pyright: ignore[reportCallIssue]
    equinox.MaxPool((2, 2), 2, "SAME", 2)  # pyright: ignore[reportCallIssue]
    nnx.MaxPool((2, 2), 2, "SAME", 2)  # pyright: ignore[reportCallIssue]
    equinox.QuantilePool((2, 2), 2)  # pyright: ignore[reportCallIssue]
    linen.QuantilePool((2, 2), 2)  # pyright: ignore[reportCallIssue]
    nnx.QuantilePool((2, 2), 2)  # pyright: ignore[reportCallIssue]
