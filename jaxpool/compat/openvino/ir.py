"""Layers of an OpenVINO model, read from its ``.xml`` file (intermediate representation).

References: OpenVINO IR, versions 10 and 11; the pages of the operations for ``<data>``.
"""

import inspect
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from typing import Any
from xml.parsers import expat

from jax import Array

from ..._errors import message, message_of, public, shown
from .layers import LAYERS, Layer

_LISTS = ("kernel_shape", "strides", "dilations", "pads_begin", "pads_end")
_RENAMED = {"kernel": "kernel_shape", "exclude-pad": "exclude_pad"}


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
    return [layer_of(element) for element in layer_elements(path) if element.get("type") in LAYERS]


def layer_of(layer: Any) -> Layer:
    """Read a ``<layer>``: an element of :mod:`xml.etree.ElementTree`, or its text."""
    element = layer if isinstance(layer, ElementTree.Element) else _parse(layer)
    kind, opset = element.get("type", ""), element.get("version", "opset1")
    functions_by_version = LAYERS.get(kind, {})
    versions = [version for version in functions_by_version if version <= _opset_number(opset)]
    if element.tag != "layer" or not versions:
        raise NotImplementedError(
            message(
                f"<{element.tag}> of type {shown(kind)} in {shown(opset)} is not a pooling layer.",
                f"The types are {', '.join(LAYERS)}.",
                "Run the other layers of a model with another library.",
            )
        )
    name, version = element.get("name", ""), max(versions)
    arguments = _arguments(name, functions_by_version[version], element.find("data"))
    first_port = element.find("input/port")
    precision = "" if first_port is None else first_port.get("precision", "")
    inputs, outputs = (_port_shapes(name, element, side) for side in ("input", "output"))
    return Layer(name, kind, version, arguments, inputs, outputs, precision)


# --- XML ------------------------------------------------------------------------------------------


def layer_elements(path: str | os.PathLike[str]) -> list[ElementTree.Element]:
    """Return every ``<layer>`` of an OpenVINO IR file, in the order of the file."""
    with open(path, "rb") as file:
        root = _parse(file.read(), shown(os.fspath(path)))
    if root.tag != "net" or root.get("version") not in ("10", "11"):
        raise ValueError(
            message(
                f"{shown(os.fspath(path))} is not an OpenVINO model of version 10 or 11.",
                f"Its root is <{root.tag}>, of version {shown(root.get('version'))}.",
                "Convert an older model, or one of another framework, with OpenVINO first.",
            )
        )
    return list(root.iter("layer"))


def _parse(text: Any, source: str = "this") -> ElementTree.Element:
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
        if message_of(error) is not None:
            raise
        raise ValueError(
            message(
                f"{source} is not XML, or it is truncated.",
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
    _check_complete(name, parameters, arguments)
    return arguments


def _check_complete(
    name: str, parameters: Mapping[str, inspect.Parameter], arguments: Mapping[str, Any]
) -> None:
    """Raise unless the attributes give every required argument that is not an array."""
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
