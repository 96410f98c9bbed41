"""The pooling layers of an OpenVINO model, from its ``.xml`` file (intermediate representation).

References: OpenVINO IR, versions 10 and 11; the pages of the operations for ``<data>``.
"""

import functools
import importlib
import inspect
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import Any
from xml.parsers import expat

import jax.numpy as jnp
import numpy as np

from .._errors import Message, message, shown
from ..compat import openvino as front
from .check import module
from .nodes import OPEN, Arrays, Node, Unsupported
from .text import call_lines

_LISTS = ("kernel_shape", "strides", "dilations", "pads_begin", "pads_end")
_RENAMED = {"kernel": "kernel_shape", "exclude-pad": "exclude_pad"}
_PRECISIONS = {
    "": "float32", "FP64": "float64", "FP32": "float32", "FP16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "U16": "uint16",
    "U32": "uint32", "U64": "uint64",
}  # fmt: skip


def openvino_nodes(path: str) -> Iterator[Node | Unsupported]:
    """Yield the pooling operations of an OpenVINO model."""
    for element in _layer_elements(path):
        kind = element.get("type", "")
        if "pool" in kind.lower():
            try:
                yield _read_node(layer_of(element))
            except (NotImplementedError, ValueError) as error:
                yield Unsupported(element.get("name", ""), kind, str(error))


def model_layers(path: str | os.PathLike[str]) -> list[front.Layer]:
    """Return the pooling layers of an OpenVINO IR file, in the order of the file."""
    elements = _layer_elements(path)
    return [layer_of(element) for element in elements if element.get("type") in front.LAYERS]


def layer_of(layer: Any) -> front.Layer:
    """Read a ``<layer>``: an element of :mod:`xml.etree.ElementTree`, or its text."""
    element = layer if isinstance(layer, ElementTree.Element) else _parse(layer)
    kind, opset = element.get("type", ""), element.get("version", "opset1")
    functions_by_version = front.LAYERS.get(kind, {})
    versions = [version for version in functions_by_version if version <= _opset_number(opset)]
    if element.tag != "layer" or not versions:
        raise NotImplementedError(
            message(
                f"<{element.tag}> of type {shown(kind)} in {shown(opset)} is not a pooling layer.",
                f"The types are {', '.join(front.LAYERS)}.",
                "Run the other layers of a model with another library.",
            )
        )
    name, version = element.get("name", ""), max(versions)
    arguments = _arguments(name, functions_by_version[version], element.find("data"))
    first_port = element.find("input/port")
    precision = "" if first_port is None else first_port.get("precision", "")
    inputs, outputs = (_port_shapes(name, element, side) for side in ("input", "output"))
    return front.Layer(name, kind, version, arguments, inputs, outputs, precision)


# --- XML ------------------------------------------------------------------------------------------


def _layer_elements(path: str | os.PathLike[str]) -> list[ElementTree.Element]:
    """Return every ``<layer>`` of an OpenVINO IR file, in the order of the file."""
    with open(path, "rb") as file:
        root = _parse(file.read())
    if root.tag != "net" or root.get("version") not in ("10", "11"):
        raise ValueError(
            message(
                f"{shown(os.fspath(path))} is not an OpenVINO model of version 10 or 11.",
                f"Its root is <{root.tag}>, of version {shown(root.get('version'))}.",
                "Convert an older model, or one of another framework, with OpenVINO first.",
            )
        )
    return list(root.iter("layer"))


def _parse(text: Any) -> ElementTree.Element:
    """Return the root of an XML text; reject document types, which could define entities."""
    builder, parser = ElementTree.TreeBuilder(), expat.ParserCreate()
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = _refuse_document_type
    try:
        parser.Parse(text, True)
        return builder.close()
    except (expat.ExpatError, TypeError, AssertionError, LookupError, ValueError) as error:
        if error.args and isinstance(error.args[0], Message):
            raise
        raise ValueError(
            message(
                "this is not XML, or it is truncated.",
                f"The parser says: {error}.",
                "Give the text of a <layer>, or the path of an .xml file that OpenVINO wrote.",
            )
        ) from None


def _refuse_document_type(name: str, *rest: Any) -> None:
    raise ValueError(
        message(
            f"the XML declares a document type, {shown(name)}.",
            "It could define entities that grow without bound or read other files; OpenVINO "
            "writes none.",
            "Remove the <!DOCTYPE> declaration, if you trust the file.",
        )
    )


def _opset_number(opset: str) -> int:
    digits = opset.removeprefix("opset")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 4 else 0


def _port_shapes(name: str, element: ElementTree.Element, side: str) -> tuple[tuple[int, ...], ...]:
    """Return the shape of each port; OpenVINO writes -1 for an open length."""
    ports = element.findall(f"{side}/port")
    return tuple(
        tuple(_parse_value(name, "dim", dim.text or "-1", "axis") for dim in port.findall("dim"))
        for port in ports
    )


def _arguments(name: str, function: Any, data: ElementTree.Element | None) -> dict[str, Any]:
    """Return the attributes of a layer as keyword arguments of ``function``."""
    parameters = inspect.signature(function).parameters
    arguments: dict[str, Any] = {}
    for key, text in ({} if data is None else data.attrib).items():
        argument = _RENAMED.get(key, key)
        if argument not in parameters:
            raise NotImplementedError(
                message(
                    f"layer {shown(name)} has an attribute {shown(key)}, which is not known.",
                    f"The arguments of its operation are {', '.join(parameters)}.",
                    "Check the version of the layer's operation.",
                )
            )
        arguments[argument] = _parse_value(name, key, text, argument)
    arrays = ("data", "data_batch", "output_shape")
    required = [p.name for p in parameters.values() if p.default is p.empty]
    missing = [key for key in required if key not in arguments and key not in arrays]
    if missing:
        raise ValueError(
            message(
                f"layer {shown(name)} has no attribute `{missing[0]}`.",
                f"Its attributes are {', '.join(arguments) or 'none'}.",
                "Check that the file is complete.",
            )
        )
    return arguments


def _parse_value(name: str, key: str, text: str, argument: str) -> Any:
    try:
        if argument in _LISTS:
            return tuple(int(number) for number in text.split(",") if number.strip())
        if argument == "exclude_pad":
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        return int(text) if argument == "axis" else text.lower()
    except (ValueError, KeyError):
        raise ValueError(
            message(
                f"attribute `{key}` = {shown(text)} of layer {shown(name)} cannot be read.",
                'OpenVINO writes lists as "2,2" and booleans as "true" or "false".',
                "Check that the file is complete.",
            )
        ) from None


# --- operations -----------------------------------------------------------------------------------


def _read_node(layer: front.Layer) -> Node:
    adaptive = layer.type.startswith("Adaptive")
    arguments: dict[str, Any] = dict(layer.arguments)
    if adaptive:
        arguments["output_shape"] = _output_lengths(layer)
    function = layer.function
    results = "y, indices" if function.__name__.startswith(_WITH_INDICES) else "y"
    return Node(
        name=layer.name,
        operator=layer.type,
        shape=layer.input_shapes[0] if layer.input_shapes else None,
        dtype=_dtype(layer.precision),
        call=tuple(call_lines(results, function, (), arguments)),
        windows=None if adaptive else layer.windows_over,
        output_sizes=lambda shape: _output_lengths(layer),
        others=lambda x: (_output_lengths(layer),) if adaptive else (),
        run=functools.partial(front.run_layer, layer),
        peer=functools.partial(_run_in_openvino, layer),
    )


_WITH_INDICES = ("max_pool_v8", "max_pool_v14", "adaptive_max_pool")


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


def _output_lengths(layer: front.Layer) -> tuple[int, ...]:
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
    return lengths


def _run_in_openvino(layer: front.Layer, x: np.ndarray, *sizes: Any) -> Arrays:
    """Run the layer in OpenVINO, as a model of one layer."""
    runtime = module("openvino")
    opset = importlib.import_module(f"openvino.opset{layer.version}")
    array = opset.parameter(list(x.shape), x.dtype)
    constants = [opset.constant(np.array(size, np.int64)) for size in sizes]
    name = "".join(f"_{c.lower()}" if c.isupper() else c for c in layer.type).lstrip("_")
    arguments = dict(layer.arguments)
    if "index_element_type" in arguments:
        arguments["index_element_type"] = (
            "i32"  # its CPU kernels lack 64-bit indices for some operations
        )
    operation = getattr(opset, name)(array, *constants, **arguments)
    model = runtime.Model(operation.outputs(), [array], "layer")
    compiled = runtime.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return tuple(compiled([x]).values())
