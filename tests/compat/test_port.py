"""``python -m jaxpool port``: models, their calls, and files that are no models."""

import ast
import math
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from peers import require

import jaxpool
from jaxpool.__main__ import main
from jaxpool._port.text import identifiers, literal

onnx: Any = require("onnx")
onnxruntime: Any = require("onnxruntime")
openvino: Any = require("openvino")

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
# Pooling operations of each network, counted by hand in its paper or by a viewer.
NETWORKS = {
    "bvlc_alexnet": 3, "densenet121": 5, "inception_v1": 14, "inception_v2": 13, "resnet50": 2,
    "shufflenet": 5, "squeezenet": 4, "vgg19": 5, "zfnet512": 3,
}  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["port", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def onnx_file(
    path: Path, nodes: list[Any], shape: Any = (2, 3, 9, 11), rank: int = 4, **words: Any
) -> str:
    make = onnx.helper
    x = make.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
    y = make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [f"y{n}" for n in range(rank)])
    graph = make.make_graph(nodes, "pools", [x], [y], **words)
    opsets = [make.make_opsetid("", 22), make.make_opsetid("com.microsoft", 1)]
    onnx.save(make.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return str(path)


@pytest.mark.grid(9)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_networks_that_onnx_ships_agree(name: str, capsys: Any) -> None:
    status, out, _ = run(capsys, str(LIGHT / f"light_{name}.onnx"), "--check")
    assert out.endswith(f"\n{NETWORKS[name]} of {NETWORKS[name]} agree with ONNX Runtime "
                        f"{version('onnxruntime')}\n")  # fmt: skip
    assert status == 0


def pasted(out: str, x: Any) -> list[Any]:
    """Return the results of the printed calls for ``x``."""
    found = []
    for line in re.findall(r"^  (y.* = jaxpool\..*)$", out, re.MULTILINE):
        names: dict[str, Any] = {"jaxpool": jaxpool, "x": x}
        exec(line, names)
        found.append(names["y"])
    return found


def test_calls_of_an_onnx_model_can_be_pasted(tmp_path: Path, capsys: Any) -> None:
    make = onnx.helper.make_node
    nodes = [
        make("MaxPool", ["x"], ["m", "i"], kernel_shape=[2, 3], ceil_mode=1, strides=[2, 3],
             name="first"),
        make("MaxUnpool", ["m", "i"], ["u"], kernel_shape=[2, 3], strides=[2, 3]),
        make("AveragePool", ["x"], ["a"], kernel_shape=[3, 2], pads=[1, 0, 2, 1]),
        make("LpPool", ["x"], ["l"], kernel_shape=[3, 2], p=3, auto_pad="SAME_LOWER"),
        make("GlobalAveragePool", ["x"], ["y"]),
    ]  # fmt: skip
    path = onnx_file(tmp_path / "m.onnx", nodes, ("batch", 3, 9, 11))
    status, out, _ = run(capsys, path, "--check")
    assert status == 0 and "5 of 5 agree" in out
    assert "float32 (batch, 3, 9, 11)" in out
    assert "11 elements, padding (0, 0), overhang 1: 4 windows over 3 elements each" in out
    x = jnp.arange(2 * 3 * 9 * 11.0).reshape(2, 3, 9, 11) % 37
    unpooling = "  y = jaxpool.compat.onnx.max_unpool(x, i, kernel_shape=(2, 3), strides=(2, 3))\n"
    assert unpooling in out
    shapes = [y.shape for y in pasted(out.replace(unpooling, ""), x)]
    assert shapes == [(2, 3, 5, 4), (2, 3, 10, 11), (2, 3, 9, 11), (2, 3, 1, 1)]


def test_a_constant_may_be_pooled(tmp_path: Path, capsys: Any) -> None:
    numbers = np.arange(2 * 5, dtype=np.float32).reshape(1, 2, 5)
    held = onnx.numpy_helper.from_array(numbers, "held")
    node = onnx.helper.make_node("MaxPool", ["held"], ["y"], kernel_shape=[2])
    status, out, _ = run(capsys, onnx_file(tmp_path / "m.onnx", [node], rank=3, initializer=[held]),
                         "--check")  # fmt: skip
    assert status == 0 and "float32 (1, 2, 5)" in out


def test_nodes_inside_a_branch_are_found(tmp_path: Path, capsys: Any) -> None:
    make, info = onnx.helper, onnx.helper.make_tensor_value_info
    inner = make.make_graph(
        [make.make_node("MaxPool", ["x"], ["z"], kernel_shape=[2, 2], name="inside")],
        "branch", [], [info("z", onnx.TensorProto.FLOAT, (2, 3, 8, 10))],
    )  # fmt: skip
    yes = make.make_tensor("yes", onnx.TensorProto.BOOL, (), [True])
    choice = make.make_node("If", ["yes"], ["y"], then_branch=inner, else_branch=inner)
    path = onnx_file(tmp_path / "m.onnx", [choice], initializer=[yes])
    status, out, _ = run(capsys, path, "--check")
    assert status == 0 and "2 of 2 agree" in out


def test_nodes_of_a_function_and_of_its_branches_are_found(tmp_path: Path, capsys: Any) -> None:
    """Once, in place of the calls, whose names may contain "pool" as well."""
    make = onnx.helper
    inner = make.make_graph(
        [make.make_node("GlobalMaxPool", ["a"], ["z"], name="in a branch")],
        "branch", [], [make.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None)],
    )  # fmt: skip
    body = [
        make.make_node("Greater", ["a", "a"], ["yes"]),
        make.make_node("If", ["yes"], ["b"], then_branch=inner, else_branch=inner),
        make.make_node("MaxPool", ["b"], ["c"], kernel_shape=[1, 1], name="in a function"),
    ]
    opset = make.make_opsetid("", 22)
    function = make.make_function("own", "pool_twice", ["a"], ["c"], body, [opset])
    nodes = [
        make.make_node("pool_twice", ["x"], ["h"], domain="own"),
        make.make_node("pool_twice", ["h"], ["y"], domain="own"),
    ]
    model = onnx.load(onnx_file(tmp_path / "m.onnx", nodes))
    model.functions.append(function)
    model.opset_import.append(make.make_opsetid("own", 1))
    onnx.save(model, tmp_path / "m.onnx")
    status, out, _ = run(capsys, str(tmp_path / "m.onnx"))
    assert status == 0 and "pooling operations: 3\n" in out
    assert out.count("in a branch: GlobalMaxPool") == 2 and "in a function: MaxPool" in out


def test_norms_of_many_elements_agree(tmp_path: Path, capsys: Any) -> None:
    """A runtime that adds 4,096 squares in sequence loses bits, unless the sums are exact."""
    node = onnx.helper.make_node("LpPool", ["x"], ["y"], kernel_shape=[64, 64])
    status, out, _ = run(capsys, onnx_file(tmp_path / "m.onnx", [node], (1, 2, 64, 64)), "--check")
    assert status == 0 and "1 of 1 agree" in out, out


def test_channels_may_be_last(tmp_path: Path, capsys: Any) -> None:
    """The windows are those of the axes between batch and channels."""
    tensors = [onnx.numpy_helper.from_array(np.float32(0.1), "s"),
               onnx.numpy_helper.from_array(np.uint8(3), "z")]  # fmt: skip
    node = onnx.helper.make_node(
        "QLinearAveragePool", [*"xszsz"], ["y"], domain="com.microsoft", channels_last=1,
        kernel_shape=[4, 5], strides=[2, 3],
    )  # fmt: skip
    for shape in ((2, 9, 11, 3), ("n", 9, "w", 3), ("n", "h", "w", "c")):
        path = onnx_file(tmp_path / "m.onnx", [node], shape, initializer=tensors)
        model = onnx.load(path)
        for tensor in (*model.graph.input, *model.graph.output):
            tensor.type.tensor_type.elem_type = onnx.TensorProto.UINT8
        onnx.save(model, path)
        status, out, _ = run(capsys, path, "--check")
        assert status == 0 and "1 of 1 agree" in out, out
        windows = [line for line in out.splitlines() if line.startswith("  axis ")]
        if shape[2] == 11:
            assert [line.partition(",")[0].split()[1:3] for line in windows] == [
                ["1", "9"], ["2", "11"],
            ]  # fmt: skip


def test_constants_may_be_numbers(tmp_path: Path, capsys: Any) -> None:
    make = onnx.helper.make_node
    nodes = [
        make("Constant", [], ["scale"], value_float=0.1),
        make("Constant", [], ["shape"], value_ints=[2, 3, 10, 12]),
        make("QLinearAveragePool", ["q", "scale", "zero", "scale", "zero"], ["a"],
             domain="com.microsoft", kernel_shape=[2, 3]),
        make("MaxPool", ["x"], ["m", "i"], kernel_shape=[2, 2], strides=[2, 2]),
        make("MaxUnpool", ["m", "i", "shape"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]  # fmt: skip
    numbers = np.arange(40, dtype=np.int8).reshape(1, 2, 4, 5)
    path = onnx_file(tmp_path / "m.onnx", nodes, (2, 3, 10, 12),
                     initializer=[onnx.numpy_helper.from_array(numbers, "q"),
                                  onnx.numpy_helper.from_array(np.int8(3), "zero")])  # fmt: skip
    status, out, _ = run(capsys, path, "--check")
    assert status == 0 and "3 of 3 agree" in out, out


OPEN_UNPOOLINGS = {
    "batch": (("n", 3, 4, 5), [1, 3, 8, 15]),
    "channels and a pooled axis": ((2, "c", "h", 5), [2, 4, 8, 15]),
    "every axis": (("n", "c", "h", "w"), [1, 4, 62, 66]),
}


@pytest.mark.parametrize("name", OPEN_UNPOOLINGS)
def test_open_lengths_of_an_unpooling_fit_its_constant_shape(
    name: str, tmp_path: Path, capsys: Any
) -> None:
    shape, result = OPEN_UNPOOLINGS[name]
    node = onnx.helper.make_node("MaxUnpool", ["x", "i", "s"], ["y"], kernel_shape=[2, 3],
                                 strides=[2, 3])  # fmt: skip
    constant = onnx.numpy_helper.from_array(np.array(result), "s")
    path = unpooling(tmp_path / "m.onnx", node, shape, constant)
    status, out, _ = run(capsys, path, "--check")
    assert status == 0 and "1 of 1 agree" in out, out


@pytest.mark.parametrize("result", [[1, 3, 8], [1, 3, 0, 15], [1, -3, 8, 15], [1, 3, 1, 15]])
def test_a_constant_shape_that_no_unpooling_has(
    result: list[int], tmp_path: Path, capsys: Any
) -> None:
    node = onnx.helper.make_node("MaxUnpool", ["x", "i", "s"], ["y"], kernel_shape=[2, 3],
                                 strides=[2, 3])  # fmt: skip
    constant = onnx.numpy_helper.from_array(np.array(result), "s")
    path = unpooling(tmp_path / "m.onnx", node, ("n", 3, "h", 5), constant)
    status, out, _ = run(capsys, path)
    assert status == 1 and "rejected: " in out, out


def unpooling(path: Path, node: Any, shape: tuple[Any, ...], constant: Any) -> str:
    make = onnx.helper
    x = make.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
    i = make.make_tensor_value_info("i", onnx.TensorProto.INT64, shape)
    y = make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, list("abcd"))
    graph = make.make_graph([node], "g", [x, i], [y], [constant])
    opset = make.make_opsetid("", 22)
    onnx.save(make.make_model(graph, opset_imports=[opset], ir_version=10), path)
    return str(path)


def test_an_omitted_output_may_be_named(tmp_path: Path, capsys: Any) -> None:
    """By an empty name, as ONNX allows."""
    node = onnx.helper.make_node("MaxPool", ["x"], ["y", ""], kernel_shape=[2, 2])
    status, out, _ = run(capsys, onnx_file(tmp_path / "m.onnx", [node]), "--check")
    assert status == 0 and "1 of 1 agree" in out, out


def test_what_cannot_be_expressed_is_named(tmp_path: Path, capsys: Any) -> None:
    make = onnx.helper.make_node
    rois = onnx.helper.make_tensor("rois", onnx.TensorProto.FLOAT, (1, 5), np.zeros(5))
    nodes = [
        make("MaxRoiPool", ["x", "rois"], ["r"], pooled_shape=[2, 2], name="regions"),
        make("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], name="windows"),
    ]
    status, out, _ = run(capsys, onnx_file(tmp_path / "m.onnx", nodes, initializer=[rois]))
    assert status == 1
    assert "regions: MaxRoiPool\n  cannot be expressed:\n  'ai.onnx.MaxRoiPool' is no" in out
    assert "windows: MaxPool\n  float32 (2, 3, 9, 11)" in out


def test_a_difference_fails(tmp_path: Path, capsys: Any) -> None:
    """ONNX Runtime pads SAME for the undilated kernel, against the standard."""
    node = onnx.helper.make_node(
        "MaxPool", ["x"], ["y"], kernel_shape=[3, 3], dilations=[2, 2], auto_pad="SAME_UPPER"
    )
    path = onnx_file(tmp_path / "m.onnx", [node])
    assert run(capsys, path)[0] == 0
    status, out, _ = run(capsys, path, "--check")
    assert status == 1 and "0 of 1 agree" in out and "  differs: " in out


def test_a_tensor_that_a_node_reads_twice(tmp_path: Path, capsys: Any) -> None:
    node = onnx.helper.make_node(
        "QLinearGlobalAveragePool", [*"xszsz"], ["y"], domain="com.microsoft", channels_last=1
    )
    scale = onnx.numpy_helper.from_array(np.float32(0.1), "s")
    zero = onnx.numpy_helper.from_array(np.uint8(3), "z")
    path = onnx_file(tmp_path / "m.onnx", [node], initializer=[scale, zero])
    model = onnx.load(path)
    for tensor in (*model.graph.input, *model.graph.output):
        tensor.type.tensor_type.elem_type = onnx.TensorProto.UINT8
    onnx.save(model, path)
    status, out, _ = run(capsys, path, "--check")
    assert status == 0 and "1 of 1 agree" in out


def test_results_and_inputs_whose_shapes_the_file_leaves_out(tmp_path: Path, capsys: Any) -> None:
    """onnx's checker asks for them, ONNX Runtime does not."""
    path = onnx_file(tmp_path / "m.onnx", [pool_node()])
    model = onnx.load(path)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(model, path)
    status, out, _ = run(capsys, path, "--check")
    assert status == 0 and "1 of 1 agree" in out
    model.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(model, path)
    status, out, _ = run(capsys, path)
    assert status == 0 and "float32 array of unknown shape" in out
    onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    model.graph.node[0].op_type = ""
    onnx.save(model, path)
    assert "is not an ONNX model" in run(capsys, path)[2]


def test_shapes_may_be_left_out_beside_sequences(tmp_path: Path, capsys: Any) -> None:
    """A sequence is no tensor, so the check adds no shape to its type."""
    make = onnx.helper
    nodes = [
        pool_node(),
        make.make_node("SequenceAt", ["s", "i"], ["z"]),
        make.make_node("SequenceConstruct", ["z"], ["t"]),
    ]
    model = onnx.load(onnx_file(tmp_path / "m.onnx", nodes[:1]))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    model.graph.node.extend(nodes[1:])
    floats, integers = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    model.graph.input.append(make.make_tensor_sequence_value_info("s", floats, (2, 3)))
    model.graph.input.append(make.make_tensor_value_info("i", integers, ()))
    model.graph.output.append(make.make_tensor_sequence_value_info("t", floats, (2, 3)))
    path = str(tmp_path / "m.onnx")
    onnx.save(model, path)
    onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    status, out, _ = run(capsys, path, "--check")
    assert status == 0 and "1 of 1 agree" in out, out


def test_a_shape_that_the_file_leaves_out(tmp_path: Path, capsys: Any) -> None:
    make = onnx.helper.make_node
    nodes = [
        make("NonZero", ["x"], ["where"]),  # one column per number of x that is not 0
        make("Slice", ["where", "from", "to"], ["some"]),
        make("Gather", ["some", "from"], ["row"]),
        make("Reshape", ["row", "minus one"], ["lengths"]),
        make("Reshape", ["x", "lengths"], ["z"]),
        make("MaxPool", ["z"], ["y"], kernel_shape=[2]),
    ]
    ends = [
        onnx.helper.make_tensor(name, onnx.TensorProto.INT64, (1,), [value])
        for name, value in (("from", 0), ("to", 3), ("minus one", -1))
    ]
    path = onnx_file(tmp_path / "m.onnx", nodes, rank=3, initializer=ends)
    assert run(capsys, path)[0] == 0
    status, out, _ = run(capsys, path, "--check")
    assert status == 1 and "not checked: the file does not give the shape of its array" in out
    node = make("MaxPool", ["x"], ["y"], kernel_shape=[2])
    path = onnx_file(tmp_path / "m.onnx", [node], (1, 1, 2**30), rank=3)
    status, out, _ = run(capsys, path, "--check")
    assert status == 1 and "is too large to try" in out


def test_an_array_of_which_the_file_says_nothing(tmp_path: Path, capsys: Any) -> None:
    """Shape inference stops at an operator that is unknown to the onnx package."""
    make = onnx.helper.make_node
    nodes = [
        make("Gelu", ["x"], ["z"], domain="com.microsoft"),
        make("MaxPool", ["z"], ["y"], kernel_shape=[2, 2]),
    ]
    status, out, _ = run(capsys, onnx_file(tmp_path / "m.onnx", nodes), "--check")
    assert status == 1 and "not checked: the file does not give the shape of its array" in out
    assert "\n  array of unknown shape and dtype\n" in out


def test_where_shape_inference_stopped_is_named(tmp_path: Path, capsys: Any) -> None:
    """Also from much earlier, through a branch, and not by a later operator."""
    make, info = onnx.helper, onnx.helper.make_tensor_value_info
    inner = make.make_graph(
        [make.make_node("MaxPool", ["r"], ["b"], kernel_shape=[2, 2])],
        "branch", [], [info("b", onnx.TensorProto.FLOAT, None)],
    )  # fmt: skip
    nodes = [
        make.make_node("Gelu", ["x"], ["g"], domain="com.microsoft"),
        make.make_node("QuickGelu", ["g"], ["q"], domain="com.microsoft"),
        make.make_node("Add", ["x", "q"], ["r"]),
        make.make_node("If", ["yes"], ["y"], then_branch=inner, else_branch=inner),
        make.make_node("GlobalMaxPool", ["x"], ["z"]),
    ]
    yes = make.make_tensor("yes", onnx.TensorProto.BOOL, (), [True])
    status, out, _ = run(
        capsys, onnx_file(tmp_path / "m.onnx", nodes, initializer=[yes]), "--check"
    )
    named = "the shape of its array; onnx infers no shapes after com.microsoft.Gelu\n"
    assert status == 1 and out.count(named) == 2 and "1 of 3 agree" in out


def openvino_file(path: Path, shape: Any = (2, 3, 9, 11)) -> str:
    op = openvino.opset14
    x = op.parameter(shape, np.float32, name="x")
    each = [2, 3], [1, 2], [1, 0], [0, 2], [3, 2]
    layers = [
        op.max_pool(x, *each, "ceil_torch", "explicit", "i32", 2),
        openvino.opset8.max_pool(x, *each, "ceil"),
        openvino.opset1.max_pool(x, [2, 3], [0, 0], [0, 0], [3, 2], "floor", "same_lower"),
        op.avg_pool(x, [2, 3], [1, 0], [0, 1], [3, 2], True, "floor"),
        openvino.opset1.avg_pool(x, [2, 3], [1, 0], [0, 2], [3, 2], False, "ceil"),
        op.adaptive_avg_pool(x, op.constant(np.array([4, 5]))),
        op.adaptive_max_pool(x, op.constant(np.array([4, 5])), "i64"),
    ]
    model = openvino.Model([out for layer in layers for out in layer.outputs()], [x], "pools")
    openvino.serialize(model, path / "m.xml", path / "m.bin")
    return str(path / "m.xml")


def test_calls_of_an_openvino_model_can_be_pasted(tmp_path: Path, capsys: Any) -> None:
    path = openvino_file(tmp_path)
    (tmp_path / "m.bin").unlink()  # no weights are read
    status, out, _ = run(capsys, path, "--check")
    assert status == 0 and "7 of 7 agree with OpenVINO" in out
    x = jnp.arange(2 * 3 * 9 * 11.0).reshape(2, 3, 9, 11) % 37
    shapes = sorted(y.shape[2:] for y in pasted(out, x))
    assert shapes == sorted([(5, 4), (5, 5), (5, 4), (4, 4), (5, 5), (4, 5), (4, 5)])


@pytest.mark.parametrize("dtype", [np.float64, np.uint16, np.uint64])
def test_other_precisions_of_openvino_agree(dtype: Any, tmp_path: Path, capsys: Any) -> None:
    """OpenVINO adds 64 bits in 32 bits, as jaxpool does while JAX's 64-bit types are off."""
    op = openvino.opset14
    x = op.parameter((2, 3, 9, 11), dtype)
    pool = op.avg_pool(x, [2, 3], [1, 0], [0, 1], [3, 2], True, "floor")
    maximum = op.max_pool(x, [2, 3], [1, 2], [1, 0], [0, 2], [3, 2])
    outputs = [*pool.outputs(), *maximum.outputs()]
    openvino.serialize(openvino.Model(outputs, [x], "m"), tmp_path / "m.xml", tmp_path / "m.bin")
    status, out, _ = run(capsys, str(tmp_path / "m.xml"), "--check")
    assert status == 0 and "2 of 2 agree" in out, out


def test_bfloat16_layers_of_openvino_agree(tmp_path: Path, capsys: Any) -> None:
    op = openvino.opset14
    x = op.parameter((2, 3, 9, 11), openvino.Type.bf16)
    lengths = op.constant(np.array([4, 5]))
    pools = [
        op.avg_pool(x, [2, 3], [1, 0], [0, 1], [3, 2], True, "floor"),
        op.max_pool(x, [2, 3], [1, 2], [1, 0], [0, 2], [3, 2]),
        op.adaptive_avg_pool(x, lengths),
        op.adaptive_max_pool(x, lengths, "i64"),
    ]
    outputs = [output for pool in pools for output in pool.outputs()]
    openvino.serialize(openvino.Model(outputs, [x], "m"), tmp_path / "m.xml", tmp_path / "m.bin")
    status, out, _ = run(capsys, str(tmp_path / "m.xml"), "--check")
    assert status == 0 and "4 of 4 agree" in out, out


def test_a_rank_that_openvino_leaves_open(tmp_path: Path, capsys: Any) -> None:
    x = openvino.opset14.parameter(openvino.PartialShape.dynamic(), np.float32)
    pool = openvino.opset14.avg_pool(x, [2, 2], [0, 0], [0, 0], [3, 2], True)
    openvino.serialize(
        openvino.Model(pool.outputs(), [x], "m"), tmp_path / "m.xml", tmp_path / "m.bin"
    )
    status, out, _ = run(capsys, str(tmp_path / "m.xml"), "--check")
    assert status == 1 and "\n  float32 array of unknown shape\n" in out
    assert "not checked: the file does not give the shape of its array" in out


LAUGHS = '<!DOCTYPE net [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><net version="11">&b;</net>'
ESCAPE = '<!DOCTYPE net [<!ENTITY a SYSTEM "file:///etc/hostname">]><net version="11">&a;</net>'
LAYER = '<net version="11"><layers><layer name="p" type="MaxPool" version="opset1">{}</layer></layers></net>'  # fmt: skip  # noqa: E501
NO_MODELS = {
    "suffix.pt": (b"", "does not end in .onnx or .xml"),
    "empty.onnx": (b"", "is not an ONNX model, or is truncated"),
    "text.onnx": (b"this is not a model", "is not an ONNX model, or is truncated"),
    "noise.onnx": (bytes(np.random.default_rng(0).integers(0, 256, 4096, np.uint8)), "truncated"),
    "cut.onnx": ((LIGHT / "light_squeezenet.onnx").read_bytes()[:-1000], "truncated"),
    "empty.xml": (b"", "is not XML, or it is truncated"),
    "laughs.xml": (LAUGHS.encode(), "declares a document type"),
    "escape.xml": (ESCAPE.encode(), "declares a document type"),
    "page.xml": (b"<html></html>", "is not an OpenVINO model"),
    "cut.xml": (LAYER.format("<data kernel=").encode(), "truncated"),
}


@pytest.mark.parametrize("name", NO_MODELS)
def test_files_that_are_no_models(name: str, tmp_path: Path, capsys: Any) -> None:
    content, message = NO_MODELS[name]
    (tmp_path / name).write_bytes(content)
    status, out, error = run(capsys, str(tmp_path / name))
    assert status == 1 and out == "" and message in error
    assert len(error.splitlines()) == 3


def test_a_file_that_is_not_there(tmp_path: Path, capsys: Any) -> None:
    for name in ("m.onnx", "m.xml"):
        status, out, error = run(capsys, str(tmp_path / name))
        assert status == 1 and out == "" and name in error
        what, facts, advice = error.splitlines()
        assert what.endswith(" cannot be read.")
        assert facts == "  The system says: No such file or directory."
        assert "path of an ONNX file" in advice


@pytest.mark.parametrize("data", ["", '<data kernel="2" strides="x"/>', '<data kernel="2"/>'])
def test_a_layer_that_is_not_whole_is_named(data: str, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "m.xml").write_text(LAYER.format(data))
    status, out, _ = run(capsys, str(tmp_path / "m.xml"))
    assert status == 1 and "p: MaxPool\n  cannot be expressed:\n  " in out


POOL_16 = """<net version="11"><layers><layer name="p" type="AvgPool" version="opset16">
<data kernel="3,2" strides="2,1" pads_begin="1,0" pads_end="1,1" exclude-pad="true"{}/>
<input><port id="0" precision="FP32"><dim>1</dim><dim>2</dim><dim>9</dim><dim>8</dim></port></input>
</layer></layers></net>"""


@pytest.mark.parametrize("dilations", ["", ' dilations=""', ' dilations="1,2"'])
def test_dilations_that_the_file_leaves_out(dilations: str, tmp_path: Path, capsys: Any) -> None:
    """OpenVINO writes them as "" if they are left out, and crashes if it gets none."""
    (tmp_path / "m.xml").write_text(POOL_16.format(dilations))
    status, out, error = run(capsys, str(tmp_path / "m.xml"), "--check")
    assert (status, error) == (0, "") and "1 of 1 agree" in out, out


def test_an_output_of_another_rank_is_named(tmp_path: Path, capsys: Any) -> None:
    dims = "<dim>2</dim><dim>3</dim><dim>4</dim>"
    text = LAYER.replace("MaxPool", "AdaptiveAvgPool").replace("opset1", "opset8").format(
        f"<input><port id='0' precision='FP32'>{dims}<dim>5</dim></port></input>"
        f"<output><port id='1'>{dims}</port></output>"
    )  # fmt: skip
    (tmp_path / "m.xml").write_text(text)
    status, out, _ = run(capsys, str(tmp_path / "m.xml"), "--check")
    assert status == 1 and "The input has 4 axes, the output has 3." in out, out


def test_the_name_of_an_operator_forges_no_line(tmp_path: Path, capsys: Any) -> None:
    custom = onnx.helper.make_node("Foo\n\n3 of 3 agree", ["x"], ["z"], domain="my")
    model = onnx.load(onnx_file(tmp_path / "m.onnx", [custom, pool_node("p", "z")]))
    model.opset_import.append(onnx.helper.make_opsetid("my", 1))
    onnx.save(model, tmp_path / "m.onnx")
    _, out, _ = run(capsys, str(tmp_path / "m.onnx"), "--check")
    assert r"infers no shapes after my.Foo\n\n3 of 3 agree" in out
    assert not any(line.startswith("3 of 3") for line in out.splitlines())


def test_unpooling_into_a_larger_result_is_checked(tmp_path: Path, capsys: Any) -> None:
    """The indices count in the shape that the window implies."""
    node = onnx.helper.make_node("MaxUnpool", ["x", "i", "s"], ["y"], name="p",
                                 kernel_shape=[2, 2], strides=[2, 2])  # fmt: skip
    constant = onnx.numpy_helper.from_array(np.array([1, 1, 6, 4]), "s")
    path = unpooling(tmp_path / "m.onnx", node, (1, 1, 2, 2), constant)
    status, out, _ = run(capsys, path, "--check")
    assert status == 0 and "1 of 1 agree" in out, out


def test_operators_of_onnx_runtime_are_quantised(tmp_path: Path, capsys: Any) -> None:
    node = pool_node()
    node.domain = "com.microsoft"
    status, out, _ = run(capsys, raw_onnx(tmp_path / "m.onnx", node))
    assert status == 1 and "'com.microsoft.MaxPool' is not a pooling operator." in out, out


def test_a_path_out_of_the_folder_is_refused(tmp_path: Path, capsys: Any) -> None:
    weight = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, (1, 5), np.zeros(5))
    weight.ClearField("float_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    entry = weight.external_data.add()
    entry.key, entry.value = "location", "../../../../etc/hostname"
    node = onnx.helper.make_node("GlobalMaxPool", ["x"], ["y"])
    path = onnx_file(tmp_path / "m.onnx", [node], initializer=[weight])
    status, out, error = run(capsys, path)
    assert status == 1 and out == "" and "points outside the directory" in error


def test_weights_in_a_file_beside_the_model(tmp_path: Path, capsys: Any) -> None:
    """The result does not depend on the working directory."""
    weight = onnx.numpy_helper.from_array(np.arange(600, dtype=np.float32), "w")
    node = onnx.helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])
    path = onnx_file(tmp_path / "inside.onnx", [node], initializer=[weight])
    outside = str(tmp_path / "outside.onnx")
    onnx.save(
        onnx.load(path), outside, save_as_external_data=True, location="w.data", size_threshold=0
    )
    assert (tmp_path / "w.data").exists()
    status, out, error = run(capsys, outside, "--check")
    assert (status, error) == (0, "") and "max_pool(" in out
    (tmp_path / "w.data").unlink()
    status, out, error = run(capsys, outside)
    what, facts, advice = error.splitlines()
    assert (status, out) == (1, "") and what.endswith("has weights in a file that is missing.")
    assert "w.data" in facts and advice == "  Put it beside the model."


def test_a_model_that_is_newer_than_the_reader(tmp_path: Path, capsys: Any) -> None:
    node = onnx.helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])
    model = onnx.load(onnx_file(tmp_path / "m.onnx", [node]))
    model.ir_version = 1000
    onnx.save(model, tmp_path / "m.onnx")
    status, out, error = run(capsys, str(tmp_path / "m.onnx"))
    assert (status, out) == (1, "") and "is newer than the onnx package.\n" in error
    assert error.endswith("  Install a newer onnx.\n")


@pytest.mark.parametrize(
    ("operator", "element", "shape", "text"),
    [
        ("GlobalAveragePool", 6, (2, 3, 9, 11), "`x` has dtype int32"),
        ("GlobalLpPool", 3, (2, 3, "h", "w"), "`x` has dtype int8"),
        ("GlobalMaxPool", 1, (3, 9), "`x` has 2 axes"),
        ("GlobalMaxPool", 1, (2, 0, 9), "`x` has shape (2, 0, 9)"),
        ("AveragePool", 3, (2, 3, 9, 11), "`x` has dtype int8"),
        ("MaxPool", 1, (2, 3, 4, 4, 4, 4), "`x` has 6 axes"),
    ],
)
def test_an_array_that_the_call_rejects_is_named_without_a_check(
    operator: str, element: int, shape: Any, text: str, tmp_path: Path, capsys: Any
) -> None:
    words = {} if "Global" in operator else {"kernel_shape": [2] * (len(shape) - 2)}
    node = onnx.helper.make_node(operator, ["x"], ["y"], name="p", **words)
    path = raw_onnx(tmp_path / "m.onnx", node, element=element, shape=shape)
    status, out, error = run(capsys, path)
    assert (status, error) == (1, "") and f"  rejected: run_node: {text}" in out, out + error
    assert "jaxpool.compat" not in out


# --- malicious files ------------------------------------------------------------------------------


def raw_onnx(path: Path, *nodes: Any, element: int = 1, shape: Any = (2, 3, 9, 11)) -> str:
    """Write a file without running onnx's checker; return its path."""
    make = onnx.helper
    x = make.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)
    x.type.tensor_type.elem_type = element
    y = make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, list("abcd"))
    graph = make.make_graph(nodes, "pools", [x], [y])
    opsets = [make.make_opsetid("", 22), make.make_opsetid("com.microsoft", 1)]
    onnx.save(make.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return str(path)


def pool_node(name: str = "p", x: str = "x", y: str = "y") -> Any:
    return onnx.helper.make_node("MaxPool", [x], [y], kernel_shape=[2, 2], name=name)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable onnx's checker, since other versions may detect fewer faults."""
    monkeypatch.setattr(onnx.checker, "check_model", lambda model: None)
    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", lambda model, **words: model)


def test_a_node_without_inputs_is_refused(tmp_path: Path, capsys: Any) -> None:
    node = onnx.helper.make_node("QLinearAveragePool", [], ["y"], domain="com.microsoft",
                                 kernel_shape=[2, 2])  # fmt: skip
    status, out, error = run(capsys, raw_onnx(tmp_path / "m.onnx", node), "--check")
    assert status == 1 and "the node has 0 inputs and 1 outputs" in out and error == ""


@pytest.mark.usefixtures("unchecked")
def test_a_node_without_outputs_is_refused(tmp_path: Path, capsys: Any) -> None:
    node = onnx.helper.make_node("GlobalMaxPool", ["x"], [])
    status, out, _ = run(capsys, raw_onnx(tmp_path / "m.onnx", node))
    assert status == 1 and "the node has 1 inputs and 0 outputs" in out


@pytest.mark.usefixtures("unchecked")
def test_a_constant_without_attributes_is_passed_over(tmp_path: Path, capsys: Any) -> None:
    nodes = [onnx.helper.make_node("Constant", [], ["c"]), pool_node()]
    status, out, _ = run(capsys, raw_onnx(tmp_path / "m.onnx", *nodes))
    assert status == 0 and "p: MaxPool\n  float32 (2, 3, 9, 11)" in out


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_element_type_is_refused(tmp_path: Path, capsys: Any) -> None:
    status, out, _ = run(capsys, raw_onnx(tmp_path / "m.onnx", pool_node(), element=99))
    assert status == 1 and "cannot be expressed:\n  element type 99 is not known" in out


@pytest.mark.usefixtures("unchecked")
def test_a_tensor_that_cannot_be_read_is_not_checked(tmp_path: Path, capsys: Any) -> None:
    short = onnx.TensorProto(
        name="i", data_type=onnx.TensorProto.INT64, dims=(2, 3, 9, 11), raw_data=bytes(16)
    )
    node = onnx.helper.make_node("MaxUnpool", ["x", "i"], ["y"], kernel_shape=[2, 2])
    path = onnx_file(tmp_path / "m.onnx", [node], initializer=[short])
    status, out, _ = run(capsys, path, "--check")
    assert status == 1 and "not checked: its input 'i' cannot be read" in out


@pytest.mark.parametrize("declared", ["no-such-encoding", "utf-7", "idna", "EUC-JP"])
def test_an_xml_encoding_that_cannot_be_read(declared: str, tmp_path: Path, capsys: Any) -> None:
    text = f'<?xml version="1.0" encoding="{declared}"?><net version="11"></net>'
    (tmp_path / "m.xml").write_bytes(text.encode())
    status, out, error = run(capsys, str(tmp_path / "m.xml"))
    assert status == 1 and out == "" and "is not XML, or it is truncated" in error


@pytest.mark.parametrize("number", ["opset99999999999999999999", "opset\u0661\u0664", "opset"])
def test_an_opset_that_is_no_number(number: str, tmp_path: Path, capsys: Any) -> None:
    layer = f'<layer name="p" type="MaxPool" version="{number}"/>'
    (tmp_path / "m.xml").write_text(f'<net version="11">{layer}</net>', "utf-8")
    status, out, _ = run(capsys, str(tmp_path / "m.xml"))
    assert status == 1 and "is not a pooling layer" in out


def test_an_unknown_precision_is_refused(tmp_path: Path, capsys: Any) -> None:
    data = 'kernel="2" strides="2" pads_begin="0" pads_end="0"'
    port = '<input><port precision="Q4"><dim>1</dim><dim>1</dim><dim>4</dim></port></input>'
    (tmp_path / "m.xml").write_text(LAYER.format(f"<data {data}/>{port}"))
    status, out, _ = run(capsys, str(tmp_path / "m.xml"))
    assert status == 1 and "precision 'Q4' is not known" in out


HOSTILE = (
    "/pool/out",
    "__import__('os').system('true')",
    "1 of 1 agree\n1 of 1 agree with ONNX Runtime 9",
    "\x1b[2J\x1b]0;title\x07",
    "\u202eright to left\u2028",
    "lambda",
    "jaxpool",
    "\u0445",  # Cyrillic: looks like x
    "i" * 5000,
)


def test_an_error_that_quotes_a_file_is_safe_to_print(tmp_path: Path, capsys: Any) -> None:
    make = onnx.helper
    for name in HOSTILE[:5]:
        node = make.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], domain=name)
        x, y = (make.make_tensor_value_info(n, onnx.TensorProto.FLOAT, "abcd") for n in "xy")
        graph = make.make_graph([node], "g", [x], [y])
        onnx.save(make.make_model(graph, ir_version=10), tmp_path / "m.onnx")
        status, out, error = run(capsys, str(tmp_path / "m.onnx"))
        assert status == 1 and out == "" and "No opset import for domain" in error
        assert all(c == "\n" or c.isprintable() for c in error)
        assert len(error.splitlines()) == 3
    (tmp_path / "m.xml").write_text("<a\u202eb\u009b/>", "utf-8")
    status, _, error = run(capsys, str(tmp_path / "m.xml"))
    assert status == 1 and all(c == "\n" or c.isprintable() for c in error)


def test_names_are_safe_to_print_and_to_paste(tmp_path: Path, capsys: Any) -> None:
    for name in HOSTILE:
        nodes = [pool_node(name, y="m"),
                 onnx.helper.make_node("MaxUnpool", ["m", name], ["y"], kernel_shape=[2, 2],
                                       name="unpool")]  # fmt: skip
        info = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, (2, 3, 8, 10))
        make = onnx.helper
        x = make.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (2, 3, 9, 11))
        y = make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, list("abcd"))
        graph = make.make_graph(nodes, "g", [x, info], [y])
        onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 22)],
                                  ir_version=10), tmp_path / "m.onnx")  # fmt: skip
        status, out, error = run(capsys, str(tmp_path / "m.onnx"))
        assert status == 0 and error == ""
        assert all(
            c == "\n" or (c.isprintable() and c.isascii()) for c in out.replace("\u0445", "")
        )
        (call,) = re.findall(r"^  y = (.*)$", out, re.MULTILINE)
        tensor = ast.parse(call, mode="eval").body.args[1]  # pyright: ignore
        assert isinstance(tensor, ast.Name) and tensor.id not in ("jaxpool", "x"), name
        assert f"  # {tensor.id} is the tensor " in out
        assert len(max(out.splitlines(), key=len)) < 6000
        assert "1 of 1 agree" not in out.splitlines()


def test_an_open_length_has_its_name_only_if_that_is_an_identifier(
    tmp_path: Path, capsys: Any
) -> None:
    for name in (*HOSTILE, "H / 2", "8", None):
        path = onnx_file(tmp_path / "m.onnx", [pool_node()], ("N", 3, name, 11))
        status, out, _ = run(capsys, path)
        shown = name if name in ("lambda", "jaxpool") else "?"
        assert status == 0 and f"  float32 (N, 3, {shown}, 11)\n" in out
        assert all(c == "\n" or (c.isprintable() and c.isascii()) for c in out)
        assert "1 of 1 agree" not in out


def test_a_length_that_onnx_infers_has_no_name(tmp_path: Path, capsys: Any) -> None:
    nodes = [pool_node(y="m"), pool_node(x="m")]
    _, out, _ = run(capsys, onnx_file(tmp_path / "m.onnx", nodes, ("N", 3, "H", 11)))
    assert "  float32 (N, 3, H, 11)\n" in out and "  float32 (N, 3, ?, 10)\n" in out


def test_names_of_layers_and_attributes_are_safe_to_print(tmp_path: Path, capsys: Any) -> None:
    name = "p&#10;5 of 5 agree with OpenVINO&#x9b;31m"
    layer = f'<layer name="{name}" type="MaxPool" version="opset1"><data \u0441="&#10;x"/></layer>'
    (tmp_path / "m.xml").write_text(f'<net version="11">{layer}</net>', "utf-8")
    status, out, _ = run(capsys, str(tmp_path / "m.xml"))
    assert status == 1 and "\x9b" not in out
    assert not any(line.startswith("5 of 5") for line in out.splitlines())


def test_different_tensors_have_different_identifiers() -> None:
    names = ["a/b", "a.b", "", "a_b", "a/b", "x", "None", "9", "", "__class__"]
    found = identifiers(names)
    assert found[0] == found[4] and found[2] == found[8] == ""
    assert found[3] != "a_b" or found[0] != "a_b"
    assert len(set(found)) == len(set(names))
    assert all(name.isidentifier() and not name.startswith("__") for name in found if name)
    assert "x" not in found and "None" not in found


def test_an_infinite_attribute_can_be_pasted() -> None:
    assert eval(literal((float("inf"), -float("inf"), 2, "a"))) == (math.inf, -math.inf, 2, "a")
    assert eval(literal((2,))) == (2,)


WORK = {
    "a large window": ({"kernel_shape": [1024, 1024]}, (1, 1, 4096, 4096)),
    "a large result": ({"kernel_shape": [1, 1], "pads": [0] * 4}, (1, 1, 2**14, 2**14)),
}


@pytest.mark.parametrize("name", WORK)
def test_a_check_has_a_bound_on_work(name: str, tmp_path: Path, capsys: Any) -> None:
    words, shape = WORK[name]
    node = onnx.helper.make_node("AveragePool", ["x"], ["y"], **words)
    path = raw_onnx(tmp_path / "m.onnx", node, shape=shape)
    status, out, _ = run(capsys, path, "--check")
    assert status == 1 and "0 of 1 agree" in out and "not checked: " in out and "to try" in out


def test_unpooling_to_anywhere_is_not_tried(tmp_path: Path, capsys: Any) -> None:
    for words in ({"strides": [2**20, 2**20]}, {}):
        shape = onnx.helper.make_tensor("s", onnx.TensorProto.INT64, (4,), [2, 3, 2**40, 2**40])
        inputs = ["x", "i"] if words else ["x", "i", "s"]
        node = onnx.helper.make_node("MaxUnpool", inputs, ["y"], kernel_shape=[2, 2], **words)
        info = onnx.helper.make_tensor_value_info("i", onnx.TensorProto.INT64, (2, 3, 9, 11))
        make = onnx.helper
        x = make.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (2, 3, 9, 11))
        y = make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, list("abcd"))
        graph = make.make_graph([node], "g", [x, info], [y], [shape])
        onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 22)],
                                  ir_version=10), tmp_path / "m.onnx")  # fmt: skip
        status, out, _ = run(capsys, str(tmp_path / "m.onnx"), "--check")
        assert status == 1 and ("too large to try" in out or "rejected: " in out)


def test_an_adaptive_pool_of_any_size_is_not_tried(tmp_path: Path, capsys: Any) -> None:
    size = 2**21
    dims = lambda *sizes: "".join(f"<dim>{n}</dim>" for n in (1, 1, *sizes))  # noqa: E731
    layer = (
        '<layer name="p" type="AdaptiveAvgPool" version="opset8">'
        f'<input><port precision="FP32">{dims(4, 4)}</port></input>'
        f"<output><port>{dims(size, size)}</port></output></layer>"
    )
    (tmp_path / "m.xml").write_text(f'<net version="11">{layer}</net>')
    status, out, _ = run(capsys, str(tmp_path / "m.xml"), "--check")
    assert status == 1 and f"a result of {size * size} elements is too large to try" in out
