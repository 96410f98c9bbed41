"""TensorFlow's front end: every recorded run, and its scans in NumPy loops.

TensorFlow is not needed, since its results are recorded.
"""

from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden import CASES, agrees, read
from helpers import assert_same, permutation

from jaxpool.compat import tensorflow as tf
from jaxpool.testing import oracle_pool

pytestmark = pytest.mark.grid(4)

RECORDED = {
    name: case["runs"]["tensorflow"] for name, case in CASES.items() if "tensorflow" in case["runs"]
}
# Recorded calls that only tf.nn.max_pool_with_argmax refused, since it needs an array of rank 4.
BY_ARGMAX = ("err_empty_batch", "err_zero_channels")


def channels_last(x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, 1, -1)


def settings_of(case: dict[str, Any]) -> dict[str, Any]:
    attrs = case["attrs"]
    padding: Any = {"valid": "VALID", "same_upper": "SAME"}.get(attrs["auto_pad"])
    if attrs["auto_pad"] == "explicit":
        pads = list(zip(attrs["pads_begin"], attrs["pads_end"], strict=True))
        padding = [(0, 0), *pads, (0, 0)] if any(map(any, pads)) else "VALID"
    return {"ksize": attrs["kernel"], "strides": attrs["strides"], "padding": padding}


def flat(case: dict[str, Any], call: dict[str, Any]) -> tuple[np.ndarray, dict[str, Any]]:
    """Return an array with height 1 for ``max_pool_with_argmax``, if it has only a width."""
    x = channels_last(read(case["x"]))
    if x.ndim == 3:
        both = {name: [1, *call[name]] for name in ("ksize", "strides")}
        return x[:, None], call | both
    return x, call


@pytest.mark.parametrize("name", [n for n, run in RECORDED.items() if run["status"] == "ok"])
def test_recorded_runs(name: str) -> None:
    case, run = CASES[name], RECORDED[name]
    call, x = settings_of(case), jnp.asarray(channels_last(read(case["x"])))
    op = tf.avg_pool if case["op"] == "avg_pool" else tf.max_pool
    assert agrees(np.asarray(op(x, **call)), channels_last(read(run["values"])))
    if "indices_nhwc" in run:
        plane, both = flat(case, call)
        values, indices = tf.max_pool_with_argmax(plane, **both)
        want = channels_last(read(run["indices_nhwc"])).astype(np.int32)
        assert_same(indices, want.reshape(indices.shape), name)
        want = channels_last(read(run["argmax_op_values"]))
        assert_same(values, want.reshape(values.shape), name)
    if "grad_input" in run:
        gradient = jax.grad(lambda x: op(x, **call).sum())(x)
        assert_same(gradient, channels_last(read(run["grad_input"])), name)


@pytest.mark.parametrize("name", [n for n, run in RECORDED.items() if run["status"] == "error"])
def test_recorded_refusals(name: str) -> None:
    case = CASES[name]
    call, op = settings_of(case), tf.max_pool
    x = channels_last(read(case["x"]))
    if name in BY_ARGMAX:
        assert tf.max_pool(x, **call).size == 0
        op, (x, call) = tf.max_pool_with_argmax, flat(case, call)
    with pytest.raises(ValueError, match=f"^{op.__name__}: "):
        op(x, **call)


def test_the_recorded_runs_are_all_there() -> None:
    assert len(RECORDED) == 28 and set(BY_ARGMAX) <= set(RECORDED)


# --- the scans, in loops --------------------------------------------------------------------------


def scan(x: np.ndarray, ksize: tuple[int, int], strides: tuple[int, int]) -> Any:
    """Return both values and the flat index of each window of an NHWC array, without padding."""
    n, height, width, channels = x.shape
    shape = (n, (height - ksize[0]) // strides[0] + 1, (width - ksize[1]) // strides[1] + 1,
             channels)  # fmt: skip
    plain = np.full(shape, np.finfo(np.float32).min, np.float32)
    kept, index = np.empty(shape, np.float32), np.full(shape, -1, np.int32)
    for o in np.ndindex(shape):
        for tap in np.ndindex(ksize):
            row, column = (o[1 + a] * strides[a] + tap[a] for a in range(2))
            element = x[o[0], row, column, o[3]]
            if element > plain[o]:
                plain[o] = element
            if index[o] < 0 or element > kept[o]:
                kept[o], index[o] = element, (row * width + column) * channels + o[3]
    return plain, kept, index


@pytest.mark.parametrize(
    ("ksize", "strides"), [((2, 3), (1, 2)), ((1, 9), (1, 1)), ((5, 7), (2, 1))]
)
def test_scans_and_gradient(ksize: Any, strides: Any, rng: np.random.Generator) -> None:
    """Return data with ties, -inf and many NaN, so that overlapping windows disagree."""
    x = rng.integers(-2, 3, (2, 7, 11, 3)).astype(np.float32)
    wild = np.where(rng.random(x.shape) < 0.7, np.float32(np.nan), np.float32(-np.inf))
    x = np.where(rng.random(x.shape) < 0.5, wild, x)
    plain, kept, index = scan(x, ksize, strides)
    assert np.isnan(kept).any() and (plain < -3).any() == (ksize == (2, 3))
    values, indices = tf.max_pool_with_argmax(x, ksize, strides, "VALID")
    assert_same(values, kept, ksize)
    assert_same(indices, index, ksize)
    got, pull = jax.vjp(lambda x: tf.max_pool(x, ksize, strides, "VALID"), jnp.asarray(x))
    assert_same(got, plain, ksize)
    g = permutation(plain.shape, np.float32, rng)
    want = np.zeros(x.shape, np.float32)
    for batch, elements, into in zip(g, index, want, strict=True):
        np.add.at(into.reshape(-1), elements, batch)
    assert_same(pull(jnp.asarray(g))[0], want, ksize)


@pytest.mark.parametrize(("ksize", "strides"), [((3, 2), (2, 1)), ((3, 3), (2, 2))])
def test_the_gradient_of_windows_that_hold_each_others_element(
    ksize: Any, strides: Any, rng: np.random.Generator
) -> None:
    """One window stays at its NaN, the other skips it and selects an element of the first."""
    x = rng.integers(-2, 3, (2, 9, 12, 3)).astype(np.float32)
    x = np.where(rng.random(x.shape) < 0.3, np.float32(np.nan), x)
    plain, _, index = scan(x, ksize, strides)
    g, want = permutation(plain.shape, np.float32, rng), np.zeros(x.shape, np.float32)
    for batch, elements, into in zip(g, index, want, strict=True):
        np.add.at(into.reshape(-1), elements, batch)
    first = lambda a: jnp.moveaxis(jnp.asarray(a), -1, 1)  # noqa: E731
    _, pull = jax.vjp(lambda x: tf.max_pool(x, ksize, strides, "VALID", "NCHW"), first(x))
    assert_same(pull(first(g))[0], first(want), ksize)


def test_windows_that_start_in_padding(rng: np.random.Generator) -> None:
    """NaN first: the first real element of a window stays, whatever its start."""
    x = jnp.array([np.nan, 1, 2, np.nan, 5]).reshape(1, 1, 5, 1)
    with jax.numpy_rank_promotion("raise"):
        values, indices = tf.max_pool_with_argmax(x, (1, 4), (1, 1), "SAME")
    assert_same(values.ravel(), np.array([np.nan, np.nan, 5, 5, np.nan], np.float32), "values")
    assert_same(indices.ravel(), np.array([0, 0, 4, 4, 3], np.int32), "indices")
    pads = [(0, 0), (0, 0), (3, 1), (0, 0)]
    pool = lambda x: tf.max_pool(x, (1, 4), (1, 1), pads)  # noqa: E731
    _, tangent = jax.jvp(pool, (x,), (jnp.arange(10.0, 15).reshape(x.shape),))
    assert_same(tangent.ravel(), np.array([10, 10, 10, 10, 14, 14], np.float32), "tangent")


def test_indices_with_and_without_batch(rng: np.random.Generator) -> None:
    x = permutation((3, 4, 5, 2), np.float32, rng)
    values, elements = tf.max_pool_with_argmax(x, 2, 2, "SAME")
    same, all_elements = tf.max_pool_with_argmax(x, 2, 2, "SAME", include_batch_in_index=True)
    assert_same(values, same, "values")
    assert_same(x.ravel()[all_elements], values, "flat over all axes")
    assert_same(all_elements % 40, elements, "flat over an image")
    narrow = tf.max_pool_with_argmax(x, 2, 2, "SAME", output_dtype=np.int16)[1]
    assert narrow.dtype == jnp.int16
    with jax.enable_x64(True):
        assert tf.max_pool_with_argmax(x, 2, 2, "SAME")[1].dtype == jnp.int64


@pytest.mark.parametrize("x64", [False, True])
def test_a_large_window_wraps_in_32_bits(x64: bool) -> None:
    count = 257 * 257
    total = (count * 32767 + 2**31) % 2**32 - 2**31
    assert total < 0
    with jax.enable_x64(x64):
        x = np.full((1, 257, 257, 1), 32767, np.int16)
        got = tf.tflite_average_pool_2d(x, 257, 257, 1, 1, "VALID")
    assert got.item() == -((-total + count // 2) // count)


@pytest.mark.parametrize("layout", ["NCW", "NHWC", "NCDHW"])
def test_layouts_and_spellings(layout: str, rng: np.random.Generator) -> None:
    spatial = [axis for axis, letter in enumerate(layout) if letter in "DHW"]
    sizes = {"N": 2, "C": 3, "D": 4, "H": 5, "W": 7}
    x = permutation(tuple(sizes[letter] for letter in layout), np.float32, rng)
    ksize, strides = [3, 2, 1][-len(spatial) :], [1, 2, 3][-len(spatial) :]
    every = [1] * len(layout), [1] * len(layout)
    for axis, k, s in zip(spatial, ksize, strides, strict=True):
        every[0][axis], every[1][axis] = k, s
    windows = {"spatial_axes": spatial, "count_include_pad": False}
    want = oracle_pool(x, "avg", ksize, strides, "SAME", **windows)
    got = tf.avg_pool(x, *every, "SAME", data_format=layout)
    assert_same(got, want, layout, ulps=2)
    got = tf.max_pool(x, ksize, strides, "SAME", data_format=layout)
    assert_same(got, oracle_pool(x, "max", ksize, strides, "SAME", spatial_axes=spatial), layout)


def test_none_is_one_as_in_tensorflow(rng: np.random.Generator) -> None:
    x = permutation((2, 5, 7, 3), np.float32, rng)
    assert_same(tf.max_pool(x, 3, None, "SAME"), tf.max_pool(x, 3, 1, "SAME"), "strides")
    assert_same(tf.avg_pool2d(x, None, 2, "VALID"), x[:, ::2, ::2], "ksize")


# --- TensorFlow Lite ------------------------------------------------------------------------------


def half_away(mean: Fraction) -> int:
    size = int(abs(mean) + Fraction(1, 2))
    return size if mean > 0 else -size


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_quantised_averages(dtype: Any, padding: str, rng: np.random.Generator) -> None:
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, (2, 5, 6, 2), endpoint=True).astype(dtype)
    got = tf.tflite_average_pool_2d(x, 2, 3, 2, 1, padding)
    low = 0 if padding == "VALID" else 1  # SAME pads one column on either side, one row below
    want = np.empty(got.shape, dtype)
    for n, row, column, c in np.ndindex(want.shape):
        left = column - low
        elements = x[n, 2 * row : 2 * row + 2, max(left, 0) : left + 3, c].ravel().tolist()
        want[n, row, column, c] = half_away(Fraction(sum(elements), len(elements)))
    assert_same(got, want, (dtype, padding))


def test_a_fused_activation_clamps() -> None:
    x = np.array([-9, -4, 2, 7], np.int8).reshape(1, 4, 1, 1)
    got = tf.tflite_average_pool_2d(x, 1, 1, 1, 1, "VALID", activation_min=-5, activation_max=6)
    assert got.ravel().tolist() == [-5, -4, 2, 6]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_functions_of_one_rank(count: int, rng: np.random.Generator) -> None:
    x = permutation((2, *(5, 6, 4)[:count], 3), np.float32, rng)
    for name in ("max_pool", "avg_pool"):
        op = getattr(tf, f"{name}{count}d")
        want = getattr(tf, name)(x, 2, (3, 2, 1)[:count], "SAME")
        assert_same(op(x, 2, (3, 2, 1)[:count], "SAME"), want, op.__name__)
        layout = {3: "NDHWC", 2: "NHWC", 1: "NWC"}[count % 3 + 1]
        for data_format in ("NHWC", layout, None):
            with pytest.raises(ValueError, match=f"^{name}{count}d: `input`.* does not match"):
                op(x[None] if count < 3 else x[0], 2, 1, "SAME", data_format=data_format)
        with pytest.raises(ValueError, match=f"^{name}{count}d: `ksize` = 9 does not fit"):
            op(x, 9, 1, "VALID")


def test_same_in_three_axes_as_recorded() -> None:
    """Windows start at the first element also if strides exceed them (TensorFlow 2.21.0)."""
    x = np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1, 1)
    assert tf.max_pool(x, [2, 1, 1], [4, 1, 1], "SAME").ravel().tolist() == [1, 5]
    assert tf.avg_pool(x, [2, 1, 1], [4, 1, 1], "SAME").ravel().tolist() == [0.5, 4.5]


# --- refusals -------------------------------------------------------------------------------------

X = np.zeros((1, 4, 5, 2), np.float32)
unchecked: Any = tf


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"ksize": 0}, "`ksize` contains 0"),
        ({"ksize": 6}, "`ksize` = 6 does not fit"),
        ({"ksize": (2, 2, 2)}, "`ksize` = .* has 3 entries"),
        ({"ksize": (1, 2, 2, 2)}, "`ksize` = .* pools the batch or the channels"),
        ({"strides": (2, 1, 1, 1)}, "`strides` = .* pools the batch or the channels"),
        ({"strides": 0}, "`strides` contains 0"),
        ({"padding": "same"}, "`padding` = 'same' is not a padding"),
        ({"padding": 1}, "`padding` = 1 is neither a name nor one pair per axis"),
        ({"padding": [(0, 0), (0, 0), (2, 0), (0, 0)]}, "each pad needs to be smaller"),
        ({"padding": [(1, 0), (0, 0), (0, 0), (0, 0)]}, "and 0 for the others"),
        ({"padding": [(0, 0), (-1, 0), (0, 0), (0, 0)]}, "`padding` contains -1"),
        ({"data_format": "NWC"}, "does not match `data_format` 'NWC'"),
        ({"input": X[0, 0]}, "does not match `data_format` None"),
        ({"padding": [0, 1, 1, 0]}, "`padding` = .* is neither a name nor one pair per axis"),
        ({"padding": np.zeros((4, 3), int)}, "`padding` = .* is neither a name nor one pair per"),
    ],
)
def test_what_max_pool_refuses(change: dict[str, Any], match: str) -> None:
    call = {"input": X, "ksize": 2, "strides": 1, "padding": "VALID"} | change
    with pytest.raises(ValueError, match=f"^max_pool: (.|\n)*{match}"):
        tf.max_pool(**call)


@pytest.mark.parametrize("size", [2.0, [1.0, 2, 2, 1], [True, 2, 2, True]])
def test_sizes_are_integers(size: Any) -> None:
    for sizes in ({"ksize": size, "strides": 1}, {"ksize": 2, "strides": size}):
        with pytest.raises(TypeError, match="^max_pool: `(ksize|strides)` contains"):
            tf.max_pool(X, **sizes, padding="VALID")


@pytest.mark.parametrize(
    "change",
    [{"data_format": "NCHW"}, {"input": X[0]}, {"input": X[:0]}, {"padding": [(0, 0)] * 4}],
)
def test_what_argmax_refuses(change: dict[str, Any]) -> None:
    call = {"input": X, "ksize": 2, "strides": 1, "padding": "VALID"} | change
    with pytest.raises(ValueError, match="only arrays in NHWC, not empty, and padding by name"):
        tf.max_pool_with_argmax(**call)


def test_an_index_that_does_not_fit_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match="Give a wider `output_dtype`"):
        tf.max_pool_with_argmax(np.zeros((1, 20, 20, 1)), 2, 2, "VALID", output_dtype=np.uint8)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: unchecked.max_pool(None, 2, 2, "SAME"), TypeError, "^max_pool: `input` is None"),
        (lambda: unchecked.avg_pool("x", 2, 2, "SAME"), TypeError, "^avg_pool: `input` is 'x'"),
        (
            lambda: unchecked.avg_pool(X, 2, 2, np.zeros((4, 2), int)),
            ValueError,
            "^avg_pool: `padding` = .* is not a padding",
        ),
        (
            lambda: unchecked.max_pool_with_argmax(X, 2, 2, "SAME", include_batch_in_index="no"),
            TypeError,
            "`include_batch_in_index` = 'no' is not a bool",
        ),
        (
            lambda: unchecked.max_pool_with_argmax(X, 2, 2, "SAME", output_dtype="float32"),
            TypeError,
            "`output_dtype` = 'float32' is not a native integer dtype",
        ),
        (
            lambda: fused(5, -5),
            ValueError,
            "`activation_min` = 5 and `activation_max` = -5 leave no value",
        ),
        (lambda: fused(300, 400), ValueError, "= 400 leave no value of int8"),
        (lambda: fused(-0.5, 1), TypeError, "`activation_min` contains -0.5"),
        (
            lambda: unchecked.tflite_average_pool_2d(X.astype(np.int8), "2", 2, 1, 1, "VALID"),
            TypeError,
            "^tflite_average_pool_2d: `filter_height` contains '2'",
        ),
        (
            lambda: tf.tflite_average_pool_2d(X.astype(np.int8), 2, 2, 1, 0, "VALID"),
            ValueError,
            "^tflite_average_pool_2d: `stride_w` contains 0",
        ),
    ],
)
def test_other_refusals(call: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()


def test_an_activation_wider_than_the_dtype_clamps_to_it() -> None:
    assert fused(-200, 300).tolist() == fused(None, None).tolist()


def fused(low: Any, high: Any) -> Any:
    return unchecked.tflite_average_pool_2d(X.astype(np.int8), 2, 2, 1, 1, "VALID", low, high)


def test_averages_are_of_floats() -> None:
    with pytest.raises(TypeError, match="^avg_pool: `input` has dtype int8"):
        tf.avg_pool(X.astype(np.int8), 2, 1, "VALID")
    with pytest.raises(ValueError, match="^avg_pool: `padding` = .* is not a padding"):
        tf.avg_pool(X, 2, 1, [(0, 0)] * 4)  # pyright: ignore
    with pytest.raises(TypeError, match="^tflite_average_pool_2d: `input` has dtype float32"):
        tf.tflite_average_pool_2d(X, 2, 2, 1, 1, "VALID")
