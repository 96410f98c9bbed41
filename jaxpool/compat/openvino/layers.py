"""Layers of an OpenVINO model: an operation, its version and its attributes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._checks import Windows
from .arguments import NEW_ROUNDINGS, OLD_ROUNDINGS, windows_over
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
