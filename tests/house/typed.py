"""Types of the public names: checked by pyright, not run.

``assert_type`` fails if a type is lost, and a comment that ignores an error fails if there is no
error: see ``reportUnnecessaryTypeIgnoreComment``.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from typing import assert_type

import jax.numpy as jnp
import numpy as np
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


def indices_on_request(flag: bool) -> None:
    torch = jaxpool.compat.torch
    assert_type(torch.max_pool2d(x, 2), Array)
    assert_type(torch.max_pool1d(x[0], 2, return_indices=False), Array)
    assert_type(torch.max_pool3d(x, 2, return_indices=True), tuple[Array, Array])
    assert_type(torch.max_pool2d(x, 2, 1, 0, 1, True, True), tuple[Array, Array])
    assert_type(torch.max_pool2d(x, 2, return_indices=flag), Array | tuple[Array, Array])
    assert_type(torch.adaptive_max_pool1d(x[0], None), Array)
    assert_type(torch.adaptive_max_pool2d(x, 3, True), tuple[Array, Array])
    assert_type(torch.adaptive_max_pool3d(x, 3, return_indices=flag), Array | tuple[Array, Array])
    assert_type(torch.fractional_max_pool2d(x, 2, 3, key=x), Array)
    assert_type(torch.fractional_max_pool2d(x, 2, 3, return_indices=True), tuple[Array, Array])
    assert_type(torch.fractional_max_pool3d(x, 2, 3, None, True, x), tuple[Array, Array])


def integers_of_numpy() -> None:
    two, pair = np.int64(2), np.array([2, 3])
    assert_type(jaxpool.max_pool(x, (two, two), two, [(two, 1), (0, 1)], dilations=two), Array)
    assert_type(jaxpool.max_pool(x, pair, [2, two], two), Array)
    assert_type(jaxpool.adaptive_avg_pool(x, (two, None)), Array)
    assert_type(jaxpool.geometry((two, 9), pair, two), jaxpool.Geometry)
    assert_type(jaxpool.Window(pair, two, two), jaxpool.Window)
    assert_type(filters.maximum_filter(x, (two, 2), axes=(1, two), origin=two), Array)
    assert_type(jaxpool.compat.torch.avg_pool2d(x, two, (two, 1)), Array)
    assert_type(jaxpool.compat.torch.adaptive_avg_pool2d(x, (two, None)), Array)
    assert_type(jaxpool.compat.flax.max_pool(x, (two, 2), (two, 1), ((two, 0), (0, 1))), Array)
    assert_type(jaxpool.compat.keras.max_pool(x, two), Array)
    jaxpool.compat.onnx.max_pool(x, (two, 2), pads=(two, 0, 0, 1))
    jaxpool.compat.openvino.max_pool_v1(x, (two, 2), (0, two), (0, 0), (3, two))
    jaxpool.compat.onednn.forward_inference(x, "max", (two, 2), (two, 1), two, padding_l=(two, 0))
    jaxpool.compat.tensorflow.max_pool(x, two, (two, 2), [[0, 0], [two, 0], [0, 1], [0, 0]])
    jaxpool.compat.equinox.MaxPool2d(two, (two, 1), ((two, 0), (0, 1)))
    linen.MaxPool((two, two), two)
    nnx.AdaptiveAvgPool((two, None))
    jaxpool.max_pool(x, (2.0, 2.0), 2)  # pyright: ignore[reportArgumentType]
    jaxpool.max_pool(x, (2, 2), np.float32(2))  # pyright: ignore[reportArgumentType]


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
