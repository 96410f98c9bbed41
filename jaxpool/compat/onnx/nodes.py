"""Pooling nodes of an ONNX graph."""

import inspect
from typing import Any

from jax import Array

from ..._errors import message, public, shown
from .pools import (
    average_pool,
    global_average_pool,
    global_lp_pool,
    global_max_pool,
    lp_pool,
    max_pool,
    values_of_max_pool,
)
from .quantised import qlinear_average_pool, qlinear_global_average_pool
from .unpool import max_unpool

OPERATORS: dict[str, Any] = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "LpPool": lp_pool,
    "GlobalMaxPool": global_max_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalLpPool": global_lp_pool,
    "MaxUnpool": max_unpool,
    "QLinearAveragePool": qlinear_average_pool,
    "QLinearGlobalAveragePool": qlinear_global_average_pool,
}
"""The operators that :func:`run_node` supports, by the ``op_type`` of a node."""

_ADVICE = {
    "RoiAlign": "Call jaxpool.roi_align, whose boxes have the number of their image.",
    "MaxRoiPool": "Call jaxpool.roi_pool, whose boxes have the number of their image.",
}
"""Advice for operators that pool regions."""

FIELDS = {1: "f", 2: "i", 3: "s", 6: "floats", 7: "ints", 8: "strings"}
"""The field of an attribute of numbers or text, by the type of the attribute."""


@public
def run_node(node: Any, *inputs: Any) -> tuple[Array, ...]:
    """Run a pooling node of an ONNX graph.

    Args:
      node: an ``onnx.NodeProto`` of one of :data:`OPERATORS`, of any opset.
      inputs: arrays, in the order of the node's inputs; None for an omitted input.
    Returns:
      One array for each output of the node that is not omitted.
    Derivatives: those of the operator.
    Raises:
      NotImplementedError: the node is not a pooling node, or has an attribute that its operator
        lacks.
      TypeError, ValueError: as the operator; TypeError also if ``node`` is not a node.
    References: ONNX operators, opsets 1 to 22. The opset is not an argument, because no opset
      changes the meaning of an attribute.
    Example:
      >>> run_node = jaxpool.compat.onnx.run_node
      >>> node = onnx.helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2])  # doctest: +SKIP
      >>> (y,) = run_node(node, x)  # doctest: +SKIP
    """
    function, arguments = operator_of(node), attributes_of(node)
    if node.op_type == "MaxPool" and not any(node.output[1:]):  # "" is an omitted output
        function = values_of_max_pool
    try:
        if len(inputs) > len(node.input):
            raise TypeError("too many arrays")
        call = inspect.signature(function).bind(*inputs, **arguments)
    except TypeError as error:
        raise TypeError(
            message(
                f"{node.op_type} cannot run with these inputs: {error}.",
                f"Arrays given: {len(inputs)}. Inputs of the node: {len(node.input)}. Attributes: "
                f"{', '.join(arguments) or 'none'}.",
                "Give one array for each input of the node; check the node with onnx.checker.",
            )
        ) from None
    result = function(*call.args, **call.kwargs)
    return result if isinstance(result, tuple) else (result,)


def operator_of(node: Any) -> Any:
    """Return the function of this module for a pooling node."""
    if not hasattr(node, "op_type"):
        raise TypeError(
            message(
                f"$node = {shown(node)} is not a node.",
                "A node is an onnx.NodeProto, which holds its operator and its attributes.",
                "Give a node of a graph, or call a function of this module, such as max_pool.",
            )
        )
    domains = ("", "ai.onnx", "com.microsoft" if node.op_type.startswith("QLinear") else "")
    if node.op_type not in OPERATORS or node.domain not in domains:
        operator = f"{node.domain or 'ai.onnx'}.{node.op_type}"
        raise NotImplementedError(
            message(
                f"{shown(operator)} is not a pooling operator.",
                f"The operators are {', '.join(OPERATORS)}.",
                _ADVICE.get(node.op_type, "Run the other nodes of a graph with another library."),
            )
        )
    return OPERATORS[node.op_type]


def attributes_of(node: Any) -> dict[str, Any]:
    """Return the attributes of a pooling node as keyword arguments of its operator."""
    known = _attribute_names(OPERATORS[node.op_type])
    arguments = {}
    for attribute in node.attribute:
        field = None if attribute.ref_attr_name else FIELDS.get(attribute.type)
        if attribute.name not in known or field is None:
            raise NotImplementedError(
                message(
                    f"{node.op_type} has no attribute {shown(attribute.name)} of this type, or it "
                    "refers to an attribute of an ONNX function.",
                    f"Its attributes are: {', '.join(sorted(known)) or 'none'}.",
                    "Check the node with onnx.checker, and inline the functions of the model.",
                )
            )
        value = getattr(attribute, field)
        if field == "s":
            value = value.decode(errors="backslashreplace")
        elif field.endswith("s"):
            value = tuple(value)
        arguments[attribute.name] = value
    return arguments


def _attribute_names(function: Any) -> set[str]:
    """Return the parameters of an operator's function that are attributes in ONNX, not inputs."""
    parameters = inspect.signature(function).parameters.values()
    settings = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY or p.name == "kernel_shape"}
    return settings - {"index_shape"}  # which chooses one of two readings of the standard
