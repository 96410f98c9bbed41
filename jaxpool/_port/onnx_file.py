"""The pooling nodes of an ONNX file: in its graph, in those inside its nodes, in its functions."""

import functools
import math
from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from .._errors import message, shown
from ..compat import onnx as front
from .check import MOST_ELEMENTS, module
from .nodes import OPEN, Arrays, Node, Unchecked, Unsupported
from .text import call_lines

Known = Mapping[str, Any]
"""Types and constants by the name of the tensor."""
Makers = Mapping[str, Any]
"""The nodes by the names of what they give."""


def onnx_nodes(path: str) -> Iterator[Node | Unsupported]:
    """Yield the pooling operations of an ONNX file."""
    model = _model(path)
    graphs: list[tuple[Any, Known, Makers]] = [(model.graph, {}, {})]
    while graphs:
        graph, outer, before = graphs.pop(0)
        known = ChainMap(_constants(graph), _types(graph), outer)  # pyright: ignore
        made = {name: node for node in graph.node for name in node.output}
        makers = ChainMap(made, before)  # pyright: ignore
        inner = (a.g for node in graph.node for a in node.attribute if a.HasField("g"))
        graphs += [(g, known, makers) for g in inner]
        for node in graph.node:
            if "pool" in node.op_type.lower():
                yield _node(model, node, known, makers)
    for node in (node for function in model.functions for node in function.node):
        if "pool" in node.op_type.lower():
            yield _node(model, node, {}, {})


def _model(path: str) -> Any:
    onnx = module("onnx")
    try:
        model = onnx.load(path, load_external_data=False)
        _check(onnx, path, model)
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except OSError:
        raise
    except Exception as error:  # protobuf, the checker and shape inference raise their own types
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(
            message(
                f"{shown(path)} is no ONNX model, or is cut short.",
                f"The onnx package says: {first[:400].replace('$', '$$')}",
                "Export the model again.",
            )
        ) from None


def _check(onnx: Any, path: str, model: Any) -> None:
    try:
        onnx.checker.check_model(path)  # by its path, which tensors in other files are found from
    except onnx.checker.ValidationError as error:
        if "Field 'shape'" not in str(error):
            raise
        checked = onnx.ModelProto()  # the checker asks for shapes of results, runtimes do not
        checked.CopyFrom(model)
        for result in checked.graph.output:
            result.type.tensor_type.shape.SetInParent()
        onnx.checker.check_model(checked)


def _types(graph: Any) -> dict[str, Any]:
    return {v.name: v.type.tensor_type for v in (*graph.input, *graph.value_info, *graph.output)}


def _constants(graph: Any) -> dict[str, Any]:
    """The tensors that the graph holds; one in a file of its own is not among them."""
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        tensors = [a.t for a in node.attribute if a.HasField("t")]
        if node.op_type == "Constant" and tensors and node.output:
            found[node.output[0]] = tensors[0]
    return {name: tensor for name, tensor in found.items() if not tensor.data_location}


def _node(model: Any, node: Any, known: Known, makers: Makers) -> Node | Unsupported:
    try:
        return _expressed(model, node, known, makers)
    except (NotImplementedError, TypeError, ValueError) as error:
        return Unsupported(node.name, node.op_type, str(error))


def _expressed(model: Any, node: Any, known: Known, makers: Makers) -> Node:
    function, arguments = front.operator_of(node), front.attributes_of(node)
    if not node.input or not node.output:
        raise ValueError(
            message(
                f"the node has {len(node.input)} inputs and {len(node.output)} outputs.",
                f"{node.op_type} pools its first input.",
                "Check the file with onnx.checker.",
            )
        )
    shape, dtype = _shape_and_dtype(known.get(node.input[0]))
    results = "y, indices" if node.op_type == "MaxPool" else "y"
    windowed = "kernel_shape" in arguments and node.op_type != "MaxUnpool"
    over = {name: arguments[name] for name in _WINDOW if name in arguments}
    return Node(
        name=node.name or node.output[0],
        operator=node.op_type,
        shape=shape,
        dtype=dtype,
        unknown_from=_unknown_from(node.input[0], known, makers),
        call=tuple(call_lines(results, function, node.input[1:], arguments)),
        windows=functools.partial(front.windows_over, **over) if windowed else None,
        output_sizes=functools.partial(_output_sizes, node, known),
        others=functools.partial(_others, node, known),
        run=functools.partial(front.run_node, node),
        peer=functools.partial(_onnxruntime, model, node),
    )


_WINDOW = ("kernel_shape", "strides", "pads", "dilations", "auto_pad", "ceil_mode")


def _shape_and_dtype(kind: Any) -> tuple[tuple[int, ...] | None, np.dtype | None]:
    """Of a type or of a tensor, as the file gives them."""
    if isinstance(kind, module("onnx").TensorProto):
        return tuple(kind.dims), _dtype(kind.data_type)
    if kind is None or not kind.elem_type:
        return None, None
    dtype = _dtype(kind.elem_type)
    if not kind.HasField("shape"):
        return None, dtype
    lengths = (d.dim_value if d.HasField("dim_value") else OPEN for d in kind.shape.dim)
    return tuple(lengths), dtype


def _unknown_from(name: str, known: Known, makers: Makers) -> str:
    """The operator at which shape inference stopped, of those that a tensor comes from."""
    seen = {""}
    while name in makers and name not in seen:
        seen.add(name)
        node = makers[name]
        unknown = (i for i in node.input if i and None in _shape_and_dtype(known.get(i)))
        name = next(unknown, "")
        if not name:
            return f"{node.domain}.{node.op_type}".lstrip(".")
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


# --- a node by itself -----------------------------------------------------------------------------


def _others(node: Any, known: Known, x: np.ndarray) -> Arrays:
    return tuple(_other(node, known, x, name) for name in node.input[1:])


def _other(node: Any, known: Known, x: Any, name: str) -> Any:
    if not name:
        return None
    if isinstance(known.get(name), module("onnx").TensorProto):
        return _constant(known, name)
    if node.op_type == "MaxUnpool" and name == node.input[1]:
        elements = math.prod(x.shape[:2]) * math.prod(_output_sizes(node, known, x.shape))
        return np.random.default_rng(1).permutation(elements)[: x.size].reshape(x.shape)
    raise Unchecked(f"its input {shown(name)} is not in the file")


def _constant(known: Known, name: str) -> np.ndarray:
    try:
        return module("onnx").numpy_helper.to_array(known[name])
    except Exception as error:  # a tensor whose bytes do not suit its shape
        raise Unchecked(f"its input {shown(name)} cannot be read: {shown(str(error))}") from None


def _output_sizes(node: Any, known: Known, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Lengths of the pooled axes of a global pool's result, or of an unpooling's."""
    if node.op_type != "MaxUnpool":
        return (1,) * len(shape[2:])
    arrays = [jax.ShapeDtypeStruct(shape, dtype) for dtype in (np.float32, np.int32)]
    third = [_other(node, known, None, name) for name in node.input[2:3] if name]
    if any(array.size and array.max() > MOST_ELEMENTS for array in third):
        raise Unchecked(f"a result of shape {third[0].tolist()} is too large to try")
    run = functools.partial(front.run_node, node)
    return jax.eval_shape(lambda *inputs: run(*inputs, *third)[0], *arrays).shape[2:]


def _onnxruntime(model: Any, node: Any, *inputs: Any) -> Arrays:
    """The node as a model of its own."""
    onnx, runtime = module("onnx"), module("onnxruntime")
    arrays = {name: array for name, array in zip(node.input, inputs, strict=True) if name}
    given = [_typed(name, array) for name, array in arrays.items()]
    kinds = (given[0].type.tensor_type.elem_type, onnx.TensorProto.INT64)
    made = [
        onnx.helper.make_tensor_value_info(name, kind, None)
        for name, kind in zip(node.output, kinds, strict=False)
    ]
    graph = onnx.helper.make_graph([node], "node", given, made)
    alone = onnx.helper.make_model(
        graph, opset_imports=model.opset_import, ir_version=model.ir_version
    )
    session = runtime.InferenceSession(
        alone.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return tuple(session.run(None, arrays))


def _typed(name: str, array: Any) -> Any:
    helper = module("onnx").helper
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
    )
