"""``jaxpool.compat.openvino`` against the installed OpenVINO and against its recorded runs.

Random operations of every version, legal and illegal ones, with NaN, infinities and ties: values,
indices and refusals. A batch of operations is one OpenVINO model. Not drawn, because the front end
is exact or refuses there:

* 64-bit and 32-bit integers in averages, and large ones in maxima (the CPU plugin narrows, wraps or
  averages in float32);
* negative pads and strides, whose size arithmetic wraps in OpenVINO, and empty axes.
"""

from typing import Any

import numpy as np
import pytest
from compat_cases import (
    BATCH,
    BATCHES,
    Case,
    Outcome,
    Refused,
    array,
    assert_agrees,
    generator,
    run,
)
from peers import require

from jaxpool.compat import openvino as front

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
    if dilated and auto_pad == "explicit" and rng.random() < 0.2:  # taps on cells -1 and 3 of three
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
    """The parameter and the operation of a case."""
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
    """All operations in one model; the values alone of every other case: another kernel."""
    built = [build(case) for case in cases]
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
    """The order of sums is free."""
    return 4 if "avg" in case.function else 0


@pytest.mark.parametrize("number", BATCHES)
def test_random_operations_give_what_openvino_gives(number: int) -> None:
    cases = [draw(number * BATCH + n) for n in range(BATCH)]
    for case, ours, theirs in zip(cases, run(front, cases), run_openvino(cases), strict=True):
        assert_agrees(case, ours, theirs, ulps(case))
