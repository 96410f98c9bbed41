"""The pooling layers of an OpenVINO model, from its ``.xml`` file."""

import functools
import importlib
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._errors import counted, message, shown
from ..compat.openvino.ir import layer_elements, layer_of, run_layer
from ..compat.openvino.layers import Layer
from .check import module
from .nodes import OPEN, Arrays, Node, Unsupported
from .text import call_lines

_PRECISIONS = {
    "": "float32", "FP64": "float64", "FP32": "float32", "FP16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "U16": "uint16",
    "U32": "uint32", "U64": "uint64",
}  # fmt: skip


def openvino_nodes(path: str) -> Iterator[Node | Unsupported]:
    """Yield the pooling operations of an OpenVINO model."""
    for element in layer_elements(path):
        kind = element.get("type", "")
        if "pool" in kind.lower():
            try:
                yield _read_node(layer_of(element))
            except (NotImplementedError, ValueError) as error:
                yield Unsupported(element.get("name", ""), kind, str(error))


def _read_node(layer: Layer) -> Node:
    adaptive = layer.type.startswith("Adaptive")
    arguments: dict[str, Any] = dict(layer.arguments)
    if adaptive:
        arguments["output_shape"] = _output_lengths(layer)
    has_indices = layer.type.endswith("MaxPool") and layer.version > 1
    results = "y, indices" if has_indices else "y"
    return Node(
        name=layer.name,
        operator=layer.type,
        shape=next(iter(layer.input_shapes), None) or None,  # () if the rank is dynamic
        dtype=_dtype(layer.precision),
        call=tuple(call_lines(results, layer.function, (), arguments)),
        windows=None if adaptive else layer.windows_over,
        output_sizes=lambda shape: _output_lengths(layer),
        others=lambda x: (_output_lengths(layer),) if adaptive else (),
        run=functools.partial(run_layer, layer),
        peer=functools.partial(_run_in_openvino, layer),
    )


def _dtype(precision: str) -> np.dtype:
    if precision not in _PRECISIONS:
        raise ValueError(
            message(
                f"precision {shown(precision)} is not known.",
                f"The known precisions are {', '.join(filter(None, _PRECISIONS))}.",
                "Convert the model with a newer or an older OpenVINO.",
            )
        )
    return jnp.dtype(_PRECISIONS[precision])


def _output_lengths(layer: Layer) -> tuple[int, ...]:
    """Return the output lengths of an adaptive pool, which the file stores as the output shape."""
    lengths = layer.output_shapes[0][2:] if layer.output_shapes else (OPEN,)
    if OPEN in lengths:
        raise ValueError(
            message(
                f"the output shape of {layer.type} is dynamic.",
                "The length of each pooled axis of its result must be known.",
                "Reshape the model to static shapes with OpenVINO.",
            )
        )
    rank = len(next(iter(layer.input_shapes), ()))
    if rank and len(lengths) != rank - 2:
        raise ValueError(
            message(
                f"the output shape of {layer.type} does not match its input.",
                f"The input has {counted(rank, 'axis')}, the output has {len(lengths) + 2}.",
                "Export the model again.",
            )
        )
    return lengths


def _run_in_openvino(layer: Layer, x: np.ndarray, *sizes: Any) -> Arrays:
    """Run the layer in OpenVINO, as a model of one layer."""
    runtime = module("openvino")
    opset = importlib.import_module(f"openvino.opset{layer.version}")
    if x.dtype == jnp.bfloat16:  # its Python API has no such arrays, its CPU kernels no indices
        x = x.astype(np.float32)
    array = opset.parameter(list(x.shape), x.dtype)
    constants = [opset.constant(np.array(size, np.int64)) for size in sizes]
    name = "".join(f"_{c.lower()}" if c.isupper() else c for c in layer.type).lstrip("_")
    arguments = dict(layer.arguments)
    if "index_element_type" in arguments:
        # Its CPU kernels lack 64-bit indices for some operations.
        arguments["index_element_type"] = "i32"
    if (layer.type, layer.version) == ("AvgPool", 16):
        # OpenVINO 2026.4 crashes if they are left out.
        arguments["dilations"] = arguments.get("dilations") or (1,) * (x.ndim - 2)
    operation = getattr(opset, name)(array, *constants, **arguments)
    model = runtime.Model(operation.outputs(), [array], "layer")
    compiled = runtime.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return tuple(compiled([x]).values())
