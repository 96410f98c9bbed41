"""``jax.export`` of the front ends with symbolic sizes, against loops over windows in NumPy."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import elements_of_windows
from helpers import exported_call

import jaxpool
from jaxpool.compat import equinox, flax, onednn, onnx, openvino, tensorflow, torch

pytestmark = pytest.mark.grid(6)

FIT_INT32 = ("b <= 64", "c <= 64", "h <= 99", "w <= 99")
LOWEST = float(np.finfo(np.float32).min)


def exported(function: Any, constraints: tuple[str, ...] = FIT_INT32) -> Callable[..., Any]:
    return exported_call("b, c, h, w", function, constraints)


def images(height: int, width: int) -> np.ndarray:
    """Return numbers of which many are equal, NaN or -inf."""
    rng = np.random.default_rng(height)
    x = rng.integers(-3, 4, (2, 3, height, width)).astype(np.float32)
    x[rng.random(x.shape) < 0.25] = np.nan
    x[rng.random(x.shape) < 0.25] = -np.inf
    return x


# --- maxima ---------------------------------------------------------------------------------------


class Found(NamedTuple):
    """The value of a window, and the position of this element, if any."""

    value: float
    number: int | None


def last_nan(elements: np.ndarray) -> Found:
    nans = np.flatnonzero(np.isnan(elements))
    number = int(nans[-1] if len(nans) else elements.argmax())
    return Found(elements[number], number)


def from_first(elements: np.ndarray) -> Found:
    number = 0 if np.isnan(elements[0]) else int(np.nanargmax(elements))
    return Found(elements[number], number)


def of_numbers(elements: np.ndarray) -> Found:
    """Return TensorFlow's result: value and derivative follow different rules."""
    return Found(above_lowest(elements).value, from_first(elements).number)


def above_lowest(elements: np.ndarray) -> Found:
    above = elements > LOWEST
    if not above.any():
        return Found(LOWEST, None)
    number = int(np.where(above, elements, -np.inf).argmax())
    return Found(elements[number], number)


K, S, D, P = (3, 2), (2, 1), (1, 1), (1, 1)
Pool = Callable[[Any], Any]
Pick = Callable[[np.ndarray], Found]


def same_padding(sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    totals = [max(k - (n % s or s), 0) for n, k, s in zip(sizes, K, S, strict=True)]
    return [(total // 2, total - total // 2) for total in totals]


def around(sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    return [P, P]


def channels_last(pool: Pool) -> Pool:
    return lambda x: jax.tree.map(
        lambda y: jnp.moveaxis(y, -1, 1), pool(jnp.moveaxis(jnp.asarray(x), 1, -1))
    )


MAXIMA: dict[str, tuple[Pool, Pick, Callable[..., Any]]] = {
    "torch": (lambda x: torch.max_pool2d(x, K, S, P), last_nan, around),
    "onnx": (lambda x: onnx.max_pool(x, K, strides=S, pads=P + P)[0], from_first, around),
    "onnx, SAME": (
        lambda x: onnx.max_pool(x, K, strides=S, auto_pad="SAME_UPPER")[0], from_first,
        same_padding,
    ),
    "openvino": (lambda x: openvino.max_pool_v1(x, S, P, P, K), above_lowest, around),
    "openvino, same": (
        lambda x: openvino.max_pool_v8(x, S, D, P, P, K, "floor", "same_upper")[0],
        above_lowest, same_padding,
    ),
    "tensorflow": (
        channels_last(lambda x: tensorflow.max_pool(x, K, S, "SAME")), of_numbers, same_padding,
    ),
    "tensorflow, pairs": (
        lambda x: tensorflow.max_pool(x, K, S, ((0, 0), (0, 0), P, P), "NCHW"), of_numbers, around,
    ),
    "tensorflow, argmax": (
        channels_last(lambda x: tensorflow.max_pool_with_argmax(x, K, S, "SAME")[0]), from_first,
        same_padding,
    ),
    "onednn": (lambda x: onednn.forward_inference(x, "max", K, S, 0, P, P), above_lowest, around),
}  # fmt: skip


@pytest.mark.grid(2)
@pytest.mark.parametrize("name", MAXIMA)
def test_maxima_by_the_rule_of_a_system_take_any_size(name: str) -> None:
    """Includes the stem of a ResNet: windows of 3 at stride 2, padding at both ends."""
    pool, pick, padding = MAXIMA[name]
    call = exported(pool)
    for size in ((1, 1), (2, 3), (9, 12)):
        x = images(*size)
        if name == "onednn":  # in a window without a number, offset 0 has the derivative
            x = np.nan_to_num(x, nan=-5, neginf=-7)
        shape, windows = elements_of_windows(_last(x), K, S, padding(size), D)
        values, slope = np.zeros(shape, np.float32), np.zeros_like(_last(x))
        weights = np.random.default_rng(0).integers(1, 9, shape).astype(np.float32)
        for at, places in windows:
            found = pick(np.array([_last(x)[place] for place in places]))
            values[at] = found.value
            if found.number is not None:
                slope[places[found.number]] += weights[at]
        y, pull = jax.vjp(call, x)
        np.testing.assert_array_equal(_last(y), values, err_msg=str(size))
        (gradient,) = pull(jnp.asarray(np.moveaxis(weights, -1, 1)))
        np.testing.assert_array_equal(_last(gradient), slope, err_msg=str(size))


def _last(x: Any) -> np.ndarray:
    return np.moveaxis(np.asarray(x), 1, -1)


INDICES: dict[str, tuple[Pool, Pick, Callable[..., Any], Callable[..., Any]]] = {
    "torch": (
        lambda x: torch.max_pool2d(x, K, S, P, return_indices=True)[1], last_nan, around,
        lambda x: np.arange(x[0, 0].size).reshape(1, 1, *x.shape[2:]),
    ),
    "onnx": (
        lambda x: onnx.max_pool(x, K, strides=S, pads=P + P)[1], from_first, around,
        lambda x: np.arange(x.size).reshape(x.shape),
    ),
    "onnx, by columns": (
        lambda x: onnx.max_pool(x, K, strides=S, pads=P + P, storage_order=1)[1], from_first,
        around,
        lambda x: np.arange(x.size).reshape(*x.shape[:2], x.shape[3], x.shape[2]).swapaxes(2, 3),
    ),
    "openvino": (
        lambda x: openvino.max_pool_v14(x, S, D, P, P, K, axis=1)[1], above_lowest, around,
        lambda x: np.arange(x[0].size).reshape(1, *x.shape[1:]),
    ),
    "tensorflow": (
        channels_last(lambda x: tensorflow.max_pool_with_argmax(x, K, S, "SAME")[1]), from_first,
        same_padding, lambda x: np.arange(_last(x)[0].size).reshape(1, *_last(x).shape[1:])
            .transpose(0, 3, 1, 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INDICES)
def test_indices_by_the_rule_of_a_system_take_any_size(name: str) -> None:
    pool, pick, padding, numbering = INDICES[name]
    call = exported(pool)
    for size in ((1, 1), (2, 3), (9, 12)):
        x = images(*size)
        numbers = _last(np.broadcast_to(numbering(x), x.shape))
        shape, windows = elements_of_windows(_last(x), K, S, padding(size), D)
        want = np.zeros(shape, np.int64)
        for at, places in windows:
            number = pick(np.array([_last(x)[place] for place in places])).number
            none = (at[0], 0, 0, at[-1])  # OpenVINO's element if it selects none
            want[at] = numbers[none if number is None else places[number]]
        np.testing.assert_array_equal(_last(call(x)), want, err_msg=str(size))


def test_the_workspace_of_onednn_takes_any_size() -> None:
    """A window offset is the number of the tap, also if the window starts in padding."""
    call = exported(lambda x: onednn.forward_training(x, "max", K, S, 0, P, P)[1])
    x = np.array([[[[5.0, 1.0, 2.0], [3.0, 4.0, 6.0]]]], np.float32)
    np.testing.assert_array_equal(call(x), [[[[3, 2, 5, 4]]]])
    np.testing.assert_array_equal(call(np.full((1, 1, 1, 1), -np.inf, np.float32)), [[[[0, 0]]]])


# --- global pools, averages and other ops ---------------------------------------------------------


@pytest.mark.deep
def test_maxima_of_whole_planes_take_any_size() -> None:
    """PyTorch selects the last NaN; ONNX and OpenVINO a NaN in the first position."""
    pools = {
        last_nan: lambda x: torch.adaptive_max_pool2d(x, 1, return_indices=True),
        from_first: lambda x: openvino.adaptive_max_pool_v8(x, (1, 1), "i32"),
    }
    for pick, pool in pools.items():
        call, values = exported(pool), exported(lambda x, pool=pool: pool(x)[0])
        for size in ((1, 1), (2, 3), (9, 12)):
            x = images(*size)
            found = [pick(plane.ravel()) for plane in x.reshape(-1, *size)]
            y, indices = call(x)
            np.testing.assert_array_equal(y.ravel(), [value for value, _ in found])
            np.testing.assert_array_equal(indices.ravel(), [number for _, number in found])
            gradient = jax.vjp(values, x)[1](jnp.ones_like(y))[0].reshape(6, -1)
            for plane, (value, number) in zip(gradient, found, strict=True):
                stays = pick is from_first and np.isnan(value)  # has no gradient
                np.testing.assert_array_equal(np.flatnonzero(plane), [] if stays else [number])
    unbounded = exported(onnx.global_max_pool, ())
    x = images(9, 12)
    want = [from_first(plane).value for plane in x.reshape(6, -1)]
    np.testing.assert_array_equal(unbounded(x).ravel(), want)


def _mean(elements: np.ndarray) -> float:
    return elements.mean()


def _root_of_cubes(elements: np.ndarray) -> float:
    total = 6 * (elements**3).mean()
    return total ** (1 / 3) if total >= 0 else math.nan


AVERAGES: dict[str, tuple[Pool, Callable[[np.ndarray], Any], Callable[..., Any]]] = {
    "torch": (
        lambda x: torch.avg_pool2d(x.astype(int), K, S, P).astype(x.dtype),
        lambda v: math.trunc(v.sum() / 6), around,
    ),
    "torch, of elements": (
        lambda x: torch.avg_pool2d(x.astype(int), K, S, P, False, False).astype(x.dtype),
        lambda v: math.trunc(v.sum() / len(v)), around,
    ),
    "torch, powers": (
        lambda x: torch.lp_pool2d(x, 3, K, S), _root_of_cubes, lambda sizes: [(0, 0), (0, 0)],
    ),
    "onnx, quantised": (
        lambda x: onnx.qlinear_average_pool(
            x.astype(jnp.int8), 0.5, 2, 0.25, 1, kernel_shape=K, strides=S, pads=P + P
        ).astype(x.dtype),
        lambda v: np.clip(round(((v - 2) * 0.5).sum() / len(v) / 0.25 + 1), -128, 127), around,
    ),
    "openvino": (lambda x: openvino.avg_pool_v1(x, S, P, P, K, True), _mean, around),
    "openvino, same": (
        lambda x: openvino.avg_pool_v14(x, S, P, P, K, True, auto_pad="same_upper"), _mean,
        same_padding,
    ),
    "openvino, taps": (
        lambda x: openvino.avg_pool_v1(x, S, P, P, K, False), lambda v: v.sum() / 6, around,
    ),
    "flax": (
        channels_last(lambda x: flax.avg_pool(x, K, S, "SAME", count_include_pad=False)), _mean,
        same_padding,
    ),
    "tflite": (
        channels_last(lambda x: tensorflow.tflite_average_pool_2d(
            x.astype(jnp.int8), *K, *S, "SAME").astype(x.dtype)),
        lambda v: math.copysign(math.floor(abs(v.sum()) / len(v) + 0.5), v.sum()), same_padding,
    ),
    "onednn, s32": (
        lambda x: onednn.forward_inference(
            x.astype(int), "avg_exclude_padding", K, S, 0, P, P
        ).astype(x.dtype),
        lambda v: round(v.sum() / len(v)), around,
    ),
}  # fmt: skip


@pytest.mark.grid(2)
@pytest.mark.parametrize("name", AVERAGES)
def test_averages_by_the_rule_of_a_system_take_any_size(name: str) -> None:
    pool, average, padding = AVERAGES[name]
    call = exported(pool, ())
    for size in ((1, 1), (4, 3), (9, 12)):
        if name == "torch, powers" and size == (1, 1):
            continue  # no window fits
        rng = np.random.default_rng(size[0])
        x = rng.integers(-100, 100, (2, 3, *size)).astype(np.float32)
        shape, windows = elements_of_windows(_last(x), K, S, padding(size), D)
        want = np.zeros(shape)
        for at, places in windows:
            want[at] = average(np.array([_last(x)[place] for place in places], np.float64))
        np.testing.assert_allclose(_last(call(x)), want, rtol=1e-5, atol=1e-5, err_msg=str(size))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32"])
@pytest.mark.parametrize("name", ["global_avg_pool", "adaptive_avg_pool2d"])
def test_averages_of_integers_over_whole_planes_need_a_bound(name: str, dtype: str) -> None:
    own = lambda x: jaxpool.global_avg_pool(x.astype(dtype), data_format="NCHW")  # noqa: E731
    theirs = lambda x: torch.adaptive_avg_pool2d(x.astype(dtype), 1)  # noqa: E731
    pool, rounded = (own, round) if name == "global_avg_pool" else (theirs, math.trunc)
    call = exported(pool)
    for size in ((1, 1), (4, 3), (9, 12), (99, 99)):
        x = np.random.default_rng(2).integers(-90 * (dtype[0] == "i"), 99, (2, 3, *size))
        want = [rounded(Fraction(int(plane.sum()), plane.size)) for plane in x.reshape(6, -1)]
        np.testing.assert_array_equal(call(x.astype(np.float32)).ravel(), want)
    with pytest.raises(ValueError) as caught:
        exported(pool, ("h <= 99",))
    what, facts, advice = str(caught.value).split("\n")
    assert what == f"{name}: windows may have over {2**28} elements."
    assert "h*w, which is symbolic" in facts
    assert '"w <= 1024"' in advice


REFUSED: dict[str, Pool] = {
    "torch": lambda x: torch.max_pool2d(x, 3),
    "onnx": lambda x: onnx.average_pool(x, [3, 3]),
    "openvino": lambda x: openvino.avg_pool_v1(x, (1, 1), (0, 0), (0, 0), (3, 3), True),
    "tensorflow": lambda x: tensorflow.avg_pool(x, 3, 1, "VALID", "NCHW"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_array_without_a_window_is_refused_if_a_constraint_says_so(name: str) -> None:
    """Only JAX checks the sizes in a call of an artifact."""
    pool, small = REFUSED[name], jnp.ones((1, 1, 2, 5))
    with pytest.raises(ValueError, match="does not fit"):
        pool(small)
    assert exported(pool)(small).shape[2] == 0
    with pytest.raises(ValueError, match="shape"):
        exported(pool, (*FIT_INT32, "h >= 3"))(small)


def test_pieces_of_equinox_take_any_size_if_they_are_one() -> None:
    x = np.random.default_rng(0).integers(-9, 9, (1, 3, 5, 7)).astype(np.float32)
    for layer, whole in (
        (equinox.AdaptiveAvgPool2d(1), np.mean),
        (equinox.AdaptiveMaxPool2d(1), np.max),
    ):
        call = exported(lambda x, layer=layer: jax.vmap(layer)(x), ())
        want = whole(x, (2, 3), keepdims=True)
        np.testing.assert_allclose(call(x), want, rtol=1e-6)
    rest = exported(lambda x: jax.vmap(equinox.AdaptiveAvgPool2d(1))(x[:, :, 2:]), ())
    np.testing.assert_allclose(rest(x), x[:, :, 2:].mean((2, 3), keepdims=True), rtol=1e-6)
    with pytest.raises(ValueError, match="^AdaptiveMaxPool2d: pooled axis 0 has the symbolic size"):
        exported(lambda x: jax.vmap(equinox.AdaptiveMaxPool2d((1, 2)))(x), ())


@pytest.mark.parametrize("pads", [((-2, 0), (1, -1)), ((3, 2), (0, 4)), ((-1, 5), (2, 2))])
def test_any_padding_of_flax_takes_any_size(pads: Any) -> None:
    """Negative padding crops; windows in the padding have no average."""
    pool = channels_last(lambda x: flax.avg_pool(x, (2, 2), (2, 2), pads, False))
    call = exported(pool, ())
    for size in ((4, 3), (9, 12)):
        x = np.random.default_rng(size[0]).integers(-9, 9, (2, 3, *size)).astype(np.float32)
        np.testing.assert_allclose(call(x), pool(x), rtol=1e-6)


def test_what_onednn_makes_of_a_kernel_that_does_not_fit_depends_on_the_size() -> None:
    """A window that is too long by less than a stride is one window, else refused."""
    pool = lambda x: onednn.forward_inference(x, "max", (2, 2), (2, 2), 0, 0, (0, -1))  # noqa: E731
    call = exported(pool, ("h >= 2", "w >= 3"))
    x = images(5, 6)
    np.testing.assert_array_equal(call(x).shape, (2, 3, 2, 2))
    np.testing.assert_array_equal(call(x), pool(x))
    with pytest.raises(ValueError) as caught:
        exported(pool, ("h >= 2",))
    what, facts, advice = str(caught.value).split("\n")
    assert what == (
        "forward_inference: pooled axis 1 has the symbolic size w, which may be too small."
    )
    assert "spans 2 elements, with padding (0, -1)" in facts
    assert 'constraints=["w >= 3"]' in advice


def test_what_backward_of_onednn_needs_is_said_in_its_words() -> None:
    """It has no rounding; the absent source must have two windows."""
    words = ("max", (3, 2), (2, 1), 0, (1, 0))

    def back(x: Any, after: tuple[int, int]) -> Any:
        y, taps = onednn.forward_training(x, *words, after)
        return onednn.backward(y, taps, *words, after, src_shape=x.shape)

    with pytest.raises(ValueError, match="^backward: pooled axis 0 .*\n.*\n  Use stride 1, or no "):
        exported(lambda x: back(x, (1, 0)), ("h >= 6", "w >= 4"))
    with pytest.raises(ValueError) as caught:
        exported(lambda x: back(x, (0, 0)), ("h >= 5", "w >= 4"))
    what, facts, advice = str(caught.value).split("\n")
    assert what == "backward: pooled axis 0 has the symbolic size h, which may be too small."
    assert "must have space for two windows that do not overlap" in facts and 'h >= 6"' in advice


def test_fractional_windows_need_known_sizes() -> None:
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="^fractional_max_pool2d: pooled axis 0 has the symbolic"):
        exported(lambda x: torch.fractional_max_pool2d(x, 2, 3, key=key), ())


def test_wide_indices_need_no_bound() -> None:
    with pytest.raises(ValueError, match="may not fit int32"):
        exported(lambda x: onnx.max_pool(x, K), ())
    with jax.enable_x64(True):
        y, indices = exported(lambda x: onnx.max_pool(x, K), ())(images(5, 4))
    assert (y.dtype, indices.dtype, indices.shape) == (jnp.float32, jnp.int64, (2, 3, 3, 3))
