"""``jaxpool.compat.onnx`` against ONNX Runtime, its recorded runs, and ONNX's own node tests.

The tests compare values, indices and refusals of random nodes of every operator, valid and invalid,
with NaN, infinities and ties, through ``run_node``. Max pools have two outputs: with one, ONNX
Runtime runs another kernel, with another rule for NaN and -inf. Some nodes are not drawn, because
ONNX Runtime differs from the standard, which ``compat.onnx`` follows (tests below check them):

* SAME padding with dilations, or with strides above the kernel;
* without ceil_mode, a kernel that exceeds the padded axis by less than a stride;
* ``pads`` together with ``auto_pad``.
"""

import functools
import importlib
from collections.abc import Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compat_cases import (
    BATCH,
    SHARE,
    Case,
    Outcome,
    Refused,
    agrees_with_record,
    array,
    check_batch,
    generator,
)
from golden import CASES, read, recorded_runs
from helpers import QUICK
from peers import require

from jaxpool.compat import onnx as front

pytestmark = pytest.mark.grid(8)

onnx: Any = require("onnx")
onnxruntime: Any = require("onnxruntime")

OPERATORS = [
    *["MaxPool"] * 8,
    *["AveragePool"] * 5,
    *["LpPool"] * 2,
    *["QLinearAveragePool"] * 2,
    *["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool", "MaxUnpool"],
    "QLinearGlobalAveragePool",
]


# --- drawing --------------------------------------------------------------------------------------


def draw(seed: int) -> Case:
    """Return a case of ``run_node``; its words are operator, attributes and non-array inputs.

    For a node, ``outputs`` names its outputs and ``scalars`` its further inputs.
    """
    rng = generator("onnx front end", seed)
    operator = str(rng.choice(OPERATORS))
    count = int(rng.choice([1, 1, 2, 2, 2, 3]))
    lead = tuple(int(n) for n in rng.permutation([1, 2, 3])[:2])
    if operator == "MaxUnpool":
        return draw_unpool(rng, count, lead)
    if "Global" in operator:
        shape = (*lead, *rng.permutation(np.arange(1, 8))[:count])
        words = {"p": int(rng.integers(1, 4))} if operator == "GlobalLpPool" else {}
        return node(rng, operator, shape, words)
    return draw_window(rng, operator, count, lead)


def draw_window(rng: np.random.Generator, operator: str, count: int, lead: Sequence[int]) -> Case:
    auto_pad = str(rng.choice(["NOTSET", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    wrong = rng.random()
    kernel = rng.permutation(np.arange(1, 6 if count < 3 else 5))[:count]
    quantised = operator.startswith("QLinear")
    dilated = not quantised and not auto_pad.startswith("SAME") and rng.random() < 0.5
    dilation = rng.integers(1, 4, count) if dilated else kernel * 0 + 1
    strides = rng.permutation(np.arange(1, 5))[:count]
    strides = np.minimum(strides, kernel) if auto_pad.startswith("SAME") else strides
    explicit = auto_pad == "NOTSET" and rng.random() < 0.8
    low, high = (rng.integers(0, kernel) if explicit else kernel * 0 for _ in range(2))
    ceil = int(rng.random() < 0.5)
    size = (kernel - 1) * dilation + 1 - low - high + rng.integers(0, 7, count)
    if dilated and explicit and rng.random() < 0.2:  # taps on elements -1 and 3 of three
        kernel[0], dilation[0], low[0], high[0], size[0] = 2, 4, 1, 1, 3
    if ceil and not auto_pad.startswith("SAME") and wrong > 0.9:
        size = size - (strides > 1)
    words: dict[str, Any] = {"kernel_shape": kernel.tolist(), "ceil_mode": ceil}
    if (strides > 1).any() or rng.random() < 0.5:
        words["strides"] = strides.tolist()
    if dilated:
        words["dilations"] = dilation.tolist()
    if auto_pad != "NOTSET":
        words["auto_pad"] = auto_pad
    if explicit:
        words["pads"] = [*low.tolist(), *high.tolist()]
    if operator == "MaxPool":
        words["storage_order"] = int(rng.random() < 0.3)
    if "Average" in operator:
        words["count_include_pad"] = int(rng.random() < 0.5)
    if operator == "LpPool":
        words["p"] = int(rng.integers(1, 4))
    if wrong < 0.08:
        name = str(rng.choice([name for name in words if isinstance(words[name], list)]))
        fault = [-1, 5] if name == "pads" else [0, -1]
        words[name] = [int(rng.choice(fault)), *words[name][1:]]
    return node(rng, operator, (*lead, *np.maximum(size, 1)), words)


def draw_unpool(rng: np.random.Generator, count: int, lead: Sequence[int]) -> Case:
    kernel, strides = rng.integers(1, 4, count), rng.integers(1, 4, count)
    size = rng.integers(1, 5, count)
    pads = rng.integers(0, kernel), kernel * 0
    whole = (size - 1) * strides + kernel - pads[0]
    words: dict[str, Any] = {"kernel_shape": kernel.tolist(), "strides": strides.tolist()}
    words["pads"] = [*pads[0].tolist(), *pads[1].tolist()]
    scalars = []
    if rng.random() < 0.5:
        whole = whole + rng.integers(0, 3, count) - (rng.random() < 0.1)
        if (whole < 1).any():
            return draw_unpool(rng, count, lead)
        scalars = [("int64", [*lead, *whole.tolist()])]
    shape, seed = (*lead, *map(int, size)), rng.integers(1_000_000)
    elements = int(np.prod(lead) * np.prod(whole))
    indices = f"np.random.default_rng({seed}).integers(0, {elements}, {shape})"
    words = {"operator": "MaxUnpool", "attributes": words, "outputs": 1, "scalars": scalars}
    return Case("run", (array(rng, shape), indices), words)


def node(
    rng: np.random.Generator, operator: str, shape: Sequence[Any], attributes: dict[str, Any]
) -> Case:
    words: dict[str, Any] = {"operator": operator, "attributes": attributes, "outputs": 1}
    words["scalars"] = []
    if operator.startswith("QLinear"):
        dtype = str(rng.choice(["int8", "uint8"]))
        zero = int(rng.integers(0, 9))
        scale = [float(rng.choice([0.5, 1.0, 0.75, 2.0])) for _ in range(2)]
        words["scalars"] = [("float32", scale[0]), (dtype, zero), ("float32", scale[1]), (dtype, 3)]
        return Case("run", (array(rng, shape, dtype),), words)
    if operator == "MaxPool":
        words["outputs"] = 2
        dtype = str(rng.choice(["float32"] * 5 + ["float64", "float16", "int8", "uint8"]))
        special = dtype.startswith("float") and dtype != "float16" and rng.random() < 0.5
        return Case("run", (array(rng, shape, dtype, special),), words)
    dtype = "float16" if operator == "AveragePool" and rng.random() < 0.1 else "float32"
    return Case("run", (array(rng, shape, dtype),), words)


# --- both sides -----------------------------------------------------------------------------------


def node_proto(words: dict[str, Any], inputs: int) -> Any:
    domain = "com.microsoft" if words["operator"].startswith("QLinear") else ""
    names = [f"x{n}" for n in range(inputs + len(words["scalars"]))]
    outputs = [f"y{n}" for n in range(words["outputs"])]
    make = onnx.helper.make_node
    return make(words["operator"], names, outputs, domain=domain, **words["attributes"])


class Ours:
    """The front end, which accepts nodes."""

    @staticmethod
    def run(*arrays: Any, **words: Any) -> tuple[Any, ...]:
        scalars = [np.array(value, dtype) for dtype, value in words["scalars"]]
        if words["operator"] == "MaxUnpool":
            settings = words["attributes"] | {"index_shape": "output"}
            return (front.max_unpool(*arrays, *scalars, **settings),)
        return front.run_node(node_proto(words, len(arrays)), *arrays, *scalars)


def onnx_type(dtype: Any) -> int:
    return onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def run_onnxruntime(case: Case) -> Outcome:
    """Run the node as a model, in a random opset that has the operator."""
    words, data = case.words, case.data()
    arrays = data + [np.array(value, dtype) for dtype, value in words["scalars"]]
    proto = node_proto(words, len(data))
    info = onnx.helper.make_tensor_value_info
    inputs = [
        info(name, onnx_type(a.dtype), a.shape) for name, a in zip(proto.input, arrays, strict=True)
    ]
    types = [onnx_type(data[0].dtype), onnx.TensorProto.INT64]
    outputs = [info(n, t, None) for n, t in zip(proto.output, types, strict=False)]
    graph = onnx.helper.make_graph([proto], "pooling", inputs, outputs)
    opset = 19 if "Unpool" in proto.op_type or len(case.code) % 2 else 22
    opset = 21 if proto.op_type == "GlobalLpPool" else opset  # no kernel for the newest
    opsets = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return tuple(session.run(None, dict(zip(proto.input, arrays, strict=True))))
    except Exception as error:
        assert "Could not find an implementation" not in str(error), case.code
        return Refused(error)


def ulps(case: Case) -> float:
    """Return the tolerance: sums may have any order, and roots differ in the last place."""
    operator = case.words["operator"]
    return 32 if "Lp" in operator else 4 if "Average" in operator else 0


@pytest.mark.grid(16)
@pytest.mark.parametrize("number", SHARE)
def test_random_nodes_give_what_onnxruntime_gives(number: int) -> None:
    cases = [draw(number * BATCH + n) for n in range(BATCH)]
    check_batch(Ours, cases, run_onnxruntime, ulps)  # pyright: ignore


def test_the_draws_reach_every_operator_and_every_answer() -> None:
    cases = [draw(seed) for seed in range(500)]
    assert {case.words["operator"] for case in cases} == set(front.OPERATORS)
    attributes = [case.words["attributes"] for case in cases]
    for name in ("strides", "pads", "dilations", "auto_pad", "storage_order", "p"):
        assert sum(name in words for words in attributes) >= 30, name
    answers = [run_onnxruntime(case) for case in cases[:200]]
    assert 5 <= sum(isinstance(answer, Refused) for answer in answers) <= 60
    empty = [a for a in answers if len(a) == 2 and (a[1] < 0).any()]  # pyright: ignore
    nan = [a for a in answers if not isinstance(a, Refused) and np.isnan(a[0]).any()]
    assert len(empty) >= 2 and len(nan) >= 10


# --- ONNX's own tests -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [4, 3], "strides": [1, 1]},
        {"kernel_shape": [4, 3], "strides": [5, 3], "auto_pad": "SAME_UPPER", "ceil_mode": 1},
        {"kernel_shape": [4, 3], "strides": [1, 2], "auto_pad": "VALID", "count_include_pad": 1},
        {"kernel_shape": [4, 3], "strides": [3, 4], "auto_pad": "SAME_UPPER"},
        {"kernel_shape": [4, 2], "strides": [4, 2]},
        {"kernel_shape": [4, 3], "strides": [4, 4], "pads": [1, 0, 0, 0]},
    ],
)
def test_quantised_averages_of_whole_planes(attributes: dict[str, Any]) -> None:
    """ONNX Runtime rounds these before adding an odd zero point, and others after it."""
    words = {"operator": "QLinearAveragePool", "attributes": attributes, "outputs": 1}
    words["scalars"] = [("float32", 0.5), ("uint8", 1), ("float32", 2.0), ("uint8", 3)]
    x = "np.random.default_rng(1).integers(0, 256, (40, 5, 4, 3)).astype('uint8')"
    check_batch(Ours, [Case("run", (x,), words)], run_onnxruntime)  # pyright: ignore


@pytest.mark.parametrize("shape", [[1, 2, 2, 6], [1, 2, 12, 1], [1, 2, 2, 5], [1, 1, 6, 4]])
def test_an_unpooled_axis_may_be_shorter_if_there_are_enough_elements(shape: list[int]) -> None:
    attributes = {"kernel_shape": [3, 2], "strides": [3, 1]}  # they imply (1, 2, 3, 4)
    words = {"operator": "MaxUnpool", "attributes": attributes, "outputs": 1}
    words["scalars"] = [("int64", shape)]
    x = "1 + np.arange(6, dtype='float32').reshape(1, 2, 1, 3)"
    indices = "np.array([4, 0, 19, 7, 2, 11]).reshape(1, 2, 1, 3)"
    check_batch(Ours, [Case("run", (x, indices), words)], run_onnxruntime)  # pyright: ignore


MODULES = ("maxpool", "averagepool", "lppool", "globalmaxpool", "globalaveragepool", "maxunpool")


def onnx_node_tests() -> list[Any]:
    """Return the tests of the pooling operators; importing ONNX's modules registers them."""
    package = "onnx.backend.test.case.node"
    for module in MODULES:
        importlib.import_module(f"{package}.{module}")
    cases = importlib.import_module(package)._NodeTestCases
    found = [c for c in cases if c.model.graph.node[0].op_type in front.OPERATORS]
    return [case for case in found if not case.name.endswith("_expanded")]


@pytest.mark.parametrize("part", range(8))
def test_the_node_tests_of_onnx(part: int) -> None:
    cases = onnx_node_tests()
    assert len(cases) >= 50
    cases = cases[part::8]
    inputs = [[np.asarray(a) for a in case.data_sets[0][0]] for case in cases]
    shapes = [rows[2:] for rows in inputs]  # the third input is a shape, which is static

    @jax.jit
    def program(rows: list[list[jax.Array]]) -> list[tuple]:
        return [
            front.run_node(case.model.graph.node[0], *row, *shape)
            for case, row, shape in zip(cases, rows, shapes, strict=True)
        ]

    arrays = [row[:2] for row in inputs]
    answers = program.lower(arrays).compile(QUICK)(arrays)
    for case, got in zip(cases, answers, strict=True):
        for mine, expected in zip(got, case.data_sets[0][1], strict=True):
            assert mine.shape == expected.shape, case.name
            kind = np.dtype(expected.dtype).kind
            assert np.dtype(mine.dtype).kind == kind, case.name
            np.testing.assert_allclose(mine, expected, case.rtol, case.atol, err_msg=case.name)


# --- recorded runs --------------------------------------------------------------------------------

KERNELS = "ONNX Runtime has no kernel for this dtype"
SAME = "the standard: SAME gives ceil(size / stride) windows, with pads for the dilated kernel"
ONE = "with one output ONNX Runtime runs another kernel, whose NaN rule depends on the position"

# (case, system) -> why the front end differs from the recorded run.
OTHERWISE = {
    ("max_same_upper_dil2_k3_s2_L6", "onnxruntime"): SAME,
    ("max_same_lower_dil2_k3_s2_L6", "onnxruntime"): SAME,
    ("max_same_upper_dil2_k3_s2_L6", "onnxruntime_values_only"): SAME,
    ("max_same_lower_dil2_k3_s2_L6", "onnxruntime_values_only"): SAME,
    ("max_3d_dil_same_lower", "onnxruntime"): SAME,
    ("max_3d_dil_same_lower", "onnxruntime_values_only"): SAME,
    ("avg_incl_same_upper_dil2_k3_s2_L6", "onnxruntime"): SAME,
    ("avg_incl_same_lower_dil2_k3_s2_L6", "onnxruntime"): SAME,
    ("max_same_upper_ceil_torch_L5_k1_s3", "onnxruntime_values_only"): SAME,
    ("max_bfloat16_basic", "onnxruntime"): KERNELS,
    ("max_bfloat16_basic", "onnxruntime_values_only"): KERNELS,
    ("max_int32_above_2_24", "onnxruntime"): KERNELS,
    ("max_int32_above_2_24", "onnxruntime_values_only"): KERNELS,
    ("avg_bfloat16_halves", "onnxruntime"): KERNELS,
    ("avg_bfloat16_ones_1024", "onnxruntime"): KERNELS,
    ("max_nan_first_and_mid", "onnxruntime_values_only"): ONE,
    ("max_all_nan", "onnxruntime_values_only"): ONE,
    ("max_all_neg_inf_pad1", "onnxruntime_values_only"): ONE,
}


def recorded_call(case: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the function and its arguments after the array."""
    attrs = case["attrs"]
    if case["op"] == "global_avg":
        return "global_average_pool", {}
    words = {"kernel_shape": attrs["kernel"], "strides": attrs["strides"]}
    if case["op"] == "max_unpool":
        indices = read(case["extra_inputs"]["indices"])
        shape = attrs.get("output_size")
        if shape is not None:
            words["output_shape"] = [*case["x"]["shape"][:2], *shape]
            words["index_shape"] = "output"
        return "max_unpool", {"indices": indices} | words
    words |= {"dilations": attrs["dilations"], "ceil_mode": int(attrs["rounding"] != "floor")}
    if attrs["auto_pad"] == "explicit":
        words["pads"] = [*attrs["pads_begin"], *attrs["pads_end"]]
    else:
        words["auto_pad"] = attrs["auto_pad"].upper()
    if case["op"] == "lp_pool":
        return "lp_pool", words | {"p": attrs["p"]}
    if case["op"] == "avg_pool":
        return "average_pool", words | {"count_include_pad": int(attrs["include_pad"])}
    return "max_pool", words | {"storage_order": attrs.get("storage_order", 0)}


@pytest.mark.grid(16)
@pytest.mark.parametrize(
    ("name", "system"), list(recorded_runs("onnxruntime", "onnxruntime_values_only"))
)
def test_recorded_runs(name: str, system: str) -> None:
    case = CASES[name]
    function, words = recorded_call(case)
    call = functools.partial(getattr(front, function), **words)
    agrees = agrees_with_record(call, read(case["x"]), case["runs"][system])
    assert agrees == ((name, system) not in OTHERWISE)


# --- cases that the standard decides, and the arguments -------------------------------------------


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_same_gives_the_windows_of_the_standard(auto_pad: str) -> None:
    x = jnp.arange(1.0, 8.0).reshape(1, 1, 7)
    for kernel, stride, dilation in ((1, 4, 1), (3, 2, 2), (2, 3, 3)):
        words = {"strides": (stride,), "dilations": (dilation,), "auto_pad": auto_pad}
        y, indices = front.max_pool(x, (kernel,), **words)
        assert y.shape == (1, 1, -(-7 // stride))
        # ONNX: pads = (windows - 1) * stride + dilated kernel - size, here clamped at 0.
        total = max((y.shape[2] - 1) * stride + (kernel - 1) * dilation + 1 - 7, 0)
        low = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
        taps = [[o * stride - low + t * dilation for t in range(kernel)] for o in range(y.shape[2])]
        assert indices[0, 0].tolist() == [max(q for q in window if 0 <= q < 7) for window in taps]


def test_a_kernel_that_does_not_fit_needs_ceil_mode() -> None:
    x = jnp.arange(1.0, 6.0).reshape(1, 1, 5)
    with pytest.raises(ValueError, match="`kernel_shape` = 6 does not fit pooled axis 0"):
        front.max_pool(x, (6,), strides=(2,))
    assert front.max_pool(x, (6,), strides=(2,), ceil_mode=1)[0].tolist() == [[[5]]]


X = jnp.zeros((1, 2, 6, 7))
WRONG = {
    "length": (lambda: front.max_pool(X, (2,)), ValueError, "`kernel_shape` = .* has 1 entry"),
    "int": (lambda: front.max_pool(X, cast(Any, 2)), TypeError, "`kernel_shape` = 2 is not a seq"),
    "strides": (lambda: front.lp_pool(X, (2, 2), strides=(0, 1)), ValueError, "contains 0"),
    "pads": (lambda: front.max_pool(X, (2, 2), pads=(1, 1)), ValueError, "`pads` .* 2 entries"),
    "large pads": (lambda: front.max_pool(X, (2, 2), pads=(0, 2, 0, 0)), ValueError, "not smaller"),
    "both": (
        lambda: front.max_pool(X, (2, 2), pads=(0, 1, 0, 0), auto_pad="VALID"),
        ValueError,
        "both given",
    ),
    "word": (lambda: front.max_pool(X, (2, 2), auto_pad="SAME"), ValueError, "`auto_pad` = 'SAME'"),
    "rank": (lambda: front.max_pool(X[0, 0], ()), ValueError, "`x` has 2 axes"),
    "dtype": (
        lambda: front.average_pool(X.astype(jnp.int8), (2, 2)),
        TypeError,
        "`x` has dtype int8",
    ),
    "float x": (
        lambda: front.qlinear_average_pool(X, 1, 0, 1, 0, kernel_shape=(2, 2)),
        TypeError,
        "int8 or uint8",
    ),
    "scales": (
        lambda: front.qlinear_global_average_pool(X.astype(jnp.int8), jnp.ones(2), 0, 1, 0),
        ValueError,
        r"`x_scale` has shape \(2,\)",
    ),
    "traced shape": (
        lambda: jax.jit(
            lambda s: front.max_unpool(X, X.astype(int), s, kernel_shape=(2, 2), strides=(2, 2))
        )(jnp.arange(4)),
        TypeError,
        "max_unpool: `output_shape` contains .* is not an integer",
    ),
    "order": (lambda: front.max_pool(X, (2, 2), storage_order=2), ValueError, "`storage_order` ="),
    "p": (lambda: front.lp_pool(X, (2, 2), p=0), ValueError, "`p` = 0 is out of range"),
    "small": (
        lambda: front.max_unpool(X, X.astype(int), (1, 2, 6, 13), kernel_shape=(2, 2),
                                 strides=(2, 2)),
        ValueError,
        "`output_shape` = .* too small",
    ),
    "operator": (
        lambda: front.run_node(onnx.helper.make_node("Conv", ["x"], ["y"]), X),
        NotImplementedError,
        "'ai.onnx.Conv' is not a pooling operator",
    ),
    "operator of regions": (
        lambda: front.run_node(onnx.helper.make_node("RoiAlign", ["x"], ["y"]), X),
        NotImplementedError,
        r"(?s)'ai.onnx.RoiAlign' is not a pooling operator.*Call jaxpool.roi_align",
    ),
    "name of an operator": (
        lambda: front.run_node("MaxPool", X),
        TypeError,
        "run_node: `node` = 'MaxPool' is not a node",
    ),
    "attribute": (
        lambda: front.run_node(onnx.helper.make_node("GlobalMaxPool", ["x"], ["y"], p=2), X),
        NotImplementedError,
        "GlobalMaxPool has no attribute 'p'",
    ),
    "an input as attribute": (
        lambda: front.run_node(
            onnx.helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], x=[1]), X
        ),
        NotImplementedError,
        "(?s)MaxPool has no attribute 'x'.*attributes are: auto_pad, .*, storage_order, strides\\.",
    ),
    "a parameter as attribute": (
        lambda: front.run_node(
            onnx.helper.make_node(
                "MaxUnpool", ["x", "i"], ["y"], kernel_shape=[2, 2], index_shape="output"
            ),
            X,
            X.astype(int),
        ),
        NotImplementedError,
        "(?s)no attribute 'index_shape'.*attributes are: kernel_shape, pads, strides\\.",
    ),
    "no kernel": (
        lambda: front.run_node(onnx.helper.make_node("MaxPool", ["x"], ["y"]), X),
        TypeError,
        "MaxPool cannot run with these inputs: missing a required argument: 'kernel_shape'",
    ),
    "inputs": (
        lambda: front.run_node(onnx.helper.make_node("GlobalMaxPool", ["x"], ["y"]), X, X),
        TypeError,
        "GlobalMaxPool cannot run with these inputs: too many arrays",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_in_the_words_of_onnx(name: str) -> None:
    call, kind, text = WRONG[name]
    with pytest.raises(kind, match=text) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 3


def test_nodes_of_old_opsets() -> None:
    """The first opsets have fewer attributes, and a float p."""
    make, x = onnx.helper.make_node, jnp.arange(1.0, 7.0).reshape(1, 1, 6)
    (y,) = front.run_node(make("MaxPool", ["x"], ["y"], kernel_shape=[2], strides=[2]), x)
    assert y.tolist() == [[[2, 4, 6]]]
    (y,) = front.run_node(make("LpPool", ["x"], ["y"], kernel_shape=[2], strides=[4], p=1.0), x)
    assert y.tolist() == [[[3, 11]]]
    (y,) = front.run_node(make("GlobalLpPool", ["x"], ["y"], p=1.0), x)
    assert y.tolist() == [[[21]]]


def test_channels_last_of_quantised_averages() -> None:
    x = np.random.default_rng(0).integers(-128, 128, (2, 5, 7, 3), np.int8)
    words = {"kernel_shape": (2, 3), "pads": (1, 0, 0, 1), "count_include_pad": 1}
    scales = 0.5, 3, 0.25, -2
    last = front.qlinear_average_pool(x, *scales, **words, channels_last=1)
    first = front.qlinear_average_pool(np.moveaxis(x, -1, 1), *scales, **words)
    assert (last == jnp.moveaxis(first, 1, -1)).all() and last.shape == (2, 5, 6, 3)
    whole = front.qlinear_global_average_pool(x, *scales, channels_last=1)
    assert whole.shape == (2, 1, 1, 3)
    for channels_last in (0, 1):
        with pytest.raises(ValueError, match="^qlinear_global_average_pool: `x` has 1 axis"):
            front.qlinear_global_average_pool(x[0, 0, 0], *scales, channels_last=channels_last)
