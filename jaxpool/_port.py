"""The pooling of a model file, in the words of ``jaxpool.compat``: ``python -m jaxpool port``.

A file is read by its suffix (``READERS``) into one :class:`Node` a pooling operation; nothing
but the file is opened. A check runs each operation by itself, on numbers of its own, here and in
the runtime that the file is written for.
"""

import functools
import importlib
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ._errors import message
from ._explain import axis_lines
from ._window import geometry
from .compat import onnx as onnx_front
from .compat import openvino as openvino_front

Arrays = tuple[Any, ...]

_OPEN = -1
"""A length that the file leaves open."""
_OPEN_LENGTHS = (2, 3, 32)
"""What is taken for an open batch, for open channels and for an open pooled axis."""
_MOST_CELLS = 2**27
"""An array with more cells is not run in a check."""


class Unchecked(Exception):
    """An operation can be written down, but its file does not hold what a run of it needs."""


@dataclass(frozen=True)
class Node:
    """A pooling operation of a model.

    Attributes:
      name: its own.
      operator: such as "MaxPool".
      shape: of its array, -1 for a length that the file leaves open; None if it does not say.
      dtype: of its array.
      call: the equivalent call, as text.
      windows: window, strides, padding, dilations and rounding over axes of given lengths; None for
        an operation without a window.
      others: its inputs besides the array, for a given array.
      run, peer: the operation by itself, in jaxpool and in the runtime of its system.
    """

    name: str
    operator: str
    shape: tuple[int, ...] | None
    dtype: np.dtype
    call: str
    windows: Callable[[Sequence[int]], tuple[Any, ...]] | None
    others: Callable[[np.ndarray], Arrays]
    run: Callable[..., Arrays]
    peer: Callable[..., Arrays]


class Refusal(NamedTuple):
    """A pooling operation that cannot be expressed, and why."""

    name: str
    operator: str
    reason: str


class Reader(NamedTuple):
    """How to read the files of a system, and what checks them."""

    nodes: Callable[[str], Iterator[Node | Refusal]]
    runtime: str
    package: str


def port(path: str, check: bool = False) -> int:
    """Print every pooling operation of a model file and the call for it.

    Args:
      path: of an ONNX file, or of the ``.xml`` file of an OpenVINO model.
      check: also run each operation by itself and compare with ONNX Runtime or OpenVINO.
    Returns:
      0, or 1 if an operation cannot be expressed, cannot be checked or differs.
    Raises:
      OSError: the file cannot be read. ValueError: it is no model, or is cut short.
      ModuleNotFoundError: the package that reads it, or the one that checks it, is not installed.
    """
    reader = READERS.get(Path(path).suffix.lower())
    if reader is None:
        raise ValueError(
            message(
                "port",
                f"{path!r} does not end in {' or '.join(READERS)}.",
                "Models of ONNX (.onnx) and of OpenVINO (.xml) can be read.",
                "Export the model to one of the two.",
            )
        )
    if check:
        _module(reader.package)
    nodes = list(reader.nodes(path))
    print(f"{path}: pooling operations: {len(nodes)}")
    sound = 0
    for node in nodes:
        print(f"\n{node.name or '(no name)'}: {node.operator}")
        sound += _show(node, reader if check else None)
    if check:
        print(f"\n{sound} of {len(nodes)} agree with {reader.runtime} {version(reader.package)}")
    return int(sound < len(nodes))


def _show(node: Node | Refusal, checked_by: Reader | None) -> bool:
    """Print an operation; return whether all is well with it."""
    try:
        for line in _lines(node):
            print(f"  {line.strip()}")
        if isinstance(node, Refusal):
            return False
        if checked_by is not None:
            print(f"  agrees with {checked_by.runtime} {_compared(node)}")
    except Unchecked as error:
        print(f"  not checked: {error}")
        return False
    except AssertionError as error:
        print(f"  differs: {error}")
        return False
    except (TypeError, ValueError, NotImplementedError) as error:
        print(f"  refused: {error}")
        return False
    return True


def _lines(node: Node | Refusal) -> Iterator[str]:
    if isinstance(node, Refusal):
        yield "cannot be expressed:"
        yield from node.reason.splitlines()
        return
    yield f"{node.dtype} {_shape_text(node)}"
    if node.shape and node.windows and _OPEN not in node.shape[2:]:
        kernel, strides, padding, dilations, rounding = node.windows(node.shape[2:])
        words = {"dilations": dilations, "rounding": rounding}
        axes = geometry(node.shape[2:], kernel, strides, padding, **words).axes
        for number, axis in enumerate(axes, start=2):
            yield from axis_lines(axis, number)
    yield node.call


def _shape_text(node: Node) -> str:
    if node.shape is None:
        return "array of a shape that the file does not say"
    return "(" + ", ".join("?" if n == _OPEN else str(n) for n in node.shape) + ")"


# --- a check --------------------------------------------------------------------------------------


def _compared(node: Node) -> str:
    """Run the operation on both sides; return what it ran on, or raise if they differ."""
    if node.shape is None:
        raise Unchecked("the file does not say the shape of its array")
    lengths = (*_OPEN_LENGTHS[:2], *_OPEN_LENGTHS[2:] * (len(node.shape) - 2))
    shape = tuple(other if n == _OPEN else n for n, other in zip(node.shape, lengths, strict=True))
    if math.prod(shape) > _MOST_CELLS:
        raise Unchecked(f"an array {shape} is too large to try")
    x = _numbers(shape, node.dtype)
    inputs = x, *node.others(x)
    ours = node.run(*inputs)
    try:
        theirs = node.peer(*inputs)
    except Exception as error:  # each runtime raises types of its own
        lines = (line for line in str(error).splitlines() if line and "Exception from" not in line)
        reason = next(lines, type(error).__name__)
        raise Unchecked(f"the runtime refuses it on an array {shape}: {reason}") from None
    for mine, other in zip(ours, theirs, strict=True):
        # A maximum is exact; the order of a sum, and so its last bits, is free.
        exact = node.operator.endswith(("MaxPool", "MaxUnpool"))
        np.testing.assert_allclose(
            np.asarray(mine, np.float64),
            np.asarray(other, np.float64),
            rtol=0 if exact else 32 * float(jnp.finfo(_float_like(node.dtype)).eps),
            err_msg=f"on an array {shape}",
        )
    return f"on an array {shape}"


def _float_like(dtype: np.dtype) -> np.dtype:
    return dtype if jnp.issubdtype(dtype, jnp.floating) else np.dtype("float32")


def _numbers(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Numbers without an order, of both signs, that every dtype of a model holds exactly."""
    low, high = (0, 256) if dtype == np.uint8 else (-128, 128)
    values = np.random.default_rng(0).integers(low, high, shape)
    return (values if jnp.issubdtype(dtype, jnp.integer) else values / 16).astype(dtype)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            message(
                "port",
                f"the package {name} is not installed.",
                "ONNX files are read by onnx; checks need onnxruntime or openvino.",
                'Install them with pip install "jaxpool[peers]".',
            )
        ) from None


def _call(function: Callable[..., Any], inputs: Sequence[str], words: Mapping[str, Any]) -> str:
    """The call as text, with its arguments in the order of the function."""
    order = list(inspect.signature(function).parameters)
    given = (f"{word}={words[word]!r}" for word in sorted(words, key=order.index))
    return f"{function.__name__}({', '.join([*inputs, *given])})"


# --- ONNX -----------------------------------------------------------------------------------------


def _onnx_nodes(path: str) -> Iterator[Node | Refusal]:
    model = _onnx_model(path)
    graphs: list[tuple[Any, dict[str, Any]]] = [(model.graph, {})]
    while graphs:
        graph, outer = graphs.pop(0)
        known = {**outer, **_onnx_types(graph), **_onnx_constants(graph)}
        graphs += [(a.g, known) for node in graph.node for a in node.attribute if a.HasField("g")]
        for node in graph.node:
            if "pool" in node.op_type.lower():
                yield _onnx_node(model, node, known)
    for node in (node for function in model.functions for node in function.node):
        if "pool" in node.op_type.lower():
            yield _onnx_node(model, node, {})


def _onnx_model(path: str) -> Any:
    onnx = _module("onnx")
    try:
        model = onnx.load(path, load_external_data=False)
        onnx.checker.check_model(model)
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except OSError:
        raise
    except Exception as error:  # protobuf, the checker and shape inference raise their own types
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(
            message(
                "port",
                f"{path!r} is no ONNX model, or is cut short.",
                f"The onnx package says: {first}",
                "Export the model again.",
            )
        ) from None


def _onnx_types(graph: Any) -> dict[str, Any]:
    return {v.name: v.type.tensor_type for v in (*graph.input, *graph.value_info, *graph.output)}


def _onnx_constants(graph: Any) -> dict[str, Any]:
    """The tensors that the graph holds; one in a file of its own is not among them."""
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            found[node.output[0]] = node.attribute[0].t
    return {name: tensor for name, tensor in found.items() if not tensor.data_location}


def _onnx_node(model: Any, node: Any, known: Mapping[str, Any]) -> Node | Refusal:
    try:
        function, words = onnx_front.operator(node), onnx_front.attributes(node)
    except (NotImplementedError, ValueError) as error:
        return Refusal(node.name, node.op_type, str(error))
    shape, dtype = _onnx_shape_and_dtype(known.get(node.input[0]))
    inputs = ["x", *(name or "None" for name in node.input[1:])]
    results = "y, indices" if node.op_type == "MaxPool" else "y"
    windowed = "kernel_shape" in words and node.op_type != "MaxUnpool"
    over = {name: words[name] for name in _ONNX_WINDOW_WORDS if name in words}
    windows = functools.partial(onnx_front.windows_over, node.op_type)
    return Node(
        node.name or node.output[0],
        node.op_type,
        shape,
        dtype,
        f"{results} = jaxpool.compat.onnx.{_call(function, inputs, words)}",
        functools.partial(windows, **over) if windowed else None,
        functools.partial(_onnx_others, node, known),
        functools.partial(onnx_front.run_node, node),
        functools.partial(_onnxruntime, model, node),
    )


_ONNX_WINDOW_WORDS = ("kernel_shape", "strides", "pads", "dilations", "auto_pad", "ceil_mode")


def _onnx_shape_and_dtype(kind: Any) -> tuple[tuple[int, ...] | None, np.dtype]:
    """Of a type or of a tensor, as the file gives them."""
    onnx = _module("onnx")
    if isinstance(kind, onnx.TensorProto):
        return tuple(kind.dims), onnx.helper.tensor_dtype_to_np_dtype(kind.data_type)
    if kind is None or not kind.elem_type:
        return None, np.dtype("float32")
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    if not kind.HasField("shape"):
        return None, dtype
    lengths = (d.dim_value if d.HasField("dim_value") else _OPEN for d in kind.shape.dim)
    return tuple(lengths), dtype


def _onnx_others(node: Any, known: Mapping[str, Any], x: np.ndarray) -> Arrays:
    return tuple(_onnx_other(node, known, x, name) for name in node.input[1:])


def _onnx_other(node: Any, known: Mapping[str, Any], x: np.ndarray, name: str) -> Any:
    onnx = _module("onnx")
    if not name:
        return None
    if isinstance(known.get(name), onnx.TensorProto):
        return onnx.numpy_helper.to_array(known[name])
    if node.op_type == "MaxUnpool" and name == node.input[1]:
        y = jax.eval_shape(functools.partial(onnx_front.run_node, node), x, x.astype(np.int32))[0]
        return np.random.default_rng(1).permutation(y.size)[: x.size].reshape(x.shape)
    raise Unchecked(f"its input {name!r} is not in the file")


def _onnxruntime(model: Any, node: Any, *inputs: Any) -> Arrays:
    """The node as a model of its own."""
    onnx, runtime = _module("onnx"), _module("onnxruntime")
    types = [
        (name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array)
        for name, array in zip(node.input, inputs, strict=True)
        if name
    ]
    given = [onnx.helper.make_tensor_value_info(name, kind, a.shape) for name, kind, a in types]
    kinds = (types[0][1], onnx.TensorProto.INT64)
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
    return tuple(session.run(None, {name: array for name, _, array in types}))


# --- OpenVINO -------------------------------------------------------------------------------------

_PRECISIONS = {
    "FP64": "float64", "FP32": "float32", "FP16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I8": "int8", "U8": "uint8",
}  # fmt: skip


def _openvino_nodes(path: str) -> Iterator[Node | Refusal]:
    for element in openvino_front.layer_elements("port", path):
        kind = element.get("type", "")
        if "pool" in kind.lower():
            try:
                yield _openvino_node(openvino_front.layer_of("port", element))
            except (NotImplementedError, ValueError) as error:
                yield Refusal(element.get("name", ""), kind, str(error))


def _openvino_node(layer: openvino_front.Layer) -> Node:
    adaptive = layer.type.startswith("Adaptive")
    arguments = ["x", str(_output_lengths(layer))] if adaptive else ["x"]
    results = "y, indices" if layer.function.__name__.startswith(_WITH_INDICES) else "y"
    return Node(
        layer.name,
        layer.type,
        layer.input_shapes[0] if layer.input_shapes else None,
        jnp.dtype(_PRECISIONS.get(layer.precision, "float32")),
        f"{results} = jaxpool.compat.openvino.{_call(layer.function, arguments, layer.words)}",
        None if adaptive else layer.windows_over,
        lambda x: (_output_lengths(layer),) if adaptive else (),
        functools.partial(openvino_front.run_layer, layer),
        functools.partial(_openvino, layer),
    )


_WITH_INDICES = ("max_pool_v8", "max_pool_v14", "adaptive_max_pool")


def _output_lengths(layer: openvino_front.Layer) -> tuple[int, ...]:
    """Of the pooled axes of an adaptive pool; the file holds them in the shape of its result."""
    lengths = layer.output_shapes[0][2:] if layer.output_shapes else (_OPEN,)
    if _OPEN in lengths:
        raise ValueError(
            message(
                "port",
                f"the output shape of {layer.type} is open.",
                "The length of each pooled axis of its result must be known.",
                "Reshape the model to static shapes with OpenVINO.",
            )
        )
    return lengths


def _openvino(layer: openvino_front.Layer, x: np.ndarray, *sizes: Any) -> Arrays:
    """The layer as a model of its own."""
    runtime = _module("openvino")
    opset = importlib.import_module(f"openvino.opset{layer.version}")
    array = opset.parameter(list(x.shape), x.dtype)
    constants = [opset.constant(np.array(size, np.int64)) for size in sizes]
    name = "".join(f"_{c.lower()}" if c.isupper() else c for c in layer.type).lstrip("_")
    words = dict(layer.words)
    if "index_element_type" in words:
        words["index_element_type"] = "i32"  # its CPU kernels do not give all operations 64 bits
    operation = getattr(opset, name)(array, *constants, **words)
    model = runtime.Model(operation.outputs(), [array], "layer")
    compiled = runtime.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return tuple(compiled([x]).values())


# A new kind of file is one row here.
READERS = {
    ".onnx": Reader(_onnx_nodes, "ONNX Runtime", "onnxruntime"),
    ".xml": Reader(_openvino_nodes, "OpenVINO", "openvino"),
}
