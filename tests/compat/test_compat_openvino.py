"""``jaxpool.compat.openvino`` against the installed OpenVINO and against its recorded runs.

The tests compare values, indices and refusals of random operations of every version, valid and
invalid, with NaN, infinities and ties. A batch of operations is one OpenVINO model. Some operations
are not drawn, because the front end is exact or refuses:

* 64-bit and 32-bit integers in averages, and large ones in maxima (the CPU plugin narrows, wraps or
  averages in float32);
* negative pads and strides, whose size arithmetic wraps in OpenVINO, and empty axes.
"""

import functools
import inspect
from typing import Any

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
    assert_agrees,
    generator,
    run,
    same,
)
from golden import CASES, read, recorded_runs
from helpers import QUICK, assert_same, permutation
from peers import require

from jaxpool.compat import openvino as front

pytestmark = pytest.mark.grid(4)

openvino: Any = require("openvino")

VERSIONS = {
    "max_pool_v1": ("opset1", "max_pool"),
    "max_pool_v8": ("opset8", "max_pool"),
    "max_pool_v14": ("opset14", "max_pool"),
    "avg_pool_v1": ("opset1", "avg_pool"),
    "avg_pool_v14": ("opset14", "avg_pool"),
    "avg_pool_v16": ("opset16", "avg_pool"),
    "adaptive_avg_pool_v8": ("opset8", "adaptive_avg_pool"),
    "adaptive_max_pool_v8": ("opset8", "adaptive_max_pool"),
}
F32 = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": "1", "NUM_STREAMS": "1"}
CORE = openvino.Core()


# --- drawing --------------------------------------------------------------------------------------


def draw(seed: int) -> Case:
    rng = generator("openvino front end", seed)
    names = list(VERSIONS)
    name = names[rng.choice(len(names), p=[0.1, 0.15, 0.25, 0.1, 0.1, 0.16, 0.07, 0.07])]
    count = int(rng.choice([1, 1, 2, 2, 2, 3]))
    lead = tuple(int(n) for n in rng.permutation([1, 2, 3])[:2])
    if name.startswith("adaptive"):
        shape = (*lead, *rng.permutation(np.arange(1, 10))[:count])
        words: dict[str, Any] = {"output_shape": rng.integers(1, 7, count).tolist()}
        if "max" in name:
            words["index_element_type"] = "i32"  # the CPU plugin has no i64 indices here
        return Case(name, (array(rng, shape, special="max" in name and rng.random() < 0.5),), words)
    return draw_window(rng, name, count, lead)


def draw_window(rng: np.random.Generator, name: str, count: int, lead: tuple[int, ...]) -> Case:
    auto_pad = str(rng.choice(["explicit"] * 3 + ["valid", "same_upper", "same_lower"]))
    kernel = rng.permutation(np.arange(1, 6 if count < 3 else 5))[:count]
    dilated = name in ("max_pool_v8", "max_pool_v14", "avg_pool_v16") and rng.random() < 0.6
    dilation = rng.integers(1, 4, count) if dilated else kernel * 0 + 1
    span = (kernel - 1) * dilation + 1
    # Also pads of a window and more, which are ignored unless explicit.
    top = kernel + 2 if rng.random() < 0.2 else kernel
    low, high = rng.integers(0, top), rng.integers(0, top)
    if rng.random() < 0.3:
        low, high = kernel * 0, kernel * 0
    used = (low, high) if auto_pad == "explicit" else (0, 0)
    size = np.maximum(span - sum(used) + rng.integers(0, 7, count) - (rng.random() < 0.1), 1)
    if auto_pad.startswith("same"):
        size = rng.permutation(np.arange(1, 9))[:count]
    strides = rng.permutation(np.arange(1, 5))[:count]
    # taps on elements -1 and 3 of three
    if dilated and auto_pad == "explicit" and rng.random() < 0.2:
        kernel[0], dilation[0], low[0], high[0], size[0] = 2, 4, 1, 1, 3
    words: dict[str, Any] = {"strides": strides.tolist()}
    if name in ("max_pool_v8", "max_pool_v14", "avg_pool_v16"):
        words["dilations"] = dilation.tolist()
    words |= {"pads_begin": low.tolist(), "pads_end": high.tolist()}
    words["kernel_shape"] = kernel.tolist()
    if name.startswith("avg"):
        words["exclude_pad"] = bool(rng.random() < 0.5)
    words["rounding_type"] = str(rng.choice(["floor", "ceil", "ceil_torch"]))
    if words["rounding_type"] == "ceil_torch" and not name.endswith(("14", "16")):
        words["rounding_type"] = "ceil" if rng.random() < 0.9 else "ceil_torch"
    words["auto_pad"] = auto_pad
    dtype, special = "float32", False
    if name.startswith("max"):
        special = rng.random() < 0.5
        if not special:
            dtype = str(rng.choice(["float32", "float32", "int8", "uint8"]))
        if name != "max_pool_v1":
            words["index_element_type"] = str(rng.choice(["i64", "i32"]))
            words["axis"] = int(rng.integers(-count - 2, count + 2 + (rng.random() < 0.05)))
    else:
        dtype = str(rng.choice(["float32", "float32", "float16", "int8", "uint8"]))
    if rng.random() < 0.05:
        fault = str(rng.choice(["strides", "kernel_shape", *(["dilations"] * dilated)]))
        words[fault] = [0, *words[fault][1:]]
    return Case(name, (array(rng, (*lead, *size), dtype, special),), words)


# --- OpenVINO -------------------------------------------------------------------------------------


def build(case: Case) -> tuple[Any, Any] | Refused:
    """Return the parameter and the operation of a case."""
    opset, name = VERSIONS[case.function]
    x, words = case.data()[0], dict(case.words)
    module = getattr(openvino, opset)
    parameter = module.parameter(list(x.shape), x.dtype)
    if "output_shape" in words:
        words["output_shape"] = module.constant(np.array(words["output_shape"], np.int64))
    try:
        return parameter, getattr(module, name)(parameter, **words)
    except RuntimeError as error:
        return Refused(error)


def run_openvino(cases: list[Case]) -> list[Outcome]:
    """Run all operations in one model; every other case has only values, by another kernel."""
    built: list[Any] = [build(case) for case in cases]
    legal = [n for n, pair in enumerate(built) if not isinstance(pair, Refused)]
    parameters = [built[n][0] for n in legal]
    results, owners = [], []
    for n in legal:
        results += built[n][1].outputs()
        owners += [n] * len(built[n][1].outputs())
    model = openvino.Model(results, parameters, "pools")
    request = CORE.compile_model(model, "CPU", F32).create_infer_request()
    found = request.infer([cases[n].data()[0] for n in legal])
    answers: list[Any] = [[] if n in legal else built[n] for n in range(len(cases))]
    for owner, output in zip(owners, found.values(), strict=True):
        answers[owner].append(np.array(output))
    return [tuple(a) if isinstance(a, list) else a for a in answers]


def ulps(case: Case) -> float:
    """Return the tolerance: sums may have any order."""
    return 4 if "avg" in case.function else 0


@pytest.mark.grid(16)
@pytest.mark.parametrize("number", SHARE)
def test_random_operations_give_what_openvino_gives(number: int) -> None:
    cases = [draw(number * BATCH + n) for n in range(BATCH)]
    for case, ours, theirs in zip(cases, run(front, cases), run_openvino(cases), strict=True):
        assert_agrees(case, ours, theirs, ulps(case))


def test_the_draws_reach_every_operation_and_every_answer() -> None:
    cases = [draw(seed) for seed in range(500)]
    assert {case.function for case in cases} == set(VERSIONS)
    words = [case.words for case in cases]
    for name, value in (("auto_pad", "same_lower"), ("auto_pad", "valid"), ("exclude_pad", True),
                        ("rounding_type", "ceil"), ("rounding_type", "ceil_torch")):  # fmt: skip
        assert sum(w.get(name) == value for w in words) >= 40, (name, value)
    answers = run_openvino(cases[:300])
    assert 15 <= sum(isinstance(answer, Refused) for answer in answers) <= 90
    lowest = np.finfo(np.float32).min
    numbers = [a[0] for a in answers if not isinstance(a, Refused)]
    assert sum((a == lowest).any() for a in numbers if a.dtype == np.float32) >= 10
    assert sum(np.isnan(a.astype(float)).any() for a in numbers) >= 5


# --- recorded runs --------------------------------------------------------------------------------

WRAPS = "OpenVINO's size arithmetic wraps for negative pads; the front end refuses them"
NARROW = "the CPU plugin wraps sums of 32 bits, or averages in float32; the front end is exact"
BFLOAT = "OpenVINO has no indices of bfloat16 data; the front end pools it by the same rule"

# (case, system) -> why the front end differs from the recorded run.
OTHERWISE = {
    ("err_negative_pads", "openvino_cpu"): WRAPS,
    ("err_negative_pads", "openvino_reference"): WRAPS,
    ("avg_int32_sum_overflow", "openvino_cpu_v1"): NARROW,
    ("avg_int32_sum_overflow", "openvino_cpu_v14"): NARROW,
    ("avg_int32_sum_overflow", "openvino_cpu_v16"): NARROW,
    ("avg_int32_above_2_24", "openvino_cpu_v1"): NARROW,
    ("avg_int32_above_2_24", "openvino_cpu_v14"): NARROW,
    ("avg_int32_above_2_24", "openvino_cpu_v16"): NARROW,
    ("max_bfloat16_basic", "openvino_cpu"): BFLOAT,
}
SYSTEMS = ("openvino_cpu", "openvino_cpu_values_only", "openvino_reference", "openvino_cpu_v1",
           "openvino_cpu_v14", "openvino_cpu_v16")  # fmt: skip


def recorded_call(case: dict[str, Any], system: str) -> tuple[str, dict[str, Any]]:
    """Return the function and its arguments after the array."""
    attrs = case["attrs"]
    if case["op"].startswith("adaptive"):
        return f"{case['op']}_pool_v8", {"output_shape": attrs["output_size"]}
    words = {name: attrs[name] for name in ("strides", "pads_begin", "pads_end")}
    words |= {"kernel_shape": attrs["kernel"], "auto_pad": attrs["auto_pad"]}
    words["rounding_type"] = attrs["rounding"]
    if case["op"] == "max_pool":
        words |= {"dilations": attrs["dilations"], "axis": attrs.get("ov_axis", 0)}
        return "max_pool_v14", words
    words["exclude_pad"] = not attrs["include_pad"]
    if system.endswith("v16"):
        words["dilations"] = attrs["dilations"]
    return f"avg_pool_{system.rpartition('_')[2]}", words


@pytest.mark.grid(16)
@pytest.mark.parametrize(("name", "system"), list(recorded_runs(*SYSTEMS)))
def test_recorded_runs(name: str, system: str) -> None:
    case = CASES[name]
    function, words = recorded_call(case, system)
    call = functools.partial(getattr(front, function), **words)
    agrees = agrees_with_record(call, read(case["x"]), case["runs"][system])
    assert agrees == ((name, system) not in OTHERWISE)


# --- layers of a model ----------------------------------------------------------------------------


def serialized(cases: list[Case], path: Any) -> None:
    """Write a model of the cases, which are all valid."""
    pairs: list[Any] = [build(case) for case in cases]
    outputs = [output for _, operation in pairs for output in operation.outputs()]
    model = openvino.Model(outputs, [parameter for parameter, _ in pairs], "pools")
    openvino.serialize(model, path / "model.xml", path / "model.bin")


def test_layers_of_a_model_that_openvino_wrote(tmp_path: Any) -> None:
    cases: list[Case] = []
    for seed in range(500):
        case = draw(seed)
        known = [other.function for other in cases]
        shapes = [other.data()[0].shape for other in cases]
        new = known.count(case.function) < 2 and case.data()[0].shape not in shapes
        if new and not isinstance(build(case), Refused):
            cases.append(case)
    serialized(cases, tmp_path)
    layers = front.model_layers(tmp_path / "model.xml")
    assert len(layers) == len(cases) == 2 * len(VERSIONS)
    by_shape = {layer.input_shapes[0]: layer for layer in layers}
    for case, expected in zip(cases, run(front, cases), strict=True):
        (x,), words = case.data(), dict(case.words)
        layer = by_shape[x.shape]
        assert layer.function.__name__ == case.function
        inputs = [x]
        if "output_shape" in words:
            inputs.append(words.pop("output_shape"))
        if "axis" in words:  # OpenVINO writes the axis counted from the front
            words["axis"] %= x.ndim
        pads = {"pads_begin", "pads_end"} if words.get("auto_pad", "explicit") != "explicit" else ()
        for word in set(layer.arguments) - set(pads):  # OpenVINO writes zeros for pads not in use
            assert np.ravel(layer.arguments[word]).tolist() == np.ravel(words[word]).tolist()
        assert not isinstance(expected, Refused)
        call = lambda x, layer=layer, more=inputs[1:]: front.run_layer(layer, x, *more)  # noqa: E731
        got = jax.jit(call, compiler_options=QUICK)(x)
        for mine, other in zip(got, expected, strict=True):
            assert same(np.asarray(mine), other)


LAYER = """<layer id="1" name="pool" type="AvgPool" version="opset1">
<data kernel="2,3" strides="2,1" pads_begin="0,1" pads_end="0, 0" exclude-pad="false"
auto_pad="explicit" rounding_type="ceil"/></layer>"""


def test_a_layer_as_text() -> None:
    x = jnp.arange(30.0).reshape(1, 1, 5, 6)
    (y,) = front.run_layer(LAYER, x)
    expected = front.avg_pool_v1(x, (2, 1), (0, 1), (0, 0), (2, 3), False, "ceil")
    assert (y == expected).all()


BOMB = '<!DOCTYPE net [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;">]><net version="11">&b;</net>'
FILES = {
    "no XML": (b"\\x00\\x01", ValueError, "not XML"),
    "cut short": (b'<net version="11"><layers><layer type="MaxPool"', ValueError, "truncated"),
    "entities": (BOMB.encode(), ValueError, "declares a document type, 'net'"),
    "entities in UTF-16": (BOMB.encode("utf-16"), ValueError, "document type"),
    "other XML": (b"<html/>", ValueError, "not an OpenVINO model"),
    "old": (b'<net version="6"/>', ValueError, "version '6'"),
    "version": (
        b'<net version="11"><layer type="MaxPool" version="extension"/></net>',
        NotImplementedError,
        "type 'MaxPool' in 'extension' is not a pooling layer",
    ),
    "attribute": (
        f'<net version="11">{LAYER.replace("auto_pad", "pad_mode")}</net>'.encode(),
        NotImplementedError,
        "attribute 'pad_mode'",
    ),
    "number": (
        f'<net version="11">{LAYER.replace("2,3", "2,x")}</net>'.encode(),
        ValueError,
        "attribute `kernel` = '2,x' of layer 'pool' cannot be read",
    ),
    "no kernel": (
        f'<net version="11">{LAYER.replace("kernel=", "exclude_pad=")}</net>'.encode(),
        ValueError,
        "cannot be read|no attribute `kernel_shape`",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_no_model(name: str, tmp_path: Any) -> None:
    text, kind, words = FILES[name]
    (tmp_path / "model.xml").write_bytes(text)
    with pytest.raises(kind, match=words) as caught:
        front.model_layers(tmp_path / "model.xml")
    assert len(str(caught.value).splitlines()) == 3


# --- the words ------------------------------------------------------------------------------------

X = jnp.zeros((1, 2, 6, 7))
PADS = {"pads_begin": (0, 0), "pads_end": (0, 0), "kernel_shape": (2, 2)}
WRONG = {
    "stride": (front.max_pool_v1, {"strides": (0, 1)}, ValueError, "`strides` contains 0"),
    "kernel": (front.max_pool_v1, {"kernel_shape": (2,)}, ValueError, "has 1 entry"),
    "int": (front.max_pool_v1, {"kernel_shape": 2}, TypeError, "is not a sequence"),
    "dilation": (front.max_pool_v8, {"dilations": (1, 0)}, ValueError, "`dilations` contains 0"),
    "negative": (front.max_pool_v1, {"pads_end": (0, -1)}, ValueError, "`pads_end` contains -1"),
    "rounding": (front.max_pool_v8, {"rounding_type": "ceil_torch"}, ValueError, "are floor, ceil"),
    "auto_pad": (front.max_pool_v14, {"auto_pad": "SAME"}, ValueError, "`auto_pad` = 'SAME'"),
    "no auto_pad": (front.max_pool_v14, {"auto_pad": ""}, ValueError, "`auto_pad` = '' is not"),
    "axis": (front.max_pool_v14, {"axis": 4}, ValueError, "`axis` = 4 is not an axis"),
    "axis before": (front.max_pool_v8, {"axis": -5}, ValueError, "`axis` = -5 is not an axis"),
    "type": (front.max_pool_v14, {"index_element_type": "f32"}, ValueError, "i64, i32"),
    "fit": (front.max_pool_v14, {"kernel_shape": (7, 1)}, ValueError, "does not fit pooled axis 0"),
    "flag": (front.avg_pool_v14, {"exclude_pad": 1}, TypeError, "`exclude_pad` = 1 is not a bool"),
    "padding": (
        front.avg_pool_v16,
        {"exclude_pad": True, "pads_end": (2, 0)},
        ValueError,
        "the padding .* contains a full window",
    ),
    "batch": (front.max_pool_v1, {"data": X[:0]}, ValueError, "No axis may be empty"),
}


def test_a_traced_output_shape_is_named() -> None:
    pool = jax.jit(lambda shape: front.adaptive_avg_pool_v8(X, shape))
    with pytest.raises(TypeError, match="^adaptive_avg_pool_v8: `output_shape` contains .* is not"):
        pool(jnp.array([2, 3]))


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_in_the_words_of_openvino(name: str) -> None:
    function, fault, kind, text = WRONG[name]
    data = next(iter(inspect.signature(function).parameters))
    words: dict[str, Any] = {data: X, "strides": (1, 1)} | PADS
    if function in (front.max_pool_v8, front.max_pool_v14):
        words["dilations"] = (1, 1)
    if function is front.avg_pool_v14:
        words["exclude_pad"] = True
    with pytest.raises(kind, match=text) as caught:
        function(**(words | fault))
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize("adaptive", [False, True])
def test_an_index_that_does_not_fit_is_in_the_words_of_openvino(adaptive: bool) -> None:
    settings = {"output_shape": (2, 2)} if adaptive else {"strides": (1, 1), "dilations": (1, 1)}
    function = front.adaptive_max_pool_v8 if adaptive else front.max_pool_v14
    settings |= {} if adaptive else PADS
    pool = functools.partial(function, index_element_type="i32", **settings)
    with pytest.raises(ValueError, match="wider `index_element_type`"):
        jax.eval_shape(pool, jax.ShapeDtypeStruct((1, 1, 2**16, 2**16), np.float32))


def test_strings_may_have_any_case() -> None:
    """As in OpenVINO's Python functions."""
    x = permutation((1, 2, 6, 7), np.float32, np.random.default_rng(0))
    words: dict[str, Any] = {"strides": (2, 2), "dilations": (1, 1)} | PADS
    spellings: dict[str, Any] = {
        "rounding_type": "Ceil_Torch",
        "auto_pad": "SAME_LOWER",
        "index_element_type": "I64",
    }
    lower: dict[str, Any] = {name: text.lower() for name, text in spellings.items()}
    for mine, theirs in zip(
        front.max_pool_v14(x, **words, **spellings),
        front.max_pool_v14(x, **words, **lower),
        strict=True,
    ):
        assert_same(mine, theirs, "any case")
    parameter = openvino.opset14.parameter([1, 2, 6, 7], np.float32)
    operation = openvino.opset14.max_pool(parameter, **words, **spellings)
    assert operation.get_attributes()["auto_pad"] == "same_lower"


@pytest.mark.parametrize("name", ["max_pool_v1", "max_pool_v8", "max_pool_v14", "avg_pool_v14"])
@pytest.mark.parametrize("auto_pad", ["explicit", "same_upper"])
def test_pads_without_entries_are_no_padding(name: str, auto_pad: str) -> None:
    """AvgPool-16 is left out: with such pads OpenVINO 2026.4 ends the process."""
    x = permutation((1, 2, 6, 7), np.float32, np.random.default_rng(0))
    words: dict[str, Any] = {"strides": (2, 1), "kernel_shape": (2, 3), "auto_pad": auto_pad}
    if name in ("max_pool_v8", "max_pool_v14"):
        words["dilations"] = (1, 2)
    if name == "avg_pool_v14":
        words["exclude_pad"] = False
    opset, operator = VERSIONS[name]
    parameter = getattr(openvino, opset).parameter([1, 2, 6, 7], np.float32)
    for pads in ({"pads_begin": [], "pads_end": (1, 2)}, {"pads_begin": (1, 2), "pads_end": []}):
        operation = getattr(getattr(openvino, opset), operator)(parameter, **words, **pads)
        model = openvino.Model(operation.outputs(), [parameter], "pool")
        theirs = CORE.compile_model(model, "CPU", F32)([x])[0]
        mine = getattr(front, name)(x, **words, **pads)
        assert_same(mine[0] if isinstance(mine, tuple) else mine, theirs, name, ulps=1)


def test_signatures_are_those_of_openvino() -> None:
    for mine, (opset, theirs) in VERSIONS.items():
        own = inspect.signature(getattr(front, mine)).parameters
        other = inspect.signature(getattr(getattr(openvino, opset), theirs)).parameters
        assert [*own] == [*other]
        for name in [*other][1:]:
            default = "explicit" if name == "auto_pad" else other[name].default
            assert own[name].default == default, (mine, name)


def test_an_empty_adaptive_result() -> None:
    x = jnp.ones((2, 3, 5))
    for size in (0, -1):
        assert front.adaptive_avg_pool_v8(x, [size]).shape == (2, 3, 0)
        assert front.adaptive_max_pool_v8(x, np.array([size]))[1].shape == (2, 3, 0)
