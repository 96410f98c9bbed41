"""Recorded runs of the real runtimes: every run agrees with jaxpool, or a rule explains why not.

``data/golden_cases.json`` contains the results of OpenVINO, ONNX Runtime, PyTorch, oneDNN,
TensorFlow, Keras, Flax, Haiku, Equinox and embARC MLI for the same small arrays.

The native ops follow PyTorch for explicit padding, both averages, adaptive and fractional windows
and gradients, OpenVINO for plain "ceil", SAME sizes and the axis of an index, and ONNX Runtime for
flat indices, Lp norms and unpooling. No runtime follows the native rules everywhere.
``DIFFERENCES`` names each difference, and an entry that no longer differs fails as well. The
brute-force oracle must agree with the same runs, if it has the op.
"""

import dataclasses
import fnmatch
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden import CASES, GOLDEN, agrees, read

import jaxpool
from jaxpool.testing import oracle_argmax, oracle_gradient, oracle_indices, oracle_pool

pytestmark = pytest.mark.grid(4)

# --- where jaxpool differs on purpose -------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """A native rule that some runtimes do not follow.

    Attributes:
      rule: the rule of jaxpool, and that of the others.
      runs: case id -> patterns of "system.part"; every run they match must differ.
    """

    rule: str
    runs: dict[str, str]


DIFFERENCES = (
    Difference(
        "A maximum starts from nothing, so data of -inf stay -inf and a window without an element "
        "gives -inf. Others start from the lowest finite float.",
        {
            "max_seed_ex5_plain_ceil": "openvino*.values",
            "max_same_upper_ceil_L5_k1_s3": "openvino*.values",
            "max_floor_window_in_pad_end": "openvino*.values onednn*.values",
            "max_ceil_allpad_window": "openvino*.values",
            "max_pad_ge_kernel": "openvino*.values onednn*.values",
            "max_dilation_hole_1d": "openvino*.values onnxruntime*.values onednn*.values",
            "max_dilation_hole_2d_W": "openvino*.values onnxruntime*.values onednn*.values",
            "max_all_neg_inf_pad1": "openvino*.values onnxruntime_values_only.values "
            "onednn*.values tensorflow.values",
        },
    ),
    Difference(
        "A window without an element has index -1, and 255 as a tap number. OpenVINO reports the "
        "first element of the plane, oneDNN tap 0, ONNX Runtime -1 on every axis, and PyTorch one "
        "it never read, which may lie outside the array and to which its backward writes.",
        {
            "max_seed_ex5_plain_ceil": "openvino*.indices",
            "max_same_upper_ceil_L5_k1_s3": "openvino*.indices",
            "max_floor_window_in_pad_end": "openvino*.indices onednn*.workspace",
            "max_ceil_allpad_window": "openvino*.indices",
            "max_pad_ge_kernel": "openvino*.indices onednn*.workspace",
            "max_int8_allpad_ceil": "openvino*.indices",
            "max_dilation_hole_1d": "openvino*.indices torch.indices onednn*.workspace",
            "max_dilation_hole_2d_W": "openvino*.indices torch.indices onnxruntime.indices "
            "onednn*.workspace torch.grad_input",
        },
    ),
    Difference(
        "The first element of a window holds its place until a greater one comes, also when it is "
        "the lowest value of its dtype. Where the start value counts as an element, such a one "
        "never wins and the index is that of the first element of the plane, or tap 0.",
        {
            "max_all_neg_inf_pad1": "openvino*.indices onednn*.workspace",
            "max_int8_pad": "onednn*.workspace",
            "max_uint8_pad": "onednn*.workspace",
        },
    ),
    Difference(
        "NaN in a window gives NaN, and the first NaN takes index and gradient. OpenVINO, oneDNN, "
        "ONNX Runtime (unless the first element is NaN and indices are asked for) and TensorFlow "
        "pass over NaN; PyTorch takes the last NaN; XLA's gradient goes to the last element.",
        {
            "max_nan_middle": "openvino* onnxruntime* onnx_reference.* onednn* tensorflow.*",
            "max_nan_first_and_mid": "openvino* onnxruntime_values_only.* onnx_reference.* onednn* "
            "tensorflow.values torch.indices torch.grad_input flax.grad_input",
            "max_all_nan": "openvino* onnxruntime_values_only.* onednn*.values tensorflow.values "
            "torch.indices",
            "adaptive_max_2d_tie_nan": "openvino_cpu.* keras.values",
        },
    ),
    Difference(
        "Padding never receives gradient, not even against -inf. XLA's select-and-scatter and "
        "oneDNN give it the window that starts in padding.",
        {"max_all_neg_inf_pad1": "flax.grad_input onednn*.grad_input"},
    ),
    Difference(
        "Overhang of ceil rounding never counts in an average. OpenVINO counts it as soon as any "
        "axis has padding, Equinox always.",
        {
            "avg_incl_ceil_pad1_overhang": "openvino*",
            "avg_incl_plainceil_pad1_overhang": "openvino* equinox.*",
            "avg_incl_ceil_pad_other_axis": "openvino*",
            "avg_dil2_incl_ceil_overhang": "openvino*",
            "avg_3d_incl_ceil": "openvino*",
            "avg_incl_ceil_grad": "openvino*",
        },
    ),
    Difference(
        "An average over nothing is 0. OpenVINO's CPU plugin and Flax divide 0 by 0.",
        {
            "avg_excl_empty_window_plainceil": "openvino*",
            "err_avg_excl_pad_ge_kernel": "onnx_reference.* flax.*",
        },
    ),
    Difference(
        "SAME padding uses the dilated window. ONNX Runtime pads for the undilated one, so its "
        "output is shorter.",
        {
            "max_same_upper_dil2_k3_s2_L6": "onnxruntime*",
            "max_same_lower_dil2_k3_s2_L6": "onnxruntime*",
            "avg_incl_same_upper_dil2_k3_s2_L6": "onnxruntime*",
            "avg_incl_same_lower_dil2_k3_s2_L6": "onnxruntime*",
            "max_3d_dil_same_lower": "onnxruntime*",
        },
    ),
    Difference(
        "Integer averages round half to even, as OpenVINO and oneDNN. PyTorch (int64 alone) and "
        "the ONNX reference truncate, Flax and Equinox return floats of a sum that wraps, MLI "
        "rounds half up in its default mode.",
        {
            "avg_int8_halves": "onnx_reference.* flax.* equinox.*",
            "avg_int32_halves": "onnx_reference.* flax.* equinox.*",
            "avg_int64_halves": "onnx_reference.* flax.* equinox.* torch.*",
            "avg_uint8_halves": "onnx_reference.* flax.* equinox.*",
            "avg_int8_thirds_pad": "onnx_reference.* flax.* equinox.*",
            "mli_avg_fx8_halves": "mli_*_round_up.*",
        },
    ),
    Difference(
        "Integer averages and maxima are exact up to 32 bits. Others wrap the sum, or compute in "
        "float32.",
        {
            "avg_int32_sum_overflow": "openvino* flax.* equinox.*",
            "avg_int32_above_2_24": "openvino* onednn* flax.* equinox.*",
            "max_int32_above_2_24": "onednn*",
        },
    ),
    Difference(
        "Narrow floats are added and divided in float32. Flax, Equinox and the ONNX reference add "
        "in the narrow type.",
        {
            "avg_float16_overflow": "flax.* equinox.*",
            "avg_bfloat16_ones_1024": "onnx_reference.* flax.* equinox.*",
        },
    ),
    Difference(
        "The ONNX reference evaluator is wrong here: indices unravelled by the output's shape when "
        "all strides are 1, SAME_LOWER padded at the end, VALID with ceil cut to floor, dilation "
        "forgotten in a SAME average, stride above the window shifted, NaN or 0 for a window "
        "without an element.",
        {
            "max_seed_ex1_explicit_pad1": "onnx_reference.indices",
            "max_seed_ex3_same_lower": "onnx_reference.indices",
            "max_seed_ex4_same_upper_2ch": "onnx_reference.indices",
            "max_nc_offsets_storage_order0": "onnx_reference.indices",
            "max_seed_ex6_valid_ceil_torch": "onnx_reference.*",
            "max_same_lower_L6_k3_s2": "onnx_reference.*",
            "max_same_lower_dil2_k3_s2_L6": "onnx_reference.*",
            "max_same_upper_ceil_torch_L5_k1_s3": "onnx_reference.*",
            "avg_incl_same_upper_dil2_k3_s2_L6": "onnx_reference.*",
            "avg_incl_same_lower_dil2_k3_s2_L6": "onnx_reference.*",
            "max_floor_window_in_pad_end": "onnx_reference.values",
            "max_dilation_hole_1d": "onnx_reference.values",
            "max_dilation_hole_2d_W": "onnx_reference.values",
        },
    ),
    Difference(
        "MLI divides by a truncated 16-bit reciprocal: seven times 32767 averages to 32766.",
        {"mli_avg_fx16_k7_reciprocal_error": "mli_*"},
    ),
    Difference(
        "MLI's sa8 kernels move the average from the input's scale to the output's; the native ops "
        "know no quantisation.",
        {"mli_avg_sa8_requant": "mli_*", "mli_avg_sa8_saturates": "mli_*"},
    ),
    Difference(
        "Adaptive windows share the axis out with overlap. Equinox makes windows that do not "
        "overlap, the longer ones first.",
        {
            "adaptive_avg_7_to_3": "equinox.*",
            "adaptive_avg_7_to_5": "equinox.*",
            "adaptive_max_7_to_5": "equinox.*",
        },
    ),
    Difference(
        "An Lp norm takes absolute values. PyTorch does not: p = 1 is a signed sum, p = 3 gives "
        "NaN for a negative one.",
        {"lp1_negative": "torch.*", "lp3_negative": "torch.*"},
    ),
    Difference(
        "Unpooling reads indices against the shape that is asked for; the ONNX reference against "
        "the shape that the window implies.",
        {"unpool_output_size_5x5": "onnx_reference.*"},
    ),
    Difference(
        "The output size follows from the window; MLI 2 computes any smaller size it is asked for.",
        {"mli_max_fx8_smaller_output_allowed": "mli_*"},
    ),
)

# Case -> the text of the error. Runs of these cases are not compared.
REJECTED = {
    "err_stride0": r"`strides` contains 0.",
    "err_dilation0": r"`dilations` contains 0.",
    "err_kernel0": r"`window_shape` contains 0.",
    # OpenVINO returns a wrong result, Flax and Equinox crop; slicing crops explicitly.
    "err_negative_pads": r"`padding` contains -1.",
    # In PyTorch and ONNX Runtime, ceil_mode adds one window that does not fit.
    "max_kernel_gt_input_ceil_torch": r"`window_shape` = 6 does not fit",
    "unpool_bad_index": r"`indices` contain 9, which is outside",
}

# Cases without a run to compare, and the reason.
NOTHING_RECORDED = {
    "mli_max_fx8_ceil_shape_rejected": "MLI refuses the 3x3 output; floor rounding gives 2x2",
}

# Cases in which no runtime that the native rules follow agrees in every part: jaxpool's result, and
# the runtimes that agree with each part.
ALONE = {
    "max_seed_ex5_plain_ceil": "-inf, index -1 where plain ceil makes a window without an element; "
    "only OpenVINO has plain ceil",
    "max_same_upper_ceil_L5_k1_s3": "the same, under SAME",
    "max_ceil_allpad_window": "the same, with channels",
    "max_floor_window_in_pad_end": "the same, in declared padding; -inf also in Flax and Equinox",
    "max_pad_ge_kernel": "the same, at both ends",
    "max_dilation_hole_1d": "-inf as PyTorch, index -1 as ONNX Runtime",
    "max_dilation_hole_2d_W": "-inf as PyTorch; index -1 whatever the rank",
    "avg_incl_plainceil_pad1_overhang": "3, by PyTorch's divisor; only OpenVINO has plain ceil, "
    "and it counts the overhang",
    "avg_excl_empty_window_plainceil": "0, as ONNX Runtime where it has such windows",
    "err_avg_excl_pad_ge_kernel": "0 in the empty windows; refused by all that we follow",
    "err_zero_channels": "an empty result, as for an empty batch; as Flax and Equinox",
    "avg_int32_sum_overflow": "2**30, as oneDNN",
    "avg_int32_above_2_24": "16777217, the exact average",
    "mli_avg_fx16_k7_reciprocal_error": "32767, the exact average",
    "mli_avg_sa8_requant": "no quantisation",
    "mli_avg_sa8_saturates": "no quantisation",
    "mli_max_fx8_smaller_output_allowed": "the whole output",
}


# --- reading the file -----------------------------------------------------------------------------


PARTS = ("values", "argmax_op_values", "indices", "indices_nhwc", "workspace", "grad_input")


def runs(case: dict[str, Any]) -> Iterator[tuple[str, str, np.ndarray]]:
    """(system, part, recorded tensor) of every run that returned a result."""
    for system, run in case["runs"].items():
        for part in PARTS:
            if part in run:
                yield system, part, read(run[part])


def named_rules(case: dict[str, Any], system: str, part: str) -> list[str]:
    """Return the rules that list this run as a difference."""
    run = f"{system}.{part}"
    return [
        difference.rule
        for difference in DIFFERENCES
        for pattern in difference.runs.get(case["id"], "").split()
        if fnmatch.fnmatchcase(run, pattern)
    ]


@dataclass(frozen=True)
class Call:
    """A case as a call of jaxpool: the arguments after ``x``, and the layout in letters."""

    op: str
    x: np.ndarray
    args: tuple[Any, ...]
    words: dict[str, Any]
    data_format: str

    @property
    def spatial_axes(self) -> tuple[int, ...]:
        return tuple(i for i, letter in enumerate(self.data_format) if letter in "DHW")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "max_pool": jaxpool.max_pool_with_argmax,
    "avg_pool": jaxpool.avg_pool,
    "lp_pool": jaxpool.lp_pool,
    "global_avg": jaxpool.global_avg_pool,
    "adaptive_max": jaxpool.adaptive_max_pool_with_argmax,
    "adaptive_avg": jaxpool.adaptive_avg_pool,
    "fractional_max": functools.partial(jaxpool.fractional_max_pool_with_argmax, None),
    "max_unpool": jaxpool.max_unpool,
}
INDEXED = ("max_pool", "adaptive_max", "fractional_max")
IN_THE_ORACLE = ("max_pool", "avg_pool", "global_avg")


def native_call(case: dict[str, Any]) -> Call:
    """Return the call of a case."""
    op = case["op"].removeprefix("mli_")
    if op in ("max_pool", "avg_pool", "lp_pool"):
        args, words = mli_words(case) if op != case["op"] else window_words(case)
    elif op == "max_unpool":
        args, words = unpool_words(case)
    else:
        args, words = other_words(case)
    return Call(op, read(case["x"]), args, words, case["layout"])


def window_words(case: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    attrs = case["attrs"]
    padding = attrs["auto_pad"]
    if padding == "explicit":
        padding = tuple(zip(attrs["pads_begin"], attrs["pads_end"], strict=True))
    words = {"dilations": tuple(attrs["dilations"]), "rounding": attrs["rounding"]}
    renamed = {
        "include_pad": "count_include_pad",
        "divisor_override": "divisor_override",
        "p": "p",
    }
    words |= {ours: attrs[theirs] for theirs, ours in renamed.items() if theirs in attrs}
    return (tuple(attrs["kernel"]), tuple(attrs["strides"]), padding), words


def mli_words(case: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the settings for MLI, which has no rounding or dilation and never counts padding."""
    attrs = case["attrs"]
    top, bottom, left, right = attrs["pads_top_bottom_left_right"]
    words = {"count_include_pad": False} if case["op"] == "mli_avg_pool" else {}
    padding = ((top, bottom), (left, right))
    return (tuple(attrs["kernel"]), tuple(attrs["strides"]), padding), words


def unpool_words(case: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the settings; the default output shape is that of an input that the windows cover."""
    attrs = case["attrs"]
    rows = zip(case["x"]["shape"][2:], attrs["kernel"], attrs["strides"], strict=True)
    covered = [(size - 1) * stride + taps for size, taps, stride in rows]
    indices = read(case["extra_inputs"]["indices"]).astype(np.int32)
    return (indices, tuple(attrs.get("output_size", covered))), {"index_space": 0}


def other_words(case: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the settings of adaptive, fractional and global pooling."""
    attrs = case["attrs"]
    if "samples" in attrs:
        samples = np.array(attrs["samples"], np.float32)[::-1]  # PyTorch's 2-D order: width first
        return (tuple(attrs["kernel_size"]), tuple(attrs["output_size"])), {"samples": samples}
    if "output_size" in attrs:
        return (tuple(attrs["output_size"]),), {}
    return (), {}


def index_space(case: dict[str, Any], system: str, part: str) -> str | int:
    """Return the index space of the system."""
    if part == "workspace":
        return "window"
    if part == "indices_nhwc":
        return 1
    if system == "torch" or case["op"] == "adaptive_max":
        return "spatial"
    return case["attrs"].get("ov_axis", 0)


# --- the two sides --------------------------------------------------------------------------------

Side = Callable[[Call, str, str | int], np.ndarray]


def library(call: Call, part: str, space: str | int) -> np.ndarray:
    """Return one part of the result by jaxpool."""
    if part == "indices_nhwc":
        return np.moveaxis(library(channels_last(call), "indices", space), -1, 1)
    words = call.words | {"data_format": call.data_format}
    words |= {"index_space": space} if call.op in INDEXED else {}

    def pooled(x: Any) -> tuple[Any, ...]:
        result = FUNCTIONS[call.op](x, *call.args, **words)
        return result if isinstance(result, tuple) else (result,)

    if part == "grad_input":
        return np.asarray(jax.grad(lambda x: pooled(x)[0].sum())(jnp.asarray(call.x)))
    return np.asarray(pooled(call.x)[part in ("indices", "workspace")])


def oracle(call: Call, part: str, space: str | int) -> np.ndarray:
    """Return one part of the result by the brute-force oracle."""
    if part == "indices_nhwc":
        return np.moveaxis(oracle(channels_last(call), "indices", space), -1, 1)
    op = {"max_pool": "max"}.get(call.op, "avg")
    whole_plane = (call.x.shape[2:], 1, "VALID")
    windows = whole_plane if call.op == "global_avg" else call.args
    words = call.words | {"spatial_axes": call.spatial_axes}
    if part in ("indices", "workspace"):
        _, taps, positions = oracle_argmax(call.x, *windows, **words)
        axes = call.spatial_axes
        indices = oracle_indices(taps, positions, call.x.shape, space, spatial_axes=axes)
        return indices.astype(np.uint8) if part == "workspace" else indices
    values = oracle_pool(call.x, op, *windows, **words)
    if part == "grad_input":
        return oracle_gradient(call.x, np.ones(values.shape), op, *windows, **words)
    return values


def channels_last(call: Call) -> Call:
    """Return the same call on the same numbers, with the channel axis last."""
    letters = call.data_format.replace("C", "") + "C"
    return dataclasses.replace(call, x=np.moveaxis(call.x, 1, -1), data_format=letters)


SIDES: dict[str, Side] = {"library": library, "oracle": oracle}

COMPARED = {
    name: case
    for name, case in CASES.items()
    if name not in REJECTED and name not in NOTHING_RECORDED
}


@functools.cache
def outcome(name: str, side: str) -> dict[str, bool]:
    """Return whether each recorded run of a case agrees with one side, by "system.part"."""
    case = COMPARED[name]
    call = native_call(case)
    with jax.enable_x64(call.x.dtype == np.int64):
        return {
            f"{system}.{part}": agrees(
                SIDES[side](call, part, index_space(case, system, part)), recorded
            )
            for system, part, recorded in runs(case)
        }


# --- the tests ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "side"),
    [
        (name, side)
        for name, case in COMPARED.items()
        for side in SIDES
        if side == "library" or case["op"].removeprefix("mli_") in IN_THE_ORACLE
    ],
)
def test_every_recorded_run_agrees_or_differs_by_a_named_rule(name: str, side: str) -> None:
    found = outcome(name, side)
    assert found, "no run to compare"
    for run, same in found.items():
        rules = named_rules(COMPARED[name], *run.rsplit(".", 1))
        assert same or rules, f"{run} differs from the {side}, and no rule says why"
        assert not (same and rules), f"{run} agrees with the {side} although: {rules}"


@pytest.mark.deep
def test_the_library_keeps_the_dtype() -> None:
    for name, case in COMPARED.items():
        call = native_call(case)
        with jax.enable_x64(call.x.dtype == np.int64):
            assert library(call, "values", 0).dtype == call.x.dtype, name


def followed(name: str) -> bool:
    """Return whether a runtime that the native rules follow agrees with jaxpool in every part."""
    by_system: dict[str, list[bool]] = {}
    for run, same in outcome(name, "library").items():
        by_system.setdefault(run.rsplit(".", 1)[0], []).append(same)
    leaders = ("torch", "openvino_cpu*", "onnxruntime", "mli_*")
    return any(
        all(parts)
        for system, parts in by_system.items()
        if any(fnmatch.fnmatchcase(system, leader) for leader in leaders)
    )


@pytest.mark.deep
def test_jaxpool_stands_alone_only_where_it_says_so() -> None:
    assert {name for name in COMPARED if not followed(name)} == set(ALONE)


@pytest.mark.parametrize("name", REJECTED)
def test_rejected_cases_say_why(name: str) -> None:
    with pytest.raises(ValueError, match=REJECTED[name]):
        library(native_call(CASES[name]), "values", "spatial")


def test_nothing_else_is_rejected() -> None:
    """Empty batches, zero channels, rank 2 and padding larger than the window are accepted."""
    shapes = {
        name: library(native_call(CASES[name]), "values", "spatial").shape
        for name in CASES
        if name.startswith("err_") and name not in REJECTED
    }
    assert shapes == {
        "err_empty_batch": (0, 1, 4),
        "err_zero_channels": (1, 0, 4),
        "err_rank2": (3, 4),
        "err_avg_excl_pad_ge_kernel": (1, 1, 8),
    }


@pytest.mark.parametrize("name", NOTHING_RECORDED)
def test_cases_without_a_result(name: str) -> None:
    case = CASES[name]
    assert not list(runs(case))
    call = native_call(case)
    sizes = [
        jaxpool.output_shape(call.x.shape, *call.args, rounding=r, data_format="HWC")[:2]
        for r in ("floor", "ceil")
    ]
    assert sizes == [(2, 2), (3, 3)]
    assert case["attrs"]["requested_output"] == [3, 3]


def test_every_entry_of_the_tables_is_used() -> None:
    for difference in DIFFERENCES:
        for name, patterns in difference.runs.items():
            known = [f"{system}.{part}" for system, part, _ in runs(COMPARED[name])]
            for pattern in patterns.split():
                assert fnmatch.filter(known, pattern), f"{name}: {pattern} matches no run"
    tables = [*REJECTED, *NOTHING_RECORDED, *ALONE]
    assert set(tables) <= set(CASES)
    assert len(CASES) == GOLDEN["count"]
