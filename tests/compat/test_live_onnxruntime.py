"""Max and average pooling against the installed ONNX Runtime: values and indices.

The draws are limited to cases in which ONNX Runtime and jaxpool have the same rule:

* explicit padding may differ at both ends, and is less than the window (ONNX Runtime refuses more);
* the dilated window fits the padded axis (ONNX Runtime divides with truncation and also runs some
  that do not fit, jaxpool raises);
* SAME_UPPER and SAME_LOWER only without dilation and with strides up to the window: otherwise ONNX
  Runtime uses the undilated window, and does not clamp the padding at zero;
* every window of a max has a real element (only dilation can violate this): otherwise ONNX Runtime
  returns the lowest finite number and one -1 per axis, jaxpool -inf and -1. Averages of such
  windows are 0 in both, so they are drawn;
* ``ceil_mode`` is ``rounding="ceil_torch"``, or plain "ceil" if both have the same windows;
* no NaN: ONNX Runtime returns it only from the first element of a window, jaxpool always.

Models have two outputs: with one, ONNX Runtime runs another kernel, with another rule for -inf.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from compat_cases import generator
from live_configurations import (
    BATCH,
    HOLLOW,
    Answer,
    Axis,
    Configuration,
    assert_answers,
    check_batch,
    draw_axes,
    draw_lead,
    draw_lowering,
    draw_max_op,
    draw_rounding,
)
from peers import require

import jaxpool

pytestmark = pytest.mark.grid(8)

onnx: Any = require("onnx")
onnxruntime: Any = require("onnxruntime")

ONNX_TYPES = {
    "float32": onnx.TensorProto.FLOAT,
    "float64": onnx.TensorProto.DOUBLE,
    "float16": onnx.TensorProto.FLOAT16,
    "int8": onnx.TensorProto.INT8,
    "uint8": onnx.TensorProto.UINT8,
}
AUTO_PADS = ["NOTSET", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]


def draw_max(seed: int, dtype: str) -> Configuration:
    rng = generator("onnxruntime max", seed)
    op = draw_max_op(rng)
    settings = {"index_space": 0} if op == "max_pool_with_argmax" else {}
    return _draw(rng, op, dtype, settings, "channels_first", hollow=False)


def draw_average(seed: int, dtype: str) -> Configuration:
    rng = generator("onnxruntime average", seed)
    settings = {"count_include_pad": bool(rng.random() < 0.5)}
    data_format = str(rng.choice(["channels_first", "channels_last"]))
    return _draw(rng, "avg_pool", dtype, settings, data_format, hollow=True)


def _draw(
    rng: np.random.Generator,
    op: str,
    dtype: str,
    settings: dict[str, Any],
    data_format: str,
    hollow: bool,
) -> Configuration:
    auto_pad = str(rng.choice(AUTO_PADS))
    same = auto_pad.startswith("SAME")

    def accept(axis: Axis) -> bool:
        if same:
            return axis.stride <= axis.kernel
        return axis.slack >= 0 and (hollow or not axis.has_hollow_window)

    axes = draw_axes(
        rng,
        accept,
        dilated=not same and rng.random() < 0.6,
        symmetric=False,
        padded=auto_pad == "NOTSET",
    )
    explicit = tuple((axis.low, axis.high) for axis in axes)
    return Configuration(
        op=op,
        axes=axes,
        lead=draw_lead(rng, unbatched=False),
        padding=explicit if auto_pad == "NOTSET" else auto_pad,
        rounding=draw_rounding(rng, () if same else axes),  # any rounding has SAME's windows
        dtype=dtype,
        ties=bool(rng.random() < 0.5),
        seed=int(rng.integers(1_000_000)),
        data_format=data_format,
        settings=settings | draw_lowering(rng),
    )


def model(c: Configuration, opset: int) -> bytes:
    """Return a model of one node with the same call."""
    explicit = not isinstance(c.padding, str)
    words = (
        {"pads": c.per_axis("low") + c.per_axis("high")} if explicit else {"auto_pad": c.padding}
    )
    words |= {"kernel_shape": c.per_axis("kernel"), "strides": c.per_axis("stride")}
    words |= {"dilations": c.per_axis("dilation"), "ceil_mode": int(c.rounding != "floor")}
    if c.op == "avg_pool":
        kind, outputs = "AveragePool", ["y"]
        words["count_include_pad"] = int(c.settings["count_include_pad"])
    else:
        kind, outputs = "MaxPool", ["y", "indices"]
    types = dict(y=ONNX_TYPES[c.dtype], indices=onnx.TensorProto.INT64)
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(kind, ["x"], outputs, **words)],
        "pooling",
        [info("x", types["y"], c.shape)],
        [info(name, types[name], None) for name in outputs],
    )
    opsets = [onnx.helper.make_opsetid("", opset)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def run_onnxruntime(c: Configuration) -> Answer:
    """Run the call in ONNX Runtime, in the oldest or the newest opset with its attributes."""
    oldest = 19 if c.op == "avg_pool" else 12
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model(c, oldest if c.seed % 2 else 22), options, providers=["CPUExecutionProvider"]
    )
    values, *indices = session.run(None, {"x": c.data()})
    return Answer(values, indices[0] if c.op == "max_pool_with_argmax" else None)


# Float32 mostly; the other dtypes that both sides pool.
MAX_DTYPES = ["float32"] * 3 + ["float64"] + ["float16", "int8", "uint8"]
AVERAGE_DTYPES = ["float32"] * 3 + ["float16"]


@pytest.mark.parametrize(("number", "dtype"), list(enumerate(MAX_DTYPES)))
def test_max_values_and_indices_are_those_of_onnxruntime(number: int, dtype: str) -> None:
    check_batch([draw_max(number * BATCH + i, dtype) for i in range(BATCH)], run_onnxruntime)


@pytest.mark.parametrize(("number", "dtype"), list(enumerate(AVERAGE_DTYPES)))
def test_averages_are_those_of_onnxruntime(number: int, dtype: str) -> None:
    batch = [draw_average(number * BATCH + i, dtype) for i in range(BATCH)]
    check_batch(batch, run_onnxruntime, ulps=4)  # sums may have any order


# --- the draws and the comparison detect faults ---------------------------------------------------


def swapped_ends(c: Configuration) -> Configuration:
    return replace(c, axes=tuple(replace(a, low=a.high, high=a.low) for a in c.axes))


def without_dilation(c: Configuration) -> Configuration:
    return replace(c, axes=tuple(replace(a, dilation=1) for a in c.axes))


def other_rounding(c: Configuration) -> Configuration:
    return replace(c, rounding="ceil_torch" if c.rounding == "floor" else "floor")


def reversed_windows(c: Configuration) -> Configuration:
    rows = zip(c.axes, reversed(c.axes), strict=True)
    return replace(c, axes=tuple(replace(a, kernel=b.kernel, stride=b.stride) for a, b in rows))


def is_noticed(c: Configuration, fault: Callable[[Configuration], Configuration]) -> bool:
    """Return whether the comparison fails if one side runs ``c`` with the fault."""
    try:
        wrong = run_onnxruntime(fault(c))
    except Exception:  # the fault made windows that ONNX Runtime refuses
        return True
    try:
        assert_answers(c, wrong, run_onnxruntime(c))
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize(
    "fault", [swapped_ends, without_dilation, other_rounding, reversed_windows]
)
def test_a_fault_in_one_setting_is_noticed(
    fault: Callable[[Configuration], Configuration],
) -> None:
    drawn = [draw_max(seed, "float32") for seed in range(BATCH * 8)]
    explicit = [c for c in drawn if not isinstance(c.padding, str)]
    changed = [c for c in explicit if fault(c) != c]
    noticed = [c for c in changed if is_noticed(c, fault)]
    assert len(noticed) >= 15
    # The others are no faults: dilation of a window of one tap, equal windows by both roundings.
    assert fault is other_rounding or len(noticed) >= 0.75 * len(changed)


def test_the_draws_reach_every_rule() -> None:
    drawn = [draw_max(seed, "float32") for seed in range(BATCH * len(MAX_DTYPES))]
    drawn += [draw_average(seed, "float32") for seed in range(BATCH * len(AVERAGE_DTYPES))]
    assert len(drawn) >= 200
    ceil = [c for c in drawn if c.rounding != "floor"]
    reached = {
        **{f"{rank}-D": [c for c in drawn if len(c.axes) == rank] for rank in (1, 2, 3)},
        **{pad: [c for c in drawn if c.padding == pad] for pad in AUTO_PADS if pad != "NOTSET"},
        "asymmetric padding": [c for c in drawn if c.per_axis("low") != c.per_axis("high")],
        "dilation": [c for c in drawn if max(c.per_axis("dilation")) > 1],
        "a cut last window": [c for c in ceil if any(a.slack % a.stride for a in c.axes)],
        "plain ceil": [c for c in drawn if c.rounding == "ceil"],
        "excluded padding": [c for c in drawn if c.settings.get("count_include_pad") is False],
        "the reference lowering": [c for c in drawn if "implementation" in c.settings],
        "channels last": [c for c in drawn if c.data_format == "channels_last"],
    }
    assert {name: len(found) for name, found in reached.items() if len(found) < 10} == {}
    assert any(HOLLOW in c.axes for c in drawn)


def test_the_code_of_a_failure_runs_and_gives_the_same_values() -> None:
    c = next(c for c in map(lambda i: draw_average(i, "float32"), range(99)) if len(c.axes) == 3)
    assert c.data_format == "channels_last"
    *setup, call = c.code.split("\n")
    names: dict[str, Any] = {"np": np, "jaxpool": jaxpool}
    exec("\n".join(setup), names)
    got = c.from_layout(np.asarray(eval(call, names)))
    assert_answers(c, Answer(got), run_onnxruntime(c), ulps=4)
