"""Layers of an OpenVINO model: an operation, its version and its attributes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jax import Array

from ..._errors import public
from .arguments import NEW_ROUNDINGS, OLD_ROUNDINGS, Windows, windows_over
from .pools import (
    adaptive_avg_pool_v8,
    adaptive_max_pool_v8,
    avg_pool_v1,
    avg_pool_v14,
    avg_pool_v16,
    max_pool_v1,
    max_pool_v8,
    max_pool_v14,
)

LAYERS: dict[str, dict[int, Any]] = {
    "MaxPool": {1: max_pool_v1, 8: max_pool_v8, 14: max_pool_v14},
    "AvgPool": {1: avg_pool_v1, 14: avg_pool_v14, 16: avg_pool_v16},
    "AdaptiveAvgPool": {8: adaptive_avg_pool_v8},
    "AdaptiveMaxPool": {8: adaptive_max_pool_v8},
}
"""The layer types that :func:`run_layer` supports, and the versions of each type."""

_WINDOW = ("strides", "dilations", "pads_begin", "pads_end", "kernel_shape", "rounding_type",
           "auto_pad")  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """A pooling layer of a model.

    Attributes:
      name: name of the layer.
      type: type of the operation, such as "MaxPool".
      version: version of the operation, such as 14.
      arguments: attributes of the layer, as keyword arguments of its function.
      input_shapes, output_shapes: shapes in the file; -1 is a dynamic length.
      precision: precision of the first input, such as "FP32"; empty if the file does not state it.
    """

    name: str
    type: str
    version: int
    arguments: Mapping[str, Any]
    input_shapes: tuple[tuple[int, ...], ...]
    output_shapes: tuple[tuple[int, ...], ...] = ()
    precision: str = ""

    @property
    def function(self) -> Any:
        """The function of this package for the layer."""
        return LAYERS[self.type][self.version]

    def windows_over(self, sizes: Sequence[int]) -> Windows:
        """Return window, strides, padding, dilations and rounding over pooled axes of ``sizes``."""
        attributes = {"rounding_type": "floor", "auto_pad": "explicit", **self.arguments}
        roundings = OLD_ROUNDINGS if self.version < 14 else NEW_ROUNDINGS
        settings = tuple(attributes.get(name) for name in _WINDOW)
        return windows_over(sizes, settings, roundings)


@public
def run_layer(layer: Any, *inputs: Any) -> tuple[Array, ...]:
    """Run a pooling layer of an OpenVINO model.

    Args:
      layer: a :class:`Layer`, a ``<layer>`` element of :mod:`xml.etree.ElementTree`, or its text.
      inputs: arrays, in the order of the layer's inputs; the output shape of an adaptive pool is
        static.
    Returns:
      One array for each output of the operation.
    Derivatives: those of the operation.
    Raises:
      NotImplementedError: the layer is not a pooling layer. ValueError: the text is not a layer, or
        has a document type.
      TypeError, ValueError: as the operation.
    References: OpenVINO IR, version 11; the page of each operation for ``<data>``.
    Example:
      >>> layer = '''<layer name="p" type="MaxPool" version="opset1"><data kernel="2" strides="2"
      ...   pads_begin="0" pads_end="0" rounding_type="ceil" auto_pad="explicit"/></layer>'''
      >>> jaxpool.compat.openvino.run_layer(layer, jnp.array([[[1.0, 3.0, 2.0]]]))[0][0, 0]
      Array([3., 2.], dtype=float32)
    """
    if not isinstance(layer, Layer):
        from ..._port.openvino_ir import layer_of  # imported here, because it imports this package

        layer = layer_of(layer)
    result = layer.function(*inputs, **layer.arguments)
    return result if isinstance(result, tuple) else (result,)


@public
def model_layers(path: str | os.PathLike[str]) -> list[Layer]:
    """Return the pooling layers of an OpenVINO IR file, in the order of the file.

    Args:
      path: path of the ``.xml`` file; the ``.bin`` file is not read.
    Raises:
      OSError: the file cannot be read.
      ValueError: the file is not IR of version 10 or 11, is truncated, or has a document type.
      NotImplementedError: a pooling layer has a version or an attribute that is not known.
    Example:
      >>> for layer in model_layers("model.xml"):  # doctest: +SKIP
      ...     print(layer.name, layer.type, layer.version, dict(layer.arguments))
    """
    from ..._port import openvino_ir

    return openvino_ir.model_layers(path)
