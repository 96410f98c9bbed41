"""oneDNN's front end: recorded runs, its scan in NumPy loops, backward from the workspace."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden import CASES, agrees, read
from helpers import assert_same, permutation

import jaxpool
from jaxpool.compat import onednn

pytestmark = pytest.mark.grid(4)

RECORDED = {
    name: runs
    for name, case in CASES.items()
    if (runs := {s: run for s, run in case["runs"].items() if s.startswith("onednn")})
}

# Recorded runs that the front end does not repeat, and the reason.
DIFFERENCES = {
    "avg_float16_overflow": "float16 is in the primitive's table of types; the recorded CPU has no "
    "AVX512_FP16, and refuses it. Here it is added in float32, as the table says.",
}


def settings_of(case: dict[str, Any]) -> dict[str, Any]:
    """Return a case in oneDNN's terms: no auto_pad, ceil by a larger padding_r, dilation from 0."""
    attrs = case["attrs"]
    low, high = attrs["pads_begin"], attrs["pads_end"]
    if attrs["auto_pad"] != "explicit" or attrs["rounding"] != "floor":
        padding = attrs["auto_pad"]
        if padding == "explicit":
            padding = list(zip(low, high, strict=True))
        axes = jaxpool.geometry(
            case["x"]["shape"][2:], attrs["kernel"], attrs["strides"], padding,
            dilations=attrs["dilations"], rounding=attrs["rounding"],
        ).axes  # fmt: skip
        low, high = [a.pad_low for a in axes], [max(a.overshoot, 0) for a in axes]
    include = "include" if attrs.get("include_pad") else "exclude"
    return {
        "alg_kind": "max" if case["op"] == "max_pool" else f"avg_{include}_padding",
        "kernel": attrs["kernel"],
        "strides": attrs["strides"],
        "dilation": [d - 1 for d in attrs["dilations"]],
        "padding_l": low,
        "padding_r": high,
    }


@pytest.mark.grid(8)
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_runs(name: str) -> None:
    case, runs = CASES[name], RECORDED[name]
    src, call = read(case["x"]), settings_of(case)
    statuses = {run["status"] for run in runs.values()}
    assert len(statuses) == 1
    if statuses == {"error"} and name not in DIFFERENCES:
        with pytest.raises(ValueError, match="^forward_training: "):
            onednn.forward_training(src, **call)
        return
    dst, workspace = onednn.forward_training(src, **call)
    if statuses == {"error"}:
        assert dst.dtype == src.dtype
        return
    diff_src = None
    if any("grad_input" in run for run in runs.values()):
        diff_src = onednn.backward(jnp.ones_like(dst), workspace, **call, src_shape=src.shape)
    for run in runs.values():
        assert dst.dtype == src.dtype
        assert agrees(np.asarray(dst), read(run["values"]))
        if "workspace" in run:
            assert_same(workspace, read(run["workspace"]), name)
        if "grad_input" in run:
            assert agrees(np.asarray(diff_src), read(run["grad_input"]))


def test_every_difference_is_a_recorded_run() -> None:
    assert set(DIFFERENCES) <= set(RECORDED)
    assert len(RECORDED) == 60


# --- the scan, in loops ---------------------------------------------------------------------------

GEOMETRIES: dict[str, dict[str, Any]] = {
    "dense": {"kernel": (3, 2), "strides": (2, 1), "padding_l": (1, 0), "padding_r": (2, 1)},
    "dilated, longer pads": {
        "kernel": (2, 3), "strides": (1, 2), "dilation": (2, 1), "padding_l": (3, 1),
        "padding_r": (0, 4),
    },
    "end cut off": {
        "kernel": (2, 3), "strides": (3, 2), "padding_l": (1, 2), "padding_r": (-2, -1),
    },
    "fits by less than a stride": {"kernel": (8, 4), "strides": (3, 2), "padding_r": (1, 0)},
    "s32 workspace": {
        "kernel": (16, 17), "strides": (3, 2), "padding_l": (9, 7), "padding_r": (5, 8),
    },
}  # fmt: skip
SHAPE = (2, 6, 7)  # channels, height, width; a batch axis is added


def per_axis(geometry: dict[str, Any], name: str) -> tuple[int, int]:
    return geometry.get(name, (0, 0))


def out_shape(geometry: dict[str, Any]) -> tuple[int, int]:
    """Return the output shape, with truncating division as in C."""
    out = []
    for axis in range(2):
        span = (geometry["kernel"][axis] - 1) * (per_axis(geometry, "dilation")[axis] + 1) + 1
        pads = per_axis(geometry, "padding_l")[axis] + per_axis(geometry, "padding_r")[axis]
        out.append(int((SHAPE[axis + 1] + pads - span) / geometry["strides"][axis]) + 1)
    return out[0], out[1]


def elements(geometry: dict[str, Any], out: tuple[int, int]) -> list[tuple[int, int, int]]:
    """Return (tap, row, column) of every tap of a window inside the array."""
    found = []
    for number, tap in enumerate(itertools.product(*map(range, geometry["kernel"]))):
        q = [
            o * s - p + t * (d + 1)
            for o, s, p, t, d in zip(
                out, geometry["strides"], per_axis(geometry, "padding_l"), tap,
                per_axis(geometry, "dilation"), strict=True,
            )
        ]  # fmt: skip
        if 0 <= q[0] < SHAPE[1] and 0 <= q[1] < SHAPE[2]:
            found.append((number, q[0], q[1]))
    return found


def scan(x: np.ndarray, geometry: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return maxima and taps: each window starts from the lowest value at tap 0."""
    shape = (1, SHAPE[0], *out_shape(geometry))
    dst = np.full(shape, np.finfo(x.dtype).min, x.dtype)
    small = np.prod(geometry["kernel"]) <= 255
    taps = np.zeros(shape, np.uint8 if small else np.int32)
    for o in np.ndindex(shape):
        for tap, row, column in elements(geometry, o[2:]):
            if x[0, o[1], row, column] > dst[o]:
                dst[o], taps[o] = x[0, o[1], row, column], tap
    return dst, taps


def sent_back(g: np.ndarray, taps: np.ndarray, geometry: dict[str, Any]) -> np.ndarray:
    """Return the scatter-add of each cotangent to its tap; padding drops it."""
    diff = np.zeros((1, *SHAPE), g.dtype)
    for o in np.ndindex(g.shape):
        for tap, row, column in elements(geometry, o[2:]):
            if tap == taps[o]:
                diff[0, o[1], row, column] += g[o]
    return diff


def awkward(rng: np.random.Generator) -> np.ndarray:
    """Return small integers with ties, and values that never win: NaN, -inf, the lowest float."""
    lowest = np.finfo(np.float32).min
    x = rng.integers(-3, 4, (1, *SHAPE)).astype(np.float32)
    wild = rng.choice(np.array([np.nan, -np.inf, lowest], np.float32), x.shape)
    return np.where(rng.random(x.shape) < 0.6, wild, x)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_the_scan_and_its_transpose(name: str, rng: np.random.Generator) -> None:
    geometry = GEOMETRIES[name]
    x = awkward(rng)
    dst, taps = onednn.forward_training(x, "max", **geometry)
    want, want_taps = scan(x, geometry)
    assert_same(dst, want, name)
    assert_same(taps, want_taps, name)
    g = permutation(dst.shape, np.float32, rng)
    diff = onednn.backward(g, taps, "max", **geometry, src_shape=x.shape)
    assert_same(diff, sent_back(g, want_taps, geometry), name)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_averages(name: str, rng: np.random.Generator) -> None:
    geometry = GEOMETRIES[name]
    x = permutation((1, *SHAPE), np.float32, rng)
    whole = np.prod(geometry["kernel"])
    shape = (1, SHAPE[0], *out_shape(geometry))
    want, counts = np.zeros(shape, np.float32), np.zeros(shape)
    for o in np.ndindex(shape):
        inside = elements(geometry, o[2:])
        want[o] = sum(x[0, o[1], row, column] for _, row, column in inside)
        counts[o] = len(inside)
    dst = onednn.forward_inference(x, "avg_include_padding", **geometry)
    assert_same(dst, (want / whole).astype(np.float32), name, ulps=2)
    dst = onednn.forward_inference(x, "avg_exclude_padding", **geometry)
    assert_same(dst, (want / counts).astype(np.float32), name, ulps=2)


@pytest.mark.parametrize("alg_kind", onednn.ALGORITHMS)
@pytest.mark.parametrize("name", ["dilated, longer pads", "end cut off", "s32 workspace"])
def test_backward_is_the_gradient_of_forward(
    name: str, alg_kind: str, rng: np.random.Generator
) -> None:
    geometry = GEOMETRIES[name]
    x = awkward(rng) if alg_kind == "max" else permutation((1, *SHAPE), np.float32, rng)
    x = jnp.asarray(x)
    dst, workspace = onednn.forward_training(x, alg_kind, **geometry)
    g = jnp.asarray(permutation(dst.shape, np.float32, rng))
    pool = lambda x: onednn.forward_inference(x, alg_kind, **geometry)  # noqa: E731
    with jax.numpy_rank_promotion("raise"):
        want = jax.jit(lambda x, g: jax.vjp(pool, x)[1](g)[0])(x, g)
        got = onednn.backward(g, workspace, alg_kind, **geometry, src_shape=x.shape)
    assert_same(got, want, (name, alg_kind), ulps=2)


def test_forward_mode_follows_the_workspace(rng: np.random.Generator) -> None:
    x, t = (jnp.asarray(permutation((1, *SHAPE), np.float32, rng)) for _ in range(2))
    geometry = GEOMETRIES["dense"]
    pool = lambda x: onednn.forward_training(x, "max", **geometry)  # noqa: E731
    (_, taps), (tangent, none) = jax.jvp(pool, (x,), (t,))
    assert none.dtype == jax.dtypes.float0
    back = lambda g: onednn.backward(g, taps, "max", **geometry, src_shape=x.shape)  # noqa: E731
    forth = jax.linear_transpose(back, jax.ShapeDtypeStruct(tangent.shape, tangent.dtype))(t)[0]
    assert_same(tangent, forth, "jvp")


# --- formats and dtypes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "shape"), [("nhwc", (2, 5, 4, 20)), ("nChw16c", (2, 2, 5, 4, 16))], ids=str
)
def test_all_formats_hold_the_same_numbers(
    tag: str, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    """Plain, channels-last and blocked formats: forward, workspace, backward, and conversions."""
    x = jnp.asarray(permutation((2, 20, 5, 4), np.float32, rng))
    call: dict[str, Any] = {"alg_kind": "max", "kernel": (3, 2), "strides": (2, 1)}
    call |= {"padding_l": (1, 0), "padding_r": (0, 1)}
    dst, taps = onednn.forward_training(x, **call)
    g = jnp.asarray(permutation(dst.shape, np.float32, rng))
    diff = onednn.backward(g, taps, **call, src_shape=x.shape)
    src = onednn.reorder(x, "nchw", tag)
    assert src.shape == shape
    back = lambda y: onednn.reorder(y, tag, "nchw", channels=20)  # noqa: E731
    assert_same(back(src), x, tag)
    y, found = onednn.forward_training(src, **call, tag=tag)
    assert_same(back(y), dst, tag)
    assert_same(back(found), taps, tag)
    cotangent = onednn.reorder(g, "nchw", tag)
    sent = onednn.backward(cotangent, found, **call, src_shape=shape, tag=tag)
    assert_same(back(sent), diff, tag)


def test_the_block_after_the_last_channel_is_zero() -> None:
    x = jnp.ones((1, 3, 2), jnp.int8)
    blocked = onednn.reorder(x, "ncw", "nCw8c")
    assert blocked.shape == (1, 1, 2, 8)
    assert_same(blocked[0, 0, 0], np.array([1, 1, 1, 0, 0, 0, 0, 0], np.int8), "padding")
    assert onednn.reorder(blocked, "nCw8c", "nwc").shape == (1, 2, 8)


@pytest.mark.parametrize(
    ("src", "dst", "numbers", "want"),
    [
        ("uint8", "int8", [255, 127, 3], [127, 127, 3]),
        ("int8", "uint8", [-1, -128, 5], [0, 0, 5]),
        ("int8", "float32", [-3, 2, 7], [-3.0, 2.0, 7.0]),
        ("float32", "int8", [-200.0, 2.5, 3.5], [-128, 2, 4]),
        ("int32", "int32", [2**31 - 1, -(2**31), 2**24 + 1], [2**31 - 1, -(2**31), 2**24]),
    ],
)
def test_conversions_saturate(src: str, dst: str, numbers: list, want: list) -> None:
    x = np.array(numbers, src).reshape(1, 1, -1)
    y = onednn.forward_inference(x, "avg_exclude_padding", (1,), (1,), dst_dtype=dst)
    assert_same(y, np.array(want, dst).reshape(1, 1, -1), (src, dst))
    if src != "int32":
        y = onednn.forward_inference(x, "max", (1,), (1,), dst_dtype=dst)
        assert_same(y, np.array(want, dst).reshape(1, 1, -1), (src, dst))


def test_inference_of_s32_is_exact_and_training_is_not() -> None:
    x = np.array([2**24, 2**24 + 1], np.int32).reshape(1, 1, 2)
    assert onednn.forward_inference(x, "max", (2,), (1,)).item() == 2**24 + 1
    assert onednn.forward_training(x, "max", (2,), (1,))[0].item() == 2**24


def test_bfloat16_goes_back_through_float32() -> None:
    """300 windows give 1 to the first element; a sum in bfloat16 would stop at 256."""
    x = jnp.zeros((1, 1, 300), jnp.bfloat16).at[0, 0, 0].set(1)
    call: dict[str, Any] = {"alg_kind": "max", "kernel": (300,), "strides": (1,), "padding_l": 299}
    dst, taps = onednn.forward_training(x, **call)
    diff = onednn.backward(jnp.ones_like(dst), taps, **call, src_shape=x.shape)
    assert diff.dtype == jnp.bfloat16 and diff[0, 0, 0] == 300


# --- refusals -------------------------------------------------------------------------------------

X = np.zeros((1, 2, 5), np.float32)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"alg_kind": "min"}, "`alg_kind` = 'min' is not an algorithm"),
        ({"kernel": (0,)}, "`kernel` contains 0"),
        ({"kernel": (2, 2)}, "`kernel` = .* has 2 entries"),
        ({"strides": (0,)}, "`strides` contains 0"),
        ({"dilation": -1}, "`dilation` contains -1"),
        ({"padding_l": -1}, "`padding_l` contains -1"),
        ({"padding_r": -2}, "`padding_r` = -2 of spatial axis 0 crops more than a stride"),
        ({"tag": ["ncw"]}, r"`tag` = \['ncw'\] is not a memory format"),
        ({"kernel": (7,)}, "`kernel` = 7 does not fit spatial axis 0(.|\n)*invalid_arguments"),
        ({"alg_kind": "avg_exclude_padding", "padding_r": 2}, "no element of spatial axis 0"),
        ({"alg_kind": "avg_exclude_padding", "dilation": 5, "padding_r": 9}, "contain no element"),
        ({"tag": "nchw"}, "does not have the layout nchw"),
        ({"tag": "NCW"}, "`tag` = 'NCW' is not a memory format"),
        ({"tag": "nCw8c", "src": np.zeros((1, 1, 5, 16), np.float32)}, "the last of length 8"),
        ({"src": np.zeros((2, 5), np.float32)}, r"shape \(2, 5\) has no default tag"),
        ({"src": np.zeros((1, 2, 5), np.int16)}, "pooling of int16 to int16 is not supported"),
        ({"src": np.zeros((0, 2, 5), np.float32)}, "is empty"),
    ],
)
def test_what_is_refused(change: dict[str, Any], match: str) -> None:
    call = {"src": X, "alg_kind": "max", "kernel": (2,), "strides": (1,)} | change
    with pytest.raises(ValueError, match=f"^forward_training: (.|\n)*{match}"):
        onednn.forward_training(**call)


def test_padding_crops_at_most_the_stride_of_its_own_axis() -> None:
    src, crop = np.zeros((1, 1, 8, 8), np.float32), (-2, 0)
    assert onednn.forward_inference(src, "max", (2, 2), (2, 3), padding_r=crop).shape[2:] == (3, 3)
    with pytest.raises(ValueError, match="`padding_r` = -2 of spatial axis 0 crops more"):
        onednn.forward_inference(src, "max", (2, 2), (1, 3), padding_r=crop)


def test_conversions_that_are_not_known() -> None:
    with pytest.raises(ValueError, match="`dst_dtype` = 'foo' is not a dtype"):
        onednn.forward_inference(X, "max", (2,), (1,), dst_dtype="foo")
    with pytest.raises(ValueError, match="int8 to int32 is not supported(.|\n)*unimplemented"):
        onednn.forward_inference(X.astype(np.int8), "max", (2,), (1,), dst_dtype=np.int32)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"workspace": None}, "`workspace` is not that of the forward call"),
        ({"workspace": np.zeros((1, 2, 4), np.int32)}, "has shape .* and dtype uint8"),
        ({"diff_dst": np.zeros((1, 2, 5), np.float32)}, r"gives \(1, 2, 4\)"),
        ({"diff_dst": np.zeros((1, 2, 4), np.int8)}, "Integers have no gradient"),
        ({"src_shape": 8}, "`src_shape` = 8 is not a shape"),
    ],
)
def test_what_backward_refuses(change: dict[str, Any], match: str) -> None:
    call = {
        "diff_dst": np.zeros((1, 2, 4), np.float32),
        "workspace": np.zeros((1, 2, 4), np.uint8),
        "alg_kind": "max",
        "kernel": (2,),
        "strides": (1,),
        "src_shape": X.shape,
    }
    with pytest.raises(ValueError, match=f"^backward: (.|\n)*{match}"):
        onednn.backward(**call | change)


@pytest.mark.parametrize(
    ("tag", "shape", "channels", "held"),
    [
        ("ncw", (1, 20, 3), 19, "ncw has 20"),
        ("nwc", (1, 3, 20), 21, "nwc has 20"),
        ("nCw8c", (1, 3, 5, 8), 16, "nCw8c has 17 to 24"),
        ("nCw8c", (1, 3, 5, 8), 25, "nCw8c has 17 to 24"),
        ("nCw16c", (1, 0, 5, 16), 1, "nCw16c has 0"),
    ],
)
def test_reorder_drops_only_padding(
    tag: str, shape: tuple[int, ...], channels: int, held: str
) -> None:
    with pytest.raises(
        ValueError, match=f"^reorder: `channels` = {channels} (.|\n)*{held} channels"
    ):
        onednn.reorder(np.zeros(shape, np.float32), tag, "nwc", channels=channels)


def test_reorder_keeps_the_rank() -> None:
    with pytest.raises(ValueError, match="differs in rank from"):
        onednn.reorder(X, "ncw", "nhwc")
