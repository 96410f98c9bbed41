"""The pooling nodes of an ONNX file: those of its graph, of nested graphs and of functions."""

import functools
import math
from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from .._errors import message, shown
from .._geometry.resolve import geometry
from ..compat.onnx.arguments import windows_over
from ..compat.onnx.nodes import FIELDS, attributes_of, operator_of, run_node
from .check import MAX_ELEMENTS, module
from .nodes import OPEN, Arrays, Node, Unchecked, Unsupported
from .text import call_lines, printable

Known = Mapping[str, Any]
"""The type or the constant of each tensor, by name."""
Producers = Mapping[str, Any]
"""The node that computes each tensor, by the name of the tensor."""


def onnx_nodes(path: str) -> Iterator[Node | Unsupported]:
    """Yield the pooling operations of an ONNX file."""
    model = _load_model(path)
    # The nodes of a function are listed once, in place of its calls.
    called = {(function.domain, function.name) for function in model.functions}
    bodies = (
        module("onnx").GraphProto(node=function.node, value_info=function.value_info)
        for function in model.functions
    )
    graphs: list[tuple[Any, Known, Producers]] = [
        (graph, {}, {}) for graph in (model.graph, *bodies)
    ]
    while graphs:
        graph, outer, outer_producers = graphs.pop(0)
        known = ChainMap(_constants(graph), _types(graph), outer)  # pyright: ignore
        node_of = {name: node for node in graph.node for name in node.output}
        producers = ChainMap(node_of, outer_producers)  # pyright: ignore
        inner = (a.g for node in graph.node for a in node.attribute if a.HasField("g"))
        graphs += [(g, known, producers) for g in inner]
        for node in graph.node:
            if "pool" in node.op_type.lower() and (node.domain, node.op_type) not in called:
                yield _read_node(model, node, known, producers)


def _load_model(path: str) -> Any:
    onnx = module("onnx")
    try:
        model = onnx.load(path, load_external_data=False)
        _check_model(onnx, path, model)
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except OSError:
        raise
    except Exception as error:  # protobuf, the checker and shape inference raise their own types
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        known = (explained for text, explained in _FAULTS.items() if text in first_line)
        fault, advice = next(known, ("is not an ONNX model, or is truncated", "Export it again"))
        raise ValueError(
            message(
                f"{shown(path)} {fault}.",
                f"The onnx package says: {first_line[:400].replace('$', '$$')}",
                f"{advice}.",
            )
        ) from None


_FAULTS = {
    "should be stored in": ("has weights in a file that is missing", "Put it beside the model"),
    "is higher than the checker": ("is newer than the onnx package", "Install a newer onnx"),
}
"""Texts of onnx's checker about models that are not at fault: a description, and the advice."""


def _check_model(onnx: Any, path: str, model: Any) -> None:
    try:
        onnx.checker.check_model(path)  # the path, which locates tensors in other files
    except onnx.checker.ValidationError as error:
        if "Field 'shape'" not in str(error):
            raise
        with_shapes = onnx.ModelProto()  # the checker requires these shapes, runtimes do not
        with_shapes.CopyFrom(model)
        for value in (*with_shapes.graph.input, *with_shapes.graph.output):
            if value.type.HasField("tensor_type"):  # not a sequence
                value.type.tensor_type.shape.SetInParent()
        onnx.checker.check_model(with_shapes)


def _types(graph: Any) -> dict[str, Any]:
    return {v.name: v.type.tensor_type for v in (*graph.input, *graph.value_info, *graph.output)}


def _constants(graph: Any) -> dict[str, Any]:
    """Return the constant tensors of the graph, except those stored in a separate file."""
    tensors_by_name = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.output:
            for tensor in filter(None, map(_tensor_of, node.attribute)):
                tensors_by_name[node.output[0]] = tensor
    return {name: tensor for name, tensor in tensors_by_name.items() if not tensor.data_location}


_NUMBERS = {"f": np.float32, "i": np.int64, "floats": np.float32, "ints": np.int64}
"""The dtype of an attribute that is a number or a list of numbers, by its field."""


def _tensor_of(attribute: Any) -> Any:
    """Return an attribute of a Constant as a tensor, None if it is text or sparse."""
    if attribute.HasField("t"):
        return attribute.t
    field = FIELDS.get(attribute.type, "")
    if attribute.ref_attr_name or field not in _NUMBERS:
        return None
    numbers = np.array(getattr(attribute, field), _NUMBERS[field])
    return module("onnx").numpy_helper.from_array(numbers)


def _read_node(model: Any, node: Any, known: Known, producers: Producers) -> Node | Unsupported:
    try:
        return _express(model, node, known, producers)
    except (NotImplementedError, TypeError, ValueError) as error:
        return Unsupported(node.name, node.op_type, str(error))


def _check_has_ends(node: Any) -> None:
    """Raise unless the node has an input and an output."""
    if not node.input or not node.output:
        raise ValueError(
            message(
                f"the node has {len(node.input)} inputs and {len(node.output)} outputs.",
                f"{node.op_type} pools its first input.",
                "Check the file with onnx.checker.",
            )
        )


def _express(model: Any, node: Any, known: Known, producers: Producers) -> Node:
    function, arguments = operator_of(node), attributes_of(node)
    _check_has_ends(node)
    pooled = known.get(node.input[0])
    shape, dtype = _shape_and_dtype(pooled)
    results = "y, indices" if node.op_type == "MaxPool" else "y"
    windowed = "kernel_shape" in arguments and node.op_type != "MaxUnpool"
    window_arguments = {name: arguments[name] for name in _WINDOW_ARGUMENTS if name in arguments}
    return Node(
        name=node.name or node.output[0],
        operator=node.op_type,
        shape=shape,
        dtype=dtype,
        length_names=_length_names(pooled),
        unknown_from=_unknown_from(node.input[0], known, producers),
        call=tuple(call_lines(results, function, node.input[1:], arguments)),
        channels_last=bool(arguments.get("channels_last")),
        windows=functools.partial(windows_over, **window_arguments) if windowed else None,
        output_sizes=functools.partial(_output_sizes, node, known),
        open_lengths=functools.partial(_lengths_to_unpool, node, known, window_arguments),
        others=functools.partial(_other_inputs, node, known),
        run=functools.partial(run_node, node),
        peer=functools.partial(_run_in_onnxruntime, model, node),
    )


_WINDOW_ARGUMENTS = ("kernel_shape", "strides", "pads", "dilations", "auto_pad", "ceil_mode")


def _shape_and_dtype(tensor_type: Any) -> tuple[tuple[int, ...] | None, np.dtype | None]:
    """Return the shape and dtype of a tensor type or tensor, None if the file does not say."""
    if isinstance(tensor_type, module("onnx").TensorProto):
        return tuple(tensor_type.dims), _dtype(tensor_type.data_type)
    if tensor_type is None or not tensor_type.elem_type:
        return None, None
    dtype = _dtype(tensor_type.elem_type)
    if not tensor_type.HasField("shape"):
        return None, dtype
    lengths = (d.dim_value if d.HasField("dim_value") else OPEN for d in tensor_type.shape.dim)
    return tuple(lengths), dtype


def _length_names(tensor_type: Any) -> tuple[str, ...]:
    """Return the name of the length of each axis, "" for none and for names that onnx made up."""
    dims = tensor_type.shape.dim if hasattr(tensor_type, "shape") else ()
    return tuple("" if d.dim_param.startswith("unk__") else d.dim_param for d in dims)


def _unknown_from(name: str, known: Known, producers: Producers) -> str:
    """Return the operator at which shape inference stopped, among the ancestors of a tensor."""
    seen = {""}
    while name in producers and name not in seen:
        seen.add(name)
        node = producers[name]
        unknown = (i for i in node.input if i and None in _shape_and_dtype(known.get(i)))
        name = next(unknown, "")
        if not name:
            return printable(f"{node.domain}.{node.op_type}".lstrip("."))
    return ""


def _dtype(element_type: int) -> np.dtype:
    try:
        return module("onnx").helper.tensor_dtype_to_np_dtype(element_type)
    except KeyError:
        raise ValueError(
            message(
                f"element type {element_type} is not known.",
                "The installed onnx package has no tensors of that type.",
                "Check the file with onnx.checker, or install a newer onnx.",
            )
        ) from None


# --- running a single node ------------------------------------------------------------------------


def _other_inputs(node: Any, known: Known, x: np.ndarray) -> Arrays:
    return tuple(_other_input(node, known, x, name) for name in node.input[1:])


def _other_input(node: Any, known: Known, x: Any, name: str) -> Any:
    if not name:
        return None
    if isinstance(known.get(name), module("onnx").TensorProto):
        return _constant(known, name)
    if node.op_type == "MaxUnpool" and name == node.input[1]:
        # Indices count in the shape that the window implies, also if the result is larger.
        elements = math.prod(x.shape[:2]) * math.prod(_unpooled_sizes(node, x.shape))
        return np.random.default_rng(1).permutation(elements)[: x.size].reshape(x.shape)
    raise Unchecked(f"its input {shown(name)} is not in the file")


def _constant(known: Known, name: str) -> np.ndarray:
    try:
        return module("onnx").numpy_helper.to_array(known[name])
    except Exception as error:  # the bytes of the tensor do not match its shape
        raise Unchecked(f"its input {shown(name)} cannot be read: {shown(str(error))}") from None


def _output_sizes(node: Any, known: Known, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lengths of the pooled axes of the result of a global pool or an unpooling."""
    if node.op_type != "MaxUnpool":
        return (1,) * len(shape[2:])
    output_shape = [_other_input(node, known, None, name) for name in node.input[2:3] if name]
    if any(array.size and array.max() > MAX_ELEMENTS for array in output_shape):
        raise Unchecked(f"a result of shape {output_shape[0].tolist()} is too large to try")
    return _unpooled_sizes(node, shape, *output_shape)


def _unpooled_sizes(
    node: Any, shape: tuple[int, ...], *output_shape: np.ndarray
) -> tuple[int, ...]:
    arrays = [jax.ShapeDtypeStruct(shape, dtype) for dtype in (np.float32, np.int32)]
    return jax.eval_shape(lambda *xs: run_node(node, *xs, *output_shape)[0], *arrays).shape[2:]


def _lengths_to_unpool(node: Any, known: Known, window_arguments: dict[str, Any]) -> Arrays:
    """Return the shape of an array that a MaxUnpool can write into a result of constant shape."""
    name = node.input[2] if node.op_type == "MaxUnpool" and len(node.input) > 2 else ""
    if not isinstance(known.get(name), module("onnx").TensorProto):
        return ()
    batch_and_channels, pooled = np.split(_constant(known, name).ravel(), [2])
    if len(pooled) != len(window_arguments.get("kernel_shape", ())) or min(pooled, default=0) < 1:
        return ()
    kernel, strides, padding, *_ = windows_over(pooled.tolist(), **window_arguments)
    axes = geometry(pooled.tolist(), kernel, strides, padding).axes
    return (*batch_and_channels.clip(1).tolist(), *(axis.out for axis in axes))


def _run_in_onnxruntime(model: Any, node: Any, *inputs: Any) -> Arrays:
    """Run the node in ONNX Runtime, as a model of one node."""
    onnx, runtime = module("onnx"), module("onnxruntime")
    arrays = {name: array for name, array in zip(node.input, inputs, strict=True) if name}
    input_infos = [_value_info(name, array) for name, array in arrays.items()]
    element_types = (input_infos[0].type.tensor_type.elem_type, onnx.TensorProto.INT64)
    output_infos = [
        onnx.helper.make_tensor_value_info(name, element_type, None)
        for name, element_type in zip(node.output, element_types, strict=False)
        if name
    ]
    graph = onnx.helper.make_graph([node], "node", input_infos, output_infos)
    single_node_model = onnx.helper.make_model(
        graph, opset_imports=model.opset_import, ir_version=model.ir_version
    )
    session = runtime.InferenceSession(
        single_node_model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return tuple(session.run(None, arrays))


def _value_info(name: str, array: Any) -> Any:
    helper = module("onnx").helper
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
    )
