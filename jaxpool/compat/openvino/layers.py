"""Layers of a model of OpenVINO: an operation, its version and its attributes."""

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
"""The types of layers of :func:`run_layer`, and the versions of each."""

_WINDOW = ("strides", "dilations", "pads_begin", "pads_end", "kernel_shape", "rounding_type",
           "auto_pad")  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """A pooling layer of a model.

    Attributes:
      name: the layer's own.
      type: such as "MaxPool".
      version: of the operation, such as 14.
      arguments: its attributes, as keyword arguments of the function for it.
      input_shapes, output_shapes: as the file states them; -1 is a length that it leaves open.
      precision: of the first input, such as "FP32"; empty if the file does not say.
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
        """The function of this module for the layer."""
        return LAYERS[self.type][self.version]

    def windows_over(self, sizes: Sequence[int]) -> Windows:
        """Window, strides, padding, dilations and rounding over pooled axes of these lengths."""
        given = {"rounding_type": "floor", "auto_pad": "explicit", **self.arguments}
        roundings = OLD_ROUNDINGS if self.version < 14 else NEW_ROUNDINGS
        in_order = tuple(given.get(name) for name in _WINDOW)
        return windows_over(sizes, in_order, roundings)


@public
def run_layer(layer: Any, *inputs: Any) -> tuple[Array, ...]:
    """Run a pooling layer of an OpenVINO model.

    Args:
      layer: a :class:`Layer`, a ``<layer>`` element of :mod:`xml.etree.ElementTree`, or its text.
      inputs: arrays, in the order of the layer; that of an adaptive pool's output shape is static.
    Returns:
      One array for each output of the operation.
    Derivatives: those of the operation.
    Raises:
      NotImplementedError: the layer is no pooling. ValueError: the text is no layer, or has a
        document type.
      TypeError, ValueError: as the operation.
    References: OpenVINO IR, version 11; the operations' own pages for ``<data>``.
    Example:
      >>> layer = '''<layer name="p" type="MaxPool" version="opset1"><data kernel="2" strides="2"
      ...   pads_begin="0" pads_end="0" rounding_type="ceil" auto_pad="explicit"/></layer>'''
      >>> jaxpool.compat.openvino.run_layer(layer, jnp.array([[[1.0, 3.0, 2.0]]]))[0][0, 0]
      Array([3., 2.], dtype=float32)
    """
    if not isinstance(layer, Layer):
        from ..._port.openvino_ir import layer_of  # which imports the operations of this module

        layer = layer_of(layer)
    result = layer.function(*inputs, **layer.arguments)
    return result if isinstance(result, tuple) else (result,)


@public
def model_layers(path: str | os.PathLike[str]) -> list[Layer]:
    """Return the pooling layers of an OpenVINO IR file, in the order of the file.

    Args:
      path: of the ``.xml`` file; the ``.bin`` file is not read.
    Raises:
      OSError: the file cannot be read.
      ValueError: it is no IR of version 10 or 11, is cut short, or has a document type.
      NotImplementedError: a pooling layer has a version or an attribute that is not known.
    Example:
      >>> for layer in model_layers("model.xml"):  # doctest: +SKIP
      ...     print(layer.name, layer.type, layer.version, dict(layer.arguments))
    """
    from ..._port import openvino_ir

    return openvino_ir.model_layers(path)
